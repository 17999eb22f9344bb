"""Translates documents as they come: ``gtrans translate --stream``, for pipes."""

from __future__ import annotations

from gtrans.data.documents import STANDARD_STREAM, check_length, iterate_raw_lines
from gtrans.decoding.alternatives import json_lines
from gtrans.decoding.translation import write_out
from gtrans.decoding.translation_options import DecodingOptions
from gtrans.decoding.translator import Translator
from gtrans.text.reader import check_plain, is_boundary


def translate_stream(options: DecodingOptions) -> int:
    """Translate the standard input to the standard output; returns the number of sentences.

    A document is translated and written as soon as an empty line, ``<d>`` or the end of the input
    closes it. The lines are those of :func:`gtrans.decoding.translation.translate`.

    Raises:
        GtransError: as for :func:`gtrans.decoding.translation.translate`. What was finished by
            then is written.
    """
    translator = Translator.of(options)
    document: list[str] = []
    places: list[str] = []
    first: list[tuple[int, str]] = []  # all lines up to the end of the first document
    sentences = documents = 0

    def finish() -> None:
        nonlocal sentences, documents
        if not document:
            return
        if not documents:
            check_plain("standard input", first)
        documents += 1
        (translations,) = translator.translated([document], places)
        written = translations
        if options.nbest:
            ids = [str(number) for number in range(1, len(document) + 1)]
            written = json_lines([(str(documents), ids)], [document], [translations])
        write_out("".join(f"{line}\n" for line in written).encode())
        sentences += len(document)
        document.clear()
        places.clear()

    for number, line in enumerate(iterate_raw_lines(STANDARD_STREAM, once=True), start=1):
        if not documents:
            first.append((number, line))
        if not is_boundary(line):
            check_length("standard input", number, line)
            document.append(line)
            places.append(f"standard input:{number}")
            continue
        finish()
        if not options.nbest and not options.search.free:
            write_out(f"{line}\n".encode())
    finish()
    return sentences
