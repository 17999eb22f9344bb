"""Draw BLEU of parts of the test set, by the length of sentences or their place in the document.

Files come from 'gtrans score --json'; FILE:SYSTEM chooses a system of a file. Files with one LABEL
are seeds: their mean is drawn, with the smallest and the largest. --baseline draws the differences
from a system, with the intervals of 'gtrans score --test-parts'.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
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
    """Add the options."""
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
    """Read, draw and print."""
    files = [read_scores(argument) for argument in args.path]
    check_figure(args, [file.path for file in files])
    title = title_of(list(dict.fromkeys(file.label for file in files)))
    panels = by_part(files, args.by, args.baseline)
    facts = [{"label": file.label, "path": str(file.path), "system": file.system} for file in files]
    write(args, Figure(title, tuple(panels), {"files": facts}))


@dataclass(frozen=True)
class PartScore:
    """The score of a part of the test set, and its number of sentences."""

    point: Point
    sentences: int


@dataclass(frozen=True)
class PlottedScores:
    """The scores of one system in a file, with its label in the figure."""

    label: str
    path: Path
    content: Mapping[str, Any]
    system: str

    def parts(self, table: str) -> dict[str, PartScore]:
        """Return every part that has sentences, by its name.

        A score has the interval of its difference from the file's baseline, if that was tested.
        """
        rows = self.content.get(table)
        if not isinstance(rows, list):
            raise GtransError(
                f"{self.path}: it has no '{table}'; take a file of `gtrans score --json` with "
                "s_bleu among its --metrics."
            )
        parts = {}
        for row in rows:
            score = row[METRIC][self.system]
            name = f"{row['from']}+" if row["to"] is None else f"{row['from']}-{row['to']}"
            tests = row.get("comparison", {}).get(METRIC, {}).get(self.system, {})
            if score is not None:
                ends = tests.get("interval") or (None, None)
                point = Point(name, float(score), *ends)
                parts[name] = PartScore(point, int(row["sentences"]))
        return parts


def read_scores(argument: str) -> PlottedScores:
    """Read the scores that an argument ``[LABEL=]FILE.json[:SYSTEM]`` names."""
    label, equals, rest = argument.partition("=")
    if not equals or Path(argument).exists():
        label, rest = "", argument
    name, colon, system = rest.rpartition(":")
    if not colon or Path(rest).exists():
        name, system = rest, ""
    path = Path(name)
    try:
        content = read_object(path)
    except FileNotFoundError:
        raise GtransError(f"--path {path}: there is no such file.") from None
    systems = content.get("systems")
    if not isinstance(systems, dict) or not systems:
        raise GtransError(f"{path}: it is no file of `gtrans score --json`.")
    names = ", ".join(systems)
    if not system and len(systems) != 1:
        raise GtransError(f"{path}: it has several systems ({names}); name one: {path}:SYSTEM.")
    chosen = system or next(iter(systems))
    if chosen not in systems:
        raise GtransError(f"{path}: it has no system '{chosen}', but {names}.")
    label = label or system or path.name.removesuffix(".json")
    return PlottedScores(label, path, content, chosen)


_Seed = tuple[PlottedScores, dict[str, PartScore]]
"""The file of a seed, and its parts."""


def by_part(files: Sequence[PlottedScores], part: str, baseline: str | None) -> Iterator[Panel]:
    """Draw scores by one of :data:`PARTS`, and with a ``baseline`` the differences from it.

    Files with one label are seeds, drawn as their mean; differences are taken seed by seed, in the
    order of the files. A difference of two systems of one file has the interval of its test.
    """
    table, x_label = PARTS[part]
    scored = [(file, file.parts(table)) for file in files]
    counts = _count_sentences(scored)
    seeds: dict[str, list[_Seed]] = {}
    for file, parts in scored:
        seeds.setdefault(file.label, []).append((file, parts))
    series = []
    for number, (label, own) in enumerate(seeds.items()):
        curves = []
        for _, parts in own:
            curves.append([(name, score.point.y) for name, score in parts.items()])
        series.append(Series(label, mean_of_runs(curves), number, "bars"))
    yield Panel(METRIC, x_label, METRIC, tuple(series))
    if baseline is not None:
        if baseline not in seeds:
            raise GtransError(f"`--baseline` {baseline} is none of {', '.join(seeds)}.")
        series = []
        for number, (label, own) in enumerate(seeds.items()):
            if label != baseline:
                points = _differences(label, own, baseline, seeds[baseline])
                series.append(Series(label, points, number, "bars"))
        heading = f"{METRIC}, difference from {baseline}"
        yield Panel(heading, x_label, "difference", tuple(series))
    numbers = tuple(Point(name, float(count)) for name, count in counts.items())
    yield Panel("sentences", x_label, "sentences", (Series("", numbers, len(seeds), "bars"),))


def _count_sentences(scored: Sequence[_Seed]) -> dict[str, int]:
    counts: dict[str, tuple[int, Path]] = {}
    for file, parts in scored:
        for name, score in parts.items():
            count, path = counts.setdefault(name, (score.sentences, file.path))
            if score.sentences != count:
                raise GtransError(
                    f"{file.path}: its part {name} has {score.sentences} sentences, that of {path} "
                    f"{count}; compare scores of one test set, with the same tokens."
                )
    return {name: count for name, (count, _) in counts.items()}


def _differences(
    label: str, own: Sequence[_Seed], baseline: str, other: Sequence[_Seed]
) -> tuple[Point, ...]:
    if len(own) != len(other):
        raise GtransError(
            f"`--baseline` {baseline} has {len(other)} files, but {label} {len(own)}; give as many "
            "seeds of each, in the same order."
        )
    curves = []
    for (_, parts), (_, base) in zip(own, other, strict=True):
        curve = []
        for name, score in parts.items():
            if name in base:
                curve.append((name, score.point.y - base[name].point.y))
        curves.append(curve)
    points = mean_of_runs(curves)
    our_file, our_parts = own[0]
    their_file, _ = other[0]
    is_baseline = their_file.system == our_file.content.get("baseline")
    is_tested = is_baseline and our_file.path == their_file.path
    if len(own) > 1 or not is_tested:
        return points
    return tuple(replace(our_parts[str(point.x)].point, y=point.y) for point in points)
