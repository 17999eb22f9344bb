"""Translates a text or a binarised split into a text with the same lines and documents.

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
import os
import sys
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, nullcontext
from dataclasses import asdict, dataclass, replace
from itertools import chain
from pathlib import Path
from typing import Any

from gtrans.data.documents import STANDARD_STREAM, check_length, iterate_raw_lines
from gtrans.decoding.loading import decoding_device, refuse_folders
from gtrans.decoding.options import DecodingOptions
from gtrans.decoding.resuming import (
    SUFFIX,
    FinishedBatches,
    Progress,
    TranslationRecord,
    outputs_of_partial,
    partial_path,
    read_record,
    record_path,
    run_of_partial,
    write_record,
)
from gtrans.decoding.translator import (
    LEAST_ROW_TOKENS,
    WARNED_OF,
    Line,
    Sentence,
    Translator,
    json_lines,
    lines_of_dataset,
    lines_of_documents,
    lines_of_text,
)
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
from gtrans.formats.document_file import DocumentFile
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


@dataclass(frozen=True)
class Job:
    """A text, and the file that its translation is written to.

    Attributes:
        output: file to write, or ``-``.
        lines: sentences, and boundaries between documents.
        made_from: everything that the translation depends on.
        names: the files that were read, for the record.
        compose: makes the contents of the output of the translations of each document.
    """

    output: str
    lines: Sequence[Line]
    made_from: Mapping[str, Any]
    names: Mapping[str, Any]
    compose: Callable[[list[list[str]]], bytes]

    @property
    def is_kept(self) -> bool:
        """Whether the output is a file, which can have a partial translation and a record."""
        return _is_kept(self.output)

    @property
    def sentences(self) -> int:
        """The number of sentences."""
        return sum(not isinstance(line, str) for line in self.lines)

    def is_finished(self) -> bool:
        """Whether the output is this translation already."""
        record = read_record(self.output) if self.is_kept else None
        run = fingerprint(self.made_from)
        if not record or record.run != run or not record.describes(self.output):
            return False
        if run_of_partial(partial_path(self.output)) == run:  # killed at its very end
            partial_path(self.output).unlink()
        return True

    def run(self, translator: Translator, force: bool, progress: Progress) -> None:
        """Translate and write.

        ``force``: forget what an earlier run of this job has translated.
        """
        kept = partial_path(self.output) if self.is_kept else None
        with FinishedBatches(kept, fingerprint(self.made_from), force) as finished:
            translations = translator.translate_lines(self.lines, finished, progress)
            contents = packer(Path(self.output))(self.compose(translations))
            finished.add_output(digest_of_bytes(contents))
        if self.output == STANDARD_STREAM:
            write_out(contents)
            return
        with binary_writer(self.output) as file:
            file.write(contents)
        if self.is_kept:
            record = TranslationRecord(
                fingerprint(self.made_from),
                self.made_from,
                self.names,
                self.sentences,
                digest(Path(self.output)),
            )
            write_record(self.output, record)
            partial_path(self.output).unlink(missing_ok=True)


def refuse_foreign(output: StrPath, force: bool) -> None:
    """Keep what is there if this project did not write it, or if somebody has changed it since.

    Raises:
        GtransError: it is such a file, and there is no ``force`` to replace it.
    """
    path = Path(output)
    if force or not is_file(path) or not path.is_file() or not path.stat().st_size:
        return
    record = read_record(path)
    own = {record.output} if record else set()
    if digest(path) not in own | outputs_of_partial(partial_path(str(path))):
        changed = "was changed since it was written" if record else "was not written by gtrans"
        raise GtransError(
            f"'{path}' {changed} and is kept; name another output, or replace it with `--force`."
        )


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
    _check_output(options, output, input)
    decoding_device(options.cpu, options.fp16)
    with locked(output) if _is_kept(output) else nullcontext():
        return _translate(options, output, input, split)


def _is_kept(output: str) -> bool:
    """Whether an output is a file, which can have a partial translation and a record."""
    return output != STANDARD_STREAM and is_file(output)


def _translate(options: DecodingOptions, output: str, input: str | None, split: str | None) -> int:
    text, rows = None, None
    if input is not None:
        rows = open_text(input, "source", options.choice, once=True)
        if isinstance(rows, Plain):
            text, rows = list(rows.raw_lines()), None
            for number, line in enumerate(text, start=1):
                check_length(input, number, line)
            notice_running_text(input, text)
        if options.data is not None:
            read_state(Path(options.data))
    translator = Translator.of(options, of_split=split is not None)
    documents: list[Document] = []
    numbers: list[int] = []
    sentences: list[str] = []
    if rows is not None:
        rows.choice = with_direction(options.choice, translator)
        documents = list(rows)
        found = [one for document in documents for one in document.segments if one.text()]
        numbers, sentences = [one.line for one in found], [one.text() for one in found]
        texts = [[one.text() for one in document.segments] for document in documents]
        lines = lines_of_documents(translator.task, [[*filter(None, one)] for one in texts])
    elif text is not None:
        lines = lines_of_text(translator.task, text)
        numbers = [n for n, line in enumerate(lines, start=1) if not isinstance(line, str)]
        sentences = [text[number - 1] for number in numbers]
    else:
        translator.task.load_dataset(str(split))
        lines = lines_of_dataset(translator.task.dataset(str(split)))
    if input is not None:
        translator.warn_of_text(input, sentences, lines)
        translator.warn_of_long(lines, [f"{input}:{number}" for number in numbers])
    names = {
        "checkpoints": list(options.paths),
        "data": options.data,
        "input": input,
        "split": split,
    }

    def compose(translations: list[list[str]]) -> bytes:
        if options.nbest and documents:
            written = _json_lines_of(documents, translations)
        elif options.nbest:
            written = _json_lines(lines, text, translations)
        elif documents and not options.search.free:
            written = _lines_of_segments(documents, translations)
        elif options.search.free:
            written = [" ".join(of_document) for of_document in translations if of_document]
        else:
            following = chain.from_iterable(translations)
            written = [line if isinstance(line, str) else next(following) for line in lines]
        return "".join(f"{line}\n" for line in written).encode()

    # JSON lines have the text itself, not only what the model reads of it.
    further = {"text": fingerprint(text)} if options.nbest else {}
    if documents:
        further["text"] = fingerprint([[part[1:3] for part in one.segments] for one in documents])
    made = made_from(lines, options, translator, **further)
    job = Job(output, lines, made, names, compose)
    if not options.force and job.is_finished():
        say(f"'{output}' is already this translation; `--force` translates anew")
        return job.sentences
    with translator.progress(lines) as progress:
        job.run(translator, options.force, progress)
    if output != STANDARD_STREAM:
        say(f"{job.sentences} sentences written to {output}")
    return job.sentences


def with_direction(choice: Choice, translator: Translator) -> Choice:
    """What to read: of rows of several directions those of the model, if none is chosen."""
    cfg = translator.task.cfg
    return replace(choice, direction=choice.direction or f"{cfg.source_lang}-{cfg.target_lang}")


def _lines_of_segments(documents: Sequence[Document], translations: list[list[str]]) -> list[str]:
    """A line for each segment, also without a text, and an empty line between documents."""
    written: list[str] = []
    for document, of_document in zip(documents, translations, strict=True):
        following = iter(of_document)
        written += [
            "",
            *(next(following) if one.text() else PLACEHOLDER for one in document.segments),
        ]
    return written[1:]


def _json_lines_of(documents: Sequence[Document], translations: list[list[str]]) -> list[str]:
    """The output with ``nbest`` of a text with ids."""
    used = [[one for one in document.segments if one.text()] for document in documents]
    names = [
        (document.name or str(number), [one.name or str(n) for n, one in enumerate(parts, start=1)])
        for number, (document, parts) in enumerate(zip(documents, used, strict=True), start=1)
    ]
    return json_lines(names, [[one.text() for one in parts] for parts in used], translations)


def _json_lines(
    lines: Sequence[Line], text: Sequence[str] | None, translations: list[list[str]]
) -> list[str]:
    """The output with ``nbest``; documents and their sentences are counted from 1."""
    sources: list[list[str]] = [[]]
    for number, line in enumerate(lines):
        if isinstance(line, str):
            sources.append([])
        else:
            sources[-1].append("" if text is None else text[number])
    both = [(of, found) for of, found in zip(sources, translations, strict=True) if of]
    names = [
        (str(number), [str(place) for place in range(1, len(of) + 1)])
        for number, (of, _) in enumerate(both, start=1)
    ]
    known = None if text is None else [of for of, _ in both]
    return json_lines(names, known, [found for _, found in both])


def made_from(
    lines: Sequence[Line], options: DecodingOptions, translator: Translator, **further: Any
) -> dict[str, Any]:
    """Everything that the translations depend on, and ``further`` what the output does."""
    rows = translator.generator.rows_at_once
    text = hashlib.sha256()
    for line in lines:
        text.update(b"\n")
        for part in [line.encode()] if isinstance(line, str) else _bytes_of(line):
            text.update(part)
    return {
        "gtrans": __version__,
        "input": text.hexdigest(),
        "checkpoints": list(translator.checkpoints),
        "preparation": translator.preparation or "",
        "search": asdict(options.search),
        "unit": translator.examples.unit.as_dict(),
        "context": dict(options.context),
        "max_tokens": options.max_tokens,
        "max_doc_tokens": options.max_doc_tokens,
        **({"overlap": options.overlap} if options.overlap else {}),
        "device": decoding_device(options.cpu).type,
        "fp16": options.fp16,
        # The limit on rows is named where it makes other batches, of which a part is kept.
        **({"max_rows": rows} if rows < options.max_tokens // LEAST_ROW_TOKENS else {}),
        **({"bf16": True} if options.bf16 else {}),
        **({"tokens": True} if options.tokens else {}),
        **({"nbest": options.nbest} if options.nbest else {}),
        **further,
    }


def _bytes_of(sentence: Sentence) -> list[bytes]:
    return [part.numpy().tobytes() for part in sentence if part is not None]


def _check_output(options: DecodingOptions, output: str, input: str | None) -> None:
    """Refuse an output that cannot be written or is read, before anything is computed."""
    if output == STANDARD_STREAM:
        return
    prepared = [] if options.data is None else prepared_files(options.data)
    inputs: list[str | Path] = [*options.paths, *prepared]
    if input is not None:
        inputs.append("/dev/stdin" if input == STANDARD_STREAM else input)
    check_output("--output", output, inputs)
    if _is_kept(output):
        for beside in (partial_path(output), record_path(output)):
            check_output("--output", beside, inputs)
        run_of_partial(partial_path(output))
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


class _NotWritten(GtransError):
    """A file that cannot be put together of its translations."""


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
class _Source:
    """A file to translate, its place below the output folder, and its format."""

    path: Path
    place: Path
    format: str


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
    output = Path(files.output_dir)
    check_output_folder("--output-dir", output, files.sources)
    sources = list(_sources(files, output))
    refuse_folders(options.paths)
    targets = [output / source.place for source in sources]
    if options.nbest:
        targets = [target.with_name(f"{target.name}.jsonl") for target in targets]
    _check_targets(sources, targets, options)
    for source in sources:
        require_libraries(source.path, source.format, files.split_sentences)
    failures, wanted = _Failures(len(sources)), []
    for source, target in zip(sources, targets, strict=True):
        try:
            refuse_foreign(target, options.force)
            wanted.append((source, target))
        except GtransError as error:
            failures.add(source.path, error)
    if not wanted:
        failures.end()
    translator = Translator.of(options)
    cfg = translator.task.cfg
    choice = with_direction(options.choice, translator)
    reader = Reader(str(cfg.source_lang), files.split_sentences, str(cfg.target_lang), choice)
    jobs = []
    for source, target in wanted:
        try:
            file = reader.read(source.path, source.format)
            jobs.append((source, file, _job(source, file, str(target), translator, options, files)))
        except Exception as error:
            failures.add(source.path, error)
    for folder in {target.parent for _, target in wanted}:
        try:
            folder.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise unwritable(f"`--output-dir` '{folder}'", error) from None
    _run(jobs, translator, options, files.output_dir, failures)
    failures.end()
    return sum(job.sentences for _, _, job in jobs)


def _run(
    jobs: Sequence[tuple[_Source, DocumentFile, Job]],
    translator: Translator,
    options: DecodingOptions,
    output_dir: str,
    failures: _Failures,
) -> None:
    left = [one for one in jobs if options.force or not one[2].is_finished()]
    if len(left) < len(jobs):
        done = len(jobs) - len(left)
        say(f"{done} of {len(jobs)} files are translated already; `--force` translates them anew")
    for _, file, job in left:
        translator.warn_of_long(job.lines, file.where())
    sentences = written = 0
    notes: Counter[str] = Counter()
    with translator.progress(*(job.lines for _, _, job in left)) as progress:
        for source, file, job in left:
            try:
                with ExitStack() as stack:
                    if job.is_kept:
                        stack.enter_context(locked(job.output))
                    job.run(translator, options.force, progress)
            except _NotWritten as error:
                failures.add(source.path, error)
                continue
            sentences, written = sentences + job.sentences, written + 1
            for note in file.notes:
                say(str(note))
                notes[note.kind] += note.count
    if (more := len(translator.warned) - WARNED_OF) > 0:
        say(f"warning: the same holds for {more} more files")
    told = "".join(f"; {kind}: {count}" for kind, count in notes.items())
    count = "1 file" if written == 1 else f"{written} files"
    say(f"{sentences} sentences in {count} written to {output_dir}{told}")


def _job(
    source: _Source,
    file: DocumentFile,
    target: str,
    translator: Translator,
    options: DecodingOptions,
    files: Files,
) -> Job:
    sentences = file.sentences
    lines = lines_of_documents(translator.task, sentences)
    translator.warn_of_text(str(source.path), [*chain.from_iterable(sentences)], lines)
    lang = str(translator.task.cfg.target_lang)
    joint = "" if language_code(lang) in WITHOUT_SPACES else " "

    def compose(translations: list[list[str]]) -> bytes:
        found = translations[: len(sentences)]
        if options.nbest:
            written = json_lines(file.names(), sentences, found)
            return "".join(f"{line}\n" for line in written).encode()
        try:
            return file.translated(found, joint)
        except Exception as error:
            raise _NotWritten(
                f"'{source.path}': its translation cannot be written in its format "
                f"({type(error).__name__}: {error})"
            ) from error

    further = {
        "file": digest(source.path),
        "format": source.format,
        "split_sentences": files.split_sentences,
    }
    names = {
        "checkpoints": list(options.paths), "data": options.data, "input": str(source.path),
        "split": None,
    }  # fmt: skip
    made = made_from(lines, options, translator, **further)
    return Job(target, lines, made, names, compose)


def _sources(files: Files, output: Path) -> Iterator[_Source]:
    """The files, those in folders with their relative paths.

    Raises:
        GtransError: there is no such file, its format is not known, or a folder has none.
    """
    for given in map(Path, files.sources):
        if not given.exists():
            raise GtransError(f"there is no file or folder '{given}'; check the path.")
        if not given.is_dir():
            yield _Source(given, Path(given.name), check_format(given, files.format))
            continue
        found, others = [], []
        for path in _files_in(given, output):
            kind = files.format or format_of(path)
            if kind is None:
                others.append(path)
            else:
                found.append(_Source(path, path.relative_to(given), kind))
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


def _check_targets(
    sources: Sequence[_Source], targets: Sequence[Path], options: DecodingOptions
) -> None:
    inputs: list[str | Path] = [*options.paths, *(source.path for source in sources)]
    known: dict[Path, Path] = {}
    above: dict[Path, Path] = {}
    for source, target in zip(sources, targets, strict=True):
        for path in (target, partial_path(str(target)), record_path(target)):
            other = known.setdefault(Path(os.path.realpath(path)), source.path)
            if other != source.path:
                raise GtransError(
                    f"'{other}' and '{source.path}' would both become '{path}'; translate them "
                    "into two folders."
                )
        above |= dict.fromkeys(Path(os.path.realpath(target)).parents, source.path)
    for target in targets:
        path = Path(os.path.realpath(target))
        if path in above:
            raise GtransError(
                f"'{target}' would be the translation of '{known[path]}' and the folder of that of "
                f"'{above[path]}'; translate them into two folders."
            )
    for target in targets:
        check_output_folder("--output-dir", target.parent)
        if not target.parent.is_dir():
            continue
        check_output("--output-dir", target, inputs)
        for beside in (partial_path(str(target)), record_path(target)):
            check_output("--output-dir", beside, inputs)
        run_of_partial(partial_path(str(target)))
        read_record(target)


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
        (translations,) = translator.translated([document], places)
        written = translations
        if options.nbest:
            ids = [str(number) for number in range(1, len(document) + 1)]
            written = json_lines([(str(documents), ids)], [document], [translations])
        write_out("".join(f"{line}\n" for line in written).encode())
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
