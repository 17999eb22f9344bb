"""Bring translations to the documents and sentences of their reference.

A file of translations may hold empty ones, and may have lost its document boundaries.
What cannot be matched for certain is refused: a score over shifted sentences still
looks like a score.
"""

from __future__ import annotations

import os
from itertools import accumulate, islice

from gtrans.data.documents import (
    Document,
    iterate_lines,
    iterate_raw_lines,
    read_documents,
    read_parallel,
)
from gtrans.errors import GtransError

_WAY_OUT = "--documents-only scores documents without pairs of sentences"


def read_hypotheses(
    path: str | os.PathLike[str], reference_path: str | os.PathLike[str]
) -> list[Document]:
    """Read translations as documents of the reference's shape.

    Three readings, of which the first that fits is taken:

    1. line by line: every translation stands at the line of a sentence of the reference,
       and the file reaches the line of the last one. Where the reference has a sentence
       and the translation an empty line, the translation is empty;
    2. by sentences: no boundary between documents, and as many sentences as the reference;
    3. by documents: the same numbers of sentences in the documents of both files.

    They cannot contradict each other: where two of them fit, no translation is empty,
    and sentences are matched in order.

    Args:
        path: the file of translations.
        reference_path: the file whose boundaries define the documents.

    Returns:
        Documents of sentences; an empty translation is ``""``.

    Raises:
        GtransError: a file cannot be read, or no reading fits; the message names both
            files and the first line where they differ.
    """
    references = read_documents(reference_path)
    reference_lines = [number for number, text in iterate_lines(reference_path) if text is not None]
    lines = dict(iterate_lines(path))
    sentences = {number: text for number, text in lines.items() if text is not None}
    if sentences.keys() <= set(reference_lines) and _count_lines(path) >= reference_lines[-1]:
        flat = [sentences.get(number, "") for number in reference_lines]
    elif len(sentences) < len(lines):
        try:
            return [document for document, _ in read_parallel(path, reference_path)]
        except GtransError as error:
            raise GtransError(
                f"{error} (unless the files match line by line); {_WAY_OUT}"
            ) from None
    elif len(sentences) == len(reference_lines):
        flat = list(sentences.values())
    else:
        common = min(len(sentences), len(reference_lines))
        if len(sentences) > common:
            where = f"{path}:{list(sentences)[common]}"
        else:
            ends = accumulate(map(len, references))
            document = next(number for number, end in enumerate(ends, start=1) if end > common)
            where = f"{reference_path}:{reference_lines[common]} (document {document})"
        raise GtransError(
            f"{path} has {len(sentences)} sentences and no document boundary, but "
            f"{reference_path} has {len(reference_lines)} sentences: {where} "
            "has no counterpart; an empty translation needs the reference's boundaries as well; "
            f"{_WAY_OUT}"
        )
    remaining = iter(flat)
    return [list(islice(remaining, len(document))) for document in references]


def read_hypothesis_documents(
    path: str | os.PathLike[str], reference_path: str | os.PathLike[str]
) -> list[Document]:
    """Read translations whose sentences need not be those of the reference.

    Their documents must be: the same number of them, in the same order.

    Args:
        path: the file of translations, with a boundary between documents.
        reference_path: the file whose documents they translate.

    Raises:
        GtransError: a file cannot be read, or the numbers of documents differ.
    """
    documents, references = read_documents(path), read_documents(reference_path)
    if len(documents) != len(references):
        raise GtransError(
            f"{path} has {len(documents)} documents, but {reference_path} has {len(references)}; "
            "without pairs of sentences, both files need a boundary after every document"
        )
    return documents


def _count_lines(path: str | os.PathLike[str]) -> int:
    """Lines of a file, the empty ones at its end included."""
    return sum(1 for _ in iterate_raw_lines(path))
