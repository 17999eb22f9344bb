"""Translates texts, binarised splits, and files of documents.

Sentences form rows as the checkpoint's unit says. In document units a row ends with the document
or before its source tokens would exceed ``max_doc_tokens``. Targets play no part, so a split with
references is translated like the same text without (``fairseq-generate`` cuts documents by both
sides, as training does).

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
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, nullcontext
from dataclasses import asdict, dataclass, field, replace
from itertools import chain
from pathlib import Path
from typing import Any, Protocol

from gtrans.data.documents import STANDARD_STREAM, check_length, iterate_raw_lines
from gtrans.decoding.loading import decoding_device, refuse_folders
from gtrans.decoding.options import DecodingOptions
from gtrans.decoding.resuming import (
    SUFFIX,
    FinishedWork,
    Progress,
    TranslationRecord,
    partial_path,
    read_record,
    write_record,
)
from gtrans.decoding.translator import (
    LEAST_ROW_TOKENS,
    WARNED_OF,
    Alternative,
    BatchedDocuments,
    Sentence,
    Translations,
    Translator,
    best_of,
    documents_of_dataset,
)
from gtrans.decoding.workers import Task, Workers
from gtrans.errors import GtransError
from gtrans.files import (
    StrPath,
    binary_writer,
    check_output,
    check_output_folder,
    digest,
    digest_of_bytes,
    fingerprint,
    is_file,
    locked,
    unwritable,
)
from gtrans.formats.catalogue import (
    Reader,
    check_format,
    format_of,
    known_formats,
    packer,
    require_libraries,
)
from gtrans.formats.document_file import DocumentFile, Note
from gtrans.languages import WITHOUT_SPACES, language_code
from gtrans.messages import say
from gtrans.text.pipeline import PLACEHOLDER
from gtrans.text.prepared_folder import prepared_files, read_state
from gtrans.text.reader import (
    Choice,
    Document,
    Plain,
    check_plain,
    is_boundary,
    notice_running_text,
    open_text,
)
from gtrans.version import __version__


class _Source(Protocol):
    """What is translated: a :class:`DocumentFile`, or a text or a split."""

    notes: list[Note]

    @property
    def sentences(self) -> Sequence[Sequence[str]]:
        """The sentences of each document; none of a split."""

    def names(self) -> list[tuple[str, list[str]]]:
        """The id of each document and those of its sentences."""

    def where(self) -> list[str]:
        """Where each sentence of all documents stands, for messages."""

    def translated(self, translations: Sequence[Sequence[str]], joint: str) -> bytes:
        """The contents of the output."""


@dataclass
class Text:
    """A text or a split, of which the output has a line for each line.

    Attributes:
        path: the file, for messages.
        sentences: those of each document; of a split none.
        ids: the id of each document and those of its sentences.
        layout: the lines of the output, None in place of each translation.
        lines: the lines of all sentences in their file, from 1.
        notes: none.
    """

    path: str
    sentences: list[list[str]]
    ids: list[tuple[str, list[str]]]
    layout: list[str | None]
    lines: list[int]
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
        numbers = [n for n, line in enumerate(lines, start=1) if not is_boundary(line)]
        layout = [line if is_boundary(line) else None for line in lines]
        documents = [document for document in documents if document]
        return cls(path, documents, counted(documents), layout, numbers)

    @classmethod
    def of_documents(cls, path: str, documents: Sequence[Document]) -> Text:
        """A text with ids, which gets an empty line between documents."""
        layout: list[str | None] = []
        for document in documents:
            layout += ["", *(None if one.text() else PLACEHOLDER for one in document.segments)]
        used = [[one for one in document.segments if one.text()] for document in documents]
        ids = [
            (document.name or str(number), [one.name or str(n) for n, one in enumerate(parts, 1)])
            for number, (document, parts) in enumerate(zip(documents, used, strict=True), start=1)
        ]
        sentences = [[one.text() for one in parts] for parts in used]
        return cls(path, sentences, ids, layout[1:], [one.line for parts in used for one in parts])

    @classmethod
    def of_split(cls, name: str, documents: Sequence[Sequence[Sentence]]) -> Text:
        """A split, which gets an empty line between documents."""
        layout: list[str | None] = []
        for document in documents:
            layout += ["", *(None for _ in document)]
        return cls(name, [], counted([one for one in documents if one]), layout[1:], [])

    def names(self) -> list[tuple[str, list[str]]]:
        """See :class:`_Source`."""
        return self.ids

    def where(self) -> list[str]:
        """See :class:`_Source`."""
        return [f"{self.path}:{line}" for line in self.lines]

    def translated(self, translations: Sequence[Sequence[str]], joint: str) -> bytes:
        """See :class:`_Source`."""
        following = chain.from_iterable(translations)
        return _lines(next(following) if line is None else line for line in self.layout)


def counted(documents: Sequence[Sequence[object]]) -> list[tuple[str, list[str]]]:
    """Documents and their sentences by numbers from 1."""
    return [
        (str(number), [str(place) for place in range(1, len(document) + 1)])
        for number, document in enumerate(documents, start=1)
    ]


def _lines(lines: Iterator[str] | Sequence[str]) -> bytes:
    return "".join(f"{line}\n" for line in lines).encode()


class _NotWritten(GtransError):
    """A file that cannot be put together of its translations."""


@dataclass(frozen=True)
class Job:
    """A text, and the file that its translation is written to.

    Attributes:
        source: the text.
        documents: its sentences as tokens.
        output: file to write, or ``-``.
        made_from: everything that the translation depends on.
        names: the files that were read, for the record.
    """

    source: _Source
    documents: Sequence[Sequence[Sentence]]
    output: str
    made_from: Mapping[str, Any]
    names: Mapping[str, Any]

    @property
    def sentences(self) -> int:
        """The number of sentences."""
        return sum(map(len, self.documents))

    @property
    def partial(self) -> Path | None:
        """The file of its finished part; None if there is none."""
        return partial_path(self.output, self._run) if is_kept(self.output) else None

    @property
    def _run(self) -> str:
        return fingerprint(self.made_from)

    def is_finished(self) -> bool:
        """Whether the output is this translation already."""
        record = read_record(self.output) if is_kept(self.output) else None
        if record is None or record.run != self._run or not record.describes(self.output):
            return False
        partial_path(self.output, self._run).unlink(missing_ok=True)  # killed at its very end
        return True

    def write(
        self, found: list[Translations], translator: Translator, options: DecodingOptions
    ) -> None:
        """Write the translations of all documents."""
        contents = packer(Path(self.output))(self._contents(found, translator, options))
        if self.output == STANDARD_STREAM:
            write_out(contents)
            return
        if self.partial is not None:
            before = digest(Path(self.output)) if Path(self.output).is_file() else ""
            made = self._run, self.made_from, self.names, self.sentences
            record = TranslationRecord(*made, digest_of_bytes(contents), before)
            write_record(self.output, record)
        with binary_writer(self.output) as file:
            file.write(contents)
        if self.partial is not None:
            self.partial.unlink(missing_ok=True)

    def _contents(
        self, found: list[Translations], translator: Translator, options: DecodingOptions
    ) -> bytes:
        if options.nbest:
            found = [document for document in found if document]
            return _lines(json_lines(self.source.names(), self.source.sentences, found))
        if options.search.free:
            return _lines([" ".join(document) for document in best_of(found) if document])
        lang = language_code(str(translator.task.cfg.target_lang))
        try:
            return self.source.translated(best_of(found), "" if lang in WITHOUT_SPACES else " ")
        except Exception as error:
            raise _NotWritten(
                f"'{self.names['input']}': its translation cannot be written in its format "
                f"({type(error).__name__}: {error})"
            ) from error


def _run(
    jobs: Sequence[Job], translator: Translator, options: DecodingOptions
) -> Iterator[tuple[Job, _NotWritten | None]]:
    """Translate and write; yields every job that is written, or with what is wrong with it."""
    opened: dict[BatchedDocuments, tuple[Job, ExitStack]] = {}
    ready: list[BatchedDocuments] = []

    def tasks() -> Iterator[Task]:
        for job in jobs:
            with ExitStack() as stack:
                if is_kept(job.output):
                    stack.enter_context(locked(job.output))
                kept = stack.enter_context(FinishedWork(job.partial, options.force))
                work = BatchedDocuments(translator, job.documents, kept, progress)
                opened[work] = job, everything.enter_context(stack.pop_all())
            for number, rows in work.missing():
                yield work, number, rows
            if work.is_translated:
                ready.append(work)

    with (
        Workers(translator, options) as workers,
        Progress(sum(job.sentences for job in jobs)) as progress,
        ExitStack() as everything,
    ):
        for decoded in chain(workers.decode(tasks()), [None]):
            if decoded is not None and decoded.is_translated:
                ready.append(decoded)
            for work in {one: None for one in ready if one in opened}:
                job, stack = opened.pop(work)
                error = None
                with stack:
                    try:
                        job.write(work.translations(), translator, options)
                    except _NotWritten as found:
                        error = found
                yield job, error
            ready.clear()


def json_lines(
    names: Sequence[tuple[str, Sequence[str]]],
    sources: Sequence[Sequence[str]],
    translations: Sequence[Translations],
) -> list[str]:
    """A JSON object for each sentence, with the names that ``gtrans score`` knows.

    Args:
        names: the id of each document and those of its sentences.
        sources: for each document its sentences; none if they are not known.
        translations: for each document of each sentence the translations.
    """

    def entry(one: Alternative) -> dict[str, object]:
        return {"hypothesis": one.text, "score": round(one.score, 6)}

    lines = []
    for number, ((document, ids), of_document) in enumerate(zip(names, translations, strict=True)):
        for place, (name, alternatives) in enumerate(zip(ids, of_document, strict=True)):
            found: dict[str, object] = {"doc_id": document, "seg_id": name}
            if sources:
                found["source"] = sources[number][place]
            found |= entry(alternatives[0])
            if len(alternatives) > 1:
                found["nbest"] = [entry(one) for one in alternatives]
            lines.append(json.dumps(found, ensure_ascii=False))
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


def is_kept(output: str) -> bool:
    """Whether an output is a file, which can have a partial translation and a record."""
    return output != STANDARD_STREAM and is_file(output)


def translate(
    options: DecodingOptions, output: str, input: str | None = None, split: str | None = None
) -> int:
    """Translate and write the output; returns the number of sentences.

    Args:
        options: models and search.
        output: file to write, or ``-``.
        input: text file, or ``-``; None: translate ``split``.
        split: binarised split of the data folder; None: translate ``input``.

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
    decoding_device(options.cpu, options.fp16)
    with locked(output) if is_kept(output) else nullcontext():
        job, translator = _text_job(options, output, input, split)
        if not options.force and job.is_finished():
            say(f"'{output}' is already this translation; `--force` translates anew")
            return job.sentences
        for _, error in _run([job], translator, options):
            if error is not None:
                raise error
    if output != STANDARD_STREAM:
        say(f"{job.sentences} sentences written to {output}")
    return job.sentences


def _text_job(
    options: DecodingOptions, output: str, input: str | None, split: str | None
) -> tuple[Job, Translator]:
    rows, text = None, None
    if input is not None:
        rows = open_text(input, "source", options.choice, once=True)
        if isinstance(rows, Plain):
            lines = list(rows.raw_lines())
            for number, line in enumerate(lines, start=1):
                check_length(input, number, line)
            notice_running_text(input, lines)
            text = Text.of_lines(input, lines)
        if options.data is not None:
            read_state(Path(options.data))
    translator = Translator.of(options, of_split=split is not None)
    if input is None or rows is None:
        translator.task.load_dataset(str(split))
        documents = documents_of_dataset(translator.task.dataset(str(split)))
        text = Text.of_split(str(split), documents)
    else:
        if text is None:
            rows.choice = with_direction(options.choice, translator)
            text = Text.of_documents(input, list(rows))
        documents = translator.encoded(text.sentences)
        translator.warn_of(input, text.sentences, documents, text.where())
    further = {"text": fingerprint([text.sentences, text.ids, text.layout])}
    made = made_from(documents, options, translator, **further)
    return Job(text, documents, output, made, names_of(options, input, split)), translator


def names_of(options: DecodingOptions, input: str | None, split: str | None) -> dict[str, Any]:
    """The files that are read, as they were given."""
    return {
        "checkpoints": list(options.paths),
        "data": options.data,
        "input": input,
        "split": split,
    }


def with_direction(choice: Choice, translator: Translator) -> Choice:
    """What to read: of rows of several directions those of the model, if none is chosen."""
    cfg = translator.task.cfg
    return replace(choice, direction=choice.direction or f"{cfg.source_lang}-{cfg.target_lang}")


def made_from(
    documents: Sequence[Sequence[Sentence]],
    options: DecodingOptions,
    translator: Translator,
    **further: Any,
) -> dict[str, Any]:
    """Everything that the translations depend on, and ``further`` what the output does."""
    rows = translator.generator.rows_at_once
    text = hashlib.sha256()
    for document in documents:
        text.update(b"\n\n")
        for part in chain.from_iterable(document):
            text.update(b"\n" if part is None else part.numpy().tobytes())
    return {
        "gtrans": __version__,
        "input": text.hexdigest(),
        "checkpoints": list(translator.checkpoints),
        "preparation": translator.preparation or "",
        "search": asdict(options.search),
        "unit": translator.examples.unit.as_dict(),
        "context": dict(options.context),
        "device": decoding_device(options.cpu).type,
        # The limit on rows is named where it makes other batches, of which a part is kept.
        "max_rows": min(rows, options.max_tokens // LEAST_ROW_TOKENS),
        **{name: getattr(options, name) for name in _ALSO_MADE_FROM},
        **further,
    }


_ALSO_MADE_FROM = (
    "max_tokens",
    "max_doc_tokens",
    "overlap",
    "fp16",
    "bf16",
    "int8",
    "tokens",
    "nbest",
)


def check_output_file(options: DecodingOptions, output: str, input: str | None) -> None:
    """Refuse an output that cannot be written or is read, before anything is computed."""
    if output == STANDARD_STREAM:
        return
    prepared = [] if options.data is None else prepared_files(options.data)
    inputs: list[str | Path] = [*options.paths, *prepared]
    if input is not None:
        inputs.append("/dev/stdin" if input == STANDARD_STREAM else input)
    check_output("--output", output, inputs)
    if is_kept(output):
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


# ---- files of documents --------------------------------------------------------------------------


class _Failures:
    """The files that are not translated, each told of as soon as it is known.

    Args:
        files: how many are to be translated; of the only one the command's error tells.
    """

    def __init__(self, files: int) -> None:
        self._files = files
        self._told: list[str] = []

    def add(self, path: Path, error: Exception) -> None:
        """Tell of a file: a user's mistake, or anything that its contents lead to."""
        told = str(error)
        if not isinstance(error, GtransError):
            told = f"'{path}': it cannot be translated ({type(error).__name__}: {error})"
        self._told.append(told)
        if self._files > 1:
            say(told)

    def end(self) -> None:
        """Raises GtransError if there is any."""
        if self._told and self._files == 1:
            raise GtransError(self._told[0])
        if self._told:
            raise GtransError(
                f"{len(self._told)} of {self._files} files are not translated, as told above; mend "
                "them and run this again: what is finished is not done twice."
            )


@dataclass(frozen=True)
class Files:
    """Files and folders of documents to translate.

    Attributes:
        sources: files, and folders of them.
        output_dir: folder to write the translations into.
        format: the format of all files; None: by their names.
        split_sentences: plain text and rows are running text, not one sentence each.
    """

    sources: tuple[str, ...]
    output_dir: str
    format: str | None = None
    split_sentences: bool = False


@dataclass(frozen=True)
class _Place:
    """A file to translate, its format, and where its translation goes."""

    path: Path
    format: str
    target: Path


def translate_files(options: DecodingOptions, files: Files) -> int:
    """Translate and write all files; returns the number of sentences.

    The model is loaded once. All files are read before the first is translated, so that a mistake
    is told at once. Each is written as soon as it is finished, with a record beside it, so an
    interrupted command goes on at the first unfinished file. A file that cannot be read does not
    stop the others, and neither does an output that somebody else wrote or changed, which stays.

    Raises:
        GtransError: a file that is missing or of an unknown format, two files of one name, an
            output that cannot be written or is an input; at the end, a file that is damaged, or
            whose output has been changed since it was written.
    """
    check_output_folder("--output-dir", files.output_dir, files.sources)
    places = list(_places(files, ".jsonl" if options.nbest else ""))
    refuse_folders(options.paths)
    _check_targets(places, options)
    for place in places:
        require_libraries(place.path, place.format, files.split_sentences)
    failures, wanted = _Failures(len(places)), []
    for place in places:
        try:
            refuse_foreign(place.target, options.force)
            wanted.append(place)
        except GtransError as error:
            failures.add(place.path, error)
    if not wanted:
        failures.end()
    translator = Translator.of(options)
    cfg = translator.task.cfg
    choice = with_direction(options.choice, translator)
    reader = Reader(str(cfg.source_lang), files.split_sentences, str(cfg.target_lang), choice)
    jobs = []
    for place in wanted:
        try:
            file = reader.read(place.path, place.format)
            jobs.append(_job(place, file, translator, options, files))
        except Exception as error:
            failures.add(place.path, error)
    for folder in {place.target.parent for place in wanted}:
        try:
            folder.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise unwritable(f"`--output-dir` '{folder}'", error) from None
    _run_files(jobs, translator, options, files.output_dir, failures)
    failures.end()
    return sum(job.sentences for job in jobs)


def _run_files(
    jobs: Sequence[Job],
    translator: Translator,
    options: DecodingOptions,
    output_dir: str,
    failures: _Failures,
) -> None:
    left = [job for job in jobs if options.force or not job.is_finished()]
    if len(left) < len(jobs):
        done = len(jobs) - len(left)
        say(f"{done} of {len(jobs)} files are translated already; `--force` translates them anew")
    written: list[Job] = []
    notes: Counter[str] = Counter()
    for job, error in _run(left, translator, options):
        if error is not None:
            failures.add(Path(job.names["input"]), error)
            continue
        written.append(job)
        for note in job.source.notes:
            say(str(note))
            notes[note.kind] += note.count
    if (more := len(translator.warned) - WARNED_OF) > 0:
        say(f"warning: the same holds for {more} more files")
    told = "".join(f"; {kind}: {count}" for kind, count in notes.items())
    sentences = sum(job.sentences for job in written)
    count = "1 file" if len(written) == 1 else f"{len(written)} files"
    say(f"{sentences} sentences in {count} written to {output_dir}{told}")


def _job(
    place: _Place,
    file: DocumentFile,
    translator: Translator,
    options: DecodingOptions,
    files: Files,
) -> Job:
    documents = translator.encoded(file.sentences)
    translator.warn_of(str(place.path), file.sentences, documents, file.where())
    further = {
        "file": digest(place.path),
        "format": place.format,
        "split_sentences": files.split_sentences,
    }
    made = made_from(documents, options, translator, **further)
    names = names_of(options, str(place.path), None)
    return Job(file, documents, str(place.target), made, names)


def _places(files: Files, suffix: str) -> Iterator[_Place]:
    """The files, those in folders with their relative paths.

    Raises:
        GtransError: there is no such file, its format is not known, or a folder has none.
    """
    output = Path(files.output_dir)
    for given in map(Path, files.sources):
        if not given.exists():
            raise GtransError(f"there is no file or folder '{given}'; check the path.")
        if not given.is_dir():
            target = output / f"{given.name}{suffix}"
            yield _Place(given, check_format(given, files.format), target)
            continue
        found, others = [], []
        for path in _files_in(given, output):
            kind = files.format or format_of(path)
            if kind is None:
                others.append(path)
            else:
                found.append(_Place(path, kind, output / f"{path.relative_to(given)}{suffix}"))
        if not found:
            raise GtransError(
                f"'{given}' has no files of a known format; known are {known_formats()}; "
                "`--format NAME` says which it is."
            )
        if others:
            more = f" and {len(others) - 1} more" if len(others) > 1 else ""
            say(f"left out, because their format is not known: '{others[0]}'{more}")
        yield from found


def _files_in(folder: Path, output: Path) -> Iterator[Path]:
    """The files below a folder, without hidden ones, records, and the output."""
    for place, folders, names in os.walk(folder):
        folders[:] = sorted(
            name
            for name in folders
            if not name.startswith(".")
            and os.path.realpath(Path(place, name)) != os.path.realpath(output)
        )
        for name in folders:
            if Path(place, name).is_symlink():  # it may lead back here
                say(f"left out, because it is a link to a folder: '{Path(place, name)}'")
        for name in sorted(names):
            if not name.startswith(".") and not name.endswith(SUFFIX):
                yield Path(place, name)


def _check_targets(places: Sequence[_Place], options: DecodingOptions) -> None:
    inputs: list[str | Path] = [*options.paths, *(place.path for place in places)]
    known: dict[str, Path] = {}
    for place in places:
        other = known.setdefault(os.path.realpath(place.target), place.path)
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


def translate_stream(options: DecodingOptions) -> int:
    """Translate the standard input to the standard output; returns the number of sentences.

    A document is translated and written as soon as an empty line, ``<d>`` or the end of the input
    closes it. The lines are those of :func:`gtrans.decoding.translation.translate`.

    Raises:
        GtransError: as for :func:`gtrans.decoding.translation.translate`. What was finished by
            then is written.
    """
    translator = Translator.of(options)
    document: list[str] = []
    places: list[str] = []
    first: list[tuple[int, str]] = []  # all lines up to the end of the first document
    sentences = documents = 0

    def finish() -> None:
        nonlocal sentences, documents
        if not document:
            return
        if not documents:
            check_plain("standard input", first)
        documents += 1
        found = translator.alternatives([document], places)
        if options.nbest:
            ids = [str(number) for number in range(1, len(document) + 1)]
            write_out(_lines(json_lines([(str(documents), ids)], [document], found)))
        else:
            write_out(_lines(best_of(found)[0]))
        sentences += len(document)
        document.clear()
        places.clear()

    for number, line in enumerate(iterate_raw_lines(STANDARD_STREAM, once=True), start=1):
        if not documents:
            first.append((number, line))
        if not is_boundary(line):
            check_length("standard input", number, line)
            document.append(line)
            places.append(f"standard input:{number}")
            continue
        finish()
        if not options.nbest and not options.search.free:
            write_out(f"{line}\n".encode())
    finish()
    return sentences
