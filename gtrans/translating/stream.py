"""Translation of the standard input, document by document."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import NamedTuple

from gtrans.data.documents import STANDARD_STREAM, check_length, iterate_raw_lines
from gtrans.search.options import DecodingOptions
from gtrans.text.document_file import DocumentIds, sentence_numbers
from gtrans.text.reader import NumberedLine, check_plain, is_boundary, notice_running_text
from gtrans.translating.output import as_lines, best_of, json_lines, write_out
from gtrans.translating.translator import Translator


def translate_stream(translator: Translator, options: DecodingOptions) -> None:
    """Translate the standard input to the standard output.

    A document is written when an empty line, ``<d>`` or the end of the input closes it.
    """
    has_boundaries = not options.nbest and not options.search.free
    for part in _parts_of_stream():
        if isinstance(part, StreamedDocument):
            lines = _lines_of(part, translator, options)
            write_out(as_lines(lines))
        elif has_boundaries:
            write_out(as_lines([part]))


class StreamedDocument(NamedTuple):
    """A document of a stream; ``places``: the line of each sentence, for messages."""

    number: int
    sentences: list[str]
    places: list[str]


def _parts_of_stream() -> Iterator[StreamedDocument | str]:
    first: list[NumberedLine] = []  # all lines up to the end of the first document
    document = StreamedDocument(1, [], [])
    lines = iterate_raw_lines(STANDARD_STREAM, once=True)
    for number, line in enumerate(lines, start=1):
        if document.number == 1:
            first.append((number, line))
        if not is_boundary(line):
            check_length("standard input", number, line)
            document.sentences.append(line)
            document.places.append(f"standard input:{number}")
            continue
        if document.sentences:
            _check_first(document, first)
            yield document
            document = StreamedDocument(document.number + 1, [], [])
        yield line
    if document.sentences:
        _check_first(document, first)
        yield document


def _check_first(document: StreamedDocument, lines: Sequence[NumberedLine]) -> None:
    if document.number == 1:
        check_plain("standard input", lines)
        notice_running_text("standard input", document.sentences)


def _lines_of(
    document: StreamedDocument, translator: Translator, options: DecodingOptions
) -> list[str]:
    sentences = document.sentences
    translations = translator.alternatives([sentences], document.places)
    if not options.nbest:
        return best_of(translations)[0]
    ids = DocumentIds(str(document.number), sentence_numbers(sentences))
    return json_lines([ids], [sentences], translations)
