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
over whole documents, as with --documents-only. With --resegment, translations of any layout are
split into the sentences of the reference.

All files may also be tables or JSON lines with document ids, in any order of documents.

d-BLEU is computed over whole documents, and over instances: consecutive sentences of a
document up to --max-doc-tokens, as a document model reads them. See docs/evaluation.md.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from itertools import chain
from pathlib import Path

from gtrans.cli.shared.score_options import (
    add_arguments,
    check_values,
    compares_texts,
    margins_of,
    measured,
    not_among_the_scores,
)
from gtrans.cli.shared.score_texts import (
    inputs,
    read_all,
    report_on,
    sign_resegmented,
    standard_input_as_file,
)
from gtrans.cli.shared.score_words import instances, metric_options
from gtrans.cli.shared.system_names import system_names
from gtrans.data.documents import STANDARD_STREAM
from gtrans.errors import GtransError
from gtrans.evaluation import buckets
from gtrans.evaluation.columns import Given, chosen_columns
from gtrans.evaluation.comet import comet
from gtrans.evaluation.metrics import (
    METRICS,
    Documents,
    Options,
    counts_words_by_spaces,
    token_counts,
)
from gtrans.evaluation.moses_tokens import check_unescaped
from gtrans.evaluation.report import Report, to_json, to_text
from gtrans.evaluation.resegment import SIGNATURE
from gtrans.evaluation.scores import Corpus, Measurement, measure
from gtrans.evaluation.segment_scores import read_segment_scores
from gtrans.evaluation.significance import Resampling, resample
from gtrans.evaluation.tables import to_csv, to_latex
from gtrans.evaluation.texts import Texts
from gtrans.identity.files import atomic_writer, check_output, check_output_folder
from gtrans.messages import about_interval, json_text, print_lines, say
from gtrans.text.plain_text import not_plain

EXAMPLE = (
    "gtrans score --hyp sentence=out1.de document=out2.de --ref test.de --src test.en "
    "--target-lang de"
)
NEEDS = ()

# With fewer units even the largest difference has p = 2 / 2**units > 0.05.
MIN_UNITS_FOR_RANDOMISATION = 6
SLOW_FOR_TER = 10_000  # sentences of all systems; half a minute for free translations

__all__ = ["EXAMPLE", "add_arguments", "report_of", "run"]


def run(args: argparse.Namespace) -> None:
    """Print the scores.

    Raises:
        GtransError: a file is missing, is not UTF-8 or does not match the reference, or
            an option has an impossible value.
    """
    report = report_of(args)
    _write_tables(args, report)
    if args.json == STANDARD_STREAM:
        print(json_text(to_json(report)))
    else:
        print_lines(*to_text(report, args.details))


def report_of(args: argparse.Namespace) -> Report:
    """The scores, with intervals and tests.

    Args:
        args: the options of ``gtrans score``.

    Raises:
        GtransError: as for :func:`run`.
    """
    check_values(args)
    _check_outputs(args)
    if args.resegment_dir:
        check_output_folder("--resegment-dir", args.resegment_dir)
    with standard_input_as_file(system_names(args.hyp)) as files:
        texts = read_all(args, files) if compares_texts(args) else None
        report = Report(list(files)) if texts is None else report_on(texts)
        given = Given(args, files, None, None, {}, Options())
        if texts is not None:
            given = replace(_score(args, report, texts), files=files)
        _add_columns(args, report, given)
    _resample(args, report)
    return report


def _outputs(args: argparse.Namespace) -> dict[str, Path]:
    """The files to write besides what is printed, by flag."""
    json_file = None if args.json in (None, STANDARD_STREAM) else Path(args.json)
    files = {"--latex": args.latex, "--csv": args.csv, "--json": json_file}
    return {flag: path for flag, path in files.items() if path is not None}


def _check_outputs(args: argparse.Namespace) -> None:
    flags: dict[Path, str] = {}
    for flag, path in _outputs(args).items():
        check_output(flag, path, inputs(args))
        other = flags.setdefault(path.resolve(), flag)
        if other != flag:
            raise GtransError(f"{other} and {flag} are both {path}; give each a file of its own")


def _write_tables(args: argparse.Namespace, report: Report) -> None:
    tables = {"--latex": to_latex, "--csv": to_csv, "--json": _json_lines}
    for flag, path in _outputs(args).items():
        with atomic_writer(path, inputs(args)) as file:
            file.write(tables[flag](report))


def _json_lines(report: Report) -> str:
    return f"{json_text(to_json(report))}\n"


def _score(args: argparse.Namespace, report: Report, given: Texts) -> Given:
    """Everything but the columns of :mod:`gtrans.lab`; returns what they are measured from."""
    options = metric_options(args, next(iter(given.references), []))
    shape = [*map(len, [*given.references, given.sources or []][0])]
    report.counts = {"sentences": sum(shape), "documents": len(shape)}
    if len(given.references) > 1:
        report.counts["references"] = len(given.references)
    # First, so that what is missing is reported before the slow work.
    from_files = read_segment_scores(
        args.segment_scores, list(given.systems), given.counted, args.lower_is_better
    )
    of_comet = _comet(args, given)
    columns = [key for column in chosen_columns(args).values() for key in column.keys]
    for key in (*of_comet, *columns):
        if key in from_files:
            raise GtransError(
                f"--segment-scores {key}=FILE: this command has a score '{key}' of its own; give "
                "another name"
            )
    if given.references:
        if options.given_tokens:
            for name, documents in given.systems.items():
                check_unescaped(name, documents, given.references[0])
        _measure(args, report, given, options)
    report.measurements |= of_comet
    if args.resegment:
        sign_resegmented(report)
    report.measurements |= from_files
    if given.references[1:] and of_comet:
        report.notes.append(
            "COMET reads the first reference only; the other scores use "
            f"all {len(given.references)}"
        )
    reference = next(iter(given.references), None)
    return Given(args, {}, given.sources, reference, given.systems, options)


def _add_columns(args: argparse.Namespace, report: Report, given: Given) -> None:
    """The scores of :mod:`gtrans.lab` whose options are given."""
    for column in chosen_columns(args).values():
        found = column.measure(given)
        for measurement in found.measurements:
            if args.resegment and column.aligned:
                report.resegmented.add(measurement.key)
                marked = f"{measurement.signature}|{SIGNATURE}"
                measurement = replace(measurement, signature=marked)
            report.measurements[measurement.key] = measurement
        report.notes += found.notes
        if found.measurements:
            report.column_details[column.keys[0]] = found.details
        report.column_lines += [found.lines] if found.lines else []


def _comet(args: argparse.Namespace, given: Texts) -> dict[str, Measurement]:
    """The scores of ``--comet`` and ``--doc-comet`` by their keys."""
    found: dict[str, Measurement] = {}
    for flag, models in (("--comet", args.comet), ("--doc-comet", args.doc_comet)):
        for model in models or ():
            if given.sources is None:
                raise GtransError(f"{flag} needs the source; give it with --src")
            reference = next(iter(given.references), None)
            score = comet(model, given.sources, reference, given.systems, flag == "--doc-comet")
            if score.key in found:
                raise GtransError(
                    f"{flag} {' '.join(models)}: give one model with a reference and one without "
                    "at most"
                )
            found[score.key] = score
    return found


def _compare(args: argparse.Namespace) -> Callable[..., Resampling]:
    """Intervals and tests of a measurement, as the options want them."""
    return partial(
        resample,
        unit=args.resample,
        bootstrap_trials=args.bootstrap_trials,
        randomisation_trials=args.randomisation_trials,
    )


def _resample(args: argparse.Namespace, report: Report) -> None:
    """Intervals and tests of all measurements."""
    margins = margins_of(args)
    missing = [key for key in margins if key not in report.measurements]
    if missing:
        raise GtransError(not_among_the_scores(missing[0], report.measurements))
    for key, measurement in report.measurements.items():
        report.resampled[key] = _compare(args)(measurement, margin=margins.get(key))
    if args.resample != "none":
        report.notes += _resampling_notes(report)


def _measure(
    args: argparse.Namespace,
    report: Report,
    texts: Texts,
    options: Options,
) -> None:
    """The metrics that compare with the references, on all of the corpus and on its parts."""
    keys = measured(args)
    first, *others = texts.references
    if args.documents_only:
        corpus = Corpus(first, [[range(len(document))] for document in first], others=others)
    else:
        corpus = replace(instances(args, first, texts.sources), others=others)
        report.counts["instances"] = sum(map(len, corpus.instances))
    if "ter" in keys and report.counts["sentences"] * len(texts.systems) >= SLOW_FOR_TER:
        say("gtrans: TER takes some milliseconds per sentence; --metrics leaves it out")
    report.notes += _notes_on_text(texts.systems, keys, options)
    report.measurements = measure(corpus, texts.systems, keys, options, args.jobs)
    _put_in_buckets(args, report, first, options)


def _notes_on_text(
    systems: Mapping[str, Documents], keys: Sequence[str], options: Options
) -> list[str]:
    """Warnings about text that the tokeniser is not meant for."""
    notes = []
    plain = options.tokenize != "none" and not options.given_tokens
    for name, documents in systems.items():
        if plain:
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


def _put_in_buckets(
    args: argparse.Namespace, report: Report, references: Documents, options: Options
) -> None:
    found = report.measurements
    compare = _compare(args) if args.test_parts else None
    if "s_bleu" in found:
        report.buckets["by_position"] = buckets.by_position(found["s_bleu"], compare=compare)
        report.buckets["by_sentence_length"] = buckets.by_sentence_length(
            found["s_bleu"], token_counts(references, options), args.sentence_lengths, compare
        )


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
        else:
            notes += about_interval(units, f"{unit}s")
        if 1 < units < MIN_UNITS_FOR_RANDOMISATION and len(report.systems) > 1:
            notes.append(
                f"with {units} {unit}s randomisation cannot reach p < 0.05, however large the "
                f"difference: its smallest p is {2 / 2**units:.3g}"
            )
    return notes
