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
from gtrans.lab.experiments import TESTED_SETS, Plan, PlannedRow, Run, Table, read
from gtrans.lab.logs import logged, read_history
from gtrans.lab.provenance import provenance
from gtrans.messages import change_interval, in_digits, of_form


def write(plan: Plan, name: str) -> None:
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
    if texts := texts_of(plan, data):
        data["made"].append(archive := f"{name}.translations.tar.xz")
        pack(texts, archive)
    text = json.dumps(data, indent=2, ensure_ascii=False) + "\n"
    for file, content in ((f"{name}.json", text), (f"{name}.md", to_markdown(data))):
        with atomic_writer(file) as written:
            written.write(content)


def table_of(plan: Plan, table: Table) -> dict[str, Any]:
    """The results of a table, as JSON.

    In a cell, ``spread`` is the standard deviation over seeds (divided by n - 1); ``difference``
    has the difference from the baseline of the same seed, and ``p`` of a paired t-test over the
    seeds; a seed's ``change`` is the 95% interval of its difference.
    """
    columns = {title: read("columns")["columns"][title] for title in table.columns}
    corpora = plan.corpora(table)
    rows = [_row(plan, table, row, columns) for row in plan.rows(table)]
    refuse_copies(rows)
    by_label = {(row["label"], row["corpus"]): row["cells"] for row in rows}
    for row in rows:
        baseline = by_label.get((row["baseline"], row["corpus"]), {})
        for title, cell in row["cells"].items():
            if title in baseline and columns[title].get("compared", True):
                cell["difference"] = _difference(cell["seeds"], baseline[title]["seeds"])
    made = [path for name in plan.analyses(table) for path in sorted(Path().glob(f"{name}*"))]
    words = ["--scale", plan.scale, *["--amp"] * plan.amp, *(["--corpus"] if plan.named else [])]
    words += [*plan.named, *(word for change in plan.changes for word in ("--set", change))]
    data = {name: [Path(file) for file in plan.corpus(name).files] for name in corpora}
    return of_form("reproduced", {
        "experiment": table.name,
        "title": table.title,
        "paper": table.paper["title"],
        "scale": plan.label,
        "command": ["gtrans", "reproduce", table.name, *words],
        "settings": plan.settings,
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
    runs = [run for run in row.runs
            if not run.seed or Path(run.folder, run.model, "trained").is_file()]  # fmt: skip
    cells = {}
    for title, column in columns.items():
        seeds = []
        for run in runs:
            files = list(map(Path, plan.files(column["measure"], run)))
            if files and all(file.is_file() for file in files):
                number = read_number(plan, run, column, files)
                seeds += [{"seed": run.seed, **number}] if number else []
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


def _spread(values: Sequence[float]) -> dict[str, Any]:
    return {"mean": mean(values), "spread": stdev(values) if len(values) > 1 else None}


def _run(plan: Plan, run: Run) -> dict[str, Any]:
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
    pairs = [(row, run) for row in rows for run in row["runs"] if "sha256" in run]
    for row, run in pairs:
        own = row["label"], run["translation"]
        label, file = seen.setdefault((row["corpus"], run["seed"], run["sha256"]), own)
        lines = Path(file).read_text(encoding="utf-8").splitlines()
        if file != run["translation"] and 10 * len({*lines}) > len(lines):
            raise GtransError(
                f"{run['translation']} ({row['label']}) is the same as {file} ({label}), so one of "
                "them was not run, or its model sees no context; remove it and run it again."
            )


def texts_of(plan: Plan, data: Mapping[str, Any]) -> list[Path]:
    """The translations of a table, and the test text behind them if it was made here."""
    runs = [run for row in data["rows"] for run in row["runs"] if "translation" in run]
    made = {*data["corpora"]} & {*plan.sizes.get("synthetic", ())} if runs else ()
    texts = [run["translation"] for run in runs]
    texts += [f"corpora/{name}/test.{lang}" for name in made for lang in plan.sizes["pair"]]
    return sorted({*map(Path, texts)})


def pack(files: Iterable[Path], archive: str) -> None:
    """Write files into an archive; the same files give the same archive."""
    with binary_writer(archive) as written, tarfile.open(fileobj=written, mode="w:xz") as packed:
        for file in files:
            member = tarfile.TarInfo(file.as_posix())
            member.size = file.stat().st_size
            packed.addfile(member, io.BytesIO(file.read_bytes()))


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
    value: Any, interval: Any = None, change: Any = None, p: Any = None, test: str = "",
    signature: Any = None, times: int = 1,
) -> dict[str, Any] | None:  # fmt: skip
    """A number with those of its details that exist; ``times`` scales it and its intervals."""
    if value is None:
        return None
    details = {
        "interval": interval and [times * end for end in interval],
        "change": change and [times * end for end in change],
        "p": p,
        "test": None if p is None else test,
        "signature": signature,
    }
    found = {key: detail for key, detail in details.items() if detail is not None}
    return {"value": times * value, **found}


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
    phenomenon, distance = (*at, "", "")[:2]
    if phenomenon and distance:
        share, interval = (_at(alone, [key, *at]) for key in ("contrastive", "intervals"))
        return _number(share, interval, times=100)
    key, kind = (distance, "_by_distance") if distance else (phenomenon or "all", "")
    place = ["all"] if key == "all" else [kind.lstrip("_") or "by_phenomenon", key]
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
        curves: dict[str, list[tuple[float, float]]] = defaultdict(list)
        for row in data["rows"]:
            point, seeds = table.rows[row["label"]], row["cells"].get(title, {}).get("seeds", ())
            names = point.series, row["corpus"] if len(data["corpora"]) > 1 else ""
            if axis in point.x and seeds:
                points = [(point.x[axis], seed["value"]) for seed in seeds]
                curves[", ".join(filter(None, names)) or title] += points
        series = tuple(
            Series(name, mean_of_runs([points]), number)
            for number, (name, points) in enumerate(curves.items())
        )
        panels += [Panel(title, axis, title, series)] if series else []
    title = f"{table.name}: {table.title} (scale {data['scale']})"
    facts = {"scale": data["scale"], "corpora": data["corpora"]}
    files = [f"{table.name}.figure{ending}" for ending in (".png", ".svg")]
    write_figure(Figure(title, tuple(panels), facts), files)
    return files


def to_markdown(table: Mapping[str, Any]) -> str:
    """The table for people, with the paper's numbers below it."""
    rows, printed = table["rows"], table["printed"]
    # A corpus has the seed 0.
    seeds = sorted({run["seed"] for row in rows for run in row["runs"]} - {0})
    paper = [{"printed in the paper": label,
              **{title: value for title, value in zip(printed["columns"], values, strict=True)
                 if value is not None}}
             for label, values in printed["rows"].items()]  # fmt: skip
    notes = [(row["label"], row["why_not"] or row["note"]) for row in rows]
    notes += [(title, f"`{seed['signature']}`") for row in rows
              for title, cell in row["cells"].items() for seed in cell["seeds"]
              if "signature" in seed]  # fmt: skip
    pictures = [name for name in table["made"] if name.endswith(".png")]
    lines = [
        f"# {table['experiment']}: {table['title']}",
        f"{table['paper']}. Scale {table['scale']}; corpus {', '.join(table['corpora'])}."
        f" Made by `{join(table['command'])}`, gtrans {table['version']}.",
        _markdown(_scores(table), "---:"),
        _markdown(paper, "---:"),
        _markdown(_changes(table), "---"),
        f"Seeds {', '.join(map(str, seeds))}: a cell is their mean ± standard deviation, of a "
        "single one the score and its 95% interval. A change is that from the row of the same seed "
        "that a row is tested against; p over seeds is that of a t-test." if seeds else "",
        "\n".join(dict.fromkeys(f"- {name}: {text}" for name, text in notes if text)),
        *(f"![{name}]({name})" for name in pictures),
        ", ".join(f"[{name}]({name})" for name in table["made"] if name not in pictures),
    ]  # fmt: skip
    return "\n\n".join(filter(None, lines)) + "\n"


def _scores(table: Mapping[str, Any]) -> list[dict[str, str]]:
    """The rows; of several seeds the mean, or each of them where a mean says nothing."""
    rows = []
    for row in table["rows"]:
        cells = {"": row["label"], "corpus": row["corpus"] * (len(table["corpora"]) > 1)}
        for title, cell in row["cells"].items():
            digits, seeds = table["columns"][title], cell["seeds"]
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
    cells = [(row, *item) for row in table["rows"] for item in row["cells"].items()]
    for row, title, cell in cells:
        change, digits = cell.get("difference"), table["columns"][title]
        if not change:
            continue
        spread = "" if change["spread"] is None else f" ± {change['spread']:.{digits}f}"
        tested = [seed for seed in cell["seeds"] if "change" in seed and "p" in seed]
        seeds = cell["seeds"] if tested else ()
        changes.append({
            "": row["label"],
            "corpus": row["corpus"] * (len(table["corpora"]) > 1),
            "against": row["baseline"],
            "score": title,
            "change": in_digits(change["mean"], digits, "+") + spread,
            "p over seeds": "" if change["p"] is None else f"{change['p']:.3g}",
            "each seed: 95% interval": ", ".join(
                change_interval(seed["change"], digits) if seed in tested else "-" for seed in seeds
            ),
            "p": ", ".join(f"{seed['p']:.3g}" if seed in tested else "-" for seed in seeds),
            "test": ", ".join(sorted({seed["test"] for seed in tested})),
        })  # fmt: skip
    return changes


def _markdown(rows: Sequence[Mapping[str, Any]], align: str) -> str:
    """Rows as a table; a column that is empty in all of them is left out."""
    keys = dict.fromkeys(title for row in rows for title in row)
    titles = [title for title in keys if any(row.get(title) for row in rows)]
    lines = [titles, ["---", *[align] * (len(titles) - 1)]]
    lines += [[str(row.get(title, "")).replace("|", "\\|") for title in titles] for row in rows]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines) if titles[1:] else ""
