"""Score translated documents: BLEU over sentences and documents, chrF, TER, METEOR.

    gtrans score --hyp out.de --ref test.de --target-lang de
    gtrans score --hyp sentence=out1.de document=out2.de --ref test.de --target-lang de

Every score has its full signature and a 95% confidence interval. Further systems are compared with
the first by approximate randomisation of whole documents; p is adjusted for their number (Holm),
and the least difference that would be detected is printed.

Empty lines of the reference (or lines "<d>") separate documents. A translation has the same lines;
an empty line in place of a sentence is an empty translation. A translation without document
boundaries gets the reference's if it has as many sentences. Files may be gzipped. The command needs
text only, so it scores the output of any program.

A translation with one line for each document (`gtrans translate --free`) is recognised by the
number of its lines. It has no sentences to align, so all systems are then scored
over whole documents, as with --documents-only. --resegment splits translations of any layout into
the sentences of the reference.

All files may also be tables or JSON lines with document ids, in any order of documents.

d-BLEU is computed over whole documents, and over chunks: consecutive sentences of a document up to
--max-doc-tokens, which a document model sees at once. See docs/evaluation.md.
"""

from __future__ import annotations

import argparse
import math
import os
import re
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import replace
from functools import partial
from itertools import chain
from pathlib import Path
from typing import NamedTuple

from gtrans.annexes import add_lab_columns
from gtrans.cli.shared.options import add_selection, selection_of
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
    ScoreInput,
    ScoreResult,
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
    """Return the key of a metric, also by its name in sacreBLEU or a paper: BLEU, chrF++."""
    key = re.sub(r"chrf2?(\+\+)?", r"chrf\1", name.lower().replace("-", "_"))
    if key == "bleu":
        return "s_bleu"
    return key.replace("++", "_pp")


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the options."""
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
    add_selection(parser.add_argument_group("files with several texts"), several=True)


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
    chosen = chosen_scores(args)
    # Scores with an option of their own name their metrics once they are computed.
    may_have_more = any(flag != "--segment-scores" for flag in chosen)
    _margins(args, [*_metric_keys(args), *segment_score_files(args)], may_have_more)
    seed()
    for flag, score in chosen.items():
        for name in score.needs:
            if not value_of(args, name):
                raise GtransError(f"{flag} needs {name}; give {' and '.join(score.needs)}")
    has_input = bool(args.src) if _reads_texts(args) else bool(chosen)
    if not args.ref and not has_input:
        raise GtransError(
            "--ref is missing; with --src --segment-scores and COMET without reference need none"
        )
    if not args.ref and args.metrics:
        raise GtransError("--metrics needs the reference; give it with --ref")
    if not args.ref and args.resegment:
        raise GtransError("--resegment needs the reference; give it with --ref")
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
    _check_outputs(args)


def _check_outputs(args: argparse.Namespace) -> None:
    flags: dict[Path, str] = {}
    for flag, path in _outputs(args).items():
        check_output(flag, path, inputs(args))
        check_replaceable(flag, path, _is_own_file, args.force)
        other = flags.setdefault(path.resolve(), flag)
        if other != flag:
            raise GtransError(f"{other} and {flag} are both {path}; give each a file of its own")


def _is_own_file(path: Path) -> bool:
    return begins_with(path, *OWN_FILES)


def _check_documents_only(args: argparse.Namespace, why: str) -> None:
    """Raise GtransError for a score of aligned sentences; ``why`` there are none."""
    for key in args.metrics or ():
        if key in DOCUMENT_METRICS:
            continue
        raise GtransError(
            f"--metrics {key} needs aligned sentences; {why} can have {', '.join(DOCUMENT_METRICS)}"
        )
    for flag, score in chosen_scores(args).items():
        if score.aligned:
            raise GtransError(f"{flag} needs aligned sentences, but {why} has none; leave it out")


def _metric_keys(args: argparse.Namespace) -> list[str]:
    if not args.ref:
        return []
    default = DOCUMENT_METRICS if args.documents_only else METRICS
    return list(args.metrics or default)


def _reads_texts(args: argparse.Namespace) -> bool:
    if args.ref:
        return True
    return any(score.reads_texts for score in chosen_scores(args).values())


def _margins(
    args: argparse.Namespace,
    metrics: Collection[str],
    may_have_more: bool = False,
) -> dict[str, float]:
    """Return the margins of ``--non-inferior`` by metric.

    ``may_have_more``: whether there may be other metrics than ``metrics``.
    """
    margins: dict[str, float] = {}
    for word in args.non_inferior:
        key, _, number = word.rpartition("=")
        key = key or DEFAULT_MARGIN_METRIC
        if key not in metrics and not may_have_more:
            raise GtransError(
                f"--non-inferior: {key} is not among the scores here, which are "
                f"{', '.join(metrics)}; name one of these, or add it by --metrics"
            )
        if not _MARGIN.fullmatch(number) or math.isinf(float(number)):
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
    """Print the scores, and write the files of the options."""
    report, _ = report_of(args)
    for flag, path in _outputs(args).items():
        if flag == "--segments":
            write_rows(path, segments(report), inputs(args))
            continue
        if flag == "--latex":
            content = to_latex(report)
        elif flag == "--csv":
            content = to_csv(report)
        else:
            content = f"{json_text(to_json(report))}\n"
        with atomic_writer(path, inputs(args)) as file:
            file.write(content)
    if args.json == STANDARD_STREAM:
        print(json_text(to_json(report)))
    else:
        print_lines(*to_text(report, args.details))


def report_of(args: argparse.Namespace) -> tuple[Report, Texts]:
    """Return the scores, with intervals and tests, and the texts."""
    _check(args)
    files = system_names(args.hyp)
    languages = _prepared_languages(args.data)
    texts = Texts([], None, {}, [])
    if _reads_texts(args):
        texts = _read_all(args, files, args.target_lang or languages.target)
    first_reference = texts.references[0] if texts.references else None
    options = _metric_options(args, languages.target, first_reference or [])
    report = Report(list(files), coverage=texts.coverage, notes=list(texts.notes))
    report.counts = _counts(texts)
    # First, so that missing files and libraries are reported before the slow work.
    others = _other_scores(args, files, texts, options)
    if texts.references:
        _measure(args, report, texts, options, languages)
    for flag, result in others.items():
        _add_result(args, report, flag, result)
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


def _counts(texts: Texts) -> dict[str, int]:
    counts = {}
    documents = texts.references[0] if texts.references else texts.sources
    if documents:
        counts["sentences"] = sum(map(len, documents))
        counts["documents"] = len(documents)
    if len(texts.references) > 1:
        counts["references"] = len(texts.references)
    return counts


def _other_scores(
    args: argparse.Namespace,
    files: Mapping[str, str],
    texts: Texts,
    options: Options,
) -> dict[str, ScoreResult]:
    score_input = ScoreInput(
        args,
        files,
        sources=texts.sources,
        references=texts.references[0] if texts.references else None,
        systems=texts.systems,
        counted=texts.counted,
        options=options,
    )
    results = {}
    for flag, score in chosen_scores(args).items():
        results[flag] = score.measure(score_input)
    return results


def _add_result(args: argparse.Namespace, report: Report, flag: str, result: ScoreResult) -> None:
    for measurement in result.measurements:
        key = measurement.key
        if key in report.measurements:
            raise GtransError(
                f"{flag}: this command has a score '{key}' of its own; give another name"
            )
        if args.resegment and SCORES[flag].aligned:
            report.resegmented.add(key)
        report.measurements[key] = measurement
        report.details.setdefault(key, result.details)
    report.notes += result.notes
    if result.lines:
        report.tables.append(result.lines)


def _measure(
    args: argparse.Namespace,
    report: Report,
    texts: Texts,
    options: Options,
    languages: _Languages,
) -> None:
    keys = _metric_keys(args)
    first, *others = texts.references
    if args.documents_only:
        whole_documents = [[range(len(document))] for document in first]
        corpus = Corpus(first, whole_documents, others=others)
    else:
        corpus = _corpus_of_chunks(args, texts, languages)
        report.counts["chunks"] = sum(map(len, corpus.chunks))
    report.notes += _notes_on_text(texts.systems, keys, options)
    report.notes += _implausible(args, texts, options)
    jobs = min(8, os.cpu_count() or 1)
    report.measurements = measure(corpus, texts.systems, keys, options, jobs)
    if args.resegment:
        report.resegmented |= set(report.measurements)
    s_bleu = report.measurements.get("s_bleu")
    if s_bleu:
        test = None
        if args.test_parts:
            test = partial(resample, unit=args.resample, all_tests=args.all_tests)
        report.parts = by_part(s_bleu, token_counts(first, options), test)


def _notes_on_text(
    systems: Mapping[str, Documents],
    keys: Sequence[str],
    options: Options,
) -> list[str]:
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
    paths = system_names(args.hyp)
    lang = options.target_lang
    first = texts.references[0]
    reference = TextSample.of(args.ref[0], lang, first)
    reference = replace(reference, documents=len(first))
    source = None
    if texts.sources is not None:
        source = TextSample.of(args.src, "", texts.sources)
    is_aligned = not args.documents_only and not args.resegment
    needs_boundaries = is_aligned and is_plain(args.ref[0]) and len(first) > 1
    warnings: list[str] = []
    for name, documents in texts.systems.items():
        translation = TextSample.of(paths[name], lang, documents)
        if needs_boundaries and not has_boundaries(paths[name]):
            translation = replace(translation, documents=1)
        warnings += implausible(source, reference, translation, plain=False)
    return list(dict.fromkeys(warnings))


# --- files ----------------------------------------------------------------------------------------


def inputs(args: argparse.Namespace) -> list[str]:
    """Return the files that the command reads."""
    paths = [*args.ref, args.src]
    for flag, score in chosen_scores(args).items():
        if score.file:
            paths.append(value_of(args, flag))
    paths += system_names(args.hyp).values()
    paths += [word.partition("=")[2] for word in args.segment_scores]
    return list(filter(None, paths))


def _outputs(args: argparse.Namespace) -> dict[str, Path]:
    outputs = {}
    if args.latex is not None:
        outputs["--latex"] = args.latex
    if args.csv is not None:
        outputs["--csv"] = args.csv
    if args.json and args.json != STANDARD_STREAM:
        outputs["--json"] = Path(args.json)
    if args.segments is not None:
        outputs["--segments"] = args.segments
    return outputs


def _read_all(args: argparse.Namespace, files: Mapping[str, str], target_lang: str) -> Texts:
    """Read all texts, and write the resegmented ones.

    Sets ``args.documents_only`` if a translation has one line for each document.
    """
    alignment: Alignment = "aligned"
    if args.resegment:
        alignment = "resegmented"
    elif args.documents_only:
        alignment = "whole"
    texts = read_texts(
        args.ref,
        args.src,
        files,
        alignment,
        selection_of(args, target_lang=target_lang),
        always_resegment=args.resegment == "always",
        only_common=args.common_documents,
    )
    path = texts.whole_documents_file
    if path is not None:
        args.documents_only = True
        _check_documents_only(args, f"{path}, which has one line for each document,")
        print_message(
            f"{path} has one line for each document: no s-BLEU, scores over whole documents "
            "only (--resegment splits it into sentences)"
        )
    if args.resegment_dir:
        _write_resegmented(args, texts)
    return texts


def _write_resegmented(args: argparse.Namespace, texts: Texts) -> None:
    documents = {}
    for name, system in texts.systems.items():
        documents[f"hyp.{name}.txt"] = system
    documents["ref.txt"] = texts.references[0]
    for number, reference in enumerate(texts.references[1:], start=2):
        documents[f"ref{number}.txt"] = reference
    if texts.sources is not None:
        documents["src.txt"] = texts.sources
    write_documents(args.resegment_dir, documents, inputs(args))


# --- words ----------------------------------------------------------------------------------------


class _Languages(NamedTuple):
    source: str = ""
    target: str = ""


def _prepared_languages(data_dir: str | None) -> _Languages:
    if data_dir is None:
        return _Languages()
    from gtrans.text.prepared_folder import read_state

    state = read_state(Path(data_dir))
    return _Languages(state["source_lang"], state["target_lang"])


def _metric_options(args: argparse.Namespace, prepared: str, references: Documents) -> Options:
    target_lang = language_code(prepared) or ""
    if args.target_lang:
        target_lang = known_language("--target-lang", args.target_lang)
    without_spaces = target_lang in WITHOUT_SPACES or is_written_without_spaces(references)
    return Options(args.tokenize, target_lang, args.lowercase, without_spaces)


class _Lengths(NamedTuple):
    documents: list[list[int]]
    unit: str


def _corpus_of_chunks(args: argparse.Namespace, texts: Texts, languages: _Languages) -> Corpus:
    """Return the references with chunks by the lengths of both sides, if there are sources."""
    first, *others = texts.references
    target = _lengths(first, languages.target, args.data)
    source = target
    if texts.sources is not None:
        source = _lengths(texts.sources, languages.source, args.data)
    units = "+".join(dict.fromkeys([source.unit, target.unit]))
    chunk_unit = f"chunk({args.max_doc_tokens},{units})"
    if texts.sources is None:
        # Other lengths give other chunks and another score, so the signature names them.
        chunk_unit += "|lengths:ref"
    chunks = []
    for source_lengths, target_lengths in zip(source.documents, target.documents, strict=True):
        chunks.append(split_chunks(source_lengths, target_lengths, args.max_doc_tokens))
    return Corpus(first, chunks, chunk_unit, others)


def _lengths(documents: Documents, lang: str, data_dir: str | None) -> _Lengths:
    """Return lengths in BPE tokens of a prepared folder, else in words.

    Without spaces between words, characters are counted.
    """
    tokenise: Callable[[str], str] = str
    unit = "words"
    if data_dir is not None:
        # Imported on demand: most calls need no pipeline, and sacremoses starts slowly.
        from gtrans.text.prepared_folder import load_pipeline

        tokenise = load_pipeline(data_dir, lang).encode
        unit = "bpe"
    elif is_written_without_spaces(documents):
        tokenise = spaced
        unit = "characters"
    lengths = []
    for document in documents:
        lengths.append([len(tokenise(sentence).split()) for sentence in document])
    return _Lengths(lengths, unit)
