"""Match translations with the documents and sentences of their reference.

A file of translations may contain empty ones, and may lack document boundaries. Files that
cannot be matched with certainty are refused, because nobody would notice that a score is of
shifted sentences.
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

_WAY_OUT = "--resegment splits documents into aligned sentences, --documents-only needs none"


def read_hypotheses(
    path: str | os.PathLike[str], reference_path: str | os.PathLike[str]
) -> list[Document]:
    """Read translations as documents with the same sentences as the reference.

    The first of three rules that fits is applied:

    1. by lines: every translation is in the same line as a sentence of the reference, and
       the file is at least as long as the line of the last one. If the reference has a
       sentence and the translation an empty line, the translation is empty;
    2. by sentences: there is no boundary between documents, and the number of sentences is
       that of the reference;
    3. by documents: the documents of both files have the same numbers of sentences.

    The rules cannot contradict each other: if two of them fit, no translation is empty, and
    sentences are matched in order.

    Args:
        path: the file of translations.
        reference_path: the file whose boundaries define the documents.

    Returns:
        documents of sentences; an empty translation is ``""``.

    Raises:
        GtransError: a file cannot be read, or no rule fits; the message names both files
            and the first line where they differ.
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
                f"{error} (unless the files have the same lines); {_WAY_OUT}"
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
            "has no counterpart; a file with empty translations needs the reference's boundaries; "
            f"{_WAY_OUT}"
        )
    remaining = iter(flat)
    return [list(islice(remaining, len(document))) for document in references]


def read_hypothesis_documents(
    path: str | os.PathLike[str], reference_path: str | os.PathLike[str]
) -> list[Document]:
    """Read translations of whole documents, whose sentences need not match the reference.

    Both files must have the same documents in the same order.

    Args:
        path: the file of translations, with a boundary between documents, or one line for each.
        reference_path: the file whose documents they translate.

    Raises:
        GtransError: a file cannot be read, or the numbers of documents differ.
    """
    documents, references = read_documents(path), read_documents(reference_path)
    if len(documents) == 1 and len(documents[0]) == len(references):
        return [[line] for line in documents[0]]
    if len(documents) != len(references):
        raise GtransError(
            f"{path} has {len(documents)} documents, but {reference_path} has {len(references)}; "
            "both files need the same documents, with a boundary after each of them"
        )
    return documents


def has_a_line_for_each_document(
    path: str | os.PathLike[str], reference_path: str | os.PathLike[str]
) -> bool:
    """Whether a file without boundaries has as many lines as the reference has documents.

    It is not, if a line may as well be a sentence: if all documents have a single one.

    Raises:
        GtransError: a file cannot be read.
    """
    documents, references = read_documents(path), read_documents(reference_path)
    return (
        len(documents) == 1
        and len(documents[0]) == len(references)
        and sum(map(len, references)) > len(references)
    )


def _count_lines(path: str | os.PathLike[str]) -> int:
    """Number of lines of a file, including empty ones at its end."""
    return sum(1 for _ in iterate_raw_lines(path))
