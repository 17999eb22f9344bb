"""Draw the attention maps of a document: which words attend to which.

The model reads one unit of the split --split with its reference. A map is drawn for every kind of
attention in every layer: self and cross, within a sentence (group) and over the whole document
(global), to a context, and of a recurrent memory what is written to it (a map for each sentence)
and what is read from it. Rows are what attends, in the decoder by the word that is predicted.

--out DIR gets a picture for every map (SVG), a page with all of them (index.html), and their
numbers (maps.json).
"""

from __future__ import annotations

import argparse
import re
from pathlib import Path

from gtrans.cli.shared.model_options import add_device, add_read
from gtrans.errors import GtransError
from gtrans.identity.files import check_output_folder
from gtrans.libraries import ENGINE
from gtrans.messages import print_lines

EXAMPLE = (
    "gtrans analyse maps --path checkpoints/checkpoint_best.pt --data data --split test --unit 3 "
    "--sentences 2-3 --out maps"
)
NEEDS = (*ENGINE, "matplotlib")
KINDS = ("self", "cross", "context", "memory", "update")


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the options of ``gtrans analyse maps``."""
    files = parser.add_argument_group("files")
    files.add_argument("--path", required=True, metavar="CKPT", help="checkpoint")
    add_read(files)
    files.add_argument(
        "--out", required=True, metavar="DIR", help="folder for the pictures; made if missing"
    )
    what = parser.add_argument_group("what is drawn")
    what.add_argument(
        "--unit",
        type=int,
        default=1,
        metavar="N",
        help="number of the unit in the split: a document, a piece of a long one, or the window of "
        "a sentence, as the model reads it (default: %(default)s)",
    )
    what.add_argument(
        "--sentences", metavar="A-B", help="only what the sentences A to B of the unit attend to"
    )
    what.add_argument(
        "--layers", nargs="+", type=int, metavar="N", help="only these layers, from 1"
    )
    what.add_argument(
        "--kinds", nargs="+", choices=KINDS, help="only these kinds of attention (default: all)"
    )
    what.add_argument(
        "--heads", action="store_true", help="also a picture for every head, besides their mean"
    )
    add_device(parser.add_argument_group("size"))


def run(args: argparse.Namespace) -> None:
    """Draw.

    Raises:
        GtransError: the checkpoint, the data folder or its split is missing or damaged, there is
            no such unit, sentence or layer, or the folder cannot be written.
    """
    first, last = _sentences(args.sentences)
    folder = Path(args.out)
    check_output_folder("--out", folder, [args.data, args.path])
    from gtrans.decoding.loading import load_models
    from gtrans.lab.analysis.corpus import one_unit
    from gtrans.lab.analysis.gallery import INDEX, write_gallery
    from gtrans.lab.analysis.maps import attention_maps, of_sentences, unit_text

    (model,), task = load_models([args.path], args.data, cpu=args.cpu, fp16=args.fp16)
    device = next(model.parameters()).device
    net_input, target = one_unit(task, args.split, args.unit, device)
    text = unit_text(model, task, net_input, target)
    sentences = max(text.source.sentences or (1,))
    if args.sentences and last > sentences:
        raise GtransError(
            f"`--sentences {args.sentences}`: unit {args.unit} of {args.split} has {sentences} "
            "sentences."
        )
    maps = attention_maps(model, task.complete_input(net_input), text)
    maps = [
        one
        for one in (of_sentences(maps, first, last) if args.sentences else maps)
        if (not args.layers or one.place.layer in args.layers)
        and (not args.kinds or one.place.kind in args.kinds)
    ]
    if not maps:
        raise GtransError(
            f"{args.path}: it has no attention that --sentences, --layers and --kinds leave over."
        )
    folder.mkdir(parents=True, exist_ok=True)
    about = f"{args.path}, unit {args.unit} of {args.split}; the darker, the higher the weight."
    write_gallery(maps, folder, f"Attention of {Path(args.path).name}", about, args.heads)
    print_lines(f"{folder / INDEX}: {len(maps)} maps")


def _sentences(text: str | None) -> tuple[int, int]:
    """``A-B`` or ``A``."""
    found = re.fullmatch(r"(\d{1,6})(?:-(\d{1,6}))?", text or "1-1")
    first, last = (int(found[1]), int(found[2] or found[1])) if found else (1, 0)
    if not 1 <= first <= last:
        raise GtransError(f"`--sentences` must be A-B, counted from 1, but is '{text}'.")
    return first, last
