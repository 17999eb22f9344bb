"""Scores that ``gtrans score`` reads: of tools with their own environment, and of segments."""

from __future__ import annotations

import argparse
from collections.abc import Collection, Iterator
from pathlib import Path

from gtrans.errors import GtransError
from gtrans.evaluation import external
from gtrans.evaluation.blonde import blonde
from gtrans.evaluation.comet import COMET_MODEL, comet, is_reference_free
from gtrans.evaluation.ctxpro import KEY as CTXPRO
from gtrans.evaluation.meteor15 import meteor15
from gtrans.evaluation.report import Report
from gtrans.evaluation.scores import Measurement

_Result = tuple[str, external.Instructions, Measurement | None]


def add_tools(group: argparse._ArgumentGroup) -> None:
    """Add the options of tools, and of scores of other programs."""
    group.add_argument("--comet", action="store_true", help="score with COMET; needs --src")
    group.add_argument(
        "--doc-comet",
        action="store_true",
        help="score with Doc-COMET, COMET over a sentence and up to two before it; needs --src",
    )
    group.add_argument(
        "--comet-model",
        nargs="+",
        default=[COMET_MODEL],
        metavar="NAME",
        help="models for --comet and --doc-comet, or paths of checkpoints: one with a "
        "reference, one without, or both; 'qe' or 'kiwi' in a name or path says that it needs no "
        f"reference (default: {COMET_MODEL})",
    )
    group.add_argument(
        "--comet-without-reference",
        action="store_true",
        help="the --comet-model needs no reference, whatever its name is",
    )
    group.add_argument(
        "--blonde", action="store_true", help="score with BlonDe; English translations only"
    )
    group.add_argument(
        "--meteor15",
        action="store_true",
        help="score with METEOR 1.5, a Java program; --target-lang cs, de, en, es, fr or ru",
    )
    group.add_argument(
        "--meteor-jar",
        default="meteor-1.5.jar",
        metavar="FILE",
        help="the program of --meteor15 (default: %(default)s)",
    )
    group.add_argument(
        "--external-dir",
        type=Path,
        default=Path("external-scores"),
        metavar="DIR",
        help="folder in which texts are written for these tools and their scores are read; the "
        "output says how to run the tools (default: %(default)s)",
    )


def add_segment_scores(group: argparse._ArgumentGroup) -> None:
    """Add the options for scores that any other program has computed."""
    group.add_argument(
        "--segment-scores",
        nargs="+",
        default=[],
        metavar="NAME=FILE",
        help="scores of a metric NAME, one a line for every sentence (or document): a FILE for "
        "each --hyp, in their order; or one JSON object with a list of scores for every system",
    )
    group.add_argument(
        "--lower-is-better",
        nargs="+",
        default=[],
        metavar="NAME",
        help="which NAMEs of --segment-scores are error rates",
    )


def compares_texts(args: argparse.Namespace) -> bool:
    """Whether the translations are scored beside their reference or source."""
    tools = (args.comet, args.doc_comet, args.blonde, args.meteor15)
    return bool(args.ref or args.segment_scores or any(tools))


def tool_scores(
    args: argparse.Namespace,
    report: Report,
    texts: external.ToolTexts,
    target_lang: str,
    taken: Collection[str],
) -> dict[str, Measurement]:
    """Write the texts for the requested tools, and read the scores that they have written.

    Args:
        args: the options.
        report: it is told how to get the scores that are not there yet.
        texts: all texts.
        target_lang: code of the language of the translations.
        taken: names of scores that were read from ``--segment-scores``.

    Raises:
        GtransError: a file is damaged, belongs to other texts, a tool cannot score these texts, or
            two scores have the same name.
    """
    results = list(_tools(args, texts, target_lang))
    for key in [key for key, _, _ in results] + [CTXPRO] * bool(args.ctxpro):
        if key in taken:
            raise GtransError(
                f"--segment-scores {key}=FILE: this command has a score '{key}' of its own; give "
                "another name"
            )
    report.pending = {key: it for key, it, measurement in results if measurement is None}
    return {key: measurement for key, _, measurement in results if measurement is not None}


def _tools(
    args: argparse.Namespace, texts: external.ToolTexts, target_lang: str
) -> Iterator[_Result]:
    models = {
        model: not (args.comet_without_reference or is_reference_free(model))
        for model in args.comet_model
    }
    if len(models) != len(set(models.values())):
        raise GtransError(
            f"--comet-model {' '.join(models)}: give one with a reference and one without at most"
        )
    folder: Path = args.external_dir
    for tool, wanted in (("comet", args.comet), ("doc-comet", args.doc_comet)):
        for model, with_reference in models.items() if wanted else ():
            name = model.replace("/", "_")
            instructions, measurement = comet(
                folder / tool / name, texts, model, tool == "doc-comet", with_reference
            )
            key = tool.replace("-", "_") + ("" if with_reference else "_qe")
            yield key, instructions, measurement
    if args.blonde:
        yield ("blonde", *blonde(folder / "blonde", texts, target_lang))
    if args.meteor15:
        yield ("meteor_15", *meteor15(folder / "meteor-1.5", texts, target_lang, args.meteor_jar))
