"""Accuracy of a model on contrastive sets, by phenomenon and distance.

An item is a source document with its right translation and wrong ones, which differ in
what only the context decides. The model scores every candidate: the sum of the
log-probabilities of its words and end marks, the document read as a whole or sentence by
sentence, as the model was trained. An item counts as right if the right candidate has
strictly the highest score. Intervals are Wilson's, 95%.

--random-context adds a control: the same items, each with the context of another one. A
model that uses context falls there to what one without context reaches.

Published sets are read as they are:

  contrapro      contrapro.json with --documents, or a folder with en.txt, de.txt (<SEP> form)
  consistency    deixis_test.json, lex_cohesion_test.json, ellipsis_infl.json, ellipsis_vp.json
  discevalmt     anaphora.json, lexical-choice.json
  large-pronoun  the JSON file with --documents, or NAME.current.src beside its contexts
  jsonl          one JSON object per line, described in docs/evaluation.md
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from gtrans.cli._model import add_context, add_model_files, add_scoring, check_scoring, context_of
from gtrans.cli._table import aligned
from gtrans.errors import GtransError
from gtrans.evaluation.contrastive import (
    READERS,
    Cell,
    ReadOptions,
    Table,
    by_distance,
    pooled,
    random_contexts,
    read_items,
)

EXAMPLE = (
    "gtrans contrast --path checkpoints/checkpoint_best.pt --data data-bin "
    "--set corpus/contrastive/*.jsonl --random-context"
)


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the options of ``gtrans contrast``."""
    files = parser.add_argument_group("files")
    add_model_files(files)
    files.add_argument(
        "--set",
        required=True,
        nargs="+",
        metavar="FILE",
        help="contrastive sets, gzipped or not; a folder where a set has several files",
    )
    files.add_argument(
        "--format",
        choices=list(READERS),
        default="jsonl",
        help="format of the sets; jsonl is that of 'gtrans make-corpus' (default: %(default)s)",
    )
    files.add_argument(
        "--documents",
        metavar="DIR",
        help="documents that JSON files of contrapro and large-pronoun take contexts from",
    )
    files.add_argument(
        "--context",
        type=int,
        default=1,
        metavar="N",
        help="most sentences of context of those two formats (default: %(default)s)",
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
    add_context(parser)
    add_scoring(parser)


def run(args: argparse.Namespace) -> None:
    """Print the accuracies.

    Raises:
        GtransError: a set, a checkpoint or the data folder is missing or damaged, they do
            not fit each other, or an option has an impossible value.
    """
    check_scoring(args)
    if args.context < 0:
        raise GtransError(f"`--context` must be at least 0, but is {args.context}.")
    if args.documents is not None and not Path(args.documents).is_dir():
        raise GtransError(f"`--documents`: there is no folder '{args.documents}'.")
    options = ReadOptions(args.documents and Path(args.documents), args.context)
    items = [item for path in args.set for item in read_items(path, args.format, options)]
    variants = {"true context": items}
    if args.random_context:
        variants["random context"] = random_contexts(items, args.seed)

    # Imported on demand: torch and fairseq need seconds, which --help and a mistake in a
    # set should not.
    from gtrans.decoding.contrast import evaluate
    from gtrans.decoding.loading import load_models, split_paths
    from gtrans.text.prepared_folder import load_pipeline

    models, task = load_models(
        split_paths(args.path), args.data, context_of(args), cpu=args.cpu, fp16=args.fp16
    )
    texts = (
        load_pipeline(args.data, task.cfg.source_lang),
        load_pipeline(args.data, task.cfg.target_lang),
    )
    join = (texts[0].detokenise, texts[1].detokenise)
    tables = [
        evaluate(
            models,
            task,
            (task.source_encoder(), texts[1]),
            [item.as_text(join) for item in variant],
            max_tokens=args.max_tokens,
            progress=name,
        )
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
    {phenomenon: {"1": side, ..}}, "by_phenomenon": {phenomenon: whole}, "by_distance":
    {"1": whole, ..}, "all": whole}`` with ``{"accuracy": .., "interval": [low, high],
    "items": number}`` for ``whole``; with a control also ``"random_context"``, where all that
    holds accuracies stands once more.
    """

    def of_distances(
        cells: Mapping[int | None, Cell], value: Callable[[Cell], object]
    ) -> dict[str, object]:
        return {_distance(distance): value(cell) for distance, cell in cells.items()}

    def each(table: Table, value: Callable[[Cell], object]) -> dict[str, dict[str, object]]:
        return {phenomenon: of_distances(cells, value) for phenomenon, cells in table.items()}

    def accuracies(table: Table) -> dict[str, Any]:
        return {
            "contrastive": each(table, lambda cell: cell.accuracy),
            "intervals": each(table, lambda cell: list(cell.interval)),
            "by_phenomenon": {name: whole(pooled(cells.values())) for name, cells in table.items()},
            "by_distance": of_distances(by_distance(table), whole),
            "all": whole(pooled(by_distance(table).values())),
        }

    def whole(cell: Cell) -> dict[str, object]:
        interval = list(cell.interval)
        return {"accuracy": cell.accuracy, "interval": interval, "items": cell.items}

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
    """The table as text: a heading, and a line for each phenomenon and distance.

    Sums follow where they say more: of a phenomenon over its distances, and of all.
    """
    rows = [["phenomenon", "distance", "accuracy", "95% interval", "items", "cue"]]
    rows[0] += ["random context"] if control is not None else []
    other = {} if control is None else control

    def add(phenomenon: str, distance: str, cell: Cell, beside: Cell | None) -> None:
        low, high = cell.interval
        row = [phenomenon, distance, f"{100 * cell.accuracy:.1f}"]
        row += [f"{100 * low:.1f}-{100 * high:.1f}", str(cell.items), cell.cue]
        rows.append(row if beside is None else [*row, f"{100 * beside.accuracy:.1f}"])

    for phenomenon, cells in table.items():
        controls = other.get(phenomenon, {})
        for distance, cell in cells.items():
            add(phenomenon, _distance(distance), cell, controls.get(distance))
        if len(cells) > 1:
            beside = pooled(controls.values()) if controls else None
            add(phenomenon, "all", pooled(cells.values()), beside)
    if len(table) > 1:
        sums, controls = by_distance(table), by_distance(other)
        for distance, cell in sums.items():
            add("all", _distance(distance), cell, controls.get(distance))
        if len(sums) > 1:
            beside = pooled(controls.values()) if controls else None
            add("all", "all", pooled(sums.values()), beside)
    return aligned(rows, words={0, 5})


def _distance(distance: int | None) -> str:
    return "unknown" if distance is None else str(distance)
