"""Draw scores that are finished: by a setting, or by length and position within the corpus.

Files are those of 'gtrans score --json', or any JSON with numbers, such as that of 'gtrans contrast
--json'. LABEL@X=FILE is the score of LABEL at X: a length of input, a size of the corpus or of the
memory, a number of layers or parameters. Files with one LABEL and X are seeds: their mean is drawn,
with the smallest and the largest; a single file has its confidence interval. FILE:SYSTEM chooses
one of several systems of a file.

--by length or position draws BLEU of parts of the test set, from the tables of 'gtrans
score --json'; --baseline the differences from one of the systems, with the intervals of the tests
that 'gtrans score --test-parts' makes.
"""

from __future__ import annotations

import argparse
import math
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from gtrans.errors import GtransError
from gtrans.identity.json_files import read_object
from gtrans.lab.plots import (
    Figure,
    Kind,
    Panel,
    Point,
    Series,
    X,
    add_figure,
    check_figure,
    mean_of_runs,
    title_of,
    write,
)

EXAMPLE = (
    "gtrans analyse scores --path document@256=d256.json document@512=d512.json "
    "G-Transformer@256=g256.json G-Transformer@512=g512.json --values d_bleu --x-label 'tokens of "
    "the input' --plot lengths.png"
)
NEEDS = ()
BY = ("x", "length", "position")


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the options of ``gtrans analyse scores``."""
    parser.add_argument(
        "--path",
        required=True,
        nargs="+",
        metavar="[LABEL[@X]=]FILE",
        help="JSON files with scores; FILE:SYSTEM for one of several systems",
    )
    parser.add_argument(
        "--values",
        nargs="+",
        default=["s_bleu"],
        metavar="NAME",
        help="what to draw, a panel each: metrics of 'gtrans score', or the keys that lead to a "
        "number of another file, as in all.accuracy; with --by one metric, or mean_of_positions "
        "(default: s_bleu)",
    )
    parser.add_argument(
        "--by",
        choices=BY,
        default="x",
        help="x: by the X of the files; length: of sentences; position: of a sentence in its "
        "document (default: %(default)s)",
    )
    parser.add_argument(
        "--baseline", metavar="LABEL", help="with --by length or position: differences"
    )
    parser.add_argument("--x-label", default="", help="what X is, for the axis")
    add_figure(parser)


def run(args: argparse.Namespace) -> None:
    """Read, draw and print.

    Raises:
        GtransError: a file is missing or lacks what is asked for, or the plot cannot be written.
    """
    read = [read_scores(argument) for argument in args.path]
    check_figure(args, [one.path for one in read])
    title = title_of(args, list(dict.fromkeys(one.label for one in read)))
    if args.by == "x":
        if args.baseline is not None:
            raise GtransError("`--baseline` is for --by length or position.")
        panels = by_setting(read, args.values, args.x_label)
    elif len(args.values) > 1:
        raise GtransError(f"`--by` {args.by} draws one metric; give one of --values.")
    else:
        panels = by_part(read, args.by, args.values[0], args.baseline)
    files = [
        {"label": one.label, "x": one.x, "path": str(one.path), "system": one.system}
        for one in read
    ]
    write(args, Figure(title, tuple(panels), {"files": files}))


PARTS = {
    "length": ("by_sentence_length", "tokens of the reference"),
    "position": ("by_position", "place of the sentence in its document"),
}


@dataclass(frozen=True)
class Scores:
    """The scores of one system in a file.

    Attributes:
        label: the line or colour that it belongs to.
        x: what it is the score for, such as a length or a size; None: nothing.
        path: the file.
        content: all of it.
        system: which of its systems; None: the file is not one of ``gtrans score``.
    """

    label: str
    x: X | None
    path: Path
    content: Mapping[str, Any]
    system: str | None

    def value(self, name: str) -> Point:
        """A score of the whole corpus, with its interval if there is one; its ``x`` is empty.

        Args:
            name: a metric of ``gtrans score``, or the keys that lead to a number: ``all.accuracy``.

        Raises:
            GtransError: the file has no such number.
        """
        keys = name.split(".")
        at: Any = self.content
        if self.system is not None:
            at = self.content["systems"][self.system]
            keys = [*keys, "score"] if len(keys) == 1 else keys
        parent: Any = {}
        for key in keys:
            parent, at = at, at.get(key) if isinstance(at, dict) else None
            if at is None:
                has = ", ".join(map(str, parent)) if isinstance(parent, dict) else "nothing"
                raise GtransError(f"{self.path}: it has no '{name}'; there, it has {has}.")
        if isinstance(at, bool) or not isinstance(at, int | float):
            raise GtransError(f"{self.path}: '{name}' is no number.")
        with self._as_written():
            found = parent.get("interval")
            if keys[-1] == "score":
                found = found or (parent.get("confidence") or {}).get("interval")
            return Point("", float(at), *_ends(found))

    def parts(self, table: str, metric: str) -> dict[str, tuple[Point, int]]:
        """The system's score and the number of sentences of every part that has some.

        Its interval is that of the difference from the baseline of the file, if it was tested.

        Raises:
            GtransError: the file has no such table or metric.
        """
        rows = self.content.get(table)
        if self.system is None or not isinstance(rows, list):
            raise GtransError(
                f"{self.path}: it has no '{table}'; take a file of `gtrans score --json` with "
                "s_bleu among its --metrics."
            )
        with self._as_written():
            found = {}
            for row in rows:
                if metric not in row:
                    raise GtransError(f"{self.path}: its '{table}' have no '{metric}'.")
                score = row[metric][self.system]
                name = f"{row['from']}+" if row["to"] is None else f"{row['from']}-{row['to']}"
                tests = row.get("comparison", {}).get(metric, {}).get(self.system, {})
                if score is not None:
                    ends = _ends(tests.get("interval"))
                    found[name] = Point(name, float(score), *ends), int(row["sentences"])
        return found

    @contextmanager
    def _as_written(self) -> Iterator[None]:
        """Raises GtransError where the file is not built as `gtrans score` writes it."""
        try:
            yield
        except (KeyError, IndexError, TypeError, ValueError, AttributeError, OverflowError):
            raise GtransError(
                f"{self.path}: it was damaged or changed; write it again by `gtrans score --json`."
            ) from None


def _ends(interval: Any) -> tuple[float | None, float | None]:
    return (float(interval[0]), float(interval[1])) if interval else (None, None)


def read_scores(argument: str) -> Scores:
    """The scores that an argument ``[LABEL[@X]=]FILE.json[:SYSTEM]`` names.

    Without a label a system is called by its name, or a file by its own.

    Raises:
        GtransError: it has another form, or the file is missing or has not this system.
    """
    label, equals, rest = argument.partition("=")
    if not equals or Path(argument).exists():
        label, rest = "", argument
    name, colon, system = rest.rpartition(":")
    if not colon or Path(rest).exists():
        name, system = rest, ""
    path = Path(name)
    called, at, x = label.rpartition("@") if "@" in label else (label, "", "")
    if at and not x:
        raise GtransError(
            f"--path '{argument}' must be LABEL@X=FILE.json, where X is what it is the score for."
        )
    try:
        content = read_object(path)
    except FileNotFoundError:
        raise GtransError(f"--path {path}: there is no such file.") from None
    systems = content.get("systems")
    if not isinstance(systems, dict):
        if system or systems is not None:
            raise GtransError(f"{path}: it has no systems, so no '{system}'.")
        return Scores(called or path.name.removesuffix(".json"), _number(x), path, content, None)
    names = ", ".join(systems)
    if not system and len(systems) != 1:
        raise GtransError(f"{path}: it has several systems ({names}); name one: {path}:SYSTEM.")
    chosen = system or next(iter(systems))
    if chosen not in systems:
        raise GtransError(f"{path}: it has no system '{chosen}', but {names}.")
    called = called or system or path.name.removesuffix(".json")
    return Scores(called, _number(x), path, content, chosen)


def _number(text: str) -> X | None:
    if not text:
        return None
    try:
        number = float(text)
    except ValueError:
        return text
    return number if math.isfinite(number) else text


def by_setting(read: Sequence[Scores], values: Sequence[str], x_label: str) -> Iterator[Panel]:
    """A panel for every value: a line for every label, by ``x``.

    Several files with one label and ``x`` are seeds: their mean, with the smallest and the
    largest. A single one has the interval of its file. Settings that are names are bars.

    Raises:
        GtransError: see :meth:`Scores.value`.
    """
    labels = list(dict.fromkeys(one.label for one in read))
    for value in values:
        series = []
        for number, label in enumerate(labels):
            runs: dict[X, list[Point]] = {}
            for one in read:
                if one.label == label:
                    runs.setdefault(label if one.x is None else one.x, []).append(one.value(value))
            means = mean_of_runs([(x, p.y)] for x, of_x in runs.items() for p in of_x)
            points = tuple(
                Point(one.x, one.y, runs[one.x][0].low, runs[one.x][0].high)
                if one.runs == 1
                else one
                for one in means
            )
            kind: Kind = "bars" if any(isinstance(point.x, str) for point in points) else "line"
            series.append(Series(label, points, number, kind))
        yield Panel(value, x_label, value, tuple(series))


def by_part(
    read: Sequence[Scores], part: str, metric: str, baseline: str | None
) -> Iterator[Panel]:
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
        parts = one.parts(table, metric)
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
    yield Panel(metric, x_label, metric, bars(scores))
    if baseline is not None:
        yield _differences(runs, scores, baseline, metric, x_label)
    sentences = tuple(Point(name, float(count)) for name, (count, _) in counts.items())
    of_all = Series("", sentences, len(runs), "bars")
    yield Panel("sentences", x_label, "sentences", (of_all,))


def _differences(
    runs: Mapping[str, Sequence[tuple[Scores, Mapping[str, tuple[Point, int]]]]],
    scores: Mapping[str, Sequence[Mapping[str, float]]],
    baseline: str,
    metric: str,
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
    return Panel(f"{metric}, difference from {baseline}", x_label, "difference", tuple(series))
