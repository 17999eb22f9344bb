"""Everything that ``gtrans score`` reads, as documents with the sentences of the reference.

A file of translations may have empty ones, and may lack the boundaries of documents. Files that
cannot be matched with certainty are rejected, because nobody would notice that a score is of
shifted sentences.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import accumulate, compress, islice
from typing import Literal

from gtrans.errors import GtransError
from gtrans.evaluation.boundaries import tokens_of
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
    read_identified,
    read_parallel,
    without_markup,
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
    common: bool = False,
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
        common: leave out documents that one of the files lacks.

    Raises:
        GtransError: a file cannot be read or does not match the first one.
    """
    files = _read_files(references, source, systems, replace(choice, without_markup=True))
    files, markup = _without_markup(files)
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


# ---- reading -------------------------------------------------------------------------------------


@dataclass(frozen=True)
class _Plain:
    """Plain text.

    Attributes:
        lines: all of its lines, also empty ones.
        sentences: those that are sentences, by their number from 1.
        documents: the same, as boundaries divide them.
    """

    lines: list[str]
    sentences: dict[int, str]
    documents: list[list[str]]

    @property
    def places(self) -> list[int]:
        """The numbers of the lines that are sentences."""
        return list(self.sentences)


@dataclass(frozen=True)
class _File:
    """A file as it was read: documents with ids, or plain text.

    Attributes:
        path: its name.
        ids: its documents with ids; None: it is plain text.
        plain: its lines; of a file with ids there are none.
    """

    path: str
    ids: Identified | None
    plain: _Plain

    @property
    def sizes(self) -> list[int]:
        """The number of sentences of each document."""
        documents = self.plain.documents if self.ids is None else self.ids.documents.values()
        return [len(document) for document in documents]


@dataclass(frozen=True)
class _Files:
    """All files that were read.

    Attributes:
        main: the first reference, or the source if there is none. All other files have its
            documents.
        references, source, systems: the files by what they are.
    """

    main: _File
    references: list[_File]
    source: _File | None
    systems: dict[str, _File]

    def by_key(self) -> dict[str, _File]:
        """All files, each by a key of its own."""
        files = {f"reference {number}": file for number, file in enumerate(self.references)}
        if self.source is not None:
            files["source"] = self.source
        return files | {f"system {name}": file for name, file in self.systems.items()}

    def replaced(self, files: Mapping[str, _File]) -> _Files:
        """The same with other files, by the keys of :meth:`by_key`."""
        references = [files[f"reference {number}"] for number in range(len(self.references))]
        source = files.get("source")
        systems = {name: files[f"system {name}"] for name in self.systems}
        main = references[0] if references else source
        assert main is not None, "one of both is there"
        return _Files(main, references, source, systems)


def _read_files(
    references: Sequence[str], source: str | None, systems: Mapping[str, str], choice: Choice
) -> _Files:
    """Read all files.

    Raises:
        GtransError: one cannot be read, or some have document ids and others have none.
    """
    reference_files = [_read_file(path, "reference", choice) for path in references]
    source_file = None if source is None else _read_file(source, "source", choice)
    system_files = {
        name: _read_file(path, "translation", replace(choice, system=name))
        for name, path in systems.items()
    }
    main = reference_files[0] if reference_files else source_file
    assert main is not None, "the command has asked for a reference or a source"
    if main.ids is None and choice.references:
        raise GtransError(
            f"{main.path} is plain text, a reference without a name; leave `--reference` out and "
            "give only the wanted files"
        )
    for file in [*reference_files, *([source_file] if source_file else [])]:
        _check_same_kind(file, main)
    for file in system_files.values():
        if file.ids is not None:  # plain translations may have the lines of a file with ids
            _check_same_kind(file, main)
    return _Files(main, reference_files, source_file, system_files)


def _check_same_kind(file: _File, main: _File) -> None:
    """Raises GtransError if one of two files has document ids."""
    if (file.ids is None) != (main.ids is None):
        with_ids, without = (main, file) if file.ids is None else (file, main)
        raise GtransError(
            f"{with_ids.path} has document ids, but {without.path} has none; give both with the "
            "same ids, or both without"
        )


def _read_file(path: str, role: Role, choice: Choice) -> _File:
    """Read a file.

    Raises:
        GtransError: it cannot be read, or it holds no sentence.
    """
    ids = read_identified(path, role, choice)
    if ids is not None:
        return _File(path, ids, _Plain([], {}, []))
    sentences: dict[int, str] = {}
    documents: list[list[str]] = [[]]
    for number, text in iterate_lines(path):
        if text is not None:
            sentences[number] = text
            documents[-1].append(text)
        elif documents[-1]:
            documents.append([])
    if not sentences:
        raise GtransError(f"'{path}' holds no sentence; give a file with one sentence per line")
    if not documents[-1]:
        documents.pop()
    return _File(path, None, _Plain(list(plain_lines(path)), sentences, documents))


def _without_markup(files: _Files) -> tuple[_Files, list[str]]:
    """The files without markup where any of them had some, and a note that says so.

    Markup is left out of rows while they are read; plain text beside them has the same.
    """
    found = {
        file.path: file.ids.with_markup
        for file in files.by_key().values()
        if file.ids is not None and file.ids.with_markup
    }
    if not found:
        return files, []
    cleaned = {}
    for key, file in files.by_key().items():
        plain = file.plain
        if file.ids is None:
            lines = [without_markup(line).strip() for line in plain.lines]
            sentences = {number: without_markup(text) for number, text in plain.sentences.items()}
            plain = replace(plain, lines=lines, sentences=sentences)
        cleaned[key] = replace(file, plain=plain)
    counts = ", ".join(f"{count} of {path}" for path, count in found.items())
    return files.replaced(cleaned), [
        f"tags and fenced code are taken out of all texts, since a translation keeps them as they "
        f"are (rows with such: {counts})"
    ]


# ---- documents that a file lacks -----------------------------------------------------------------

COMMON = "--common-documents"


def common_documents(files: _Files) -> tuple[_Files, list[str]]:
    """The files without the documents that one of them lacks, and notes that name these.

    Documents of plain text have no ids: they are told apart by their numbers of sentences.

    Raises:
        GtransError: no document is common, or it cannot be told which ones are.
    """
    main = files.main
    notes: list[str] = []
    kept = set(range(len(main.sizes)))
    places: dict[str, dict[int, int]] = {}
    for key, file in files.by_key().items():
        places[key] = _places_of_documents(file, main)
        kept &= places[key].keys()
        notes += _notes_of_documents(file, main, places[key])
    if not kept:
        raise GtransError(f"no document is in all files; {COMMON} leaves nothing to score")
    if not notes:
        return files, []
    chosen = {}
    for key, file in files.by_key().items():
        chosen[key] = _with_documents(file, main, [places[key][number] for number in sorted(kept)])
    return files.replaced(chosen), list(dict.fromkeys(notes))


def _notes_of_documents(file: _File, main: _File, places: Mapping[int, int]) -> list[str]:
    """Which documents one of two files lacks."""
    names, own_names = _names_of_documents(main), _names_of_documents(file)
    lacking = [name for number, name in enumerate(names) if number not in places]
    more = [name for place, name in enumerate(own_names) if place not in places.values()]
    if file.ids is not None and main.ids is not None:
        unscored = [name for name, segments in main.ids.documents.items() if _all_missing(segments)]
        lacking = [name for name in lacking if name not in unscored]
        more = [name for name in more if name not in main.ids.others]
    notes = []
    for path, other, missing in ((file.path, main.path, lacking), (main.path, file.path, more)):
        if missing:
            notes.append(
                f"{path} lacks {_some(len(missing), 'document')} of {other}, which no score "
                f"counts: {_listed(missing)}"
            )
    return notes


def _names_of_documents(file: _File) -> list[str]:
    """The ids of documents; of plain text their numbers and first lines."""
    if file.ids is not None:
        return list(file.ids.documents)
    names = []
    begin = 0
    for number, size in enumerate(file.sizes, start=1):
        names.append(f"no. {number} ({file.path}:{file.plain.places[begin]})")
        begin += size
    return names


def _some(count: int, noun: str) -> str:
    return f"{count} {noun}" if count == 1 else f"{count} {noun}s"


def _listed(names: Sequence[str]) -> str:
    shown = ", ".join(names[:3])
    return shown if len(names) <= 3 else f"{shown} and {len(names) - 3} more"


def _places_of_documents(file: _File, main: _File) -> dict[int, int]:
    """The place in a file of each document that it has, by the document's number in the main file.

    Raises:
        GtransError: the documents of plain text cannot be told apart by their sizes.
    """
    if file.ids is not None and main.ids is not None:
        where = {name: place for place, name in enumerate(file.ids.documents)}
        return {
            number: where[name] for number, name in enumerate(main.ids.documents) if name in where
        }
    same_lines = file.ids is None and _by_lines(file, main) is not None
    if same_lines or len(file.sizes) == len(main.sizes):
        return {number: number for number in range(len(main.sizes))}
    places = _places_in_plain_text(file, main)
    if not places:
        raise GtransError(
            f"{file.path} has {len(file.sizes)} documents, but {main.path} has {len(main.sizes)}, "
            "and neither their numbers of sentences nor their words tell which one is missing; "
            "give both with ids of their documents"
        )
    return places


def _places_in_plain_text(file: _File, main: _File) -> dict[int, int]:
    """The place of each document that plain text has; empty: it cannot be told.

    Documents belong together if they have the same number of sentences and no other order is
    possible; where several are possible, by the words that they share.
    """
    by_size = _only_order(file.sizes, main.sizes)
    if by_size is not None:
        return by_size
    places: dict[int, int] = {}
    for place, document in enumerate(file.plain.documents):
        alike = {
            number: _shared_words(document, main.plain.documents[number])
            for number, size in enumerate(main.sizes)
            if size == len(document)
        }
        if not alike:
            continue
        best = max(alike, key=lambda number: alike[number])
        is_unclear = alike[best] == 0 or list(alike.values()).count(alike[best]) > 1
        if is_unclear or best <= max(places, default=-1):
            return {}
        places[best] = place
    return places


def _only_order(sizes: Sequence[int], main_sizes: Sequence[int]) -> dict[int, int] | None:
    """The only way to leave documents of the longer file out, so that the sizes are the same.

    Returns:
        the place of each document by its number in the main file; None: there are several ways, or
        none.
    """
    is_longer = len(sizes) > len(main_sizes)
    short, long = (main_sizes, sizes) if is_longer else (sizes, main_sizes)
    first = _subsequence(short, long)
    backwards = _subsequence(short[::-1], long[::-1])
    if first is None or backwards is None:
        return None
    if first != [len(long) - 1 - place for place in reversed(backwards)]:
        return None
    pairs = enumerate(first)
    return dict(pairs) if is_longer else {number: place for place, number in pairs}


def _subsequence(wanted: Sequence[int], values: Sequence[int]) -> list[int] | None:
    """The first places of values that are the wanted ones in their order; None: there are none."""
    places: list[int] = []
    for place, value in enumerate(values):
        if len(places) < len(wanted) and value == wanted[len(places)]:
            places.append(place)
    return places if len(places) == len(wanted) else None


def _shared_words(document: Sequence[str], other: Sequence[str]) -> float:
    """The share of different words of two documents that are in both."""
    words, others = (set(tokens_of(" ".join(sentences))) for sentences in (document, other))
    return len(words & others) / max(1, len(words | others))


def _with_documents(file: _File, main: _File, places: Sequence[int]) -> _File:
    """A file with these of its documents alone."""
    if file.ids is not None:
        names = list(file.ids.documents)
        documents = {names[place]: file.ids.documents[names[place]] for place in places}
        others = (file.ids.others | file.ids.documents.keys()) - documents.keys()
        return replace(file, ids=replace(file.ids, documents=documents, others=others))
    documents_of_text = _by_lines(file, main) or file.plain.documents
    return replace(file, plain=_plain_of([documents_of_text[place] for place in places]))


def _plain_of(documents: Sequence[Sequence[str]]) -> _Plain:
    """Plain text of documents, as if a file held them with an empty line between them."""
    lines = [""]
    for document in documents:
        lines += [*document, ""]
    sentences = {number: line for number, line in enumerate(lines) if line}
    return _Plain(lines[1:-1], sentences, [list(document) for document in documents])


# ---- the texts of all files ----------------------------------------------------------------------


def _matched(files: _Files, alignment: Alignment) -> Texts:
    """The documents of all files in the order of the main one.

    Raises:
        GtransError: a file does not match the main one.
    """
    references = [text for file in files.references for text in _parallel(file, files.main)]
    sources = None if files.source is None else _parallel(files.source, files.main)[0]
    systems = {
        name: _translation(file, files.main, alignment) for name, file in files.systems.items()
    }
    counted = [[True] * size for size in files.main.sizes]
    return Texts(references, sources, systems, counted)


def _parallel(file: _File, main: _File) -> list[Documents]:
    """The texts of a reference or source, which must have the sentences of the main file.

    A file with ids may have several references.
    """
    if file.ids is not None and main.ids is not None:
        count = len(file.ids.references) or 1
        return [match(file.ids, main.ids, number) for number in range(count)]
    if file.plain.places != main.plain.places or file.sizes != main.sizes:
        lacking = _lacking_documents(file, main)
        if lacking is not None:
            raise lacking
        # Says where they differ, unless white space alone does.
        return [[document for document, _ in read_parallel(file.path, main.path)]]
    return [file.plain.documents]


def _translation(file: _File, main: _File, alignment: Alignment) -> Documents:
    """The documents of a translation; see :func:`_by_sentences` and :func:`_by_documents`."""
    if file.ids is not None and main.ids is not None:
        if alignment == "aligned":
            return match(file.ids, main.ids)
        documents = by_document(file.ids, main.ids)
        return [[segment.text() for segment in segments] for segments in documents]
    return _by_sentences(file, main) if alignment == "aligned" else _by_documents(file, main)


def _note_of_references(main: _File) -> list[str]:
    if main.ids is None or len(main.ids.references) < 2:
        return []
    return [
        f"{main.path} has {len(main.ids.references)} references, all of which are used: "
        f"{', '.join(main.ids.references)}; `--reference NAME` chooses"
    ]


def _without_empty_documents(
    texts: Texts, ids: Identified | None
) -> tuple[Texts, list[Sequence[bool]], Identified | None]:
    """The texts without documents of which nothing is counted; what is counted of the others."""
    kept = [any(flags) for flags in texts.counted]
    texts = texts.chosen(lambda documents: list(compress(documents, kept)))
    if ids is not None:
        ids = replace(ids, documents=dict(compress(ids.documents.items(), kept)))
    return texts, list(compress(texts.counted, kept)), ids


def _counted_alone(texts: Texts, counted: Sequence[Sequence[bool]]) -> Texts:
    """The texts without sentences that are not counted."""
    if all(all(flags) for flags in counted):  # of whole documents, whose sentences may be others
        return texts
    return texts.chosen(
        lambda documents: [
            list(compress(sentences, flags))
            for sentences, flags in zip(documents, counted, strict=True)
        ]
    )


def _resegmented(
    texts: Texts, counted: Sequence[Sequence[bool]], ids: Identified | None, always: bool
) -> Texts:
    """The translations in the sentences of the references, and what they cover."""
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


# ---- what is scored ------------------------------------------------------------------------------


def _is_missing(segment: Segment) -> bool:
    """Whether there is nothing to compare a segment with."""
    return bool(segment.left_out) and segment.left_out != BAD_SOURCE


def _all_missing(segments: Sequence[Segment]) -> bool:
    return all(_is_missing(segment) for segment in segments)


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
        missing = [segment.left_out for segment in segments if _is_missing(segment)]
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


def _translation_in_lines(files: _Files) -> str | None:
    """The first translation that has a line for each document; None: there is none."""
    for file in files.systems.values():
        _by_lines(file, files.main)  # rejects what may be both
        if file.ids is None and _has_lines_of_documents(file, files.main):
            return file.path
    return None


def _has_lines_of_documents(file: _File, main: _File) -> bool:
    """Whether plain text begins with a line for each document, and has no other text."""
    count = len(main.sizes)
    return file.plain.places == list(range(1, count + 1)) and count < sum(main.sizes)


def _by_lines(file: _File, main: _File) -> Documents | None:
    """The translation of each sentence, if every one stands in the line of its sentence.

    The file must be at least as long as the line of the last sentence; an empty line is an empty
    translation. Where the main file has ids, a translation has its lines if it has as many as there
    are segments. None: it is not so.

    Raises:
        GtransError: the file has two meanings, a line for each document or the first sentences and
            empty translations.
    """
    plain, places = file.plain, main.plain.places
    if file.ids is not None:
        return None
    if main.ids is not None:
        in_lines = plain.lines if len(plain.lines) == sum(main.sizes) else None
    elif plain.sentences.keys() <= set(places) and len(plain.lines) >= places[-1]:
        in_lines = [plain.sentences.get(number, "") for number in places]
    else:
        in_lines = None
    if in_lines is None:
        return None
    if _has_lines_of_documents(file, main):
        raise GtransError(
            f"{file.path} has text in its first {len(main.sizes)} lines alone, as many as there "
            "are documents: if each is a document, remove the empty lines behind them; if each is "
            "a sentence, give the file with document ids"
        )
    return _divided(in_lines, main.sizes)


def _divided(sentences: Sequence[str], sizes: Sequence[int]) -> Documents:
    """Sentences in documents of these sizes."""
    remaining = iter(sentences)
    return [list(islice(remaining, size)) for size in sizes]


def _by_sentences(file: _File, main: _File) -> Documents:
    """Translations of plain text as documents with the same sentences as the main file.

    The first of three rules that fits is applied: by lines (:func:`_by_lines`); by documents: those
    of both files have the same numbers of sentences; by sentences: there is no boundary between
    documents, and the number of sentences is that of the reference. They cannot contradict each
    other: if two of them fit, no translation is empty, and sentences are matched in order.

    Raises:
        GtransError: no rule fits; the message names both files and the first line where they
            differ.
    """
    plain, sizes = file.plain, main.sizes
    in_lines = _by_lines(file, main)
    if in_lines is not None:
        return in_lines
    if file.sizes == sizes:
        return plain.documents
    if len(plain.documents) == 1 and len(plain.sentences) == sum(sizes):
        return _divided(list(plain.sentences.values()), sizes)
    raise _other_sentences(file, main)


def _other_sentences(file: _File, main: _File) -> GtransError:
    """The error for translations whose sentences are not those of the main file."""
    plain, places, sizes = file.plain, main.plain.places, main.sizes
    if main.ids is not None:
        return GtransError(
            f"{file.path} has {len(plain.lines)} lines, but {main.path} has {sum(sizes)} segments "
            f"in {len(sizes)} documents; give a line for each of them, or --resegment"
        )
    lacking = _lacking_documents(file, main)
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


def _hint_of_empty_lines(file: _File, main: _File) -> str:
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


def _lacking_documents(file: _File, main: _File) -> GtransError | None:
    """The error for plain text that has the documents of the other file but for some."""
    if len(file.sizes) == len(main.sizes) or 1 in (len(file.sizes), len(main.sizes)):
        return None
    places = _places_in_plain_text(file, main)
    if not places:
        return None
    shown = "; ".join(_notes_of_documents(file, main, places))
    shown = shown.replace(", which no score counts", "")
    return GtransError(
        f"{shown}; both files need the same documents, or {COMMON} leaves them out of both"
    )


def _by_documents(file: _File, main: _File) -> Documents:
    """Translations of whole documents, whose sentences need not match the reference.

    All lines are the translation of a single document. Of several, the first of these rules that
    fits is applied: the file has the lines of the reference, so that an empty translation is no
    boundary; it has the reference's documents by its boundaries; it has a line for each document.
    Only of the first one, empty translations are kept.

    Raises:
        GtransError: it cannot be told where the documents end.
    """
    plain, sizes = file.plain, main.sizes
    in_lines = _by_lines(file, main)
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
        if _all_missing(expected):
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
            texts.append((other if _is_missing(segment) else segment).text(number))
        matched.append(texts)
    return matched


def by_document(translation: Identified, reference: Identified) -> list[list[Segment]]:
    """The segments of every document of ``reference``, however many they are.

    Raises:
        GtransError: a document is missing, or is not in ``reference``.
    """
    kept = {
        name: expected
        for name, expected in reference.documents.items()
        if not _all_missing(expected)
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
    for size in range(1, count // 2 + 1):
        if count % size == 0 and rows[size:] == rows[:-size]:
            return True
    return False


def _compare(
    place: str, kind: str, names: list[str], expected: list[str], text: Identified, ref: Identified
) -> None:
    """Raises GtransError if a document or segment is in one of two files only."""
    _check_lacking(place, kind, expected, set(names), text.path, ref.path)
    _check_lacking(place, kind, names, set(expected), ref.path, text.path)


def _check_lacking(
    place: str, kind: str, wanted: list[str], present: set[str], path: str, other: str
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
