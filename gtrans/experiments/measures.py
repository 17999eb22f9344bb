"""What is measured of finished models, and how a number is found in it.

``exp_gtransformer/experiments/measures.yaml`` has the commands and the columns of tables.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from statistics import mean
from typing import Any, Literal

import yaml

from gtrans.errors import GtransError
from gtrans.experiments.catalogue import FOLDER, in_tuples
from gtrans.shipped import shipped

ROW, BASELINE = "row", "baseline"
_DIRECTION = "{direction}"
# Where the p of a test stands in a comparison of `gtrans score`, and what that test is.
_TESTS = {
    "paired_randomisation": "paired approximate randomisation",
    "sign_test_over_directions": "sign test over directions",
}


@dataclass(frozen=True)
class Measure:
    """What is measured of a model.

    Attributes:
        reads: the form of what is read.
        argv: a command that prints JSON about one model; empty: its run folder is read.
        against: a command for a model and its baseline.
        instead: ``against`` measures all that ``argv`` does.
        corpora: where it can be had; empty: everywhere.
    """

    reads: Literal["score", "contrast", "json", "history", "log", "speed"]
    argv: tuple[str, ...] = ()
    against: tuple[str, ...] = ()
    instead: bool = False
    corpora: tuple[str, ...] = ()


@dataclass(frozen=True)
class Column:
    """A column of a table; with ``{direction}`` in its title, one for each direction.

    Attributes:
        measure: name of the measure.
        at: where the number stands in it; it may have ``{direction}`` in it.
        interval: where its 95% interval stands, if the form does not say so itself.
        better: which direction is.
        of_run: which number of a training's log: the best one, or the mean.
        times: what the number is multiplied by.
        digits: behind the point.
        compared: whether a table shows its changes from the baseline; that of a p says nothing.
    """

    measure: str
    at: tuple[str, ...]
    interval: tuple[str, ...] = ()
    better: Literal["higher", "lower"] = "higher"
    of_run: Literal["best", "mean"] = "best"
    times: float = 1.0
    digits: int = 2
    compared: bool = True


@dataclass(frozen=True)
class Reading:
    """One number of one run.

    Attributes:
        value: the number.
        interval: its 95% interval.
        signature: of sacreBLEU, where it has one.
        p: of the test against the baseline, of the same seed.
        test: which one that is.
        change: 95% interval of the difference from that baseline.
    """

    value: float
    interval: tuple[float, float] | None = None
    signature: str = ""
    p: float | None = None
    test: str = ""
    change: tuple[float, float] | None = None


def read_measures(path: Path | None = None) -> tuple[dict[str, Measure], dict[str, Column]]:
    """All measures and columns; ``path``: instead of the project's own file.

    Raises:
        GtransError: the file is missing or not as it describes itself.
    """
    file = path or shipped(FOLDER) / "measures.yaml"
    try:
        content = yaml.safe_load(file.read_text(encoding="utf-8"))
        measures = {name: Measure(**in_tuples(it)) for name, it in content["measures"].items()}
        columns = {name: Column(**in_tuples(it)) for name, it in content["columns"].items()}
    except (OSError, yaml.YAMLError, KeyError, TypeError, AttributeError) as error:
        raise GtransError(f"{file}: not measures and columns ({error}).") from None
    for name, column in columns.items():
        if column.measure not in measures:
            raise GtransError(f"{file}: column {name} is of no measure '{column.measure}'.")
    return measures, columns


def of_directions(columns: Mapping[str, Column], directions: Iterable[str]) -> dict[str, Column]:
    """The columns, those of every direction in place of one with ``{direction}``."""
    found: dict[str, Column] = {}
    names = list(directions)
    for title, column in columns.items():
        for name in names if _DIRECTION in title else [""]:
            at = tuple(place.replace(_DIRECTION, name) for place in column.at)
            found[title.replace(_DIRECTION, name)] = replace(column, at=at)
    return found


def read_number(
    measure: Measure,
    column: Column,
    one: Path | None,
    against: Path | None,
    others: Sequence[Path] = (),
) -> Reading | None:
    """A number of a run; None if it is not there, as s-BLEU of a translation without sentences.

    Args:
        measure: what was measured.
        column: which number.
        one: what the measure has printed of the model; its run folder, for ``history`` and
            ``log``; a translation, for ``speed``.
        against: what it has printed of the model and its baseline; for ``speed`` the record of the
            job that has translated.
        others: the run folders of the other models that translate together with it: for ``log``
            the numbers of all are added up; together they have no ``history``.
    """
    if one is not None and measure.reads == "history":
        return None if others else _from_history(one, column)
    if one is not None and measure.reads == "log":
        found = [_from_log(folder, column) for folder in (one, *others)]
        numbers = [it.value for it in found if it is not None]
        return Reading(sum(numbers)) if len(numbers) == len(found) else None
    if measure.reads == "speed":
        return None if one is None or against is None else _speed(one, against)
    alone = None if one is None else _content(one)
    both = None if against is None else _content(against)
    if measure.reads == "score":
        return _from_scores(both or alone or {}, column)
    if measure.reads == "contrast":
        return _from_contrast(alone or {}, both or {}, column)
    content = alone if both is None else both
    value = _at(content, column.at)
    interval = _at(content, column.interval) if column.interval else None
    if value is None:
        return None
    ends = None if interval is None else (column.times * interval[0], column.times * interval[1])
    return Reading(column.times * float(value), ends)


def _content(path: Path) -> Any:
    try:
        return json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise GtransError(f"{path}: not readable ({error}).") from None


def _at(content: Any, place: Sequence[str]) -> Any:
    for key in place:
        if isinstance(content, list) and key.isdigit() and int(key) < len(content):
            content = content[int(key)]
        elif isinstance(content, dict) and key in content:
            content = content[key]
        else:
            return None
    return content


def _from_scores(content: Mapping[str, Any], column: Column) -> Reading | None:
    """Of ``gtrans score --json``."""
    found = _at(content, ["systems", ROW, *column.at])
    if found is None or found.get("score") is None:
        return None
    interval = _at(found, ["confidence", "interval"])
    change = _at(found, ["comparison", "interval"])
    tests = {name: _at(found, ["comparison", name, "p"]) for name in _TESTS}
    test = next((name for name, p in tests.items() if p is not None), None)
    return Reading(
        found["score"],
        None if interval is None else (interval[0], interval[1]),
        found.get("signature", ""),
        None if test is None else tests[test],
        "" if test is None else _TESTS[test],
        None if change is None else (change[0], change[1]),
    )


def _from_contrast(
    alone: Mapping[str, Any], both: Mapping[str, Any], column: Column
) -> Reading | None:
    """Of ``gtrans contrast --json``; ``at`` is nothing, a phenomenon, or that and a distance."""
    phenomenon, distance = (*column.at, "", "")[:2]
    if phenomenon and distance:
        value = _at(alone, ["contrastive", phenomenon, distance])
        interval = _at(alone, ["intervals", phenomenon, distance])
    else:
        place = ["by_phenomenon", phenomenon] if phenomenon else ["all"]
        whole = _at(alone, ["by_distance", distance] if distance else place) or {}
        value, interval = whole.get("accuracy"), whole.get("interval")
    if value is None:
        return None
    of, key = ("_by_distance", distance) if distance else ("", phenomenon or "all")
    # Of a phenomenon at a distance there is no test.
    other = None if phenomenon and distance else _at(both, ["others", ROW])
    p = _at(other, [f"mcnemar{of}", key, "p"])
    change = _at(other, [f"difference{of}", key, "interval"])
    return Reading(
        100 * value,
        None if interval is None else (100 * interval[0], 100 * interval[1]),
        p=p,
        test="" if p is None else "exact McNemar",
        change=None if change is None else (100 * change[0], 100 * change[1]),
    )


def _from_history(folder: Path, column: Column) -> Reading | None:
    """The best value of a run's log, or the mean of all.

    There is no loss of a model with layer fusion: that of its training is of all its groups, and
    not to be compared with that of another model.
    """
    from gtrans.lab.analysis.history import read_history

    history = read_history(folder)
    split, name = column.at
    if name == "loss" and "loss_group_1" in history.names(split):
        return None
    values = [value for _, value in history.series(split, name)]
    if column.of_run == "mean":
        return Reading(mean(values)) if values else None
    best = max if column.better == "higher" else min
    return Reading(best(values)) if values else None


def _from_log(folder: Path, column: Column) -> Reading | None:
    """The first number behind a word of the log of a run, such as the number of parameters."""
    from gtrans.lab.analysis.history import LOG

    log = folder / LOG
    try:
        text = log.read_text(encoding="utf-8", errors="replace")
    except OSError as error:
        raise GtransError(f"{log}: not readable ({error}).") from None
    found = re.search(re.escape(column.at[0]) + r"\D*([\d,.]*\d)", text)
    return Reading(column.times * float(found[1].replace(",", ""))) if found else None


def _speed(translation: Path, record: Path) -> Reading | None:
    """Words of a translation for each second of the call that made it whole, loading included."""
    words = len(translation.read_text(encoding="utf-8").split())
    seconds = _content(record)["last_seconds"]
    return Reading(words / seconds) if seconds else None
