"""Everything that ``gtrans score`` reads, as documents with the sentences of the reference."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import islice
from typing import Literal

from gtrans.data.documents import iterate_raw_lines, read_documents, read_parallel
from gtrans.errors import GtransError
from gtrans.evaluation.document_ids import (
    Identified,
    Role,
    by_document,
    match,
    read_identified,
)
from gtrans.evaluation.hypotheses import read_hypotheses, read_hypothesis_documents
from gtrans.evaluation.metrics import Documents
from gtrans.evaluation.resegment import Resegmenter, Split

Alignment = Literal["aligned", "whole", "resegmented"]


@dataclass(frozen=True)
class Texts:
    """The texts to score.

    Attributes:
        references: one or more references; none if there is only a source.
        sources: the source.
        systems: the translations by name. An empty sentence is an empty translation.
        splits: for each resegmented system, how its documents were split.
        notes: what was left out.
    """

    references: list[Documents]
    sources: Documents | None
    systems: Mapping[str, Documents]
    splits: Mapping[str, list[Split]] = field(default_factory=dict)
    notes: list[str] = field(default_factory=list)


def read_texts(
    references: Sequence[str], source: str | None, systems: Mapping[str, str], alignment: Alignment
) -> Texts:
    """Read all texts, of plain text or with document ids.

    Args:
        references: files of the references. The first one (or the source, if there is
            none) has the documents and sentences that all others must have.
        source: the file of the source.
        systems: the files of the translations.
        alignment: aligned: translations have the same sentences; whole: only the same
            documents; resegmented: so, too, and they are split into the reference's sentences.

    Raises:
        GtransError: a file cannot be read or does not match the first one.
    """
    main = references[0] if references else str(source)
    role: Role = "reference" if references else "source"
    ids = read_identified(main, role)
    read: list[Documents]
    if ids is None:
        read = [read_documents(path) for path in references[:1]]
        read += [_parallel(path, main) for path in references[1:]]
        sources = _parallel(source, main) if source else None
    else:
        read = []
        for path in references:
            other = _with_ids(path, "reference", main)
            read += [match(other, ids, number) for number in range(other.references)]
        sources = match(_with_ids(source, "source", main), ids) if source else None
    shape = read[0] if read else sources or []
    reader = _reader(alignment, main, ids, shape)
    texts = Texts(read, sources, {name: reader(path) for name, path in systems.items()})
    if alignment == "resegmented":
        resegmenter = Resegmenter(read)
        splits = {
            name: [resegmenter.split(number, lines) for number, lines in enumerate(documents)]
            for name, documents in texts.systems.items()
        }
        split = {name: [one.sentences for one in found] for name, found in splits.items()}
        texts = replace(texts, systems=split, splits=splits)
    return texts if ids is None else _without_bad_sources(texts, ids, alignment)


def _parallel(path: str, main: str) -> Documents:
    if path == main:
        return read_documents(path)
    return [document for document, _ in read_parallel(path, main)]


def _with_ids(path: str, role: Role, main: str) -> Identified:
    found = read_identified(path, role)
    if found is None:
        raise GtransError(
            f"{main} has document ids, but {path} has none; give both with ids, or both without"
        )
    return found


def _reader(
    alignment: Alignment, main: str, ids: Identified | None, shape: Documents
) -> Callable[[str], Documents]:
    """How to read a translation."""

    def read(path: str) -> Documents:
        found = read_identified(path, "translation")
        if found is not None:
            if ids is None:
                raise GtransError(
                    f"{path} has document ids, but {main} has none; give the reference with the "
                    "same ids"
                )
            if alignment == "aligned":
                return match(found, ids)
            return [[one.texts[0] for one in document] for document in by_document(found, ids)]
        if alignment == "resegmented":
            return _read_unaligned(path, main, len(shape))
        if ids is None:
            aligned = alignment == "aligned"
            return (read_hypotheses if aligned else read_hypothesis_documents)(path, main)
        return _read_lines(path, main, shape)

    return read


def _read_unaligned(path: str, main: str, count: int) -> Documents:
    """A translation in any layout: documents by their boundaries, or one in each line.

    Raises:
        GtransError: it cannot be told where the documents end.
    """
    if count == 1:
        return [[line for line in iterate_raw_lines(path) if line]]
    documents = read_documents(path)
    if len(documents) == count:
        return documents
    lines = list(iterate_raw_lines(path))
    if len(lines) == count:
        return [[line] for line in lines]
    raise GtransError(
        f"{path} has {len(documents)} documents in {len(lines)} lines, but {main} has {count} "
        "documents; --resegment needs a boundary between documents, or one line for each, or ids"
    )


def _read_lines(path: str, main: str, shape: Documents) -> Documents:
    """Plain text for a reference with ids: a line per segment, or documents in its order."""
    documents, lines = read_documents(path), list(iterate_raw_lines(path))
    sizes = [len(document) for document in shape]
    if len(lines) == sum(sizes):
        remaining = iter(lines)
        return [list(islice(remaining, size)) for size in sizes]
    if [len(document) for document in documents] == sizes:
        return documents
    raise GtransError(
        f"{path} has {len(lines)} lines, but {main} has {sum(sizes)} segments in {len(sizes)} "
        "documents; give a line for each of them, or --resegment"
    )


def _without_bad_sources(texts: Texts, ids: Identified, alignment: Alignment) -> Texts:
    """Leave out the segments that the authors of the set leave out."""
    kept = [
        [number for number, one in enumerate(segments) if not one.left_out]
        for segments in ids.documents.values()
    ]
    total = sum(map(len, ids.documents.values()))
    left_out = total - sum(map(len, kept))
    if not left_out:
        return texts
    if alignment == "whole":
        note = f"{left_out} of {total} segments are marked is_bad_source and are scored, too"
        return replace(texts, notes=[note])
    if left_out == total:
        raise GtransError(f"all segments of {ids.path} are marked is_bad_source")

    def filtered(documents: Documents) -> list[list[str]]:
        chosen = [
            [document[number] for number in numbers]
            for document, numbers in zip(documents, kept, strict=True)
        ]
        return [document for document in chosen if document]

    note = f"{left_out} of {total} segments are left out: they are marked is_bad_source"
    return Texts(
        [filtered(documents) for documents in texts.references],
        None if texts.sources is None else filtered(texts.sources),
        {name: filtered(documents) for name, documents in texts.systems.items()},
        {name: _kept(splits, kept) for name, splits in texts.splits.items()},
        [note],
    )


def _kept(splits: Sequence[Split], kept: Sequence[Sequence[int]]) -> list[Split]:
    """The splits without the sentences that are left out."""
    found = []
    for split, numbers in zip(splits, kept, strict=True):
        if numbers:
            places = {number: place for place, number in enumerate(numbers)}
            found.append(
                Split(
                    [split.sentences[number] for number in numbers],
                    [places[number] for number in split.omitted if number in places],
                    [
                        replace(one, after=sum(number < one.after for number in numbers))
                        for one in split.added
                    ],
                    split.tokens,
                )
            )
    return found
