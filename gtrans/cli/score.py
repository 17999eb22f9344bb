"""Score translated documents: BLEU over sentences and documents, chrF, TER, METEOR.

Every score has its full signature and a 95% confidence interval. If there are several
systems, three significance tests compare each with the first. Whole documents are resampled.

The empty lines of the reference (or its lines "<d>") separate the documents. A translation
has the same lines; where the reference has a sentence and the translation an empty line, the
translation of that sentence is empty. A translation without document boundaries gets those
of the reference if it has as many sentences. Files may be gzipped. The command needs text
only, so it scores the output of any program.

A translation with one line for each document (`gtrans translate --free`) is recognised by its
record or by the number of its lines. It has no sentences to align, so all systems are then scored
over whole documents, as with --documents-only.

d-BLEU is computed over whole documents, and over instances: consecutive sentences of a
document up to --max-doc-tokens, as a document model reads them. See docs/evaluation.md.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from gtrans.cli.shared.score_options import (
    CONSISTENCY,
    add_arguments,
    check_documents_only,
    check_values,
    system_names,
)
from gtrans.data.documents import read_documents, read_parallel
from gtrans.data.instances import split_instances
from gtrans.decoding.translation_record import read_record
from gtrans.errors import GtransError
from gtrans.evaluation import buckets, ctxpro, external
from gtrans.evaluation.consistency import ConsistencyJudge, signature
from gtrans.evaluation.hypotheses import (
    has_a_line_for_each_document,
    read_hypotheses,
    read_hypothesis_documents,
)
from gtrans.evaluation.report import Report, to_json, to_text
from gtrans.evaluation.scores import (
    DEFAULT_METRICS,
    DOCUMENT_METRICS,
    Corpus,
    Documents,
    Measurement,
    Options,
    build_bleu,
    measure,
    tokenized_lines,
)
from gtrans.evaluation.significance import resample
from gtrans.messages import json_text, print_lines, say

EXAMPLE = (
    "gtrans score --hyp sentence=out1.de document=out2.de --ref test.de --src test.en "
    "--target-lang de"
)
NEEDS = ()

# With fewer units even the largest difference has p = 2 / 2**units > 0.05.
MIN_UNITS_FOR_RANDOMISATION = 6
FEW_UNITS = 20
SLOW_FOR_TER = 10_000  # sentences of all systems; about a minute on one core

__all__ = ["EXAMPLE", "add_arguments", "run"]


def run(args: argparse.Namespace) -> None:
    """Print the scores.

    Raises:
        GtransError: a file is missing, is not UTF-8 or does not match the reference, or
            an option has an impossible value.
    """
    check_values(args)
    if args.data and not args.target_lang:
        args.target_lang = _languages(args.data)[1]
    texts = system_names(args.hyp)
    if args.ref and not args.documents_only:
        _notice_free_translations(args, texts.values())
    read = read_hypothesis_documents if args.documents_only else read_hypotheses
    report = Report(list(texts))
    if args.ctxpro:
        _look_for_expected_words(args, report, texts)
    if args.ref:
        systems: dict[str, Documents] = {name: read(path, args.ref) for name, path in texts.items()}
        _compare_with_reference(args, report, systems)
    _resample(args, report)
    if args.json:
        print(json_text(to_json(report)))
    else:
        print_lines(*to_text(report, args.details))


def _look_for_expected_words(
    args: argparse.Namespace, report: Report, texts: Mapping[str, str]
) -> None:
    """The score of ctxpro, in all and by rule."""
    examples = ctxpro.read_examples(args.ctxpro)
    answers = {
        name: ctxpro.read_translations(path, len(examples), args.ctxpro)
        for name, path in texts.items()
    }
    measured = ctxpro.measure(examples, answers)
    report.measurements[ctxpro.KEY] = measured
    report.by_rule = ctxpro.by_rule(examples, measured)


def _resample(args: argparse.Namespace, report: Report) -> None:
    """Intervals and tests of all measurements."""
    for key, measurement in report.measurements.items():
        report.resampled[key] = resample(
            measurement,
            args.resample,
            bootstrap_trials=args.bootstrap_trials,
            randomisation_trials=args.randomisation_trials,
        )
    if args.resample != "none":
        report.notes += _resampling_notes(report)


def _notice_free_translations(args: argparse.Namespace, paths: Iterable[str]) -> None:
    """Score whole documents if a translation has one line for each.

    Raises:
        GtransError: a score is asked for that needs aligned sentences.
    """
    free = next((path for path in paths if _is_free(path, args.ref)), None)
    if free is not None:
        args.documents_only = True
        check_documents_only(args, f"{free}, which has one line for each document,")
        say(f"{free} has one line for each document: no s-BLEU, scores over whole documents only")


def _is_free(path: str, reference: str) -> bool:
    """Whether a translation has one line for each document."""
    try:
        record = read_record(path)
    except GtransError:  # another program's file beside it
        record = None
    if record is not None and record.describes(path):
        return bool(record.made_from.get("search", {}).get("free"))
    return has_a_line_for_each_document(path, reference)


def _inputs(args: argparse.Namespace) -> list[str]:
    """The files that the command reads."""
    texts = (args.ref, args.src, *system_names(args.hyp).values())
    return [path for path in texts if path]


def _compare_with_reference(
    args: argparse.Namespace, report: Report, systems: Mapping[str, Documents]
) -> None:
    """Everything but ctxpro."""
    references: Documents = read_documents(args.ref)
    sources: Documents | None = None
    if args.src:
        sources = [source for source, _ in read_parallel(args.src, args.ref)]
    report.counts = {"sentences": sum(map(len, references)), "documents": len(references)}
    options = Options(args.tokenize, args.target_lang, args.lowercase)
    for name, documents in systems.items():
        if lines := tokenized_lines(documents):
            report.notes.append(
                f"{name}: {lines} sentences end in a space and a full stop; is this tokenised "
                "text? Scores are meant for detokenised text"
            )
    wanted = args.metrics or (DOCUMENT_METRICS if args.documents_only else DEFAULT_METRICS)
    keys = [key for key in wanted if key != CONSISTENCY]
    if args.documents_only:
        corpus = Corpus(references, [[range(len(document))] for document in references])
    else:
        corpus = _corpus(args, references, sources)
        report.counts["instances"] = sum(map(len, corpus.instances))
    # First, so that a missing input of a tool is reported before the slow work.
    by_tools = _run_tools(args, report, external.Texts(sources, references, systems, _inputs(args)))
    if "ter" in keys and report.counts["sentences"] * len(systems) >= SLOW_FOR_TER:
        say("gtrans: TER takes some milliseconds per sentence; --metrics leaves it out")
    report.measurements |= measure(corpus, systems, keys, options, args.jobs) | by_tools
    _put_in_buckets(args, report, references)
    consistency_wanted = CONSISTENCY in args.metrics if args.metrics else not args.documents_only
    if sources is not None and consistency_wanted:
        _judge_consistency(report, sources, references, systems, options)


def _corpus(args: argparse.Namespace, references: Documents, sources: Documents | None) -> Corpus:
    """The references with their instances, and the name of an instance in signatures."""
    counted_in = "bpe" if args.data else "words"
    unit = f"instance({args.max_doc_tokens},{counted_in})"
    if sources is None:
        # Other lengths give other instances and another score, so the signature says which.
        unit += "|lengths:ref"
    source_lang, target_lang = _languages(args.data) if args.data else ("", "")
    target_lengths = _lengths(references, args.data, target_lang)
    source_lengths = (
        target_lengths if sources is None else _lengths(sources, args.data, source_lang)
    )
    instances = [
        split_instances(source, target, args.max_doc_tokens)
        for source, target in zip(source_lengths, target_lengths, strict=True)
    ]
    return Corpus(references, instances, unit)


def _languages(data_dir: str) -> tuple[str, str]:
    """Source and target language of a folder made by ``gtrans prepare``.

    Raises:
        GtransError: it was not made so, or not completely.
    """
    from gtrans.text.prepared_folder import read_state

    state = read_state(Path(data_dir))
    return state["source_lang"], state["target_lang"]


def _lengths(documents: Documents, data_dir: str | None, lang: str) -> list[list[int]]:
    """Tokens per sentence: BPE tokens with a prepared folder, otherwise words."""
    if data_dir is None:
        return [[len(sentence.split()) for sentence in document] for document in documents]
    # Imported on demand: most calls need no pipeline, and sacremoses starts slowly.
    from gtrans.text.prepared_folder import load_pipeline

    pipeline = load_pipeline(data_dir, lang)
    return [
        [len(pipeline.encode(sentence).split()) for sentence in document] for document in documents
    ]


def _put_in_buckets(args: argparse.Namespace, report: Report, references: Documents) -> None:
    found = report.measurements
    if "s_bleu" in found:
        report.buckets["by_position"] = buckets.by_position(found["s_bleu"], args.positions)
        report.buckets["by_sentence_length"] = buckets.by_sentence_length(
            found["s_bleu"], args.sentence_lengths
        )
    if bleu := [found[key] for key in ("s_bleu", "d_bleu") if key in found]:
        report.buckets["by_document_length"] = buckets.by_document_length(
            bleu, [len(document) for document in references], args.document_lengths
        )


def _judge_consistency(
    report: Report,
    sources: Documents,
    references: Documents,
    systems: Mapping[str, Documents],
    options: Options,
) -> None:
    tokenizer = build_bleu(options).tokenizer
    report.consistency_signature = signature(tokenizer.signature(), options.target_lang)
    judge = ConsistencyJudge(sources, references, tokenizer, options.target_lang)
    report.consistency_of_reference = judge.judge(references)
    report.consistency = {name: judge.judge(documents) for name, documents in systems.items()}


def _run_tools(
    args: argparse.Namespace, report: Report, texts: external.Texts
) -> dict[str, Measurement]:
    """Write the texts for the requested tools, and read the scores that they have written.

    Returns:
        the scores that are available by sentence; all others are put into the report.
    """
    folder: Path = args.external_dir
    found = {}
    for key, wanted in (("comet", args.comet), ("doc_comet", args.doc_comet)):
        if wanted:
            comet_folder = folder / key.replace("_", "-") / args.comet_model.replace("/", "_")
            instructions, measured = external.comet(
                comet_folder, texts, args.comet_model, context=key == "doc_comet"
            )
            if measured is None:
                report.pending[key] = instructions
            else:
                found[key] = measured
    if args.blonde:
        instructions, scores = external.blonde(folder / "blonde", texts, args.target_lang)
        _add_tool(report, "blonde", instructions, scores)
    return found


def _add_tool(
    report: Report,
    key: str,
    instructions: external.Instructions,
    scores: Mapping[str, Mapping[str, Any]] | None,
) -> None:
    if scores is None:
        report.pending[key] = instructions
    else:
        report.tools[key] = scores


def _resampling_notes(report: Report) -> list[str]:
    """Warnings for a corpus with few units to resample."""
    kinds = {resampled.unit: resampled.units for resampled in report.resampled.values()}
    notes = []
    for unit, units in kinds.items():
        if units == 1:
            notes.append(
                f"a single {unit} cannot be resampled, so there is no interval and no resampling "
                "test; --resample sentence resamples sentences as if they were independent"
            )
        elif units < FEW_UNITS:
            notes.append(f"an interval from {units} {unit}s is rough, and often too narrow")
        if 1 < units < MIN_UNITS_FOR_RANDOMISATION and len(report.systems) > 1:
            notes.append(
                f"with {units} {unit}s randomisation cannot reach p < 0.05, however large the "
                f"difference: its smallest p is {2 / 2**units:.3g}"
            )
    return notes
