"""What ``gtrans score`` reads: references, source and translations, in any layout."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from tempfile import TemporaryDirectory

from gtrans.cli.shared.reading import choice_of
from gtrans.cli.shared.score_options import check_documents_only
from gtrans.cli.shared.system_names import system_names
from gtrans.data.documents import STANDARD_STREAM
from gtrans.decoding.resuming import read_record
from gtrans.errors import GtransError
from gtrans.evaluation.columns import chosen_columns, value_of
from gtrans.evaluation.coverage import write_documents
from gtrans.evaluation.report import Report
from gtrans.evaluation.resegment import SIGNATURE
from gtrans.evaluation.texts import (
    Alignment,
    Texts,
    document_sizes,
    has_a_line_for_each_document,
    read_texts,
)
from gtrans.identity.files import binary_writer
from gtrans.messages import say
from gtrans.text.reader import Choice, open_text


@contextmanager
def standard_input_as_file(files: Mapping[str, str]) -> Iterator[dict[str, str]]:
    """The files of the systems, with the standard input, if it is one, in a temporary file.

    A translation is read several times, which the standard input does not allow. Messages name
    the standard input.
    """
    with TemporaryDirectory() as folder:
        copy = Path(folder) / "standard-input"
        if STANDARD_STREAM in files.values():
            with binary_writer(copy) as file:
                file.write(sys.stdin.buffer.read())
        try:
            yield {
                name: str(copy) if path == STANDARD_STREAM else path for name, path in files.items()
            }
        except GtransError as error:
            raise GtransError(str(error).replace(str(copy), "standard input")) from None


def inputs(args: argparse.Namespace) -> list[str]:
    """The files that the command reads."""
    sets = [value for flag in chosen_columns(args) if (value := value_of(args, flag)) is not True]
    texts = (*args.ref, args.src, *sets, *system_names(args.hyp).values())
    scores = [argument.partition("=")[2] for argument in args.segment_scores]
    return [path for path in (*texts, *scores) if path and path != STANDARD_STREAM]


def read_all(args: argparse.Namespace, files: Mapping[str, str]) -> Texts:
    """Read all texts, and write the resegmented ones.

    Raises:
        GtransError: a file cannot be read or does not match, or a score is asked for that
            needs aligned sentences where there are none.
    """
    choice = choice_of(args)
    if not (args.documents_only or args.resegment):
        _notice_free_translations(args, files, choice)
    alignment: Alignment = "whole" if args.documents_only else "aligned"
    alignment = "resegmented" if args.resegment else alignment
    texts = read_texts(args.ref, args.src, files, alignment, choice)
    if args.resegment_dir:
        numbers = ["", *map(str, range(2, len(texts.references) + 1))]
        written = {f"hyp.{name}.txt": documents for name, documents in texts.systems.items()}
        written |= {f"ref{n}.txt": one for n, one in zip(numbers, texts.references, strict=True)}
        if texts.sources is not None:
            written["src.txt"] = texts.sources
        write_documents(args.resegment_dir, written, inputs(args))
    return texts


def report_on(texts: Texts) -> Report:
    """A report on these texts, without scores so far."""
    return Report(list(texts.systems), coverage=dict(texts.coverage), notes=list(texts.notes))


def sign_resegmented(report: Report) -> None:
    """Mark all scores so far as those of resegmented translations, also in their signatures."""
    report.measurements = {
        key: replace(measurement, signature=f"{measurement.signature}|{SIGNATURE}")
        for key, measurement in report.measurements.items()
    }
    report.resegmented = set(report.measurements)


def _notice_free_translations(
    args: argparse.Namespace, files: Mapping[str, str], choice: Choice
) -> None:
    """Score whole documents if a translation has one line for each.

    Raises:
        GtransError: a score is asked for that needs aligned sentences.
    """
    main = args.ref[0] if args.ref else args.src
    sizes = document_sizes(main, "reference" if args.ref else "source", choice)
    free = next((name for name, path in files.items() if _is_free(path, sizes)), None)
    if free is not None:
        args.documents_only = True
        path = system_names(args.hyp)[free]
        check_documents_only(args, f"{path}, which has one line for each document,")
        say(
            f"{path} has one line for each document: no s-BLEU, scores over whole documents only "
            "(--resegment splits it into sentences)"
        )


def _is_free(path: str, sizes: Sequence[int]) -> bool:
    """Whether a translation of plain text has one line for each document."""
    if open_text(path).has_ids:
        return False
    try:
        record = read_record(path)
    except GtransError:  # another program's file beside it
        record = None
    if record is not None and record.describes(path):
        return bool(record.made_from.get("search", {}).get("free"))
    return has_a_line_for_each_document(path, sizes)
