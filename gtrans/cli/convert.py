"""Turn a checkpoint of another program into one that all commands here read.

`--from g-transformer` reads IN.pt, a checkpoint of the authors' G-Transformer (fairseq
0.9: its options and its state dict), and writes OUT.pt. Layers, widths, global layers and
shared embeddings are found in the tensors themselves. DIR holds the dictionaries that the
model was trained with (dict.LANG.txt, as fairseq-preprocess writes them). What was found,
renamed and ignored is printed; a model with parts that do not exist here is refused.

The new checkpoint translates (`gtrans translate`, `fairseq-generate DIR --user-dir gtrans
--task document_translation --path OUT.pt`) and starts training (`--init-from`,
`--finetune-from-model`).
"""

from __future__ import annotations

import argparse
from pathlib import Path

EXAMPLE = "gtrans convert --from g-transformer --data data-bin checkpoint_best.pt converted.pt"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the options of ``gtrans convert``."""
    parser.add_argument(
        "--from",
        dest="program",
        required=True,
        choices=["g-transformer"],
        help="the program that wrote IN.pt",
    )
    parser.add_argument(
        "--data", type=Path, required=True, metavar="DIR", help="folder of the dictionaries"
    )
    parser.add_argument(
        "--unit",
        choices=["document", "sentence"],
        default="document",
        help="what the model was trained on (default: %(default)s)",
    )
    parser.add_argument(
        "--max-doc-tokens",
        type=int,
        default=512,
        metavar="N",
        help="most tokens of a document unit (default: %(default)s, as the authors have it)",
    )
    parser.add_argument("source", type=Path, metavar="IN.pt", help="checkpoint to read")
    parser.add_argument("target", type=Path, metavar="OUT.pt", help="checkpoint to write")


def run(args: argparse.Namespace) -> None:
    """Convert and say what was found."""
    # Imported on demand: torch and fairseq need seconds, which --help should not.
    from gtrans.conversion import convert_g_transformer

    summary = convert_g_transformer(
        args.source, args.target, args.data, args.unit, args.max_doc_tokens
    )
    print(f"{args.source}:")
    for line in summary.lines():
        print(f"  {line}")
    print(f"written to {args.target}")
