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
    XValue,
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
    labels = dict.fromkeys(file.label for file in files)
    panels = by_part(files, args.by, args.baseline)
    facts = []
    for file in files:
        fact = {
            "label": file.label,
            "path": str(file.path),
            "system": file.system,
        }
        facts.append(fact)
    write(args, Figure(title_of(list(labels)), tuple(panels), {"files": facts}))


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
            if score is None:
                continue
            name = f"{row['from']}+" if row["to"] is None else f"{row['from']}-{row['to']}"
            comparisons = row.get("comparison", {}).get(METRIC, {})
            test = comparisons.get(self.system, {})
            low, high = test.get("interval") or (None, None)
            point = Point(name, float(score), low, high)
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


@dataclass(frozen=True)
class _SeedScores:
    file: PlottedScores
    parts: Mapping[str, PartScore]


def by_part(files: Sequence[PlottedScores], part: str, baseline: str | None) -> Iterator[Panel]:
    """Draw scores by one of :data:`PARTS`, and with a ``baseline`` the differences from it.

    Files with one label are seeds, drawn as their mean; differences are taken seed by seed, in the
    order of the files. A difference of two systems of one file has the interval of its test.
    """
    table, x_label = PARTS[part]
    scored = [_SeedScores(file, file.parts(table)) for file in files]
    counts = _count_sentences(scored)
    seeds_by_label: dict[str, list[_SeedScores]] = {}
    for seed in scored:
        seeds_by_label.setdefault(seed.file.label, []).append(seed)
    series = []
    for number, (label, seeds) in enumerate(seeds_by_label.items()):
        points = mean_of_runs(_score_curve(seed) for seed in seeds)
        series.append(Series(label, points, number, "bars"))
    yield Panel(METRIC, x_label, METRIC, tuple(series))
    if baseline is not None:
        if baseline not in seeds_by_label:
            raise GtransError(f"`--baseline` {baseline} is none of {', '.join(seeds_by_label)}.")
        series = []
        for number, label in enumerate(seeds_by_label):
            if label != baseline:
                points = _differences(seeds_by_label, label, baseline)
                series.append(Series(label, points, number, "bars"))
        heading = f"{METRIC}, difference from {baseline}"
        yield Panel(heading, x_label, "difference", tuple(series))
    numbers = tuple(Point(name, float(count)) for name, count in counts.items())
    bars = Series("", numbers, colour=len(seeds_by_label), kind="bars")
    yield Panel("sentences", x_label, "sentences", (bars,))


def _score_curve(seed: _SeedScores) -> list[tuple[XValue, float]]:
    return [(name, score.point.y) for name, score in seed.parts.items()]


def _count_sentences(scored: Sequence[_SeedScores]) -> dict[str, int]:
    counts: dict[str, int] = {}
    first_files: dict[str, Path] = {}
    for seed in scored:
        path = seed.file.path
        for name, score in seed.parts.items():
            count = counts.setdefault(name, score.sentences)
            first_file = first_files.setdefault(name, path)
            if score.sentences != count:
                raise GtransError(
                    f"{path}: its part {name} has {score.sentences} sentences, that of "
                    f"{first_file} {count}; compare scores of one test set, with the same tokens."
                )
    return counts


def _differences(
    seeds_by_label: Mapping[str, Sequence[_SeedScores]], label: str, baseline: str
) -> tuple[Point, ...]:
    own = seeds_by_label[label]
    other = seeds_by_label[baseline]
    if len(own) != len(other):
        raise GtransError(
            f"`--baseline` {baseline} has {len(other)} files, but {label} {len(own)}; give as many "
            "seeds of each, in the same order."
        )
    curves = []
    for seed, baseline_seed in zip(own, other, strict=True):
        curve: list[tuple[XValue, float]] = []
        for name, score in seed.parts.items():
            if name in baseline_seed.parts:
                baseline_score = baseline_seed.parts[name]
                curve.append((name, score.point.y - baseline_score.point.y))
        curves.append(curve)
    points = mean_of_runs(curves)
    our_file, their_file = own[0].file, other[0].file
    is_baseline = their_file.system == our_file.content.get("baseline")
    is_tested = is_baseline and our_file.path == their_file.path
    if len(own) > 1 or not is_tested:
        return points
    tested = []
    for point in points:
        part = own[0].parts[str(point.x)]
        tested.append(replace(part.point, y=point.y))
    return tuple(tested)
