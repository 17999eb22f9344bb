"""Draw BLEU of parts of the test set, by the length of sentences or their place in the document.

Files are those of 'gtrans score --json'; FILE:SYSTEM chooses one of several systems of a file.
Files with one LABEL are seeds: their mean is drawn, with the smallest and the largest. --baseline
draws the differences from one of the systems, with the intervals of the tests that 'gtrans score
--test-parts' makes.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from gtrans.errors import GtransError
from gtrans.files import read_object
from gtrans.lab.plots import (
    Figure,
    Panel,
    Point,
    Series,
    add_figure,
    check_figure,
    mean_of_runs,
    title_of,
    write,
)

EXAMPLE = (
    "gtrans analyse scores --by length --path both.json:base both.json:fused --baseline base "
    "--plot length.png"
)
NEEDS = ()
METRIC = "s_bleu"
PARTS = {
    "length": ("by_sentence_length", "tokens of the reference"),
    "position": ("by_position", "place of the sentence in its document"),
}


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the options of ``gtrans analyse scores``."""
    parser.add_argument(
        "--path",
        required=True,
        nargs="+",
        metavar="[LABEL=]FILE",
        help="JSON files with scores; FILE:SYSTEM for one of several systems",
    )
    parser.add_argument(
        "--by",
        required=True,
        choices=PARTS,
        help="length: of sentences; position: of a sentence in its document",
    )
    parser.add_argument("--baseline", metavar="LABEL", help="also draw the differences from it")
    add_figure(parser)


def run(args: argparse.Namespace) -> None:
    """Read, draw and print.

    Raises:
        GtransError: a file is missing or lacks what is asked for, or the plot cannot be written.
    """
    read = [read_scores(argument) for argument in args.path]
    check_figure(args, [one.path for one in read])
    title = title_of(list(dict.fromkeys(one.label for one in read)))
    panels = by_part(read, args.by, args.baseline)
    files = [{"label": one.label, "path": str(one.path), "system": one.system} for one in read]
    write(args, Figure(title, tuple(panels), {"files": files}))


@dataclass(frozen=True)
class Scores:
    """The scores of one system in a file.

    Attributes:
        label: the line or colour that it belongs to.
        path: the file.
        content: all of it.
        system: which of its systems.
    """

    label: str
    path: Path
    content: Mapping[str, Any]
    system: str

    def parts(self, table: str) -> dict[str, tuple[Point, int]]:
        """The system's score and the number of sentences of every part that has some.

        Its interval is that of the difference from the baseline of the file, if it was tested.

        Raises:
            GtransError: the file has no such table.
        """
        rows = self.content.get(table)
        if not isinstance(rows, list):
            raise GtransError(
                f"{self.path}: it has no '{table}'; take a file of `gtrans score --json` with "
                "s_bleu among its --metrics."
            )
        found = {}
        for row in rows:
            score = row[METRIC][self.system]
            name = f"{row['from']}+" if row["to"] is None else f"{row['from']}-{row['to']}"
            tests = row.get("comparison", {}).get(METRIC, {}).get(self.system, {})
            if score is not None:
                ends = tests.get("interval") or (None, None)
                found[name] = Point(name, float(score), *ends), int(row["sentences"])
        return found


def read_scores(argument: str) -> Scores:
    """The scores that an argument ``[LABEL=]FILE.json[:SYSTEM]`` names.

    Without a label a system is called by its name, or a file by its own.

    Raises:
        GtransError: the file is missing or has not this system.
    """
    label, equals, rest = argument.partition("=")
    if not equals or Path(argument).exists():
        label, rest = "", argument
    name, colon, system = rest.rpartition(":")
    if not colon or Path(rest).exists():
        name, system = rest, ""
    path = Path(name)
    try:
        systems = (content := read_object(path)).get("systems")
    except FileNotFoundError:
        raise GtransError(f"--path {path}: there is no such file.") from None
    if not isinstance(systems, dict) or not systems:
        raise GtransError(f"{path}: it is no file of `gtrans score --json`.")
    names = ", ".join(systems)
    if not system and len(systems) != 1:
        raise GtransError(f"{path}: it has several systems ({names}); name one: {path}:SYSTEM.")
    chosen = system or next(iter(systems))
    if chosen not in systems:
        raise GtransError(f"{path}: it has no system '{chosen}', but {names}.")
    return Scores(label or system or path.name.removesuffix(".json"), path, content, chosen)


def by_part(read: Sequence[Scores], part: str, baseline: str | None) -> Iterator[Panel]:
    """Scores by one of :data:`PARTS`, and with a ``baseline`` the differences from it.

    Seeds of a model (files with one label) are a mean; their differences are taken seed by seed,
    in the order of the files. A difference of two systems of one file has the interval of its
    test, if it was scored with ``--test-parts``.

    Raises:
        GtransError: see :meth:`Scores.parts`; or files are of different test sets; or there is no
            such baseline, or another number of its seeds.
    """
    table, x_label = PARTS[part]
    runs: dict[str, list[tuple[Scores, dict[str, tuple[Point, int]]]]] = {}
    counts: dict[str, tuple[int, Path]] = {}
    for one in read:
        parts = one.parts(table)
        runs.setdefault(one.label, []).append((one, parts))
        for name, (_, sentences) in parts.items():
            count, path = counts.setdefault(name, (sentences, one.path))
            if sentences != count:
                raise GtransError(
                    f"{one.path}: its part {name} has {sentences} sentences, that of {path} "
                    f"{count}; compare scores of one test set, with the same tokens."
                )

    def bars(of_label: Mapping[str, Sequence[Mapping[str, float]]]) -> tuple[Series, ...]:
        return tuple(
            Series(label, mean_of_runs([*run.items()] for run in found), list(runs).index(label),
                   "bars")
            for label, found in of_label.items()
        )  # fmt: skip

    scores = {
        label: [{name: point.y for name, (point, _) in parts.items()} for _, parts in found]
        for label, found in runs.items()
    }
    yield Panel(METRIC, x_label, METRIC, bars(scores))
    if baseline is not None:
        yield _differences(runs, scores, baseline, x_label)
    numbers = tuple(Point(name, float(count)) for name, (count, _) in counts.items())
    of_all = Series("", numbers, len(runs), "bars")
    yield Panel("sentences", x_label, "sentences", (of_all,))


def _differences(
    runs: Mapping[str, Sequence[tuple[Scores, Mapping[str, tuple[Point, int]]]]],
    scores: Mapping[str, Sequence[Mapping[str, float]]],
    baseline: str,
    x_label: str,
) -> Panel:
    if baseline not in runs:
        raise GtransError(f"`--baseline` {baseline} is none of {', '.join(runs)}.")
    base = scores[baseline]
    series = []
    for number, (label, found) in enumerate(scores.items()):
        if label == baseline:
            continue
        if len(found) != len(base):
            raise GtransError(
                f"`--baseline` {baseline} has {len(base)} files, but {label} {len(found)}; give as "
                "many seeds of each, in the same order."
            )
        points = mean_of_runs(
            [(name, score - of_base[name]) for name, score in run.items() if name in of_base]
            for run, of_base in zip(found, base, strict=True)
        )
        (ours, parts), (theirs, _) = runs[label][0], runs[baseline][0]
        tested = theirs.system == ours.content.get("baseline") and ours.path == theirs.path
        if len(found) == 1 and tested:
            points = tuple(
                Point(one.x, one.y, parts[str(one.x)][0].low, parts[str(one.x)][0].high)
                for one in points
            )
        series.append(Series(label, points, number, "bars"))
    return Panel(f"{METRIC}, difference from {baseline}", x_label, "difference", tuple(series))
