"""Make the tables and figures of the five papers, or list what each needs.

NAME is a table or figure such as gtransformer-T2, a paper such as gtransformer, or an experiment of
this project such as results-debian. Finished parts are kept, so run the same command again to
continue. Results are OUT/SCALE/NAME.md, .json and .csv, and for a figure .png and .svg: every
number with its run, seed, interval and tests, beside those of the paper. The scale sets all sizes:

  tiny    the synthetic corpus, small models: minutes on a CPU
  small   a corpus of --data, named by --corpus, 3 + 3 layers: hours on a CPU
  paper   the papers' corpora in --data and their sizes, on GPUs

The work is done by Snakemake (pip install '.[experiments]') with the rules of
exp_gtransformer/Snakefile; what follows -- goes to it, such as an executor for a cluster. See
docs/reproducing.md.

--list prints a line for each. --list NAME prints the paper's numbers, contradictions in the paper,
and how every row is made here.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import signal
import sys
from collections.abc import Iterator, Sequence
from dataclasses import asdict
from pathlib import Path
from subprocess import DEVNULL, PIPE, STDOUT, Popen
from tempfile import TemporaryDirectory
from textwrap import wrap
from typing import Any

from gtrans.errors import GtransError
from gtrans.files import atomic_writer, check_output_folder, locked
from gtrans.lab.experiments import PAPERS, SCALES, Plan, Row, Table, find, read
from gtrans.libraries import require
from gtrans.messages import json_text, print_lines
from gtrans.shipped import shipped

EXAMPLE = "gtrans reproduce gtransformer-T6 --scale tiny --out experiments --cores 2"
NEEDS = ()
PASSES_ON = "snakemake"

_SNAKEFILE = "exp_gtransformer/Snakefile"
_WIDTH = 96


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the options of ``gtrans reproduce``."""
    add = parser.add_argument
    add("names", nargs="*", metavar="NAME", help="table, figure, paper or experiment to make")
    add(
        "--list",
        nargs="*",
        metavar="NAME",
        help="tables and figures to describe instead (default: a line for each one)",
    )
    add("--json", action="store_true", help="--list: write JSON to standard output")
    add = parser.add_argument_group("making them").add_argument
    add("--out", type=Path, metavar="DIR", help="folder to write")
    add("--scale", choices=SCALES, default="tiny", help="(default: %(default)s)")
    add(
        "--data", type=Path, metavar="DIR", help="folder of the corpora, for scales small and paper"
    )
    add(
        "--corpus",
        nargs="+",
        default=[],
        metavar="NAME",
        help="corpora of --data, instead of those of the paper",
    )
    add(
        "--rows",
        nargs="+",
        default=[],
        metavar="LABEL",
        help="make only these rows of a table (of several tables, where they have them), and those "
        "that they are tested against; the results have all rows that are finished",
    )
    add("--seeds", metavar="N[,N..]", help="seeds of the runs (default: those of the scale)")
    add(
        "--set",
        action="append",
        default=[],
        metavar="NAME=N",
        help="another value for a setting of the scale, such as updates=20 to try it out; the "
        "folder is then OUT/SCALE.NAME-N",
    )
    add(
        "--amp",
        action="store_true",
        help="train all translation models in mixed precision, on a CPU in bf16: there about twice "
        "as fast with instructions for it (avx512_bf16), and slower without; the folder is then "
        "OUT/SCALE.amp",
    )
    add("--cores", type=int, default=1, metavar="N", help="jobs at once (default: %(default)s)")
    add(
        "--dry-run",
        action="store_true",
        help="only count what would be run; with --verbose, print all commands",
    )


def run(args: argparse.Namespace) -> None:
    """Make the tables and figures, or print the list.

    Raises:
        GtransError: there is no such table or figure, an option is missing or has an impossible
            value, or a command has failed.
    """
    if args.list is None:
        _make(args)
        return
    if args.names:
        raise GtransError(f"`--list` and the name {args.names[0]}; give it behind `--list`.")
    tables = find(args.list or PAPERS).values()
    if args.json:
        print(json_text([asdict(table) for table in tables]))
    else:
        print_lines(*(line for table in tables for line in (_whole if args.list else _line)(table)))


def _make(args: argparse.Namespace) -> None:
    if not args.names:
        raise GtransError(
            "give the name of a table or figure; `gtrans reproduce --list` names all of them."
        )
    if args.out is None:
        raise GtransError("`--out`, the folder to write, is missing.")
    if args.cores < 1:
        raise GtransError(f"`--cores` must be at least 1, but is {args.cores}.")
    seeds = args.seeds.split(",") if args.seeds else []
    if not all(map(re.compile("[1-9][0-9]{0,8}").fullmatch, seeds)) or len({*seeds}) < len(seeds):
        raise GtransError(
            f"`--seeds` must be different whole numbers, such as 1,2,3, but is '{args.seeds}'."
        )
    request = {
        "tables": args.names, "rows": args.rows, "seeds": sorted(map(int, seeds)),
        "corpora": list(dict.fromkeys(args.corpus)), "scale": args.scale, "set": args.set,
        "amp": args.amp, "data": args.data and str(args.data.resolve()),
    }  # fmt: skip
    plan = Plan(request)
    print_lines(*(f"left out: {reason}" for reason in plan.left_out))
    require(["snakemake"], "`gtrans reproduce`")
    folder = args.out.resolve() / plan.scale.label
    quiet = ["--quiet", "host", "reason", *["rules"] * args.dry_run]
    options = [*(["--printshellcmds"] if args.verbose else quiet), "--cores", str(args.cores)]
    if args.dry_run:
        with TemporaryDirectory() as empty:
            workdir = folder if folder.is_dir() else Path(empty)
            options += ["--dry-run", *args.passed_on]
            status, output = _snakemake(request, Path(empty), workdir, options, quiet=True)
        # Snakemake prints the table of jobs before and after it.
        last = output.rfind("Job stats:") if output.count("Job stats:") > 1 else len(output)
        print_lines(*output[:last].strip().splitlines())
        if status:
            raise GtransError("nothing could be planned; what went wrong stands above.")
        return
    check_output_folder("--out", folder)
    folder.mkdir(parents=True, exist_ok=True)
    with locked(folder):
        status, _ = _snakemake(request, folder, folder, ["--keep-going", *options, *args.passed_on])
        if status:
            raise GtransError(
                f"{folder}: commands have failed or were stopped, see above; the same call goes on."
            )
    for name in plan.tables:
        file = folder / f"{name}.md"
        print_lines(str(file), *file.read_text(encoding="utf-8").splitlines())


def _snakemake(
    request: Any, files: Path, folder: Path, options: Sequence[str], quiet: bool = False
) -> tuple[int, str]:
    """Run the Snakefile in a folder; ``files``: the folder for the request.

    Returns the exit status, and with ``quiet`` the output of Snakemake.

    A signal to this process is passed on to all processes of Snakemake, so that trainings end with
    a checkpoint.
    """
    with atomic_writer(files / "request.json") as file:
        file.write(json.dumps(request))
    command = [sys.executable, "-m", "snakemake", "--snakefile", str(shipped(_SNAKEFILE))]
    command += ["--directory", str(folder), "--configfile", str(files / "request.json"), "--nolock"]
    # A new version of this program does not repeat finished trainings. A file of any size that has
    # only a new date counts as unchanged.
    command += ["--rerun-incomplete", "--rerun-triggers", "mtime", "input", "params"]
    command += ["--max-checksum-file-size", "1TB", "--resources", "gpu=1", *options]
    here = str(Path(sys.executable).parent)
    environment = {**os.environ, "PATH": os.pathsep.join([here, os.environ["PATH"]])}
    process = Popen(
        command, stdin=DEVNULL, start_new_session=True, env=environment, text=True,
        stdout=PIPE if quiet else None, stderr=STDOUT if quiet else None,
    )  # fmt: skip
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda *_: os.killpg(process.pid, signal.SIGTERM))
    output, _ = process.communicate()
    return process.returncode, output or ""


def _line(table: Table) -> list[str]:
    licence = " (not free)" if table.not_free else ""
    return [f"{table.name:<23}{table.heading}: {table.title}{licence}"]


def _whole(table: Table) -> Iterator[str]:
    printed, quoted = table.printed, table.printed.get("quoted", ())
    numbers = [f"columns: {'; '.join(printed['columns'])}"] if "rows" in printed else []
    for label, values in printed.get("rows", {}).items():
        text = "  ".join("-" if value is None else str(value) for value in values)
        numbers.append(f"{label}: {text}{' (quoted there)' * (label in quoted)}")
    yield from _line(table)
    for title, entries in (
        ("", [f"{table.paper['title']}, section {table.section}", table.shows]),
        ("corpora", [", ".join(table.corpora)]),
        ("not free", [table.not_free]),
        ("at each scale", [f"{name}: {how or 'not shown'}" for name, how in table.scales.items()]),
        ("the paper prints", [*numbers, printed.get("note", "")]),
        ("the paper contradicts itself", table.contradictions),
        ("here", [_way(row) for row in table.rows.values()]),
        ("note", [table.note]),
    ):
        yield from [f"  {title}:"] if title and any(entries) else []
        for entry in filter(None, entries):
            first, rest = ("    - ", " " * 6) if title else (" " * 4, " " * 4)
            yield from wrap(
                entry, _WIDTH, initial_indent=first, subsequent_indent=rest, break_on_hyphens=False
            )
    yield ""


def _way(row: Row) -> str:
    """Model, flags and baseline of a row."""
    if not row.model:
        return f"{row.label}: {' + '.join(row.ensemble)} {row.note}"
    config = read("models")[row.model]["config"]
    names = [config] if isinstance(config, str) else dict.fromkeys(config.values())
    words = f"gtrans train --config {' or '.join(names)} {row.train}".rstrip()
    words += f"; gtrans translate {row.translate}" if row.translate else ""
    words += f"; tested against: {row.against}" if row.against else ""
    return f"{row.label}: {words}" + (f" ({row.note})" if row.note else "")
