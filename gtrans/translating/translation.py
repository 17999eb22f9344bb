"""Texts on their way: read, cut into rows and batches, translated, and written as they were.

Sentences form rows as the checkpoint's unit says. In document units a row ends with the document
or before its source tokens would exceed ``max_doc_tokens``. (``fairseq-generate`` cuts documents by
both sides, as training does.)
"""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field, replace
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from torch import Tensor

from gtrans.annexes import formats
from gtrans.data.documents import STANDARD_STREAM, check_length, iterate_raw_lines
from gtrans.data.examples import Example
from gtrans.errors import GtransError
from gtrans.files import (
    check_output,
    check_output_folder,
    digest,
    digest_of_values,
    is_file,
)
from gtrans.languages import WITHOUT_SPACES, language_code
from gtrans.messages import print_message
from gtrans.search.document_search import SentenceHypothesis
from gtrans.search.generator import LEAST_ROW_TOKENS
from gtrans.search.options import DecodingOptions
from gtrans.search.part_search import PartsOfDocument
from gtrans.text.pipeline import PLACEHOLDER
from gtrans.text.prepared_folder import prepared_files
from gtrans.text.reader import (
    Document,
    Plain,
    Reader,
    TextSelection,
    check_plain,
    have_markup,
    is_boundary,
    notice_running_text,
    open_text,
)
from gtrans.translating.loading import decoding_device, refuse_folders
from gtrans.translating.output import (
    RECORD_SUFFIX,
    Output,
    PartKey,
    read_record,
    refuse_foreign,
    write_out,
)
from gtrans.translating.unknown_words import with_symbols
from gtrans.version import __version__

if TYPE_CHECKING:
    from gtrans.text.document_file import DocumentFile

# Options that a translation does not depend on, or that the record has in another way.
_NOT_RECORDED = {"paths", "data", "cpu", "workers", "force", "selection"}


class EncodedSentence(NamedTuple):
    """The ids of a sentence with its ``</s>``, and its BERT subwords if a BERT reads them."""

    ids: Tensor
    bert_subwords: Tensor | None


class Alternative(NamedTuple):
    """A translation of a sentence.

    Attributes:
        text: the translation.
        score: :meth:`gtrans.search.options.SearchOptions.score`: the sum of the
            log-probabilities of its tokens, divided by their number to the power of ``lenpen``.
    """

    text: str
    score: float


Translations = list[list[Alternative]]
"""The translations of each sentence of a document or of a row, the best first."""


def best_of(documents: Sequence[Translations]) -> list[list[str]]:
    """The text of the best translation of each sentence."""
    return [[alternatives[0].text for alternatives in document] for document in documents]


# ---- texts ---------------------------------------------------------------------------------------


@dataclass
class LinesOfText:
    """A text whose output has a line for each of its lines.

    It has the same attributes and methods as a :class:`gtrans.text.document_file.DocumentFile`, as
    far as a :class:`Translation` uses them.

    Attributes:
        path: the file, for messages.
        sentences: the sentences of each document.
        layout: the lines of the output, None in place of each translation.
        places: where each sentence of all documents stands, for messages.
        ids: the id of each document and of its sentences; empty: they are counted.
        notes: none.
    """

    path: str
    sentences: list[list[str]]
    layout: list[str | None] = field(default_factory=list)
    places: list[str] = field(default_factory=list)
    ids: list[tuple[str, list[str]]] = field(default_factory=list)
    notes: Sequence[Any] = ()

    @classmethod
    def of_lines(cls, path: str, lines: Sequence[str]) -> LinesOfText:
        """Plain text, whose boundaries stay as they are; documents are counted from 1."""
        text = cls(path, [])
        document: list[str] = []
        for number, line in enumerate(lines, start=1):
            if is_boundary(line):
                text.layout.append(line)
                document = []
                continue
            if not document:
                text.sentences.append(document)
            document.append(line)
            text.layout.append(None)
            text.places.append(f"{path}:{number}")
        return text

    @classmethod
    def of_documents(cls, path: str, documents: Iterable[Document]) -> LinesOfText:
        """A text with ids, which gets an empty line between documents."""
        text = cls(path, [])
        for number, document in enumerate(documents, start=1):
            if text.layout:
                text.layout.append("")
            sentences: list[str] = []
            ids: list[str] = []
            for segment in document.segments:
                text.layout.append(None if segment.text() else PLACEHOLDER)
                if segment.text():
                    sentences.append(segment.text())
                    ids.append(segment.name or str(len(sentences)))
                    text.places.append(f"{path}:{segment.line}")
            text.sentences.append(sentences)
            text.ids.append((document.name or str(number), ids))
        return text

    def names(self) -> list[tuple[str, list[str]]]:
        """The id of each document and of its sentences."""
        if self.ids:
            return self.ids
        return [
            (str(number), [str(place) for place in range(1, len(document) + 1)])
            for number, document in enumerate(self.sentences, start=1)
        ]

    def where(self) -> list[str]:
        """Where each sentence of all documents stands, for messages."""
        return self.places

    def translated(self, translations: Sequence[Sequence[str]], joint: str) -> bytes:
        """The contents of the output."""
        following = chain.from_iterable(translations)
        return as_lines(next(following) if line is None else line for line in self.layout)


def as_lines(lines: Iterable[str]) -> bytes:
    """The contents of a file with these lines."""
    return "".join(f"{line}\n" for line in lines).encode()


def json_lines(
    names: Sequence[tuple[str, Sequence[str]]],
    sources: Sequence[Sequence[str]],
    translations: Sequence[Translations],
) -> list[str]:
    """A JSON object for each sentence, with the names that ``gtrans score`` knows.

    Args:
        names: the id of each document and of its sentences.
        sources: the sentences of each document.
        translations: the translations of each sentence of each document.
    """
    lines = []
    for (document, ids), texts, sentences in zip(names, sources, translations, strict=True):
        for name, source, alternatives in zip(ids, texts, sentences, strict=True):
            nbest = [{"hypothesis": text, "score": round(score, 6)} for text, score in alternatives]
            row = {"doc_id": document, "seg_id": name, "source": source, **nbest[0]}
            if len(nbest) > 1:
                row["nbest"] = nbest
            lines.append(json.dumps(row, ensure_ascii=False))
    return lines


# ---- a text on its way ---------------------------------------------------------------------------


class Translation:
    """A text on its way: its sentences as tokens, its batches, and its translations so far.

    Attributes:
        source: the text.
        documents: its sentences as tokens.
        output: its finished documents, and their place.
        sentences: how many there are.
    """

    def __init__(
        self,
        translator: Any,
        source: LinesOfText | DocumentFile,
        output: str = STANDARD_STREAM,
        options: DecodingOptions | None = None,
        read: Sequence[object] = (),
    ) -> None:
        """Encode the sentences, and warn of those that models can hardly translate.

        Args:
            translator: a :class:`gtrans.translating.translator.Translator`, which cuts documents
                into rows and batches.
            source: the text.
            output: the file to write, or ``-``.
            options: the options of the command; None: nothing is written.
            read: everything of the text that the output depends on.
        """
        self.translator, self.source, self.options = translator, source, options
        self.documents = translator.encoded(source.sentences)
        self.sentences = sum(len(document) for document in self.documents)
        translator.warn_of(source.path, source.sentences, self.documents, source.where())
        self.output = Output()
        if options is not None:
            self.output = Output(output, self._provenance(options, read), options.force)
        self._progress: Any = None
        self._rows_of_documents: list[list[Example]] = []
        self._rows: list[Example] = []
        self._batches: list[list[int]] = []
        self._translated: list[Translations] = []
        # How many sentences of each batch that is not translated progress has counted.
        self._counted: dict[int, int] = {}

    def _provenance(self, options: DecodingOptions, read: Sequence[object]) -> dict[str, Any]:
        """Everything that the translation depends on."""
        translator = self.translator
        chosen = {key: value for key, value in asdict(options).items() if key not in _NOT_RECORDED}
        # The limit on rows is named where it makes other batches, of which a part is kept.
        rows = min(translator.generator.rows_at_once, options.max_tokens // LEAST_ROW_TOKENS)
        # A checkpoint without a vocabulary of its own reads and writes by that of --data.
        tokens = hashlib.sha256()
        for sentence in chain.from_iterable(self.documents):
            for ids in sentence:
                tokens.update(b"\n" if ids is None else ids.numpy().tobytes())
        return {
            "gtrans": __version__,
            "input": digest_of_values(list(read)),
            "tokens": tokens.hexdigest(),
            "vocabulary": digest_of_values(translator.task.target_dictionary.symbols),
            "checkpoints": list(translator.checkpoints),
            "preparation": translator.preparation or "",
            "unit": translator.examples.unit.as_dict(),
            "device": decoding_device(options.cpu).type,
            "max_rows": rows,
            **chosen,
        }

    # ---- batches

    @contextmanager
    def opened(self, progress: Any) -> Iterator[None]:
        """Cut the documents into batches, and take over those that earlier runs have translated.

        Args:
            progress: counts translated sentences.

        Raises:
            GtransError: see :meth:`Output.opened`.
        """
        self._progress = progress
        with self.output.opened():
            self._rows_of_documents = self.translator.cut(self.documents)
            self._rows = list(chain.from_iterable(self._rows_of_documents))
            self._batches = self.translator.batches(self._rows)
            self._translated = [[] for _ in self._rows]
            self._counted = dict.fromkeys(range(len(self._batches)), 0)
            for number, rows in self.output.batches.items():
                stored = [[[Alternative(*pair) for pair in nbest] for nbest in row] for row in rows]
                # This says nothing of the speed of this run.
                self._progress.initial += self._store(number, stored)
            self._progress.update(0)
            yield

    def missing(self) -> Iterator[tuple[int, list[Example]]]:
        """The batches that are not translated yet, each with its number and its rows.

        If all are translated, one without rows.
        """
        if not self._counted:
            yield -1, []
        for number in list(self._counted):
            yield number, [self._rows[index] for index in self._batches[number]]

    def add(self, number: int, translations: list[Translations]) -> None:
        """Keep the translations of a batch; one without rows changes nothing."""
        if translations:
            self.output.keep_batch(number, translations)
            self._progress.update(self._store(number, translations))

    def _store(self, number: int, translations: list[Translations]) -> int:
        """Store the translations of a batch; returns how many sentences progress lacks."""
        written = 0
        for index, row in zip(self._batches[number], translations, strict=True):
            self._translated[index] = row
            written += (
                self._rows[index]["predicted_sentences"] if self.translator.free else len(row)
            )
        return written - self._counted.pop(number)

    @property
    def is_translated(self) -> bool:
        """Whether all batches are translated."""
        return not self._counted

    def parts_of(self, number: int) -> dict[tuple[int, int], PartsOfDocument]:
        """The parts of a batch that an earlier run has translated, by document and part."""
        parts = {}
        for key, hypotheses in self.output.parts.items():
            if key.batch == number:
                parts[key.document, key.part] = [
                    [SentenceHypothesis(*pair) for pair in sentences] for sentences in hypotheses
                ]
        return parts

    def add_part(self, number: int, document: int, part: int, hypotheses: PartsOfDocument) -> None:
        """Keep the translations of a part of a document of a batch."""
        self.output.keep_part(PartKey(number, document, part), hypotheses)
        self._progress.update(len(hypotheses[0]))
        self._counted[number] += len(hypotheses[0])

    # ---- the end

    def translations(self) -> list[Translations]:
        """For each document the translations of its sentences; all batches are translated."""
        rows = iter(self._translated)
        documents = []
        for document in self._rows_of_documents:
            documents.append(list(chain.from_iterable(next(rows) for _ in document)))
        if self.translator.copies_symbols and not self.translator.free:
            for sources, sentences in zip(self.source.sentences, documents, strict=True):
                for number, source in enumerate(sources):
                    sentences[number] = [
                        Alternative(with_symbols(source, text), score)
                        for text, score in sentences[number]
                    ]
        return documents

    def write(self) -> None:
        """Write the translations of all documents, and the record.

        Raises:
            GtransError: the output cannot be written.
        """
        options = self.options
        assert options is not None
        names = {"checkpoints": options.paths, "data": options.data, "input": self.source.path}
        self.output.write(self._contents(options), names, self.sentences)

    def _contents(self, options: DecodingOptions) -> bytes:
        translations, free = self.translations(), options.search.free
        if not free and list(map(len, translations)) != list(map(len, self.documents)):
            raise GtransError(
                f"'{self.output.partial}' was changed: it has {sum(map(len, translations))} "
                f"translations, but {self.sentences} are needed; `--force` translates anew."
            )
        if options.nbest:
            return as_lines(json_lines(self.source.names(), self.source.sentences, translations))
        if free:
            return as_lines(" ".join(document) for document in best_of(translations) if document)
        lang = language_code(str(self.translator.task.cfg.target_lang))
        return self.source.translated(best_of(translations), "" if lang in WITHOUT_SPACES else " ")


# ---- what a command translates -------------------------------------------------------------------


def with_direction(selection: TextSelection, translator: Any) -> TextSelection:
    """What to read: if no direction is chosen, the rows of the model's own."""
    cfg = translator.task.cfg
    return replace(
        selection, direction=selection.direction or f"{cfg.source_lang}-{cfg.target_lang}"
    )


@dataclass
class TextToTranslate:
    """The text of ``--input``, one line or row a sentence.

    All boundaries between documents (empty lines, lines ``<d>``) are kept, also consecutive,
    leading and trailing ones. A translation that would be read as a boundary is written as U+FFFD,
    so that an empty line always is a boundary. (A translation is empty if the model writes only
    special tokens, which become no text.)

    Attributes:
        path: the file, or ``-``.
        output: the file to write, or ``-``.
        lines: the lines of plain text; None: it is rows.
        rows: reads rows.
    """

    path: str
    output: str
    lines: list[str] | None
    rows: Reader

    @classmethod
    def open(cls, path: str, output: str, options: DecodingOptions) -> TextToTranslate:
        """Read plain text, and find mistakes before models are loaded.

        Raises:
            GtransError: a file that is missing, not UTF-8 or of an unknown format; an output that
                cannot be written, is one of the inputs, or was written by somebody else.
        """
        if output != STANDARD_STREAM:
            prepared = [] if options.data is None else prepared_files(options.data)
            source = "/dev/stdin" if path == STANDARD_STREAM else path
            check_output("--output", output, [*options.paths, *prepared, source])
            if is_file(output):
                refuse_foreign(output, options.force)
        decoding_device(options.cpu, options.fp16)  # before the standard input is waited for
        reader = open_text(path, "source", options.selection, once=True)
        lines = None
        if isinstance(reader, Plain):
            lines = list(reader.raw_lines())
            for number, line in enumerate(lines, start=1):
                check_length(path, number, line)
            notice_running_text(path, lines)
        return cls(path, output, lines, reader)

    def read(self, translator: Any, options: DecodingOptions) -> Translation:
        """The text as tokens of the models."""
        if self.lines is not None:
            text = LinesOfText.of_lines(self.path, self.lines)
        else:
            self.rows.selection = with_direction(options.selection, translator)
            text = LinesOfText.of_documents(self.path, self.rows)
            if have_markup([*chain.from_iterable(text.sentences)]):
                raise GtransError(
                    f"{self.path}: most texts begin with a tag or a fence, which `--input` would "
                    "translate as words; `gtrans translate FILE --output-dir DIR` reads them as "
                    "HTML."
                )
        read = [text.sentences, text.names(), text.layout]
        return Translation(translator, text, self.output, options, read)


class FileToTranslate(NamedTuple):
    """A file of documents.

    Attributes:
        path: the file.
        format: one of :data:`gtrans.formats.catalogue.SUFFIXES`.
        target: the file of its translation.
        split_sentences: see :class:`gtrans.formats.catalogue.DocumentReader`.
    """

    path: Path
    format: str
    target: Path
    split_sentences: bool | None

    def read(self, translator: Any, options: DecodingOptions) -> Translation:
        """The file as tokens of the models; makes the folder of its translation.

        Raises:
            GtransError: it cannot be read or is not of its format, or there is a file in the place
                of its translation that somebody else wrote.
        """
        refuse_foreign(self.target, options.force)
        cfg, selection = translator.task.cfg, with_direction(options.selection, translator)
        reader = formats().DocumentReader(
            str(cfg.source_lang), self.split_sentences, str(cfg.target_lang), selection
        )
        file = reader.read(self.path, self.format)
        read = [digest(self.path), self.format, file.sentences]
        translation = Translation(translator, file, str(self.target), options, read)
        self.target.parent.mkdir(parents=True, exist_ok=True)
        return translation


def files_to_translate(
    sources: Sequence[str],
    output_dir: str,
    options: DecodingOptions,
    format: str | None = None,
    split_sentences: bool | None = None,
) -> list[FileToTranslate]:
    """The files of documents in ``sources``; finds mistakes before models are loaded.

    Args:
        sources: files, and folders of them.
        output_dir: folder to write the translations into.
        options: models and search.
        format: the format of all files; None: by their names.
        split_sentences: see :class:`FileToTranslate`.

    Raises:
        GtransError: a file that is missing or of an unknown format, two files of one name, an
            output that cannot be written or is an input.
    """
    check_output_folder("--output-dir", output_dir, sources)
    suffix = ".jsonl" if options.nbest else ""
    files = []
    for source in map(Path, sources):
        for path, name, kind in _files_of(source, Path(output_dir), format):
            target = Path(output_dir) / f"{name}{suffix}"
            files.append(FileToTranslate(path, kind, target, split_sentences))
    refuse_folders(options.paths)
    _check_targets(files, options)
    for file in files:
        formats().require_libraries(file.path, file.format, split_sentences)
    return files


def _files_of(
    source: Path, output: Path, format: str | None
) -> Iterator[tuple[Path, Path | str, str]]:
    """A file, or the files in a folder, each with its relative path and its format.

    Raises:
        GtransError: there is no such file, its format is not known, or the folder has none.
    """
    if not source.exists():
        raise GtransError(f"there is no file or folder '{source}'; check the path.")
    if not source.is_dir():
        yield source, source.name, formats().check_format(source, format)
        return
    known, unknown = [], []
    for path in _files_in(source, output):
        kind = formats().format_of(path)
        if format is not None:
            kind = formats().check_format(path, format)
        if kind is None:
            unknown.append(path)
        else:
            known.append((path, path.relative_to(source), kind))
    if not known:
        raise GtransError(
            f"'{source}' has no files of a known format; known are {formats().known_formats()}; "
            "`--format NAME` says which it is."
        )
    if unknown:
        rest = f" and {len(unknown) - 1} more" if len(unknown) > 1 else ""
        print_message(f"left out, because their format is not known: '{unknown[0]}'{rest}")
    yield from known


def _files_in(folder: Path, output: Path) -> Iterator[Path]:
    """The files below a folder, without hidden ones, records, and the output."""
    for parent, folders, names in os.walk(folder):
        folders[:] = sorted(
            name
            for name in folders
            if not name.startswith(".")
            and os.path.realpath(Path(parent, name)) != os.path.realpath(output)
        )
        for name in folders:
            if Path(parent, name).is_symlink():  # it may lead back here
                print_message(f"left out, because it is a link to a folder: '{Path(parent, name)}'")
        for name in sorted(names):
            if not name.startswith(".") and not name.endswith(RECORD_SUFFIX):
                yield Path(parent, name)


def _check_targets(files: Sequence[FileToTranslate], options: DecodingOptions) -> None:
    """Refuse two files with one output, and outputs that cannot be written or are inputs."""
    inputs: list[str | Path] = [*options.paths]
    inputs += [file.path for file in files]
    paths: dict[str, Path] = {}
    for file in files:
        other = paths.setdefault(os.path.realpath(file.target), file.path)
        if other != file.path:
            raise GtransError(
                f"'{other}' and '{file.path}' would both become '{file.target}'; translate them "
                "into two folders."
            )
        check_output_folder("--output-dir", file.target.parent)
        if file.target.parent.is_dir():
            check_output("--output-dir", file.target, inputs)
            read_record(file.target)


# ---- streams -------------------------------------------------------------------------------------


def translate_stream(translator: Any, options: DecodingOptions) -> None:
    """Translate the standard input to the standard output.

    A document is translated and written as soon as an empty line, ``<d>`` or the end of the input
    closes it. The output has the lines of :class:`TextToTranslate`.

    Raises:
        GtransError: a line that is not UTF-8 or too long, or input of another format. What was
            finished by then is written.
    """
    lines = enumerate(iterate_raw_lines(STANDARD_STREAM, once=True), start=1)
    first: list[tuple[int, str]] = []  # all lines up to the end of the first document
    document: list[str] = []
    places: list[str] = []
    documents = 0

    def translate_document() -> None:
        if documents == 1:
            check_plain("standard input", first)
            notice_running_text("standard input", document)
        translations = translator.alternatives([document], places)
        written: Iterable[str] = best_of(translations)[0]
        if options.nbest:
            ids = [str(number) for number in range(1, len(document) + 1)]
            written = json_lines([(str(documents), ids)], [document], translations)
        write_out(as_lines(written))

    for number, line in lines:
        if not documents:
            first.append((number, line))
        if not is_boundary(line):
            check_length("standard input", number, line)
            document.append(line)
            places.append(f"standard input:{number}")
            continue
        if document:
            documents += 1
            translate_document()
            document, places = [], []
        if not options.nbest and not options.search.free:
            write_out(as_lines([line]))
    if document:
        documents += 1
        translate_document()


# ---- the outcome ---------------------------------------------------------------------------------


class Outcome:
    """The outcome of the texts of a command, and its messages.

    A file that cannot be read does not stop the others, and neither does an output that another
    process is writing, or that somebody else wrote or changed, which stays.
    """

    def __init__(self, texts: int, output_dir: str | None) -> None:
        """``texts``: how many there are; ``output_dir``: None if the text is not a file."""
        self._texts, self._output_dir = texts, output_dir
        self._finished: list[Translation] = []
        self._written: list[Translation] = []
        self._failures = 0
        self._notes: dict[str, int] = {}

    @contextmanager
    def failures_of(self, path: str | Path) -> Iterator[None]:
        """Report what goes wrong with one of several texts; a single one ends the command."""
        try:
            yield
        except Exception as error:
            self.failed(path, error)

    def failed(self, path: str | Path, error: Exception) -> None:
        """Report a user's mistake, or whatever error the contents of a file cause.

        Raises:
            GtransError: there is no other text.
        """
        if self._output_dir is None:
            raise error
        message = str(error)
        if not isinstance(error, GtransError):
            message = f"'{path}': it cannot be translated ({type(error).__name__}: {error})"
        if self._texts == 1:
            raise GtransError(message) from error
        self._failures += 1
        print_message(message)

    def was_finished(self, translation: Translation) -> None:
        """Count a text that an earlier run has translated."""
        self._finished.append(translation)

    def say_finished(self, others: int) -> None:
        """Say which texts an earlier run has translated, besides ``others``."""
        if self._finished and self._output_dir is None:
            path = self._finished[0].output.path
            print_message(f"'{path}' is already this translation; `--force` translates anew")
        elif self._finished:
            count = len(self._finished)
            print_message(
                f"{count} of {count + others} files are translated already; `--force` translates "
                "them anew"
            )

    def was_written(self, translation: Translation) -> None:
        """Count a text that is translated, and say what of it could not be kept."""
        self._written.append(translation)
        for note in translation.source.notes:
            print_message(str(note))
            self._notes[note.kind] = self._notes.get(note.kind, 0) + note.count

    def report(self, unsaid_warnings: int) -> None:
        """Say how many sentences are translated.

        Raises:
            GtransError: a text is not.
        """
        if unsaid_warnings > 0:
            print_message(f"warning: the same holds for {unsaid_warnings} more files")
        sentences = sum(translation.sentences for translation in self._written)
        if self._output_dir is None:
            for translation in self._written:
                if translation.output.path != STANDARD_STREAM:
                    print_message(f"{sentences} sentences written to {translation.output.path}")
            return
        files = "1 file" if len(self._written) == 1 else f"{len(self._written)} files"
        notes = "".join(f"; {kind}: {count}" for kind, count in self._notes.items())
        print_message(f"{sentences} sentences in {files} written to {self._output_dir}{notes}")
        if self._failures:
            raise GtransError(
                f"{self._failures} of {self._texts} files are not translated, as told above; mend "
                "them and run this again: what is finished is not done twice."
            )
