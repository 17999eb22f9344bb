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
from gtrans.messages import aligned, change_interval, in_digits, of_form

_LEAST = 1e-300  # smaller p-values are rounded to 0


@dataclass(frozen=True)
class Result:
    """What is reported of a system.

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
class Column:
    """A value of a system or of a change.

    Attributes:
        head: its heading on the terminal; nothing: it is not printed.
        key: its key in JSON; nothing: it is not there.
        name: that of the property of the cell; None there: it has none.
        show: its text.
    """

    head: str
    key: str
    name: str
    show: Callable[[Any], str] = str


_COUNTS = (Column("items", "items", "items"), Column("documents", "documents", "document_count"))
OF_SYSTEMS = (
    Column("accuracy", "accuracy", "mean", _percent),
    Column("95% interval", "interval", "interval", lambda ends: "-".join(map(_percent, ends))),
    *_COUNTS,
    Column("", "chance", "chance"),
)
OF_CHANGES = (
    *_COUNTS,
    Column("only first", "only_first", "only_first"),
    Column("only system", "only_other", "only_other"),
    Column("change", "", "mean", lambda change: in_digits(100 * change, 1, "+")),
    Column(
        "95% interval", "", "interval", lambda ends: change_interval([100 * end for end in ends], 1)
    ),
    Column("p", "p", "p_value", _p),
    Column("p Holm", "p_holm", "p_holm", _p),
)


# --- JSON -----------------------------------------------------------------------------------------


def to_json(results: Mapping[str, Result]) -> dict[str, Any]:
    """The first system, and all others with their tests against it, by their names."""
    first = next(iter(results))
    others = {
        name: _of_system(results[name]) | _of_change(table)
        for name, table in _changes(results).items()
    }
    return of_form("contrast", {"system": first, **_of_system(results[first]), "others": others})


def _changes(results: Mapping[str, Result]) -> dict[str, Table[Change]]:
    """Each other system beside the first one."""
    (_, first), *others = results.items()
    tables = {
        name: tabulate(first.items, changes(first.right, other.right), Change)
        for name, other in others
    }
    for key in next(iter(tables.values())) if len(tables) > 1 else ():
        adjusted = holm([table[key].p_value for table in tables.values()])
        for table, p in zip(tables.values(), adjusted, strict=True):
            table[key] = replace(table[key], p_holm=p)
    return tables


def _of_change(table: Table[Change]) -> dict[str, Any]:
    entry: dict[str, Any] = {}
    for kind, cells in (("", _by_phenomenon(table)), ("_by_distance", _by_distance(table))):
        entry[f"mcnemar{kind}"] = _json(OF_CHANGES, cells)
        entry[f"difference{kind}"] = {
            key: {"value": cell.mean, "interval": cell.interval} for key, cell in cells.items()
        }
    return entry


def _of_system(result: Result) -> dict[str, Any]:
    """What JSON has of a system; accuracies are from 0 to 1, keys of distances strings.

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
        gains = {
            key: {"value": gain.mean, "interval": gain.interval, "items": gain.items}
            for key, gain in tabulate(result.items, result.gains, Gain).items()
        }
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


def _json(columns: Iterable[Column], cells: Mapping[Any, Any]) -> dict[Any, dict[str, Any]]:
    """The values of cells that are there."""
    return {
        name: {
            column.key: value
            for column in columns
            if column.key and (value := getattr(cell, column.name)) is not None
        }
        for name, cell in cells.items()
    }


def _each(table: Mapping[tuple[str, str], Any], value: Callable[[Any], Any]) -> dict[str, Any]:
    """A value of each phenomenon and distance."""
    nested: dict[str, dict[str, Any]] = {}
    for (name, distance), cell in table.items():
        if ALL not in (name, distance):
            nested.setdefault(name, {})[distance] = value(cell)
    return nested


def _by_phenomenon(table: Mapping[tuple[str, str], Any], total: bool = True) -> dict[str, Any]:
    """The cells of whole phenomena; ``total``: with that of all, where there are several."""
    cells = {name: cell for (name, distance), cell in table.items() if distance == ALL}
    if not total or len(cells) == 2:
        cells.pop(ALL, None)
    return cells


def _by_distance(table: Mapping[tuple[str, str], Any]) -> dict[str, Any]:
    return {at: cell for (name, at), cell in table.items() if name == ALL and at != ALL}


# --- text -----------------------------------------------------------------------------------------


def lines_of(result: Result) -> list[str]:
    """All tables of a system as text, with an empty line between them."""
    groups: list[_Row] = [
        ([name, key], cell, [])
        for name, cells in by_group(result.items, result.right).items()
        for key, cell in cells.items()
    ]
    parts = [_accuracy_lines(result), _lines(["group", "value"], OF_SYSTEMS, groups)]
    return [line for part in parts if part for line in ("", *part)][1:]


def _accuracy_lines(result: Result) -> list[str]:
    """The table: a line for each phenomenon and distance, and totals of several of them."""
    table = tabulate(result.items, result.right, Accuracy)
    behind: dict[str, Callable[[tuple[str, str]], str]] = {"cue": lambda key: table[key].cue}
    if result.control is not None:
        control = tabulate(result.items, result.control, Accuracy)
        behind["shuffled context"] = lambda key: _percent(control[key].mean)
    if result.gains is not None:
        gains = tabulate(result.items, result.gains, Gain)
        behind["margin above it, nats"] = lambda key: _gain_text(gains.get(key))
    names = [name for name, distance in table if distance == ALL]
    rows: list[_Row] = []
    for name in names if len(names) > 2 else names[:1]:
        distances = [distance for phenomenon, distance in table if phenomenon == name]
        for of in distances if len(distances) > 2 else distances[:1]:
            more = [text((name, of)) for text in behind.values()]
            rows.append(([name, of], table[name, of], more))
    return _lines(["phenomenon", "distance"], OF_SYSTEMS, rows, list(behind))


def _gain_text(gain: Gain | None) -> str:
    if gain is None:
        return "-"
    value = in_digits(gain.mean, 3, "+")
    return value if gain.interval is None else f"{value} ({change_interval(gain.interval, 3)})"


def test_lines(results: Mapping[str, Result]) -> list[str]:
    """The paired tests of all other systems with the first one."""
    rows: list[_Row] = [
        ([name, key], test, [])
        for name, table in _changes(results).items()
        for key, test in _by_phenomenon(table).items()
    ]
    named = any(test.document_count is not None for _, test, _ in rows)
    heads = {
        "only first": f"only {next(iter(results))}",
        "p": f"p ({'documents flipped' if named else 'McNemar'})",
    }
    columns = [replace(column, head=heads.get(column.head, column.head)) for column in OF_CHANGES]
    return _lines(["system", "phenomenon"], columns, rows)


def _lines(
    heads: Sequence[str], columns: Iterable[Column], rows: Sequence[_Row], more: Sequence[str] = ()
) -> list[str]:
    """A table on the terminal, without the columns of which no row has a value.

    Args:
        heads: of what stands before the columns, flush left.
        columns: of the cells.
        rows: each with what stands before, the cell, and what stands behind.
        more: heads of what stands behind.
    """
    if not rows:
        return []
    shown = [
        column
        for column in columns
        if column.head and any(getattr(row[1], column.name) is not None for row in rows)
    ]
    text = [[*heads, *(column.head for column in shown), *more]]
    for before, cell, behind in rows:
        values = [(column, getattr(cell, column.name)) for column in shown]
        cells = ["-" if value is None else column.show(value) for column, value in values]
        text.append([*before, *cells, *behind])
    return aligned(text, {0, len(heads) + len(shown)} if more else set(range(len(heads))))
