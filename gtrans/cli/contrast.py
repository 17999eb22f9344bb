"""Measure a model's accuracy on contrastive sets, by phenomenon and distance.

An item is a source document with its right translation and one or more wrong ones. They
differ where only the context tells which is right. The model scores every candidate by the sum
of the log-probabilities of its words and end marks, and reads the item in the unit that it was
trained with. An item counts as right only if the right candidate scores higher than all
others. The intervals are 95% Wilson intervals.

--random-context adds a control: the same items, each with the context of another item. A model
that uses context should be no better there than a model without context.

Published sets are read in their own formats:

  contrapro      contrapro.json with --documents, or a folder with en.txt, de.txt (<SEP> form)
  consistency    deixis_test.json, lex_cohesion_test.json, ellipsis_infl.json, ellipsis_vp.json
  discevalmt     anaphora.json, lexical-choice.json
  large-pronoun  the JSON file with --documents, or NAME.current.src next to its contexts
  jsonl          one JSON object per line, described in docs/evaluation.md
"""

from __future__ import annotations

import argparse
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from gtrans.cli.shared.model_options import (
    add_context,
    add_model_files,
    add_scoring,
    check_scoring,
    context_of,
)
from gtrans.cli.shared.tables import aligned
from gtrans.errors import GtransError
from gtrans.evaluation.contrastive import (
    READERS,
    Cell,
    Item,
    ReadOptions,
    Table,
    by_distance,
    pooled,
    random_contexts,
    read_items,
)
from gtrans.libraries import ENGINE
from gtrans.messages import json_text

EXAMPLE = (
    "gtrans contrast --path checkpoints/checkpoint_best.pt --data data-bin "
    "--set corpus/contrastive/*.jsonl --random-context"
)
NEEDS = ENGINE


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the options of ``gtrans contrast``."""
    files = parser.add_argument_group("files")
    add_model_files(files)
    files.add_argument(
        "--set",
        required=True,
        nargs="+",
        metavar="FILE",
        help="contrastive sets, gzipped or not; the folder, for a set of several files",
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
        help="for JSON files of contrapro and large-pronoun: the folder of the documents that "
        "contain the contexts",
    )
    files.add_argument(
        "--context",
        type=int,
        default=1,
        metavar="N",
        help="for these two formats: the most sentences of context (default: %(default)s)",
    )
    control = parser.add_argument_group("control")
    control.add_argument(
        "--random-context",
        action="store_true",
        help="also score every item with the context of another item",
    )
    control.add_argument(
        "--seed",
        type=int,
        default=1,
        metavar="N",
        help="random seed for the choice of these contexts (default: %(default)s)",
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
    items = _items_of(args.set, args.format, options)
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
        load_pipeline(task.data_folder, task.cfg.source_lang),
        load_pipeline(task.data_folder, task.cfg.target_lang),
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
        print(json_text(report(table, control, str(task.cfg.unit))))
    else:
        print("\n".join(lines(table, control)))


def _items_of(paths: Sequence[str], format: str, options: ReadOptions) -> list[Item]:
    """The items of all sets; raises GtransError if one is given twice, under any name."""
    sets: list[list[Item]] = []
    for path in paths:
        found = read_items(path, format, options)
        if found in sets:
            raise GtransError(
                f"`--set`: {path} holds the same items as {paths[sets.index(found)]}, which would "
                "count twice; give one of them."
            )
        sets.append(found)
    return [item for found in sets for item in found]


def report(table: Table, control: Table | None, unit: str) -> dict[str, Any]:
    """What ``--json`` prints; accuracies are from 0 to 1, keys of distances are strings.

    ``{"unit": .., "contrastive": {phenomenon: {"1": accuracy, ..}}, "intervals":
    {phenomenon: {"1": [low, high], ..}}, "items": {phenomenon: {"1": number, ..}}, "cue":
    {phenomenon: {"1": side, ..}}, "by_phenomenon": {phenomenon: whole}, "by_distance":
    {"1": whole, ..}, "all": whole}`` with ``{"accuracy": .., "interval": [low, high],
    "items": number}`` for ``whole``. With a control there is also ``"random_context"``, which
    repeats all entries that hold accuracies.
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

    Totals follow where there is more than one line to add up: per phenomenon, and over all.
    """
    rows = [["phenomenon", "distance", "accuracy", "95% interval", "items", "cue"]]
    rows[0] += ["random context"] if control is not None else []
    other = {} if control is None else control

    def add(phenomenon: str, distance: str, cell: Cell, control_cell: Cell | None) -> None:
        low, high = cell.interval
        row = [phenomenon, distance, f"{100 * cell.accuracy:.1f}"]
        row += [f"{100 * low:.1f}-{100 * high:.1f}", str(cell.items), cell.cue]
        if control_cell is not None:
            row.append(f"{100 * control_cell.accuracy:.1f}")
        rows.append(row)

    for phenomenon, cells in table.items():
        controls = other.get(phenomenon, {})
        for distance, cell in cells.items():
            add(phenomenon, _distance(distance), cell, controls.get(distance))
        if len(cells) > 1:
            control_cell = pooled(controls.values()) if controls else None
            add(phenomenon, "all", pooled(cells.values()), control_cell)
    if len(table) > 1:
        sums, controls = by_distance(table), by_distance(other)
        for distance, cell in sums.items():
            add("all", _distance(distance), cell, controls.get(distance))
        if len(sums) > 1:
            control_cell = pooled(controls.values()) if controls else None
            add("all", "all", pooled(sums.values()), control_cell)
    return aligned(rows, words={0, 5})


def _distance(distance: int | None) -> str:
    return "unknown" if distance is None else str(distance)
