"""The files that ``gtrans score`` reads: documents with ids, or lines of plain text."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import islice

from gtrans.errors import GtransError
from gtrans.evaluation.metrics import Documents
from gtrans.text.reader import (
    BAD_SOURCE,
    Choice,
    Identified,
    Role,
    Segment,
    iterate_lines,
    plain_lines,
    read_identified,
    without_markup,
)


@dataclass(frozen=True)
class PlainLines:
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
class ScoreFile:
    """A file as it was read: documents with ids, or plain text.

    Attributes:
        path: its name.
        ids: its documents with ids; None: it is plain text.
        plain: its lines; of a file with ids there are none.
    """

    path: str
    ids: Identified | None
    plain: PlainLines

    @property
    def sizes(self) -> list[int]:
        """The number of sentences of each document."""
        if self.ids is None:
            return [len(document) for document in self.plain.documents]
        return [len(segments) for segments in self.ids.documents.values()]


@dataclass(frozen=True)
class ScoreFiles:
    """All files that were read.

    Attributes:
        main: the first reference, or the source if there is none. All other files have its
            documents.
        references, source, systems: the files by their role.
    """

    main: ScoreFile
    references: list[ScoreFile]
    source: ScoreFile | None
    systems: dict[str, ScoreFile]

    def by_key(self) -> dict[str, ScoreFile]:
        """All files, each by a key of its own."""
        files = {f"reference {number}": file for number, file in enumerate(self.references)}
        if self.source is not None:
            files["source"] = self.source
        return files | {f"system {name}": file for name, file in self.systems.items()}

    def replaced(self, files: Mapping[str, ScoreFile]) -> ScoreFiles:
        """The same with other files, by the keys of :meth:`by_key`."""
        references = [files[f"reference {number}"] for number in range(len(self.references))]
        source = files.get("source")
        systems = {name: files[f"system {name}"] for name in self.systems}
        main = references[0] if references else source
        assert main is not None, "one of both is there"
        return ScoreFiles(main, references, source, systems)


def read_files(
    references: Sequence[str],
    source: str | None,
    systems: Mapping[str, str],
    choice: Choice,
) -> ScoreFiles:
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
    return ScoreFiles(main, reference_files, source_file, system_files)


def _check_same_kind(file: ScoreFile, main: ScoreFile) -> None:
    """Raises GtransError if one of two files has document ids."""
    if (file.ids is None) != (main.ids is None):
        with_ids, without = (main, file) if file.ids is None else (file, main)
        raise GtransError(
            f"{with_ids.path} has document ids, but {without.path} has none; give both with the "
            "same ids, or both without"
        )


def _read_file(path: str, role: Role, choice: Choice) -> ScoreFile:
    """Read a file.

    Raises:
        GtransError: it cannot be read, or it holds no sentence.
    """
    ids = read_identified(path, role, choice)
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
    return ScoreFile(path, None, PlainLines(list(plain_lines(path)), sentences, documents))


def without_markup_of_rows(files: ScoreFiles) -> tuple[ScoreFiles, list[str]]:
    """The files without markup where any of them had some, and a note that says so.

    Markup is left out of rows while they are read; plain text beside them has the same.
    """
    found = {}
    for file in files.by_key().values():
        if file.ids is not None and file.ids.with_markup:
            found[file.path] = file.ids.with_markup
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


# ---- lines and segments --------------------------------------------------------------------------


def is_missing(segment: Segment) -> bool:
    """Whether there is nothing to compare a segment with."""
    return bool(segment.left_out) and segment.left_out != BAD_SOURCE


def all_missing(segments: Sequence[Segment]) -> bool:
    """Whether there is nothing to compare a document with."""
    return all(is_missing(segment) for segment in segments)


def has_lines_of_documents(file: ScoreFile, main: ScoreFile) -> bool:
    """Whether plain text begins with a line for each document, and has no other text."""
    count = len(main.sizes)
    return file.plain.places == list(range(1, count + 1)) and count < sum(main.sizes)


def by_lines(file: ScoreFile, main: ScoreFile) -> Documents | None:
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
    if has_lines_of_documents(file, main):
        raise GtransError(
            f"{file.path} has text in its first {len(main.sizes)} lines alone, as many as there "
            "are documents: if each is a document, remove the empty lines behind them; if each is "
            "a sentence, give the file with document ids"
        )
    return divided(in_lines, main.sizes)


def divided(sentences: Sequence[str], sizes: Sequence[int]) -> Documents:
    """Sentences in documents of these sizes."""
    remaining = iter(sentences)
    return [list(islice(remaining, size)) for size in sizes]
