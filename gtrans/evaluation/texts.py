"""The texts that ``gtrans score`` compares: documents with the sentences of the reference.

A file that cannot be matched with certainty is rejected: nobody would notice shifted sentences.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from itertools import accumulate, compress
from typing import Literal, NamedTuple

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
from gtrans.text.reader import (
    ALL_TEXT,
    BAD_SOURCE,
    DocumentsWithIds,
    Segment,
    TextSelection,
    read_parallel,
)

Alignment = Literal["aligned", "whole", "resegmented"]


@dataclass(frozen=True)
class Texts:
    """The texts to score.

    Attributes:
        systems: by name; an empty sentence is an empty translation.
        counted: whether each segment is scored; documents without scored segments are left out.
        whole_documents_file: a file with one line for each document.
    """

    references: list[Documents]
    sources: Documents | None
    systems: Mapping[str, Documents]
    counted: Sequence[Sequence[bool]]
    coverage: Mapping[str, Coverage] = field(default_factory=dict)
    notes: list[str] = field(default_factory=list)
    whole_documents_file: str | None = None

    def map_documents(self, change: Callable[[Documents], Documents]) -> Texts:
        """Apply ``change`` to each reference, the source and each system."""
        systems = {}
        for name, documents in self.systems.items():
            systems[name] = change(documents)
        return replace(
            self,
            references=list(map(change, self.references)),
            sources=None if self.sources is None else change(self.sources),
            systems=systems,
        )


def read_texts(
    references: Sequence[str],
    source: str | None,
    systems: Mapping[str, str],
    alignment: Alignment,
    selection: TextSelection = ALL_TEXT,
    always_resegment: bool = False,
    only_common: bool = False,
) -> Texts:
    """Read references, source and translations, plain text or with document ids.

    Args:
        references: paths; all files must match the first one, or the source without references.
        systems: paths by name, which also chooses among several in one file.
        alignment: ``aligned``: translations have the reference's sentences; ``whole``: only its
            documents; ``resegmented``: they are split into its sentences.
        always_resegment: see :class:`~gtrans.evaluation.resegment.Resegmenter`.
        only_common: leave out documents that one of the files lacks.
    """
    files = read_files(references, source, systems, replace(selection, without_markup=True))
    files, notes = without_markup_of_rows(files)
    if only_common:
        files, missing = common_documents(files)
        notes += missing
    whole_documents_file = None
    if alignment == "aligned":
        whole_documents_file = _file_of_document_lines(files)
    if whole_documents_file is not None:
        alignment = "whole"
    texts = _matched(files, alignment)
    counted, left_out = _counted_segments(files.main, alignment)
    notes = left_out + notes + _note_of_references(files.main)
    texts = replace(
        texts,
        counted=counted,
        notes=notes,
        whole_documents_file=whole_documents_file,
    )
    return _only_counted(texts, files.main.ids, alignment, always_resegment)


# ---- the texts of all files ----------------------------------------------------------------------


def _matched(files: ScoreFiles, alignment: Alignment) -> Texts:
    references: list[Documents] = []
    for file in files.references:
        references += _parallel(file, files.main)
    sources = None
    if files.source is not None:
        sources = _parallel(files.source, files.main)[0]
    translation = _aligned_translation if alignment == "aligned" else _whole_translation
    systems = {}
    for name, file in files.systems.items():
        systems[name] = translation(file, files.main)
    return Texts(references, sources, systems, counted=[])


def _parallel(file: ScoreFile, main: ScoreFile) -> list[Documents]:
    if file.ids is not None and main.ids is not None:
        count = len(file.ids.references) or 1
        return [_matched_by_ids(file.ids, main.ids, number) for number in range(count)]
    same_lines = file.plain.places == main.plain.places
    if same_lines and file.sizes == main.sizes:
        return [file.plain.documents]
    lacking = lacking_documents(file, main)
    if lacking is not None:
        raise lacking
    # Raises an error that says where the files differ, unless only empty lines do.
    pairs = read_parallel(file.path, main.path)
    return [[document for document, _ in pairs]]


def _aligned_translation(file: ScoreFile, main: ScoreFile) -> Documents:
    if file.ids is not None and main.ids is not None:
        return _matched_by_ids(file.ids, main.ids)
    return _plain_by_sentences(file, main)


def _whole_translation(file: ScoreFile, main: ScoreFile) -> Documents:
    if file.ids is None or main.ids is None:
        return _plain_by_documents(file, main)
    documents = []
    for segments in _segments_by_document(file.ids, main.ids):
        documents.append([segment.text() for segment in segments])
    return documents


def _note_of_references(main: ScoreFile) -> list[str]:
    if main.ids is None or len(main.ids.references) < 2:
        return []
    names = main.ids.references
    return [
        f"{main.path} has {len(names)} references, all of which are used: "
        f"{', '.join(names)}; `--reference NAME` chooses"
    ]


def _only_counted(
    texts: Texts,
    ids: DocumentsWithIds | None,
    alignment: Alignment,
    always_resegment: bool,
) -> Texts:
    has_counted = [any(flags) for flags in texts.counted]
    counted = list(compress(texts.counted, has_counted))
    texts = texts.map_documents(partial(_chosen_documents, has_counted))
    if alignment == "resegmented":
        if ids is not None:
            kept = compress(ids.documents.items(), has_counted)
            ids = replace(ids, documents=dict(kept))
        texts = _resegmented(texts, counted, ids, always_resegment)
    # Whole documents, which may have other sentences, are counted as a whole.
    if all(all(flags) for flags in counted):
        return texts
    return texts.map_documents(partial(_counted_sentences, counted))


def _chosen_documents(chosen: Sequence[bool], documents: Documents) -> Documents:
    return list(compress(documents, chosen))


def _counted_sentences(counted: Sequence[Sequence[bool]], documents: Documents) -> Documents:
    kept = []
    for sentences, flags in zip(documents, counted, strict=True):
        kept.append(list(compress(sentences, flags)))
    return kept


def _resegmented(
    texts: Texts,
    counted: Sequence[Sequence[bool]],
    ids: DocumentsWithIds | None,
    always: bool,
) -> Texts:
    resegmenter = Resegmenter(texts.references, always)
    notes = list(texts.notes)
    systems: dict[str, Documents] = {}
    covered: dict[str, Coverage] = {}
    for name, documents in texts.systems.items():
        splits = []
        for number, lines in enumerate(documents):
            splits.append(resegmenter.split(number, lines))
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


def _counted_segments(
    main: ScoreFile,
    alignment: Alignment,
) -> tuple[list[list[bool]], list[str]]:
    """Return which segments are scored, and notes about the others.

    Whole documents keep bad sources; one with a segment without a reference is left out.
    """
    ids = main.ids
    if ids is None:
        return [[True] * size for size in main.sizes], []
    counted = []
    reasons = Counter[str]()
    bad_but_scored = 0
    for segments in ids.documents.values():
        missing = [segment.left_out for segment in segments if is_missing(segment)]
        drop_document = bool(missing) and alignment != "aligned"
        flags = []
        for segment in segments:
            is_usable = not segment.left_out or alignment == "whole"
            flag = is_usable and not drop_document
            flags.append(flag)
            if not flag:
                reasons[segment.left_out or missing[0]] += 1
            elif segment.left_out:
                bad_but_scored += 1
        counted.append(flags)
    total = sum(map(len, counted))
    if reasons.total() == total:
        raise GtransError(f"all segments of {ids.path} are {' or '.join(reasons)}")
    notes = []
    for reason, count in reasons.items():
        notes.append(f"{count} of {total} segments are left out: they are {reason}")
    if bad_but_scored:
        notes.append(f"{bad_but_scored} of {total} segments are {BAD_SOURCE} and are scored, too")
    return counted, notes


# ---- translations of plain text ------------------------------------------------------------------

_WAY_OUT = "--resegment splits documents into aligned sentences, --documents-only needs none"


def _file_of_document_lines(files: ScoreFiles) -> str | None:
    for file in files.systems.values():
        by_lines(file, files.main)  # rejects a file that may be both
        if file.ids is None and has_lines_of_documents(file, files.main):
            return file.path
    return None


def _plain_by_sentences(file: ScoreFile, main: ScoreFile) -> Documents:
    in_lines = by_lines(file, main)
    if in_lines is not None:
        return in_lines
    plain = file.plain
    if file.sizes == main.sizes:
        return plain.documents
    has_boundaries = len(plain.documents) != 1
    if not has_boundaries and len(plain.sentences) == sum(main.sizes):
        return divided(list(plain.sentences.values()), main.sizes)
    raise _other_sentences(file, main)


def _other_sentences(file: ScoreFile, main: ScoreFile) -> GtransError:
    if main.ids is not None:
        return GtransError(
            f"{file.path} has {len(file.plain.lines)} lines, but {main.path} has "
            f"{sum(main.sizes)} segments in {len(main.sizes)} documents; give a line for each of "
            "them, or --resegment"
        )
    lacking = lacking_documents(file, main)
    if lacking is not None:
        return lacking
    hint = _hint_of_empty_lines(file, main)
    if len(file.plain.documents) > 1:
        try:
            read_parallel(file.path, main.path)
        except GtransError as error:
            message = str(error).rstrip(".")
            return GtransError(
                f"{message} (unless the files have the same lines){hint}; {_WAY_OUT}"
            )
    count = len(file.plain.sentences)
    expected = len(main.plain.places)
    return GtransError(
        f"{file.path} has {count} sentences and no document boundary, but {main.path} has "
        f"{expected} sentences: {_first_unmatched(file, main)} has no counterpart{hint}; {_WAY_OUT}"
    )


def _first_unmatched(file: ScoreFile, main: ScoreFile) -> str:
    places = main.plain.places
    matched = min(len(file.plain.sentences), len(places))
    if len(file.plain.sentences) > matched:
        return f"{file.path}:{file.plain.places[matched]}"
    document = 1
    for end in accumulate(main.sizes):
        if end > matched:
            break
        document += 1
    return f"{main.path}:{places[matched]} (document {document})"


def _hint_of_empty_lines(file: ScoreFile, main: ScoreFile) -> str:
    places = main.plain.places
    sentences = file.plain.sentences
    expected = set(places)
    extra = [number for number in sentences if number not in expected]
    has_all_lines = expected <= sentences.keys()
    if has_all_lines and extra and extra[0] < places[-1]:
        return (
            f"; {main.path}:{extra[0]} is empty, which separates documents: if its sentence is "
            "missing there, leave the line out of both files, or give both as rows with ids"
        )
    if len(file.plain.documents) == 1 and len(sentences) < len(places):
        return "; a file with empty translations needs the reference's boundaries"
    return ""


def _plain_by_documents(file: ScoreFile, main: ScoreFile) -> Documents:
    plain = file.plain
    count = len(plain.documents)
    expected = len(main.sizes)
    in_lines = by_lines(file, main)
    if expected == 1:
        return [list(plain.sentences.values())]
    if in_lines is not None:
        if main.ids is not None and count == expected:
            _check_same_documents(file, main, in_lines)
        return in_lines
    if count == expected:
        return plain.documents
    if len(plain.lines) == expected:
        return [[line] for line in plain.lines]
    raise GtransError(
        f"{file.path} has {count} documents in {len(plain.lines)} lines, but {main.path} has "
        f"{expected} documents; give the same documents with a boundary between them, one line "
        "for each, or ids"
    )


def _check_same_documents(file: ScoreFile, main: ScoreFile, in_lines: Documents) -> None:
    filled = [list(filter(None, document)) for document in in_lines]
    if file.plain.documents != filled:
        raise GtransError(
            f"{file.path} has as many lines as {main.path} has segments, and as many documents "
            "by its empty lines, and they are not the same; give it with document ids"
        )


# ---- documents with ids --------------------------------------------------------------------------


def _matched_by_ids(
    translation: DocumentsWithIds,
    reference: DocumentsWithIds,
    number: int = 0,
) -> list[list[str]]:
    """Return a translation's documents with the segments of a reference, in its order.

    The reference's own text stands for a segment that cannot be scored.
    """
    documents = _segments_by_document(translation, reference)
    matched = []
    for name, segments in zip(reference.documents, documents, strict=True):
        expected = reference.documents[name]
        ordered = _in_order_of(expected, segments, name, translation, reference)
        texts = []
        for segment, other in zip(ordered, expected, strict=True):
            chosen = other if is_missing(segment) else segment
            texts.append(chosen.text(number))
        matched.append(texts)
    return matched


def _in_order_of(
    expected: Sequence[Segment],
    segments: Sequence[Segment],
    document: str,
    translation: DocumentsWithIds,
    reference: DocumentsWithIds,
) -> Sequence[Segment]:
    """Return segments in the order of ``expected`` if all have ids, else unchanged."""
    if all_missing(expected):
        return expected
    if all(segment.name for segment in [*segments, *expected]):
        by_name = {segment.name: segment for segment in segments}
        names = [segment.name for segment in expected]
        _check_same_names(
            _NamesInFile(translation.path, list(by_name)),
            _NamesInFile(reference.path, names),
            kind="segment",
            place=f" of document '{document}'",
        )
        return [by_name[name] for name in names]
    if len(segments) != len(expected):
        raise GtransError(
            f"document '{document}' has {len(segments)} segments in {translation.path}, but "
            f"{len(expected)} in {reference.path}; --resegment splits a translation into the "
            "sentences of the reference"
        )
    return segments


def _segments_by_document(
    translation: DocumentsWithIds, reference: DocumentsWithIds
) -> list[list[Segment]]:
    needed = {}
    for name, expected in reference.documents.items():
        if not all_missing(expected):
            needed[name] = expected
    ignored = (reference.documents.keys() | reference.others) - needed.keys()
    names = [name for name in translation.documents if name not in ignored]
    _check_same_names(
        _NamesInFile(translation.path, names),
        _NamesInFile(reference.path, list(needed)),
        kind="document",
    )
    for name, expected in needed.items():
        segments = translation.documents[name]
        if len(segments) == len(expected):
            continue
        if _is_repeated([segment.texts for segment in segments]):
            raise GtransError(
                f"{translation.path} has the same text of document '{name}' several times; give "
                "every document once, or its segments with ids"
            )
    return [translation.documents.get(name, []) for name in reference.documents]


def _is_repeated(rows: Sequence[Sequence[str]]) -> bool:
    count = len(rows)
    for size in range(1, count // 2 + 1):
        if count % size == 0 and rows[size:] == rows[:-size]:
            return True
    return False


class _NamesInFile(NamedTuple):
    path: str
    names: Sequence[str]


def _check_same_names(
    translation: _NamesInFile,
    reference: _NamesInFile,
    kind: Literal["document", "segment"],
    place: str = "",
) -> None:
    _check_lacking(translation, reference, kind, place)
    _check_lacking(reference, translation, kind, place)


def _check_lacking(file: _NamesInFile, other: _NamesInFile, kind: str, place: str) -> None:
    present = set(file.names)
    missing = [name for name in other.names if name not in present]
    if not missing:
        return
    more = f" and {len(missing) - 1} more" if len(missing) > 1 else ""
    way_out = f", or {COMMON} leaves them out" if kind == "document" else ""
    raise GtransError(
        f"{file.path} lacks the {kind} '{missing[0]}'{more}{place}, which {other.path} has; both "
        f"files need the same {kind}s{way_out}"
    )
