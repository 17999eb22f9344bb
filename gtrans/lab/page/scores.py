"""The scores of all systems of a test set side by side, as ``gtrans score --json`` has them."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from gtrans.errors import GtransError
from gtrans.evaluation.metrics import METRICS
from gtrans.evaluation.report import is_higher_better, p_value
from gtrans.lab.page.folders import ScoreTable
from gtrans.lab.page.texts import TestSet

SIGNIFICANT = 0.05
_CONSISTENCY = "lexical_consistency"
_LABELS = {_CONSISTENCY: "lexical consistency"}


@dataclass(frozen=True)
class Change:
    """A comparison of a system with a baseline.

    Attributes:
        baseline: the label of the other system.
        difference: of the scores.
        p: of the paired approximate randomisation; empty if nothing was resampled.
        direction: ``better``, ``worse`` or ``even``.
        significant: p is below :data:`SIGNIFICANT`.
        p_non_inferior: of the test of ``--non-inferior``; empty without it.
        p_sign: of the sign test where it points the other way than the scores; empty otherwise.
    """

    baseline: str
    difference: float
    p: str
    direction: str
    significant: bool
    p_non_inferior: str
    p_sign: str


@dataclass
class Cell:
    """A score; ``interval``: the ends of its 95% interval."""

    score: float
    interval: tuple[float, float] | None = None
    changes: list[Change] = field(default_factory=list)
    best: bool = False


@dataclass(frozen=True)
class Column:
    """A metric; ``signatures``: all that occur, which should be one."""

    key: str
    label: str
    higher_is_better: bool
    signatures: list[str]


@dataclass(frozen=True)
class ScoresOfTest:
    """The scores over a test set; ``rows``: by the label of the system, then by metric."""

    columns: list[Column]
    rows: dict[str, dict[str, Cell]]
    counts: str
    notes: list[str]


def side_by_side(test: TestSet, scores: Sequence[Mapping[str, Any]]) -> ScoresOfTest:
    """All tables of a test set as one.

    Args:
        test: the test set.
        scores: what ``gtrans score --json`` has for each of its tables.

    Raises:
        GtransError: two tables have different scores of the same translation.
    """
    rows: dict[str, dict[str, Cell]] = {label: {} for label in test.systems}
    signatures: dict[str, dict[str, None]] = {}
    higher: dict[str, bool] = {}
    notes: dict[str, None] = {}
    for (table, labels), found in zip(test.tables, scores, strict=True):
        for name, label in labels.items():
            for key, entry in found["systems"][name].items():
                cell = _read_cell(entry, labels, table)
                if cell is None:
                    continue
                before = rows[label].setdefault(key, cell)
                if not math.isclose(before.score, cell.score, abs_tol=1e-6):
                    raise GtransError(
                        f"{table.path}: {key} of {label} is {cell.score:.2f} there and "
                        f"{before.score:.2f} in another table; run the recipe again."
                    )
                if before is not cell:
                    before.changes += [one for one in cell.changes if one not in before.changes]
                signatures.setdefault(key, {})[str(entry.get("signature", ""))] = None
                higher[key] = higher.get(key, True) and is_higher_better(key, entry)
        if table.resegmented:
            names = ", ".join(labels.values())
            notes[f"{names}: split into the sentences of the reference, here and below"] = None
        for note in found.get("notes", ()):
            notes[_with_labels(str(note), labels)] = None
    columns = [
        Column(key, _label(key), higher[key], [text for text in texts if text])
        for key, texts in signatures.items()
    ]
    for column in columns:
        cells = [row[column.key] for row in rows.values() if column.key in row]
        best = (max if column.higher_is_better else min)(round(cell.score, 2) for cell in cells)
        for cell in cells:
            cell.best = len(cells) > 1 and round(cell.score, 2) == best
    sentences = sum(map(len, test.references))
    counts = f"{sentences:,} sentences in {len(test.references):,} documents"
    return ScoresOfTest(columns, rows, counts, list(notes))


def by_label(test: TestSet, scores: Sequence[Mapping[str, Any]]) -> dict[str, dict[str, Any]]:
    """What ``gtrans score --json`` has of each system, by its label."""
    return {
        label: found["systems"][name]
        for (_, labels), found in zip(test.tables, scores, strict=True)
        for name, label in labels.items()
    }


def _with_labels(note: str, labels: Mapping[str, str]) -> str:
    """A note with the labels of the systems that it names."""
    names = "|".join(sorted(map(re.escape, labels), key=len, reverse=True))
    return re.sub(rf"(?<![\w.+-])(?:{names})(?![\w+-])", lambda name: labels[name[0]], note)


def _label(key: str) -> str:
    return METRICS[key].label if key in METRICS else _LABELS.get(key, key)


def _read_cell(entry: Any, labels: Mapping[str, str], table: ScoreTable) -> Cell | None:
    """A score; None where there is none, as of lexical consistency without repeated terms."""
    try:
        return None if entry.get("score") is None else _cell(entry, labels)
    except (AttributeError, IndexError, KeyError, TypeError, ValueError):
        raise GtransError(
            f"{table.path.with_suffix('.json')}: it is not what `gtrans score --json` writes; run "
            "the recipe again."
        ) from None


def _cell(entry: Mapping[str, Any], labels: Mapping[str, str]) -> Cell:
    interval = (entry.get("confidence") or {}).get("interval")
    ends = (float(interval[0]), float(interval[1])) if interval else None
    cell = Cell(float(entry["score"]), ends)
    comparison = entry.get("comparison")
    if comparison:
        test = comparison.get("paired_randomisation")
        p = None if test is None else float(test["p"])
        baseline = comparison["baseline"]
        margin = comparison.get("non_inferiority")
        sign = comparison["sign_test"]
        cell.changes.append(
            Change(
                labels.get(baseline, next(iter(labels.values()))),
                float(comparison["difference"]),
                "" if p is None else p_value(p),
                str(comparison["direction"]),
                p is not None and p < SIGNIFICANT,
                "" if margin is None else p_value(float(margin["p"])),
                f"{p_value(float(sign['p']))} {sign['direction']}" if sign["disagrees"] else "",
            )
        )
    return cell
