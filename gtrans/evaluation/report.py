"""The output of ``gtrans score``: a JSON object, or text with tables."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any

from gtrans.evaluation.buckets import Bucket
from gtrans.evaluation.coverage import Coverage
from gtrans.evaluation.metrics import METRICS
from gtrans.evaluation.scores import Measurement
from gtrans.evaluation.significance import Comparison, Resampling, seed
from gtrans.messages import in_digits


@dataclass
class Report:
    """All results for some systems.

    Attributes:
        systems: their names; the first one is the baseline.
        counts: numbers of sentences, documents and instances.
        measurements: the metrics, by key.
        resampled: confidence intervals and comparisons, by key of the metric.
        buckets: scores of parts of the corpus, by key of their table.
        coverage: what resegmented translations leave out and add, by system.
        resegmented: keys of the scores of resegmented translations.
        column_details: what the scores of :mod:`gtrans.evaluation.columns` are made of, by key and
            system.
        column_lines: their tables.
        notes: warnings about the results.
    """

    systems: list[str]
    counts: dict[str, int] = field(default_factory=dict)
    measurements: dict[str, Measurement] = field(default_factory=dict)
    resampled: dict[str, Resampling] = field(default_factory=dict)
    buckets: dict[str, list[Bucket]] = field(default_factory=dict)
    coverage: dict[str, Coverage] = field(default_factory=dict)
    resegmented: set[str] = field(default_factory=set)
    column_details: dict[str, dict[str, dict[str, Any]]] = field(default_factory=dict)
    column_lines: list[list[str]] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)

    def covered(self, key: str, system: str) -> Coverage | None:
        """What a resegmented system leaves out and adds, if a score is one of resegmented text."""
        return self.coverage.get(system) if key in self.resegmented else None

    def margin(self, key: str) -> float | None:
        """The margin of the tests of non-inferiority, if a score has them."""
        tests = [it.non_inferiority for it in self.resampled[key].comparisons.values()]
        return next((test.margin for test in tests if test is not None), None)


# --- JSON -------------------------------------------------------------------------------


def is_higher_better(key: str, entry: Mapping[str, Any]) -> bool:
    """Whether a higher score is better; ``entry``: what the JSON has of the metric ``key``.

    Files of before the first release say so with a comparison only.
    """
    compared = (entry.get("comparison") or {}).get("higher_is_better")
    known = METRICS[key].higher_is_better if key in METRICS else True
    return bool(entry.get("higher_is_better", known if compared is None else compared))


def to_json(report: Report) -> dict[str, Any]:
    """The report as an object; it has the same keys for one system and for several."""
    scores: dict[str, Any] = {
        "systems": {name: _system(report, name) for name in report.systems},
        "baseline": report.systems[0],
    }
    shared: dict[str, Any] = dict(report.counts)
    for key, buckets in report.buckets.items():
        shared[key] = [
            {"from": bucket.first, "to": bucket.last}
            | bucket.counts
            | bucket.scores
            | _tests_of(report, bucket)
            for bucket in buckets
        ]
    return scores | shared | {"notes": _notes(report)}


def _system(report: Report, name: str) -> dict[str, Any]:
    entry: dict[str, Any] = {}
    for key, measurement in report.measurements.items():
        resampled = report.resampled[key]
        entry[key] = {
            "score": measurement.score(name),
            "higher_is_better": measurement.higher_is_better,
            "signature": measurement.signature,
        }
        covered = report.covered(key, name)
        if covered is not None:
            entry[key] |= {"omitted": covered.omitted, "added": covered.added}
        if name in resampled.confidence:
            confidence = resampled.confidence[name]
            entry[key]["confidence"] = {
                "level": 0.95,
                "interval": confidence.interval,
                "mean": confidence.mean,
                "radius": confidence.radius,
                "resampled": resampled.unit,
                "units": resampled.units,
                "trials": confidence.trials,
                "seed": seed(),
            }
        if name in resampled.comparisons:
            entry[key]["comparison"] = _comparison(
                report.systems[0], measurement, resampled, resampled.comparisons[name]
            )
    if name in report.coverage:
        entry["resegmented"] = asdict(report.coverage[name])
    for key, details in report.column_details.items():
        entry[key] |= details.get(name, {})
    return entry


def _tests_of(report: Report, bucket: Bucket) -> dict[str, Any]:
    """The comparisons within a bucket by metric and system, if there are any."""
    found = {
        key: {
            name: _comparison(report.systems[0], report.measurements[key], resampled, comparison)
            for name, comparison in resampled.comparisons.items()
        }
        for key, resampled in bucket.resampled.items()
    }
    return {"comparison": found} if any(found.values()) else {}


def _comparison(
    baseline: str, measurement: Measurement, resampled: Resampling, comparison: Comparison
) -> dict[str, Any]:
    entry: dict[str, Any] = {
        "baseline": baseline,
        "difference": comparison.difference,
        "direction": comparison.direction,
        "higher_is_better": measurement.higher_is_better,
    }
    if comparison.bootstrap is not None and comparison.randomisation is not None:
        entry |= {
            "interval": comparison.interval,
            "resampled": resampled.unit,
            "units": resampled.units,
            "paired_bootstrap": asdict(comparison.bootstrap),
            "paired_randomisation": asdict(comparison.randomisation),
        }
    if comparison.non_inferiority is not None:
        entry["non_inferiority"] = asdict(comparison.non_inferiority)
    sign_test = comparison.sign_test
    return entry | {
        "sign_test": {"unit": measurement.unit}
        | asdict(sign_test)
        | {"direction": sign_test.direction, "disagrees": comparison.sign_test_disagrees}
    }


# --- text -------------------------------------------------------------------------------

_HEADER = (
    "",
    "system",
    "score",
    "95% interval",
    "change",
    "p boot",
    "p rand",
    "p sign",
    "p non-inf",
    "omitted",
    "added",
)
_BUCKETS = {
    "by_position": ("sentence in its document", "sentences"),
    "by_sentence_length": ("tokens of the reference", "sentences"),
}


def to_text(report: Report, details: bool = False) -> list[str]:
    """The report as lines: scores, signatures, counts; with ``details``, the buckets."""
    rows: list[tuple[str, ...]] = [_HEADER]
    for measurement in report.measurements.values():
        rows += _score_rows(report, measurement)
    if len(report.systems) == 1:
        rows = [(label, "", *cells) for label, _, *cells in rows]
    lines = aligned_rows(rows) if len(rows) > 1 else []
    if details:
        for key, buckets in report.buckets.items():
            lines += ["", *_bucket_lines(report, key, buckets)]
        for table in report.column_lines:
            lines += ["", *table]
    signatures = [(m.label, m.signature) for m in report.measurements.values()]
    width = max((len(label) for label, _ in signatures), default=0)
    if signatures:
        lines += ["", *(f"{label:<{width}}  {signature}" for label, signature in signatures)]
    if report.counts:
        lines.append("")
        lines.append(", ".join(f"{count} {name}" for name, count in report.counts.items()))
    lines += [f"note: {note}" for note in _notes(report)]
    return lines


def _score_rows(report: Report, measurement: Measurement) -> list[tuple[str, ...]]:
    digits = measurement.digits
    resampled = report.resampled[measurement.key]
    rows: list[tuple[str, ...]] = []
    for name in report.systems:
        cells = ["" if rows else measurement.label, name, f"{measurement.score(name):.{digits}f}"]
        if name in resampled.confidence:
            ends = resampled.confidence[name].interval
            cells.append(" to ".join(in_digits(end, digits) for end in ends))
        if name in resampled.comparisons:
            comparison = resampled.comparisons[name]
            cells += [""] * (4 - len(cells))
            cells.append(in_digits(comparison.difference, digits, "+"))
            for test in (comparison.bootstrap, comparison.randomisation):
                cells.append("" if test is None else p_value(test.p))
            cells.append(_sign(comparison))
            if comparison.non_inferiority is not None:
                cells.append(p_value(comparison.non_inferiority.p))
        rows.append((*cells, *_covered(report, measurement.key, name, len(cells))))
    return rows


def _covered(report: Report, key: str, name: str, cells: int) -> list[str]:
    """The last two cells of a row that has so many, for a score of resegmented text."""
    covered = report.covered(key, name)
    if covered is None:
        return []
    shares = [f"{covered.omitted:.1f}%", f"{covered.added:.1f}%"]
    return [""] * (len(_HEADER) - len(shares) - cells) + shares


def _share(value: float | None) -> str:
    return "-" if value is None else f"{value:.2f}"


def p_value(p: float) -> str:
    """A probability with four digits."""
    return f"{p:.4f}" if p >= 0.0001 else "<0.0001"


def _sign(comparison: Comparison) -> str:
    """The sign test's p, and what it is evidence of; "(!)" if the score says the opposite."""
    mark = " (!)" if comparison.sign_test_disagrees else ""
    return f"{p_value(comparison.sign_test.p)} {comparison.sign_test.direction}{mark}"


def _notes(report: Report) -> list[str]:
    """All warnings and explanations."""
    return report.notes + _sign_notes(report) + _margin_notes(report)


def _sign_notes(report: Report) -> list[str]:
    """What "(!)" means, for every comparison that has it."""
    notes = []
    for key, measurement in report.measurements.items():
        for name, comparison in report.resampled[key].comparisons.items():
            if comparison.sign_test_disagrees:
                test = comparison.sign_test
                notes.append(
                    f"{measurement.label} of {name} is {comparison.direction}, but by p sign (!) "
                    f"more {measurement.unit}s make it {test.direction} "
                    f"({test.better} better, {test.worse} worse): no evidence for the change"
                )
    return notes


def _margin_notes(report: Report) -> list[str]:
    """What ``p non-inf`` means, for every metric that has it."""
    notes = []
    for key, measurement in report.measurements.items():
        margin = report.margin(key)
        if margin is not None:
            notes.append(
                f"p non-inf: a small one is evidence that {measurement.label} is worse than "
                f"that of {report.systems[0]} by less than {margin:g}"
            )
    return notes


def _bucket_lines(report: Report, key: str, buckets: Sequence[Bucket]) -> list[str]:
    what, counted = _BUCKETS[key]
    labels = list(dict.fromkeys(label for bucket in buckets for label in bucket.scores))
    rows: list[tuple[str, ...]] = [
        (what, counted, *(f"{label}: {name}" for label in labels for name in report.systems))
    ]
    for bucket in buckets:
        cells = [bucket.label, str(bucket.counts[counted])]
        for label in labels:
            found = (bucket.scores[label][name] for name in report.systems)
            cells += ["-" if score is None else f"{score:.2f}" for score in found]
        rows.append(tuple(cells))
    return aligned_rows(rows, left=1)


def aligned_rows(rows: Sequence[tuple[str, ...]], left: int = 2) -> list[str]:
    """The lines of a table, its first ``left`` columns flush left; empty columns are omitted."""
    columns = max(map(len, rows))
    cells = [[*row, *[""] * (columns - len(row))] for row in rows]
    kept = [i for i in range(columns) if any(row[i] for row in cells[1:])]
    widths = {i: max(len(row[i]) for row in cells) for i in kept}
    return [
        "  ".join(
            f"{row[i]:<{widths[i]}}" if i < left else f"{row[i]:>{widths[i]}}" for i in kept
        ).rstrip()
        for row in cells
    ]
