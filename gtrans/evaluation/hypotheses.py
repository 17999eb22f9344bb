"""Match translations with the documents and sentences of their reference.

A file of translations may contain empty ones, and may lack document boundaries. Files that
cannot be matched with certainty are refused, because nobody would notice that a score is of
shifted sentences.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
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
    by_lines = _by_lines(path, reference_lines)
    if by_lines is not None:
        flat = by_lines
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
    return _divided(flat, [len(document) for document in references])


def read_hypothesis_documents(
    path: str | os.PathLike[str],
    reference_path: str | os.PathLike[str],
    sizes: Sequence[int],
    reference_lines: Sequence[int] | None = None,
) -> list[Document]:
    """Read translations of whole documents, whose sentences need not match the reference.

    All lines are the translation of a single document. Of several, the first of these rules that
    fits is applied: the file has the lines of the reference (rule 1 of :func:`read_hypotheses`, so
    that an empty translation is no boundary); it has the reference's documents by its boundaries;
    it has a line for each document. Empty translations are left out.

    Args:
        path: the file of translations.
        reference_path: the file whose documents they translate, for messages.
        sizes: the number of sentences of each of its documents.
        reference_lines: the lines of its sentences; None if it has ids. Then a translation has its
            lines if it has as many as there are segments.

    Raises:
        GtransError: a file cannot be read, or it cannot be told where the documents end.
    """
    documents, count = read_documents(path), _count_lines(path)
    if len(sizes) == 1:
        return [[sentence for document in documents for sentence in document]]
    by_boundaries = documents if len(documents) == len(sizes) else None
    by_lines = None
    if reference_lines is not None:
        by_lines = _by_lines(path, reference_lines)
    elif count == sum(sizes):
        by_lines = list(iterate_raw_lines(path))
    if by_lines is not None:
        found = [list(filter(None, document)) for document in _divided(by_lines, sizes)]
        if reference_lines is None and by_boundaries not in (None, found):
            raise GtransError(
                f"{path} has as many lines as {reference_path} has segments, and as many documents "
                "by its empty lines, and they are not the same; give it with document ids"
            )
        return found
    if by_boundaries is not None:
        return by_boundaries
    if count == len(sizes):
        return [[line] for line in iterate_raw_lines(path)]
    raise GtransError(
        f"{path} has {len(documents)} documents in {count} lines, but {reference_path} has "
        f"{len(sizes)} documents; give the same documents with a boundary between them, one line "
        "for each, or ids"
    )


def has_a_line_for_each_document(path: str | os.PathLike[str], sizes: Sequence[int]) -> bool:
    """Whether a file without boundaries has as many lines as the reference has documents.

    It is not, if a line may as well be a sentence: if all documents have a single one.

    Args:
        path: the file.
        sizes: the number of sentences of each document of the reference.

    Raises:
        GtransError: the file cannot be read.
    """
    documents = read_documents(path)
    return len(documents) == 1 and len(documents[0]) == len(sizes) < sum(sizes)


def _by_lines(path: str | os.PathLike[str], reference_lines: Sequence[int]) -> list[str] | None:
    """The translation of each sentence, if it stands in the same line; maybe an empty one."""
    sentences = {number: text for number, text in iterate_lines(path) if text is not None}
    if sentences.keys() <= set(reference_lines) and _count_lines(path) >= reference_lines[-1]:
        return [sentences.get(number, "") for number in reference_lines]
    return None


def _divided(flat: Sequence[str], sizes: Sequence[int]) -> list[Document]:
    """Sentences in documents of these sizes."""
    remaining = iter(flat)
    return [list(islice(remaining, size)) for size in sizes]


def _count_lines(path: str | os.PathLike[str]) -> int:
    """Number of lines of a file, including empty ones at its end."""
    return sum(1 for _ in iterate_raw_lines(path))
