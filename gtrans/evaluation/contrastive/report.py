"""What ``gtrans contrast`` prints of systems: accuracies and tests, as text and JSON.

:data:`OF_SYSTEMS` and :data:`OF_CHANGES` are the columns of all tables; from each follow the
heading and the text on the terminal and the entry in JSON.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from gtrans.evaluation.contrastive.accuracy import (
    ALL,
    Accuracy,
    Change,
    Gain,
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
class Result:
    """The reported numbers of a system.

    Attributes:
        items: all items.
        right: whether it gets each right; None: the item cannot be judged.
        lines: for each item what the system makes of it, as JSON.
        unit: the unit of the model; empty for files of other systems.
        control: as ``right``, with shuffled contexts.
        gains: what the own context adds to the margin of each item over a shuffled one; None
            without a control, or without scores.
    """

    items: Sequence[Item]
    right: Sequence[bool | None]
    lines: Sequence[str] = ()
    unit: str = ""
    control: Sequence[bool | None] | None = None
    gains: Sequence[float | None] | None = None


_Row = tuple[Sequence[str], Any, Sequence[str]]


# --- columns --------------------------------------------------------------------------------------


def _percent(value: Any) -> str:
    return f"{100 * value:.1f}"


def _p(value: Any) -> str:
    return f"{value:.4g}" if value > _LEAST else f"< {_LEAST:g}"


@dataclass(frozen=True)
class ReportColumn:
    """A value of a system or of a change.

    Attributes:
        head: its heading on the terminal; nothing: it is not printed.
        key: its key in JSON; nothing: it is not there.
        name: the property of the cell that has the value; None there: the cell has no value.
        show: its text.
    """

    head: str
    key: str
    name: str
    show: Callable[[Any], str] = str


_COUNTS = (
    ReportColumn("items", "items", "items"),
    ReportColumn("documents", "documents", "document_count"),
)
OF_SYSTEMS = (
    ReportColumn("accuracy", "accuracy", "mean", _percent),
    ReportColumn(
        "95% interval", "interval", "interval", lambda ends: "-".join(map(_percent, ends))
    ),
    *_COUNTS,
    ReportColumn("", "chance", "chance"),
)
OF_CHANGES = (
    *_COUNTS,
    ReportColumn("only first", "only_first", "only_first"),
    ReportColumn("only system", "only_other", "only_other"),
    ReportColumn("change", "", "mean", lambda change: in_digits(100 * change, 1, "+")),
    ReportColumn(
        "95% interval",
        "",
        "interval",
        lambda ends: change_interval([100 * end for end in ends], 1),
    ),
    ReportColumn("p", "p", "p_value", _p),
    ReportColumn("p Holm", "p_holm", "p_holm", _p),
)


# --- JSON -----------------------------------------------------------------------------------------


def to_json(results: Mapping[str, Result]) -> dict[str, Any]:
    """The first system, and all others with their tests against it, by their names."""
    first = next(iter(results))
    others = {}
    for name, table in _changes(results).items():
        others[name] = _of_system(results[name]) | _of_change(table)
    entry = {"system": first} | _of_system(results[first]) | {"others": others}
    return with_schema("contrast", entry)


def _changes(results: Mapping[str, Result]) -> dict[str, Table[Change]]:
    """Each other system beside the first one."""
    first, *others = results
    items, right = results[first].items, results[first].right
    tables = {name: tabulate(items, changes(right, results[name].right), Change) for name in others}
    if len(tables) < 2:
        return tables
    for key in tables[others[0]]:
        adjusted = holm([table[key].p_value for table in tables.values()])
        for table, p in zip(tables.values(), adjusted, strict=True):
            table[key] = replace(table[key], p_holm=p)
    return tables


def _of_change(table: Table[Change]) -> dict[str, Any]:
    entry: dict[str, Any] = {}
    for kind, cells in (("", _by_phenomenon(table)), ("_by_distance", _by_distance(table))):
        differences = {}
        for key, cell in cells.items():
            differences[key] = {"value": cell.mean, "interval": cell.interval}
        entry[f"mcnemar{kind}"] = _json(OF_CHANGES, cells)
        entry[f"difference{kind}"] = differences
    return entry


def _of_system(result: Result) -> dict[str, Any]:
    """A system in JSON; accuracies are from 0 to 1, keys of distances strings.

    ``contrastive``, ``intervals``, ``items`` and ``cue`` by phenomenon and distance;
    ``by_phenomenon``, ``by_distance``, ``by_group`` and ``all`` have all values of
    :data:`OF_SYSTEMS`. With a control there is also ``shuffled_context``, which repeats the entries
    that hold accuracies, and of scores ``above_shuffled_context`` with the gains in nats.
    """
    table = tabulate(result.items, result.right, Accuracy)
    groups = by_group(result.items, result.right)
    entry: dict[str, Any] = {
        "unit": result.unit,
        **_accuracies(table),
        "by_group": {name: _json(OF_SYSTEMS, cells) for name, cells in groups.items()},
        "items": _each(table, lambda cell: cell.items),
        "cue": _each(table, lambda cell: cell.cue),
    }
    if result.control is not None:
        control = tabulate(result.items, result.control, Accuracy)
        entry["shuffled_context"] = _accuracies(control)
    if result.gains is not None:
        gains: dict[tuple[str, str], Any] = {}
        for key, gain in tabulate(result.items, result.gains, Gain).items():
            gains[key] = {"value": gain.mean, "interval": gain.interval, "items": gain.items}
        entry["above_shuffled_context"] = {
            "contrastive": _each(gains, dict),
            "by_phenomenon": _by_phenomenon(gains, total=False),
            "by_distance": _by_distance(gains),
            "all": gains.get((ALL, ALL)),
        }
    return entry


def _accuracies(table: Table[Accuracy]) -> dict[str, Any]:
    return {
        "contrastive": _each(table, lambda cell: cell.mean),
        "intervals": _each(table, lambda cell: cell.interval),
        "by_phenomenon": _json(OF_SYSTEMS, _by_phenomenon(table, total=False)),
        "by_distance": _json(OF_SYSTEMS, _by_distance(table)),
        "all": _json(OF_SYSTEMS, table).get((ALL, ALL)),
    }


def _json(columns: Iterable[ReportColumn], cells: Mapping[Any, Any]) -> dict[Any, dict[str, Any]]:
    """The values of cells that are there."""
    entries: dict[Any, dict[str, Any]] = {}
    for name, cell in cells.items():
        entries[name] = {}
        for column in columns:
            value = getattr(cell, column.name)
            if column.key and value is not None:
                entries[name][column.key] = value
    return entries


def _each(table: Mapping[tuple[str, str], Any], value: Callable[[Any], Any]) -> dict[str, Any]:
    """A value of each phenomenon and distance."""
    nested: dict[str, dict[str, Any]] = {}
    for (name, distance), cell in table.items():
        if ALL not in (name, distance):
            nested.setdefault(name, {})[distance] = value(cell)
    return nested


def _by_phenomenon(table: Mapping[tuple[str, str], Any], total: bool = True) -> dict[str, Any]:
    """The cells of whole phenomena.

    Args:
        table: all cells.
        total: also the cell of all phenomena, where there are several.
    """
    cells = {}
    for (name, distance), cell in table.items():
        if distance == ALL:
            cells[name] = cell
    if not total or len(cells) == 2:
        cells.pop(ALL, None)
    return cells


def _by_distance(table: Mapping[tuple[str, str], Any]) -> dict[str, Any]:
    cells = {}
    for (name, distance), cell in table.items():
        if name == ALL and distance != ALL:
            cells[distance] = cell
    return cells


# --- text -----------------------------------------------------------------------------------------


def lines_of(result: Result) -> list[str]:
    """All tables of a system as text, with an empty line between them."""
    groups: list[_Row] = []
    for name, cells in by_group(result.items, result.right).items():
        groups += [([name, key], cell, []) for key, cell in cells.items()]
    lines = _accuracy_lines(result)
    of_groups = _lines(["group", "value"], OF_SYSTEMS, groups)
    if lines and of_groups:
        lines.append("")
    return lines + of_groups


def _accuracy_lines(result: Result) -> list[str]:
    """The table: a line for each phenomenon and distance, and totals of several of them."""
    table = tabulate(result.items, result.right, Accuracy)
    behind: dict[str, Callable[[tuple[str, str]], str]] = {}
    behind["cue"] = lambda key: table[key].cue
    if result.control is not None:
        control = tabulate(result.items, result.control, Accuracy)
        behind["shuffled context"] = lambda key: _percent(control[key].mean)
    if result.gains is not None:
        gains = tabulate(result.items, result.gains, Gain)
        behind["margin above it, nats"] = lambda key: _gain_text(gains.get(key))
    names = _without_total([name for name, distance in table if distance == ALL])
    rows: list[_Row] = []
    for name in names:
        distances = [distance for phenomenon, distance in table if phenomenon == name]
        for distance in _without_total(distances):
            key = name, distance
            more = [text(key) for text in behind.values()]
            rows.append(([name, distance], table[key], more))
    return _lines(["phenomenon", "distance"], OF_SYSTEMS, rows, list(behind))


def _without_total(names: Sequence[str]) -> Sequence[str]:
    """The names of lines; a total, which is the last, is left out where it is of one line only."""
    return names if len(names) > 2 else names[:1]


def _gain_text(gain: Gain | None) -> str:
    if gain is None:
        return "-"
    value = in_digits(gain.mean, 3, "+")
    return value if gain.interval is None else f"{value} ({change_interval(gain.interval, 3)})"


def test_lines(results: Mapping[str, Result]) -> list[str]:
    """The paired tests of all other systems with the first one."""
    rows: list[_Row] = []
    for name, table in _changes(results).items():
        rows += [([name, key], test, []) for key, test in _by_phenomenon(table).items()]
    named = any(test.document_count is not None for _, test, _ in rows)
    first = next(iter(results))
    test_name = "documents flipped" if named else "McNemar"
    heads = {"only first": f"only {first}", "p": f"p ({test_name})"}
    columns = []
    for column in OF_CHANGES:
        head = heads.get(column.head, column.head)
        columns.append(replace(column, head=head))
    return _lines(["system", "phenomenon"], columns, rows)


def _lines(
    heads: Sequence[str],
    columns: Iterable[ReportColumn],
    rows: Sequence[_Row],
    more: Sequence[str] = (),
) -> list[str]:
    """A table on the terminal, without columns that are empty in all rows.

    Args:
        heads: headings of the texts before the columns, flush left.
        columns: the columns of the cells.
        rows: texts before the columns, the cell, and texts behind them.
        more: headings of the texts behind the columns.
    """
    if not rows:
        return []
    shown = []
    for column in columns:
        values = [getattr(cell, column.name) for _, cell, _ in rows]
        if column.head and any(value is not None for value in values):
            shown.append(column)
    text = [[*heads, *[column.head for column in shown], *more]]
    for before, cell, behind in rows:
        cells = []
        for column in shown:
            value = getattr(cell, column.name)
            cells.append("-" if value is None else column.show(value))
        text.append([*before, *cells, *behind])
    flush_left = {0, len(heads) + len(shown)} if more else set(range(len(heads)))
    return aligned(text, flush_left)
