"""Make the tables and figures of the five papers, or list what each needs.

NAME is a table or figure such as gtransformer-T2, a paper such as gtransformer, or an experiment of
this project such as results-debian. Finished parts are kept: run the same command again to
continue. Results are OUT/SCALE/NAME.md and .json, and for a figure .png and .svg: every number with
its run, seed, interval and tests, beside the paper's. The scale sets all sizes:

  tiny    the synthetic corpus, small models: minutes on a CPU
  small   a corpus of --data, named by --corpus, 3 + 3 layers: hours on a CPU
  paper   the papers' corpora in --data and their sizes, on GPUs

--set changes a setting of the scale: --set updates=20 tries a table out, in the folder
OUT/SCALE.updates-20; --amp has the folder OUT/SCALE.amp. With --rows, the results have all rows
that are finished.

Snakemake (pip install '.[experiments]') does the work, with the rules of
exp_gtransformer/Snakefile; what follows -- goes to it, such as an executor for a cluster. See
docs/reproducing.md.

--list prints a line for each. --list NAME prints, as YAML, the paper's numbers, its contradictions,
and how every row is made here.
"""

from __future__ import annotations

import argparse
import json
import os
import signal
import sys
from collections.abc import Sequence
from contextlib import ExitStack
from pathlib import Path
from subprocess import DEVNULL, Popen
from tempfile import TemporaryDirectory
from typing import Any

from gtrans.environment import project_file, require
from gtrans.errors import GtransError
from gtrans.files import atomic_writer, check_output_folder, locked
from gtrans.lab.corpora import yaml_lines
from gtrans.lab.experiments import (
    PAPERS,
    SCALES,
    ExperimentPlan,
    Table,
    find_tables,
    read_definitions,
)
from gtrans.messages import print_lines
from gtrans.option_types import whole

EXAMPLE = "gtrans reproduce gtransformer-T6 --scale tiny --out experiments --cores 2"
NEEDS = ()
PASSES_ON = "snakemake"

_SNAKEFILE = "exp_gtransformer/Snakefile"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the options."""
    add = parser.add_argument
    add("names", nargs="*", metavar="NAME", help="table, figure, paper or experiment to make")
    add(
        "--list",
        nargs="*",
        metavar="NAME",
        help="describe these tables and figures instead (default: a line for each one)",
    )
    add = parser.add_argument_group("making them").add_argument
    add("--out", type=Path, metavar="DIR", help="folder to write")
    add("--scale", choices=SCALES, default="tiny", help="sizes of everything")
    add("--data", type=Path, metavar="DIR", help="folder of the corpora, for small and paper")
    add("--corpus", nargs="+", default=[], metavar="NAME", help="other corpora of --data")
    add("--rows", nargs="+", default=[], metavar="LABEL", help="only these and their baselines")
    add("--seeds", nargs="+", type=whole(1), metavar="N", help="seeds instead of the scale's")
    add("--set", action="append", default=[], metavar="NAME=N", help="another setting of the scale")
    add("--amp", action="store_true", help="train in mixed precision, on a CPU in bf16")
    add("--cores", type=whole(1), default=1, metavar="N", help="jobs at once")
    add("--dry-run", action="store_true", help="count what would be run; with --verbose, print it")


def run(args: argparse.Namespace) -> None:
    """Make the tables and figures, or print the list."""
    if args.list is None:
        _make(args)
        return
    names = [*args.names, *args.list]
    tables = find_tables(names or PAPERS)
    if names:
        entries = {name: _entry(table) for name, table in tables.items()}
        print_lines(*yaml_lines(entries))
        return
    for name, table in tables.items():
        note = " (not free)" if table.not_free else ""
        print_lines(f"{name:<23}{table.title}{note}")


def _entry(table: Table) -> dict[str, Any]:
    paper = table.paper["name"]
    key = table.name.removeprefix(f"{paper}-")
    entry = read_definitions(paper)["tables"][key]
    models = {}
    for row in table.rows.values():
        if row.model:
            models[row.model] = read_definitions("models")[row.model]
    return {**entry, "models": models}


def _make(args: argparse.Namespace) -> None:
    if not args.names:
        raise GtransError(
            "give the name of a table or figure; `gtrans reproduce --list` names all of them."
        )
    if args.out is None:
        raise GtransError("`--out`, the folder to write, is missing.")
    request = {
        "tables": args.names,
        "rows": args.rows,
        "seeds": sorted({*(args.seeds or ())}),
        "corpora": list(dict.fromkeys(args.corpus)),
        "scale": args.scale,
        "set": args.set,
        "amp": args.amp,
        "data": args.data and str(args.data.resolve()),
    }
    plan = ExperimentPlan(request)
    print_lines(*(f"left out: {reason}" for reason in plan.left_out))
    require(["snakemake"], "`gtrans reproduce`")
    folder = args.out.resolve() / plan.label
    with ExitStack() as stack:
        if args.dry_run:
            files = Path(stack.enter_context(TemporaryDirectory()))
        else:
            check_output_folder("--out", folder)
            folder.mkdir(parents=True, exist_ok=True)
            stack.enter_context(locked(folder))
            files = folder
        there = folder if folder.is_dir() else files
        status = _snakemake(request, files, there, _options(args))
    if status:
        raise GtransError(
            f"{folder}: commands have failed or were stopped, see above; the same call goes on."
        )
    if args.dry_run:
        return
    for name in plan.tables:
        file = folder / f"{name}.md"
        text = file.read_text(encoding="utf-8")
        print_lines(str(file), *text.splitlines())


def _options(args: argparse.Namespace) -> list[str]:
    options = ["--cores", str(args.cores)]
    options.append("--dry-run" if args.dry_run else "--keep-going")
    if args.verbose:
        options.append("--printshellcmds")
    else:
        options += ["--quiet", "host", "reason"]
        if args.dry_run:
            options.append("rules")
    return [*options, *args.passed_on]


def _snakemake(request: Any, files: Path, folder: Path, options: Sequence[str]) -> int:
    """Run the Snakefile in ``folder`` with a request in ``files``; return its exit status.

    A signal to this process goes on to Snakemake's, so that trainings end with a checkpoint.
    """
    with atomic_writer(files / "request.json") as file:
        file.write(json.dumps(request))
    command = [sys.executable, "-m", "snakemake"]
    command += ["--snakefile", str(project_file(_SNAKEFILE))]
    command += ["--directory", str(folder)]
    command += ["--configfile", str(files / "request.json"), "--nolock"]
    # A new version of this program does not repeat finished trainings. A file of any size that has
    # only a new date counts as unchanged.
    command += ["--rerun-incomplete", "--rerun-triggers", "mtime", "input", "params"]
    command += ["--max-checksum-file-size", "1TB", "--resources", "gpu=1", *options]
    programs = Path(sys.executable).parent
    path = os.pathsep.join([str(programs), os.environ["PATH"]])
    environment = {**os.environ, "PATH": path}
    process = Popen(command, stdin=DEVNULL, start_new_session=True, env=environment)
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda *_: os.killpg(process.pid, signal.SIGTERM))
    return process.wait()
