"""Run the jobs of a plan by Snakemake, and write the results."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import tempfile
from collections.abc import Iterable, Sequence
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from types import FrameType
from typing import Any

from gtrans.errors import GtransError
from gtrans.experiments.catalogue import FOLDER
from gtrans.experiments.figures import ENDINGS, draw
from gtrans.experiments.jobs import Plan, finished
from gtrans.experiments.planned import Planned, Row
from gtrans.experiments.tables import table_of, to_csv, to_markdown
from gtrans.identity.files import atomic_writer, check_output_folder, locked
from gtrans.libraries import require
from gtrans.messages import print_lines, say
from gtrans.shipped import shipped

_PLAN = "plan.json"


def reproduce(
    plan: Plan,
    planned: Sequence[Planned],
    cores: int,
    dry_run: bool,
    extra: Sequence[str],
    so_far: tuple[Plan, Sequence[Planned]] | None = None,
) -> None:
    """Run what is missing of the plan, and write the results of all experiments that are complete.

    Args:
        plan: the jobs.
        planned: the experiments that they are for.
        cores: CPU cores to use at once.
        dry_run: print the commands only.
        extra: options of Snakemake.
        so_far: the whole experiments, if the plan has some of their rows only: what is finished of
            them is written as NAME.so-far.

    Raises:
        GtransError: Snakemake is not installed or refuses, another process works in the folder, the
            folder has results of another corpus, or of seeds that would be lost, or SIGTERM has
            ended it; or a job has failed: then the results of the other experiments are written.
        KeyboardInterrupt: it was interrupted.
    """
    require(["snakemake"], "`gtrans reproduce`")
    if dry_run:
        with tempfile.TemporaryDirectory() as folder:
            where = plan.folder if plan.folder.is_dir() else Path(folder)
            if not _snakemake(plan, Path(folder), where, cores, ["--dry-run", "-p", *extra]):
                raise GtransError("nothing could be planned; what went wrong stands above.")
        return
    check_output_folder("--out", plan.folder)
    for it in planned:
        _check_corpora(it)
        if so_far is None:
            _check_seeds(it)
    plan.folder.mkdir(parents=True, exist_ok=True)
    with locked(plan.folder):
        # A record stands for files; one whose files are gone says nothing.
        for job in plan.jobs:
            if finished(plan, job) is None:
                plan.record(job.name).unlink(missing_ok=True)
        failed = not _snakemake(plan, plan.folder, plan.folder, cores, extra)
        if so_far is None:
            incomplete = [it.experiment.name for it in planned if not _write(it, plan)]
        else:
            whole, every = so_far
            made = {} if failed else {it.experiment.name: it.made for it in planned}
            incomplete = [
                it.experiment.name
                for it in every
                if not _write_rows(it, whole, made.get(it.experiment.name, ()))
            ]
    if failed or incomplete:
        names = ", ".join(incomplete)
        raise GtransError(
            f"{plan.folder}: some jobs have not ended well"
            + (f", so there is no result of {names}, or an earlier one" if names else "")
            + "; what went wrong stands above; the same command goes on."
        )


def write_finished(plan: Plan, planned: Sequence[Planned]) -> None:
    """Write what is finished of every experiment, as NAME.so-far.md, .json and .csv.

    A row has the seeds that are finished.

    Nothing is run; another process may be at work in the folder.

    Raises:
        GtransError: no row is finished, or the folder has results of another corpus.
    """
    for it in planned:
        _check_corpora(it)
    written = [it for it in planned if _write_rows(it, plan)]
    if not written:
        raise GtransError(f"{plan.folder}: no row of {planned[0].experiment.name} is finished.")


def earlier_seeds(folder: Path, names: Iterable[str]) -> set[int]:
    """The seeds of the results that stand in the folder of a scale, of these experiments."""
    paths = [folder / f"{name}{ending}" for name in names for ending in (".json", ".so-far.json")]
    return {seed for path in paths for seed in _seeds_in(path)}


def _seeds_in(path: Path) -> set[int]:
    found: set[int] = set()
    with suppress(KeyError, TypeError):
        # A corpus has the seed 0.
        found = {run["seed"] for row in _results(path)["rows"] for run in row["runs"]} - {0}
    return found


def _results(path: Path) -> dict[str, Any]:
    """What stands in a file of results; nothing if it is missing or damaged."""
    found: Any = None
    with suppress(OSError, ValueError):
        found = json.loads(path.read_text(encoding="utf-8"))
    return found if isinstance(found, dict) else {}


def _check_seeds(planned: Planned) -> None:
    """Results of seeds that are not asked for now would be written over."""
    path = planned.folder / f"{planned.experiment.name}.json"
    seeds = {run.seed for row in planned.rows for run in row.runs} - {0}
    others = _seeds_in(path)
    if others - seeds:
        known, asked = (", ".join(map(str, sorted(it))) for it in (others, seeds))
        raise GtransError(
            f"{path} has results of the seeds {known}, but this call is for {asked} alone; give "
            f"`--seeds {','.join(map(str, sorted(others | seeds)))}`, or another --out."
        )


def _check_corpora(planned: Planned) -> None:
    """Results of corpora that are not asked for now would be written over."""
    for ending in (".json", ".so-far.json"):
        path = planned.folder / f"{planned.experiment.name}{ending}"
        others: set[str] = set()
        with suppress(KeyError, TypeError):
            others = set(_results(path)["corpora"])
        if others - set(planned.corpora):
            raise GtransError(
                f"{path} has results of {', '.join(sorted(others))}, but this call is for "
                f"{', '.join(planned.corpora)} alone; give another --out, or name all of them "
                "after --corpus."
            )


def _write_rows(planned: Planned, plan: Plan, made: tuple[Path, ...] = ()) -> bool:
    rows = tuple(row if row.why_not else _of_finished(row, plan) for row in planned.rows)
    if not any(row.runs for row in rows):
        return False
    table = table_of(replace(planned, rows=rows, made=made), plan)
    _write_table(table, planned.folder / f"{planned.experiment.name}.so-far")
    return True


def _of_finished(row: Row, plan: Plan) -> Row:
    """The row with its finished runs."""
    kept = [number for number, names in enumerate(row.jobs) if _finished(plan, names)]
    if not kept:
        return replace(row, runs=(), cells=None, why_not="not finished")
    cells = {name: tuple(it[n] for n in kept) for name, it in (row.cells or {}).items()}
    return replace(row, runs=tuple(row.runs[n] for n in kept), cells=cells)


def _finished(plan: Plan, names: Iterable[str]) -> bool:
    """Whether these jobs have ended well, and those that they wait for."""
    # When one of those has failed, the files of the last ones are of an earlier run.
    return all(finished(plan, job) is not None for job in plan.before(names))


def _snakemake(plan: Plan, folder: Path, where: Path, cores: int, options: Sequence[str]) -> bool:
    """Run it in a folder; returns whether it has ended well. ``folder``: for the plan."""
    plan.write(folder / _PLAN)
    command = [sys.executable, "-m", "snakemake", "--snakefile", str(shipped(FOLDER) / "Snakefile")]
    command += ["--directory", str(where)]
    command += ["--cores", str(cores), "--nolock", "--rerun-incomplete", "--keep-going"]
    # A file with only a new date is the same file, however large it is.
    command += ["--max-checksum-file-size", "1TB"]
    command += [
        "--resources",
        "gpu=1",
        "--quiet",
        "host",
        "--config",
        f"plan={folder / _PLAN}",
        *options,
    ]
    return _run_to_its_end(command) == 0


def _run_to_its_end(command: Sequence[str]) -> int:
    """Run a command with all that it starts; a signal to this process is passed on to all of it.

    Trainings then end with a checkpoint. Returns the exit status, when nothing of it runs any more
    that could write.

    Raises:
        GtransError: SIGTERM has ended it.
        KeyboardInterrupt: it was interrupted.
    """
    process = subprocess.Popen(command, stdin=subprocess.DEVNULL, start_new_session=True)
    asked: list[int] = []

    def stop(signum: int, _frame: FrameType | None) -> None:
        asked.append(signum)
        with suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGTERM)

    before = {number: signal.signal(number, stop) for number in (signal.SIGTERM, signal.SIGINT)}
    try:
        status = process.wait()
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
    if signal.SIGINT in asked:
        raise KeyboardInterrupt
    if status and asked:
        raise GtransError("Ended by SIGTERM; the same command goes on where this one was.")
    return status


def _write(planned: Planned, plan: Plan) -> bool:
    """Write the results of an experiment if all its jobs have ended well."""
    experiment = planned.experiment
    if not _finished(plan, planned.jobs):
        return False
    table = table_of(planned, plan)
    stem = planned.folder / experiment.name
    figure = experiment.here.figure
    if figure is not None:
        drawn = stem.with_name(f"{stem.name}.figure")
        draw(figure, experiment.variants, table, drawn)
        table["made"] += [f"{drawn.name}{ending}" for ending in ENDINGS]
    _write_table(table, stem)
    return True


def _write_table(table: dict[str, Any], stem: Path) -> None:
    """Write STEM.json, .csv and .md, and print the last."""
    texts = {"json": json.dumps(table, indent=2, ensure_ascii=False) + "\n"}
    texts |= {"csv": to_csv(table), "md": to_markdown(table)}
    for ending, text in texts.items():
        with atomic_writer(stem.with_name(f"{stem.name}.{ending}")) as file:
            file.write(text)
    say(f"gtrans: {table['experiment']}: {stem}.md")
    print_lines(*texts["md"].splitlines())
