"""The output of ``gtrans contrast``: accuracies and tests, as text and JSON."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from operator import attrgetter
from typing import Any

from gtrans.evaluation.contrastive.accuracy import (
    ALL,
    Accuracy,
    Change,
    Gain,
    Sample,
    Table,
    by_group,
    changes,
    tabulate,
)
from gtrans.evaluation.contrastive.items import Item
from gtrans.evaluation.significance import holm
from gtrans.messages import aligned, change_interval, in_digits, with_schema

_LEAST = 1e-300  # smaller p-values are rounded to 0


@dataclass(frozen=True)
class SystemResult:
    """The result of a system on all items.

    Attributes:
        right: whether each item is right; None: it cannot be judged.
        lines: JSON lines for ``--output``.
        unit: the model's unit; empty for files of other systems.
        control: ``right`` with shuffled contexts.
        gains: in margin over the control.
    """

    items: Sequence[Item]
    right: Sequence[bool | None]
    lines: Sequence[str] = ()
    unit: str = ""
    control: Sequence[bool | None] | None = None
    gains: Sequence[float | None] | None = None


_Key = tuple[str, str]  # phenomenon and distance
_Cells = Mapping[_Key, Any]


@dataclass(frozen=True)
class _TextRow:
    before: Sequence[str]
    sample: Sample
    behind: Sequence[str] = ()


# --- columns --------------------------------------------------------------------------------------


def _percent(value: Any) -> str:
    return f"{100 * value:.1f}"


def _percent_interval(ends: Any) -> str:
    low, high = ends
    return f"{_percent(low)}-{_percent(high)}"


def _points(change: Any) -> str:
    return in_digits(100 * change, 1, "+")


def _points_interval(ends: Any) -> str:
    low, high = ends
    return change_interval((100 * low, 100 * high), 1)


def _p(value: Any) -> str:
    return f"{value:.4g}" if value > _LEAST else f"< {_LEAST:g}"


@dataclass(frozen=True)
class ReportColumn:
    """A value of a system or of a change.

    Attributes:
        head, key: on the terminal and in JSON; empty: not there.
        name: the property of a sample, which may be None.
    """

    head: str
    key: str
    name: str
    show: Callable[[Any], str] = str

    def value(self, sample: Sample) -> Any:
        """Return the value of a sample, or None."""
        return getattr(sample, self.name)


_COUNTS = (
    ReportColumn("items", "items", "items"),
    ReportColumn("documents", "documents", "document_count"),
)
SYSTEM_COLUMNS = (
    ReportColumn("accuracy", "accuracy", "mean", _percent),
    ReportColumn("95% interval", "interval", "interval", _percent_interval),
    *_COUNTS,
    ReportColumn("", "chance", "chance"),
)
CHANGE_COLUMNS = (
    *_COUNTS,
    ReportColumn("only first", "only_first", "only_first"),
    ReportColumn("only system", "only_other", "only_other"),
    ReportColumn("change", "", "mean", _points),
    ReportColumn("95% interval", "", "interval", _points_interval),
    ReportColumn("p", "p", "p_value", _p),
    ReportColumn("p Holm", "p_holm", "p_holm", _p),
)


# --- JSON -----------------------------------------------------------------------------------------


def to_json(results: Mapping[str, SystemResult]) -> dict[str, Any]:
    """Return the first system, and the others with tests against it."""
    first = next(iter(results))
    others = {}
    for name, table in _changes(results).items():
        others[name] = _of_system(results[name]) | _of_change(table)
    content: dict[str, Any] = {"system": first}
    content |= _of_system(results[first])
    content["others"] = others
    return with_schema("contrast", content)


def _changes(results: Mapping[str, SystemResult]) -> dict[str, Table[Change]]:
    first, *others = results
    items = results[first].items
    right = results[first].right
    tables = {}
    for name in others:
        values = changes(right, results[name].right)
        tables[name] = tabulate(items, values, Change)
    if len(tables) < 2:
        return tables
    for key in tables[others[0]]:
        p_values = [table[key].p_value for table in tables.values()]
        adjusted = holm(p_values)
        for table, p in zip(tables.values(), adjusted, strict=True):
            table[key] = replace(table[key], p_holm=p)
    return tables


def _of_change(table: Table[Change]) -> dict[str, Any]:
    by_phenomenon = _by_phenomenon(table)
    by_distance = _by_distance(table)
    return {
        "mcnemar": _json_of_all(CHANGE_COLUMNS, by_phenomenon),
        "difference": _differences(by_phenomenon),
        "mcnemar_by_distance": _json_of_all(CHANGE_COLUMNS, by_distance),
        "difference_by_distance": _differences(by_distance),
    }


def _differences(cells: Mapping[str, Change]) -> dict[str, Any]:
    differences = {}
    for name, change in cells.items():
        differences[name] = {"value": change.mean, "interval": change.interval}
    return differences


def _of_system(result: SystemResult) -> dict[str, Any]:
    """Return accuracies from 0 to 1, and gains in nats."""
    table = tabulate(result.items, result.right, Accuracy)
    groups = {}
    for name, cells in by_group(result.items, result.right).items():
        groups[name] = _json_of_all(SYSTEM_COLUMNS, cells)
    entry: dict[str, Any] = {
        "unit": result.unit,
        **_accuracies(table),
        "by_group": groups,
        "items": _nested(table, attrgetter("items")),
        "cue": _nested(table, attrgetter("cue")),
    }
    if result.control is not None:
        control = tabulate(result.items, result.control, Accuracy)
        entry["shuffled_context"] = _accuracies(control)
    if result.gains is not None:
        table_of_gains = tabulate(result.items, result.gains, Gain)
        entry["above_shuffled_context"] = _of_gains(table_of_gains)
    return entry


def _of_gains(table: Table[Gain]) -> dict[str, Any]:
    gains = {}
    for key, gain in table.items():
        gains[key] = {
            "value": gain.mean,
            "interval": gain.interval,
            "items": gain.items,
        }
    return {
        "contrastive": _nested(gains, dict),
        "by_phenomenon": _by_phenomenon(gains, total=False),
        "by_distance": _by_distance(gains),
        "all": gains.get((ALL, ALL)),
    }


def _accuracies(table: Table[Accuracy]) -> dict[str, Any]:
    total = table.get((ALL, ALL))
    return {
        "contrastive": _nested(table, attrgetter("mean")),
        "intervals": _nested(table, attrgetter("interval")),
        "by_phenomenon": _json_of_all(SYSTEM_COLUMNS, _by_phenomenon(table, total=False)),
        "by_distance": _json_of_all(SYSTEM_COLUMNS, _by_distance(table)),
        "all": None if total is None else _json(SYSTEM_COLUMNS, total),
    }


def _json(columns: Iterable[ReportColumn], sample: Sample) -> dict[str, Any]:
    entry = {}
    for column in columns:
        value = column.value(sample)
        if column.key and value is not None:
            entry[column.key] = value
    return entry


def _json_of_all(
    columns: Iterable[ReportColumn],
    samples: Mapping[str, Sample],
) -> dict[str, Any]:
    entries = {}
    for name, sample in samples.items():
        entries[name] = _json(columns, sample)
    return entries


def _nested(table: _Cells, value: Callable[[Any], Any]) -> dict[str, Any]:
    nested: dict[str, dict[str, Any]] = {}
    for (name, distance), cell in table.items():
        if ALL in (name, distance):
            continue
        by_distance = nested.setdefault(name, {})
        by_distance[distance] = value(cell)
    return nested


def _by_phenomenon(table: _Cells, total: bool = True) -> dict[str, Any]:
    cells = {}
    for (name, distance), cell in table.items():
        if distance == ALL:
            cells[name] = cell
    if not total or len(cells) == 2:
        cells.pop(ALL, None)
    return cells


def _by_distance(table: _Cells) -> dict[str, Any]:
    cells = {}
    for (name, distance), cell in table.items():
        if name == ALL and distance != ALL:
            cells[distance] = cell
    return cells


# --- text -----------------------------------------------------------------------------------------


def lines_of(result: SystemResult) -> list[str]:
    """Return the tables of a system as text."""
    group_rows = []
    for name, cells in by_group(result.items, result.right).items():
        for value, sample in cells.items():
            group_rows.append(_TextRow([name, value], sample))
    lines = _accuracy_lines(result)
    group_lines = _lines(["group", "value"], SYSTEM_COLUMNS, group_rows)
    if lines and group_lines:
        lines.append("")
    return lines + group_lines


def _accuracy_lines(result: SystemResult) -> list[str]:
    table = tabulate(result.items, result.right, Accuracy)
    control: Table[Accuracy] = {}
    gains: Table[Gain] = {}
    heads = ["cue"]
    if result.control is not None:
        control = tabulate(result.items, result.control, Accuracy)
        heads.append("shuffled context")
    if result.gains is not None:
        gains = tabulate(result.items, result.gains, Gain)
        heads.append("margin above it, nats")
    rows = []
    phenomena = [phenomenon for phenomenon, distance in table if distance == ALL]
    for name in _without_total(phenomena):
        distances = [distance for phenomenon, distance in table if phenomenon == name]
        for distance in _without_total(distances):
            key = name, distance
            behind = [table[key].cue]
            if result.control is not None:
                behind.append(_percent(control[key].mean))
            if result.gains is not None:
                behind.append(_gain_text(gains.get(key)))
            row = _TextRow([name, distance], table[key], behind)
            rows.append(row)
    return _lines(["phenomenon", "distance"], SYSTEM_COLUMNS, rows, heads)


def _without_total(names: Sequence[str]) -> Sequence[str]:
    """Drop the last name, a total, where it is the total of one line."""
    return names if len(names) > 2 else names[:1]


def _gain_text(gain: Gain | None) -> str:
    if gain is None:
        return "-"
    value = in_digits(gain.mean, 3, "+")
    if gain.interval is None:
        return value
    return f"{value} ({change_interval(gain.interval, 3)})"


def test_lines(results: Mapping[str, SystemResult]) -> list[str]:
    """Return the paired tests of the others with the first system."""
    rows = []
    has_documents = False
    for name, table in _changes(results).items():
        for phenomenon, change in _by_phenomenon(table).items():
            has_documents = has_documents or change.document_count is not None
            rows.append(_TextRow([name, phenomenon], change))
    first = next(iter(results))
    test_name = "documents flipped" if has_documents else "McNemar"
    heads = {"only first": f"only {first}", "p": f"p ({test_name})"}
    columns = []
    for column in CHANGE_COLUMNS:
        head = heads.get(column.head, column.head)
        columns.append(replace(column, head=head))
    return _lines(["system", "phenomenon"], columns, rows)


def _lines(
    before: Sequence[str],
    columns: Iterable[ReportColumn],
    rows: Sequence[_TextRow],
    behind: Sequence[str] = (),
) -> list[str]:
    if not rows:
        return []
    shown = []
    for column in columns:
        has_values = any(column.value(row.sample) is not None for row in rows)
        if column.head and has_values:
            shown.append(column)
    heads = [column.head for column in shown]
    table = [[*before, *heads, *behind]]
    for row in rows:
        cells = []
        for column in shown:
            value = column.value(row.sample)
            cells.append("-" if value is None else column.show(value))
        table.append([*row.before, *cells, *row.behind])
    flush_left = set(range(len(before)))
    if behind:
        flush_left = {0, len(before) + len(shown)}
    return aligned(table, flush_left)
