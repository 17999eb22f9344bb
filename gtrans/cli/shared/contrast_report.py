"""What ``gtrans contrast`` prints: accuracies, tests, preferences."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any, TypeVar

from gtrans.evaluation.contrastive import (
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

_T = TypeVar("_T")

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


def report(result: Result) -> dict[str, Any]:
    """What ``--json`` has of a system; accuracies are from 0 to 1, keys of distances strings.

    ``{"unit": .., "contrastive": {phenomenon: {"1": accuracy, ..}}, "intervals":
    {phenomenon: {"1": [low, high], ..}}, "items": {phenomenon: {"1": number, ..}}, "cue":
    {phenomenon: {"1": side, ..}}, "by_phenomenon": {phenomenon: whole}, "by_distance":
    {"1": whole, ..}, "by_group": {grouping: {value: whole}}, "all": whole or null,
    "preferences": .., "outcomes": .., "quality": ..}`` with ``{"accuracy": .., "interval":
    [low, high], "items": number, "documents": their number if the set names them, "chance":
    accuracy of random scores}`` for ``whole``. With a
    control there is also ``"random_context"``, which repeats the entries that hold accuracies, and
    of scores ``"above_random_context"``: ``{"contrastive": {phenomenon: {"1": gain, ..}},
    "by_phenomenon": {phenomenon: gain}, "by_distance": {"1": gain, ..}, "all": gain or null}`` with
    ``{"value": nats, "interval": [low, high] or null, "items": number}`` for ``gain``.
    """
    found: dict[str, Any] = {
        "unit": result.unit,
        **_accuracies(result.table),
        "by_group": {
            name: {value: _whole(cell) for value, cell in values.items()}
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
        found["above_random_context"] = _gains(result.gains)
    return found


def report_all(
    results: Mapping[str, Result],
    tests: Mapping[str, Mapping[Any, PairedTest]],
    at_distance: Mapping[str, Mapping[Any, PairedTest]],
    lost_by_none: Sequence[str],
) -> dict[str, Any]:
    """:func:`report` of the first system, and of all others with their tests against it.

    Args:
        results: by the name of the system.
        tests: by the names of the other systems, then phenomenon.
        at_distance: by the names of the other systems, then distance.
        lost_by_none: items that no scores can lose.
    """
    (first, result), *others = results.items()
    return {
        "schema": "gtrans.contrast/1",
        "version": __version__,
        "system": first,
        **report(result),
        "cannot_be_lost": list(lost_by_none),
        "others": {
            name: {
                **report(other),
                "mcnemar": {key: _mcnemar(test) for key, test in tests[name].items()},
                "difference": {key: _difference(test) for key, test in tests[name].items()},
                "mcnemar_by_distance": _of_distances(at_distance[name], _mcnemar),
                "difference_by_distance": _of_distances(at_distance[name], _difference),
            }
            for name, other in others
        },
    }


def _mcnemar(test: PairedTest) -> dict[str, object]:
    counts = {"items": test.items, "only_first": test.only_first, "only_other": test.only_other}
    return counts | _documents(test) | {"p": test.p_value}


def _documents(found: Cell | PairedTest) -> dict[str, object]:
    """The number of documents, where the set names them."""
    count = found.document_count
    return {} if count is None else {"documents": count}


def _difference(test: PairedTest) -> dict[str, object]:
    return {"value": test.difference, "interval": list(test.interval)}


def _each(table: Table, value: Callable[[Cell], object]) -> dict[str, dict[str, object]]:
    return {phenomenon: _of_distances(cells, value) for phenomenon, cells in table.items()}


def _of_distances(
    cells: Mapping[int | None, _T], value: Callable[[_T], object]
) -> dict[str, object]:
    return {_distance(distance): value(cell) for distance, cell in cells.items()}


def _accuracies(table: Table) -> dict[str, Any]:
    return {
        "contrastive": _each(table, lambda cell: cell.accuracy),
        "intervals": _each(table, lambda cell: list(cell.interval)),
        "by_phenomenon": {name: _whole(pooled(cells.values())) for name, cells in table.items()},
        "by_distance": _of_distances(by_distance(table), _whole),
        "all": _whole(pooled(by_distance(table).values())) if table else None,
    }


def _gains(gains: Gains) -> dict[str, Any]:
    sums = gains_by_distance(gains)
    return {
        "contrastive": {name: _of_distances(cells, _gain) for name, cells in gains.items()},
        "by_phenomenon": {name: _gain(_joined(cells)) for name, cells in gains.items()},
        "by_distance": _of_distances(sums, _gain),
        "all": _gain(_joined(sums)) if sums else None,
    }


def _gain(values: Sequence[tuple[float, str]]) -> dict[str, object]:
    return asdict(mean_gain(values))


def _joined(cells: Mapping[int | None, Sequence[tuple[float, str]]]) -> list[tuple[float, str]]:
    return [value for values in cells.values() for value in values]


def _whole(cell: Cell) -> dict[str, object]:
    return {
        "accuracy": cell.accuracy,
        "interval": list(cell.interval),
        "items": cell.items,
        **_documents(cell),
        "chance": cell.chance,
    }


def lines_of(result: Result) -> list[str]:
    """All tables of a system as text, with an empty line between them."""
    parts = [
        lines(result.table, result.control, result.gains) if result.table else [],
        _group_lines(result.groups),
        _count_lines("preferred", result.preferences),
        _count_lines("in the translation", result.outcomes),
        _quality_lines(result.quality),
    ]
    filled = [part for part in parts if part]
    return [line for part in filled for line in ("", *part)][1:]


def lines(table: Table, control: Table | None, gains: Gains | None = None) -> list[str]:
    """The table as text: a heading, and a line for each phenomenon and distance.

    Totals follow where there is more than one line to add up: per phenomenon, and over all.
    """
    named = any(
        cell.document_count is not None for cells in table.values() for cell in cells.values()
    )
    rows = [["phenomenon", "distance", "accuracy", "95% interval", "items", "cue"]]
    rows[0] += ["documents"] if named else []
    rows[0] += ["random context"] if control is not None else []
    rows[0] += ["margin above it, nats"] if gains is not None else []

    def add(
        phenomenon: str, distance: str, cell: Cell, other: Cell, gained: Sequence[tuple[float, str]]
    ) -> None:
        row = [phenomenon, distance, *_figures(cell), cell.cue]
        row += [str(cell.document_count or "-")] if named else []
        row += [f"{100 * other.accuracy:.1f}"] if control is not None else []
        row += [_gain_text(gained)] if gains is not None else []
        rows.append(row)

    def add_all(
        phenomenon: str,
        cells: Mapping[int | None, Cell],
        others: Mapping[int | None, Cell],
        gained: Mapping[int | None, Sequence[tuple[float, str]]],
    ) -> None:
        for distance, cell in cells.items():
            add(phenomenon, _distance(distance), cell, others[distance], gained.get(distance, []))
        if len(cells) > 1:
            whole, other = pooled(cells.values()), pooled(others.values())
            add(phenomenon, "all", whole, other, _joined(gained))

    others, gained = table if control is None else control, {} if gains is None else gains
    for phenomenon, cells in table.items():
        add_all(phenomenon, cells, others[phenomenon], gained.get(phenomenon, {}))
    if len(table) > 1:
        add_all("all", by_distance(table), by_distance(others), gains_by_distance(gained))
    return aligned(rows, words={0, 5})


def _gain_text(values: Sequence[tuple[float, str]]) -> str:
    if not values:
        return "-"
    gain = mean_gain(values)
    value = in_digits(gain.value, 3, "+")
    return value if gain.interval is None else f"{value} ({change_interval(gain.interval, 3)})"


def test_lines(first: str, tests: Mapping[str, Mapping[Any, PairedTest]]) -> list[str]:
    """The paired tests of all other systems with the first one, over documents if they are named.

    Accuracies differ by the change; its interval is of 95%.
    """
    every = [test for of in tests.values() for test in of.values()]
    named = any(test.document_count is not None for test in every)
    p_head = "p (documents flipped)" if named else "p (McNemar)"
    counted = ["items", "documents"] if named else ["items"]
    rows = [["system", "phenomenon", *counted, f"only {first}", "only system"]]
    rows[0] += ["change", "95% interval", p_head]
    for name, by_phenomenon in tests.items():
        for phenomenon, test in by_phenomenon.items():
            counts = [test.items, *([test.document_count] if named else [])]
            counts += [test.only_first, test.only_other]
            p_value = f"{test.p_value:.4g}" if test.p_value > _LEAST else f"< {_LEAST:g}"
            change = in_digits(100 * test.difference, 1, "+")
            ends = change_interval((100 * end for end in test.interval), 1)
            shown = ["-" if n is None else str(n) for n in counts]
            rows.append([name, str(phenomenon), *shown, change, ends, p_value])
    return aligned(rows, words={0, 1})


def _group_lines(groups: Mapping[str, Mapping[str, Cell]]) -> list[str]:
    rows = [["group", "value", "accuracy", "95% interval", "items"]]
    for name, values in groups.items():
        rows += [[name, value, *_figures(cell)] for value, cell in values.items()]
    return aligned(rows, words={0, 1}) if groups else []


def _count_lines(heading: str, counts: Mapping[str, Mapping[str, int]]) -> list[str]:
    rows = [["phenomenon", heading, "items", "share"]]
    for phenomenon, values in counts.items():
        whole = sum(values.values())
        rows += [
            [phenomenon, value, str(count), f"{100 * count / whole:.1f}"]
            for value, count in values.items()
        ]
    return aligned(rows, words={0, 1}) if counts else []


def _quality_lines(quality: Mapping[str, Mapping[str, float]]) -> list[str]:
    rows = [["phenomenon", "BLEU", "chrF2", "sentences"]]
    rows += [
        [phenomenon, f"{of['s_bleu']:.2f}", f"{of['chrf']:.2f}", str(of["items"])]
        for phenomenon, of in quality.items()
    ]
    return aligned(rows, words={0}) if quality else []


def _figures(cell: Cell) -> list[str]:
    low, high = cell.interval
    return [f"{100 * cell.accuracy:.1f}", f"{100 * low:.1f}-{100 * high:.1f}", str(cell.items)]


def _distance(distance: int | None) -> str:
    return "unknown" if distance is None else str(distance)
