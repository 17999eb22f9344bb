"""The output of ``gtrans score`` as JSON, text, CSV and LaTeX."""

from __future__ import annotations

import csv
import io
import json
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from gtrans.evaluation.metrics import Measurement
from gtrans.evaluation.resegment import Coverage
from gtrans.evaluation.significance import (
    FEW_FOR_NON_INFERIORITY,
    FEW_UNITS,
    SIGNIFICANT,
    Comparison,
    Confidence,
    Resampling,
    least_p,
)
from gtrans.files import StrPath, atomic_writer
from gtrans.messages import aligned, change_interval, in_digits, with_schema

POSITIONS = 10
"""Positions of sentences in a part."""
SENTENCE_LENGTHS = 20, 40, 80
"""The largest length in each part but the last."""
_PARTS_METRIC = "s_bleu"

LATEX_HEAD = "% gtrans score"
_CSV_HEAD = ["system", "metric", "name", "unit"]
_SEGMENT_HEAD = ["system", "metric", "unit", "document"]
OWN_FILES = (
    LATEX_HEAD,
    ",".join(_CSV_HEAD),
    "\t".join(_SEGMENT_HEAD),
    '{"system": ',
    '{\n  "schema": "gtrans.score/',
)
"""Beginnings of files that ``gtrans score`` wrote, and may replace."""

JsonObject = dict[str, Any]
PartTest = Callable[[Measurement], Resampling]


@dataclass(frozen=True)
class CorpusPart:
    """Sentences whose position or length is from ``first`` to ``last`` (None: no bound).

    Attributes:
        scores: by system; None: the part is empty.
        comparisons: with the first system, if tested.
    """

    first: int
    last: int | None
    sentences: int
    scores: dict[str, float | None]
    comparisons: dict[str, Comparison] = field(default_factory=dict)


@dataclass
class Report:
    """All results.

    Attributes:
        measurements, resampled: by key of the metric.
        parts: s-BLEU of parts of the corpus, by key of their table.
        coverage: by resegmented system.
        resegmented: keys of scores of resegmented translations.
        details: more JSON values by key of the score and system.
        tables: lines for ``--details``.
    """

    systems: list[str]
    counts: dict[str, int] = field(default_factory=dict)
    measurements: dict[str, Measurement] = field(default_factory=dict)
    resampled: dict[str, Resampling] = field(default_factory=dict)
    parts: dict[str, list[CorpusPart]] = field(default_factory=dict)
    coverage: Mapping[str, Coverage] = field(default_factory=dict)
    resegmented: set[str] = field(default_factory=set)
    details: dict[str, Mapping[str, Mapping[str, Any]]] = field(default_factory=dict)
    tables: list[list[str]] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)


# --- JSON -----------------------------------------------------------------------------------------


def by_part(
    s_bleu: Measurement,
    lengths: Sequence[int],
    test: PartTest | None = None,
) -> dict[str, list[CorpusPart]]:
    """Return s-BLEU by the position of a sentence in its document, and by its length.

    As in Feng et al. (2022), figure 3, and Yang et al. (2022), figure 12. BLEU depends on length:
    compare systems within a part.

    Args:
        lengths: tokens of each sentence of the first reference.
    """
    positions = _positions(s_bleu)
    last_position = int(positions.max())
    position_ends = range(POSITIONS, last_position + POSITIONS, POSITIONS)
    length_ends = [*SENTENCE_LENGTHS, None]
    return {
        "by_position": _parts(s_bleu, positions, position_ends, test),
        "by_sentence_length": _parts(s_bleu, np.array(lengths), length_ends, test),
    }


def _positions(metric: Measurement) -> NDArray[np.int64]:
    numbers = np.arange(len(metric.documents))
    first_numbers = np.searchsorted(metric.documents, metric.documents)
    return numbers - first_numbers + 1


def _parts(
    metric: Measurement,
    values: NDArray[np.int64],
    ends: Sequence[int | None],
    test: PartTest | None,
) -> list[CorpusPart]:
    parts: list[CorpusPart] = []
    first = 1
    for last in ends:
        least = first if parts else 0  # a reference may be empty
        greatest = values.max() if last is None else last
        inside = (least <= values) & (values <= greatest)
        scores: dict[str, float | None] = dict.fromkeys(metric.statistics)
        comparisons: dict[str, Comparison] = {}
        if inside.any():
            for name in scores:
                scores[name] = metric.score(name, inside)
            if test is not None and len(scores) > 1:
                comparisons = test(_part(metric, inside)).comparisons
        part = CorpusPart(first, last, int(inside.sum()), scores, comparisons)
        parts.append(part)
        first = (last or 0) + 1
    return parts


def _part(metric: Measurement, inside: NDArray[np.bool_]) -> Measurement:
    _, documents = np.unique(metric.documents[inside], return_inverse=True)
    statistics = {}
    for name, rows in metric.statistics.items():
        statistics[name] = rows[inside]
    return replace(metric, statistics=statistics, documents=documents)


def to_json(report: Report) -> JsonObject:
    """Return the report as a JSON object."""
    systems: dict[str, JsonObject] = {name: {} for name in report.systems}
    for score in _entries(report):
        systems[score.system][score.metric.key] = score.entry
    for name, coverage in report.coverage.items():
        systems[name]["resegmented"] = _json_of(coverage)
    content: JsonObject = {"systems": systems, "baseline": report.systems[0]}
    content |= report.counts
    for table, parts in report.parts.items():
        content[table] = [_json_of_part(part) for part in parts]
    content["notes"] = notes(report)
    return with_schema("score", content)


def _json_of_part(part: CorpusPart) -> JsonObject:
    entry: JsonObject = {
        "from": part.first,
        "to": part.last,
        "sentences": part.sentences,
        _PARTS_METRIC: part.scores,
    }
    comparisons = {}
    for name, comparison in part.comparisons.items():
        comparisons[name] = _json_of(comparison)
    if comparisons:
        entry["comparison"] = {_PARTS_METRIC: comparisons}
    return entry


def _json_of(result: Confidence | Comparison | Coverage) -> JsonObject:
    return asdict(result, dict_factory=_without_none)


def _without_none(items: Iterable[tuple[str, Any]]) -> JsonObject:
    return {key: value for key, value in items if value is not None}


class _ScoreEntry(NamedTuple):
    metric: Measurement
    system: str
    entry: JsonObject


def _entries(report: Report) -> Iterator[_ScoreEntry]:
    for key, metric in report.measurements.items():
        resampled = report.resampled[key]
        for name in report.systems:
            entry: JsonObject = {
                "score": metric.score(name),
                "higher_is_better": metric.higher_is_better,
                "signature": metric.signature,
            }
            if key in report.resegmented and name in report.coverage:
                covered = report.coverage[name]
                entry |= {"omitted": covered.omitted, "added": covered.added}
            if name in resampled.confidence:
                entry["confidence"] = _json_of(resampled.confidence[name])
            if name in resampled.comparisons:
                entry["comparison"] = _json_of(resampled.comparisons[name])
            details = report.details.get(key, {})
            entry |= details.get(name, {})
            yield _ScoreEntry(metric, name, entry)


# --- columns --------------------------------------------------------------------------------------


def p_value(p: float) -> str:
    """Format a probability with four digits."""
    return f"{p:.4f}" if p >= 0.0001 else "<0.0001"


def _change(value: Any, digits: int) -> str:
    return in_digits(value, digits, "+")


def _interval(value: Any, digits: int) -> str:
    low, high = value
    return f"{in_digits(low, digits)} to {in_digits(high, digits)}"


def _loss(value: Any, digits: int) -> str:
    return f"{in_digits(value['largest_loss'], digits)} (no. {value['worst_unit']})"


def _share(value: Any, digits: int) -> str:
    return f"{value:.1f}%"


def _p(value: Any, digits: int) -> str:
    return p_value(value["p"] if isinstance(value, Mapping) else value)


@dataclass(frozen=True)
class Column:
    """A value in the tables.

    Attributes:
        path: keys in the JSON object of a score, separated by dots.
        csv: headings in CSV, each with its key or index in a value of several parts.
        latex: heading in LaTeX; empty: none.
    """

    path: str
    csv: Mapping[str, Any] = field(default_factory=dict)
    head: str = ""
    show: Callable[[Any, int], str] = in_digits
    latex: str = ""

    def value(self, entry: Mapping[str, Any]) -> Any:
        """Return the value of a score, or None."""
        value: Any = entry
        for key in self.path.split("."):
            if value is None:
                return None
            value = value.get(key)
        return value


COLUMNS = (
    Column("score", csv={"score": None}, head="score"),
    Column(
        "confidence.interval",
        csv={"interval_low": 0, "interval_high": 1},
        head="95% interval",
        show=_interval,
    ),
    Column("comparison.baseline", csv={"baseline": None}),
    Column(
        "comparison.difference",
        csv={"difference": None},
        head="change",
        show=_change,
    ),
    Column(
        "comparison.interval",
        csv={"difference_low": 0, "difference_high": 1},
        head="95% interval",
        show=change_interval,
    ),
    Column("comparison.detectable", csv={"detectable": None}),
    Column(
        "comparison.paired_randomisation",
        csv={"p_randomisation": "p"},
        head="p rand",
        show=_p,
    ),
    Column(
        "comparison.paired_randomisation.p_holm",
        csv={"p_holm": None},
        head="p Holm",
        show=_p,
    ),
    Column(
        "comparison.paired_bootstrap.p",
        csv={"p_bootstrap": None},
        head="p boot",
        show=_p,
    ),
    Column(
        "comparison.non_inferiority",
        csv={"non_inferior_margin": "margin", "p_non_inferior": "p"},
        head="p non-inf",
        show=_p,
    ),
    Column(
        "comparison.non_inferiority",
        csv={"largest_loss": "largest_loss", "worst_unit": "worst_unit"},
        head="largest loss",
        show=_loss,
    ),
    Column(
        "omitted",
        csv={"omitted": None},
        head="omitted",
        show=_share,
        latex=r"omitted (\%)",
    ),
    Column(
        "added",
        csv={"added": None},
        head="added",
        show=_share,
        latex=r"added (\%)",
    ),
    Column("signature", csv={"signature": None}),
)


def to_csv(report: Report) -> str:
    """Return a line for each score of each system; numbers are not rounded."""
    text = io.StringIO()
    names = list(_CSV_HEAD)
    for column in COLUMNS:
        names += column.csv
    writer = csv.DictWriter(text, names, lineterminator="\n")
    writer.writeheader()
    for score in _entries(report):
        metric = score.metric
        row = {
            "system": score.system,
            "metric": metric.key,
            "name": metric.label,
            "unit": metric.unit,
        }
        for column in COLUMNS:
            value = column.value(score.entry)
            if value is None:
                continue
            for heading, key in column.csv.items():
                row[heading] = value if key is None else value[key]
        writer.writerow(row)
    return text.getvalue()


def segments(report: Report) -> Iterator[JsonObject]:
    """Yield a row for each segment, metric and system."""
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
    """Write rows as JSON lines to ``*.jsonl``, else as a tab-separated table."""
    as_json = str(path).endswith(".jsonl")
    with atomic_writer(path, inputs) as file:
        for number, row in enumerate(rows):
            if as_json:
                file.write(json.dumps(row, ensure_ascii=False) + "\n")
                continue
            if number == 0:
                file.write("\t".join(row) + "\n")
            cells = map(_cell, row.values())
            file.write("\t".join(cells) + "\n")


def _cell(value: Any) -> str:
    return f"{value:.6f}" if isinstance(value, float) else str(value)


def to_text(report: Report, details: bool = False) -> list[str]:
    """Return lines; ``details``: also parts of the corpus and neutral scores."""
    lines = _score_lines(report, details)
    if details:
        for table, parts in report.parts.items():
            lines += ["", *_part_lines(report, table, parts)]
        for details_of_score in report.tables:
            lines += ["", *details_of_score]
    signatures = []
    for metric in report.measurements.values():
        signatures.append([metric.label, metric.signature])
    if signatures:
        lines += ["", *aligned(signatures, range(2))]
    if report.counts:
        counts = [f"{count} {name}" for name, count in report.counts.items()]
        lines += ["", ", ".join(counts)]
    lines += _resampling_lines(report)
    lines += [f"note: {note}" for note in notes(report)]
    return lines


def _score_lines(report: Report, details: bool) -> list[str]:
    shown = [column for column in COLUMNS if column.head]
    heads = [column.head for column in shown]
    rows = [["", "system", *heads]]
    for score in _entries(report):
        metric = score.metric
        if metric.neutral and not details:
            continue
        is_first = score.system == report.systems[0]
        row = [metric.label if is_first else "", score.system]
        for column in shown:
            value = column.value(score.entry)
            row.append("" if value is None else column.show(value, metric.digits))
        rows.append(row)
    # Columns without a value are left out, and the name of a single system.
    several = len(report.systems) > 1
    kept = []
    for number, column_cells in enumerate(zip(*rows[1:], strict=True)):
        is_name_of_only_system = number == 1 and not several
        if any(column_cells) and not is_name_of_only_system:
            kept.append(number)
    if not kept:
        return []
    table = []
    for row in rows:
        table.append([row[number] for number in kept])
    return aligned(table, range(2) if several else range(1))


def _resampling_lines(report: Report) -> list[str]:
    detectable: dict[str, list[str]] = {}
    for metric, resampled in _compared(report):
        parts = detectable.setdefault(f"{resampled.units} {resampled.unit}s resampled", [])
        comparisons = resampled.comparisons.values()
        least = max(comparison.detectable or 0.0 for comparison in comparisons)
        if least:
            parts.append(f"{metric.label} {in_digits(least, metric.digits)}")
    lines = []
    for line, parts in detectable.items():
        if parts:
            line += f"; least difference detected with 80% power: {', '.join(parts)}"
        lines.append(line)
    return lines


def _compared(report: Report) -> Iterator[tuple[Measurement, Resampling]]:
    for key, metric in report.measurements.items():
        resampled = report.resampled[key]
        if resampled.confidence and resampled.comparisons and not metric.neutral:
            yield metric, resampled


def _part_lines(report: Report, table: str, parts: Sequence[CorpusPart]) -> list[str]:
    heads = {"by_position": "sentence in its document"}
    rows = [[heads.get(table, "tokens of the reference"), "sentences"]]
    rows[0] += [f"{_PARTS_METRIC}: {name}" for name in report.systems]
    for part in parts:
        span = f"{part.first} to {part.last}"
        if part.last is None:
            span = f"{part.first} and more"
        row = [span, str(part.sentences)]
        for name in report.systems:
            score = part.scores[name]
            row.append("-" if score is None else f"{score:.2f}")
        rows.append(row)
    return aligned(rows, [0])


def to_latex(report: Report) -> str:
    """Return a ``tabular`` for ``booktabs``: systems in rows, metrics in columns.

    Bold scores are significantly better than all others; a dagger marks a significant difference
    from the first system.
    """
    lines = [LATEX_HEAD, *_latex_comments(report)]
    heads = []
    for metric in report.measurements.values():
        arrow = "" if metric.higher_is_better else r" $\downarrow$"
        heads.append(_escaped(metric.label) + arrow)
    cells: dict[str, list[str]] = {name: [] for name in report.systems}
    shares: dict[str, dict[str, str]] = {}
    for score in _entries(report):
        metric = score.metric
        cells[score.system].append(_latex_score(report, metric, score.system))
        for column in COLUMNS:
            value = column.value(score.entry)
            if column.latex and value is not None:
                shown = column.show(value, metric.digits)
                share_by_system = shares.setdefault(column.latex, {})
                share_by_system[score.system] = shown.removesuffix("%")
    heads += shares
    lines += [rf"\begin{{tabular}}{{l{'r' * len(heads)}}}", r"\toprule"]
    lines += [" & ".join(["system", *heads]) + r" \\", r"\midrule"]
    for name in report.systems:
        row = [_escaped(name), *cells[name]]
        for share in shares.values():
            row.append(share.get(name, ""))
        lines.append(" & ".join(row) + r" \\")
    lines += [r"\bottomrule", r"\end{tabular}", ""]
    return "\n".join(lines)


def _latex_comments(report: Report) -> list[str]:
    lines = []
    for metric in report.measurements.values():
        lines.append(f"% {metric.label}: {metric.signature}")
    if len(report.systems) > 1:
        lines.append(
            f"% $\\dagger$, $\\ddagger$: p < 0.05, 0.01 against {report.systems[0]} by paired "
            "approximate randomisation, adjusted by Holm for several systems; +: better, -: worse; "
            "bold: p < 0.05 against every other system"
        )
    for metric, margin in _margins(report):
        lines.append(
            f"% {metric.label}: $\\circ$: p < 0.05 that it is at most {margin:g} "
            f"{_worse_side(metric)} {report.systems[0]}"
        )
    return lines


def _worse_side(metric: Measurement) -> str:
    return "below" if metric.higher_is_better else "above"


def _latex_score(report: Report, metric: Measurement, name: str) -> str:
    resampled = report.resampled[metric.key]
    text = in_digits(metric.score(name), metric.digits)
    if name == resampled.best:
        text = rf"\textbf{{{text}}}"
    marks = ""
    if name in resampled.comparisons:
        marks = _marks(resampled.comparisons[name])
    return f"{text}$^{{{marks}}}$" if marks else text


def _marks(comparison: Comparison) -> str:
    marks = ""
    if comparison.p < SIGNIFICANT:
        sign = {"better": "+", "worse": "-"}.get(comparison.direction, "")
        dagger = r"\ddagger" if comparison.p < 0.01 else r"\dagger"
        marks = sign + dagger
    non_inferiority = comparison.non_inferiority
    if non_inferiority is not None and non_inferiority.p < SIGNIFICANT:
        marks += r"\circ"
    return marks


def _escaped(text: str) -> str:
    text = re.sub(r"([&%$#_{}])", r"\\\1", text)
    return text.replace("~", r"\textasciitilde{}").replace("^", r"\textasciicircum{}")


# --- notes ----------------------------------------------------------------------------------------


def notes(report: Report) -> list[str]:
    """Return all warnings and explanations."""
    lines = [*report.notes]
    for name in report.systems[1:]:
        parts = []
        for metric, resampled in _compared(report):
            comparison = resampled.comparisons[name]
            if comparison.p < SIGNIFICANT:
                continue
            least = "none"
            if comparison.detectable is not None:
                least = in_digits(comparison.detectable, metric.digits)
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
            f"{_worse_side(metric)} {report.systems[0]}"
        )
        units = report.resampled[metric.key].units
        if units < FEW_FOR_NON_INFERIORITY:
            lines.append(
                f"p non-inf from {units} units, fewer than {FEW_FOR_NON_INFERIORITY}, is often too "
                "small where a few documents fail badly; see the largest loss beside it"
            )
    return lines + _few_units(report)


def _few_units(report: Report) -> list[str]:
    labels_by_units: dict[tuple[str, int], list[str]] = {}
    for key, resampled in report.resampled.items():
        unit_and_number = resampled.unit, resampled.units
        labels = labels_by_units.setdefault(unit_and_number, [])
        labels.append(report.measurements[key].label)
    lines = []
    tests = len(report.systems) - 1
    for (unit, units), labels in labels_by_units.items():
        prefix = ""
        if len(labels_by_units) > 1:
            prefix = f"{', '.join(labels)}: "
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
    for key, metric in report.measurements.items():
        comparisons = list(report.resampled[key].comparisons.values())
        test = comparisons[0].non_inferiority if comparisons else None
        if test is not None:
            yield metric, test.margin
