"""The scores as a table for a paper (LaTeX) and for a spreadsheet (CSV)."""

from __future__ import annotations

import csv
import io
import re

from gtrans.evaluation.report import Report
from gtrans.evaluation.scores import Measurement

# Marks of a difference from the first system, by the randomisation test.
_MARKS = ((0.01, r"\ddagger"), (0.05, r"\dagger"))
_COLUMNS = (
    *("system", "metric", "name", "unit", "score", "interval_low", "interval_high"),
    *("baseline", "difference", "difference_low", "difference_high", "p_bootstrap"),
    *("p_randomisation", "p_sign", "sign_better", "sign_worse", "sign_direction"),
    *("non_inferior_margin", "p_non_inferior", "omitted", "added", "signature"),
)


def to_csv(report: Report) -> str:
    """A line for each score of each system, with a header; numbers are not rounded."""
    text = io.StringIO()
    writer = csv.DictWriter(text, _COLUMNS, lineterminator="\n")
    writer.writeheader()
    for key, measurement in report.measurements.items():
        for name in report.systems:
            writer.writerow(_csv_row(report, key, measurement, name))
    return text.getvalue()


def _shares(report: Report, key: str, name: str) -> dict[str, object]:
    covered = report.covered(key, name)
    return {} if covered is None else {"omitted": covered.omitted, "added": covered.added}


def _csv_row(report: Report, key: str, measurement: Measurement, name: str) -> dict[str, object]:
    resampled = report.resampled[key]
    row: dict[str, object] = {
        "system": name,
        "metric": key,
        "name": measurement.label,
        "unit": measurement.unit,
        "score": measurement.score(name),
        "signature": measurement.signature,
    } | _shares(report, key, name)
    if name in resampled.confidence:
        row["interval_low"], row["interval_high"] = resampled.confidence[name].interval
    if name in resampled.comparisons:
        comparison = resampled.comparisons[name]
        row |= {"baseline": report.systems[0], "difference": comparison.difference}
        if comparison.interval is not None:
            row["difference_low"], row["difference_high"] = comparison.interval
        if comparison.bootstrap is not None and comparison.randomisation is not None:
            row["p_bootstrap"] = comparison.bootstrap.p
            row["p_randomisation"] = comparison.randomisation.p
        test = comparison.sign_test
        row |= {"p_sign": test.p, "sign_better": test.better, "sign_worse": test.worse}
        row["sign_direction"] = test.direction
        if (non_inferiority := comparison.non_inferiority) is not None:
            row |= {"non_inferior_margin": non_inferiority.margin}
            row |= {"p_non_inferior": non_inferiority.p}
    return row


def to_latex(report: Report) -> str:
    """A ``tabular`` with a row for each system and a column for each metric.

    It needs the package ``booktabs``. The best score of a column is bold; a dagger marks a
    significant difference from the first system. Signatures are comments above the table. What
    resegmented systems leave out and add stands in the last columns.
    """
    columns = list(report.measurements.items())
    lines = [f"% {it.label}: {it.signature}" for _, it in columns]
    several = len(report.systems) > 1
    if several:
        lines.append(
            f"% $\\dagger$, $\\ddagger$: p < 0.05, 0.01 against {report.systems[0]} by paired "
            "approximate randomisation; bold: the best score"
        )
    for key, measurement in columns:
        margin = report.margin(key)
        if margin is not None:
            lines.append(
                f"% {measurement.label}: $\\circ$: p < 0.05 that it is worse than that of "
                f"{report.systems[0]} by less than {margin:g}"
            )
    heads = []
    for _, measurement in columns:
        arrow = "" if measurement.higher_is_better else r" $\downarrow$"
        heads.append(_escaped(measurement.label) + arrow)
    heads += [r"omitted (\%)", r"added (\%)"] if report.coverage else []
    lines += [rf"\begin{{tabular}}{{l{'r' * len(heads)}}}", r"\toprule"]
    lines += [" & ".join(["system", *heads]) + r" \\", r"\midrule"]
    for name in report.systems:
        cells = [_cell(report, key, measurement, name) for key, measurement in columns]
        if report.coverage:
            covered = report.coverage[name]
            cells += [f"{covered.omitted:.1f}", f"{covered.added:.1f}"]
        lines.append(" & ".join([_escaped(name), *cells]) + r" \\")
    return "\n".join([*lines, r"\bottomrule", r"\end{tabular}", ""])


def _cell(report: Report, key: str, measurement: Measurement, name: str) -> str:
    def rounded(system: str) -> float:
        return round(measurement.score(system), measurement.digits)

    choose = max if measurement.higher_is_better else min
    text = f"{measurement.score(name):.{measurement.digits}f}"
    if len(report.systems) > 1 and rounded(name) == choose(map(rounded, report.systems)):
        text = rf"\textbf{{{text}}}"
    comparison = report.resampled[key].comparisons.get(name)
    if comparison is not None and comparison.randomisation is not None:
        p = comparison.randomisation.p
        mark = next((mark for limit, mark in _MARKS if p < limit), "")
        if comparison.non_inferiority is not None and comparison.non_inferiority.p < 0.05:
            mark += r"\circ"
        text += f"$^{{{mark}}}$" if mark else ""
    return text


def _escaped(text: str) -> str:
    """Text with the characters escaped that mean something to LaTeX."""
    text = re.sub(r"([&%$#_{}])", r"\\\1", text)
    return text.replace("~", r"\textasciitilde{}").replace("^", r"\textasciicircum{}")
