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
from typing import Any

from gtrans.errors import GtransError
from gtrans.files import atomic_writer, binary_writer, digest, read_object
from gtrans.lab.experiments import TESTED_SETS, ExperimentPlan, PlannedRow, PlannedRun, Table, read
from gtrans.lab.logs import logged, read_history
from gtrans.lab.provenance import provenance
from gtrans.messages import change_interval, in_digits, with_schema


def write(plan: ExperimentPlan, name: str) -> None:
    """Write NAME.json and .md, translations and pictures of a table, in the current folder.

    They have all measurements in the folder, also rows and seeds of earlier calls.

    Raises:
        GtransError: a measure is not readable, or a control was not run.
    """
    plan = plan.with_all_seeds()
    table = plan.tables[name]
    data = table_of(plan, table)
    if table.figure is not None:
        data["made"] += draw(table, data)
    texts = texts_of(plan, data)
    if texts:
        archive = f"{name}.translations.tar.xz"
        data["made"].append(archive)
        pack(texts, archive)
    with atomic_writer(f"{name}.json") as written:
        written.write(json.dumps(data, indent=2, ensure_ascii=False) + "\n")
    with atomic_writer(f"{name}.md") as written:
        written.write(to_markdown(data))


def table_of(plan: ExperimentPlan, table: Table) -> dict[str, Any]:
    """Collect the results of a table, as JSON.

    In a cell, ``spread`` is the standard deviation over seeds (divided by n - 1); ``difference``
    has the difference from the baseline of the same seed, and ``p`` of a paired t-test over the
    seeds; a seed's ``change`` is the 95% interval of its difference.
    """
    columns = {title: read("columns")["columns"][title] for title in table.columns}
    rows = [_row(plan, row, columns) for row in plan.rows(table)]
    refuse_copies(rows)
    _compare(rows, columns)
    made: list[str] = []
    for name in plan.analyses(table):
        made += [str(path) for path in sorted(Path().glob(f"{name}*"))]
    corpora = plan.corpora(table)
    results = {
        "experiment": table.name,
        "title": table.title,
        "paper": table.paper["title"],
        "scale": plan.label,
        "command": _command(plan, table),
        "settings": plan.settings,
        "made with": provenance(),
        "corpora": list(corpora),
        "data": {name: _digests(plan.corpus(name).files) for name in corpora},
        "columns": {title: column.get("digits", 2) for title, column in columns.items()},
        # A mean of these says nothing, such as a mean of the p of several seeds.
        "each_seed": sorted(title for title in columns if not _is_compared(columns[title])),
        "printed": {"columns": [], "rows": {}, "note": "", **table.printed},
        "rows": rows,
        "made": made,
    }
    return with_schema("reproduced", results)


def _command(plan: ExperimentPlan, table: Table) -> list[str]:
    """The words of the command that makes a table."""
    words = ["gtrans", "reproduce", table.name, "--scale", plan.scale]
    if plan.amp:
        words.append("--amp")
    if plan.named:
        words += ["--corpus", *plan.named]
    for change in plan.changes:
        words += ["--set", change]
    return words


def _digests(files: Iterable[str | Path]) -> dict[str, str]:
    """The digests of the files that exist, by their names."""
    paths = [Path(file) for file in files]
    return {path.name: digest(path) for path in paths if path.is_file()}


def _is_compared(column: Mapping[str, Any]) -> bool:
    """Whether the numbers of a column are compared with a baseline's."""
    return bool(column.get("compared", True))


def _compare(rows: Sequence[dict[str, Any]], columns: Mapping[str, Any]) -> None:
    """Add to each cell its ``difference`` from the same cell of the row's baseline."""
    by_label = {(row["label"], row["corpus"]): row["cells"] for row in rows}
    for row in rows:
        baseline = by_label.get((row["baseline"], row["corpus"]), {})
        for title, cell in row["cells"].items():
            if title in baseline and _is_compared(columns[title]):
                cell["difference"] = _difference(cell["seeds"], baseline[title]["seeds"])


def _row(plan: ExperimentPlan, row: PlannedRow, columns: Mapping[str, Any]) -> dict[str, Any]:
    runs = [run for run in row.runs if _is_made(run)]
    cells = {}
    for title, column in columns.items():
        seeds = _seeds(plan, runs, column)
        if seeds:
            cells[title] = {**_spread([seed["value"] for seed in seeds]), "seeds": seeds}
    return {
        "label": row.row.label,
        "corpus": row.corpus,
        "why_not": row.why_not or ("" if runs else "not made"),
        "note": row.row.note,
        "baseline": row.row.against if any(run.against for run in runs) else "",
        "runs": [_run(plan, run) for run in runs],
        "cells": cells,
    }


def _is_made(run: PlannedRun) -> bool:
    """Whether the model of a run is trained; counts of a corpus need none."""
    return not run.seed or Path(run.folder, run.model, "trained").is_file()


def _seeds(
    plan: ExperimentPlan, runs: Iterable[PlannedRun], column: Mapping[str, Any]
) -> list[dict[str, Any]]:
    """The numbers of a column, for each run whose measurements are there."""
    seeds = []
    for run in runs:
        files = [Path(file) for file in plan.files(column["measure"], run)]
        if not files or not all(file.is_file() for file in files):
            continue
        number = read_number(plan, run, column, files)
        if number:
            seeds.append({"seed": run.seed, **number})
    return seeds


def _spread(values: Sequence[float]) -> dict[str, Any]:
    return {"mean": mean(values), "spread": stdev(values) if len(values) > 1 else None}


def _run(plan: ExperimentPlan, run: PlannedRun) -> dict[str, Any]:
    """The folder, translation, provenance and training time of a run.

    The time includes calls that were stopped.
    """
    if not run.seed:
        return {"seed": 0, "folder": f"data/{run.corpus}/plain", "seconds": 0}
    folder = Path(run.folder, run.model)
    history = read_history(folder)
    walls = [record.values.get("wall", 0) for record in (*history.epochs, *history.inner)]
    entry = {
        "seed": run.seed,
        "folder": str(folder),
        "seconds": max(walls, default=0),
        "trained with": read_object(folder / "trained"),
    }
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
    for row in rows:
        for run in row["runs"]:
            if "sha256" not in run:
                continue
            key = row["corpus"], run["seed"], run["sha256"]
            label, file = seen.setdefault(key, (row["label"], run["translation"]))
            if file == run["translation"] or not _has_learned(Path(file)):
                continue
            raise GtransError(
                f"{run['translation']} ({row['label']}) is the same as {file} ({label}), so one of "
                "them was not run, or its model sees no context; remove it and run it again."
            )


def _has_learned(translation: Path) -> bool:
    """Whether at least a tenth of the sentences of a translation differ."""
    lines = translation.read_text(encoding="utf-8").splitlines()
    return 10 * len(set(lines)) > len(lines)


def texts_of(plan: ExperimentPlan, data: Mapping[str, Any]) -> list[Path]:
    """The translations of a table, and the test text behind them if it was made here."""
    texts = set()
    for row in data["rows"]:
        texts |= {Path(run["translation"]) for run in row["runs"] if "translation" in run}
    synthetic = plan.sizes.get("synthetic", ())
    for name in data["corpora"] if texts else ():
        if name in synthetic:
            texts |= {Path(f"corpora/{name}/test.{lang}") for lang in plan.sizes["pair"]}
    return sorted(texts)


def pack(files: Iterable[Path], archive: str) -> None:
    """Write files into an archive; the same files give the same archive."""
    with binary_writer(archive) as written, tarfile.open(fileobj=written, mode="w:xz") as packed:
        for file in files:
            member = tarfile.TarInfo(file.as_posix())
            member.size = file.stat().st_size
            packed.addfile(member, io.BytesIO(file.read_bytes()))


# --- numbers ----------------------------------------------------------------------------


def read_number(
    plan: ExperimentPlan, run: PlannedRun, column: Mapping[str, Any], files: Sequence[Path]
) -> dict[str, Any] | None:
    """A number of a run; None if there is none, such as s-BLEU of a translation without sentences.

    Args:
        plan: the plan of the table.
        run: the run.
        column: the column of the number.
        files: the files of :meth:`ExperimentPlan.files`.

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
        _, times = files[0].read_text().splitlines()  # Snakemake's, in seconds
        return {"value": len(files[1].read_text("utf-8").split()) / float(times.split("\t")[0])}
    contents = list(map(read_object, files))
    if measure == "directions":
        scores = [float(content["systems"]["row"]["s_bleu"]["score"]) for content in contents]
        return _of_directions(plan, run, at, scores)
    if measure == "score":
        return _of_score(_at(contents[0], ["systems", "row", at[0]]), at[1:])
    if measure in TESTED_SETS:
        return _of_contrast(contents[0], contents[-1], at)
    return _number(_at(contents[0], at), interval=_at(contents[0], column.get("interval", ["-"])))


def _at(content: Any, keys: Iterable[str]) -> Any:
    """The value behind some keys in nested objects and lists; None: there is none."""
    for key in keys:
        if not isinstance(content, dict):
            content = {str(number): entry for number, entry in enumerate(content or ())}
        content = content.get(key)
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
    """A number with its details, as far as they exist; ``times`` scales it and its intervals."""
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


def _of_score(entry: Any, rest: Sequence[str]) -> dict[str, Any] | None:
    """A number of ``gtrans score --json``; ``rest``: ``non_inferiority`` for the p of that test."""
    if rest:
        return _number(_at(entry, ["comparison", *rest, "p"]))
    return _number(
        _at(entry, ["score"]),
        interval=_at(entry, ["confidence", "interval"]),
        change=_at(entry, ["comparison", "interval"]),
        p=_at(entry, ["comparison", "paired_randomisation", "p"]),
        test="paired approximate randomisation",
        signature=_at(entry, ["signature"]),
    )


def _of_contrast(alone: Any, both: Any, at: Sequence[str]) -> dict[str, Any] | None:
    """An accuracy of ``gtrans contrast --json``; ``at``: empty, or phenomenon and distance."""
    phenomenon = at[0] if at else ""
    distance = at[1] if len(at) > 1 else ""
    if phenomenon and distance:
        share = _at(alone, ["contrastive", *at])
        return _number(share, _at(alone, ["intervals", *at]), times=100)
    kind = "_by_distance" if distance else ""
    key = distance or phenomenon or "all"
    if key == "all":
        place = ["all"]
    else:
        place = ["by_distance" if distance else "by_phenomenon", key]
    return _number(
        _at(alone, [*place, "accuracy"]),
        interval=_at(alone, [*place, "interval"]),
        change=_at(both, ["others", "row", f"difference{kind}", key, "interval"]),
        p=_at(both, ["others", "row", f"mcnemar{kind}", key, "p"]),
        test="exact McNemar",
        times=100,
    )


def _of_training(files: Sequence[Path], column: Mapping[str, Any]) -> dict[str, Any] | None:
    """The best value of a run's log, or the mean of all; of several models there is none.

    Models with layer fusion have no loss: their training loss covers all groups, so it cannot be
    compared with others.
    """
    history = read_history(files[0].parent)
    split, name = column["at"]
    values = [value for _, value in history.series(split, name)]
    grouped = name == "loss" and "loss_group_1" in history.names(split)
    if len(files) > 1 or grouped or not values:
        return None
    best = min if column.get("better") == "lower" else max
    return {"value": mean(values) if column.get("of_run") == "mean" else best(values)}


def _of_directions(
    plan: ExperimentPlan, run: PlannedRun, at: Sequence[str], scores: Sequence[float]
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
        return _number(own.get(at[0], mean(own.values()) if at == ["mean"] else None))
    counts = read_object(Path(f"data/{run.corpus}/{plan.preparation(run.model)}/pairs.json"))
    high, medium = (int(plan.settings[f"{size}-pairs"]) for size in ("high", "medium"))
    classes = {"high": (high, math.inf), "medium": (medium, high), "low": (0, medium)}
    least, most = classes.get(at[1], (0, math.inf))
    pairs = [pair for pair, count in counts.items() if least <= count < most]
    chosen = pairs if at[0] == "into" else ["-".join(pair.split("-")[::-1]) for pair in pairs]
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
        curves = _curves(table, data, axis, title)
        series = tuple(
            Series(name, mean_of_runs([points]), number)
            for number, (name, points) in enumerate(curves.items())
        )
        if series:
            panels.append(Panel(title, axis, title, series))
    title = f"{table.name}: {table.title} (scale {data['scale']})"
    facts = {"scale": data["scale"], "corpora": data["corpora"]}
    files = [f"{table.name}.figure{ending}" for ending in (".png", ".svg")]
    write_figure(Figure(title, tuple(panels), facts), files)
    return files


def _curves(
    table: Table, data: Mapping[str, Any], axis: str, title: str
) -> dict[str, list[tuple[float, float]]]:
    """The points of each curve of a panel, by its name: a point for each seed."""
    curves: dict[str, list[tuple[float, float]]] = defaultdict(list)
    for row in data["rows"]:
        point = table.rows[row["label"]]
        if axis not in point.x or title not in row["cells"]:
            continue
        names = [point.series] if point.series else []
        if len(data["corpora"]) > 1:
            names.append(row["corpus"])
        for seed in row["cells"][title]["seeds"]:
            curves[", ".join(names) or title].append((point.x[axis], seed["value"]))
    return curves


_HOW_TO_READ = (
    "Seeds {}: a cell is their mean ± standard deviation, of a single one the score and its 95% "
    "interval. A change is the difference from the baseline's row of the same seed; p over seeds "
    "comes from a t-test."
)


def to_markdown(table: Mapping[str, Any]) -> str:
    """Write the table for people, with the paper's numbers below it."""
    seeds = set()
    for row in table["rows"]:
        seeds |= {run["seed"] for run in row["runs"] if run["seed"]}  # a corpus has the seed 0
    numbers = ", ".join(str(seed) for seed in sorted(seeds))
    pictures = [name for name in table["made"] if name.endswith(".png")]
    others = [name for name in table["made"] if name not in pictures]
    parts = [
        f"# {table['experiment']}: {table['title']}",
        f"{table['paper']}. Scale {table['scale']}; corpus {', '.join(table['corpora'])}."
        f" Made by `{join(table['command'])}`, gtrans {table['version']}.",
        _markdown(_scores(table), "---:"),
        _markdown(_printed(table["printed"]), "---:"),
        _markdown(_changes(table), "---"),
        _HOW_TO_READ.format(numbers) if numbers else "",
        "\n".join(_notes(table)),
    ]
    parts += [f"![{name}]({name})" for name in pictures]
    parts.append(", ".join(f"[{name}]({name})" for name in others))
    return "\n\n".join(part for part in parts if part) + "\n"


def _printed(printed: Mapping[str, Any]) -> list[dict[str, str]]:
    """The rows that the paper prints."""
    rows = []
    for label, values in printed["rows"].items():
        row = {"printed in the paper": label}
        for title, value in zip(printed["columns"], values, strict=True):
            if value is not None:
                row[title] = value
        rows.append(row)
    return rows


def _notes(table: Mapping[str, Any]) -> list[str]:
    """The notes on rows, then the signatures of scores, each once."""
    notes, signatures = [], []
    for row in table["rows"]:
        note = row["why_not"] or row["note"]
        if note:
            notes.append(f"- {row['label']}: {note}")
        for title, cell in row["cells"].items():
            for seed in cell["seeds"]:
                if "signature" in seed:
                    signatures.append(f"- {title}: `{seed['signature']}`")
    return list(dict.fromkeys(notes + signatures))


def _scores(table: Mapping[str, Any]) -> list[dict[str, str]]:
    """The rows; of several seeds the mean, or each of them where a mean says nothing."""
    rows = []
    for row in table["rows"]:
        corpus = row["corpus"] if len(table["corpora"]) > 1 else ""
        cells = {"": row["label"], "corpus": corpus}
        for title, cell in row["cells"].items():
            digits = table["columns"][title]
            seeds = cell["seeds"]
            cells[title] = ", ".join(_with_interval(seed, digits) for seed in seeds)
            if len(seeds) > 1 and title not in table.get("each_seed", ()):
                cells[title] = f"{cell['mean']:.{digits}f} ± {cell['spread']:.{digits}f}"
            if len(seeds) < len(row["runs"]):
                cells[title] += f" ({len(seeds)} of {len(row['runs'])} seeds)"
        times = [run["seconds"] for run in row["runs"] if run["seed"]]
        rows.append({**cells, "training, s": f"{mean(times):.0f}" if times else ""})
    return rows


def _with_interval(seed: Mapping[str, Any], digits: int) -> str:
    ends = " to ".join(in_digits(end, digits) for end in seed.get("interval", ()))
    return in_digits(seed["value"], digits) + (f" ({ends})" if ends else "")


def _changes(table: Mapping[str, Any]) -> list[dict[str, str]]:
    """Changes from the baseline of the same seed."""
    changes = []
    for row in table["rows"]:
        for title, cell in row["cells"].items():
            change = cell.get("difference")
            if not change:
                continue
            digits = table["columns"][title]
            spread = "" if change["spread"] is None else f" ± {change['spread']:.{digits}f}"
            entry = {
                "": row["label"],
                "corpus": row["corpus"] if len(table["corpora"]) > 1 else "",
                "against": row["baseline"],
                "score": title,
                "change": in_digits(change["mean"], digits, "+") + spread,
                "p over seeds": "" if change["p"] is None else f"{change['p']:.3g}",
            }
            changes.append(entry | _tests(cell["seeds"], digits))
    return changes


def _tests(seeds: Sequence[Mapping[str, Any]], digits: int) -> dict[str, str]:
    """The interval and the p of each seed's change; empty texts where no seed was tested."""
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


def _markdown(rows: Sequence[Mapping[str, Any]], align: str) -> str:
    """Rows as a table; a column that is empty in all of them is left out."""
    keys: dict[str, None] = {}
    for row in rows:
        keys |= dict.fromkeys(row)
    titles = [title for title in keys if any(row.get(title) for row in rows)]
    lines = [titles, ["---", *[align] * (len(titles) - 1)]]
    lines += [[str(row.get(title, "")).replace("|", "\\|") for title in titles] for row in rows]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines) if titles[1:] else ""
