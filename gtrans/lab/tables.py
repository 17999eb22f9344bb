"""The results of a table or figure: from measurements to JSON, CSV, Markdown and pictures."""

from __future__ import annotations

import csv
import io
import json
import tarfile
from collections.abc import Iterable, Mapping, Sequence
from itertools import product
from pathlib import Path
from shlex import join
from statistics import mean, stdev
from typing import Any

from gtrans.errors import GtransError
from gtrans.files import atomic_writer, binary_writer, digest
from gtrans.lab.experiments import TESTED_SETS, Plan, PlannedRow, Run, Table
from gtrans.lab.logs import logged, read_history
from gtrans.lab.provenance import provenance
from gtrans.messages import change_interval, in_digits, of_form

_CSV = (
    *("row", "corpus", "score", "seed", "value", "low", "high", "baseline", "change low"),
    *("change high", "p", "test", "signature", "folder", "training seconds"),
)
ARCHIVE = ".translations.tar.xz"


def write(plan: Plan, table: Table) -> None:
    """Write NAME.json, .csv and .md, translations and pictures, in the current folder.

    They have all measurements in the folder, also rows and seeds of earlier calls.

    Raises:
        GtransError: a measure is not readable, or a control was not run.
    """
    plan = plan.with_all_seeds()
    data = table_of(plan, table)
    if table.figure is not None:
        data["made"] += draw(table, data)
    texts = texts_of(plan, data)
    if texts:
        data["made"].append(f"{table.name}{ARCHIVE}")
        pack(texts, Path(f"{table.name}{ARCHIVE}"))
    text = json.dumps(data, indent=2, ensure_ascii=False) + "\n"
    for ending, content in (("json", text), ("csv", to_csv(data)), ("md", to_markdown(data))):
        with atomic_writer(Path(f"{table.name}.{ending}")) as file:
            file.write(content)


def table_of(plan: Plan, table: Table) -> dict[str, Any]:
    """The results of a table, as JSON.

    In a cell, ``spread`` is the standard deviation over seeds (divided by n - 1); ``difference``
    has the difference from the baseline of the same seed, and ``p`` of a paired t-test over the
    seeds; a seed's ``change`` is the 95% interval of its difference.
    """
    columns, corpora = plan.columns(table), plan.corpora(table)
    rows = [_row(plan, table, row, columns) for row in plan.rows(table)]
    refuse_copies(rows)
    by_label = {(row["label"], row["corpus"]): row["cells"] for row in rows}
    for row in rows:
        baseline = by_label.get((row["baseline"], row["corpus"]), {})
        for title, cell in row["cells"].items():
            if title in baseline and columns[title].get("compared", True):
                cell["difference"] = _difference(cell["seeds"], baseline[title]["seeds"])
    made = [path for name in plan.analyses(table) for path in sorted(Path().glob(f"{name}*"))]
    data = {name: [Path(file) for file in plan.corpus(name).files] for name in corpora}
    return of_form("reproduced", {
        "experiment": table.name,
        "title": table.title,
        "paper": table.paper["title"],
        "scale": plan.scale.label,
        "command": ["gtrans", "reproduce", table.name, *plan.words],
        "settings": dict(plan.scale.settings),
        "made with": provenance(),
        "corpora": list(corpora),
        "data": {name: {file.name: digest(file) for file in files if file.is_file()}
                 for name, files in data.items()},
        "columns": {title: column.get("digits", 2) for title, column in columns.items()},
        # A mean of these says nothing, such as a mean of the p of several seeds.
        "each_seed": sorted(title for title in columns if not columns[title].get("compared", True)),
        "printed": {"columns": [], "rows": {}, "note": "", **table.printed},
        "rows": rows,
        "made": [str(path) for path in made],
    })  # fmt: skip


def _row(plan: Plan, table: Table, row: PlannedRow, columns: Mapping[str, Any]) -> dict[str, Any]:
    marks = {run: Path(run.folder, run.model, "trained") for run in row.runs}
    runs = [run for run, mark in marks.items() if not run.seed or mark.is_file()]
    others = {run.seed: plan.other(table, row, run) for run in runs}
    cells = {}
    for title, column in columns.items():
        seeds = []
        for run in runs:
            files = list(map(Path, plan.files(column["measure"], run, others[run.seed])))
            if files and all(file.is_file() for file in files):
                number = read_number(plan, run, column, files)
                seeds += [] if number is None else [{"seed": run.seed, **number}]
        if seeds:
            cells[title] = {**_spread([seed["value"] for seed in seeds]), "seeds": seeds}
    return {
        "label": row.row.label,
        "corpus": row.corpus,
        "why_not": row.why_not or ("" if runs else "not made"),
        "note": row.row.note,
        "baseline": row.row.against if any(others.values()) else "",
        "paper": table.printed.get("rows", {}).get(row.row.label, []),
        "runs": [_run(plan, run) for run in runs],
        "cells": cells,
    }


def _spread(values: Sequence[float]) -> dict[str, Any]:
    return {"mean": mean(values), "spread": stdev(values) if len(values) > 1 else None}


def _run(plan: Plan, run: Run) -> dict[str, Any]:
    """The folder, translation, provenance and training time of a run.

    The time includes calls that were stopped.
    """
    if not run.seed:
        return {"seed": 0, "folder": f"data/{run.corpus}/plain", "seconds": 0}
    folder = f"{run.folder}/{run.model}"
    history = read_history(folder)
    walls = [record.values.get("wall", 0) for record in (*history.epochs, *history.inner)]
    trained = Path(folder, "trained").read_text(encoding="utf-8")
    entry = {"seed": run.seed, "folder": folder, "seconds": max(walls, default=0)}
    entry |= {"trained with": json.loads(trained)} if trained else {}
    translation = Path(plan.translation(run))
    if translation.is_file():
        entry |= {"translation": str(translation), "sha256": digest(translation)}
    return entry


def _difference(own: Sequence[dict[str, Any]], other: Sequence[dict[str, Any]]) -> dict[str, Any]:
    from scipy.stats import ttest_1samp

    baseline = {run["seed"]: run["value"] for run in other}
    differences = [run["value"] - baseline[run["seed"]] for run in own if run["seed"] in baseline]
    if not differences:
        return {}
    spread = _spread(differences)
    # Below this limit the differences differ by rounding alone.
    differ = (spread["spread"] or 0) > 1e-9 * max(abs(run["value"]) for run in own)
    return {**spread, "p": float(ttest_1samp(differences, 0).pvalue) if differ else None}


# --- translations -----------------------------------------------------------------------


def refuse_copies(rows: Sequence[Mapping[str, Any]]) -> None:
    """Find rows whose translations are copies of another row's, because they were never run.

    Models that have hardly learned anything write the same few sentences; they are no copies.

    Raises:
        GtransError: two rows of one corpus and seed have the same translation in two files.
    """
    seen: dict[tuple[str, int, str], tuple[str, str]] = {}
    pairs = [(row, run) for row in rows for run in row["runs"] if "sha256" in run]
    for row, run in pairs:
        own = row["label"], run["translation"]
        label, file = seen.setdefault((row["corpus"], run["seed"], run["sha256"]), own)
        if file == run["translation"]:
            continue
        lines = Path(file).read_text(encoding="utf-8").splitlines()
        if 10 * len({*lines}) > len(lines):
            raise GtransError(
                f"{run['translation']} ({row['label']}) is the same as {file} ({label}), so one of "
                "them was not run, or its model sees no context; remove it and run it again."
            )


def texts_of(plan: Plan, data: Mapping[str, Any]) -> list[Path]:
    """The translations of a table, and the test text behind them if it was made here."""
    runs = [run for row in data["rows"] for run in row["runs"] if "translation" in run]
    texts = [Path(run["translation"]) for run in runs]
    for name in data["corpora"] if runs else ():
        corpus = plan.corpus(name)
        if name in plan.scale.of.get("synthetic", {}):
            texts += [Path(corpus.file(2, lang)) for lang in (corpus.source, corpus.target)]
    return sorted({*texts})


def pack(files: Iterable[Path], archive: Path) -> None:
    """Write files into an archive; the same files give the same archive."""
    with (
        binary_writer(archive) as written,
        tarfile.open(fileobj=written, mode="w:xz") as packed,
    ):
        for file in files:
            member = tarfile.TarInfo(file.as_posix())
            member.size = file.stat().st_size
            with open(file, "rb") as content:
                packed.addfile(member, content)


# --- numbers ----------------------------------------------------------------------------


def read_number(
    plan: Plan, run: Run, column: Mapping[str, Any], files: Sequence[Path]
) -> dict[str, Any] | None:
    """A number of a run; None if there is none, such as s-BLEU of a translation without sentences.

    Args:
        plan: the plan of the table.
        run: the run.
        column: the column of the number.
        files: the files of :meth:`Plan.files`.

    Returns:
        ``value`` and, where they exist, its 95% ``interval`` and ``signature``, the interval
        ``change`` of its difference from the baseline, and the ``p`` of a ``test``.
    """
    measure, at = column["measure"], column["at"]
    if measure == "training":
        return _of_training(files, column)
    if measure == "size":
        return {"value": column["times"] * sum(logged(file.parent, at[0]) for file in files)}
    if measure == "speed":
        words = len(files[1].read_text(encoding="utf-8").split())
        (times,) = csv.DictReader(io.StringIO(files[0].read_text()), delimiter="\t")
        return {"value": words / float(times["s"])}
    contents = [_content(path) for path in files]
    if measure == "directions":
        scores = [float(content["systems"]["row"]["s_bleu"]["score"]) for content in contents]
        return _of_directions(plan, run, at, scores)
    if measure == "score":
        return _of_score(contents[0]["systems"]["row"].get(at[0]), at[1:])
    if measure in TESTED_SETS:
        return _of_contrast(contents[0], contents[-1], at)
    interval = _at(contents[0], column["interval"]) if "interval" in column else None
    return _number(_at(contents[0], at), interval=interval)


def _content(path: Path) -> Any:
    try:
        return json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise GtransError(f"{path}: not readable ({error}).") from None


def _at(content: Any, keys: Iterable[str]) -> Any:
    """The value behind some keys in nested objects and lists; None: there is none."""
    for key in keys:
        if isinstance(content, list):
            content = dict(enumerate(content)).get(int(key))
        else:
            content = content.get(key) if isinstance(content, dict) else None
    return content


def _number(value: float | None, **details: Any) -> dict[str, Any] | None:
    """A number with its details; None without a number."""
    if value is None:
        return None
    return {"value": value} | {key: detail for key, detail in details.items() if detail is not None}


def _of_score(entry: Any, rest: Sequence[str]) -> dict[str, Any] | None:
    """A number of ``gtrans score --json``; ``rest``: ``non_inferiority`` for the p of that test."""
    if rest:
        return _number(_at(entry, ["comparison", *rest, "p"]))
    p = _at(entry, ["comparison", "paired_randomisation", "p"])
    return _number(
        _at(entry, ["score"]),
        interval=_at(entry, ["confidence", "interval"]),
        signature=_at(entry, ["signature"]),
        p=p,
        test=None if p is None else "paired approximate randomisation",
        change=_at(entry, ["comparison", "interval"]),
    )


def _of_contrast(alone: Any, both: Any, at: Sequence[str]) -> dict[str, Any] | None:
    """An accuracy of ``gtrans contrast --json``; ``at``: empty, or phenomenon and distance."""
    phenomenon, distance = (*at, "", "")[:2]
    if phenomenon and distance:
        share = _at(alone, ["contrastive", phenomenon, distance])
        interval = _percent(_at(alone, ["intervals", phenomenon, distance]))
        return None if share is None else {"value": 100 * share, "interval": interval}
    keys = ["by_distance", distance] if distance else ["by_phenomenon", phenomenon]
    whole = _at(alone, keys if any(at) else ["all"])
    if whole is None:
        return None
    suffix, key = ("_by_distance", distance) if distance else ("", phenomenon or "all")
    p = _at(both, ["others", "row", f"mcnemar{suffix}", key, "p"])
    return _number(
        100 * whole["accuracy"],
        interval=_percent(whole.get("interval")),
        p=p,
        test=None if p is None else "exact McNemar",
        change=_percent(_at(both, ["others", "row", f"difference{suffix}", key, "interval"])),
    )


def _percent(interval: Sequence[float] | None) -> list[float] | None:
    return None if interval is None else [100 * end for end in interval]


def _of_training(files: Sequence[Path], column: Mapping[str, Any]) -> dict[str, Any] | None:
    """The best value of a run's log, or the mean of all; of several models there is none.

    Models with layer fusion have no loss: their training loss covers all groups, so it cannot be
    compared with that of other models.
    """
    history, (split, name) = read_history(files[0].parent), column["at"]
    values = [value for _, value in history.series(split, name)]
    grouped = name == "loss" and "loss_group_1" in history.names(split)
    if len(files) > 1 or grouped or not values:
        return None
    best = min if column.get("better") == "lower" else max
    return {"value": mean(values) if column.get("of_run") == "mean" else best(values)}


def _of_directions(
    plan: Plan, run: Run, at: Sequence[str], scores: Sequence[float]
) -> dict[str, Any] | None:
    """The score of one direction, or the mean of all or of a class.

    A class has the language pairs with at least the training pairs of its setting that are in no
    higher class; ``win ratio``: the share of directions in percent on which the row is better than
    the baseline, whose ``scores`` follow its own.
    """
    directions = plan.corpus(run.corpus).directions
    own = dict(zip(directions, scores, strict=False))
    other = dict(zip(directions, scores[len(directions) :], strict=False))
    if len(at) == 1:
        return {"value": own[at[0]] if at[0] in own else mean(own.values())}
    counts = _content(Path(f"data/{run.corpus}/{plan.preparation(run.model)}/pairs.json"))
    high, medium = (int(plan.scale.settings[f"{size}-pairs"]) for size in ("high", "medium"))
    chosen = []
    for pair, count in counts.items():
        size = "high" if count >= high else "medium" if count >= medium else "low"
        if at[1] in (size, "all", "win ratio"):
            chosen.append(pair if at[0] == "into" else "-".join(pair.split("-")[::-1]))
    if at[1] == "win ratio":
        return {"value": 100 * mean(own[pair] > other[pair] for pair in chosen)} if other else None
    return {"value": mean(own[pair] for pair in chosen)} if chosen else None


# --- pictures and text ------------------------------------------------------------------


def draw(table: Table, data: Mapping[str, Any]) -> list[str]:
    """Draw a figure of a table, with a curve for each series; returns its files.

    A point is the mean over seeds, its bar goes from the smallest to the largest.
    """
    from gtrans.lab.plots import Figure, Panel, Series, mean_of_runs, write_figure

    assert table.figure is not None
    panels = []
    for axis, title in product(table.figure["x"], table.figure["y"]):
        runs: dict[str, dict[int, list[tuple[float | str, float]]]] = {}
        for row in data["rows"]:
            point, cell = table.rows[row["label"]], row["cells"].get(title)
            if axis in point.x and cell is not None:
                corpus = row["corpus"] if len(data["corpora"]) > 1 else ""
                curve = runs.setdefault(", ".join(filter(None, (point.series, corpus))), {})
                for seed in cell["seeds"]:
                    curve.setdefault(seed["seed"], []).append((point.x[axis], seed["value"]))
        series = (
            Series(name or title, mean_of_runs(curve.values()), number)
            for number, (name, curve) in enumerate(runs.items())
        )
        panels += [Panel(title, axis, title, tuple(series))] if runs else []
    title = f"{table.name}: {table.title} (scale {data['scale']})"
    facts = {"scale": data["scale"], "corpora": data["corpora"]}
    files = [f"{table.name}.figure{ending}" for ending in (".png", ".svg")]
    write_figure(Figure(title, tuple(panels), facts), files)
    return files


def to_markdown(table: Mapping[str, Any]) -> str:
    """The table for people, with the paper's numbers beside it."""
    rows = table["rows"]
    # A corpus has the seed 0.
    seeds = sorted({run["seed"] for row in rows for run in row["runs"]} - {0})
    listed = f"; seeds {', '.join(map(str, seeds))}" if seeds else ""
    missing: dict[str, list[str]] = {}
    for row in rows:
        missing.setdefault(row["why_not"], []).append(row["label"])
    signatures = {title: seed["signature"] for row in rows for title, cell in row["cells"].items()
                  for seed in cell["seeds"] if "signature" in seed}  # fmt: skip
    notes = {f"row {row['label']}": row["note"] for row in rows if row["note"] and row["runs"]}
    printed, labels = table["printed"], {row["label"] for row in rows}
    others = [{"of the paper": label, **_values("", printed["columns"], values)}
              for label, values in printed["rows"].items() if label not in labels]  # fmt: skip
    pictures = [name for name in table["made"] if name.endswith(".png")]
    lines = [
        f"# {table['experiment']}: {table['title']}",
        f"{table['paper']}. Scale {table['scale']}; corpus {', '.join(table['corpora'])}{listed}."
        f" Made by `{join(table['command'])}`, gtrans {table['version']}.",
        _markdown(_scores(table), "---:"),
        _markdown(others, "---:"),
        "\n".join(f"- not run: {'; '.join(names)}: {why}" for why, names in missing.items() if why),
        _markdown(_changes(table), "---"),
        "A cell is the mean over seeds ± their standard deviation; of a single seed, the score and "
        "its 95% interval. A change is that from the row of the same seed that a row is tested "
        "against; p over seeds is that of a paired t-test." if seeds else "",
        "\n".join(f"- {title}: `{text}`" for title, text in signatures.items()),
        "\n".join(f"- {row}: {text}" for row, text in notes.items()),
        *(f"![{name}]({name})" for name in pictures),
        ", ".join(f"[{name}]({name})" for name in table["made"] if name not in pictures),
    ]  # fmt: skip
    return "\n\n".join(filter(None, lines)) + "\n"


def _scores(table: Mapping[str, Any]) -> list[dict[str, str]]:
    """The rows, with the paper's numbers beside them."""
    rows = []
    for row in table["rows"]:
        cells = {"": row["label"], "corpus": row["corpus"] * (len(table["corpora"]) > 1)}
        for title, digits in table["columns"].items():
            if title in row["cells"]:
                each = title in table.get("each_seed", ())
                cells[title] = _shown(row["cells"][title], digits, row["runs"], each)
        times = [run["seconds"] for run in row["runs"] if run["seed"]]
        cells["training, s"] = f"{mean(times):.0f}" if times else ""
        rows.append({**cells, **_values("paper: ", table["printed"]["columns"], row["paper"])})
    return rows


def _values(mark: str, columns: Iterable[str], values: Iterable[Any]) -> dict[str, str]:
    pairs = zip(columns, values, strict=False)
    return {f"{mark}{title}": "" if value is None else str(value) for title, value in pairs}


def _shown(cell: Any, digits: int, runs: Sequence[dict[str, Any]], each: bool) -> str:
    """Mean and spread over seeds; of a single seed, the 95% interval.

    ``runs``: of all seeds; a mean over fewer says so. ``each``: the value of each instead, with
    its interval, in the order of the runs.
    """
    by_seed = {seed["seed"]: _with_interval(seed, digits) for seed in cell["seeds"]}
    if each:
        return ", ".join(by_seed.get(run["seed"], "-") for run in runs)
    value = next(iter(by_seed.values()))
    if cell["spread"] is not None:
        value = f"{cell['mean']:.{digits}f} ± {cell['spread']:.{digits}f}"
    return value if len(by_seed) == len(runs) else f"{value} ({len(by_seed)} of {len(runs)} seeds)"


def _with_interval(seed: Mapping[str, Any], digits: int) -> str:
    shown = in_digits(seed["value"], digits)
    if "interval" not in seed:
        return shown
    return f"{shown} ({' to '.join(in_digits(end, digits) for end in seed['interval'])})"


def _changes(table: Mapping[str, Any]) -> list[dict[str, str]]:
    """Changes from the baseline of the same seed."""
    changes = []
    cells = [(row, *item) for row in table["rows"] for item in row["cells"].items()]
    for row, title, cell in cells:
        change, digits, seeds = cell.get("difference"), table["columns"][title], cell["seeds"]
        if not change:
            continue
        spread = "" if change["spread"] is None else f" ± {change['spread']:.{digits}f}"
        tests = ", ".join(sorted({seed["test"] for seed in seeds if "test" in seed}))
        intervals = [change_interval(seed["change"], digits) if "change" in seed else "-"
                     for seed in seeds]  # fmt: skip
        each = [f"{seed['p']:.3g}" if "p" in seed else "-" for seed in seeds]
        changes.append({
            "": row["label"],
            "corpus": row["corpus"] * (len(table["corpora"]) > 1),
            "against": row["baseline"],
            "score": title,
            "change": in_digits(change["mean"], digits, "+") + spread,
            "95% interval of each seed": ", ".join(intervals) if {*intervals} - {"-"} else "",
            "p over seeds": "" if change["p"] is None else f"{change['p']:.3g}",
            "p of each seed": f"{', '.join(each)} ({tests})" if tests else "",
        })  # fmt: skip
    return changes


def _markdown(rows: Sequence[Mapping[str, str]], align: str) -> str:
    """Rows as a table; a column that is empty in all of them is left out."""
    keys = dict.fromkeys(title for row in rows for title in row)
    titles = [title for title in keys if any(row.get(title) for row in rows)]
    lines = [titles, ["---", *[align] * (len(titles) - 1)]]
    lines += [[row.get(title, "").replace("|", "\\|") for title in titles] for row in rows]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines) if titles[1:] else ""


def to_csv(table: Mapping[str, Any]) -> str:
    """A line for each number of each seed."""
    file = io.StringIO()
    writer = csv.DictWriter(file, _CSV, extrasaction="ignore", lineterminator="\n")
    writer.writeheader()
    for row in table["rows"]:
        runs = {run["seed"]: run for run in row["runs"]}
        cells = row["cells"].items()
        for title, seed in ((title, seed) for title, cell in cells for seed in cell["seeds"]):
            (low, high), change = seed.get("interval", ("", "")), seed.get("change", ("", ""))
            writer.writerow({
                "row": row["label"], "corpus": row["corpus"], "score": title, **seed,
                "low": low, "high": high, "baseline": row["baseline"],
                "change low": change[0], "change high": change[1],
                "folder": runs[seed["seed"]]["folder"],
                "training seconds": runs[seed["seed"]]["seconds"],
            })  # fmt: skip
    return file.getvalue()
