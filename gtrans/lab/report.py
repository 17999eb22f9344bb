"""Write one page of HTML about finished run folders: scores, curves, settings, documents.

A run folder is the --out of a recipe (exp_gtransformer). The page has

  scores     all systems side by side, with intervals and tests against their baselines
  training   losses and scores of validation by updates, with gates and group weights if the log
             has them; settings, hardware and time
  documents  source, reference and every system, sentence by sentence, with differences marked;
             sentences are found by text, by the loss of chrF against the baseline, and items of
             contrastive sets by what the systems make of them

It is a single file, opens from disk and needs no network. Scores are those of scores.NAME.json;
where a folder has only scores.NAME.txt, they are computed anew by the command in its first line,
which writes no files then, so tools with their own environment (COMET, ..) are left out. A run that
is not finished is refused. See docs/report.md.
"""

from __future__ import annotations

import argparse
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, NoReturn

from gtrans.cli.shared.system_names import system_names
from gtrans.errors import GtransError
from gtrans.evaluation.contrastive import READERS, Item, ReadOptions, read_items
from gtrans.identity.files import atomic_writer, check_output
from gtrans.lab import add_readers
from gtrans.messages import say

if TYPE_CHECKING:
    from gtrans.lab.page.folders import Run, ScoreTable
    from gtrans.lab.page.page import Contents
    from gtrans.lab.page.texts import TestSet

EXAMPLE = "gtrans report out/europarl7 out/nc2016 --output report.html"
NEEDS = ("jinja2", "matplotlib")


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the options of ``gtrans report``."""
    add_readers()
    parser.add_argument(
        "run",
        nargs="+",
        metavar="[NAME=]RUN",
        help="finished run folders, the --out of recipes; a name is shown instead of the folder's",
    )
    parser.add_argument("--output", required=True, metavar="FILE", help="the page to write")
    parser.add_argument(
        "--models",
        nargs="+",
        default=[],
        metavar="NAME",
        help="only these models of the run folders, the baseline first (default: all)",
    )
    parser.add_argument(
        "--baseline",
        metavar="SYSTEM",
        help="compare all systems with this one, as the page calls it: scores are computed anew, "
        "with tests (default: the tests that the runs have; documents are compared with the first "
        "system of the first table with several)",
    )
    moved = parser.add_argument_group("test text, where it is not where the runs had it")
    moved.add_argument("--ref", nargs="+", default=[], metavar="FILE", help="its reference")
    moved.add_argument("--src", metavar="FILE", help="its source")
    more = parser.add_argument_group("more about the models")
    more.add_argument(
        "--analysis",
        nargs="+",
        default=[],
        metavar="FILE.json",
        help="numbers that 'gtrans analyse --plot' wrote beside its pictures, drawn in the page: "
        "entropy, gates, gradients, ..",
    )
    more.add_argument(
        "--items",
        nargs="+",
        default=[],
        metavar="[NAME=]FILE",
        help="what 'gtrans contrast --output' wrote of the sets of --set, a file for each system",
    )
    more.add_argument("--set", nargs="+", default=[], metavar="FILE", help="these sets")
    more.add_argument(
        "--format",
        choices=list(READERS),
        default="jsonl",
        help="format of the sets, as for 'gtrans contrast' (default: %(default)s)",
    )
    more.add_argument(
        "--documents", metavar="DIR", help="for sets of that need: as for 'gtrans contrast'"
    )
    more.add_argument(
        "--context",
        type=int,
        default=1,
        metavar="N",
        help="the most sentences of context, as for 'gtrans contrast' (default: %(default)s)",
    )


def run(args: argparse.Namespace) -> None:
    """Write the page.

    Raises:
        GtransError: a run folder is missing or not finished, or something in it does not fit the
            rest; nothing is written then.
    """
    if bool(args.items) != bool(args.set):
        raise GtransError("`--items` and `--set` belong together; give both, or none.")
    # Imported on demand, for --help does not need them.
    from gtrans.lab.page.folders import read_run
    from gtrans.lab.page.page import html

    names = system_names([_named(word) for word in args.run], "RUN")
    files = system_names(args.items, "--items")
    items = {name: Path(path) for name, path in files.items()}
    runs = [
        read_run(name, Path(path), args.ref, args.src, args.models) for name, path in names.items()
    ]
    inputs = [path for one in runs for path in one.inputs]
    inputs += [*map(Path, (*args.analysis, *args.set)), *items.values()]
    check_output("--output", args.output, inputs)
    page = html(_contents(args, runs, items))
    with atomic_writer(args.output, inputs) as file:
        file.write(page)
    say(f"gtrans: {args.output} has {len(page.encode()) / 1e6:.1f} MB")


def _named(word: str) -> str:
    """NAME=RUN as it is; for a folder without a name, its own, also if it is ``.``."""
    if "=" in word and not Path(word).exists():
        return word
    return f"{Path(word).absolute().resolve().name}={word}"


def _contents(
    args: argparse.Namespace, runs: Sequence[Run], items: Mapping[str, Path]
) -> Contents:
    from gtrans.lab.page import contrast
    from gtrans.lab.page.charts import draw_intervals
    from gtrans.lab.page.figures import analysis_charts, training_charts
    from gtrans.lab.page.page import Contents, Group, TestTable
    from gtrans.lab.page.scores import by_label, side_by_side
    from gtrans.lab.page.texts import (
        check_scores,
        compared_with,
        for_reader,
        measure_chrf,
        read_test_sets,
    )

    tests = read_test_sets(runs)
    known = [label for test in tests for label in test.systems]
    if args.baseline is not None and args.baseline not in known:
        raise GtransError(
            f"`--baseline` {args.baseline}: there is no such system; there are {', '.join(known)}."
        )
    tables, reader = [], []
    for number, test in enumerate(tests):
        if args.baseline in test.systems:
            test = compared_with(test, args.baseline)
        chrf = measure_chrf(test)
        scores = [table.scores or _computed(table) for table, _ in test.tables]
        check_scores(test, chrf, by_label(test, scores))
        found = side_by_side(test, scores)
        chart = draw_intervals(f"intervals-{number}", "Scores with 95% intervals", found)
        tables.append(TestTable(test.title, test.baseline, found, chart))
        reader.append(for_reader(test, chrf, test.baseline))
    models = _trainings(runs)
    charts = training_charts(models) if models else []
    groups = [Group("training", "Training", charts)] if charts else []
    if args.analysis:
        groups.append(Group("analysis", "Analyses", analysis_charts(args.analysis)))
    contents = Contents(runs, tables, models, groups, reader=reader)
    if items:
        sets = _items(args)
        judged = {name: contrast.read_judgements(path, sets) for name, path in items.items()}
        contents.contrast = contrast.accuracies(sets, judged)
        title = ", ".join(Path(path).name for path in args.set)
        reader.append(contrast.for_reader(title, sets, judged, _languages(tests)))
    return contents


def _computed(table: ScoreTable) -> Mapping[str, Any]:
    """The scores of a table that has no JSON, by the command that made it."""
    from gtrans.cli import score
    from gtrans.cli.shared.score_options import without_files
    from gtrans.evaluation.report import to_json

    files = ", ".join(file.name for file in table.systems.values())
    say(f"gtrans: the scores of {files} are computed")
    parser = _OfTable(prog="gtrans score")
    parser.table = table.path
    score.add_arguments(parser)
    return to_json(score.report_of(without_files(parser.parse_args(table.words))))


class _OfTable(argparse.ArgumentParser):
    """The options of ``gtrans score``, whose mistakes are those of a table of scores."""

    table: Path

    def error(self, message: str) -> NoReturn:
        """Raise GtransError instead of ending the program."""
        raise GtransError(f"{self.table}: its first line is no `gtrans score` ({message}).")


def _trainings(runs: Sequence[Run]) -> dict[str, Any]:
    """All trainings by label: the model, with its run where several have one of that name."""
    names = [name for one in runs for name in one.trained]
    return {
        f"{one.name}/{name}" if names.count(name) > 1 else name: training
        for one in runs
        for name, training in one.trained.items()
    }


def _items(args: argparse.Namespace) -> list[Item]:
    options = ReadOptions(args.documents and Path(args.documents), args.context)
    return [item for path in args.set for item in read_items(path, args.format, options)]


def _languages(tests: Sequence[TestSet]) -> tuple[str, str]:
    """Those of the test sets, if they are all the same."""
    found = {test.languages for test in tests}
    return found.pop() if len(found) == 1 else ("", "")
