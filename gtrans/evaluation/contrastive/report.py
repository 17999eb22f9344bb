"""What ``gtrans contrast`` prints of systems: accuracies, tests, outcomes, as text and JSON.

:data:`OF_SYSTEMS` and :data:`OF_CHANGES` are the columns of all tables; from each follow the
heading and the text on the terminal and the entry in JSON.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from gtrans.evaluation.contrastive.accuracy import ALL, Accuracy, Change, Gain, Table
from gtrans.messages import aligned, change_interval, in_digits
from gtrans.version import __version__

_LEAST = 1e-300  # smaller p-values are rounded to 0


@dataclass(frozen=True)
class Result:
    """What is reported of a system.

    Attributes:
        right: whether it gets each item right; None: the item cannot be judged.
        table: its accuracy.
        groups: accuracy in the groups of the authors' tables.
        lines: for each item what the system makes of it, as JSON.
        outcomes: what generated translations have, by phenomenon.
        unit: the unit of the model; empty for files of other systems.
        control: ``table`` with random contexts.
        gains: what the own context adds to the margins over a random one; None without a control,
            or without scores.
    """

    right: Sequence[bool | None]
    table: Table[Accuracy]
    groups: Mapping[str, Mapping[str, Accuracy]]
    lines: Sequence[str] = ()
    outcomes: Mapping[str, Mapping[str, int]] = field(default_factory=dict)
    unit: str = ""
    control: Table[Accuracy] | None = None
    gains: Table[Gain] | None = None


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
        value: the value; None: there is none.
        show: its text.
    """

    head: str
    key: str
    value: Callable[[Any], Any]
    show: Callable[[Any], str] = str


_ITEMS = Column("items", "items", lambda it: it.items)
_DOCUMENTS = Column("documents", "documents", lambda it: it.document_count)
OF_SYSTEMS = (
    Column("accuracy", "accuracy", lambda it: it.accuracy, _percent),
    Column("95% interval", "interval", lambda it: list(it.interval),
           lambda it: "-".join(map(_percent, it))),
    _ITEMS,
    _DOCUMENTS,
    Column("", "chance", lambda it: it.chance),
)  # fmt: skip
OF_CHANGES = (
    _ITEMS,
    _DOCUMENTS,
    Column("only first", "only_first", lambda it: it.only_first),
    Column("only system", "only_other", lambda it: it.only_other),
    Column("change", "", lambda it: it.difference, lambda it: in_digits(100 * it, 1, "+")),
    Column("95% interval", "", lambda it: [100 * end for end in it.interval],
           lambda it: change_interval(it, 1)),
    Column("p", "p", lambda it: it.p_value, _p),
)  # fmt: skip


# --- JSON -----------------------------------------------------------------------------------------


def to_json(results: Mapping[str, Result], tests: Mapping[str, Table[Change]]) -> dict[str, Any]:
    """The first system, and all others with their tests against it, by their names."""
    (first, result), *others = results.items()
    found = {"schema": "gtrans.contrast/1", "version": __version__, "system": first}
    found |= _of_system(result)
    return found | {
        "others": {name: _of_system(other) | _of_change(tests[name]) for name, other in others}
    }


def _of_change(table: Table[Change]) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for kind, cells in (("", _by_phenomenon(table)), ("_by_distance", _by_distance(table))):
        found[f"mcnemar{kind}"] = _json(OF_CHANGES, cells)
        found[f"difference{kind}"] = {
            key: {"value": cell.difference, "interval": list(cell.interval)}
            for key, cell in cells.items()
        }
    return found


def _of_system(result: Result) -> dict[str, Any]:
    """What JSON has of a system; accuracies are from 0 to 1, keys of distances strings.

    ``contrastive``, ``intervals``, ``items`` and ``cue`` by phenomenon and distance;
    ``by_phenomenon``, ``by_distance``, ``by_group`` and ``all`` have all values of
    :data:`OF_SYSTEMS`. With a control there is also ``random_context``, which repeats the entries
    that hold accuracies, and of scores ``above_random_context`` with the gains in nats.
    """
    found: dict[str, Any] = {
        "unit": result.unit,
        **_accuracies(result.table),
        "by_group": {name: _json(OF_SYSTEMS, cells) for name, cells in result.groups.items()},
        "items": _each(result.table, lambda it: it.items),
        "cue": _each(result.table, lambda it: it.cue),
        "outcomes": result.outcomes,
    }
    if result.control is not None:
        found["random_context"] = _accuracies(result.control)
    if result.gains is not None:
        gains = {
            key: {"value": it.value, "interval": it.interval, "items": it.items}
            for key, it in result.gains.items()
        }
        found["above_random_context"] = {
            "contrastive": _each(gains, dict),
            "by_phenomenon": _by_phenomenon(gains, total=False),
            "by_distance": _by_distance(gains),
            "all": gains.get((ALL, ALL)),
        }
    return found


def _accuracies(table: Table[Accuracy]) -> dict[str, Any]:
    return {
        "contrastive": _each(table, lambda it: it.accuracy),
        "intervals": _each(table, lambda it: list(it.interval)),
        "by_phenomenon": _json(OF_SYSTEMS, _by_phenomenon(table, total=False)),
        "by_distance": _json(OF_SYSTEMS, _by_distance(table)),
        "all": _json(OF_SYSTEMS, {ALL: table[ALL, ALL]})[ALL] if table else None,
    }


def _json(columns: Iterable[Column], cells: Mapping[str, Any]) -> dict[str, dict[str, Any]]:
    """The values of cells that are there."""
    return {
        name: {
            column.key: value
            for column in columns
            if column.key and (value := column.value(cell)) is not None
        }
        for name, cell in cells.items()
    }


def _each(table: Mapping[tuple[str, str], Any], value: Callable[[Any], Any]) -> dict[str, Any]:
    """A value of each phenomenon and distance."""
    found: dict[str, dict[str, Any]] = {}
    for (name, distance), cell in table.items():
        if ALL not in (name, distance):
            found.setdefault(name, {})[distance] = value(cell)
    return found


def _by_phenomenon(table: Mapping[tuple[str, str], Any], total: bool = True) -> dict[str, Any]:
    """The cells of whole phenomena; ``total``: with that of all, where there are several."""
    found = {name: cell for (name, distance), cell in table.items() if distance == ALL}
    if not total or len(found) == 2:
        found.pop(ALL, None)
    return found


def _by_distance(table: Mapping[tuple[str, str], Any]) -> dict[str, Any]:
    return {of: cell for (name, of), cell in table.items() if name == ALL and of != ALL}


# --- text -----------------------------------------------------------------------------------------


def lines_of(result: Result) -> list[str]:
    """All tables of a system as text, with an empty line between them."""
    groups: list[_Row] = [
        ([name, key], cell, []) for name, of in result.groups.items() for key, cell in of.items()
    ]
    counts = [["phenomenon", "in the translation", "items", "share"]]
    for phenomenon, values in result.outcomes.items():
        whole = sum(values.values())
        counts += [[phenomenon, key, str(n), _percent(n / whole)] for key, n in values.items()]
    parts = [
        _accuracy_lines(result),
        _lines(["group", "value"], OF_SYSTEMS, groups),
        aligned(counts, words={0, 1}) if result.outcomes else [],
    ]
    return [line for part in parts if part for line in ("", *part)][1:]


def _accuracy_lines(result: Result) -> list[str]:
    """The table: a line for each phenomenon and distance, and totals of several of them."""
    table, control, gains = result.table, result.control, result.gains
    names = [name for name, distance in table if distance == ALL]
    rows: list[_Row] = []
    for name in names if len(names) > 2 else names[:1]:
        distances = [of for one, of in table if one == name]
        for of in distances if len(distances) > 2 else distances[:1]:
            behind = [table[name, of].cue]
            behind += [_percent(control[name, of].accuracy)] if control is not None else []
            behind += [_gain_text(gains.get((name, of)))] if gains is not None else []
            rows.append(([name, of], table[name, of], behind))
    more = ["cue"] + (["random context"] if control is not None else [])
    more += ["margin above it, nats"] if gains is not None else []
    return _lines(["phenomenon", "distance"], OF_SYSTEMS, rows, more)


def _gain_text(gain: Gain | None) -> str:
    if gain is None:
        return "-"
    value = in_digits(gain.value, 3, "+")
    return value if gain.interval is None else f"{value} ({change_interval(gain.interval, 3)})"


def test_lines(first: str, tests: Mapping[str, Table[Change]]) -> list[str]:
    """The paired tests of all other systems with the first one, whose name is ``first``."""
    rows: list[_Row] = [
        ([name, key], test, [])
        for name, table in tests.items()
        for key, test in _by_phenomenon(table).items()
    ]
    named = any(test.document_count is not None for _, test, _ in rows)
    heads = {
        "only first": f"only {first}",
        "p": f"p ({'documents flipped' if named else 'McNemar'})",
    }
    columns = [replace(it, head=heads.get(it.head, it.head)) for it in OF_CHANGES]
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
    shown = [it for it in columns if it.head and any(it.value(row[1]) is not None for row in rows)]
    text = [[*heads, *(column.head for column in shown), *more]]
    for before, cell, behind in rows:
        values = [(column, column.value(cell)) for column in shown]
        cells = ["-" if value is None else column.show(value) for column, value in values]
        text.append([*before, *cells, *behind])
    return aligned(text, {0, len(heads) + len(shown)} if more else set(range(len(heads))))
