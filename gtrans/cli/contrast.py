"""Accuracy of a model on contrastive sets, by phenomenon and distance.

An item is a source document with its right translation and wrong ones, which differ in
what only the context decides. The model scores every candidate: the sum of the
log-probabilities of its words and end marks, the document read as a whole or sentence by
sentence, as the model was trained. An item counts as right if the right candidate has
strictly the highest score. Intervals are Wilson's, 95%.

--random-context adds a control: the same items, each with the context of another one. A
model that uses context falls there to what one without context reaches.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Callable
from typing import Any

from gtrans.cli._model import add_context, add_device, add_model_files, context_of
from gtrans.errors import GtransError
from gtrans.evaluation.contrastive import READERS, Cell, Table, random_contexts, read_items

EXAMPLE = (
    "gtrans contrast --path checkpoints/checkpoint_best.pt --data data-bin "
    "--set corpus/contrastive/*.jsonl --random-context"
)


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the options of ``gtrans contrast``."""
    files = parser.add_argument_group("files")
    add_model_files(files)
    files.add_argument(
        "--set", required=True, nargs="+", metavar="FILE", help="contrastive sets, gzipped or not"
    )
    files.add_argument(
        "--format",
        choices=list(READERS),
        default="jsonl",
        help="format of the sets; jsonl is that of 'gtrans make-corpus' (default: %(default)s)",
    )
    control = parser.add_argument_group("control")
    control.add_argument(
        "--random-context",
        action="store_true",
        help="score all items with the context of another item of their set as well",
    )
    control.add_argument(
        "--seed",
        type=int,
        default=1,
        metavar="N",
        help="chooses those contexts (default: %(default)s)",
    )
    size = parser.add_argument_group("size")
    size.add_argument(
        "--max-tokens",
        type=int,
        default=2000,
        metavar="N",
        help="tokens of a batch, padding included; documents are never cut, a longer one "
        "stands alone (default: %(default)s)",
    )
    add_device(size)
    add_context(parser)
    parser.add_argument("--json", action="store_true", help="write JSON to standard output")


def run(args: argparse.Namespace) -> None:
    """Print the accuracies.

    Raises:
        GtransError: a set, a checkpoint or the data folder is missing or damaged, they do
            not fit each other, or an option has an impossible value.
    """
    if args.max_tokens < 1:
        raise GtransError(f"`--max-tokens` must be at least 1, but is {args.max_tokens}.")
    items = [item for path in args.set for item in read_items(path, args.format)]
    variants = {"true context": items}
    if args.random_context:
        variants["random context"] = random_contexts(items, args.seed)

    # Imported on demand: torch and fairseq need seconds, which --help and a mistake in a
    # set should not.
    from gtrans.data.text_pipeline import load_pipeline
    from gtrans.decoding.contrast import evaluate
    from gtrans.decoding.loading import load_models, split_paths

    models, task = load_models(
        split_paths(args.path), args.data, context_of(args), cpu=args.cpu, fp16=args.fp16
    )
    pipelines = (
        task.source_encoder(),
        load_pipeline(args.data, task.cfg.target_lang),
    )
    tables = [
        evaluate(models, task, pipelines, variant, max_tokens=args.max_tokens, progress=name)
        for name, variant in variants.items()
    ]
    table, control = tables[0], tables[1] if args.random_context else None
    if args.json:
        print(json.dumps(report(table, control, str(task.cfg.unit)), indent=2))
    else:
        print("\n".join(lines(table, control)))


def report(table: Table, control: Table | None, unit: str) -> dict[str, Any]:
    """What ``--json`` prints; accuracies are from 0 to 1, keys of distances are strings.

    ``{"unit": .., "contrastive": {phenomenon: {"1": accuracy, ..}}, "intervals":
    {phenomenon: {"1": [low, high], ..}}, "items": {phenomenon: {"1": number, ..}}, "cue":
    {phenomenon: {"1": side, ..}}}``; with a control also ``"random_context":
    {"contrastive": .., "intervals": ..}``.
    """

    def each(table: Table, value: Callable[[Cell], object]) -> dict[str, dict[str, object]]:
        return {
            phenomenon: {str(distance): value(cell) for distance, cell in cells.items()}
            for phenomenon, cells in table.items()
        }

    def accuracies(table: Table) -> dict[str, Any]:
        return {
            "contrastive": each(table, lambda cell: cell.accuracy),
            "intervals": each(table, lambda cell: list(cell.interval)),
        }

    result: dict[str, Any] = {
        "unit": unit,
        **accuracies(table),
        "items": each(table, lambda cell: cell.items),
        "cue": each(table, lambda cell: cell.cue),
    }
    if control is not None:
        result["random_context"] = accuracies(control)
    return result


def lines(table: Table, control: Table | None) -> list[str]:
    """The table as text: a heading, and a line for each phenomenon and distance."""
    rows = [["phenomenon", "distance", "accuracy", "95% interval", "items", "cue"]]
    rows[0] += ["random context"] if control is not None else []
    for phenomenon, cells in table.items():
        for distance, cell in cells.items():
            low, high = cell.interval
            row = [phenomenon, str(distance), f"{100 * cell.accuracy:.1f}"]
            row += [f"{100 * low:.1f}-{100 * high:.1f}", str(cell.items), cell.cue]
            if control is not None:
                row.append(f"{100 * control[phenomenon][distance].accuracy:.1f}")
            rows.append(row)
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    words = {0, 5}  # columns of words begin at the left, those of numbers end at the right
    return [
        "  ".join(
            text.ljust(width) if column in words else text.rjust(width)
            for column, (text, width) in enumerate(zip(row, widths, strict=True))
        ).rstrip()
        for row in rows
    ]
