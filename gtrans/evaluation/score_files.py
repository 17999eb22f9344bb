"""The files that ``gtrans score`` reads: documents with ids, or plain text."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import islice

from gtrans.errors import GtransError
from gtrans.evaluation.metrics import Documents
from gtrans.text.reader import (
    BAD_SOURCE,
    DocumentsWithIds,
    Role,
    Segment,
    TextSelection,
    iterate_lines,
    plain_lines,
    read_documents_with_ids,
    without_markup,
)


@dataclass(frozen=True)
class PlainLines:
    """Plain text.

    Attributes:
        lines: all lines, also empty ones.
        sentences: by line number from 1.
    """

    lines: list[str]
    sentences: dict[int, str]
    documents: list[list[str]]

    @property
    def places(self) -> list[int]:
        """The line numbers of the sentences."""
        return list(self.sentences)


@dataclass(frozen=True)
class ScoreFile:
    """Documents with ids (``plain`` is empty) or plain text (``ids`` is None)."""

    path: str
    ids: DocumentsWithIds | None
    plain: PlainLines

    @property
    def sizes(self) -> list[int]:
        """The number of sentences of each document."""
        if self.ids is None:
            return list(map(len, self.plain.documents))
        return list(map(len, self.ids.documents.values()))


@dataclass(frozen=True)
class ScoreFiles:
    """All files of a command.

    Attributes:
        main: the first reference, or else the source; all files need its documents.
    """

    main: ScoreFile
    references: list[ScoreFile]
    source: ScoreFile | None
    systems: dict[str, ScoreFile]

    def by_key(self) -> dict[str, ScoreFile]:
        """Return all files by role: ``reference 0``, ``source``, ``system NAME``."""
        files = {}
        for number, file in enumerate(self.references):
            files[f"reference {number}"] = file
        if self.source is not None:
            files["source"] = self.source
        for name, file in self.systems.items():
            files[f"system {name}"] = file
        return files

    def replaced(self, files: Mapping[str, ScoreFile]) -> ScoreFiles:
        """Return a copy with other files, by the keys of :meth:`by_key`."""
        references = [files[f"reference {number}"] for number in range(len(self.references))]
        source = files.get("source")
        systems = {name: files[f"system {name}"] for name in self.systems}
        main = references[0] if references else source
        assert main is not None, "there is a reference or a source"
        return ScoreFiles(main, references, source, systems)


def read_files(
    references: Sequence[str],
    source: str | None,
    systems: Mapping[str, str],
    selection: TextSelection,
) -> ScoreFiles:
    """Read references, source and translations."""
    reference_files = [_read_file(path, "reference", selection) for path in references]
    source_file = None
    if source is not None:
        source_file = _read_file(source, "source", selection)
    system_files = {}
    for name, path in systems.items():
        selected = replace(selection, system=name)
        system_files[name] = _read_file(path, "translation", selected)
    main = reference_files[0] if reference_files else source_file
    assert main is not None, "the command has asked for a reference or a source"
    if main.ids is None and selection.references:
        raise GtransError(
            f"{main.path} is plain text, a reference without a name; leave `--reference` out and "
            "give only the wanted files"
        )
    for file in reference_files:
        _check_same_kind(file, main)
    if source_file is not None:
        _check_same_kind(source_file, main)
    for file in system_files.values():
        if file.ids is not None:  # plain translations may have the lines of a file with ids
            _check_same_kind(file, main)
    return ScoreFiles(main, reference_files, source_file, system_files)


def _check_same_kind(file: ScoreFile, main: ScoreFile) -> None:
    if (file.ids is None) == (main.ids is None):
        return
    with_ids, without = file, main
    if file.ids is None:
        with_ids, without = main, file
    raise GtransError(
        f"{with_ids.path} has document ids, but {without.path} has none; give both with the same "
        "ids, or both without"
    )


def _read_file(path: str, role: Role, selection: TextSelection) -> ScoreFile:
    ids = read_documents_with_ids(path, role, selection)
    if ids is not None:
        return ScoreFile(path, ids, PlainLines([], {}, []))
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
    lines = list(plain_lines(path))
    return ScoreFile(path, None, PlainLines(lines, sentences, documents))


def without_markup_of_rows(files: ScoreFiles) -> tuple[ScoreFiles, list[str]]:
    """Remove markup from plain text if rows had some; return notes, too."""
    counts = []
    for file in files.by_key().values():
        if file.ids is not None and file.ids.with_markup:
            counts.append(f"{file.ids.with_markup} of {file.path}")
    if not counts:
        return files, []
    cleaned = {}
    for key, file in files.by_key().items():
        cleaned[key] = file
        if file.ids is None:
            cleaned[key] = replace(file, plain=_plain_without_markup(file.plain))
    note = (
        "tags and fenced code are taken out of all texts, since a translation keeps them as they "
        f"are (rows with such: {', '.join(dict.fromkeys(counts))})"
    )
    return files.replaced(cleaned), [note]


def _plain_without_markup(plain: PlainLines) -> PlainLines:
    lines = [without_markup(line).strip() for line in plain.lines]
    sentences = {}
    for number, text in plain.sentences.items():
        sentences[number] = without_markup(text)
    return replace(plain, lines=lines, sentences=sentences)


# ---- lines and segments --------------------------------------------------------------------------


def is_missing(segment: Segment) -> bool:
    """Return whether a segment has nothing to be compared with."""
    return bool(segment.left_out) and segment.left_out != BAD_SOURCE


def all_missing(segments: Sequence[Segment]) -> bool:
    """Return whether no segment of a document can be compared."""
    return all(is_missing(segment) for segment in segments)


def has_lines_of_documents(file: ScoreFile, main: ScoreFile) -> bool:
    """Return whether plain text has one line for each document, and no other text."""
    count = len(main.sizes)
    first_lines = list(range(1, count + 1))
    return file.plain.places == first_lines and count < sum(main.sizes)


def by_lines(file: ScoreFile, main: ScoreFile) -> Documents | None:
    """Return plain text with every sentence in the line of its reference or segment, else None.

    An empty line is an empty translation.

    Raises:
        GtransError: the file may also have a line for each document.
    """
    if file.ids is not None:
        return None
    plain = file.plain
    places = main.plain.places
    if main.ids is not None:
        if len(plain.lines) != sum(main.sizes):
            return None
        in_lines = plain.lines
    else:
        is_long_enough = len(plain.lines) >= places[-1]
        if not is_long_enough or not plain.sentences.keys() <= set(places):
            return None
        in_lines = [plain.sentences.get(number, "") for number in places]
    if has_lines_of_documents(file, main):
        raise GtransError(
            f"{file.path} has text in its first {len(main.sizes)} lines alone, as many as there "
            "are documents: if each is a document, remove the empty lines behind them; if each is "
            "a sentence, give the file with document ids"
        )
    return divided(in_lines, main.sizes)


def divided(sentences: Sequence[str], sizes: Sequence[int]) -> Documents:
    """Divide sentences into documents of these sizes."""
    remaining = iter(sentences)
    return [list(islice(remaining, size)) for size in sizes]
