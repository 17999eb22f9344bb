"""Score translated documents: BLEU over sentences and documents, chrF, TER, METEOR.

    gtrans score --hyp out.de --ref test.de --target-lang de
    gtrans score --hyp sentence=out1.de document=out2.de --ref test.de --target-lang de

Every score has its full signature and a 95% confidence interval. If there are several
systems, each is compared with the first by approximate randomisation of whole documents; p is
adjusted for their number (Holm), and the least difference that would be detected is printed.

The empty lines of the reference (or its lines "<d>") separate the documents. A translation
has the same lines; where the reference has a sentence and the translation an empty line, the
translation of that sentence is empty. A translation without document boundaries gets those
of the reference if it has as many sentences. Files may be gzipped. The command needs text
only, so it scores the output of any program.

A translation with one line for each document (`gtrans translate --free`) is recognised by the
number of its lines. It has no sentences to align, so all systems are then scored
over whole documents, as with --documents-only. With --resegment, translations of any layout are
split into the sentences of the reference.

All files may also be tables or JSON lines with document ids, in any order of documents.

d-BLEU is computed over whole documents, and over chunks: consecutive sentences of a document up to
--max-doc-tokens, which a document model sees at once. See docs/evaluation.md.
"""

from __future__ import annotations

import argparse
import os
import re
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import replace
from functools import partial
from itertools import chain
from pathlib import Path

from gtrans.annexes import add_lab_columns
from gtrans.cli.shared.options import add_choice, choice_of
from gtrans.cli.shared.system_names import system_names
from gtrans.data.documents import STANDARD_STREAM
from gtrans.data.units import split_chunks
from gtrans.errors import GtransError
from gtrans.evaluation.characters import is_written_without_spaces, spaced
from gtrans.evaluation.common_documents import COMMON
from gtrans.evaluation.metrics import (
    DOCUMENT_METRICS,
    METRICS,
    TOKENIZERS,
    Corpus,
    Documents,
    Options,
    counts_words_by_spaces,
    measure,
    token_counts,
)
from gtrans.evaluation.other_scores import (
    SCORES,
    Given,
    chosen_scores,
    segment_score_files,
    value_of,
)
from gtrans.evaluation.resegment import SIGNATURE, check_documents_folder, write_documents
from gtrans.evaluation.significance import resample, seed
from gtrans.evaluation.table import (
    OWN_FILES,
    Report,
    by_part,
    segments,
    to_csv,
    to_json,
    to_latex,
    to_text,
    write_rows,
)
from gtrans.evaluation.texts import Alignment, Texts, read_texts
from gtrans.files import (
    atomic_writer,
    begins_with,
    check_output,
    check_output_folder,
    check_replaceable,
)
from gtrans.languages import WITHOUT_SPACES, known_language, language_code
from gtrans.messages import json_text, print_lines, print_message
from gtrans.option_types import whole
from gtrans.text.pipeline import not_plain
from gtrans.text.plausibility import TextSample, implausible
from gtrans.text.reader import has_boundaries, is_plain

EXAMPLE = (
    "gtrans score --hyp sentence=out1.de document=out2.de --ref test.de --src test.en "
    "--target-lang de"
)
NEEDS = ()

MIN_DOC_TOKENS = 8
DEFAULT_MARGIN_METRIC = "chrf"
_MARGIN = re.compile(r"(\d+\.?\d*|\.\d+)([eE][+-]?\d+)?", re.ASCII)


# --- options --------------------------------------------------------------------------------------


def _metric(name: str) -> str:
    """The key of a metric, which may be typed as sacreBLEU or a paper writes it: BLEU, chrF++."""
    key = re.sub(r"chrf2?(\+\+)?", r"chrf\1", name.lower().replace("-", "_"))
    return {"bleu": "s_bleu"}.get(key, key.replace("++", "_pp"))


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the options of ``gtrans score``."""
    add_lab_columns()
    _add_files(parser.add_argument_group("files"))
    _add_metrics(parser.add_argument_group("metrics, tokeniser and case"))
    _add_output(parser.add_argument_group("output"))
    _add_chunks(parser.add_argument_group("chunks"))
    _add_tests(parser.add_argument_group("intervals and tests"))
    parts = parser.add_argument_group("scores of parts of the corpus (in JSON, and with --details)")
    parts.add_argument(
        "--test-parts", action="store_true", help="also test within each part (in JSON)"
    )
    others = parser.add_argument_group("other scores")
    for flag, score in SCORES.items():
        others.add_argument(flag, **score.settings)
    others.add_argument(
        "--lower-is-better",
        nargs="+",
        default=[],
        metavar="NAME",
        help="which NAMEs of --segment-scores are error rates",
    )
    add_choice(parser.add_argument_group("files with several texts"), several=True)


def _add_files(group: argparse._ArgumentGroup) -> None:
    group.add_argument(
        "--hyp",
        required=True,
        nargs="+",
        metavar="[NAME=]FILE",
        help="translations, one file per system; the tests compare all others with the first. Of a "
        "file with several systems NAME chooses one",
    )
    group.add_argument(
        "--ref",
        nargs="+",
        default=[],
        metavar="FILE",
        help="one reference or several; --segment-scores, and COMET without reference, need only "
        "--src",
    )
    group.add_argument(
        "--src", metavar="FILE", help="the source; chunks are then measured by both sides"
    )
    group.add_argument(
        COMMON,
        action="store_true",
        help="leave out documents that one of the files lacks, and say which; without this option "
        "they are an error",
    )
    group.add_argument(
        "--documents-only",
        action="store_true",
        help="score whole documents only; their lines may differ from the reference's",
    )
    group.add_argument(
        "--resegment",
        nargs="?",
        const="others",
        choices=("others", "always"),
        help="split each translated document into the sentences of the reference that fit best; "
        "one with as many lines as sentences stays as it is (unless 'always' is given, or "
        "another split is clearly better). The shares of omitted and of added text are printed",
    )
    group.add_argument(
        "--resegment-dir",
        type=Path,
        metavar="DIR",
        help="with --resegment, write the split translations to DIR/hyp.NAME.txt, with the "
        "reference and the source beside them",
    )


def _add_metrics(group: argparse._ArgumentGroup) -> None:
    group.add_argument(
        "-m",
        "--metrics",
        nargs="+",
        type=_metric,
        choices=METRICS,
        metavar="KEY",
        help=f"compute only these of: {', '.join(METRICS)}; bleu is s_bleu (default: all; "
        f"with --documents-only: {' and '.join(DOCUMENT_METRICS)})",
    )
    group.add_argument(
        "--target-lang",
        default="",
        metavar="LANG",
        help="language of the translations (de, zh_CN, Chinese, ..), which chooses the tokeniser "
        "and the stemmer (default: the target language of --data, if given)",
    )
    group.add_argument(
        "--tokenize",
        choices=TOKENIZERS,
        metavar="NAME",
        help=f"BLEU tokeniser: {', '.join(TOKENIZERS)} (default: sacreBLEU's for --target-lang); "
        "moses: as in papers with tokenised BLEU",
    )
    group.add_argument("--lowercase", action="store_true", help="ignore case")


def _add_output(group: argparse._ArgumentGroup) -> None:
    group.add_argument(
        "--details", action="store_true", help="also print scores of parts of the corpus"
    )
    group.add_argument(
        "--json",
        nargs="?",
        const=STANDARD_STREAM,
        metavar="FILE",
        help="write JSON to standard output; with FILE, to that file beside the usual lines",
    )
    group.add_argument(
        "--segments",
        type=Path,
        metavar="FILE",
        help="also write the scores of every segment, one per line: JSON if FILE ends in .jsonl, "
        "otherwise tabs between the columns",
    )
    group.add_argument("--latex", type=Path, metavar="FILE", help="also write a table for a paper")
    group.add_argument(
        "--csv", type=Path, metavar="FILE", help="also write a line for each system and score"
    )
    group.add_argument(
        "--force", action="store_true", help="replace files that this command did not write"
    )


def _add_chunks(group: argparse._ArgumentGroup) -> None:
    group.add_argument(
        "--max-doc-tokens",
        type=whole(MIN_DOC_TOKENS),
        default=512,
        metavar="N",
        help="longest chunk in tokens; a sentence counts two more for its special tokens "
        "(default: %(default)s)",
    )
    group.add_argument(
        "--data", metavar="DIR", help="count BPE tokens of this data folder (default: words)"
    )


def _add_tests(group: argparse._ArgumentGroup) -> None:
    group.add_argument(
        "--resample",
        choices=("document", "sentence", "none"),
        default="document",
        help="the unit that is resampled; 'sentence' resamples each metric's segments, as if they "
        "were independent, like sacreBLEU; 'none' prints scores only, without intervals and "
        "tests (default: %(default)s)",
    )
    group.add_argument(
        "--all-tests",
        action="store_true",
        help="also print the paired bootstrap, which finds differences between equal systems too "
        "often",
    )
    group.add_argument(
        "--non-inferior",
        nargs="+",
        default=[],
        metavar="[METRIC=]MARGIN",
        help="also test whether each system is at most MARGIN points worse than the first in "
        f"a metric ({DEFAULT_MARGIN_METRIC} if none is named), such as 0.2 or s_bleu=0.5",
    )


def _check(args: argparse.Namespace) -> None:
    """Reject impossible values before any work.

    Raises:
        GtransError: a value is impossible; the message names the flag and the possible values.
    """
    chosen = chosen_scores(args)
    # The names of other scores are known once they are computed.
    unsure = any(flag != "--segment-scores" for flag in chosen)
    _margins(args, [*_measured(args), *segment_score_files(args)], unsure)
    seed()
    for flag, score in chosen.items():
        for name in score.needs:
            if not value_of(args, name):
                raise GtransError(f"{flag} needs {name}; give {' and '.join(score.needs)}")
    if not args.ref and not (args.src if _reads_texts(args) else chosen):
        raise GtransError(
            "--ref is missing; with --src --segment-scores and COMET without reference need none"
        )
    for flag, wanted in (("--metrics", args.metrics), ("--resegment", args.resegment)):
        if wanted and not args.ref:
            raise GtransError(f"{flag} needs the reference; give it with --ref")
    if args.documents_only:
        _check_documents_only(args, "--documents-only")
        if args.resegment:
            raise GtransError(
                "--resegment finds the sentences that --documents-only does without; give one of "
                "them"
            )
    if args.resegment_dir:
        if not args.resegment:
            raise GtransError("--resegment-dir needs --resegment")
        check_output_folder("--resegment-dir", args.resegment_dir)
        check_documents_folder(args.resegment_dir, system_names(args.hyp), args.force)
    flags: dict[Path, str] = {}
    for flag, path in _outputs(args).items():
        check_output(flag, path, inputs(args))
        check_replaceable(flag, path, lambda path: begins_with(path, *OWN_FILES), args.force)
        other = flags.setdefault(path.resolve(), flag)
        if other != flag:
            raise GtransError(f"{other} and {flag} are both {path}; give each a file of its own")


def _check_documents_only(args: argparse.Namespace, why: str) -> None:
    """Raises GtransError for a score that needs aligned sentences; ``why`` there are none."""
    for key in args.metrics or ():
        if key in DOCUMENT_METRICS:
            continue
        raise GtransError(
            f"--metrics {key} needs aligned sentences; {why} can have {', '.join(DOCUMENT_METRICS)}"
        )
    for flag, score in chosen_scores(args).items():
        if score.aligned:
            raise GtransError(f"{flag} needs aligned sentences, but {why} has none; leave it out")


def _measured(args: argparse.Namespace) -> list[str]:
    """The scores that compare with the reference, by these options."""
    default = DOCUMENT_METRICS if args.documents_only else METRICS
    return list(args.metrics or default) if args.ref else []


def _reads_texts(args: argparse.Namespace) -> bool:
    """Whether the translations are scored beside their reference or source."""
    return bool(args.ref) or any(score.reads for score in chosen_scores(args).values())


def _margins(
    args: argparse.Namespace,
    known: Collection[str],
    unsure: bool = False,
) -> dict[str, float]:
    """The margins of ``--non-inferior`` by metric.

    Args:
        args: the options.
        known: the scores that they compute.
        unsure: whether there may be others.

    Raises:
        GtransError: no such score, no number of at least 0, a score twice, or nothing to compare.
    """
    margins: dict[str, float] = {}
    for word in args.non_inferior:
        key, _, number = word.rpartition("=")
        key = key or DEFAULT_MARGIN_METRIC
        if key not in known and not unsure:
            raise GtransError(
                f"--non-inferior: {key} is not among the scores here, which are "
                f"{', '.join(known)}; name one of these, or add it by --metrics"
            )
        if not _MARGIN.fullmatch(number) or not float(number) < float("inf"):
            raise GtransError(f"--non-inferior {word}: the margin must be a number of at least 0")
        if key in margins:
            raise GtransError(f"--non-inferior has several margins for {key}; give one")
        margins[key] = float(number)
    if margins and args.resample == "none":
        raise GtransError("--non-inferior resamples, but --resample is none; leave one of them out")
    if margins and len(args.hyp) < 2:
        raise GtransError("--non-inferior compares with the first --hyp; give at least two")
    return margins


# --- the command ----------------------------------------------------------------------------------


def run(args: argparse.Namespace) -> None:
    """Print the scores.

    Raises:
        GtransError: a file is missing, is not UTF-8 or does not match the reference, or
            an option has an impossible value.
    """
    report, _ = report_of(args)
    content: dict[str, Callable[[Report], str]] = {
        "--latex": to_latex,
        "--csv": to_csv,
        "--json": lambda report: f"{json_text(to_json(report))}\n",
    }
    for flag, path in _outputs(args).items():
        if flag == "--segments":
            write_rows(path, segments(report), inputs(args))
            continue
        with atomic_writer(path, inputs(args)) as file:
            file.write(content[flag](report))
    if args.json == STANDARD_STREAM:
        print(json_text(to_json(report)))
    else:
        print_lines(*to_text(report, args.details))


def report_of(args: argparse.Namespace) -> tuple[Report, Texts]:
    """The scores, with intervals and tests, and the texts.

    Args:
        args: the options of ``gtrans score``.

    Raises:
        GtransError: as for :func:`run`.
    """
    _check(args)
    files = system_names(args.hyp)
    report, texts = Report(list(files)), Texts([], None, {}, [])
    if _reads_texts(args):
        texts = _read_all(args, files)
    report.coverage, report.notes = texts.coverage, list(texts.notes)
    languages = _prepared_languages(args.data)
    first = next(iter(texts.references), None)
    options = _metric_options(args, languages[1], first or [])
    given = Given(args, files, texts.sources, first, texts.systems, texts.counted, options)
    shape = [len(document) for document in first or texts.sources or []]
    if shape:
        report.counts = {"sentences": sum(shape), "documents": len(shape)}
    if len(texts.references) > 1:
        report.counts["references"] = len(texts.references)
    # First, so that missing files and libraries are reported before the slow work.
    others = {flag: score.measure(given) for flag, score in chosen_scores(args).items()}
    if texts.references:
        _measure(args, report, texts, options, languages)
    for flag, scores in others.items():
        for measurement in scores.measurements:
            if measurement.key in report.measurements:
                raise GtransError(
                    f"{flag}: this command has a score '{measurement.key}' of its own; give "
                    "another name"
                )
            if args.resegment and SCORES[flag].aligned:
                report.resegmented.add(measurement.key)
            report.measurements[measurement.key] = measurement
            report.details.setdefault(measurement.key, scores.details)
        report.notes += scores.notes
        report.tables += [scores.lines] if scores.lines else []
    margins = _margins(args, report.measurements)
    for key, metric in report.measurements.items():
        if key in report.resegmented:
            metric = replace(metric, signature=f"{metric.signature}|{SIGNATURE}")
            report.measurements[key] = metric
        report.resampled[key] = resample(
            metric,
            args.resample,
            margin=margins.get(key),
            all_tests=args.all_tests,
        )
    return report, texts


def _measure(
    args: argparse.Namespace,
    report: Report,
    texts: Texts,
    options: Options,
    languages: Sequence[str],
) -> None:
    """The metrics that compare with the references, on all of the corpus and on its parts."""
    keys = _measured(args)
    first, *others = texts.references
    if args.documents_only:
        corpus = Corpus(first, [[range(len(document))] for document in first], others=others)
    else:
        corpus = _chunks(args, texts, languages)
        report.counts["chunks"] = sum(map(len, corpus.chunks))
    report.notes += _notes_on_text(texts.systems, keys, options)
    report.notes += _implausible(args, texts, options)
    report.measurements = measure(corpus, texts.systems, keys, options, min(8, os.cpu_count() or 1))
    report.resegmented |= set(report.measurements) if args.resegment else set()
    s_bleu = report.measurements.get("s_bleu")
    if s_bleu:
        tests = partial(resample, unit=args.resample, all_tests=args.all_tests)
        lengths = token_counts(first, options)
        report.buckets = by_part(s_bleu, lengths, tests if args.test_parts else None)


def _notes_on_text(
    systems: Mapping[str, Documents],
    keys: Sequence[str],
    options: Options,
) -> list[str]:
    """Warnings about text that the tokeniser is not meant for."""
    notes = []
    if options.tokenize != "none":
        for name, documents in systems.items():
            notes += not_plain(name, chain.from_iterable(documents))
    by_spaces = [METRICS[key].label for key in keys if counts_words_by_spaces(key, options)]
    if options.without_spaces and by_spaces:
        notes.append(
            f"{', '.join(by_spaces)}: words are found by spaces, but the reference is written "
            "without spaces between words; --target-lang zh or ja, or --tokenize, such as char, "
            "spm or flores200, chooses a tokeniser that finds others (TER has one for Chinese and "
            "Japanese only)"
        )
    return notes


def _implausible(args: argparse.Namespace, texts: Texts, options: Options) -> list[str]:
    """Warnings about translations that are probably not what the user meant."""
    systems = system_names(args.hyp)
    lang, first = options.target_lang, texts.references[0]
    target = replace(TextSample.of(args.ref[0], lang, first), documents=len(first))
    left = None
    if texts.sources is not None:
        left = TextSample.of(args.src, "", texts.sources)
    found: list[str] = []
    has_lines = not args.documents_only and not args.resegment and is_plain(args.ref[0])
    for name, documents in texts.systems.items():
        translation = TextSample.of(systems[name], lang, documents)
        if has_lines and len(first) > 1 and not has_boundaries(systems[name]):
            translation = replace(translation, documents=1)
        found += implausible(left, target, translation, plain=False)
    return list(dict.fromkeys(found))


# --- files ----------------------------------------------------------------------------------------


def inputs(args: argparse.Namespace) -> list[str]:
    """The files that the command reads."""
    sets = [value_of(args, flag) for flag, score in chosen_scores(args).items() if score.file]
    scores = [word.partition("=")[2] for word in args.segment_scores]
    texts = (*args.ref, args.src, *sets, *system_names(args.hyp).values(), *scores)
    return [path for path in texts if path]


def _outputs(args: argparse.Namespace) -> dict[str, Path]:
    """The files to write beside the printed lines, by flag."""
    json_file = Path(args.json) if args.json and args.json != STANDARD_STREAM else None
    files = {"--latex": args.latex, "--csv": args.csv, "--json": json_file}
    files["--segments"] = args.segments
    return {flag: path for flag, path in files.items() if path is not None}


def _read_all(args: argparse.Namespace, files: Mapping[str, str]) -> Texts:
    """Read all texts, and write the resegmented ones.

    A translation of plain text with one line for each document has whole documents scored only.

    Raises:
        GtransError: a file cannot be read or does not match, or a score is asked for that
            needs aligned sentences where there are none.
    """
    whole: Alignment = "whole" if args.documents_only else "aligned"
    alignment = "resegmented" if args.resegment else whole
    always = args.resegment == "always"
    prepared = _prepared_languages(args.data)[1]
    choice = choice_of(args, target_lang=args.target_lang or prepared)
    texts = read_texts(
        args.ref,
        args.src,
        files,
        alignment,
        choice,
        always,
        args.common_documents,
    )
    if texts.free is not None:
        args.documents_only = True
        _check_documents_only(args, f"{texts.free}, which has one line for each document,")
        print_message(
            f"{texts.free} has one line for each document: no s-BLEU, scores over whole documents "
            "only (--resegment splits it into sentences)"
        )
    if args.resegment_dir:
        written = {f"hyp.{name}.txt": system for name, system in texts.systems.items()}
        for number, reference in enumerate(texts.references, start=1):
            written[f"ref{number if number > 1 else ''}.txt"] = reference
        if texts.sources is not None:
            written["src.txt"] = texts.sources
        write_documents(args.resegment_dir, written, inputs(args))
    return texts


# --- words ----------------------------------------------------------------------------------------


def _prepared_languages(data_dir: str | None) -> tuple[str, str]:
    """Source and target language of a folder made by ``gtrans prepare``, as they are written there.

    Raises:
        GtransError: it was not made so, or not completely.
    """
    if data_dir is None:
        return "", ""
    from gtrans.text.prepared_folder import read_state

    state = read_state(Path(data_dir))
    return state["source_lang"], state["target_lang"]


def _metric_options(args: argparse.Namespace, prepared: str, references: Documents) -> Options:
    """How words are counted: by the target language, by default the one of ``--data``.

    Raises:
        GtransError: there is no such language.
    """
    target_lang = language_code(prepared) or ""
    if args.target_lang:
        target_lang = known_language("--target-lang", args.target_lang)
    without_spaces = target_lang in WITHOUT_SPACES or is_written_without_spaces(references)
    return Options(args.tokenize, target_lang, args.lowercase, without_spaces)


def _chunks(args: argparse.Namespace, texts: Texts, languages: Sequence[str]) -> Corpus:
    """The references with their chunks, and the name of a chunk in signatures.

    ``languages``: of source and target in the prepared folder.
    """
    first, *others = texts.references
    sides = [first] if texts.sources is None else [texts.sources, first]
    per_side = zip(sides, languages[-len(sides) :], strict=True)
    lengths, units = zip(*(_lengths(*side, args.data) for side in per_side), strict=True)
    unit = f"chunk({args.max_doc_tokens},{'+'.join(dict.fromkeys(units))})"
    if texts.sources is None:
        # Other lengths give other chunks and another score, so the signature says which.
        unit += "|lengths:ref"
    pairs = zip(lengths[0], lengths[-1], strict=True)
    chunks = [split_chunks(*pair, args.max_doc_tokens) for pair in pairs]
    return Corpus(first, chunks, unit, others)


def _lengths(documents: Documents, lang: str, data_dir: str | None) -> tuple[list[list[int]], str]:
    """Length of every sentence: in BPE tokens with a prepared folder, otherwise in words.

    Where there are no spaces between words, characters are counted.
    """
    tokens: Callable[[str], str] = str
    unit = "words"
    if data_dir is not None:
        # Imported on demand: most calls need no pipeline, and sacremoses starts slowly.
        from gtrans.text.prepared_folder import load_pipeline

        tokens, unit = load_pipeline(data_dir, lang).encode, "bpe"
    elif is_written_without_spaces(documents):
        tokens, unit = spaced, "characters"
    return [[len(tokens(line).split()) for line in lines] for lines in documents], unit
