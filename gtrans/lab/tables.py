"""The results of a table or figure: from measurements to JSON, Markdown and pictures."""

from __future__ import annotations

import io
import json
import math
import tarfile
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from itertools import product
from pathlib import Path
from shlex import join
from statistics import mean, stdev
from typing import Any, NamedTuple

from gtrans.errors import GtransError
from gtrans.files import atomic_writer, binary_writer, digest, read_object
from gtrans.lab.experiments import (
    TESTED_SETS,
    ExperimentPlan,
    PlannedRow,
    PlannedRun,
    Table,
    read_definitions,
)
from gtrans.lab.logs import logged, read_history
from gtrans.lab.provenance import provenance
from gtrans.messages import change_interval, in_digits, with_schema


def write_results(plan: ExperimentPlan, name: str) -> None:
    """Write NAME.json and .md, translations and pictures of a table.

    They cover all measurements in the current folder, also of earlier calls.
    """
    plan = plan.with_all_seeds()
    table = plan.tables[name]
    data = collect_results(plan, table)
    if table.figure is not None:
        data["made"] += draw(table, data)
    texts = translated_texts(plan, data)
    if texts:
        archive = f"{name}.translations.tar.xz"
        data["made"].append(archive)
        pack(texts, archive)
    text = json.dumps(data, indent=2, ensure_ascii=False)
    with atomic_writer(f"{name}.json") as file:
        file.write(f"{text}\n")
    with atomic_writer(f"{name}.md") as file:
        file.write(to_markdown(data))


def collect_results(plan: ExperimentPlan, table: Table) -> dict[str, Any]:
    """Collect the results of a table, as JSON.

    In a cell, ``spread`` is the standard deviation over seeds (divided by n - 1), ``difference``
    the change from the baseline of the same seeds with the ``p`` of a paired t-test over them.
    """
    definitions = read_definitions("columns")["columns"]
    columns = {title: definitions[title] for title in table.columns}
    rows = [_row_results(plan, row, columns) for row in plan.rows(table)]
    check_copies(rows)
    _add_differences(rows, columns)
    made: list[str] = []
    for name in plan.analyses(table):
        for path in sorted(Path().glob(f"{name}*")):
            made.append(str(path))
    corpora = plan.corpora(table)
    digests = {}
    for name in corpora:
        digests[name] = _digests(plan.corpus(name).files)
    digits = {}
    each_seed = []
    for title, column in columns.items():
        digits[title] = column.get("digits", 2)
        # A mean of these says nothing, such as a mean of the p of several seeds.
        if not _is_compared(column):
            each_seed.append(title)
    printed = {"columns": [], "rows": {}, "note": "", **table.printed}
    results = {
        "experiment": table.name,
        "title": table.title,
        "paper": table.paper["title"],
        "scale": plan.label,
        "command": _command(plan, table),
        "settings": plan.settings,
        "made with": provenance(),
        "corpora": list(corpora),
        "data": digests,
        "columns": digits,
        "each_seed": sorted(each_seed),
        "printed": printed,
        "rows": rows,
        "made": made,
    }
    return with_schema("reproduced", results)


def _command(plan: ExperimentPlan, table: Table) -> list[str]:
    words = ["gtrans", "reproduce", table.name, "--scale", plan.scale]
    if plan.amp:
        words.append("--amp")
    if plan.chosen_corpora:
        words += ["--corpus", *plan.chosen_corpora]
    for change in plan.changes:
        words += ["--set", change]
    return words


def _digests(files: Iterable[str]) -> dict[str, str]:
    digests = {}
    for file in files:
        path = Path(file)
        if path.is_file():
            digests[path.name] = digest(path)
    return digests


def _is_compared(column: Mapping[str, Any]) -> bool:
    return bool(column.get("compared", True))


def _add_differences(rows: Sequence[dict[str, Any]], columns: Mapping[str, Any]) -> None:
    cells_by_row = {}
    for row in rows:
        key = row["label"], row["corpus"]
        cells_by_row[key] = row["cells"]
    for row in rows:
        baseline_key = row["baseline"], row["corpus"]
        baseline = cells_by_row.get(baseline_key, {})
        for title, cell in row["cells"].items():
            if title in baseline and _is_compared(columns[title]):
                baseline_cell = baseline[title]
                cell["difference"] = _difference(cell["seeds"], baseline_cell["seeds"])


def _row_results(
    plan: ExperimentPlan, row: PlannedRow, columns: Mapping[str, Any]
) -> dict[str, Any]:
    runs = [run for run in row.runs if _is_made(run)]
    cells = {}
    for title, column in columns.items():
        seeds = _seed_numbers(plan, runs, column)
        if seeds:
            spread = _spread([seed["value"] for seed in seeds])
            cells[title] = {**spread, "seeds": seeds}
    why_not = row.why_not
    if not why_not and not runs:
        why_not = "not made"
    has_baseline = any(run.against for run in runs)
    return {
        "label": row.row.label,
        "corpus": row.corpus,
        "why_not": why_not,
        "note": row.row.note,
        "baseline": row.row.against if has_baseline else "",
        "runs": [_run_facts(plan, run) for run in runs],
        "cells": cells,
    }


def _is_made(run: PlannedRun) -> bool:
    if not run.seed:  # a corpus
        return True
    return Path(run.folder, run.model, "trained").is_file()


def _seed_numbers(
    plan: ExperimentPlan, runs: Iterable[PlannedRun], column: Mapping[str, Any]
) -> list[dict[str, Any]]:
    seeds = []
    for run in runs:
        names = plan.files(column["measure"], run)
        files = [Path(name) for name in names]
        if not files or not all(file.is_file() for file in files):
            continue
        number = read_number(plan, run, column, files)
        if number:
            seeds.append({"seed": run.seed, **number})
    return seeds


def _spread(values: Sequence[float]) -> dict[str, Any]:
    deviation = stdev(values) if len(values) > 1 else None
    return {"mean": mean(values), "spread": deviation}


def _run_facts(plan: ExperimentPlan, run: PlannedRun) -> dict[str, Any]:
    if not run.seed:
        return {"seed": 0, "folder": f"data/{run.corpus}/plain", "seconds": 0}
    folder = Path(run.folder, run.model)
    history = read_history(folder)
    times = []
    for record in (*history.epochs, *history.inner):
        times.append(record.values.get("wall", 0))
    facts = {
        "seed": run.seed,
        "folder": str(folder),
        "seconds": max(times, default=0),
        "trained with": read_object(folder / "trained"),
    }
    translation = Path(plan.translation(run))
    if translation.is_file():
        facts["translation"] = str(translation)
        facts["sha256"] = digest(translation)
    return facts


_Numbers = Sequence[dict[str, Any]]
"""Numbers of a cell, one for each seed; see :func:`read_number`."""


def _difference(own: _Numbers, other: _Numbers) -> dict[str, Any]:
    from scipy.stats import ttest_1samp

    baseline_values = {number["seed"]: number["value"] for number in other}
    differences = []
    for number in own:
        seed = number["seed"]
        if seed in baseline_values:
            differences.append(number["value"] - baseline_values[seed])
    if not differences:
        return {}
    spread = _spread(differences)
    largest = max(abs(number["value"]) for number in own)
    p = None
    # Below this limit the differences differ by rounding alone.
    if (spread["spread"] or 0) > 1e-9 * largest:
        test = ttest_1samp(differences, 0)
        p = float(test.pvalue)
    return {**spread, "p": p}


# --- translations -----------------------------------------------------------------------


class _Translated(NamedTuple):
    label: str
    file: str


def check_copies(rows: Sequence[Mapping[str, Any]]) -> None:
    """Raise GtransError if two rows have the same translation, because one was never run."""
    # By corpus, seed and digest of the translation.
    seen: dict[tuple[str, int, str], _Translated] = {}
    for row in rows:
        for run in row["runs"]:
            if "sha256" not in run:
                continue
            key = row["corpus"], run["seed"], run["sha256"]
            own = _Translated(row["label"], run["translation"])
            first = seen.setdefault(key, own)
            if first.file == own.file or not _has_learned(Path(first.file)):
                continue
            raise GtransError(
                f"{own.file} ({own.label}) is the same as {first.file} ({first.label}), so one of "
                "them was not run, or its model sees no context; remove it and run it again."
            )


def _has_learned(translation: Path) -> bool:
    # A model that has learned nothing repeats a few sentences.
    lines = translation.read_text(encoding="utf-8").splitlines()
    return 10 * len(set(lines)) > len(lines)


def translated_texts(plan: ExperimentPlan, data: Mapping[str, Any]) -> list[Path]:
    """Return the translations of a table, and their test text if it was made here."""
    texts = set()
    for row in data["rows"]:
        for run in row["runs"]:
            if "translation" in run:
                texts.add(Path(run["translation"]))
    if not texts:
        return []
    for name in data["corpora"]:
        if name in plan.sizes.get("synthetic", ()):
            for lang in plan.sizes["pair"]:
                texts.add(Path(f"corpora/{name}/test.{lang}"))
    return sorted(texts)


def pack(files: Iterable[Path], archive: str) -> None:
    """Write files into an archive; the same files give the same archive."""
    with binary_writer(archive) as written, tarfile.open(fileobj=written, mode="w:xz") as packed:
        for file in files:
            content = file.read_bytes()
            member = tarfile.TarInfo(file.as_posix())
            member.size = len(content)
            packed.addfile(member, io.BytesIO(content))


# --- numbers ----------------------------------------------------------------------------


def read_number(
    plan: ExperimentPlan, run: PlannedRun, column: Mapping[str, Any], files: Sequence[Path]
) -> dict[str, Any] | None:
    """Read a number of a run from the ``files`` of :meth:`ExperimentPlan.files`.

    Returns ``value`` and, if any, its 95% ``interval`` and ``signature``, the interval ``change``
    of its difference from the baseline, and the ``p`` of a ``test``; None if there is no number.
    """
    measure, keys = column["measure"], column["at"]
    if measure == "training":
        return _training_number(files, column)
    if measure == "size":
        return _model_size(files, column)
    if measure == "speed":
        return _words_per_second(*files)
    contents = [read_object(file) for file in files]
    if measure == "directions":
        scores = []
        for content in contents:
            system = content["systems"]["row"]
            scores.append(float(system["s_bleu"]["score"]))
        return _directions_number(plan, run, keys, scores)
    if measure == "score":
        entry = _value_at(contents[0], ["systems", "row", keys[0]])
        return _score_number(entry, keys[1:])
    if measure in TESTED_SETS:
        return _accuracy_number(contents[0], contents[-1], keys)
    interval = None
    if "interval" in column:
        interval = _value_at(contents[0], column["interval"])
    return _number(_value_at(contents[0], keys), interval)


def _value_at(content: Any, keys: Iterable[str]) -> Any:
    for key in keys:
        if isinstance(content, dict):
            content = content.get(key)
        else:  # a list, or None
            entries = {str(number): entry for number, entry in enumerate(content or ())}
            content = entries.get(key)
    return content


def _number(
    value: Any,
    interval: Any = None,
    change: Any = None,
    p: Any = None,
    test: str = "",
    signature: Any = None,
    times: int = 1,
) -> dict[str, Any] | None:
    """Return a number with its existing details, all times ``times``."""
    if value is None:
        return None
    number: dict[str, Any] = {"value": times * value}
    if interval is not None:
        number["interval"] = [times * end for end in interval]
    if change is not None:
        number["change"] = [times * end for end in change]
    if p is not None:
        number["p"] = p
        number["test"] = test
    if signature is not None:
        number["signature"] = signature
    return number


def _model_size(files: Sequence[Path], column: Mapping[str, Any]) -> dict[str, Any]:
    key = column["at"][0]
    size = 0.0
    for file in files:
        size += logged(file.parent, key)
    return {"value": column["times"] * size}


def _words_per_second(times: Path, translation: Path) -> dict[str, Any]:
    _, line = times.read_text().splitlines()  # Snakemake's, in seconds
    seconds = float(line.split("\t")[0])
    words = translation.read_text("utf-8").split()
    return {"value": len(words) / seconds}


def _score_number(entry: Any, keys: Sequence[str]) -> dict[str, Any] | None:
    """Read ``gtrans score --json``; ``keys``: ``non_inferiority`` for the p of that test."""
    comparison = _value_at(entry, ["comparison"])
    if keys:
        return _number(_value_at(comparison, [*keys, "p"]))
    return _number(
        _value_at(entry, ["score"]),
        interval=_value_at(entry, ["confidence", "interval"]),
        change=_value_at(comparison, ["interval"]),
        p=_value_at(comparison, ["paired_randomisation", "p"]),
        test="paired approximate randomisation",
        signature=_value_at(entry, ["signature"]),
    )


def _accuracy_number(alone: Any, compared: Any, keys: Sequence[str]) -> dict[str, Any] | None:
    """Read ``gtrans contrast --json``; ``keys``: empty, or phenomenon and distance."""
    phenomenon = keys[0] if keys else ""
    distance = keys[1] if len(keys) > 1 else ""
    if phenomenon and distance:
        share = _value_at(alone, ["contrastive", *keys])
        interval = _value_at(alone, ["intervals", *keys])
        return _number(share, interval, times=100)
    kind = "_by_distance" if distance else ""
    key = distance or phenomenon or "all"
    if key == "all":
        place = ["all"]
    elif distance:
        place = ["by_distance", key]
    else:
        place = ["by_phenomenon", key]
    accuracy = _value_at(alone, place)
    comparison = _value_at(compared, ["others", "row"])
    return _number(
        _value_at(accuracy, ["accuracy"]),
        interval=_value_at(accuracy, ["interval"]),
        change=_value_at(comparison, [f"difference{kind}", key, "interval"]),
        p=_value_at(comparison, [f"mcnemar{kind}", key, "p"]),
        test="exact McNemar",
        times=100,
    )


def _training_number(files: Sequence[Path], column: Mapping[str, Any]) -> dict[str, Any] | None:
    """Return the best value of a run's log, or the mean of all; None for several models."""
    history = read_history(files[0].parent)
    split, name = column["at"]
    values = [value for _, value in history.series(split, name)]
    covers_groups = name == "loss" and "loss_group_1" in history.names(split)
    if len(files) > 1 or covers_groups or not values:
        return None
    if column.get("of_run") == "mean":
        return {"value": mean(values)}
    best = min if column.get("better") == "lower" else max
    return {"value": best(values)}


def _directions_number(
    plan: ExperimentPlan, run: PlannedRun, keys: Sequence[str], scores: Sequence[float]
) -> dict[str, Any] | None:
    """Return the score of one direction, the mean of all or of a class, or the ``win ratio``.

    The win ratio is the percentage of directions on which the row beats the baseline, whose
    ``scores`` follow its own.
    """
    directions = plan.corpus(run.corpus).directions
    own = dict(zip(directions, scores, strict=False))
    baseline = dict(zip(directions, scores[len(directions) :], strict=False))
    if len(keys) == 1:
        key = keys[0]
        if key in own:
            return {"value": own[key]}
        return {"value": mean(own.values())} if key == "mean" else None
    side, kind = keys[:2]
    preparation = plan.preparation(run.model)
    counts = read_object(Path(f"data/{run.corpus}/{preparation}/pairs.json"))
    pairs = _pairs_of_class(counts, kind, plan.settings)
    if side != "into":
        pairs = [_reversed(pair) for pair in pairs]
    if kind == "win ratio":
        if not baseline:
            return None
        wins = [own[pair] > baseline[pair] for pair in pairs]
        return {"value": 100 * mean(wins)}
    return {"value": mean(own[pair] for pair in pairs)} if pairs else None


def _pairs_of_class(counts: Mapping[str, int], name: str, settings: Mapping[str, str]) -> list[str]:
    high, medium = int(settings["high-pairs"]), int(settings["medium-pairs"])
    least, most = 0, math.inf
    if name == "high":
        least = high
    elif name == "medium":
        least, most = medium, high
    elif name == "low":
        most = medium
    return [pair for pair, count in counts.items() if least <= count < most]


def _reversed(pair: str) -> str:
    source, _, target = pair.partition("-")
    return f"{target}-{source}"


# --- pictures and text ------------------------------------------------------------------


def draw(table: Table, data: Mapping[str, Any]) -> list[str]:
    """Draw a figure of a table, with a curve for each series; return its files."""
    from gtrans.lab.plots import Figure, Panel, Series, mean_of_runs, write_figure

    assert table.figure is not None
    panels = []
    axes = product(table.figure["x"], table.figure["y"])
    for axis, title in axes:
        series = []
        curves = _curves(table, data, axis, title)
        for number, (name, points) in enumerate(curves.items()):
            series.append(Series(name, mean_of_runs([points]), number))
        if series:
            panels.append(Panel(title, axis, title, tuple(series)))
    title = f"{table.name}: {table.title} (scale {data['scale']})"
    facts = {"scale": data["scale"], "corpora": data["corpora"]}
    files = [f"{table.name}.figure.png", f"{table.name}.figure.svg"]
    write_figure(Figure(title, tuple(panels), facts), files)
    return files


def _curves(
    table: Table, data: Mapping[str, Any], axis: str, title: str
) -> dict[str, list[tuple[float, float]]]:
    curves: dict[str, list[tuple[float, float]]] = defaultdict(list)
    for row in data["rows"]:
        point = table.rows[row["label"]]
        if axis not in point.x or title not in row["cells"]:
            continue
        names = [point.series] if point.series else []
        if len(data["corpora"]) > 1:
            names.append(row["corpus"])
        name = ", ".join(names) or title
        for seed in row["cells"][title]["seeds"]:
            curves[name].append((point.x[axis], seed["value"]))
    return curves


_HOW_TO_READ = (
    "Seeds {}: a cell is their mean ± standard deviation, of a single one the score and its 95% "
    "interval. A change is the difference from the baseline's row of the same seed; p over seeds "
    "comes from a t-test."
)


def to_markdown(results: Mapping[str, Any]) -> str:
    """Write the results for people, with the paper's numbers."""
    seeds = set()
    for row in results["rows"]:
        for run in row["runs"]:
            if run["seed"]:  # a corpus has the seed 0
                seeds.add(run["seed"])
    numbers = ", ".join(str(seed) for seed in sorted(seeds))
    parts = [
        f"# {results['experiment']}: {results['title']}",
        f"{results['paper']}. Scale {results['scale']}; corpus {', '.join(results['corpora'])}."
        f" Made by `{join(results['command'])}`, gtrans {results['version']}.",
        _markdown_table(_score_rows(results), "---:"),
        _markdown_table(_printed_rows(results["printed"]), "---:"),
        _markdown_table(_change_rows(results), "---"),
        _HOW_TO_READ.format(numbers) if numbers else "",
        "\n".join(_notes(results)),
    ]
    links = []
    for name in results["made"]:
        link = f"[{name}]({name})"
        if name.endswith(".png"):
            parts.append(f"!{link}")
        else:
            links.append(link)
    parts.append(", ".join(links))
    return "\n\n".join(part for part in parts if part) + "\n"


def _printed_rows(printed: Mapping[str, Any]) -> list[dict[str, str]]:
    rows = []
    for label, values in printed["rows"].items():
        row = {"printed in the paper": label}
        for title, value in zip(printed["columns"], values, strict=True):
            if value is not None:
                row[title] = value
        rows.append(row)
    return rows


def _notes(results: Mapping[str, Any]) -> list[str]:
    notes, signatures = [], []
    for row in results["rows"]:
        note = row["why_not"] or row["note"]
        if note:
            notes.append(f"- {row['label']}: {note}")
        for title, cell in row["cells"].items():
            for seed in cell["seeds"]:
                if "signature" in seed:
                    signatures.append(f"- {title}: `{seed['signature']}`")
    return list(dict.fromkeys(notes + signatures))


def _score_rows(results: Mapping[str, Any]) -> list[dict[str, str]]:
    rows = []
    for row in results["rows"]:
        entry = {"": row["label"], "corpus": _corpus_cell(results, row)}
        for title, cell in row["cells"].items():
            digits = results["columns"][title]
            seeds = cell["seeds"]
            if len(seeds) > 1 and title not in results.get("each_seed", ()):
                text = f"{cell['mean']:.{digits}f} ± {cell['spread']:.{digits}f}"
            else:
                texts = [_with_interval(seed, digits) for seed in seeds]
                text = ", ".join(texts)
            if len(seeds) < len(row["runs"]):
                text += f" ({len(seeds)} of {len(row['runs'])} seeds)"
            entry[title] = text
        times = [run["seconds"] for run in row["runs"] if run["seed"]]
        entry["training, s"] = f"{mean(times):.0f}" if times else ""
        rows.append(entry)
    return rows


def _corpus_cell(results: Mapping[str, Any], row: Mapping[str, Any]) -> str:
    corpus: str = row["corpus"]
    return corpus if len(results["corpora"]) > 1 else ""


def _with_interval(seed: Mapping[str, Any], digits: int) -> str:
    text = in_digits(seed["value"], digits)
    if not seed.get("interval"):
        return text
    low, high = seed["interval"]
    return f"{text} ({in_digits(low, digits)} to {in_digits(high, digits)})"


def _change_rows(results: Mapping[str, Any]) -> list[dict[str, str]]:
    changes = []
    for row in results["rows"]:
        for title, cell in row["cells"].items():
            change = cell.get("difference")
            if not change:
                continue
            digits = results["columns"][title]
            text = in_digits(change["mean"], digits, "+")
            if change["spread"] is not None:
                text += f" ± {change['spread']:.{digits}f}"
            entry = {
                "": row["label"],
                "corpus": _corpus_cell(results, row),
                "against": row["baseline"],
                "score": title,
                "change": text,
                "p over seeds": "" if change["p"] is None else f"{change['p']:.3g}",
            }
            changes.append(entry | _seed_tests(cell["seeds"], digits))
    return changes


def _seed_tests(seeds: Sequence[Mapping[str, Any]], digits: int) -> dict[str, str]:
    intervals, ps, tests = [], [], set()
    for seed in seeds:
        if "change" in seed and "p" in seed:
            intervals.append(change_interval(seed["change"], digits))
            ps.append(f"{seed['p']:.3g}")
            tests.add(seed["test"])
        else:
            intervals.append("-")
            ps.append("-")
    if not tests:
        intervals, ps = [], []
    return {
        "each seed: 95% interval": ", ".join(intervals),
        "p": ", ".join(ps),
        "test": ", ".join(sorted(tests)),
    }


def _markdown_table(rows: Sequence[Mapping[str, Any]], align: str) -> str:
    """Write rows as a table without empty columns; '' if one is left."""
    keys: dict[str, None] = {}
    for row in rows:
        keys |= dict.fromkeys(row)
    titles = [title for title in keys if any(row.get(title) for row in rows)]
    if len(titles) < 2:
        return ""
    alignment = [align] * (len(titles) - 1)
    table = [titles, ["---", *alignment]]
    for row in rows:
        texts = [str(row.get(title, "")) for title in titles]
        table.append([text.replace("|", "\\|") for text in texts])
    lines = [" | ".join(cells) for cells in table]
    return "\n".join(f"| {line} |" for line in lines)
