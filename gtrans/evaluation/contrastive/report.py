"""What ``gtrans contrast`` prints of systems: accuracies, tests, preferences, as text and JSON.

:data:`OF_CELLS` and :data:`OF_TESTS` are the columns of all tables; from each follow the heading
and the text on the terminal and the entry in JSON.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from typing import Any

from gtrans.evaluation.contrastive.accuracy import (
    ALL,
    Cell,
    Gains,
    PairedTest,
    Table,
    by_distance,
    gains_by_distance,
    mean_gain,
    pooled,
)
from gtrans.messages import aligned, change_interval, in_digits
from gtrans.version import __version__

_LEAST = 1e-300  # smaller p-values are rounded to 0


@dataclass(frozen=True)
class Result:
    """What is reported of a system.

    Attributes:
        table: accuracy by phenomenon and distance.
        right: whether it gets each item right; None: the item cannot be judged.
        groups: accuracy in the groups of the authors' tables.
        preferences: chosen candidates of items without a right one, by phenomenon.
        outcomes: what generated translations have, by phenomenon.
        quality: scores of translations of sets without wrong ones, by phenomenon.
        unit: the unit of the model; empty for files of other systems.
        control: ``table`` with random contexts.
        gains: what the own context adds to the margin of each item over a random one; None
            without a control, or without scores.
    """

    table: Table
    right: Sequence[bool | None] = ()
    groups: Mapping[str, Mapping[str, Cell]] = field(default_factory=dict)
    preferences: Mapping[str, Mapping[str, int]] = field(default_factory=dict)
    outcomes: Mapping[str, Mapping[str, int]] = field(default_factory=dict)
    quality: Mapping[str, Mapping[str, float]] = field(default_factory=dict)
    unit: str = ""
    control: Table | None = None
    gains: Gains | None = None


# --- columns --------------------------------------------------------------------------------------


def _percent(value: Any) -> str:
    return f"{100 * value:.1f}"


def _range(value: Any) -> str:
    return "-".join(map(_percent, value))


def _p(value: Any) -> str:
    return f"{value:.4g}" if value > _LEAST else f"< {_LEAST:g}"


@dataclass(frozen=True)
class Column:
    """A value of a cell or of a test.

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


_DOCUMENTS = Column("documents", "documents", lambda it: it.document_count)
OF_CELLS = (
    Column("accuracy", "accuracy", lambda it: it.accuracy, _percent),
    Column("95% interval", "interval", lambda it: list(it.interval), _range),
    Column("items", "items", lambda it: it.items),
    _DOCUMENTS,
    Column("", "chance", lambda it: it.chance),
)
OF_TESTS = (
    Column("items", "items", lambda it: it.items),
    _DOCUMENTS,
    Column("only first", "only_first", lambda it: it.only_first),
    Column("only system", "only_other", lambda it: it.only_other),
    Column("change", "", lambda it: it.difference, lambda it: in_digits(100 * it, 1, "+")),
    Column("95% interval", "", lambda it: [100 * end for end in it.interval],
           lambda it: change_interval(it, 1)),
    Column("p", "p", lambda it: it.p_value, _p),
)  # fmt: skip


def _json(columns: Iterable[Column], found: Any) -> dict[str, Any]:
    """The values of a cell or test that are there."""
    values = {column.key: column.value(found) for column in columns if column.key}
    return {key: value for key, value in values.items() if value is not None}


_Row = tuple[Sequence[str], Any, Sequence[str]]


def _lines(
    heads: Sequence[str], columns: Iterable[Column], rows: Sequence[_Row], more: Sequence[str] = ()
) -> list[str]:
    """A table on the terminal, without the columns of which no row has a value.

    Args:
        heads: of what stands before the columns, flush left.
        columns: those of :data:`OF_CELLS` or :data:`OF_TESTS`.
        rows: each with what stands before, the cell or test, and what stands behind.
        more: heads of what stands behind.
    """
    if not rows:
        return []
    shown = [it for it in columns if it.head and any(it.value(row[1]) is not None for row in rows)]
    text = [[*heads, *(column.head for column in shown), *more]]
    for before, found, behind in rows:
        values = [(column, column.value(found)) for column in shown]
        cells = ["-" if value is None else column.show(value) for column, value in values]
        text.append([*before, *cells, *behind])
    left = {0, len(heads) + len(shown)} if more else set(range(len(heads)))
    return aligned(text, left)


# --- JSON -----------------------------------------------------------------------------------------


def to_json(
    results: Mapping[str, Result],
    tests: Mapping[str, Mapping[Any, PairedTest]],
    at_distance: Mapping[str, Mapping[Any, PairedTest]],
    lost_by_none: Sequence[str],
) -> dict[str, Any]:
    """The first system, and all others with their tests against it.

    Args:
        results: by the name of the system.
        tests: by the names of the other systems, then phenomenon.
        at_distance: by the names of the other systems, then distance.
        lost_by_none: items that no scores can lose.
    """
    (first, result), *others = results.items()
    found = {"schema": "gtrans.contrast/1", "version": __version__, "system": first}
    return found | _of_system(result) | {
        "cannot_be_lost": list(lost_by_none),
        "others": {
            name: _of_system(other)
            | _of_tests(tests[name], "")
            | _of_tests(at_distance[name], "_by_distance")
            for name, other in others
        },
    }  # fmt: skip


def _of_tests(tests: Mapping[Any, PairedTest], kind: str) -> dict[str, Any]:
    return {
        f"mcnemar{kind}": {_key(key): _json(OF_TESTS, test) for key, test in tests.items()},
        f"difference{kind}": {
            _key(key): {"value": test.difference, "interval": list(test.interval)}
            for key, test in tests.items()
        },
    }


def _of_system(result: Result) -> dict[str, Any]:
    """What JSON has of a system; accuracies are from 0 to 1, keys of distances strings.

    ``contrastive``, ``intervals``, ``items`` and ``cue`` by phenomenon and distance;
    ``by_phenomenon``, ``by_distance``, ``by_group`` and ``all`` have all values of
    :data:`OF_CELLS`. With a control there is also ``random_context``, which repeats the entries
    that hold accuracies, and of scores ``above_random_context`` with the gains in nats.
    """
    found: dict[str, Any] = {
        "unit": result.unit,
        **_accuracies(result.table),
        "by_group": {
            name: {value: _json(OF_CELLS, cell) for value, cell in values.items()}
            for name, values in result.groups.items()
        },
        "items": _each(result.table, lambda cell: cell.items),
        "cue": _each(result.table, lambda cell: cell.cue),
        "preferences": result.preferences,
        "outcomes": result.outcomes,
        "quality": result.quality,
    }
    if result.control is not None:
        found["random_context"] = _accuracies(result.control)
    if result.gains is not None:
        sums = gains_by_distance(result.gains)
        found["above_random_context"] = {
            "contrastive": _each(result.gains, _gain),
            "by_phenomenon": {key: _gain(_joined(of)) for key, of in result.gains.items()},
            "by_distance": {_key(key): _gain(of) for key, of in sums.items()},
            "all": _gain(_joined(sums)) if sums else None,
        }
    return found


def _accuracies(table: Table) -> dict[str, Any]:
    distances = by_distance(table)
    return {
        "contrastive": _each(table, lambda cell: cell.accuracy),
        "intervals": _each(table, lambda cell: list(cell.interval)),
        "by_phenomenon": {
            name: _json(OF_CELLS, pooled(cells.values())) for name, cells in table.items()
        },
        "by_distance": {_key(key): _json(OF_CELLS, cell) for key, cell in distances.items()},
        "all": _json(OF_CELLS, pooled(distances.values())) if table else None,
    }


def _each(
    table: Mapping[str, Mapping[int | None, Any]], value: Callable[[Any], Any]
) -> dict[str, dict[str, Any]]:
    """A value of each phenomenon and distance."""
    return {name: {_key(d): value(it) for d, it in of.items()} for name, of in table.items()}


def _key(distance: Any) -> str:
    return "unknown" if distance is None else str(distance)


def _gain(gains: Sequence[tuple[float, str]]) -> dict[str, Any]:
    return asdict(mean_gain(gains))


def _joined(cells: Mapping[Any, Sequence[tuple[float, str]]]) -> list[tuple[float, str]]:
    return [gain for gains in cells.values() for gain in gains]


# --- text -----------------------------------------------------------------------------------------


def lines_of(result: Result) -> list[str]:
    """All tables of a system as text, with an empty line between them."""
    groups: list[_Row] = [
        ([name, key], cell, []) for name, of in result.groups.items() for key, cell in of.items()
    ]
    parts = [
        lines(result.table, result.control, result.gains) if result.table else [],
        _lines(["group", "value"], OF_CELLS, groups),
        _count_lines("preferred", result.preferences),
        _count_lines("in the translation", result.outcomes),
        _quality_lines(result.quality),
    ]
    return [line for part in parts if part for line in ("", *part)][1:]


def lines(table: Table, control: Table | None, gains: Gains | None = None) -> list[str]:
    """The table as text: a heading, and a line for each phenomenon and distance.

    Totals follow where there is more than one line to add up: per phenomenon, and over all.
    """
    rows: list[_Row] = []

    def add(name: str, distance: str, cell: Cell, other: Cell, gained: Any) -> None:
        behind = [cell.cue] + ([_percent(other.accuracy)] if control is not None else [])
        behind += [_gain_text(gained)] if gains is not None else []
        rows.append(([name, distance], cell, behind))

    def add_all(name: str, cells: Mapping[int | None, Cell], others: Any, gained: Any) -> None:
        for distance, cell in cells.items():
            add(name, _key(distance), cell, others[distance], gained.get(distance, []))
        if len(cells) > 1:
            whole, other = pooled(cells.values()), pooled(others.values())
            add(name, ALL, whole, other, _joined(gained))

    others, gained = table if control is None else control, gains or {}
    for name, cells in table.items():
        add_all(name, cells, others[name], gained.get(name, {}))
    if len(table) > 1:
        add_all(ALL, by_distance(table), by_distance(others), gains_by_distance(gained))
    more = ["cue"] + (["random context"] if control is not None else [])
    more += ["margin above it, nats"] if gains is not None else []
    return _lines(["phenomenon", "distance"], OF_CELLS, rows, more)


def _gain_text(gains: Sequence[tuple[float, str]]) -> str:
    if not gains:
        return "-"
    gain = mean_gain(gains)
    value = in_digits(gain.value, 3, "+")
    return value if gain.interval is None else f"{value} ({change_interval(gain.interval, 3)})"


def test_lines(first: str, tests: Mapping[str, Mapping[Any, PairedTest]]) -> list[str]:
    """The paired tests of all other systems with the first one, whose name is ``first``."""
    rows: list[_Row] = [
        ([name, str(key)], test, []) for name, of in tests.items() for key, test in of.items()
    ]
    named = any(test.document_count is not None for _, test, _ in rows)
    heads = {
        "only first": f"only {first}",
        "p": f"p ({'documents flipped' if named else 'McNemar'})",
    }
    columns = [replace(it, head=heads.get(it.head, it.head)) for it in OF_TESTS]
    return _lines(["system", "phenomenon"], columns, rows)


def _count_lines(heading: str, counts: Mapping[str, Mapping[str, int]]) -> list[str]:
    rows = [["phenomenon", heading, "items", "share"]]
    for phenomenon, values in counts.items():
        whole = sum(values.values())
        rows += [[phenomenon, key, str(n), _percent(n / whole)] for key, n in values.items()]
    return aligned(rows, words={0, 1}) if counts else []


def _quality_lines(quality: Mapping[str, Mapping[str, float]]) -> list[str]:
    rows = [["phenomenon", "BLEU", "chrF2", "sentences"]]
    rows += [
        [phenomenon, f"{of['s_bleu']:.2f}", f"{of['chrf']:.2f}", str(of["items"])]
        for phenomenon, of in quality.items()
    ]
    return aligned(rows, words={0}) if quality else []
