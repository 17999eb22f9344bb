"""Translates texts, files of documents, and streams.

Sentences form rows as the checkpoint's unit says. In document units a row ends with the document
or before its source tokens would exceed ``max_doc_tokens``. (``fairseq-generate`` cuts documents by
both sides, as training does.)

Every finished batch is kept in a file next to the output. After an interruption the same command
continues from there, with the same batches, so the result is exactly that of an uninterrupted
run. A record beside the finished translation says what it was made from. Neither is there for the
standard output, a device or a FIFO, which get the translation when it is complete.
"""

from __future__ import annotations

import hashlib
import json
import os
import sys
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, ExitStack, closing, nullcontext
from dataclasses import asdict, dataclass, field, replace
from functools import cached_property
from itertools import chain
from pathlib import Path
from typing import Any, NamedTuple

from gtrans.annexes import formats
from gtrans.data.documents import STANDARD_STREAM, check_length, iterate_raw_lines
from gtrans.errors import GtransError
from gtrans.files import (
    StrPath,
    atomic_writer,
    binary_writer,
    check_output,
    check_output_folder,
    digest,
    digest_of_bytes,
    fingerprint,
    is_file,
    locked,
    read_object,
    unwritable,
)
from gtrans.languages import WITHOUT_SPACES, language_code
from gtrans.messages import say
from gtrans.search.generator import LEAST_ROW_TOKENS
from gtrans.search.options import DecodingOptions
from gtrans.text.document_file import DocumentFile, Note, counted
from gtrans.text.pipeline import PLACEHOLDER
from gtrans.text.prepared_folder import prepared_files
from gtrans.text.reader import (
    Choice,
    Document,
    Plain,
    check_plain,
    is_boundary,
    notice_running_text,
    open_text,
)
from gtrans.translating.loading import decoding_device, refuse_folders
from gtrans.translating.translator import (
    WARNED_OF,
    Kept,
    Sentence,
    Task,
    Translations,
    Translator,
    Work,
    best_of,
    decode,
    progress_of,
    workers,
)
from gtrans.version import __version__

# Options that a translation does not depend on, or that the record has in another way.
_NOT_RECORDED = {"paths", "data", "cpu", "workers", "force", "choice"}


@dataclass
class Text:
    """A text, of which the output has a line for each line.

    It has the part of :class:`gtrans.text.document_file.DocumentFile` that a :class:`Job` uses.

    Attributes:
        path: the file, for messages.
        sentences: those of each document.
        layout: the lines of the output, None in place of each translation.
        lines: the lines of all sentences in their file, from 1.
        ids: the id of each document and those of its sentences; empty: they are counted.
        notes: none.
    """

    path: str
    sentences: list[list[str]]
    layout: list[str | None]
    lines: list[int] = field(default_factory=list)
    ids: list[tuple[str, list[str]]] = field(default_factory=list)
    notes: list[Note] = field(default_factory=list)

    @classmethod
    def of_lines(cls, path: str, lines: Sequence[str]) -> Text:
        """Plain text, whose boundaries stay as they are; documents are counted from 1."""
        documents: list[list[str]] = [[]]
        for line in lines:
            if is_boundary(line):
                documents.append([])
            else:
                documents[-1].append(line)
        layout = [line if is_boundary(line) else None for line in lines]
        numbers = [number for number, line in enumerate(layout, start=1) if line is None]
        return cls(path, [document for document in documents if document], layout, numbers)

    @classmethod
    def of_documents(cls, path: str, documents: Sequence[Document]) -> Text:
        """A text with ids, which gets an empty line between documents."""
        text = cls(path, [], [])
        for number, document in enumerate(documents, start=1):
            used = [segment for segment in document.segments if segment.text()]
            names = [segment.name or str(n) for n, segment in enumerate(used, start=1)]
            text.ids.append((document.name or str(number), names))
            text.sentences.append([segment.text() for segment in used])
            text.lines += [segment.line for segment in used]
            text.layout += [""] if text.layout else []
            for segment in document.segments:
                text.layout.append(None if segment.text() else PLACEHOLDER)
        return text

    def names(self) -> list[tuple[str, list[str]]]:
        """The id of each document and those of its sentences."""
        return self.ids or counted(self.sentences)

    def where(self) -> list[str]:
        """Where each sentence of all documents stands, for messages."""
        return [f"{self.path}:{line}" for line in self.lines]

    def translated(self, translations: Sequence[Sequence[str]], joint: str) -> bytes:
        """The contents of the output."""
        following = chain.from_iterable(translations)
        return _lines(next(following) if line is None else line for line in self.layout)


def _lines(lines: Iterable[str]) -> bytes:
    return "".join(f"{line}\n" for line in lines).encode()


# ---- what a translation was made from ------------------------------------------------------------

SUFFIX = ".made.json"
_FORMAT = "translation 1"


@dataclass(frozen=True)
class TranslationRecord:
    """What a translation was made from.

    Attributes:
        run: fingerprint of ``made_from``; the same command on the same files has the same.
        made_from: digests of ``checkpoints``, ``input`` (what was read of it) and ``preparation``
            (empty if there is none), all options that matter, and the version.
        names: the paths of these files, as they were given.
        sentences: number of translated sentences.
        output: digest of the translation as it was written.
        before: digest of what it has replaced, which is there if the writing was interrupted.
    """

    run: str
    made_from: Mapping[str, Any]
    names: Mapping[str, Any]
    sentences: int
    output: str
    before: str = ""

    def describes(self, output: StrPath) -> bool:
        """Whether ``output`` is the translation as it was written."""
        return Path(output).is_file() and digest(Path(output)) == self.output


def beside(output: StrPath, suffix: str) -> Path:
    """``OUTPUT`` and a suffix; if it is a symbolic link, beside the file behind it."""
    path = Path(os.path.realpath(output))
    return path.with_name(f"{path.name}{suffix}")


def read_record(output: StrPath) -> TranslationRecord | None:
    """The record of a translation; None if it has none.

    Raises:
        GtransError: the file in its place is no such record.
    """
    path = beside(output, SUFFIX)
    try:
        fields = read_object(path)
        if fields.pop("format") != _FORMAT:
            raise ValueError
        record = TranslationRecord(**fields)
        dict(record.made_from), dict(record.names), int(record.sentences)
        return record
    except FileNotFoundError:
        return None
    except (OSError, ValueError, KeyError, TypeError, AttributeError):
        raise GtransError(
            f"'{path}' is in the way of the record of '{os.fspath(output)}', but is none; move it "
            "away, or name another output."
        ) from None


def write_record(output: StrPath, record: TranslationRecord) -> None:
    """Write the record beside ``output``.

    Raises:
        GtransError: it cannot be written.
    """
    written = json.dumps({"format": _FORMAT, **asdict(record)}, indent=2, ensure_ascii=False)
    with atomic_writer(beside(output, SUFFIX)) as file:
        # A name of a file need not be UTF-8, but JSON is.
        file.write(written.encode("utf-8", "replace").decode() + "\n")


# ---- a text and its output -----------------------------------------------------------------------


@dataclass(frozen=True)
class Job:
    """A text, and the file that its translation is written to.

    Attributes:
        translator: translates it.
        options: those of the command.
        source: the text.
        documents: its sentences as tokens.
        output: file to write, or ``-``.
        read: the fingerprint of all that was read of it.
    """

    translator: Translator
    options: DecodingOptions
    source: Text | DocumentFile
    documents: Sequence[Sequence[Sentence]]
    output: str
    read: str

    @classmethod
    def of(
        cls,
        translator: Translator,
        options: DecodingOptions,
        source: Text | DocumentFile,
        output: str,
        read: Sequence[object],
    ) -> Job:
        """The translation of a text; ``read``: all of it that the output depends on."""
        documents = translator.encoded(source.sentences)
        translator.warn_of(source.path, source.sentences, documents, source.where())
        return cls(translator, options, source, documents, output, fingerprint(read))

    @property
    def sentences(self) -> int:
        """The number of sentences."""
        return sum(map(len, self.documents))

    @cached_property
    def made_from(self) -> dict[str, Any]:
        """Everything that the translation depends on."""
        translator, options = self.translator, self.options
        chosen = {key: value for key, value in asdict(options).items() if key not in _NOT_RECORDED}
        # The limit on rows is named where it makes other batches, of which a part is kept.
        rows = min(translator.generator.rows_at_once, options.max_tokens // LEAST_ROW_TOKENS)
        # A checkpoint without a vocabulary of its own reads and writes by that of --data.
        tokens = hashlib.sha256()
        for part in chain.from_iterable(chain.from_iterable(self.documents)):
            tokens.update(b"\n" if part is None else part.numpy().tobytes())
        return {
            "gtrans": __version__,
            "input": self.read,
            "tokens": tokens.hexdigest(),
            "vocabulary": fingerprint(translator.task.target_dictionary.symbols),
            "checkpoints": list(translator.checkpoints),
            "preparation": translator.preparation or "",
            "unit": translator.examples.unit.as_dict(),
            "device": decoding_device(options.cpu).type,
            "max_rows": rows,
            **chosen,
        }

    @cached_property
    def run(self) -> str:
        """The fingerprint of :attr:`made_from`."""
        return fingerprint(self.made_from)

    @property
    def partial(self) -> Path | None:
        """The file of its finished part, another one for other options; None if there is none."""
        if self.output == STANDARD_STREAM or not is_file(self.output):
            return None
        return beside(self.output, f".{self.run[:12]}.partial")

    def lock(self) -> AbstractContextManager[None]:
        """Keeps other processes from the output, if it is a file."""
        return nullcontext() if self.partial is None else locked(self.output)

    def is_finished(self) -> bool:
        """Whether the output is this translation already, and is not to be made anew.

        Raises:
            GtransError: another process is writing it.
        """
        if self.partial is None:
            return False
        with self.lock():
            record = read_record(self.output)
            if self.options.force or record is None or record.run != self.run:
                return False
            if not record.describes(self.output):
                return False
            self.partial.unlink(missing_ok=True)  # killed at its very end
            return True

    def write(self, translations: list[Translations]) -> None:
        """Write the translations of all documents, and the record."""
        contents = formats().packer(Path(self.output))(self._contents(translations))
        if self.output == STANDARD_STREAM:
            write_out(contents)
            return
        if self.partial is not None:
            before = digest(Path(self.output)) if Path(self.output).is_file() else ""
            options = self.options
            names = {"checkpoints": options.paths, "data": options.data, "input": self.source.path}
            provenance = self.run, self.made_from, names, self.sentences
            record = TranslationRecord(*provenance, digest_of_bytes(contents), before)
            write_record(self.output, record)
        with binary_writer(self.output) as file:
            file.write(contents)
        if self.partial is not None:
            self.partial.unlink(missing_ok=True)

    def _contents(self, translations: list[Translations]) -> bytes:
        free = self.options.search.free
        if not free and list(map(len, translations)) != list(map(len, self.documents)):
            raise GtransError(
                f"'{self.partial}' was changed: it has {sum(map(len, translations))} translations, "
                f"but {self.sentences} are needed; `--force` translates anew."
            )
        if self.options.nbest:
            return _lines(json_lines(self.source.names(), self.source.sentences, translations))
        if free:
            return _lines(" ".join(document) for document in best_of(translations) if document)
        lang = language_code(str(self.translator.task.cfg.target_lang))
        return self.source.translated(best_of(translations), "" if lang in WITHOUT_SPACES else " ")


def _run(jobs: Sequence[Job], failed: Callable[[Job, Exception], None]) -> Iterator[Job]:
    """Translate and write; yields every job that is written, and calls ``failed`` for others."""
    if not jobs:
        return
    translator, options = jobs[0].translator, jobs[0].options
    opened: dict[Work, tuple[Job, ExitStack]] = {}

    def tasks() -> Iterator[Task]:
        for job in jobs:
            stack = everything.enter_context(ExitStack())
            try:
                stack.enter_context(job.lock())
                kept = stack.enter_context(closing(Kept(job.partial, options.force)))
            except GtransError as error:
                failed(job, error)
                continue
            work = Work(translator, job.documents, kept, progress)
            opened[work] = job, stack
            for number, rows in work.missing():
                yield work, number, rows

    with (
        workers(translator, options) as connections,
        progress_of(sum(job.sentences for job in jobs)) as progress,
        ExitStack() as everything,
    ):
        for work in decode(translator, connections, tasks()):
            if not work.is_translated:
                continue
            job, stack = opened.pop(work)
            with stack:
                try:
                    job.write(work.translations())
                except Exception as error:
                    failed(job, error)
                    continue
            yield job


def json_lines(
    names: Sequence[tuple[str, Sequence[str]]],
    sources: Sequence[Sequence[str]],
    translations: Sequence[Translations],
) -> list[str]:
    """A JSON object for each sentence, with the names that ``gtrans score`` knows.

    Args:
        names: the id of each document and those of its sentences.
        sources: for each document its sentences.
        translations: for each document of each sentence the translations.
    """

    lines = []
    for (document, ids), texts, sentences in zip(names, sources, translations, strict=True):
        for name, source, alternatives in zip(ids, texts, sentences, strict=True):
            nbest = [{"hypothesis": text, "score": round(score, 6)} for text, score in alternatives]
            row = {"doc_id": document, "seg_id": name, "source": source, **nbest[0]}
            extra = {"nbest": nbest} if len(nbest) > 1 else {}
            lines.append(json.dumps(row | extra, ensure_ascii=False))
    return lines


def refuse_foreign(output: StrPath, force: bool) -> None:
    """Keep what is there if this project did not write it, or if somebody has changed it since.

    Raises:
        GtransError: it is such a file, and there is no ``force`` to replace it.
    """
    path = Path(output)
    record = read_record(path)
    if force or not path.is_file() or not path.stat().st_size:
        return
    if record is None or digest(path) not in (record.output, record.before):
        changed = "was changed since it was written" if record else "was not written by gtrans"
        raise GtransError(
            f"'{path}' {changed} and is kept; name another output, or replace it with `--force`."
        )


def check_output_file(options: DecodingOptions, output: str, input: str) -> None:
    """Refuse an output that cannot be written or is read, before anything is computed."""
    if output == STANDARD_STREAM:
        return
    prepared = [] if options.data is None else prepared_files(options.data)
    source = "/dev/stdin" if input == STANDARD_STREAM else input
    check_output("--output", output, [*options.paths, *prepared, source])
    if is_file(output):
        refuse_foreign(output, options.force)


def write_out(contents: bytes) -> None:
    """Write to the standard output, at once.

    Raises:
        GtransError: it cannot be written.
    """
    if sys.stdout is None:
        raise GtransError("the standard output is closed; name a file")
    try:
        sys.stdout.buffer.write(contents)
        sys.stdout.buffer.flush()
    except BrokenPipeError:
        raise
    except OSError as error:
        raise unwritable("the standard output", error) from None


# ---- texts ------------------------------------------------------------------------------------


def translate(options: DecodingOptions, input: str, output: str) -> None:
    """Translate and write the output.

    Args:
        options: models and search.
        input: text file, or ``-``.
        output: file to write, or ``-``.

    The output has one line for each line of the input. All boundaries between documents (empty
    lines, lines ``<d>``) are kept, also consecutive, leading and trailing ones. A translation
    that would be read as a boundary is written as U+FFFD, so that an empty line always is a
    boundary. (A translation is empty if the model writes only symbols that decoding to text
    removes.) With ``search.free`` the output has one line for each document instead, with the
    translations of its instances one after the other; with ``nbest`` a JSON object for each
    sentence.

    If the output is already the translation by the same checkpoints with the same options, nothing
    is done.

    Raises:
        GtransError: a file that is missing, not UTF-8, or does not fit the others; an output that
            cannot be written, is one of the inputs or is being written by another process. Batches
            that are finished by then are kept for the next run of the same command.
    """
    check_output_file(options, output, input)
    decoding_device(options.cpu, options.fp16)  # before the standard input is waited for
    rows, text = open_text(input, "source", options.choice, once=True), None
    if isinstance(rows, Plain):
        lines = list(rows.raw_lines())
        for number, line in enumerate(lines, start=1):
            check_length(input, number, line)
        notice_running_text(input, lines)
        text = Text.of_lines(input, lines)
    translator = Translator.of(options)
    if text is None:
        rows.choice = with_direction(options.choice, translator)
        text = Text.of_documents(input, list(rows))
    contents = [text.sentences, text.names(), text.layout]
    job = Job.of(translator, options, text, output, contents)

    def failed(_: Job, error: Exception) -> None:
        raise error

    _finish(job, lambda: list(_run([job], failed)))


def _finish(job: Job, make: Callable[[], object]) -> None:
    """Write the output, unless it is finished already."""
    with job.lock():
        if job.is_finished():
            say(f"'{job.output}' is already this translation; `--force` translates anew")
            return
        make()
    if job.output != STANDARD_STREAM:
        say(f"{job.sentences} sentences written to {job.output}")


def with_direction(choice: Choice, translator: Translator) -> Choice:
    """What to read: if no direction is chosen, the rows of the model's own."""
    cfg = translator.task.cfg
    return replace(choice, direction=choice.direction or f"{cfg.source_lang}-{cfg.target_lang}")


# ---- files of documents --------------------------------------------------------------------------


class _Place(NamedTuple):
    """A file to translate, its format, and where its translation goes."""

    path: Path
    format: str
    target: Path


def translate_files(
    options: DecodingOptions,
    sources: Sequence[str],
    output_dir: str,
    format: str | None = None,
    split_sentences: bool = False,
) -> None:
    """Translate and write files of documents.

    The model is loaded once. All files are read before the first is translated, so that a mistake
    is reported at once. Each is written as soon as it is finished, with a record beside it, so an
    interrupted command goes on at the first unfinished file. A file that cannot be read does not
    stop the others, and neither does an output that another process is writing, or that somebody
    else wrote or changed, which stays.

    Args:
        options: models and search.
        sources: files, and folders of them.
        output_dir: folder to write the translations into.
        format: the format of all files; None: by their names.
        split_sentences: plain text and rows are running text, not one sentence each.

    Raises:
        GtransError: a file that is missing or of an unknown format, two files of one name, an
            output that cannot be written or is an input; at the end, a file that is damaged, or
            whose output has been changed since it was written.
    """
    check_output_folder("--output-dir", output_dir, sources)
    suffix = ".jsonl" if options.nbest else ""
    out = Path(output_dir)
    places = [place for source in sources for place in _places(Path(source), out, format, suffix)]
    refuse_folders(options.paths)
    _check_targets(places, options)
    for place in places:
        formats().require_libraries(place.path, place.format, split_sentences)
    failures: list[str] = []

    def failed(path: Path | str, error: Exception) -> None:
        """Report a user's mistake, or whatever error the contents of a file cause."""
        message = str(error)
        if not isinstance(error, GtransError):
            message = f"'{path}': it cannot be translated ({type(error).__name__}: {error})"
        if len(places) == 1:
            raise GtransError(message)
        failures.append(message)
        say(message)

    translator, jobs, done = Translator.of(options), list[Job](), 0
    cfg = translator.task.cfg
    choice = with_direction(options.choice, translator)
    reader = formats().Reader(str(cfg.source_lang), split_sentences, str(cfg.target_lang), choice)
    for place in places:
        try:
            refuse_foreign(place.target, options.force)
            file = reader.read(place.path, place.format)
            contents = [digest(place.path), place.format, file.sentences]
            job = Job.of(translator, options, file, str(place.target), contents)
            place.target.parent.mkdir(parents=True, exist_ok=True)
            if job.is_finished():
                done += 1
            else:
                jobs.append(job)
        except Exception as error:
            failed(place.path, error)
    if done:
        count = done + len(jobs)
        say(f"{done} of {count} files are translated already; `--force` translates them anew")
    written: list[Job] = []
    notes: Counter[str] = Counter()
    for job in _run(jobs, lambda job, error: failed(job.source.path, error)):
        written.append(job)
        for note in job.source.notes:
            say(str(note))
            notes[note.kind] += note.count
    if (rest := len(translator.warned) - WARNED_OF) > 0:
        say(f"warning: the same holds for {rest} more files")
    summary = "".join(f"; {kind}: {count}" for kind, count in notes.items())
    sentences = sum(job.sentences for job in written)
    files = "1 file" if len(written) == 1 else f"{len(written)} files"
    say(f"{sentences} sentences in {files} written to {output_dir}{summary}")
    if failures:
        raise GtransError(
            f"{len(failures)} of {len(places)} files are not translated, as told above; mend "
            "them and run this again: what is finished is not done twice."
        )


def _places(source: Path, output: Path, format: str | None, suffix: str) -> Iterator[_Place]:
    """A file, or the files in a folder with their relative paths.

    Raises:
        GtransError: there is no such file, its format is not known, or the folder has none.
    """
    if not source.exists():
        raise GtransError(f"there is no file or folder '{source}'; check the path.")
    if not source.is_dir():
        yield _Place(
            source, formats().check_format(source, format), output / f"{source.name}{suffix}"
        )
        return
    kinds = {path: format or formats().format_of(path) for path in _files_in(source, output)}
    others = [path for path, kind in kinds.items() if kind is None]
    if len(others) == len(kinds):
        raise GtransError(
            f"'{source}' has no files of a known format; known are {formats().known_formats()}; "
            "`--format NAME` says which it is."
        )
    if others:
        rest = f" and {len(others) - 1} more" if len(others) > 1 else ""
        say(f"left out, because their format is not known: '{others[0]}'{rest}")
    for path, kind in kinds.items():
        if kind is not None:
            yield _Place(path, kind, output / f"{path.relative_to(source)}{suffix}")


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
                say(f"left out, because it is a link to a folder: '{Path(parent, name)}'")
        for name in sorted(names):
            if not name.startswith(".") and not name.endswith(SUFFIX):
                yield Path(parent, name)


def _check_targets(places: Sequence[_Place], options: DecodingOptions) -> None:
    """Refuse two files with one output, and outputs that cannot be written or are inputs."""
    inputs: list[str | Path] = [*options.paths, *(place.path for place in places)]
    paths: dict[str, Path] = {}
    for place in places:
        other = paths.setdefault(os.path.realpath(place.target), place.path)
        if other != place.path:
            raise GtransError(
                f"'{other}' and '{place.path}' would both become '{place.target}'; translate them "
                "into two folders."
            )
        check_output_folder("--output-dir", place.target.parent)
        if place.target.parent.is_dir():
            check_output("--output-dir", place.target, inputs)
            read_record(place.target)


# ---- streams -------------------------------------------------------------------------------------


def translate_stream(options: DecodingOptions) -> None:
    """Translate the standard input to the standard output.

    A document is translated and written as soon as an empty line, ``<d>`` or the end of the input
    closes it. The lines are those of :func:`translate`.

    Raises:
        GtransError: as for :func:`translate`. What was finished by then is written.
    """
    translator = Translator.of(options)
    first: list[tuple[int, str]] = []  # all lines up to the end of the first document
    document: list[str] = []
    places: list[str] = []
    documents = 0
    lines = enumerate(iterate_raw_lines(STANDARD_STREAM, once=True), start=1)
    for number, line in chain(lines, [(0, None)]):
        if line is not None and not documents:
            first.append((number, line))
        if line is not None and not is_boundary(line):
            check_length("standard input", number, line)
            document.append(line)
            places.append(f"standard input:{number}")
            continue
        if document:
            if not documents:
                check_plain("standard input", first)
            documents += 1
            translations = translator.alternatives([document], places)
            written: Iterable[str] = best_of(translations)[0]
            if options.nbest:
                ((_, ids),) = counted([document])
                written = json_lines([(str(documents), ids)], [document], translations)
            write_out(_lines(written))
            document, places = [], []
        if line is not None and not options.nbest and not options.search.free:
            write_out(f"{line}\n".encode())
