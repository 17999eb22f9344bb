"""Make the tables and figures of the five papers, or list what each needs.

A name is that of a table or figure, such as 000-T2, of a paper, such as 000, or of an experiment
of the project's own, such as results-debian. What is missing is run, what is there is used: run the
command again, and it goes on. Results are OUT/SCALE/NAME.md, .json and .csv, and of a figure .png
and .svg: every number with its run, seed, interval and tests, beside those of the paper. The scale
says how large everything is:

  tiny    the corpus that gtrans make-corpus writes, small models: minutes on a CPU
  small   a corpus of --data, named by --corpus, 3 + 3 layers: hours on a CPU
  paper   the papers' corpora in --data and their sizes, on GPUs

The work is done by Snakemake (pip install 'gtrans[experiments]'); what follows -- goes to it, such
as an executor for a cluster. See docs/reproducing.md.

With --list, a line for each; with --list and names, all that is known of them: what the paper
shows and prints, where it contradicts itself, the recipe and options for every row, and what is
missing or cannot be had freely.
"""

from __future__ import annotations

import argparse
import re
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from shlex import quote
from textwrap import wrap
from typing import TYPE_CHECKING, get_args

from gtrans.errors import GtransError
from gtrans.experiments.catalogue import (
    Experiment,
    Scale,
    Variant,
    find,
    read_catalogue,
    with_rows,
)
from gtrans.messages import json_text, print_lines

if TYPE_CHECKING:
    from gtrans.experiments.planned import Planned

EXAMPLE = "gtrans reproduce 000-T6 --scale tiny --out experiments --cores 2"
NEEDS = ()
PASSES_ON = "snakemake"
_WIDTH = 96
_INDENT = 4


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the options of ``gtrans reproduce``."""
    parser.add_argument(
        "names", nargs="*", metavar="NAME", help="table, figure, paper or experiment to make"
    )
    parser.add_argument(
        "--list",
        nargs="*",
        metavar="NAME",
        help="tables and figures to describe instead (default: a line for each one)",
    )
    parser.add_argument("--json", action="store_true", help="--list: write JSON to standard output")
    made = parser.add_argument_group("making them")
    made.add_argument("--out", type=Path, metavar="DIR", help="folder to write")
    made.add_argument(
        "--scale", choices=get_args(Scale), default="tiny", help="(default: %(default)s)"
    )
    made.add_argument(
        "--data", type=Path, metavar="DIR", help="folder of the corpora, for scales small and paper"
    )
    made.add_argument(
        "--corpus",
        nargs="+",
        default=[],
        metavar="NAME",
        help="corpora of --data, instead of those of the paper",
    )
    made.add_argument(
        "--rows",
        nargs="+",
        default=[],
        metavar="LABEL",
        help="make only these rows of a table (of several tables, where they have them), and those "
        "that they are tested against; all rows that are finished are then written as "
        "NAME.so-far.md, .json and .csv",
    )
    made.add_argument(
        "--seeds",
        metavar="N[,N..]",
        help="seeds of the runs (default: those of the scale)",
    )
    made.add_argument(
        "--set",
        action="append",
        default=[],
        metavar="NAME=N",
        help="another value for a setting of the scale, such as updates=20 to try it out; the "
        "folder is then OUT/SCALE.NAME-N",
    )
    made.add_argument(
        "--amp",
        action="store_true",
        help="train all translation models in mixed precision, on a CPU in bf16: there about twice "
        "as fast with instructions for it (avx512_bf16), and slower without; the folder is then "
        "OUT/SCALE.amp",
    )
    made.add_argument(
        "--cores", type=int, default=1, metavar="N", help="jobs at once (default: %(default)s)"
    )
    made.add_argument("--dry-run", action="store_true", help="print the commands only")
    made.add_argument(
        "--finished",
        action="store_true",
        help="run nothing, write the finished rows and seeds as NAME.so-far.md, .json and .csv; "
        "also while others are run",
    )


def run(args: argparse.Namespace) -> None:
    """Make the tables and figures, or print the list.

    Raises:
        GtransError: there is no such table or figure, an option is missing or has an impossible
            value, or a job has failed.
    """
    if args.list is None:
        _make(args)
        return
    if args.names:
        raise GtransError(f"`--list` and the name {args.names[0]}; give it behind `--list`.")
    every = read_catalogue()
    chosen = find(every, args.list) if args.list else every
    if args.json:
        print(json_text([experiment.as_json() for experiment in chosen]))
    elif args.list:
        print_lines(*(line for experiment in chosen for line in _whole(experiment)))
    else:
        print_lines(*_overview(every))


def _make(args: argparse.Namespace) -> None:
    from gtrans.experiments.engine import earlier_seeds, reproduce, write_finished
    from gtrans.experiments.plan import plan
    from gtrans.experiments.planned import Wish
    from gtrans.experiments.refusals import check_given, why_not
    from gtrans.experiments.scales import read_scale

    if not args.names:
        raise GtransError(
            "give the name of a table or figure; `gtrans reproduce --list` names all of them."
        )
    if args.out is None:
        raise GtransError("`--out` is missing: the folder to write.")
    if args.cores < 1:
        raise GtransError(f"`--cores` must be at least 1, but is {args.cores}.")
    if args.finished and args.dry_run:
        raise GtransError("`--finished` runs nothing and writes tables; leave `--dry-run` out.")
    twice = [name for name in args.corpus if args.corpus.count(name) > 1]
    if twice:
        raise GtransError(f"`--corpus` names {twice[0]} more than once.")
    scale = read_scale(args.scale, args.set, amp=args.amp)
    chosen = list({it.name: it for it in find(read_catalogue(), args.names)}.values())
    rows = with_rows(chosen, args.rows) if args.rows else {}
    if rows:
        chosen = [it for it in chosen if it.name in rows]
    reasons = {it.name: why_not(it, scale, args.data, args.corpus) for it in chosen}
    refused = [reason for reason in reasons.values() if reason]
    # Of a whole paper, what can be had is made.
    if len(refused) == len(chosen):
        raise GtransError("; ".join(refused))
    for reason in refused:
        print_lines(f"left out: {reason}")
    possible = [it for it in chosen if not reasons[it.name]]
    wish = Wish(scale, args.out, args.data, tuple(args.corpus), _seeds(args.seeds, scale.seeds))
    so_far = None
    if rows or args.finished:
        # All that is finished, also of rows and seeds that are not asked for now.
        earlier = earlier_seeds(wish.folder, [it.name for it in possible])
        seeds = tuple(sorted({*scale.seeds, *wish.seeds, *earlier}))
        so_far = plan(possible, replace(wish, seeds=seeds))
    if so_far is not None and args.finished:
        write_finished(*so_far)
        return
    jobs, planned = plan([rows.get(it.name, it) for it in possible], wish)
    _check_rows(args.rows, planned)
    check_given(jobs, args.data)
    reproduce(jobs, planned, args.cores, args.dry_run, args.passed_on, so_far)


def _seeds(given: str | None, default: tuple[int, ...]) -> tuple[int, ...]:
    if given is None:
        return default
    seeds = given.split(",")
    if not all(re.fullmatch("[1-9][0-9]{0,8}", it) for it in seeds) or len({*seeds}) < len(seeds):
        raise GtransError(
            f"`--seeds` must be different whole numbers, such as 1,2,3, but is '{given}'."
        )
    return tuple(sorted(map(int, seeds)))


def _check_rows(labels: Sequence[str], planned: Sequence[Planned]) -> None:
    """Refuse a row that is asked for and can be had of none of the experiments."""
    for label in labels:
        found = [(it, row) for it in planned for row in it.rows if row.variant.label == label]
        if not found:
            raise GtransError(f"`--rows`: '{label}' is a row of what is left out only.")
        if all(row.why_not for _, row in found):
            it, row = found[0]
            raise GtransError(f"`--rows`: '{label}' of {it.experiment.name}: {row.why_not}.")


def _overview(experiments: Sequence[Experiment]) -> Iterator[str]:
    paper = ""
    width = max((len(experiment.name) for experiment in experiments), default=0) + 1
    for experiment in experiments:
        if experiment.paper.id != paper:
            paper = experiment.paper.id
            yield f"{paper}  {experiment.paper.title}, {experiment.paper.venue}"
        licence = "" if experiment.free else " (not free)"
        yield f"  {experiment.name:<{width}}{experiment.title}{licence}"


def _whole(experiment: Experiment) -> Iterator[str]:
    printed = experiment.printed
    yield f"{experiment.name}  {experiment.title}"
    yield from _text(f"{experiment.paper.title}, section {experiment.section}")
    yield from _text(experiment.shows)
    yield from _part("needs", experiment.needs)
    yield from _part("corpora", experiment.corpora)
    yield from _part("not free", [experiment.not_free] if experiment.not_free else [])
    scales = [f"{scale}: {how or 'not shown'}" for scale, how in experiment.scales.items()]
    yield from _part("at each scale", scales)
    numbers = ["columns: " + "; ".join(printed.columns)] if printed.rows else []
    for row in printed.rows:
        values = "  ".join("-" if value is None else str(value) for value in row.values)
        numbers.append(f"{row.label}: {values}" + (" (quoted there)" if row.quoted else ""))
    yield from _part("the paper prints", [*numbers, *([printed.note] if printed.note else [])])
    yield from _part("the paper contradicts itself", experiment.contradictions)
    yield from _part("here", [_way(variant) for variant in experiment.variants])
    yield from _part("note", [experiment.note] if experiment.note else [])
    yield ""


def _way(variant: Variant) -> str:
    """Recipe, options and baseline of a row."""
    if variant.recipe == "none":
        return f"{variant.label}: {variant.note}"
    script = f"run-{variant.recipe}.sh"
    words = [quote(word) for option in variant.options for word in option.split()]
    baseline = f"; tested against: {variant.baseline}" if variant.baseline else ""
    note = f" ({variant.note})" if variant.note else ""
    return f"{variant.label}: {' '.join([script, *words])}{baseline}{note}"


def _part(title: str, entries: Sequence[str]) -> Iterator[str]:
    if entries:
        yield f"  {title}:"
    for entry in entries:
        yield from _text(entry, mark="- ")


def _text(text: str, mark: str = "") -> list[str]:
    return wrap(
        text,
        _WIDTH,
        initial_indent=" " * _INDENT + mark,
        subsequent_indent=" " * (_INDENT + len(mark)),
        break_on_hyphens=False,
    )
