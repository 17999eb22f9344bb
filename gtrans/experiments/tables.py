"""The table of an experiment: from what was measured to JSON, markdown and CSV."""

from __future__ import annotations

import csv
import io
from collections.abc import Iterable, Sequence
from math import sqrt
from pathlib import Path
from shlex import join
from statistics import mean, stdev
from typing import Any

from gtrans.experiments.jobs import Plan, finished
from gtrans.experiments.measures import Reading, read_number
from gtrans.experiments.planned import Planned, Row
from gtrans.messages import change_interval, in_digits


def table_of(planned: Planned, plan: Plan) -> dict[str, Any]:
    """All that is known of a finished experiment, as JSON.

    The keys are those of the ``return`` below, of :func:`_row` and :func:`_run`. In a cell,
    ``spread`` is the standard deviation over seeds (divided by n - 1); ``difference`` is that from
    the baseline with the same seed, and its ``p`` that of a paired t-test over the seeds; a seed's
    ``change`` is the 95% interval of its difference.

    Raises:
        GtransError: a measure is not readable.
    """
    experiment = planned.experiment
    printed = {row.label: list(row.values) for row in experiment.printed.rows}
    rows = [_row(planned, plan, row, printed) for row in planned.rows]
    by_label = {(row["label"], row["corpus"]): row for row in rows}
    for row in rows:
        baseline = by_label.get((row["baseline"], row["corpus"]))
        for title, cell in row["cells"].items():
            other = baseline["cells"].get(title) if baseline else None
            if other is not None and planned.columns[title].compared:
                cell["difference"] = _difference(cell["seeds"], other["seeds"])
    return {
        "experiment": experiment.name,
        "title": experiment.title,
        "paper": experiment.paper.title,
        "scale": planned.scale.label,
        "command": planned.command,
        "settings": dict(planned.scale.settings),
        "version": _versions(planned, plan),
        "corpora": list(planned.corpora),
        "columns": {title: column.digits for title, column in planned.columns.items()},
        # A mean of these says nothing, as one of the p of several seeds.
        "each_seed": sorted(it for it, column in planned.columns.items() if not column.compared),
        "printed": {
            "columns": list(experiment.printed.columns),
            "rows": printed,
            "note": experiment.printed.note,
        },
        "rows": rows,
        "made": [str(path.relative_to(planned.folder)) for path in planned.made],
    }


def _versions(planned: Planned, plan: Plan) -> str:
    """Of gtrans, which has run the jobs; several if it was updated between them."""
    records = [finished(plan, job) or {} for job in plan.before(planned.jobs)]
    return ", ".join(sorted({record["version"] for record in records if "version" in record}))


def _row(planned: Planned, plan: Plan, row: Row, printed: dict[str, list[Any]]) -> dict[str, Any]:
    cells: dict[str, Any] = {}
    for title, column in planned.columns.items():
        of_measure = (row.cells or {}).get(column.measure, ())
        readings = [
            read_number(
                planned.measures[column.measure], column, cell.one, cell.against, cell.others
            )
            for cell in of_measure
        ]
        found = [(run, it) for run, it in zip(row.runs, readings, strict=False) if it is not None]
        if found:
            values = [reading.value for _, reading in found]
            cells[title] = {
                "mean": mean(values),
                "spread": stdev(values) if len(values) > 1 else None,
                "seeds": [_seed(run.seed, reading) for run, reading in found],
            }
    return {
        "label": row.variant.label,
        "corpus": row.corpus,
        "why_not": row.why_not,
        "note": row.variant.note,
        "baseline": row.baseline,
        "paper": printed.get(row.variant.label, []),
        "runs": [_run(planned, plan, row, number) for number in range(len(row.runs))],
        "cells": cells,
    }


def _seed(seed: int, reading: Reading) -> dict[str, Any]:
    found: dict[str, Any] = {"seed": seed, "value": reading.value}
    for key in ("interval", "signature", "p", "test", "change"):
        value = getattr(reading, key)
        if value not in (None, ""):
            found[key] = list(value) if isinstance(value, tuple) else value
    return found


def _run(planned: Planned, plan: Plan, row: Row, number: int) -> dict[str, Any]:
    """Where a model stands, and what its training has cost."""
    run = row.runs[number]
    records = [finished(plan, job) or {} for job in run.trained]
    models = [Path(it).parent for it in run.checkpoint.split(":")] if run.checkpoint else []
    return {
        "seed": run.seed,
        "folder": ":".join(str(it.relative_to(planned.folder)) for it in models or [run.folder]),
        "seconds": sum(record.get("seconds", 0) for record in records),
        "cpu_seconds": sum(record.get("cpu_seconds", 0) for record in records),
        "hardware": "; ".join({record.get("hardware", ""): None for record in records}),
    }


def _difference(own: Sequence[dict[str, Any]], other: Sequence[dict[str, Any]]) -> dict[str, Any]:
    of_seed = {it["seed"]: it["value"] for it in other}
    found = [it["value"] - of_seed[it["seed"]] for it in own if it["seed"] in of_seed]
    if not found:
        return {}
    spread = stdev(found) if len(found) > 1 else None
    # Below this it is the rounding of a subtraction that tells the differences apart.
    least = 1e-9 * max(abs(it["value"]) for it in own)
    return {"mean": mean(found), "spread": spread, "p": _t_test(found, least)}


def _t_test(differences: Sequence[float], least: float) -> float | None:
    """p of a two-sided paired t-test; None with fewer than two, or if they spread no more."""
    count = len(differences)
    spread = stdev(differences) if count > 1 else 0.0
    if spread <= least:
        return None
    from scipy.stats import t

    return float(2 * t.sf(abs(mean(differences)) / (spread / sqrt(count)), count - 1))


# --- text -------------------------------------------------------------------------------


def to_markdown(table: dict[str, Any]) -> str:
    """The table for people, with the paper's numbers beside it."""
    # A corpus has the seed 0.
    seeds = sorted({run["seed"] for row in table["rows"] for run in row["runs"]} - {0})
    of_seeds = f"; seeds {', '.join(map(str, seeds))}" if seeds else ""
    settings = ", ".join(f"{key} {value}" for key, value in table["settings"].items())
    lines = [
        f"# {table['experiment']}: {table['title']}",
        "",
        f"{table['paper']}. Scale {table['scale']}{f' ({settings})' if settings else ''}; corpus "
        f"{', '.join(table['corpora'])}{of_seeds}. Made by "
        f"`{join(table['command'])}`, gtrans {table['version']}.",
        "",
    ]
    if table["columns"]:
        lines += _scores(table)
    lines += _printed(table)
    if table["columns"]:
        lines += _differences(table)
        lines += _footnotes(table)
    pictures = [name for name in table["made"] if name.endswith(".png")]
    pictures = pictures or [name for name in table["made"] if name.endswith(".svg")]
    lines += [f"![{name}]({name})" for name in pictures]
    others = [f"[{name}]({name})" for name in table["made"] if name not in pictures]
    lines += [f"Files: {', '.join(others)}."] if others else []
    return "\n".join(lines).rstrip() + "\n"


def _scores(table: dict[str, Any]) -> list[str]:
    several = len(table["corpora"]) > 1
    used = [title for title in table["columns"] if _is_used(table, title)]
    timed = any(run["seed"] for row in table["rows"] for run in row["runs"])
    here = {row["label"] for row in table["rows"]}
    printed = table["printed"]["columns"] if here & set(table["printed"]["rows"]) else []
    head = ["", *(["corpus"] if several else []), *used, *(["training, s"] if timed else [])]
    head += [f"paper: {title}" for title in printed]
    lines = [_line(head), _line(["---", *["---:"] * (len(head) - 1)])]
    for row in table["rows"]:
        if not row["cells"] and not row["paper"]:
            continue
        cells = [row["label"], *([row["corpus"]] if several else [])]
        of_each = table.get("each_seed", [])
        cells += [
            _cell(row["cells"].get(it), table["columns"][it], row["runs"], it in of_each)
            for it in used
        ]
        if timed:
            times = [run["seconds"] for run in row["runs"]]
            cells.append(f"{mean(times):.0f}" if times else "")
        lines.append(_line([*cells, *_texts(row["paper"] or [None] * len(printed))]))
    missing: dict[str, dict[str, None]] = {}
    for row in table["rows"]:
        if row["why_not"]:
            missing.setdefault(row["why_not"], {})[row["label"]] = None
    notes = [f"- {'; '.join(labels)}: {why_not}" for why_not, labels in missing.items()]
    return [*lines, "", *(["Not run here:", "", *notes, ""] if notes else [])]


def _printed(table: dict[str, Any]) -> list[str]:
    """What the paper prints and :func:`_scores` does not have."""
    beside = {row["label"] for row in table["rows"]} if table["columns"] else set()
    columns, rows = table["printed"]["columns"], table["printed"]["rows"]
    others = [_line([label, *_texts(it)]) for label, it in rows.items() if label not in beside]
    if not others:
        return []
    lines = ["Of the paper:", "", _line(["", *columns]), _line(["---", *["---:"] * len(columns)])]
    return [*lines, *others, ""]


def _texts(values: Iterable[Any]) -> list[str]:
    return ["" if value is None else str(value) for value in values]


def _is_used(table: dict[str, Any], title: str) -> bool:
    return any(title in row["cells"] for row in table["rows"])


def _cell(
    cell: dict[str, Any] | None, digits: int, runs: Sequence[dict[str, Any]], each: bool
) -> str:
    """Mean and spread over seeds; of a single seed, the 95% interval.

    ``runs``: of all seeds; a mean over fewer says so. ``each``: the value of each instead, with
    its interval, in the order of the runs.
    """
    if cell is None:
        return ""
    if each:
        of_seed = {it["seed"]: _with_interval(it["value"], it, digits) for it in cell["seeds"]}
        return ", ".join(of_seed.get(run["seed"], "-") for run in runs)
    found = len(cell["seeds"])
    value = _with_interval(cell["mean"], cell["seeds"][0], digits)
    if cell["spread"] is not None:
        value = f"{cell['mean']:.{digits}f} ± {cell['spread']:.{digits}f}"
    return value if found == len(runs) else f"{value} ({found} of {len(runs)} seeds)"


def _with_interval(value: float, of_seed: dict[str, Any], digits: int) -> str:
    shown, ends = in_digits(value, digits), of_seed.get("interval")
    if ends is None:
        return shown
    low, high = (in_digits(end, digits) for end in ends)
    return f"{shown} ({low} to {high})" if low.startswith("-") else f"{shown} ({low}–{high})"


def _differences(table: dict[str, Any]) -> list[str]:
    several = len(table["corpora"]) > 1
    found = [
        (row, title, cell)
        for row in table["rows"]
        for title, cell in row["cells"].items()
        if cell.get("difference")
    ]
    if not found:
        return []
    seeds = [it for _, _, cell in found for it in cell["seeds"]]
    columns = {
        "": True,
        "corpus": several,
        "against": True,
        "score": True,
        "change": True,
        "95% interval of each seed": any("change" in it for it in seeds),
        "p over seeds": any(cell["difference"]["p"] is not None for _, _, cell in found),
        "p of each seed": any("p" in it for it in seeds),
    }
    tests = _tests((title, cell) for _, title, cell in found)
    lines = []
    for row, title, cell in found:
        cells = _of_change(row, title, cell, table["columns"][title], len(tests.get(title, ())) > 1)
        lines.append(_line(it for it, shown in zip(cells, columns.values(), strict=True) if shown))
    of_test: dict[str, list[str]] = {}
    for title, names in tests.items():
        if len(names) == 1:
            of_test.setdefault(min(names), []).append(title)
    said = ["over seeds: paired t-test"] if columns["p over seeds"] else []
    said += [f"{test} of {', '.join(titles)}" for test, titles in of_test.items()]
    of_p = f" (p {'; '.join(said)})" if said else ""
    head = [title for title, shown in columns.items() if shown]
    return [
        f"Changes from the baseline of the same seed{of_p}:",
        "",
        _line(head),
        _line(["---"] * len(head)),
        *lines,
        "",
    ]


def _of_change(
    row: dict[str, Any], title: str, cell: dict[str, Any], digits: int, name_tests: bool
) -> list[str]:
    """A change in the columns of :func:`_differences`."""
    difference, seeds = cell["difference"], cell["seeds"]
    spread = difference["spread"]
    change = in_digits(difference["mean"], digits, "+")
    intervals = [change_interval(it["change"], digits) if "change" in it else "-" for it in seeds]
    each = [f"{it['p']:.3g}" if "p" in it else "-" for it in seeds]
    tests = sorted({it["test"] for it in seeds if "test" in it})
    named = f" ({', '.join(tests)})" if name_tests else ""
    return [
        row["label"],
        row["corpus"],
        row["baseline"],
        title,
        change if spread is None else f"{change} ± {spread:.{digits}f}",
        ", ".join(intervals) if any("change" in it for it in seeds) else "",
        "" if difference["p"] is None else f"{difference['p']:.3g}",
        f"{', '.join(each)}{named}" if tests else "",
    ]


def _tests(cells: Iterable[tuple[str, dict[str, Any]]]) -> dict[str, set[str]]:
    """The statistical tests of each score; where it is one, a table names it once."""
    found: dict[str, set[str]] = {}
    for title, cell in cells:
        for it in cell["seeds"]:
            if "test" in it:
                found.setdefault(title, set()).add(it["test"])
    return found


def _footnotes(table: dict[str, Any]) -> list[str]:
    signatures = {
        title: it["signature"]
        for row in table["rows"]
        for title, cell in row["cells"].items()
        for it in cell["seeds"]
        if "signature" in it
    }
    machines = {run["hardware"] for row in table["rows"] for run in row["runs"]} - {""}
    if not any(run["seed"] for row in table["rows"] for run in row["runs"]):
        return []
    lines = [
        "A cell is the mean over seeds ± their standard deviation; of a single seed, the score and "
        "its 95% interval. Runs and all values of each seed are in the JSON and CSV files.",
        "",
    ]
    lines += [f"- {title}: `{signature}`" for title, signature in signatures.items()]
    notes = {row["label"]: row.get("note") for row in table["rows"] if row["runs"]}
    lines += [f"- row {label}: {note}" for label, note in notes.items() if note]
    lines += [f"- trained on: {'; '.join(sorted(machines))}"] if machines else []
    return [*lines, ""]


def _line(cells: Iterable[str]) -> str:
    return "| " + " | ".join(cell.replace("|", "\\|") for cell in cells) + " |"


def to_csv(table: dict[str, Any]) -> str:
    """A line for each number of each seed."""
    file = io.StringIO()
    writer = csv.writer(file, lineterminator="\n")
    writer.writerow([
        "row", "corpus", "score", "seed", "value", "low", "high", "baseline", "change low",
        "change high", "p", "test", "signature", "folder", "training seconds", "hardware",
    ])  # fmt: skip
    for row in table["rows"]:
        runs = {run["seed"]: run for run in row["runs"]}
        for title, cell in row["cells"].items():
            for it in cell["seeds"]:
                run = runs[it["seed"]]
                low, high = it.get("interval", ("", ""))
                least, most = it.get("change", ("", ""))
                writer.writerow([
                    row["label"], row["corpus"], title, it["seed"], it["value"], low, high,
                    row["baseline"], least, most, it.get("p", ""), it.get("test", ""),
                    it.get("signature", ""), run["folder"], run["seconds"], run["hardware"],
                ])  # fmt: skip
    return file.getvalue()
