"""Draw the attention maps of a document: which words attend to which.

The model is run on one unit of the split --split and its reference. A map is drawn for every kind
of attention in every layer: self and cross, within a sentence (group) and over the whole document
(global), to a context, and for a recurrent memory its updates (a map for each sentence) and the
attention to it. Rows are the words that attend, in the decoder named by the word that is predicted.

--out DIR gets a picture for every map (SVG), and their numbers (maps.json).
"""

from __future__ import annotations

import argparse
import json
import re
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import pairwise
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from gtrans.cli.shared.model_options import add_device, add_read
from gtrans.decoding.loading import load_models
from gtrans.errors import GtransError
from gtrans.files import check_output_folder
from gtrans.lab.attention import Location, attention_watched
from gtrans.lab.measure import one_unit
from gtrans.lab.plots import figure_class, plain, write_together
from gtrans.libraries import ENGINE
from gtrans.messages import print_lines
from gtrans.modules.group_attention import AttentionPlan
from gtrans.modules.transformer import Pairs

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
        help="number of the unit in the split: a document, a chunk of a long one, or the window of "
        "a sentence (default: %(default)s)",
    )
    what.add_argument(
        "--sentences", metavar="A-B", help="only what the sentences A to B of the unit attend to"
    )
    what.add_argument(
        "--kinds", nargs="+", choices=KINDS, help="only these kinds of attention (default: all)"
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
    (model,), task = load_models([args.path], args.data, cpu=args.cpu, fp16=args.fp16)
    device = next(model.parameters()).device
    net_input, target = one_unit(task, args.split, args.unit, device)
    text = unit_text(model, task, net_input, target)
    maps = attention_maps(model, task.complete_input(net_input), text)
    if args.sentences:
        sentences = max(text.source.sentences or (1,))
        if last > sentences:
            raise GtransError(
                f"`--sentences {args.sentences}`: unit {args.unit} of {args.split} has {sentences} "
                "sentences."
            )
        maps = of_sentences(maps, first, last)
    maps = [one for one in maps if not args.kinds or one.place.kind in args.kinds]
    if not maps:
        raise GtransError(
            f"{args.path}: it has no attention that --sentences and --kinds leave over."
        )
    folder.mkdir(parents=True, exist_ok=True)
    contents: dict[Path, str | Callable[[], Any]] = {
        folder / f"{one.name}.svg": partial(draw_map, one) for one in maps
    }
    numbers = json.dumps([as_json(one) for one in maps], ensure_ascii=False)
    write_together({**contents, folder / "maps.json": f"{numbers}\n"})
    print_lines(f"{folder}: {len(maps)} maps")


def _sentences(text: str | None) -> tuple[int, int]:
    """``A-B`` or ``A``."""
    found = re.fullmatch(r"(\d{1,6})(?:-(\d{1,6}))?", text or "1-1")
    first, last = (int(found[1]), int(found[2] or found[1])) if found else (1, 0)
    if not 1 <= first <= last:
        raise GtransError(f"`--sentences` must be A-B, counted from 1, but is '{text}'.")
    return first, last


# -------------------------------------------------------------------------------------------------
#
# Attention maps of one unit: which words attend to which, layer by layer.


@dataclass(frozen=True)
class Axis:
    """What stands along one side of a map.

    Attributes:
        labels: the words, or numbers where there are none (memory vectors, a context).
        sentences: number of the sentence of each, from 1; None: they are in none.
    """

    labels: tuple[str, ...]
    sentences: tuple[int, ...] | None = None

    def chosen(self, places: Sequence[int]) -> Axis:
        """The part at ``places``."""
        sentences = self.sentences
        return Axis(
            tuple(self.labels[place] for place in places),
            None if sentences is None else tuple(sentences[place] for place in places),
        )


@dataclass(frozen=True)
class Map:
    """The weights of one attention.

    Attributes:
        place: which attention.
        sentence: of the words that write to a memory, from 1; None: the map is of all words.
        queries, keys: what attends, and to what.
        weights: ``(heads, queries, keys)``; the weights of a query add up to 1.
    """

    place: Location
    sentence: int | None
    queries: Axis
    keys: Axis
    weights: Tensor

    @property
    def name(self) -> str:
        """Its name as a file, unique among the maps of a unit."""
        sentence = "" if self.sentence is None else f"sentence-{self.sentence}"
        parts = (self.place.side, self.place.kind, self.place.range, f"layer-{self.place.layer}")
        return "-".join(filter(None, (*parts, sentence)))

    @property
    def title(self) -> str:
        """Its name for readers."""
        title = f"{self.place.side.replace('_', ' ')}, {_TITLES[self.place.kind]}"
        title += f" ({self.place.range})" if self.place.range else ""
        title += f", layer {self.place.layer}"
        return title if self.sentence is None else f"{title}, sentence {self.sentence}"


_TITLES = {
    "self": "self-attention",
    "cross": "cross-attention",
    "context": "attention to the context",
    "memory": "reading the memory",
    "update": "writing to the memory",
}


@dataclass(frozen=True)
class UnitText:
    """The words of one unit as a model reads and writes them.

    Attributes:
        source: what the encoder reads.
        read: what the decoder reads.
        written: what it predicts there.
        current: the part of ``source`` that is translated, in a window; otherwise all of it.
        context: what a frozen BERT (its word pieces) or a context encoder reads besides.
    """

    source: Axis
    read: Axis
    written: Axis
    current: Axis
    context: Axis = Axis(())


def unit_text(model: Any, task: Any, net_input: dict[str, Tensor], target: Tensor) -> UnitText:
    """The words of a batch of one unit.

    Args:
        model: reads it.
        task: its task.
        net_input: of the batch, with the word pieces that a BERT reads.
        target: ``(1, length)``.
    """
    layouts = model.layouts(net_input["src_tokens"], net_input["prev_output_tokens"])
    dictionaries = task.source_dictionary, task.target_dictionary
    source, read, written = (
        Axis(
            tuple(dictionary[token] for token in layout.pack(tokens).tolist()),
            tuple((layout.sentence + 1).tolist()),
        )
        for layout, tokens, dictionary in (
            (layouts[0], net_input["src_tokens"], dictionaries[0]),
            (layouts[1], net_input["prev_output_tokens"], dictionaries[1]),
            (layouts[1], target.to(net_input["prev_output_tokens"]), dictionaries[1]),
        )
    )
    current, context = source, Axis(())
    if "current" in net_input:
        inside = (layouts[0].sentence == int(net_input["current"])).tolist()
        current = source.chosen([n for n, here in enumerate(inside) if here])
        context = source.chosen([n for n, here in enumerate(inside) if not here])
    if "word_pieces" in net_input:
        symbols = task.bert.pieces.symbols
        context = Axis(tuple(symbols[piece] for piece in net_input["word_pieces"][0].tolist()))
    return UnitText(source, read, written, current, context)


def attention_maps(model: Any, net_input: dict[str, Tensor], text: UnitText) -> list[Map]:
    """The maps of all attentions of a model while it reads one unit, in the order of the data.

    Args:
        model: in evaluation mode.
        net_input: its input, a batch of one row.
        text: the words of this row.
    """
    calls: dict[Location, list[tuple[Tensor, Tensor]]] = {}

    def keep(place: Location, weights: Tensor, pairs: AttentionPlan | Pairs) -> None:
        calls.setdefault(place, []).append((weights.float().cpu(), pairs.visible.cpu()))

    with torch.no_grad(), attention_watched(model, keep):
        model(**net_input)
    maps = []
    for place, seen in sorted(calls.items(), key=lambda item: item[0].order):
        for number, (weights, visible) in enumerate(seen, 1):
            maps.append(_map(place, weights, visible, text, number))
    return maps


def _map(place: Location, weights: Tensor, visible: Tensor, text: UnitText, call: int) -> Map:
    queries, keys = weights.shape[1:]
    source = (text.source, text.current)
    of_decoder = place.side == "decoder"
    own = {"decoder": (text.written,), "context_encoder": (text.context,)}.get(place.side, source)
    if place.kind == "update":  # one call for each sentence
        words = text.read if of_decoder else text.source
        chosen = [n for n, sentence in enumerate(words.sentences or ()) if sentence == call]
        # The mark at a sentence's end may be left out.
        axis = _fitting(keys, words.chosen(chosen[:keys]))
        return Map(place, call, _fitting(queries), axis, weights)
    of_keys: Sequence[Axis] = own
    if place.kind == "memory":
        # Each sentence has its own memory beside those of the others.
        keys, of_keys = int(visible[0].sum()), ()
        weights = weights[:, visible].view(weights.size(0), queries, keys)
    elif place.kind == "cross":
        of_keys = source
    elif place.kind == "context":
        of_keys = (text.context,)
    elif of_decoder:
        of_keys = (text.read,)
    return Map(place, None, _fitting(queries, *own), _fitting(keys, *of_keys), weights)


def _fitting(count: int, *known: Axis) -> Axis:
    """The first of ``known`` that has ``count`` words; numbers if a part has no words here."""
    numbers = Axis(tuple(str(number) for number in range(1, count + 1)))
    return next((axis for axis in known if len(axis.labels) == count), numbers)


def of_sentences(maps: Iterable[Map], first: int, last: int) -> list[Map]:
    """The rows of some sentences, and of the columns those to which these rows attend."""
    found = []
    for one in maps:
        if one.sentence is None and one.queries.sentences is not None:
            rows = [n for n, it in enumerate(one.queries.sentences) if first <= it <= last]
            weights = one.weights[:, rows]
            columns = weights.sum((0, 1)).nonzero().squeeze(1).tolist()
            axes = one.queries.chosen(rows), one.keys.chosen(columns)
            found.append(Map(one.place, None, *axes, weights[:, :, columns]))
        elif one.sentence is None or first <= one.sentence <= last:
            found.append(one)
    return [one for one in found if one.weights.numel()]


def as_json(one: Map) -> dict[str, Any]:
    """A map as an object; its weights are the means of all heads, and those of each head."""
    return {
        "name": one.name,
        "side": one.place.side,
        "kind": one.place.kind,
        "range": one.place.range,
        "layer": one.place.layer,
        "sentence": one.sentence,
        "queries": one.queries.labels,
        "keys": one.keys.labels,
        "weights": _rounded(one.weights.mean(0)),
        "heads": [_rounded(head) for head in one.weights],
    }


def _rounded(weights: Tensor) -> list[list[float]]:
    return [[round(value, 5) for value in row] for row in weights.tolist()]


# -------------------------------------------------------------------------------------------------
#
# Attention maps as pictures; the darker, the higher the weight.

_MANY_WORDS = 100  # more have no names along the side, only numbers of sentences
_INCHES_A_WORD = 0.17


def draw_map(one: Map) -> Any:
    """A figure of matplotlib: the mean of all heads."""
    weights = one.weights.mean(0).numpy()
    rows, columns = weights.shape
    width, height = (2 + min(n, _MANY_WORDS) * _INCHES_A_WORD for n in (columns, rows))
    drawn = figure_class()(figsize=(width + 1, height), layout="constrained")
    axes = drawn.subplots()
    image = axes.imshow(
        weights, cmap="cividis_r", vmin=0, vmax=max(float(weights.max()), 1e-9), aspect="auto",
        interpolation="nearest",
    )  # fmt: skip
    for axis, of_axis, rotation in ((axes.xaxis, one.keys, 90), (axes.yaxis, one.queries, 0)):
        places, labels = _ticks(of_axis)
        axis.set_ticks(places, [plain(text) for text in labels], rotation=rotation, fontsize=7)
    for line, of_axis in ((axes.axhline, one.queries), (axes.axvline, one.keys)):
        for place in _begins(of_axis):
            line(place - 0.5, color="#D55E00", linewidth=0.6)
    drawn.colorbar(image, ax=axes, label="weight", fraction=0.05)
    axes.set_title(plain(one.title), fontsize="medium")
    return drawn


def _ticks(axis: Axis) -> tuple[list[int], list[str]]:
    count = len(axis.labels)
    if count <= _MANY_WORDS:
        return list(range(count)), list(axis.labels)
    if axis.sentences is None:
        places = list(range(0, count, count // 20))
        return places, [axis.labels[place] for place in places]
    places = [0, *_begins(axis)]
    return places, [f"sentence {axis.sentences[place]}" for place in places]


def _begins(axis: Axis) -> list[int]:
    """Where a sentence begins after another one."""
    pairs = enumerate(pairwise(axis.sentences or ()), start=1)
    return [place for place, (before, after) in pairs if before != after]
