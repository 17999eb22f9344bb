"""The output of ``gtrans score``: JSON, and a list of columns for text, CSV and LaTeX.

JSON has all that is known of a score; :data:`COLUMNS` says of each value
under which names it stands in CSV, how it is printed, and what mark it gives a score in LaTeX. A
new column is one entry of each.
"""

from __future__ import annotations

import csv
import io
import json
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from gtrans.evaluation.metrics import Measurement
from gtrans.evaluation.resegment import Coverage
from gtrans.evaluation.significance import (
    FEW_FOR_NON_INFERIORITY,
    FEW_UNITS,
    SIGNIFICANT,
    Resampling,
    least_p,
    p_of,
)
from gtrans.files import StrPath, atomic_writer
from gtrans.messages import aligned, change_interval, in_digits, with_schema

POSITIONS, SENTENCE_LENGTHS = 10, (20, 40, 80)
"""Positions in a bucket; the largest lengths in each bucket but the last."""

LATEX_HEAD = "% gtrans score"
"""The first line of a table in LaTeX."""
_CSV_HEAD = ["system", "metric", "name", "unit"]
_SEGMENT_HEAD = ["system", "metric", "unit", "document"]
OWN_FILES = (
    LATEX_HEAD,
    ",".join(_CSV_HEAD),
    "\t".join(_SEGMENT_HEAD),
    '{"system": ',
    '{\n  "schema": "gtrans.score/',
)
"""How files begin that ``gtrans score`` wrote, which it may replace."""

# Intervals and tests of a metric, such as :func:`gtrans.evaluation.significance.resample`.
Compare = Callable[[Measurement], Resampling]
Bucket = dict[str, Any]
"""What JSON has of a part of the corpus: ``from``, ``to`` (None: no bound), scores by system."""


@dataclass
class Report:
    """All results for some systems.

    Attributes:
        systems: their names; the first one is the baseline.
        counts: numbers of sentences, documents and chunks.
        measurements: the metrics, by key.
        resampled: confidence intervals and comparisons, by key of the metric.
        buckets: scores of parts of the corpus, by key of their table.
        coverage: what resegmented translations leave out and add, by system.
        resegmented: keys of the scores of resegmented translations.
        details: what a score is made of, by its key and the system.
        tables: of the details, as lines.
        notes: warnings about the results.
    """

    systems: list[str]
    counts: dict[str, int] = field(default_factory=dict)
    measurements: dict[str, Measurement] = field(default_factory=dict)
    resampled: dict[str, Resampling] = field(default_factory=dict)
    buckets: dict[str, list[Bucket]] = field(default_factory=dict)
    coverage: Mapping[str, Coverage] = field(default_factory=dict)
    resegmented: set[str] = field(default_factory=set)
    details: dict[str, Mapping[str, Mapping[str, Any]]] = field(default_factory=dict)
    tables: list[list[str]] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)


# --- JSON -----------------------------------------------------------------------------------------


def by_part(
    s_bleu: Measurement,
    lengths: Sequence[int],
    compare: Compare | None = None,
) -> dict[str, list[Bucket]]:
    """s-BLEU by the position of a sentence in its document, and by its length.

    Feng et al. (2022), recurrent memory, figure 3, and Yang et al. (2022), layer fusion, figure 12,
    have them. Scores of small buckets are noisy, and BLEU depends on length for every system; so
    compare systems within a bucket, not buckets.

    Args:
        s_bleu: the scores of sentences.
        lengths: number of tokens of each sentence of the (first) reference.
        compare: tests the systems within each bucket; None: there is no test.
    """
    positions = _positions(s_bleu)
    ends = range(POSITIONS, int(positions.max()) + POSITIONS, POSITIONS)
    return {
        "by_position": _buckets(s_bleu, positions, ends, compare),
        "by_sentence_length": _buckets(
            s_bleu,
            np.array(lengths),
            [*SENTENCE_LENGTHS, None],
            compare,
        ),
    }


def _positions(metric: Measurement) -> NDArray[np.int64]:
    """The place of every segment in its document, from 1."""
    return (
        np.arange(len(metric.documents)) - np.searchsorted(metric.documents, metric.documents) + 1
    )


def _buckets(
    metric: Measurement,
    values: NDArray[np.int64],
    ends: Sequence[int | None],
    compare: Compare | None,
) -> list[Bucket]:
    """The corpus score of the sentences with values up to each end, None where there are none."""
    buckets: list[Bucket] = []
    first = 1
    for last in ends:
        least = first if buckets else 0  # a reference may be empty
        greatest = values.max() if last is None else last
        inside = (least <= values) & (values <= greatest)
        scores: dict[str, float | None] = dict.fromkeys(metric.statistics)
        if inside.any():
            scores = {name: metric.score(name, inside) for name in metric.statistics}
        bucket: Bucket = {"from": first, "to": last, "sentences": int(inside.sum())}
        bucket[metric.key] = scores
        if inside.any() and compare is not None and len(scores) > 1:
            comparisons = compare(_part(metric, inside)).comparisons
            bucket["comparison"] = {metric.key: comparisons}
        buckets.append(bucket)
        first = (last or 0) + 1
    return buckets


def _part(metric: Measurement, inside: NDArray[np.bool_]) -> Measurement:
    """A metric on some segments; the documents without any of these are left out."""
    _, documents = np.unique(metric.documents[inside], return_inverse=True)
    statistics = {}
    for name, rows in metric.statistics.items():
        statistics[name] = rows[inside]
    return replace(metric, statistics=statistics, documents=documents)


def to_json(report: Report) -> dict[str, Any]:
    """The report as an object; it has the same keys for one system and for several."""
    systems: dict[str, dict[str, Any]] = {name: {} for name in report.systems}
    for metric, name, entry in _entries(report):
        systems[name][metric.key] = entry
    for name, coverage in report.coverage.items():
        systems[name]["resegmented"] = asdict(coverage)
    found: dict[str, Any] = {"systems": systems, "baseline": report.systems[0]}
    found |= report.counts
    found |= report.buckets
    found["notes"] = notes(report)
    return with_schema("score", found)


def _entries(report: Report) -> Iterator[tuple[Measurement, str, dict[str, Any]]]:
    """All that is known of every score, as JSON has it, with its metric and its system."""
    for key, metric in report.measurements.items():
        resampled = report.resampled[key]
        for name in report.systems:
            entry: dict[str, Any] = {
                "score": metric.score(name),
                "higher_is_better": metric.higher_is_better,
                "signature": metric.signature,
            }
            if key in report.resegmented and name in report.coverage:
                covered = report.coverage[name]
                entry |= {"omitted": covered.omitted, "added": covered.added}
            if name in resampled.confidence:
                entry["confidence"] = resampled.confidence[name]
            if name in resampled.comparisons:
                entry["comparison"] = resampled.comparisons[name]
            yield metric, name, entry | dict(report.details.get(key, {}).get(name, {}))


# --- columns --------------------------------------------------------------------------------------


def p_value(p: float) -> str:
    """A probability with four digits."""
    return f"{p:.4f}" if p >= 0.0001 else "<0.0001"


def _interval(value: Any, digits: int) -> str:
    return " to ".join(in_digits(end, digits) for end in value)


def _loss(value: Any, digits: int) -> str:
    return f"{in_digits(value['largest_loss'], digits)} (no. {value['worst_unit']})"


def _share(value: Any, digits: int) -> str:
    return f"{value:.1f}%"


def _p(value: Any, digits: int) -> str:
    return p_value(value["p"] if isinstance(value, Mapping) else value)


def _dagger(comparison: Any) -> str:
    """A sign for better or worse, and daggers for the p-value; nothing if it is not significant."""
    p = p_of(comparison)
    if p >= SIGNIFICANT:
        return ""
    sign = {"better": "+", "worse": "-"}.get(comparison["direction"], "")
    return sign + (r"\ddagger" if p < 0.01 else r"\dagger")


@dataclass(frozen=True)
class Column:
    """A value in the tables.

    Attributes:
        path: its keys in an entry, separated by dots.
        csv: its names in CSV, each with its key in a value that has several.
        head: its heading in text; without one it is not printed.
        show: its text, from the value and the digits of the score.
        mark: its mark of a score in LaTeX; nothing for most values.
        latex: its heading in LaTeX, if it is a column there.
    """

    path: str
    csv: Mapping[str, Any] = field(default_factory=dict)
    head: str = ""
    show: Callable[[Any, int], str] = in_digits
    mark: Callable[[Any], str] | None = None
    latex: str = ""

    def value(self, entry: Mapping[str, Any]) -> Any:
        """The value of an entry; None: it has none."""
        value: Any = entry
        for key in self.path.split("."):
            value = None if value is None else value.get(key)
        return value


COLUMNS = (
    Column("score", {"score": None}, "score"),
    Column(
        "confidence.interval",
        {"interval_low": 0, "interval_high": 1},
        "95% interval",
        _interval,
    ),
    Column("comparison.baseline", {"baseline": None}),
    Column(
        "comparison.difference",
        {"difference": None},
        "change",
        lambda value, digits: in_digits(value, digits, "+"),
    ),
    Column(
        "comparison.interval",
        {"difference_low": 0, "difference_high": 1},
        "95% interval",
        change_interval,
    ),
    Column("comparison.detectable", {"detectable": None}),
    Column("comparison", mark=_dagger),
    Column("comparison.paired_randomisation", {"p_randomisation": "p"}, "p rand", _p),
    Column("comparison.paired_randomisation.p_holm", {"p_holm": None}, "p Holm", _p),
    Column("comparison.paired_bootstrap.p", {"p_bootstrap": None}, "p boot", _p),
    Column(
        "comparison.non_inferiority",
        {"non_inferior_margin": "margin", "p_non_inferior": "p"},
        "p non-inf",
        _p,
        lambda value: r"\circ" if value["p"] < 0.05 else "",
    ),
    Column(
        "comparison.non_inferiority",
        {"largest_loss": "largest_loss", "worst_unit": "worst_unit"},
        "largest loss",
        _loss,
    ),
    Column("omitted", {"omitted": None}, "omitted", _share, latex=r"omitted (\%)"),
    Column("added", {"added": None}, "added", _share, latex=r"added (\%)"),
    Column("signature", {"signature": None}),
)


def to_csv(report: Report) -> str:
    """A line for each score of each system, with a header; numbers are not rounded."""
    text = io.StringIO()
    names = list(_CSV_HEAD)
    for column in COLUMNS:
        names += column.csv
    writer = csv.DictWriter(text, names, lineterminator="\n")
    writer.writeheader()
    for metric, name, entry in _entries(report):
        row = {"system": name, "metric": metric.key, "name": metric.label, "unit": metric.unit}
        for column in COLUMNS:
            value = column.value(entry)
            if value is None:
                continue
            for heading, key in column.csv.items():
                row[heading] = value if key is None else value[key]
        writer.writerow(row)
    return text.getvalue()


def segments(report: Report) -> Iterator[dict[str, Any]]:
    """The scores of all segments, a row each."""
    for metric in report.measurements.values():
        compute = metric.of_segment or metric.compute
        documents = (metric.documents + 1).tolist()
        positions = _positions(metric).tolist()
        for name, statistics in metric.statistics.items():
            scores = compute(statistics).tolist()
            for document, segment, score in zip(documents, positions, scores, strict=True):
                yield {
                    "system": name,
                    "metric": metric.key,
                    "unit": metric.unit,
                    "document": document,
                    "segment": segment,
                    "score": score,
                }


def write_rows(
    path: StrPath,
    rows: Iterable[Mapping[str, Any]],
    inputs: Sequence[StrPath] = (),
) -> None:
    """Write a line per row: JSON where the name ends in .jsonl, else tabs between cells, a head."""
    with atomic_writer(path, inputs) as file:
        for number, row in enumerate(rows):
            if str(path).endswith(".jsonl"):
                file.write(json.dumps(row, ensure_ascii=False) + "\n")
            else:
                if not number:
                    file.write("\t".join(row) + "\n")
                cells = []
                for cell in row.values():
                    cells.append(f"{cell:.6f}" if isinstance(cell, float) else str(cell))
                file.write("\t".join(cells) + "\n")


def to_text(report: Report, details: bool = False) -> list[str]:
    """The report as lines: scores, signatures, counts; with ``details``, the buckets."""
    lines = _score_lines(report, details)
    if details:
        for table, buckets in report.buckets.items():
            lines += ["", *_bucket_lines(report, table, buckets)]
        for details_of_score in report.tables:
            lines += ["", *details_of_score]
    signatures = [[metric.label, metric.signature] for metric in report.measurements.values()]
    if signatures:
        lines += ["", *aligned(signatures, range(2))]
    if report.counts:
        counts = [f"{count} {name}" for name, count in report.counts.items()]
        lines += ["", ", ".join(counts)]
    lines += _foot(report)
    return lines + [f"note: {note}" for note in notes(report)]


def _score_lines(report: Report, details: bool) -> list[str]:
    """The table of scores; ``details``: also of scores where more is not better."""
    shown = [column for column in COLUMNS if column.head]
    rows = [["", "system"] + [column.head for column in shown]]
    for metric, name, entry in _entries(report):
        if metric.neutral and not details:
            continue
        label = metric.label if name == report.systems[0] else ""
        cells = [label, name]
        for column in shown:
            value = column.value(entry)
            cells.append("" if value is None else column.show(value, metric.digits))
        rows.append(cells)
    # Columns without a value are left out, as the system is where there is only one.
    several = len(report.systems) > 1
    kept = []
    for number, column_cells in enumerate(zip(*rows[1:], strict=True)):
        if any(column_cells) and (several or number != 1):
            kept.append(number)
    if not kept:
        return []
    table = [[row[number] for number in kept] for row in rows]
    return aligned(table, range(2) if several else range(1))


def _foot(report: Report) -> list[str]:
    """What was resampled, and the least differences that would have been detected."""
    kinds: dict[str, list[str]] = {}
    for metric, resampled in _compared(report):
        parts = kinds.setdefault(f"{resampled.units} {resampled.unit}s resampled", [])
        comparisons = resampled.comparisons.values()
        least = max(comparison.get("detectable", 0.0) for comparison in comparisons)
        if least:
            parts.append(f"{metric.label} {in_digits(least, metric.digits)}")
    before = "; least difference detected with 80% power: "
    return [kind + before * bool(parts) + ", ".join(parts) for kind, parts in kinds.items()]


def _compared(report: Report) -> Iterator[tuple[Measurement, Resampling]]:
    """The metrics by which systems are tested and called better or worse."""
    for key, metric in report.measurements.items():
        resampled = report.resampled[key]
        if resampled.confidence and resampled.comparisons and not metric.neutral:
            yield metric, resampled


def _bucket_lines(report: Report, table: str, buckets: Sequence[Bucket]) -> list[str]:
    heads = {"by_position": "sentence in its document"}
    rows = [[heads.get(table, "tokens of the reference"), "sentences"]]
    rows[0] += [f"s_bleu: {name}" for name in report.systems]
    for bucket in buckets:
        first = bucket["from"]
        last = bucket["to"]
        span = f"{first} and more" if last is None else f"{first} to {last}"
        row = [span, str(bucket["sentences"])]
        for name in report.systems:
            score = bucket["s_bleu"][name]
            row.append("-" if score is None else f"{score:.2f}")
        rows.append(row)
    return aligned(rows, [0])


def to_latex(report: Report) -> str:
    """A ``tabular`` with a row for each system and a column for each metric.

    It needs the package ``booktabs``. A score is bold if it is significantly better than all others
    of its column; a dagger marks a significant difference from the first system. Signatures are
    comments above the table. What resegmented systems leave out and add stands in the last columns.
    """
    metrics, several = report.measurements.values(), len(report.systems) > 1
    lines = [LATEX_HEAD, *(f"% {metric.label}: {metric.signature}" for metric in metrics)]
    if several:
        lines.append(
            f"% $\\dagger$, $\\ddagger$: p < 0.05, 0.01 against {report.systems[0]} by paired "
            "approximate randomisation, adjusted by Holm for several systems; +: better, -: worse; "
            "bold: p < 0.05 against every other system"
        )
    for metric, margin in _margins(report):
        lines.append(
            f"% {metric.label}: $\\circ$: p < 0.05 that it is at most {margin:g} "
            f"{'below' if metric.higher_is_better else 'above'} {report.systems[0]}"
        )
    heads = []
    for metric in metrics:
        arrow = "" if metric.higher_is_better else r" $\downarrow$"
        heads.append(_escaped(metric.label) + arrow)
    cells: dict[str, list[str]] = {name: [] for name in report.systems}
    shares: dict[str, dict[str, str]] = {}
    for metric, name, entry in _entries(report):
        text = in_digits(entry["score"], metric.digits)
        if name == report.resampled[metric.key].best:
            text = rf"\textbf{{{text}}}"
        marks = ""
        for column in COLUMNS:
            value = column.value(entry)
            if value is None:
                continue
            if column.mark:
                marks += column.mark(value)
            if column.latex:
                shown = column.show(value, metric.digits).removesuffix("%")
                shares.setdefault(column.latex, {})[name] = shown
        cells[name].append(f"{text}$^{{{marks}}}$" if marks else text)
    heads += shares
    lines += [rf"\begin{{tabular}}{{l{'r' * len(heads)}}}", r"\toprule"]
    lines += [" & ".join(["system", *heads]) + r" \\", r"\midrule"]
    for name in report.systems:
        of_system = [share.get(name, "") for share in shares.values()]
        row = [_escaped(name), *cells[name], *of_system]
        lines.append(" & ".join(row) + r" \\")
    return "\n".join([*lines, r"\bottomrule", r"\end{tabular}", ""])


def _escaped(text: str) -> str:
    """Text with the characters escaped that mean something to LaTeX."""
    text = re.sub(r"([&%$#_{}])", r"\\\1", text)
    return text.replace("~", r"\textasciitilde{}").replace("^", r"\textasciicircum{}")


# --- notes ----------------------------------------------------------------------------------------


def notes(report: Report) -> list[str]:
    """All warnings and explanations."""
    lines = [*report.notes]
    for name in report.systems[1:]:
        parts = []
        for metric, resampled in _compared(report):
            comparison = resampled.comparisons[name]
            if p_of(comparison) >= SIGNIFICANT:
                least = "none"
                if "detectable" in comparison:
                    least = in_digits(comparison["detectable"], metric.digits)
                parts.append(f"{metric.label} ({resampled.units} {resampled.unit}s, {least})")
        if parts:
            lines.append(
                f"no significant difference between {name} and {report.systems[0]} in "
                f"{', '.join(parts)}; in brackets the least difference that is detected with 80% "
                "power"
            )
    for metric, margin in _margins(report):
        lines.append(
            f"p non-inf: a small one is evidence that {metric.label} is at most {margin:g} "
            f"{'below' if metric.higher_is_better else 'above'} {report.systems[0]}"
        )
        units = report.resampled[metric.key].units
        if units < FEW_FOR_NON_INFERIORITY:
            lines.append(
                f"p non-inf from {units} units, fewer than {FEW_FOR_NON_INFERIORITY}, is often too "
                "small where a few documents fail badly; see the largest loss beside it"
            )
    return lines + _few_units(report)


def _few_units(report: Report) -> list[str]:
    """Warnings for a corpus with few units to resample."""
    kinds: dict[tuple[str, int], list[str]] = {}
    for key, resampled in report.resampled.items():
        label = report.measurements[key].label
        kinds.setdefault((resampled.unit, resampled.units), []).append(label)
    lines, tests = [], len(report.systems) - 1
    for (unit, units), labels in kinds.items():
        prefix = "" if len(kinds) == 1 else f"{', '.join(labels)}: "
        if units == 1:
            lines.append(
                f"{prefix}a single {unit} cannot be resampled, so there is no interval and no "
                "resampling test; --resample sentence resamples sentences as if they were "
                "independent"
            )
        elif 0 < units < FEW_UNITS:
            lines.append(f"{prefix}an interval from {units} {unit}s is rough, and often too narrow")
        least = least_p(units, tests)
        if units > 1 and least > SIGNIFICANT:
            holm = f", p Holm {least:.3g}" if tests > 1 else ""
            lines.append(
                f"{prefix}with {units} {unit}s randomisation cannot reach p < 0.05, however large "
                f"the difference: its smallest p is {least_p(units, 1):.3g}{holm}"
            )
    return lines


def _margins(report: Report) -> Iterator[tuple[Measurement, float]]:
    """The metrics with a test of non-inferiority, and its margin."""
    for key, metric in report.measurements.items():
        for comparison in [*report.resampled[key].comparisons.values()][:1]:
            if "non_inferiority" in comparison:
                yield metric, comparison["non_inferiority"]["margin"]
