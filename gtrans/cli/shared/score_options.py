"""Options of ``gtrans score``: their definition and the checks of their values."""

from __future__ import annotations

import argparse
import math
import os
import re
from collections.abc import Iterable
from pathlib import Path

from gtrans.cli.shared.extras import add_lab_columns
from gtrans.cli.shared.reading import add_choice
from gtrans.data.documents import STANDARD_STREAM
from gtrans.errors import GtransError
from gtrans.evaluation.buckets import SENTENCE_LENGTHS
from gtrans.evaluation.columns import COLUMNS, chosen_columns
from gtrans.evaluation.comet import DEFAULT_MODEL
from gtrans.evaluation.metrics import DEFAULT_METRICS, DOCUMENT_METRICS, METRICS, TOKENIZERS
from gtrans.evaluation.moses_tokens import MOSES
from gtrans.evaluation.significance import BOOTSTRAP_TRIALS, RANDOMISATION_TRIALS, seed

MIN_DOC_TOKENS = 8
DEFAULT_MARGIN_METRIC = "chrf"
_MARGIN = re.compile(r"(\d+\.?\d*|\.\d+)([eE][+-]?\d+)?", re.ASCII)
MIN_BOOTSTRAP_TRIALS = 40  # a 95% interval leaves out the outermost fortieth on each side


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the options of ``gtrans score``."""
    add_lab_columns()
    files = parser.add_argument_group("files")
    files.add_argument(
        "--hyp",
        required=True,
        nargs="+",
        metavar="[NAME=]FILE",
        help="translations, one file per system, or - for the standard input; the tests compare "
        "all others with the first. Of a file with several systems NAME chooses one",
    )
    files.add_argument(
        "--ref",
        nargs="+",
        default=[],
        metavar="FILE",
        help="the reference, or several; with --src, --segment-scores and COMET without reference "
        "need none",
    )
    files.add_argument(
        "--src",
        metavar="FILE",
        help="the source; needed for COMET; with it, the length of a sentence in an instance is "
        "that of its longer side",
    )
    files.add_argument(
        "--documents-only",
        action="store_true",
        help="score whole documents only; a translated document may then have more or fewer "
        "sentences than its reference",
    )
    files.add_argument(
        "--resegment",
        action="store_true",
        help="split each translated document into the sentences of the reference that fit best; "
        "it may have any other lines. With every score, the shares of omitted and of added text "
        "are printed",
    )
    files.add_argument(
        "--resegment-dir",
        type=Path,
        metavar="DIR",
        help="with --resegment, write the translations with the lines of the reference to "
        "DIR/hyp.NAME.txt, and the reference and the source beside them",
    )
    add_choice(parser.add_argument_group("files with several texts"), several=True)
    what = parser.add_argument_group("metrics, tokeniser and case")
    what.add_argument(
        "-m",
        "--metrics",
        nargs="+",
        type=_metric,
        choices=METRICS,
        metavar="KEY",
        help=f"compute only these of: {', '.join(METRICS)}; bleu is s_bleu (default: all but "
        f"d_chrf_pp; with --documents-only: {' and '.join(DOCUMENT_METRICS)})",
    )
    for flag, column in COLUMNS.items():
        what.add_argument(flag, **column.settings)
    what.add_argument(
        "--target-lang",
        default="",
        metavar="LANG",
        help="language of the translations (de, zh_CN, Chinese, ..); it chooses the BLEU tokeniser "
        "(sacreBLEU's for zh, ja and ko, otherwise 13a) and the stemmer of METEOR "
        "(default: the target language of --data, if given)",
    )
    what.add_argument(
        "--tokenize",
        choices=TOKENIZERS,
        metavar="NAME",
        help=f"BLEU tokeniser: {', '.join(TOKENIZERS)} (default: the one for --target-lang); "
        "moses: Moses' tokens of translation and reference, as in papers with tokenised BLEU",
    )
    what.add_argument(
        "--hyp-tokens",
        action="store_true",
        help="with --tokenize moses: the translations are Moses' tokens already, without escapes, "
        "as 'gtrans translate --tokens' writes them; only the reference is tokenised",
    )
    what.add_argument("--lowercase", action="store_true", help="ignore case")
    unit = parser.add_argument_group("instances")
    unit.add_argument(
        "--max-doc-tokens",
        type=int,
        default=512,
        metavar="N",
        help="longest instance in tokens; a sentence counts two more for its begin and end marks "
        "(default: %(default)s)",
    )
    unit.add_argument(
        "--data",
        metavar="DIR",
        help="data folder, made by 'gtrans prepare': measure instances in its BPE tokens "
        "(default: in words)",
    )
    _add_significance(parser.add_argument_group("intervals and tests"))
    _add_buckets(
        parser.add_argument_group("scores of parts of the corpus (in JSON, and with --details)")
    )
    _add_other_scores(parser.add_argument_group("other scores"))
    parser.add_argument(
        "--jobs",
        type=int,
        default=min(8, os.cpu_count() or 1),
        metavar="N",
        help="processes for a large corpus (default: one per core, at most 8)",
    )
    parser.add_argument(
        "--details", action="store_true", help="also print scores of parts of the corpus"
    )
    parser.add_argument(
        "--json",
        nargs="?",
        const=STANDARD_STREAM,
        metavar="FILE",
        help="write JSON to standard output; with FILE, to that file beside the usual lines",
    )
    parser.add_argument(
        "--latex",
        type=Path,
        metavar="FILE",
        help="also write a table for a paper: a row for each system, a column for each score",
    )
    parser.add_argument(
        "--csv",
        type=Path,
        metavar="FILE",
        help="also write all scores, intervals and tests, a line for each system and score",
    )


def _metric(name: str) -> str:
    """The key of a metric, which may be typed as sacreBLEU or a paper writes it: BLEU, chrF++."""
    key = re.sub(r"chrf2?(\+\+)?", r"chrf\1", name.lower().replace("-", "_"))
    return {"bleu": "s_bleu"}.get(key, key.replace("++", "_pp"))


def _add_significance(group: argparse._ArgumentGroup) -> None:
    group.add_argument(
        "--resample",
        choices=("document", "sentence", "none"),
        default="document",
        help="the unit that is resampled; 'sentence' resamples each metric's segments, as if they "
        "were independent, like sacreBLEU (default: %(default)s)",
    )
    group.add_argument(
        "--bootstrap-trials",
        type=int,
        default=BOOTSTRAP_TRIALS,
        metavar="N",
        help="resampled corpora for confidence intervals and paired bootstrap "
        "(default: %(default)s)",
    )
    group.add_argument(
        "--randomisation-trials",
        type=int,
        default=RANDOMISATION_TRIALS,
        metavar="N",
        help="trials of approximate randomisation (default: %(default)s)",
    )

    group.add_argument(
        "--non-inferior",
        nargs="+",
        default=[],
        metavar="[METRIC=]MARGIN",
        help="also test whether each system is worse than the first by less than so many points of "
        f"a metric ({DEFAULT_MARGIN_METRIC} if none is named), such as 0.2 or s_bleu=0.5",
    )


def margins_of(args: argparse.Namespace) -> dict[str, float]:
    """The margins of ``--non-inferior`` by metric.

    Raises:
        GtransError: no such metric, or one that these options do not compute; no number of at least
            0, a metric twice, or nothing to compare.
    """
    margins: dict[str, float] = {}
    named = list(dict.fromkeys(word.partition("=")[0] for word in args.segment_scores))
    for word in args.non_inferior:
        key, _, number = word.rpartition("=")
        key = key or DEFAULT_MARGIN_METRIC
        if key not in (known := (*METRICS, *named)) and not _has_other_scores(args):
            raise GtransError(
                f"--non-inferior {word}: there is no metric '{key}', only {', '.join(known)}"
            )
        if key in METRICS and key not in (here := (*measured(args), *named)):
            raise GtransError(not_among_the_scores(key, here))
        margin = float(number) if _MARGIN.fullmatch(number) else math.nan
        if not margin < math.inf:
            raise GtransError(f"--non-inferior {word}: the margin must be a number of at least 0")
        if key in margins:
            raise GtransError(f"--non-inferior has several margins for {key}; give one")
        margins[key] = margin
    if margins and args.resample == "none":
        raise GtransError("--non-inferior resamples, but --resample is none; leave one of them out")
    if margins and len(args.hyp) < 2:
        raise GtransError("--non-inferior compares with the first --hyp; give at least two")
    return margins


def measured(args: argparse.Namespace) -> list[str]:
    """The scores that compare with the reference, by these options."""
    if not args.ref:
        return []
    keys = args.metrics or (DOCUMENT_METRICS if args.documents_only else DEFAULT_METRICS)
    return list(keys)


def not_among_the_scores(key: str, here: Iterable[str]) -> str:
    """What ``--non-inferior`` says of a metric that is not computed."""
    known = list(here)
    if not known:
        return f"--non-inferior: {key} is not among the scores here; it needs the reference, --ref"
    return (
        f"--non-inferior: {key} is not among the scores here, which are {', '.join(known)}; name "
        f"one of these, such as {known[0]}=0.5, or --metrics"
    )


def _has_other_scores(args: argparse.Namespace) -> bool:
    """Whether there are scores whose names only their files tell."""
    return bool(chosen_columns(args) or args.comet or args.doc_comet)


def compares_texts(args: argparse.Namespace) -> bool:
    """Whether the translations are scored beside their reference or source."""
    return bool(args.ref or args.segment_scores or args.comet or args.doc_comet)


def _add_other_scores(group: argparse._ArgumentGroup) -> None:
    for flag, what in (
        ("--comet", "COMET"),
        ("--doc-comet", "Doc-COMET, COMET over a sentence and up to two before it"),
    ):
        group.add_argument(
            flag,
            nargs="*",
            metavar="MODEL",
            help=f"score with {what}: a model with a reference, one without, or both, each a name "
            f"or a checkpoint (default: {DEFAULT_MODEL}); needs --src and unbabel-comet",
        )
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


def _add_buckets(group: argparse._ArgumentGroup) -> None:
    group.add_argument(
        "--test-parts",
        action="store_true",
        help="also compare the systems within each part, with the same tests (in JSON)",
    )
    group.add_argument(
        "--sentence-lengths",
        type=int,
        nargs="+",
        default=SENTENCE_LENGTHS,
        metavar="N",
        help="upper bounds of the buckets of sentences, in reference tokens "
        f"(default: {' '.join(map(str, SENTENCE_LENGTHS))})",
    )


# The options that write files besides what is printed, and those that take a model of minutes.
_LEFT_OUT = ("json", "csv", "latex", "resegment_dir", "comet", "doc_comet")


def without_files(args: argparse.Namespace) -> argparse.Namespace:
    """The same options of ``gtrans score`` without those that write files, and without COMET."""
    return argparse.Namespace(**{**vars(args), **dict.fromkeys(_LEFT_OUT)})


def check_values(args: argparse.Namespace) -> None:
    """Refuse impossible values before any work.

    Raises:
        GtransError: names the flag, its value and what is possible.
    """
    for name, least in [
        ("max_doc_tokens", MIN_DOC_TOKENS),
        ("bootstrap_trials", MIN_BOOTSTRAP_TRIALS),
        ("randomisation_trials", 1),
        ("jobs", 1),
    ]:
        if getattr(args, name) < least:
            flag = "--" + name.replace("_", "-")
            raise GtransError(f"{flag} must be at least {least}, but is {getattr(args, name)}")
    bounds = list(args.sentence_lengths)
    if bounds != sorted(set(bounds)) or bounds[0] < 1:
        raise GtransError(
            "--sentence-lengths must be ascending numbers from 1, but is "
            f"{' '.join(map(str, bounds))}"
        )
    for name in ("comet", "doc_comet"):
        if getattr(args, name) == []:
            setattr(args, name, [DEFAULT_MODEL])
    margins_of(args)
    seed()
    columns = chosen_columns(args)
    for flag, column in columns.items():
        if column.aligned and not (args.ref and args.src):
            raise GtransError(f"{flag} needs the reference and the source; give --ref and --src")
        if column.aligned and args.hyp_tokens:
            raise GtransError(f"{flag} needs plain text; leave --hyp-tokens out")
    if not args.ref and not (args.src if compares_texts(args) else columns):
        raise GtransError(
            "--ref is missing; with --src --segment-scores and COMET without reference need none"
        )
    if not args.ref and args.metrics:
        raise GtransError(f"--metrics {args.metrics[0]} needs the reference; give it with --ref")
    if args.hyp_tokens:
        _check_tokens(args)
    if args.documents_only:
        check_documents_only(args, "--documents-only")
    if args.resegment and not args.ref:
        raise GtransError("--resegment needs the reference; give it with --ref")
    if args.resegment and args.documents_only:
        raise GtransError(
            "--resegment finds the sentences that --documents-only does without; give one of them"
        )
    if args.resegment_dir and not args.resegment:
        raise GtransError("--resegment-dir needs --resegment")


def _check_tokens(args: argparse.Namespace) -> None:
    """Raises GtransError for a score that needs the plain text of the translations."""
    if args.tokenize != MOSES:
        raise GtransError(f"--hyp-tokens needs --tokenize {MOSES}")
    of_words = [key for key, metric in METRICS.items() if metric.of_words]
    if not args.metrics or not set(args.metrics) <= set(of_words):
        raise GtransError(
            f"--hyp-tokens: all but {', '.join(of_words)} need plain text; choose with --metrics"
        )


def check_documents_only(args: argparse.Namespace, why: str) -> None:
    """Raises GtransError for a score that needs aligned sentences; ``why`` there are none."""
    wrong = [key for key in args.metrics or () if key not in DOCUMENT_METRICS]
    if wrong:
        raise GtransError(
            f"--metrics {wrong[0]} needs aligned sentences; {why} can have "
            f"{', '.join(DOCUMENT_METRICS)}"
        )
    tools = [f"--{name.replace('_', '-')}" for name in ("comet", "doc_comet")
             if getattr(args, name) is not None]  # fmt: skip
    for flag in [*tools, *(f for f, column in chosen_columns(args).items() if column.aligned)]:
        raise GtransError(f"{flag} needs aligned sentences, but {why} has none; leave it out")
