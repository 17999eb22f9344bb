"""Everything that ``gtrans score`` reads, as documents with the sentences of the reference."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import compress, islice
from typing import Literal

from gtrans.data.documents import (
    iterate_lines,
    iterate_raw_lines,
    read_documents,
    read_parallel,
)
from gtrans.errors import GtransError
from gtrans.evaluation.coverage import Coverage, coverage
from gtrans.evaluation.document_ids import (
    Identified,
    Role,
    by_document,
    match,
    read_identified,
)
from gtrans.evaluation.hypotheses import read_hypotheses, read_hypothesis_documents
from gtrans.evaluation.metrics import Documents
from gtrans.evaluation.resegment import Resegmenter

Alignment = Literal["aligned", "whole", "resegmented"]


@dataclass(frozen=True)
class Texts:
    """The texts to score.

    Attributes:
        references: one or more references; none if there is only a source.
        sources: the source.
        systems: the translations by name. An empty sentence is an empty translation.
        counted: for each segment of each document of the first file, whether it is among these
            texts; a document without any is not either.
        coverage: for each resegmented system, what it leaves out and adds.
        notes: what was left out.
    """

    references: list[Documents]
    sources: Documents | None
    systems: Mapping[str, Documents]
    counted: Sequence[Sequence[bool]]
    coverage: Mapping[str, Coverage] = field(default_factory=dict)
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
        read = [_parallel(path, main, "reference") for path in references]
        sources = _parallel(source, main, "source") if source else None
    else:
        read = []
        for path in references:
            other = _with_ids(path, "reference", main)
            read += [match(other, ids, number) for number in range(other.references)]
        sources = match(_with_ids(source, "source", main), ids) if source else None
    shape = read[0] if read else sources or []
    reader = _reader(alignment, main, ids, shape)
    counted = [[True] * len(document) for document in shape]
    texts = Texts(read, sources, {name: reader(path) for name, path in systems.items()}, counted)
    notes: list[str] = []
    if ids is not None:
        counted, notes = _counted(ids, alignment)
    if alignment == "resegmented":
        texts = _resegmented(texts, counted, ids)
    return replace(_chosen(texts, counted), notes=notes)


def document_sizes(main: str, role: Role) -> list[int]:
    """The number of sentences of each document of a reference (or source).

    Raises:
        GtransError: it cannot be read.
    """
    ids = read_identified(main, role)
    documents = read_documents(main) if ids is None else ids.texts()
    return [len(document) for document in documents]


def _parallel(path: str, main: str, role: Role) -> Documents:
    _plain(read_identified(path, role), main)
    if path == main:
        return read_documents(path)
    return [document for document, _ in read_parallel(path, main)]


def _plain(found: Identified | None, main: str) -> None:
    """Raises GtransError for a file with ids beside a plain one."""
    if found is not None:
        raise GtransError(
            f"{found.path} has document ids, but {main} has none; give the reference with the "
            "same ids, or all files without"
        )


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
    sizes = [len(document) for document in shape]
    lines = None
    if ids is None:
        lines = [number for number, sentence in iterate_lines(main) if sentence is not None]

    def read(path: str) -> Documents:
        found = read_identified(path, "translation")
        if ids is None:
            _plain(found, main)
        if ids is not None and found is not None:
            if alignment == "aligned":
                return match(found, ids)
            return [[one.text() for one in document] for document in by_document(found, ids)]
        if alignment != "aligned":
            return read_hypothesis_documents(path, main, sizes, lines)
        return read_hypotheses(path, main) if ids is None else _read_lines(path, main, sizes)

    return read


def _read_lines(path: str, main: str, sizes: Sequence[int]) -> Documents:
    """Plain text for a reference with ids: a line per segment, or documents in its order."""
    documents, lines = read_documents(path), list(iterate_raw_lines(path))
    if len(lines) == sum(sizes):
        remaining = iter(lines)
        return [list(islice(remaining, size)) for size in sizes]
    if [len(document) for document in documents] == list(sizes):
        return documents
    raise GtransError(
        f"{path} has {len(lines)} lines, but {main} has {sum(sizes)} segments in {len(sizes)} "
        "documents; give a line for each of them, or --resegment"
    )


def _resegmented(texts: Texts, counted: Sequence[Sequence[bool]], ids: Identified | None) -> Texts:
    """The translations in the sentences of the references, and what they cover."""
    resegmenter = Resegmenter(texts.references)
    splits = {
        name: [resegmenter.split(number, lines) for number, lines in enumerate(documents)]
        for name, documents in texts.systems.items()
    }
    return replace(
        texts,
        systems={name: [one.sentences for one in found] for name, found in splits.items()},
        coverage={
            name: coverage(found, texts.references, counted, ids) for name, found in splits.items()
        },
    )


def _counted(ids: Identified, alignment: Alignment) -> tuple[list[list[bool]], list[str]]:
    """Which segments are scored: those that the authors of the set do not leave out; and a note.

    Raises:
        GtransError: there are none.
    """
    counted = [[not one.left_out for one in segments] for segments in ids.documents.values()]
    total, left_out = sum(map(len, counted)), sum(flags.count(False) for flags in counted)
    if not left_out:
        return counted, []
    if alignment == "whole":
        note = f"{left_out} of {total} segments are marked is_bad_source and are scored, too"
        return [[True] * len(flags) for flags in counted], [note]
    if left_out == total:
        raise GtransError(f"all segments of {ids.path} are marked is_bad_source")
    return counted, [f"{left_out} of {total} segments are left out: they are marked is_bad_source"]


def _chosen(texts: Texts, counted: list[list[bool]]) -> Texts:
    """The texts without the segments that are not counted."""

    def chosen(documents: Documents) -> list[list[str]]:
        return [
            list(compress(document, flags))
            for document, flags in zip(documents, counted, strict=True)
            if any(flags)
        ]

    if all(map(all, counted)):
        return texts
    return replace(
        texts,
        references=[chosen(documents) for documents in texts.references],
        sources=None if texts.sources is None else chosen(texts.sources),
        systems={name: chosen(documents) for name, documents in texts.systems.items()},
        counted=counted,
    )
