"""Write docs/results.md from the project's own experiments.

    gtrans reproduce results-debian --scale small --data DATA --out OUT
    python scripts/results.py OUT/small

What stands above the line `<!-- written by scripts/results.py -->` of the page is kept; everything
below it is written anew from NAME.json of every `results-*` in the folders, or, where there is none
yet, from NAME.so-far.json, which has what is finished (`gtrans reproduce NAME ... --finished`). All
numbers of every seed go to docs/results/NAME.SCALE.json, where the folder of the scale is
OUT/SCALE.

Those files are read first. A table or a row that the folders do not have, or have with fewer seeds
or scores, stays as it was published, so that rows may be added by a later run, or by one on another
machine; scores that only a run with fewer seeds has are added to it. Where a row was tested against
other numbers than the page would show, nothing is written. An interval or a test that only one
table of a scale has, or a run with fewer seeds, is written in all of them where the scores of the
row and of its baseline are the same. A row may have a `remark`, written into its JSON by hand; the
page prints it until the row is made again with other scores.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from shlex import join
from shutil import copyfile
from typing import Any

from results_glance import at_a_glance, remarks, where  # of this folder

from gtrans.errors import GtransError
from gtrans.experiments.catalogue import OWN, read_catalogue
from gtrans.experiments.tables import to_markdown
from gtrans.identity.files import atomic_writer, check_output, replacing
from gtrans.messages import say

HERE = Path(__file__).resolve().parent.parent
MARK = "<!-- written by scripts/results.py -->"
_FOLDER = "results"
_OF_FIGURES = (".svg", ".png", ".csv")
_KEYS = {
    *("experiment", "scale", "settings", "version", "corpora", "command", "columns", "rows"),
}
# What differs when the same model is made again.
_OF_MACHINES = {"tokens a second in training", "words a second"}
_LENT = ("interval", "signature")
_LENT_OF_CHANGES = (*_LENT, "p", "test", "change")
TITLE = "# What the systems do on real text"
HEAD = """## The tables

Most models start from the row *sentence* and are tested against *sentence, trained on*: the same
model, trained on for the same number of updates of as many sentences; the note of a row says where
it is otherwise, and every difference names what it is from. Validation text decides which
checkpoint is the best; a row reads its test text once. Intervals are of 95%, by a bootstrap over
documents (contrastive sets: Wilson; margins: Student's t). *Validation loss* has label smoothing
and is in bits; a perplexity has none, and is the lowest of the training. Rows of several runs stand
together where the models that they are tested against have the same scores in each. Tokens a second
and times are of machines that did other work as well: they are not to be compared closely.

The command of a row makes it and what it is tested against; `--data` is the folder of the corpora,
in the form of [Corpora](corpora.md). The row *sentence* is the one to try first.
`scripts/results.py` has written these tables from finished runs of `gtrans reproduce`."""


def tables(folders: Sequence[Path]) -> list[tuple[Path, dict[str, Any]]]:
    """The finished experiments, or their finished rows, as `gtrans reproduce` writes, with folders.

    Raises:
        GtransError: a folder has none, two have the same at the same scale, or a file is not what
            `gtrans reproduce` writes.
    """
    found: dict[str, dict[str, tuple[Path, dict[str, Any]]]] = {}
    own = [it.name for it in read_catalogue() if it.paper.id == OWN]
    for folder in folders:
        empty = True
        for name in own:
            files = [folder / f"{name}{end}" for end in (".json", ".so-far.json")]
            if not (there := [path for path in files if path.is_file()]):
                continue
            empty, table = False, _read(there[0])
            scales = found.setdefault(name, {})
            if table["scale"] in scales:
                other, _ = scales[table["scale"]]
                raise GtransError(
                    f"{folder}: {name} at scale {table['scale']} is in {other}, too; give one."
                )
            scales[table["scale"]] = folder, table
        if empty:
            raise GtransError(f"{folder}: there is no result, such as {OWN}-debian.json, in it.")
    return [of_scale for name in own for of_scale in found.get(name, {}).values()]


def with_published(
    found: list[tuple[Path, dict[str, Any]]], folder: Path
) -> list[tuple[Path | None, dict[str, Any]]]:
    """The tables of :func:`tables` and what else has been published: by experiment, then file name.

    A table that is published only has None in place of its folder.

    Raises:
        GtransError: a published table does not go together with a new one.
    """
    merged: dict[str, tuple[Path | None, dict[str, Any]]] = {}
    names = [it.name for it in read_catalogue() if it.paper.id == OWN]
    for path in (it for name in names for it in folder.glob(f"{name}.*.json")):
        merged[path.name] = None, _read(path)
    for at, table in found:
        name = _file_name(table)
        before = merged.get(name)
        merged[name] = at, _merged(table, at, folder / name, before[1]) if before else table
    # A scale comes before those of its other settings, such as small.amp before small.amp.x-1.
    files = sorted(merged, key=lambda it: it.removesuffix(".json"))
    shown = [merged[it] for name in names for it in files if it.startswith(f"{name}.")]
    # Also those of rows that stay as published, because they were made with fewer seeds.
    _lend_intervals([*(table for _, table in shown), *(table for _, table in found)])
    for _, table in shown:
        for row in table["rows"]:
            # Rows are made on several days and machines, whose speeds are not to be subtracted.
            for title in _OF_MACHINES & row["cells"].keys():
                row["cells"][title].pop("difference", None)
    return shown


def _merged(
    table: dict[str, Any], folder: Path, published: Path, before: dict[str, Any]
) -> dict[str, Any]:
    """A table, with the rows of another one that it lacks or has with fewer seeds or scores."""
    for key in ("settings", "corpora"):
        if table[key] != before[key]:
            raise GtransError(
                f"{folder}: {table['experiment']} has other {key} than {published}; "
                "give another --page, or remove that file."
            )
    now, earlier = _by_name(table["rows"]), _by_name(before["rows"])
    rows, sources = {}, {}
    for name in {**now, **earlier}:
        new, old = now.get(name), earlier.get(name)
        if old is None or (new is not None and _has_all_of(new, old)):
            rows[name], sources[name] = now[name], now
            if old is not None and "remark" in old and _has_same(now[name], old):
                rows[name] = {"remark": old["remark"], **now[name]}
            continue
        rows[name], sources[name] = old, earlier
        if new is not None:
            rows[name] = {**old, "note": new.get("note"), "paper": new["paper"]}
            base = old["baseline"], old["corpus"]
            if _has_same(old, new) and _has_same(earlier.get(base, old), now.get(base, new)):
                rows[name]["cells"] = {**new["cells"], **old["cells"]}
            if new["runs"]:
                say(f"results: {name[0]!r} stays as published, which has more seeds or scores")
    for name, row in rows.items():
        baseline = row["baseline"], row["corpus"]
        if baseline in rows and row["cells"] and sources[name] is not sources[baseline]:
            tested = sources[name].get(baseline)
            if tested is not None:
                _check_same(tested, rows[baseline], row["label"], folder, published)
    # A figure is of all its rows: one of fewer does not take the place of one that is published,
    # nor does none, as where `--finished` has written the table.
    fewer = any(row["runs"] and sources[name] is earlier for name, row in rows.items())
    drawn = before if fewer or not table.get("made") else table
    versions = {it for of in (table, before) for it in of["version"].split(", ") if it}
    return {
        **table,
        "columns": {**table["columns"], **before["columns"]},
        "each_seed": sorted({*table.get("each_seed", []), *before.get("each_seed", [])}),
        "version": ", ".join(sorted(versions)),
        "rows": list(rows.values()),
        "made": drawn.get("made", []),
    }


def _by_name(rows: Sequence[dict[str, Any]]) -> dict[tuple[str, str], dict[str, Any]]:
    return {(row["label"], row["corpus"]): row for row in rows}


def _has_all_of(new: dict[str, Any], old: dict[str, Any]) -> bool:
    """Whether a row has every score of every seed that another has."""
    return all(
        {it["seed"] for it in cell["seeds"]}
        <= {it["seed"] for it in new["cells"].get(title, {"seeds": []})["seeds"]}
        for title, cell in old["cells"].items()
    )


def _has_same(row: dict[str, Any], other: dict[str, Any]) -> bool:
    """Whether a row has the scores of another, where it has them: they are of the same models."""
    return all(
        {(it["seed"], it["value"]) for it in cell["seeds"]}
        <= {(it["seed"], it["value"]) for it in row["cells"][title]["seeds"]}
        for title, cell in other["cells"].items()
        if title in row["cells"] and title not in _OF_MACHINES
    )


def _check_same(
    tested: dict[str, Any], shown: dict[str, Any], label: str, folder: Path, published: Path
) -> None:
    """Whether the baseline of the page has the scores of the one that a row was tested against."""
    for title in tested["cells"].keys() & shown["cells"].keys() - _OF_MACHINES:
        values = [
            {it["seed"]: it["value"] for it in row["cells"][title]["seeds"]}
            for row in (tested, shown)
        ]
        for seed in values[0].keys() & values[1].keys():
            if values[0][seed] != values[1][seed]:
                raise GtransError(
                    f"{folder} and {published} do not go together: {label!r} was tested against "
                    f"{shown['label']!r} of {values[0][seed]:.4f}, and the page would have "
                    f"{values[1][seed]:.4f} ({title}, seed {seed}); give another --page, or make "
                    "both rows in one folder."
                )


def _lend_intervals(tables: Sequence[dict[str, Any]]) -> None:
    """Complete what a seed of a row has by what another table of the scale has of the same numbers.

    The same numbers: those of the row, and of the row that it is tested against. What a seed has
    itself stays; without a number of the baseline it gets no test.
    """
    known: dict[tuple[Any, ...], dict[str, Any]] = {}
    for of, it in _numbers(tables):
        known[of] = {**it, **known.get(of, {})}
    for of, it in _numbers(tables):
        for key in _LENT if of[-1] is None else _LENT_OF_CHANGES:
            if key in known[of]:
                it.setdefault(key, known[of][key])


def _numbers(
    tables: Sequence[dict[str, Any]],
) -> Iterator[tuple[tuple[Any, ...], dict[str, Any]]]:
    """Every number of a seed, after all that tells it from others."""
    for table in tables:
        rows = _by_name(table["rows"])
        for row in table["rows"]:
            baseline = rows.get((row["baseline"], row["corpus"]), {"cells": {}})
            for title, cell in row["cells"].items():
                against = baseline["cells"].get(title, {"seeds": []})["seeds"]
                values = {it["seed"]: it["value"] for it in against}
                for it in cell["seeds"]:
                    of = table["scale"], row["corpus"], row["label"], row["baseline"], title
                    yield (*of, it["seed"], it["value"], values.get(it["seed"])), it


def _read(path: Path) -> dict[str, Any]:
    try:
        table: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
        missing = _KEYS - table.keys()
    except (OSError, ValueError, AttributeError) as error:
        raise GtransError(
            f"{path}: not readable ({error}); `gtrans reproduce` writes it."
        ) from None
    if missing:
        raise GtransError(
            f"{path}: it has no {min(missing)}; let `gtrans reproduce` write it again."
        )
    return table


def page(found: list[dict[str, Any]]) -> str:
    """All of the page below its mark."""
    lines = [HEAD, *at_a_glance(found)]
    names = [table["experiment"] for table in found]
    for table in found:
        beside = {**_with_papers_beside(table), "made": [*_figures(table)]}
        text = "#" + to_markdown(beside).rstrip()
        if names.count(table["experiment"]) > 1:
            title, _, rest = text.partition("\n")
            text = f"{title} ({where(table)})\n{rest}"
        name = _file_name(table)
        said = remarks(table)
        lines += ["", text, "", *said, *([""] if said else []), *_runs(table), ""]
        lines += [f"All numbers of every seed: [{name}](results/{name})."]
    return "\n".join(lines) + "\n"


def _with_papers_beside(table: dict[str, Any]) -> dict[str, Any]:
    """The table with the papers' numbers of the rows that are finished; others are in theirs."""
    rows = [{**row, "paper": row["paper"] if row["cells"] else []} for row in table["rows"]]
    here = {row["label"] for row in rows if row["cells"]}
    printed = {name: it for name, it in table["printed"]["rows"].items() if name in here}
    return {**table, "rows": rows, "printed": {**table["printed"], "rows": printed}}


def _file_name(table: dict[str, Any]) -> str:
    return f"{table['experiment']}.{table['scale']}.json"


def _figures(table: dict[str, Any]) -> dict[str, str]:
    """The figures of an experiment and their numbers: where they are published, and were made.

    Published is beside the page. One that has been published before is at the same place in both.
    """
    own = f"{table['experiment']}."
    return {
        name
        if name.startswith(f"{_FOLDER}/")
        else f"{_FOLDER}/{own}{table['scale']}.{name.removeprefix(own)}": name
        for name in table.get("made", [])
        if name.endswith(_OF_FIGURES)
    }


def check_figures(table: dict[str, Any], scale: Path | None) -> None:
    """Raises GtransError if the folder of a scale lacks a figure that is to be copied."""
    for published, made in _figures(table).items():
        if scale is not None and published != made and not (scale / made).is_file():
            raise GtransError(
                f"{scale / made}: this figure of {table['experiment']} is missing; "
                "let `gtrans reproduce` make it again."
            )


def keep(table: dict[str, Any], scale: Path | None, into: Path) -> None:
    """Write all numbers of a table and its figures, without saying where the scale's folder is.

    ``scale``: that folder; None: the table has been published without it before.
    """
    into.mkdir(parents=True, exist_ok=True)
    figures = _figures(table)
    for published, made in figures.items():
        if scale is not None and published != made:
            with replacing(into.parent / published) as (copy,):
                copyfile(scale / made, copy)
    text = json.dumps({**table, "made": [*figures]}, indent=1, ensure_ascii=False)
    if scale is not None:
        text = text.replace(str(scale.resolve()), f"OUT/{scale.resolve().name}")
    with atomic_writer(into / _file_name(table)) as file:
        file.write(text + "\n")


def _runs(table: dict[str, Any]) -> Iterator[str]:
    """A line for each model: where it is, what it has cost, and the command that makes it."""
    titles = {"tokens a second in training": "tokens/s", "parameters in millions": "parameters, M"}
    titles = {title: it for title, it in titles.items() if title in table["columns"]}
    head = ["row", "seed", "training, CPU s", *titles.values(), "machine", "command"]
    yield "| " + " | ".join(head) + " |"
    yield "| --- | ---: | ---: |" + " ---: |" * len(titles) + " --- | --- |"
    for row in table["rows"]:
        for run in row["runs"]:
            cells = [row["label"], str(run["seed"]), f"{run['cpu_seconds']:.0f}"]
            cells += [_of_seed(row, it, run["seed"], table["columns"][it]) for it in titles]
            cells += [run["hardware"], f"`{_command(table, row['label'], run['seed'])}`"]
            yield "| " + " | ".join(cells) + " |"


def _of_seed(row: dict[str, Any], title: str, seed: int, digits: int) -> str:
    of_seeds = row["cells"].get(title, {"seeds": []})["seeds"]
    return next((f"{it['value']:.{digits}f}" for it in of_seeds if it["seed"] == seed), "")


def _command(table: dict[str, Any], label: str, seed: int) -> str:
    folders = ["--data", "DATA", "--out", "OUT"]
    return join([*table["command"], *folders, "--seeds", str(seed), "--rows", label])


def main() -> int:
    """Write the page."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument(
        "results", type=Path, nargs="*", help="folders of a scale in --out, such as OUT/small.amp"
    )
    parser.add_argument(
        "--page",
        type=Path,
        default=HERE / "docs" / "results.md",
        help="page to write, with the numbers in results/ beside it (default: docs/results.md)",
    )
    args = parser.parse_args()
    try:
        found = with_published(tables(args.results), args.page.parent / _FOLDER)
        if not found:
            raise GtransError("nothing is published yet; give a folder of a scale in --out.")
        check_output("--page", args.page)
        text = page([table for _, table in found])
        new = f"{TITLE}\n\n{MARK}\n"
        before = args.page.read_text(encoding="utf-8") if args.page.is_file() else new
        by_hand, mark, _ = before.partition(f"\n{MARK}\n")
        if not mark:
            raise GtransError(f"{args.page}: it has no line {MARK}, above which text is kept.")
        for folder, table in found:
            check_figures(table, folder)
        for folder, table in found:
            keep(table, folder, args.page.parent / _FOLDER)
        with atomic_writer(args.page) as file:
            file.write(f"{by_hand}{mark}\n{text}")
    except GtransError as error:
        print(f"results: error: {error}", file=sys.stderr)
        return 1
    print(args.page)
    return 0


if __name__ == "__main__":
    sys.exit(main())
