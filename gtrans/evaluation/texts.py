"""Everything that ``gtrans score`` reads, as documents with the sentences of the reference.

A file of translations may have empty ones, and may lack the boundaries of documents. Files that
cannot be matched with certainty are rejected, because nobody would notice that a score is of
shifted sentences.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from itertools import accumulate, compress
from typing import Literal

from gtrans.errors import GtransError
from gtrans.evaluation.common_documents import COMMON, common_documents, lacking_documents
from gtrans.evaluation.metrics import Documents
from gtrans.evaluation.resegment import Coverage, Resegmenter, coverage
from gtrans.evaluation.score_files import (
    ScoreFile,
    ScoreFiles,
    all_missing,
    by_lines,
    divided,
    has_lines_of_documents,
    is_missing,
    read_files,
    without_markup_of_rows,
)
from gtrans.text.reader import ANY, BAD_SOURCE, Choice, Identified, Segment, read_parallel

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
        coverage: how much of the reference each resegmented system leaves out and adds.
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
        """The texts with the same choice of documents or sentences in all of them."""
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
    common: bool = False,
) -> Texts:
    """Read all texts, of plain text or with document ids.

    Args:
        references: files of the references. The first one (or the source, if there is
            none) has the documents and sentences that all others must have.
        source: the file of the source.
        systems: the files of the translations by the name of the system. Of a file with
            translations of several systems, the name chooses one.
        alignment: aligned: translations have the same sentences; whole: only the same
            documents; resegmented: so, too, and they are split into the reference's sentences.
        choice: what to read of files that have more than one text.
        always: also split documents whose lines seem to be the reference's sentences.
        common: leave out documents that one of the files lacks.

    Raises:
        GtransError: a file cannot be read or does not match the first one.
    """
    files = read_files(references, source, systems, replace(choice, without_markup=True))
    files, markup = without_markup_of_rows(files)
    missing: list[str] = []
    if common:
        files, missing = common_documents(files)
    free = _translation_in_lines(files) if alignment == "aligned" else None
    if free is not None:
        alignment = "whole"
    texts = _matched(files, alignment)
    notes = markup + missing + _note_of_references(files.main)
    counted = texts.counted
    if files.main.ids is not None:
        counted, left_out = _counted(files.main.ids, alignment)
        notes = left_out + notes
    texts = replace(texts, counted=counted, notes=notes, free=free)
    texts, counted, ids = _without_empty_documents(texts, files.main.ids)
    if alignment == "resegmented":
        texts = _resegmented(texts, counted, ids, always)
    return _counted_alone(texts, counted)


# ---- the texts of all files ----------------------------------------------------------------------


def _matched(files: ScoreFiles, alignment: Alignment) -> Texts:
    """The documents of all files in the order of the main one.

    Raises:
        GtransError: a file does not match the main one.
    """
    references: list[Documents] = []
    for file in files.references:
        references += _parallel(file, files.main)
    sources = None if files.source is None else _parallel(files.source, files.main)[0]
    systems = {
        name: _translation(file, files.main, alignment) for name, file in files.systems.items()
    }
    counted = [[True] * size for size in files.main.sizes]
    return Texts(references, sources, systems, counted)


def _parallel(file: ScoreFile, main: ScoreFile) -> list[Documents]:
    """The texts of a reference or source, which must have the sentences of the main file.

    A file with ids may have several references.
    """
    if file.ids is not None and main.ids is not None:
        count = len(file.ids.references) or 1
        return [match(file.ids, main.ids, number) for number in range(count)]
    same_lines = file.plain.places == main.plain.places
    if same_lines and file.sizes == main.sizes:
        return [file.plain.documents]
    lacking = lacking_documents(file, main)
    if lacking is not None:
        raise lacking
    # Says where they differ, unless empty lines alone do.
    pairs = read_parallel(file.path, main.path)
    return [[document for document, _ in pairs]]


def _translation(file: ScoreFile, main: ScoreFile, alignment: Alignment) -> Documents:
    """The documents of a translation; see :func:`_by_sentences` and :func:`_by_documents`."""
    if file.ids is not None and main.ids is not None:
        if alignment == "aligned":
            return match(file.ids, main.ids)
        documents = []
        for segments in by_document(file.ids, main.ids):
            documents.append([segment.text() for segment in segments])
        return documents
    if alignment == "aligned":
        return _by_sentences(file, main)
    return _by_documents(file, main)


def _note_of_references(main: ScoreFile) -> list[str]:
    if main.ids is None or len(main.ids.references) < 2:
        return []
    return [
        f"{main.path} has {len(main.ids.references)} references, all of which are used: "
        f"{', '.join(main.ids.references)}; `--reference NAME` chooses"
    ]


def _without_empty_documents(
    texts: Texts,
    ids: Identified | None,
) -> tuple[Texts, list[Sequence[bool]], Identified | None]:
    """The texts without documents that have nothing counted; flags and ids of the others."""
    kept = [any(flags) for flags in texts.counted]
    texts = texts.chosen(lambda documents: list(compress(documents, kept)))
    if ids is not None:
        ids = replace(ids, documents=dict(compress(ids.documents.items(), kept)))
    return texts, list(compress(texts.counted, kept)), ids


def _counted_alone(texts: Texts, counted: Sequence[Sequence[bool]]) -> Texts:
    """The texts without sentences that are not counted."""
    if all(all(flags) for flags in counted):  # of whole documents, whose sentences may be others
        return texts
    return texts.chosen(partial(_counted_sentences, counted=counted))


def _counted_sentences(documents: Documents, counted: Sequence[Sequence[bool]]) -> Documents:
    pairs = zip(documents, counted, strict=True)
    return [list(compress(sentences, flags)) for sentences, flags in pairs]


def _resegmented(
    texts: Texts,
    counted: Sequence[Sequence[bool]],
    ids: Identified | None,
    always: bool,
) -> Texts:
    """The translations in the sentences of the references, and their coverage."""
    resegmenter = Resegmenter(texts.references, always)
    notes = list(texts.notes)
    systems: dict[str, Documents] = {}
    covered: dict[str, Coverage] = {}
    for name, documents in texts.systems.items():
        splits = [resegmenter.split(number, lines) for number, lines in enumerate(documents)]
        systems[name] = [split.sentences for split in splits]
        covered[name] = coverage(splits, texts.references, counted, ids)
        moved = sum(split.moved for split in splits)
        if moved:
            notes.append(
                f"{name}: {moved} of {len(splits)} documents have as many lines as the reference "
                "has sentences, but in other places; they are split, too"
            )
    return replace(texts, notes=notes, systems=systems, coverage=covered)


# ---- segments that are scored --------------------------------------------------------------------


def _counted(ids: Identified, alignment: Alignment) -> tuple[list[list[bool]], list[str]]:
    """Which segments are scored, and notes: why others are left out.

    Left out are those that the authors of the set leave out, and those without a reference; of
    whole documents the former are scored, and the latter end the whole document.

    Raises:
        GtransError: there are none.
    """
    counted = []
    reasons = Counter[str]()
    scored = 0
    for segments in ids.documents.values():
        missing = [segment.left_out for segment in segments if is_missing(segment)]
        is_gone = bool(missing) and alignment != "aligned"
        flags = []
        for segment in segments:
            flag = not is_gone and (not segment.left_out or alignment == "whole")
            flags.append(flag)
            if not flag:
                reasons[segment.left_out or missing[0]] += 1
            elif segment.left_out:
                scored += 1
        counted.append(flags)
    total = sum(len(flags) for flags in counted)
    if sum(reasons.values()) == total:
        raise GtransError(f"all segments of {ids.path} are {' or '.join(reasons)}")
    notes = [
        f"{count} of {total} segments are left out: they are {reason}"
        for reason, count in reasons.items()
    ]
    if scored:
        notes.append(f"{scored} of {total} segments are {BAD_SOURCE} and are scored, too")
    return counted, notes


# ---- translations of plain text ------------------------------------------------------------------

_WAY_OUT = "--resegment splits documents into aligned sentences, --documents-only needs none"


def _translation_in_lines(files: ScoreFiles) -> str | None:
    """The first translation that has a line for each document; None: there is none."""
    for file in files.systems.values():
        by_lines(file, files.main)  # rejects what may be both
        if file.ids is None and has_lines_of_documents(file, files.main):
            return file.path
    return None


def _by_sentences(file: ScoreFile, main: ScoreFile) -> Documents:
    """Translations of plain text as documents with the same sentences as the main file.

    The first of three rules that fits is applied: by lines (:func:`by_lines`); by documents: those
    of both files have the same numbers of sentences; by sentences: there is no boundary between
    documents, and there are as many sentences as in the reference. They cannot contradict each
    other: if two of them fit, no translation is empty, and sentences are matched in order.

    Raises:
        GtransError: no rule fits; the message names both files and the first line where they
            differ.
    """
    plain, sizes = file.plain, main.sizes
    in_lines = by_lines(file, main)
    if in_lines is not None:
        return in_lines
    if file.sizes == sizes:
        return plain.documents
    if len(plain.documents) == 1 and len(plain.sentences) == sum(sizes):
        return divided(list(plain.sentences.values()), sizes)
    raise _other_sentences(file, main)


def _other_sentences(file: ScoreFile, main: ScoreFile) -> GtransError:
    """The error for translations that do not have the sentences of the main file."""
    plain, places, sizes = file.plain, main.plain.places, main.sizes
    if main.ids is not None:
        return GtransError(
            f"{file.path} has {len(plain.lines)} lines, but {main.path} has {sum(sizes)} segments "
            f"in {len(sizes)} documents; give a line for each of them, or --resegment"
        )
    lacking = lacking_documents(file, main)
    if lacking is not None:
        return lacking
    hint = _hint_of_empty_lines(file, main)
    if len(plain.documents) > 1:
        try:
            read_parallel(file.path, main.path)
        except GtransError as error:
            what = str(error).rstrip(".")
            return GtransError(f"{what} (unless the files have the same lines){hint}; {_WAY_OUT}")
    common = min(len(plain.sentences), len(places))
    if len(plain.sentences) > common:
        where = f"{file.path}:{plain.places[common]}"
    else:
        ends = enumerate(accumulate(sizes), start=1)
        document = next(number for number, end in ends if end > common)
        where = f"{main.path}:{places[common]} (document {document})"
    return GtransError(
        f"{file.path} has {len(plain.sentences)} sentences and no document boundary, but "
        f"{main.path} has {len(places)} sentences: {where} has no counterpart{hint}; {_WAY_OUT}"
    )


def _hint_of_empty_lines(file: ScoreFile, main: ScoreFile) -> str:
    """What to do about empty sentences, if they may be the reason why sentences do not match."""
    places = main.plain.places
    more = [number for number in file.plain.places if number not in set(places)]
    if set(places) <= file.plain.sentences.keys() and more and more[0] < places[-1]:
        return (
            f"; {main.path}:{more[0]} is empty, which separates documents: if its sentence is "
            "missing there, leave the line out of both files, or give both as rows with ids"
        )
    if len(file.plain.documents) == 1 and len(file.plain.sentences) < len(places):
        return "; a file with empty translations needs the reference's boundaries"
    return ""


def _by_documents(file: ScoreFile, main: ScoreFile) -> Documents:
    """Translations of whole documents, whose sentences need not match the reference.

    All lines are the translation of a single document. Of several, the first of these rules that
    fits is applied: the file has the lines of the reference, so that an empty translation is no
    boundary; it has the reference's documents by its boundaries; it has a line for each document.
    Only of the first one, empty translations are kept.

    Raises:
        GtransError: it cannot be told where the documents end.
    """
    plain, sizes = file.plain, main.sizes
    in_lines = by_lines(file, main)
    count = len(plain.documents)
    if len(sizes) == 1:
        return [list(plain.sentences.values())]
    if in_lines is not None:
        filled = [list(filter(None, document)) for document in in_lines]
        if main.ids is not None and count == len(sizes) and plain.documents != filled:
            raise GtransError(
                f"{file.path} has as many lines as {main.path} has segments, and as many documents "
                "by its empty lines, and they are not the same; give it with document ids"
            )
        return in_lines
    if count == len(sizes):
        return plain.documents
    if len(plain.lines) == len(sizes):
        return [[line] for line in plain.lines]
    raise GtransError(
        f"{file.path} has {count} documents in {len(plain.lines)} lines, but {main.path} has "
        f"{len(sizes)} documents; give the same documents with a boundary between them, one line "
        "for each, or ids"
    )


# ---- documents with ids --------------------------------------------------------------------------


def match(translation: Identified, reference: Identified, number: int = 0) -> list[list[str]]:
    """The documents of a translation with the segments of a reference, in its order.

    Segments are matched by their ids if both files have them, otherwise by their order. Where a
    file lacks a segment, such as another reference, the text of the first one stands for it.

    Args:
        translation: the documents to match.
        reference: the documents that they must have.
        number: of the text of each segment, where the file has several references.

    Raises:
        GtransError: a document or a segment is missing, or is not in ``reference``.
    """
    documents = by_document(translation, reference)
    matched = []
    for (name, expected), segments in zip(reference.documents.items(), documents, strict=True):
        if all_missing(expected):
            segments = expected
        elif all(segment.name for segment in [*segments, *expected]):
            known = {segment.name: segment for segment in segments}
            names = [segment.name for segment in expected]
            _compare(f"of document '{name}'", "segment", list(known), names, translation, reference)
            segments = [known[segment.name] for segment in expected]
        elif len(segments) != len(expected):
            raise GtransError(
                f"document '{name}' has {len(segments)} segments in {translation.path}, but "
                f"{len(expected)} in {reference.path}; --resegment splits a translation into the "
                "sentences of the reference"
            )
        texts = []
        for segment, other in zip(segments, expected, strict=True):
            texts.append((other if is_missing(segment) else segment).text(number))
        matched.append(texts)
    return matched


def by_document(translation: Identified, reference: Identified) -> list[list[Segment]]:
    """The segments of every document of ``reference``, however many they are.

    Raises:
        GtransError: a document is missing, or is not in ``reference``.
    """
    kept = {}
    for name, expected in reference.documents.items():
        if not all_missing(expected):
            kept[name] = expected
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
    for size in range(1, count // 2 + 1):
        if count % size == 0 and rows[size:] == rows[:-size]:
            return True
    return False


def _compare(
    place: str,
    kind: str,
    names: list[str],
    expected: list[str],
    text: Identified,
    ref: Identified,
) -> None:
    """Raises GtransError if a document or segment is in one of two files only."""
    _check_lacking(place, kind, expected, set(names), text.path, ref.path)
    _check_lacking(place, kind, names, set(expected), ref.path, text.path)


def _check_lacking(
    place: str,
    kind: str,
    wanted: list[str],
    present: set[str],
    path: str,
    other: str,
) -> None:
    """Raises GtransError if a file lacks what the other one has."""
    missing = [name for name in wanted if name not in present]
    way_out = f", or {COMMON} leaves them out" if kind == "document" else ""
    if missing:
        more = f" and {len(missing) - 1} more" if len(missing) > 1 else ""
        raise GtransError(
            f"{path} lacks the {kind} '{missing[0]}'{more} {place}".rstrip()
            + f", which {other} has; both files need the same {kind}s{way_out}"
        )
