"""List the tables and figures of the five papers, and what each needs to be made again.

With --list alone, one line each. With names, all that is known of them: what the paper shows and
prints, where it contradicts itself, the recipe and options for every row, and what is missing or
cannot be had freely. A name is that of a table or figure, such as 000-T2, or of a paper, such as
000.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterator, Sequence
from shlex import quote
from textwrap import wrap

from gtrans.experiments.catalogue import Experiment, Variant, find, read_catalogue
from gtrans.messages import json_text, print_lines

EXAMPLE = "gtrans reproduce --list 000-T2"
NEEDS = ()
_WIDTH = 96
_INDENT = 4


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the options of ``gtrans reproduce``."""
    parser.add_argument(
        "--list",
        nargs="*",
        metavar="NAME",
        required=True,
        help="tables and figures to describe (default: a line for each one)",
    )
    parser.add_argument("--json", action="store_true", help="write JSON to standard output")


def run(args: argparse.Namespace) -> None:
    """Print the list.

    Raises:
        GtransError: there is no such table or figure.
    """
    every = read_catalogue()
    chosen = find(every, args.list) if args.list else every
    if args.json:
        print(json_text([experiment.as_json() for experiment in chosen]))
    elif args.list:
        print_lines(*(line for experiment in chosen for line in _whole(experiment)))
    else:
        print_lines(*_overview(every))


def _overview(experiments: Sequence[Experiment]) -> Iterator[str]:
    paper = ""
    for experiment in experiments:
        if experiment.paper.id != paper:
            paper = experiment.paper.id
            yield f"{paper}  {experiment.paper.title}, {experiment.paper.venue}"
        licence = "" if experiment.free else " (not free)"
        yield f"  {experiment.name:<10}{experiment.title}{licence}"


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
