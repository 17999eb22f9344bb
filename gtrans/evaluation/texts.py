"""Everything that ``gtrans score`` reads, as documents with the sentences of the reference.

A file of translations may have empty ones, and may lack the boundaries of documents. Files that
cannot be matched with certainty are rejected, because nobody would notice that a score is of
shifted sentences.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import accumulate, compress, groupby, islice
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
        free: the first translation that has a line for each document, not for each sentence; only
            if aligned ones are asked for. Then all are read as whole documents.
    """

    references: list[Documents]
    sources: Documents | None
    systems: Mapping[str, Documents]
    counted: Sequence[Sequence[bool]]
    coverage: Mapping[str, Coverage] = field(default_factory=dict)
    notes: list[str] = field(default_factory=list)
    free: str | None = None

    def chosen(self, choose: Callable[[Documents], Documents]) -> Texts:
        """The texts, of all of which the same is chosen."""
        return replace(
            self,
            references=[choose(documents) for documents in self.references],
            sources=None if self.sources is None else choose(self.sources),
            systems={name: choose(documents) for name, documents in self.systems.items()},
        )


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
        always: also split documents whose lines seem to be the reference's sentences.

    Raises:
        GtransError: a file cannot be read or does not match the first one.
    """
    role: Role = "reference" if references else "source"
    main = references[0] if references else str(source)
    ids = read_identified(main, role, choice)
    if ids is None and choice.references:
        raise GtransError(
            f"{main} is plain text, a reference without a name; leave `--reference` out and give "
            "only the wanted files"
        )

    def mixed(with_ids: str, other: str) -> GtransError:
        return GtransError(
            f"{with_ids} has document ids, but {other} has none; give both with the same ids, or "
            "both without"
        )

    def parallel(path: str, role: Role) -> list[Documents]:
        identified = ids if path == main else read_identified(path, role, choice)
        if identified is not None and ids is not None:
            return [
                match(identified, ids, number) for number in range(len(identified.references) or 1)
            ]
        if identified is not ids:
            raise mixed(main, path) if identified is None else mixed(path, main)
        if path == main:
            return [read_documents(path)]
        return [[document for document, _ in read_parallel(path, main)]]

    read = [reference for path in references for reference in parallel(path, "reference")]
    sources = parallel(source, "source")[0] if source else None
    sizes = [len(document) for document in (read[0] if read else sources or [])]
    identified = {
        name: read_identified(path, "translation", replace(choice, system=name))
        for name, path in systems.items()
    }
    places = None if ids else [number for number, text in iterate_lines(main) if text is not None]
    plain = {
        name: _plain(path, sizes, places)
        for name, path in systems.items()
        if identified[name] is None
    }
    free = None
    if alignment == "aligned":
        paths = [text.path for text in plain.values() if text.has_lines_of_documents(sizes)]
        free = paths[0] if paths else None
        alignment = "aligned" if free is None else "whole"
    translations: dict[str, Documents] = {}
    for name, translation in identified.items():
        if translation is None:
            match_plain = _by_sentences if alignment == "aligned" else _by_documents
            translations[name] = match_plain(plain[name], main, sizes, places)
        elif ids is None:
            raise mixed(translation.path, main)
        elif alignment == "aligned":
            translations[name] = match(translation, ids)
        else:
            documents = by_document(translation, ids)
            translations[name] = [[part.text() for part in segments] for segments in documents]
    counted = [[True] * size for size in sizes]
    notes: list[str] = []
    if ids is not None:
        counted, notes = _counted(ids, alignment)
        if len(ids.references) > 1:
            notes.append(
                f"{ids.path} has {len(ids.references)} references, all of which are used: "
                f"{', '.join(ids.references)}; `--reference NAME` chooses"
            )
    texts = Texts(read, sources, translations, counted, notes=notes, free=free)
    kept = [any(flags) for flags in counted]
    texts = texts.chosen(lambda documents: list(compress(documents, kept)))
    flags = list(compress(counted, kept))
    if alignment == "resegmented":
        if ids is not None:
            ids = replace(ids, documents=dict(compress(ids.documents.items(), kept)))
        texts = _resegmented(texts, flags, ids, always)
    if all(map(all, flags)):  # of whole documents, whose sentences may be others
        return texts
    return texts.chosen(
        lambda documents: [list(compress(*pair)) for pair in zip(documents, flags, strict=True)]
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
    notes = list(texts.notes)
    for name, cut in splits.items():
        moved = sum(split.moved for split in cut)
        if moved:
            notes.append(
                f"{name}: {moved} of {len(cut)} documents have as many lines as the reference has "
                "sentences, but in other places; they are split, too"
            )
    return replace(
        texts,
        notes=notes,
        systems={name: [split.sentences for split in cut] for name, cut in splits.items()},
        coverage={
            name: coverage(cut, texts.references, counted, ids) for name, cut in splits.items()
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
        missing = [segment.left_out for segment in segments if _is_missing(segment)]
        gone = bool(missing) and alignment != "aligned"
        flags = [
            not gone and (not segment.left_out or alignment == "whole") for segment in segments
        ]
        for segment, flag in zip(segments, flags, strict=True):
            scored += flag and bool(segment.left_out)
            if not flag:
                reasons[segment.left_out or missing[0]] += 1
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


@dataclass(frozen=True)
class _Plain:
    """Translations of plain text.

    Attributes:
        path: their file.
        lines: all of its lines, also empty ones.
        sentences: those that are sentences, by their number.
        documents: the same, as boundaries divide them.
        by_lines: the translation of each sentence of the reference, if every translation stands in
            the line of its sentence, and the file is at least as long as that of the last one;
            an empty line is an empty translation. None: it is not so.
    """

    path: str
    lines: list[str]
    sentences: dict[int, str]
    documents: list[list[str]]
    by_lines: Documents | None

    def has_lines_of_documents(self, sizes: Sequence[int]) -> bool:
        """Whether it begins with a line for each document, and has no other text."""
        return [*self.sentences] == [*range(1, len(sizes) + 1)] and len(sizes) < sum(sizes)


def _plain(path: str, sizes: Sequence[int], places: Sequence[int] | None) -> _Plain:
    """Read translations of plain text.

    Args:
        path: their file.
        sizes: the number of sentences of each document of the reference.
        places: the numbers of its lines that are sentences; None: its documents have ids. Then a
            translation has its lines if it has as many as there are segments.

    Raises:
        GtransError: it cannot be read, holds no sentence, or has two meanings: a line for each
            document, or the first sentences and empty translations.
    """
    marked, lines = list(iterate_lines(path)), list(plain_lines(path))
    parts = groupby((text for _, text in marked), lambda text: text is None)
    documents = [[text or "" for text in part] for end, part in parts if not end]
    sentences = {number: text for number, text in marked if text is not None}
    flat = None
    if places is None:
        flat = lines if len(lines) == sum(sizes) else None
    elif sentences.keys() <= set(places) and len(lines) >= places[-1]:
        flat = [sentences.get(number, "") for number in places]
    if not sentences:
        raise GtransError(f"'{path}' holds no sentence; give a file with one sentence per line")
    by_lines = None if flat is None else _divided(flat, sizes)
    plain = _Plain(path, lines, sentences, documents, by_lines)
    if by_lines is not None and plain.has_lines_of_documents(sizes):
        raise GtransError(
            f"{path} has text in its first {len(sizes)} lines alone, as many as there are "
            "documents: if each is a document, remove the empty lines behind them; if each is a "
            "sentence, give the file with document ids"
        )
    return plain


def _divided(flat: Sequence[str], sizes: Sequence[int]) -> Documents:
    """Sentences in documents of these sizes."""
    remaining = iter(flat)
    return [list(islice(remaining, size)) for size in sizes]


def _by_sentences(
    plain: _Plain, main: str, sizes: Sequence[int], places: Sequence[int] | None
) -> Documents:
    """Translations as documents with the same sentences as the reference.

    The first of three rules that fits is applied: by lines (:class:`_Plain`); by documents: those
    of both files have the same numbers of sentences; by sentences: there is no boundary between
    documents, and the number of sentences is that of the reference. They cannot contradict each
    other: if two of them fit, no translation is empty, and sentences are matched in order.

    Args:
        found: the translations.
        main: the file whose documents they translate, for messages.
        sizes, places: as of :func:`_plain`.

    Raises:
        GtransError: no rule fits; the message names both files and the first line where they
            differ.
    """
    if plain.by_lines is not None:
        return plain.by_lines
    if [len(document) for document in plain.documents] == list(sizes):
        return plain.documents
    if places is None:
        raise GtransError(
            f"{plain.path} has {len(plain.lines)} lines, but {main} has {sum(sizes)} segments in "
            f"{len(sizes)} documents; give a line for each of them, or --resegment"
        )
    if len(plain.documents) > 1:
        try:
            return [document for document, _ in read_parallel(plain.path, main)]
        except GtransError as error:
            raise GtransError(
                f"{str(error).rstrip('.')} (unless the files have the same lines); {_WAY_OUT}"
            ) from None
    numbers, common = [*plain.sentences], min(len(plain.sentences), len(places))
    if len(numbers) == len(places):
        return _divided([*plain.sentences.values()], sizes)
    if len(numbers) > common:
        where = f"{plain.path}:{numbers[common]}"
    else:
        document = next(n for n, end in enumerate(accumulate(sizes), start=1) if end > common)
        where = f"{main}:{places[common]} (document {document})"
    raise GtransError(
        f"{plain.path} has {len(numbers)} sentences and no document boundary, but {main} has "
        f"{len(places)} sentences: {where} has no counterpart; a file with empty translations "
        f"needs the reference's boundaries; {_WAY_OUT}"
    )


def _by_documents(
    plain: _Plain, main: str, sizes: Sequence[int], places: Sequence[int] | None
) -> Documents:
    """Translations of whole documents, whose sentences need not match the reference.

    All lines are the translation of a single document. Of several, the first of these rules that
    fits is applied: the file has the lines of the reference, so that an empty translation is no
    boundary; it has the reference's documents by its boundaries; it has a line for each document.
    Only of the first one, empty translations are kept.

    Args:
        found, main, sizes, places: as of :func:`_by_sentences`.

    Raises:
        GtransError: it cannot be told where the documents end.
    """
    count = len(plain.documents)
    if len(sizes) == 1:
        return [list(plain.sentences.values())]
    if plain.by_lines is not None:
        filled = [list(filter(None, document)) for document in plain.by_lines]
        if places is None and count == len(sizes) and plain.documents != filled:
            raise GtransError(
                f"{plain.path} has as many lines as {main} has segments, and as many documents "
                "by its empty lines, and they are not the same; give it with document ids"
            )
        return plain.by_lines
    if count == len(sizes):
        return plain.documents
    if len(plain.lines) == len(sizes):
        return [[line] for line in plain.lines]
    raise GtransError(
        f"{plain.path} has {count} documents in {len(plain.lines)} lines, but {main} has "
        f"{len(sizes)} documents; give the same documents with a boundary between them, one line "
        "for each, or ids"
    )


# ---- documents with ids --------------------------------------------------------------------------


def match(translation: Identified, reference: Identified, number: int = 0) -> list[list[str]]:
    """Documents of ``found`` with the segments of ``reference``, in its order.

    Segments are matched by their ids if both files have them, otherwise by their order.

    Raises:
        GtransError: a document or a segment is missing, or is not in ``reference``.
    """
    documents = by_document(translation, reference)
    matched = []
    for name, segments, expected in zip(
        reference.documents, documents, reference.documents.values(), strict=True
    ):
        if all(map(_is_missing, expected)):
            segments = expected
        elif all(segment.name for segment in (*segments, *expected)):
            known = {segment.name: segment for segment in segments}
            _compare(
                f"of document '{name}'", "segment",
                list(known), [segment.name for segment in expected], translation, reference,
            )  # fmt: skip
            segments = [known[segment.name] for segment in expected]
        elif len(segments) != len(expected):
            raise GtransError(
                f"document '{name}' has {len(segments)} segments in {translation.path}, but "
                f"{len(expected)} in {reference.path}; --resegment splits a translation into the "
                "sentences of the reference"
            )
        # Another reference may lack a segment, for which the first one then stands.
        matched.append(
            [
                (other if _is_missing(segment) else segment).text(number)
                for segment, other in zip(segments, expected, strict=True)
            ]
        )
    return matched


def by_document(translation: Identified, reference: Identified) -> list[list[Segment]]:
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
    names = [name for name in translation.documents if name in kept or name not in known]
    _compare("", "document", names, list(kept), translation, reference)
    for name, expected in kept.items():
        segments = translation.documents[name]
        if len(segments) != len(expected) and _comes_again([segment.texts for segment in segments]):
            raise GtransError(
                f"{translation.path} has the same text of document '{name}' several times; give "
                "every document once, or its segments with ids"
            )
    return [translation.documents.get(name, []) for name in reference.documents]


def _comes_again(rows: Sequence[Sequence[str]]) -> bool:
    """Whether rows are the same rows twice or more."""
    count = len(rows)
    sizes = (size for size in range(1, count // 2 + 1) if count % size == 0)
    return any(rows[size:] == rows[:-size] for size in sizes)


def _compare(
    place: str, kind: str, names: list[str], expected: list[str], text: Identified, ref: Identified
) -> None:
    for have, want, side, other in (
        (set(names), expected, text, ref),
        (set(expected), names, ref, text),
    ):
        missing = [name for name in want if name not in have]
        if missing:
            more = f" and {len(missing) - 1} more" if len(missing) > 1 else ""
            raise GtransError(
                f"{side.path} lacks the {kind} '{missing[0]}'{more} {place}".rstrip()
                + f", which {other.path} has; both files need the same {kind}s"
            )
