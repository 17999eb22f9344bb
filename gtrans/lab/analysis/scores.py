"""Figures of scores that are finished: by a setting, by length, by position.

The scores are those of ``gtrans score --json``, or any number in a JSON file, such as the
accuracies of ``gtrans contrast --json``.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from gtrans.errors import GtransError
from gtrans.evaluation.report import is_higher_better
from gtrans.identity.json_files import read_object
from gtrans.lab.analysis.figures import Figure, Kind, Panel, Point, Series, X, mean_of_runs

PARTS = {
    "length": ("by_sentence_length", "tokens of the reference"),
    "position": ("by_position", "place of the sentence in its document"),
}


@dataclass(frozen=True)
class ScoreFile:
    """A file with scores of one system.

    Attributes:
        label: the line or colour that it belongs to.
        x: what it is the score for, such as a length, a size or a language pair; None: nothing.
        path: the file.
        system: which of its systems; None: the only one.
    """

    label: str
    x: X | None
    path: Path
    system: str | None = None

    def read(self) -> Scores:
        """Its contents.

        Raises:
            GtransError: it is missing or no JSON object, or has not this system.
        """
        try:
            content = read_object(self.path)
        except FileNotFoundError:
            raise GtransError(f"{self.path}: there is no such file of scores.") from None
        systems = content.get("systems")
        if not isinstance(systems, dict):
            if self.system is not None:
                raise GtransError(f"{self.path}: it has no systems, so no '{self.system}'.")
            return Scores(self, content, None)
        names = ", ".join(systems)
        if self.system is None and len(systems) != 1:
            raise GtransError(
                f"{self.path}: it has several systems ({names}); name one: {self.path}:SYSTEM."
            )
        system = self.system or next(iter(systems))
        if system not in systems:
            raise GtransError(f"{self.path}: it has no system '{system}', but {names}.")
        return Scores(self, content, system)


@dataclass(frozen=True)
class Scores:
    """The scores of a system in a file.

    Attributes:
        file: where they are from.
        content: the whole file.
        system: which of its systems; None: the file is not one of ``gtrans score``.
    """

    file: ScoreFile
    content: Mapping[str, Any]
    system: str | None

    def value(self, name: str) -> Point:
        """A score of the whole corpus, with its interval if there is one; its ``x`` is empty.

        Args:
            name: a metric of ``gtrans score``, or the keys that lead to a number: ``all.accuracy``.

        Raises:
            GtransError: the file has no such number.
        """
        parent, at = self._at(name)
        if isinstance(at, bool) or not isinstance(at, int | float):
            raise GtransError(f"{self.file.path}: '{name}' is no number.")
        with self._as_written():
            low, high = _interval(parent, name.rpartition(".")[2] if "." in name else "score")
            return Point("", float(at), low, high)

    def higher_is_better(self, name: str) -> bool:
        """Whether more of what :meth:`value` gives is better: false for error rates.

        Raises:
            GtransError: the file has no such number.
        """
        with self._as_written():
            return is_higher_better(name.split(".")[0], self._at(name)[0])

    def _at(self, name: str) -> tuple[Any, Any]:
        """What ``name`` leads to, after the object that it stands in."""
        at: Any = self.content
        keys = name.split(".")
        if self.system is not None:
            at = self.content["systems"][self.system]
            keys = [*keys, "score"] if len(keys) == 1 else keys
        parent: Any = {}
        for key in keys:
            parent, at = at, at.get(key) if isinstance(at, dict) else None
            if at is None:
                has = ", ".join(map(str, parent)) if isinstance(parent, dict) else "nothing"
                raise GtransError(f"{self.file.path}: it has no '{name}'; there, it has {has}.")
        return parent, at

    def parts(self, table: str, metric: str) -> list[tuple[Mapping[str, Any], float]]:
        """The parts of the corpus that have sentences, each with the system's score.

        Raises:
            GtransError: the file has no such table or metric.
        """
        rows = self.content.get(table)
        if self.system is None or not isinstance(rows, list):
            raise GtransError(
                f"{self.file.path}: it has no '{table}'; take a file of `gtrans score --json` with "
                "s_bleu among its --metrics."
            )
        if rows and isinstance(rows[0], dict) and metric not in rows[0]:
            raise GtransError(f"{self.file.path}: its '{table}' have no '{metric}'.")
        with self._as_written():
            found = [(row, row[metric][self.system]) for row in rows]
            parts = [(row, float(score)) for row, score in found if score is not None]
            for row, _ in parts:  # what will be drawn
                _part_name(row)
                int(row["sentences"])
                _tests(row, metric, str(self.system))
        return parts

    @contextmanager
    def _as_written(self) -> Iterator[None]:
        """Raises GtransError where the file is not built as `gtrans score` writes it."""
        try:
            yield
        except (KeyError, IndexError, TypeError, ValueError, AttributeError, OverflowError):
            raise GtransError(
                f"{self.file.path}: it was damaged or changed; write it again by "
                "`gtrans score --json`."
            ) from None


def _interval(entry: Any, key: str = "") -> tuple[float | None, float | None]:
    """The interval in an object, or that of the score at ``key``; a count beside it has none."""
    found = entry.get("interval")
    if not found and key.startswith("score"):  # of `score_with_first`: `confidence_with_first`
        found = (entry.get(key.replace("score", "confidence", 1)) or {}).get("interval")
    return (None, None) if not found else (float(found[0]), float(found[1]))


def by_setting(
    files: Sequence[ScoreFile], values: Sequence[str], x_label: str, title: str = ""
) -> Figure:
    """A panel for every value: a line for every label, by ``x``.

    Several files with one label and ``x`` are seeds: their mean, with the smallest and the
    largest. A single one has the interval of its file. Settings that are names are bars.

    Raises:
        GtransError: see :meth:`ScoreFile.read` and :meth:`Scores.value`.
    """
    read = [file.read() for file in files]
    labels = list(dict.fromkeys(file.label for file in files))
    panels = []
    for value in values:
        series = []
        for number, label in enumerate(labels):
            runs: dict[X, list[Point]] = {}
            for scores in read:
                if scores.file.label == label:
                    x = label if scores.file.x is None else scores.file.x
                    runs.setdefault(x, []).append(scores.value(value))
            points = _points(runs)
            kind: Kind = "bars" if any(isinstance(point.x, str) for point in points) else "line"
            series.append(Series(label, points, number, kind))
        panels.append(Panel(value, x_label, value, tuple(series)))
    return Figure(title, tuple(panels), facts_of(files))


def _points(runs: Mapping[X, Sequence[Point]]) -> tuple[Point, ...]:
    means = mean_of_runs([(x, point.y)] for x, points in runs.items() for point in points)
    return tuple(
        Point(one.x, one.y, runs[one.x][0].low, runs[one.x][0].high) if one.runs == 1 else one
        for one in means
    )


def by_part(
    files: Sequence[ScoreFile],
    part: str,
    metric: str = "s_bleu",
    baseline: str | None = None,
    title: str = "",
) -> Figure:
    """Scores by one of :data:`PARTS`, and with a ``baseline`` the differences from it.

    Seeds of a model (files with one label) are a mean; their differences are taken seed by seed,
    in the order of the files. A difference of two systems of one file has the interval of its
    test, if it was scored with ``--test-parts``.

    Raises:
        GtransError: see :meth:`ScoreFile.read` and :meth:`Scores.parts`; or files are of different
            test sets; or there is no such baseline, or another number of its seeds.
    """
    table, x_label = PARTS[part]
    read = [file.read() for file in files]
    _check_same_test(read, table, metric)
    labels = list(dict.fromkeys(file.label for file in files))
    by_label = {
        label: [
            {_part_name(row): (row, score) for row, score in scores.parts(table, metric)}
            for scores in read
            if scores.file.label == label
        ]
        for label in labels
    }
    series = tuple(
        Series(
            label,
            mean_of_runs([(x, score) for x, (_, score) in run.items()] for run in runs),
            number,
            "bars",
        )
        for number, (label, runs) in enumerate(by_label.items())
    )
    counts = {x: row["sentences"] for runs in by_label.values() for x, (row, _) in runs[0].items()}
    panels = [
        Panel(metric, x_label, metric, series),
        Panel("sentences", x_label, "sentences", (
            Series("", tuple(Point(x, float(n)) for x, n in counts.items()), len(labels), "bars"),
        )),
    ]  # fmt: skip
    if baseline is not None:
        if baseline not in by_label:
            raise GtransError(f"`--baseline` {baseline} is none of {', '.join(labels)}.")
        panels.insert(1, _differences(by_label, read, baseline, metric, x_label))
    return Figure(title, tuple(panels), facts_of(files))


def _check_same_test(read: Sequence[Scores], table: str, metric: str) -> None:
    """Raises GtransError where one part has different numbers of sentences in two files."""
    found: dict[str, tuple[int, Path]] = {}
    for scores in read:
        for row, _ in scores.parts(table, metric):
            name, here = _part_name(row), int(row["sentences"])
            count, path = found.setdefault(name, (here, scores.file.path))
            if here != count:
                raise GtransError(
                    f"{scores.file.path}: its part {name} has {here} sentences, that of {path} "
                    f"{count}; compare scores of one test set, with the same tokens."
                )


def _differences(
    by_label: Mapping[str, Sequence[Mapping[str, tuple[Mapping[str, Any], float]]]],
    read: Sequence[Scores],
    baseline: str,
    metric: str,
    x_label: str,
) -> Panel:
    base = by_label[baseline]
    series = []
    for number, (label, runs) in enumerate(by_label.items()):
        if label == baseline:
            continue
        if len(runs) != len(base):
            raise GtransError(
                f"`--baseline` {baseline} has {len(base)} files, but {label} {len(runs)}; give as "
                "many seeds of each, in the same order."
            )
        points = mean_of_runs(
            [(x, score - of_base[x][1]) for x, (_, score) in run.items() if x in of_base]
            for run, of_base in zip(runs, base, strict=True)
        )
        if len(runs) == 1:
            ours, theirs = (next(s for s in read if s.file.label == n) for n in (label, baseline))
            points = tuple(_tested(p, runs[0], ours, theirs, metric) for p in points)
        series.append(Series(label, points, number, "bars"))
    title = f"{metric}, difference from {baseline}"
    return Panel(title, x_label, "difference", tuple(series))


def _tested(
    point: Point,
    rows: Mapping[str, tuple[Mapping[str, Any], float]],
    ours: Scores,
    theirs: Scores,
    metric: str,
) -> Point:
    """A difference with the interval of its test, if both systems were tested in one file."""
    same = ours.file.path == theirs.file.path and theirs.system == ours.content.get("baseline")
    row = rows[str(point.x)][0]
    low, high = _tests(row, metric, str(ours.system)) if same else (None, None)
    return Point(point.x, point.y, low, high)


def _tests(row: Mapping[str, Any], metric: str, system: str) -> tuple[float | None, float | None]:
    """The interval of a system's difference from the baseline within a part, if it was tested."""
    return _interval(row.get("comparison", {}).get(metric, {}).get(system, {}))


def _part_name(row: Mapping[str, Any]) -> str:
    return f"{row['from']}+" if row["to"] is None else f"{row['from']}-{row['to']}"


def facts_of(files: Sequence[ScoreFile]) -> dict[str, Any]:
    """From where the numbers are, for the JSON of a figure."""
    return {
        "files": [
            {"label": one.label, "x": one.x, "path": str(one.path), "system": one.system}
            for one in files
        ]
    }
