"""Texts on their way: read, cut into batches, translated, written."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import asdict, dataclass, field, replace
from functools import partial
from itertools import chain
from multiprocessing.connection import Connection, wait
from pathlib import Path
from typing import Any, NamedTuple

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
from gtrans.search.part_search import Parts, PartsOfDocument
from gtrans.text.document_file import (
    DocumentFile,
    DocumentIds,
    Note,
    numbered_ids,
    sentence_numbers,
)
from gtrans.text.pipeline import PLACEHOLDER
from gtrans.text.prepared_folder import prepared_files
from gtrans.text.reader import (
    Document,
    NumberedLine,
    PlainText,
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
    Alternative,
    Output,
    PartKey,
    Translations,
    as_lines,
    best_of,
    check_overwritable,
    json_lines,
    read_record,
    write_out,
)
from gtrans.translating.translator import (
    FinishedPart,
    ProcessTask,
    Translator,
    progress_of,
    worker_processes,
)
from gtrans.version import __version__

# Options that a translation does not depend on, or that the record has in another way.
_NOT_RECORDED = {"paths", "data", "cpu", "workers", "force", "selection"}


# ---- texts ---------------------------------------------------------------------------------------


@dataclass
class LinesOfText:
    """A text whose output has a line for each of its lines; see also ``DocumentFile``.

    Attributes:
        layout: the lines of the output; None: a translation.
        sentence_places: file and line of each sentence, for messages.
    """

    path: str
    sentences: list[list[str]]
    layout: list[str | None] = field(default_factory=list)
    sentence_places: list[str] = field(default_factory=list)
    ids: list[DocumentIds] = field(default_factory=list)
    notes: Sequence[Note] = ()

    @classmethod
    def of_lines(cls, path: str, lines: Sequence[str]) -> LinesOfText:
        """Read plain text, whose boundaries stay as they are."""
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
            text.sentence_places.append(f"{path}:{number}")
        text.ids = numbered_ids(text.sentences)
        return text

    @classmethod
    def of_documents(cls, path: str, documents: Iterable[Document]) -> LinesOfText:
        """Read documents, between which the output has an empty line."""
        text = cls(path, [])
        for number, document in enumerate(documents, start=1):
            if text.layout:
                text.layout.append("")
            sentences: list[str] = []
            ids: list[str] = []
            for segment in document.segments:
                if not segment.text():
                    text.layout.append(PLACEHOLDER)
                    continue
                text.layout.append(None)
                sentences.append(segment.text())
                ids.append(segment.name or str(len(sentences)))
                text.sentence_places.append(f"{path}:{segment.line}")
            text.sentences.append(sentences)
            text.ids.append(DocumentIds(document.name or str(number), ids))
        return text

    def translated(self, translations: Sequence[Sequence[str]], joint: str) -> bytes:
        """Return the contents of the output."""
        following = chain.from_iterable(translations)
        lines = []
        for line in self.layout:
            lines.append(next(following) if line is None else line)
        return as_lines(lines)


# ---- a text on its way ---------------------------------------------------------------------------


class Translation:
    """A text with its batches and its translations.

    ``documents``: the sentences of each document as tokens.
    """

    def __init__(
        self,
        translator: Translator,
        source: LinesOfText | DocumentFile,
        output: str,
        options: DecodingOptions,
        contents: Sequence[object],
    ) -> None:
        """``contents``: all in the text that the output depends on."""
        self.translator = translator
        self.source = source
        self.options = options
        self.documents = translator.encoded(source.sentences)
        self.sentence_count = sum(len(document) for document in self.documents)
        translator.warn_about(source.path, source.sentences, self.documents, source.sentence_places)
        provenance = self._provenance(options, contents)
        self.output = Output(output, provenance, options.force)
        self._progress: Any = None
        self._rows_of_documents: list[list[Example]] = []
        self._rows: list[Example] = []
        self._batches: list[list[int]] = []
        self._translated: list[Translations] = []
        # Numbers of batches, with the number of their sentences that progress has counted.
        self._untranslated: dict[int, int] = {}

    def _provenance(self, options: DecodingOptions, contents: Sequence[object]) -> dict[str, Any]:
        translator = self.translator
        chosen = asdict(options)
        for name in _NOT_RECORDED:
            del chosen[name]
        # The limit on rows is named where it makes other batches, of which a part is kept.
        rows = min(translator.generator.rows_at_once, options.max_tokens // LEAST_ROW_TOKENS)
        # A checkpoint without a vocabulary of its own reads and writes by that of --data.
        tokens = hashlib.sha256()
        for sentence in chain.from_iterable(self.documents):
            for ids in sentence:
                tokens.update(b"\n" if ids is None else ids.numpy().tobytes())
        return {
            "gtrans": __version__,
            "input": digest_of_values(list(contents)),
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
        """Lock the output, cut the documents into batches, and take over finished ones."""
        self._progress = progress
        with self.output.opened():
            self._rows_of_documents = self.translator.cut(self.documents)
            self._rows = list(chain.from_iterable(self._rows_of_documents))
            self._batches = self.translator.batches(self._rows)
            self._translated = [[] for _ in self._rows]
            self._untranslated = dict.fromkeys(range(len(self._batches)), 0)
            for number, rows in self.output.batches.items():
                translations = [_alternatives_of(row) for row in rows]
                # Sentences of earlier runs say nothing of the speed of this run.
                self._progress.initial += self._store(number, translations)
            self._progress.update(0)
            yield

    def untranslated_batches(self) -> Iterator[BatchOfText]:
        """Yield the batches to translate; if none is left, one without rows."""
        if not self._untranslated:
            yield BatchOfText(self, -1, [])
        for number in list(self._untranslated):
            rows = [self._rows[index] for index in self._batches[number]]
            yield BatchOfText(self, number, rows)

    def add(self, number: int, translations: list[Translations]) -> None:
        """Keep the translations of a batch."""
        if translations:
            self.output.keep_batch(number, translations)
            self._progress.update(self._store(number, translations))

    def _store(self, number: int, translations: list[Translations]) -> int:
        """Store the translations of a batch; return the sentences not yet counted."""
        written = 0
        for index, row in zip(self._batches[number], translations, strict=True):
            self._translated[index] = row
            written += self.translator.sentences_in(self._rows[index], row)
        return written - self._untranslated.pop(number)

    @property
    def is_translated(self) -> bool:
        """Whether all batches are translated."""
        return not self._untranslated

    def parts_of(self, number: int) -> dict[tuple[int, int], PartsOfDocument]:
        """Return the parts of a batch that an earlier run translated."""
        parts = {}
        for key, stored in self.output.parts.items():
            if key.batch != number:
                continue
            hypotheses = []
            for sentences in stored:
                hypotheses.append([SentenceHypothesis(*pair) for pair in sentences])
            parts[key.document, key.part] = hypotheses
        return parts

    def add_part(self, number: int, document: int, part: int, hypotheses: PartsOfDocument) -> None:
        """Keep the translations of a part."""
        self.output.keep_part(PartKey(number, document, part), hypotheses)
        sentences = len(hypotheses[0])
        self._progress.update(sentences)
        self._untranslated[number] += sentences

    # ---- the end

    def translations(self) -> list[Translations]:
        """Return the translations of all sentences."""
        return self.translator.joined_rows(
            self._translated, self._rows_of_documents, self.source.sentences
        )

    def write(self) -> None:
        """Write all translations, and the record."""
        options = self.options
        names = {"checkpoints": options.paths, "data": options.data, "input": self.source.path}
        self.output.write(self._contents(options), names, self.sentence_count)

    def _contents(self, options: DecodingOptions) -> bytes:
        translations = self.translations()
        free = options.search.free
        counts = [len(document) for document in translations]
        if not free and counts != [len(document) for document in self.documents]:
            raise GtransError(
                f"'{self.output.partial}' was changed: it has {sum(counts)} translations, but "
                f"{self.sentence_count} are needed; `--force` translates anew."
            )
        if options.nbest:
            return as_lines(json_lines(self.source.ids, self.source.sentences, translations))
        best = best_of(translations)
        if free:
            texts = [" ".join(document) for document in best if document]
            return as_lines(texts)
        lang = language_code(str(self.translator.task.cfg.target_lang))
        between_sentences = "" if lang in WITHOUT_SPACES else " "
        return self.source.translated(best, between_sentences)


def _alternatives_of(row: Sequence[Any]) -> Translations:
    translations = []
    for alternatives in row:
        translations.append([Alternative(*alternative) for alternative in alternatives])
    return translations


# ---- texts in batches ----------------------------------------------------------------------------


class BatchOfText(NamedTuple):
    """A batch of a text; without rows if no batch is left."""

    translation: Translation
    number: int
    rows: list[Example]

    def translate(self, translator: Translator) -> None:
        """Translate the batch in this process, and keep its translations."""
        add_part = partial(self.translation.add_part, self.number)
        finished = Parts(self.translation.parts_of(self.number), add_part)
        translations = translator.decode_within_memory(self.rows, finished)
        self.translation.add(self.number, translations)


class OpenTexts(ExitStack):
    """Texts, locked from first to last batch.

    ``failed`` is called with the path of a text that cannot be opened.
    """

    def __init__(self, progress: Any, failed: Callable[[str, Exception], None]) -> None:
        super().__init__()
        self._progress, self._failed = progress, failed
        self._open: dict[Translation, ExitStack] = {}

    def batches(self, translations: Sequence[Translation]) -> Iterator[BatchOfText]:
        """Open text after text, and yield the batches to translate."""
        for translation in translations:
            stack = self.enter_context(ExitStack())
            try:
                stack.enter_context(translation.opened(self._progress))
            except GtransError as error:
                self._failed(translation.source.path, error)
                continue
            self._open[translation] = stack
            yield from translation.untranslated_batches()

    def closing(self, translation: Translation) -> ExitStack:
        """Return a context that closes a text."""
        return self._open.pop(translation)


def decode_texts(
    translator: Translator,
    options: DecodingOptions,
    translations: Sequence[Translation],
    failed: Callable[[str, Exception], None],
) -> Iterator[Translation]:
    """Decode texts, here or in ``options.workers`` processes; yield each finished one."""
    if not translations:
        return
    sentences = sum(translation.sentence_count for translation in translations)
    with (
        worker_processes(translator, options, sentences) as connections,
        progress_of(sentences) as progress,
        OpenTexts(progress, failed) as texts,
    ):
        batches = texts.batches(translations)
        if connections:
            decoded = _decoded_by_workers(connections, batches)
        else:
            decoded = _decoded_here(translator, batches)
        for translation in decoded:
            if translation.is_translated:
                with texts.closing(translation):
                    yield translation


def _decoded_here(translator: Translator, batches: Iterator[BatchOfText]) -> Iterator[Translation]:
    for batch in batches:
        batch.translate(translator)
        yield batch.translation


def _decoded_by_workers(
    connections: Sequence[Connection], batches: Iterator[BatchOfText]
) -> Iterator[Translation]:
    idle = list(connections)
    busy: dict[Connection, BatchOfText] = {}
    try:
        while True:
            while idle:
                batch = next(batches, None)
                if batch is None:
                    break
                connection = idle.pop()
                busy[connection] = batch
                finished = batch.translation.parts_of(batch.number)
                connection.send(ProcessTask(batch.rows, finished))
            if not busy:
                return
            for ready in wait(list(busy)):
                assert isinstance(ready, Connection)
                batch = busy[ready]
                answer = ready.recv()
                if isinstance(answer, Exception):
                    raise answer
                if isinstance(answer, FinishedPart):
                    batch.translation.add_part(
                        batch.number, answer.document, answer.part, answer.hypotheses
                    )
                    continue
                batch.translation.add(batch.number, answer)
                del busy[ready]
                idle.append(ready)
                yield batch.translation
    except (EOFError, OSError):
        raise GtransError(
            "`--workers`: a process has ended, perhaps because memory is short; give fewer. "
            "What is finished is kept: the same command goes on."
        ) from None


# ---- what a command translates -------------------------------------------------------------------


def with_direction(selection: TextSelection, translator: Translator) -> TextSelection:
    """Return the selection with the model's direction, if it has none."""
    if selection.direction:
        return selection
    cfg = translator.task.cfg
    return replace(selection, direction=f"{cfg.source_lang}-{cfg.target_lang}")


@dataclass
class TextToTranslate:
    """The text of ``--input``, one line or row a sentence.

    Boundaries between documents (empty lines, ``<d>``) stay. A translation that reads as a boundary
    is written as U+FFFD. ``lines``: plain text; None: the text has rows.
    """

    path: str
    output: str
    lines: list[str] | None
    rows: Reader

    @classmethod
    def open(cls, path: str, output: str, options: DecodingOptions) -> TextToTranslate:
        """Read the text, and find mistakes before models are loaded."""
        if output != STANDARD_STREAM:
            prepared = [] if options.data is None else prepared_files(options.data)
            source = "/dev/stdin" if path == STANDARD_STREAM else path
            check_output("--output", output, [*options.paths, *prepared, source])
            if is_file(output):
                check_overwritable(output, options.force)
        decoding_device(options.cpu, options.fp16)  # before the standard input is waited for
        reader = open_text(path, "source", options.selection, once=True)
        lines = None
        if isinstance(reader, PlainText):
            lines = list(reader.raw_lines())
            for number, line in enumerate(lines, start=1):
                check_length(path, number, line)
            notice_running_text(path, lines)
        return cls(path, output, lines, reader)

    def read(self, translator: Translator, options: DecodingOptions) -> Translation:
        """Encode the text."""
        if self.lines is not None:
            text = LinesOfText.of_lines(self.path, self.lines)
        else:
            self.rows.selection = with_direction(options.selection, translator)
            text = LinesOfText.of_documents(self.path, self.rows)
            if have_markup(list(chain.from_iterable(text.sentences))):
                raise GtransError(
                    f"{self.path}: most texts begin with a tag or a fence, which `--input` would "
                    "translate as words; `gtrans translate FILE --output-dir DIR` reads them as "
                    "HTML."
                )
        contents = [text.sentences, text.ids, text.layout]
        return Translation(translator, text, self.output, options, contents)


class FileToTranslate(NamedTuple):
    """A file of documents and its translation.

    ``split_sentences``: see :class:`gtrans.formats.catalogue.DocumentReader`.
    """

    path: Path
    format: str
    target: Path
    split_sentences: bool | None

    def read(self, translator: Translator, options: DecodingOptions) -> Translation:
        """Encode the file, and make the folder of its translation."""
        check_overwritable(self.target, options.force)
        cfg = translator.task.cfg
        reader = formats().DocumentReader(
            lang=str(cfg.source_lang),
            split_sentences=self.split_sentences,
            target=str(cfg.target_lang),
            selection=with_direction(options.selection, translator),
        )
        file = reader.read(self.path, self.format)
        contents = [digest(self.path), self.format, file.sentences]
        translation = Translation(translator, file, str(self.target), options, contents)
        self.target.parent.mkdir(parents=True, exist_ok=True)
        return translation


def files_to_translate(
    sources: Sequence[str],
    output_dir: str,
    options: DecodingOptions,
    format: str | None = None,
    split_sentences: bool | None = None,
) -> list[FileToTranslate]:
    """Return the files of documents in files and folders, and find mistakes in them."""
    check_output_folder("--output-dir", output_dir, sources)
    suffix = ".jsonl" if options.nbest else ""
    files = []
    for source in map(Path, sources):
        for file in _files_of(source, Path(output_dir), format):
            name = file.path.relative_to(source) if source.is_dir() else file.path.name
            target = Path(output_dir) / f"{name}{suffix}"
            files.append(FileToTranslate(file.path, file.format, target, split_sentences))
    refuse_folders(options.paths)
    _check_targets(files, options)
    for file_to_translate in files:
        formats().require_libraries(
            file_to_translate.path, file_to_translate.format, split_sentences
        )
    return files


class _FoundFile(NamedTuple):
    path: Path
    format: str


def _files_of(source: Path, output: Path, format: str | None) -> list[_FoundFile]:
    if not source.exists():
        raise GtransError(f"there is no file or folder '{source}'; check the path.")
    if not source.is_dir():
        return [_FoundFile(source, formats().check_format(source, format))]
    files, unknown = [], []
    for path in _files_in(source, output):
        kind = formats().format_of(path)
        if format is not None:
            kind = formats().check_format(path, format)
        if kind is None:
            unknown.append(path)
        else:
            files.append(_FoundFile(path, kind))
    if not files:
        raise GtransError(
            f"'{source}' has no files of a known format; known are {formats().known_formats()}; "
            "`--format NAME` says which it is."
        )
    if unknown:
        rest = f" and {len(unknown) - 1} more" if len(unknown) > 1 else ""
        print_message(f"left out, because their format is not known: '{unknown[0]}'{rest}")
    return files


def _files_in(folder: Path, output: Path) -> Iterator[Path]:
    """Yield the files below a folder, but no hidden ones, records or outputs."""
    for parent, folders, names in os.walk(folder):
        entered = []
        for name in sorted(folders):
            path = Path(parent, name)
            if name.startswith(".") or os.path.realpath(path) == os.path.realpath(output):
                continue
            entered.append(name)
            if path.is_symlink():  # it may lead back here
                print_message(f"left out, because it is a link to a folder: '{path}'")
        folders[:] = entered
        for name in sorted(names):
            if not name.startswith(".") and not name.endswith(RECORD_SUFFIX):
                yield Path(parent, name)


def _check_targets(files: Sequence[FileToTranslate], options: DecodingOptions) -> None:
    inputs: list[str | Path] = [*options.paths]
    inputs += [file.path for file in files]
    sources: dict[str, Path] = {}
    for file in files:
        other = sources.setdefault(os.path.realpath(file.target), file.path)
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


def translate_stream(translator: Translator, options: DecodingOptions) -> None:
    """Translate the standard input to the standard output.

    A document is written when an empty line, ``<d>`` or the end of the input closes it.
    """
    has_boundaries = not options.nbest and not options.search.free
    for part in _parts_of_stream():
        if isinstance(part, StreamedDocument):
            write_out(as_lines(_lines_of(part, translator, options)))
        elif has_boundaries:
            write_out(as_lines([part]))


class StreamedDocument(NamedTuple):
    """A document of a stream; ``places``: the line of each sentence, for messages."""

    number: int
    sentences: list[str]
    places: list[str]


def _parts_of_stream() -> Iterator[StreamedDocument | str]:
    first: list[NumberedLine] = []  # all lines up to the end of the first document
    document = StreamedDocument(1, [], [])
    lines = iterate_raw_lines(STANDARD_STREAM, once=True)
    for number, line in enumerate(lines, start=1):
        if document.number == 1:
            first.append((number, line))
        if not is_boundary(line):
            check_length("standard input", number, line)
            document.sentences.append(line)
            document.places.append(f"standard input:{number}")
            continue
        if document.sentences:
            _check_first(document, first)
            yield document
            document = StreamedDocument(document.number + 1, [], [])
        yield line
    if document.sentences:
        _check_first(document, first)
        yield document


def _check_first(document: StreamedDocument, lines: Sequence[NumberedLine]) -> None:
    if document.number == 1:
        check_plain("standard input", lines)
        notice_running_text("standard input", document.sentences)


def _lines_of(
    document: StreamedDocument, translator: Translator, options: DecodingOptions
) -> list[str]:
    sentences = document.sentences
    translations = translator.alternatives([sentences], document.places)
    if not options.nbest:
        return best_of(translations)[0]
    ids = DocumentIds(str(document.number), sentence_numbers(sentences))
    return json_lines([ids], [sentences], translations)


# ---- the outcome ---------------------------------------------------------------------------------


class Outcome:
    """The outcome of a command's texts; a failure does not stop the others."""

    def __init__(self, texts: int, output_dir: str | None) -> None:
        self._texts = texts
        self._output_dir = output_dir
        self._finished: list[Translation] = []
        self._written: list[Translation] = []
        self._failures = 0
        self._places_by_kind: dict[str, int] = {}  # of notes

    @contextmanager
    def failures_of(self, path: str | Path) -> Iterator[None]:
        """Report an error; for a single text it ends the command."""
        try:
            yield
        except Exception as error:
            self.failed(path, error)

    def failed(self, path: str | Path, error: Exception) -> None:
        """Report an error; raise it if there is no other text."""
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
        """Count a text of an earlier run."""
        self._finished.append(translation)

    def report_finished(self, others: int) -> None:
        """Print which texts an earlier run translated; ``others``: how many it did not."""
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
        """Count a translated text, and print its notes."""
        self._written.append(translation)
        for note in translation.source.notes:
            print_message(str(note))
            places = self._places_by_kind.get(note.kind, 0)
            self._places_by_kind[note.kind] = places + note.count

    def report(self, unsaid_warnings: int) -> None:
        """Print how many sentences are translated; raise GtransError if a text is not."""
        if unsaid_warnings > 0:
            print_message(f"warning: the same holds for {unsaid_warnings} more files")
        sentences = sum(translation.sentence_count for translation in self._written)
        if self._output_dir is None:
            for translation in self._written:
                if translation.output.path != STANDARD_STREAM:
                    print_message(f"{sentences} sentences written to {translation.output.path}")
            return
        count = len(self._written)
        files = "1 file" if count == 1 else f"{count} files"
        notes = "".join(f"; {kind}: {places}" for kind, places in self._places_by_kind.items())
        print_message(f"{sentences} sentences in {files} written to {self._output_dir}{notes}")
        if self._failures:
            raise GtransError(
                f"{self._failures} of {self._texts} files are not translated, as told above; mend "
                "them and run this again: what is finished is not done twice."
            )
