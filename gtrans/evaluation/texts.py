"""Everything that ``gtrans score`` reads, as documents with the sentences of the reference.

A file of translations may have empty ones, and may lack the boundaries of documents. Files that
cannot be matched with certainty are rejected, because nobody would notice that a score is of
shifted sentences.
"""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import accumulate, compress, islice
from typing import Literal

from gtrans.errors import GtransError
from gtrans.evaluation.metrics import Documents
from gtrans.evaluation.resegment import Coverage, Resegmenter, coverage
from gtrans.text.reader import (
    ANY,
    BAD_SOURCE,
    Choice,
    Identified,
    Role,
    Segment,
    iterate_lines,
    open_text,
    plain_lines,
    read_documents,
    read_identified,
    read_parallel,
)

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
    references: Sequence[str],
    source: str | None,
    systems: Mapping[str, str],
    alignment: Alignment,
    choice: Choice = ANY,
    always: bool = False,
) -> Texts:
    """Read all texts, of plain text or with document ids.

    Args:
        references: files of the references. The first one (or the source, if there is
            none) has the documents and sentences that all others must have.
        source: the file of the source.
        systems: the files of the translations; of a file with those of several systems, those of
            the system of this name.
        alignment: aligned: translations have the same sentences; whole: only the same
            documents; resegmented: so, too, and they are split into the reference's sentences.
        choice: what to read of files that have more than one text.
        always: also split documents that have as many lines as the reference has sentences.

    Raises:
        GtransError: a file cannot be read or does not match the first one.
    """
    main, role = _main_file(references, source)
    ids = read_identified(main, role, choice)
    if ids is None and choice.references:
        raise GtransError(
            f"{main} is plain text, a reference without a name; leave `--reference` out and give "
            "only the wanted files"
        )

    def parallel(path: str, role: Role) -> list[Documents]:
        found = ids if path == main else read_identified(path, role, choice)
        if (found is None) != (ids is None):
            one, other = (main, path) if found is None else (path, main)
            raise GtransError(
                f"{one} has document ids, but {other} has none; give both with ids, or both without"
            )
        if found is not None and ids is not None:
            return [match(found, ids, number) for number in range(len(found.references) or 1)]
        if path == main:
            return [read_documents(path)]
        return [[document for document, _ in read_parallel(path, main)]]

    read = [one for path in references for one in parallel(path, "reference")]
    sources = parallel(source, "source")[0] if source else None
    shape = read[0] if read else sources or []
    sizes = [len(document) for document in shape]

    def translation(name: str, path: str) -> Documents:
        found = read_identified(path, "translation", replace(choice, system=name))
        if found is not None and ids is None:
            raise GtransError(
                f"{path} has document ids, but {main} has none; give the reference with the same "
                "ids, or all files without"
            )
        if found is not None and ids is not None:
            if alignment == "aligned":
                return match(found, ids)
            return [[one.text() for one in document] for document in by_document(found, ids)]
        if alignment != "aligned":
            return read_hypothesis_documents(path, main, sizes, ids is not None)
        return read_hypotheses(path, main) if ids is None else _read_lines(path, main, sizes)

    translations = {name: translation(name, path) for name, path in systems.items()}
    counted = [[True] * size for size in sizes]
    notes: list[str] = []
    if ids is not None:
        counted, notes = _counted(ids, alignment)
        if len(ids.references) > 1:
            notes.append(
                f"{ids.path} has {len(ids.references)} references, all of which are used: "
                f"{', '.join(ids.references)}; `--reference NAME` chooses"
            )
    texts = Texts(read, sources, translations, counted, notes=notes)
    kept = [any(flags) for flags in counted]
    texts = _chosen(texts, lambda documents: list(compress(documents, kept)))
    flags = list(compress(counted, kept))
    if alignment == "resegmented":
        if ids is not None:
            ids = replace(ids, documents=dict(compress(ids.documents.items(), kept)))
        texts = _resegmented(texts, flags, ids, always)
    if all(map(all, flags)):  # of whole documents, whose sentences may be others
        return texts
    return _chosen(
        texts,
        lambda documents: [list(compress(*it)) for it in zip(documents, flags, strict=True)],
    )


def _chosen(texts: Texts, choose: Callable[[Documents], Documents]) -> Texts:
    """The texts, of all of which the same is chosen."""
    return replace(
        texts,
        references=[choose(documents) for documents in texts.references],
        sources=None if texts.sources is None else choose(texts.sources),
        systems={name: choose(documents) for name, documents in texts.systems.items()},
    )


def free_translation(
    references: Sequence[str], source: str | None, systems: Iterable[str], choice: Choice = ANY
) -> str | None:
    """The first translation that has one line for each document, not for each sentence.

    Args:
        references, source: their files.
        systems: the files of the translations.
        choice: what to read of files that have more than one text.

    Raises:
        GtransError: a file cannot be read.
    """
    main, role = _main_file(references, source)
    ids = read_identified(main, role, choice)
    sizes = [len(document) for document in (read_documents(main) if ids is None else ids.texts())]
    for path in systems:
        # A table with ids names its documents; of single sentences a line is one, too.
        if len(sizes) < sum(sizes) and not open_text(path).has_ids:
            documents = read_documents(path)
            if len(documents) == 1 and len(documents[0]) == len(sizes):
                return path
    return None


def _main_file(references: Sequence[str], source: str | None) -> tuple[str, Role]:
    """The file whose sentences all others must have."""
    return (references[0], "reference") if references else (str(source), "source")


def _read_lines(path: str, main: str, sizes: Sequence[int]) -> Documents:
    """Plain text for a reference with ids: a line per segment, or documents in its order."""
    documents, lines = read_documents(path), list(plain_lines(path))
    if len(lines) == sum(sizes):
        return _divided(lines, sizes)
    if [len(document) for document in documents] == list(sizes):
        return documents
    raise GtransError(
        f"{path} has {len(lines)} lines, but {main} has {sum(sizes)} segments in {len(sizes)} "
        "documents; give a line for each of them, or --resegment"
    )


def _resegmented(
    texts: Texts, counted: Sequence[Sequence[bool]], ids: Identified | None, always: bool
) -> Texts:
    """The translations in the sentences of the references, and what they cover."""
    resegmenter = Resegmenter(texts.references, always)
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


def _is_missing(segment: Segment) -> bool:
    """Whether there is nothing to compare a segment with."""
    return bool(segment.left_out) and segment.left_out != BAD_SOURCE


def _counted(ids: Identified, alignment: Alignment) -> tuple[list[list[bool]], list[str]]:
    """Which segments are scored, and notes: why others are left out.

    Left out are those that the authors of the set leave out, and those without a reference; of
    whole documents the former are scored, and the latter end the whole document.

    Raises:
        GtransError: there are none.
    """
    counted = []
    reasons, scored = Counter[str](), 0
    for segments in ids.documents.values():
        missing = [one.left_out for one in segments if _is_missing(one)]
        if missing and alignment != "aligned":
            flags = [False] * len(segments)
        else:
            whole = alignment == "whole"
            flags = [not one.left_out or whole for one in segments]
        for one, flag in zip(segments, flags, strict=True):
            if flag:
                scored += bool(one.left_out)
            else:
                reasons[one.left_out or missing[0]] += 1
        counted.append(flags)
    total = sum(map(len, counted))
    if sum(reasons.values()) == total:
        raise GtransError(f"all segments of {ids.path} are {' or '.join(reasons)}")
    notes = [
        f"{count} of {total} segments are left out: they are {why}"
        for why, count in reasons.items()
    ]
    if scored:
        notes.append(f"{scored} of {total} segments are {BAD_SOURCE} and are scored, too")
    return counted, notes


# ---- translations of plain text ------------------------------------------------------------------

_WAY_OUT = "--resegment splits documents into aligned sentences, --documents-only needs none"


def read_hypotheses(
    path: str | os.PathLike[str], reference_path: str | os.PathLike[str]
) -> Documents:
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
    reference_lines = _sentence_lines(reference_path)
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
    has_ids: bool = False,
) -> Documents:
    """Read translations of whole documents, whose sentences need not match the reference.

    All lines are the translation of a single document. Of several, the first of these rules that
    fits is applied: the file has the lines of the reference (rule 1 of :func:`read_hypotheses`, so
    that an empty translation is no boundary); it has the reference's documents by its boundaries;
    it has a line for each document. Only of the first one, empty translations are kept.

    Args:
        path: the file of translations.
        reference_path: the file whose documents they translate, for messages.
        sizes: the number of sentences of each of its documents.
        has_ids: whether its documents have ids. Then a translation has its lines if it has as many
            as there are segments.

    Raises:
        GtransError: a file cannot be read, or it cannot be told where the documents end.
    """
    documents, count = read_documents(path), _count_lines(path)
    if len(sizes) == 1:
        return [[sentence for document in documents for sentence in document]]
    by_boundaries = documents if len(documents) == len(sizes) else None
    if has_ids:
        by_lines = list(plain_lines(path)) if count == sum(sizes) else None
    else:
        by_lines = _by_lines(path, _sentence_lines(reference_path))
    if by_lines is not None:
        found = _divided(by_lines, sizes)
        filled = [list(filter(None, document)) for document in found]
        if has_ids and by_boundaries not in (None, filled):
            raise GtransError(
                f"{path} has as many lines as {reference_path} has segments, and as many documents "
                "by its empty lines, and they are not the same; give it with document ids"
            )
        return found
    if by_boundaries is not None:
        return by_boundaries
    if count == len(sizes):
        return [[line] for line in plain_lines(path)]
    raise GtransError(
        f"{path} has {len(documents)} documents in {count} lines, but {reference_path} has "
        f"{len(sizes)} documents; give the same documents with a boundary between them, one line "
        "for each, or ids"
    )


def _by_lines(path: str | os.PathLike[str], reference_lines: Sequence[int]) -> list[str] | None:
    """The translation of each sentence, if it stands in the same line; maybe an empty one."""
    sentences = {number: text for number, text in iterate_lines(path) if text is not None}
    if sentences.keys() <= set(reference_lines) and _count_lines(path) >= reference_lines[-1]:
        return [sentences.get(number, "") for number in reference_lines]
    return None


def _sentence_lines(path: str | os.PathLike[str]) -> list[int]:
    """The numbers of the lines that are sentences."""
    return [number for number, text in iterate_lines(path) if text is not None]


def _divided(flat: Sequence[str], sizes: Sequence[int]) -> Documents:
    """Sentences in documents of these sizes."""
    remaining = iter(flat)
    return [list(islice(remaining, size)) for size in sizes]


def _count_lines(path: str | os.PathLike[str]) -> int:
    """Number of lines of a file, including empty ones at its end."""
    return sum(1 for _ in plain_lines(path))


# ---- documents with ids --------------------------------------------------------------------------


def match(found: Identified, reference: Identified, number: int = 0) -> list[list[str]]:
    """Documents of ``found`` with the segments of ``reference``, in its order.

    Segments are matched by their ids if both files have them, otherwise by their order.

    Raises:
        GtransError: a document or a segment is missing, or is not in ``reference``.
    """
    documents = by_document(found, reference)
    matched = []
    for name, segments, expected in zip(
        reference.documents, documents, reference.documents.values(), strict=True
    ):
        if all(map(_is_missing, expected)):
            segments = expected
        elif all(one.name for one in (*segments, *expected)):
            known = {one.name: one for one in segments}
            _compare(
                f"of document '{name}'", "segment",
                list(known), [one.name for one in expected], found, reference,
            )  # fmt: skip
            segments = [known[one.name] for one in expected]
        elif len(segments) != len(expected):
            raise GtransError(
                f"document '{name}' has {len(segments)} segments in {found.path}, but "
                f"{len(expected)} in {reference.path}; --resegment splits a translation into the "
                "sentences of the reference"
            )
        # Another reference may lack a segment, for which the first one then stands.
        matched.append(
            [
                (other if _is_missing(one) else one).text(number)
                for one, other in zip(segments, expected, strict=True)
            ]
        )
    return matched


def by_document(found: Identified, reference: Identified) -> list[list[Segment]]:
    """The segments of every document of ``reference``, however many they are.

    Raises:
        GtransError: a document is missing, or is not in ``reference``.
    """
    kept = {
        name: expected
        for name, expected in reference.documents.items()
        if not all(map(_is_missing, expected))
    }
    known = reference.documents.keys() | reference.others
    names = [name for name in found.documents if name in kept or name not in known]
    _compare("", "document", names, list(kept), found, reference)
    for name, expected in kept.items():
        segments = found.documents[name]
        if len(segments) != len(expected) and _comes_again([one.texts for one in segments]):
            raise GtransError(
                f"{found.path} has the same text of document '{name}' several times; give every "
                "document once, or its segments with ids"
            )
    return [found.documents.get(name, []) for name in reference.documents]


def _comes_again(rows: Sequence[Sequence[str]]) -> bool:
    """Whether rows are the same rows twice or more."""
    count = len(rows)
    sizes = (size for size in range(1, count // 2 + 1) if count % size == 0)
    return any(rows[size:] == rows[:-size] for size in sizes)


def _compare(
    of: str, kind: str, names: list[str], expected: list[str], found: Identified, ref: Identified
) -> None:
    for have, want, one, other in (
        (set(names), expected, found, ref),
        (set(expected), names, ref, found),
    ):
        missing = [name for name in want if name not in have]
        if missing:
            more = f" and {len(missing) - 1} more" if len(missing) > 1 else ""
            raise GtransError(
                f"{one.path} lacks the {kind} '{missing[0]}'{more} {of}".rstrip()
                + f", which {other.path} has; both files need the same {kind}s"
            )
