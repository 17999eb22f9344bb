"""Translates files and folders of documents into files of the same names and formats.

The model is loaded once. All files are read before the first is translated, so that a mistake is
told at once. Each is written as soon as it is finished, with a record beside it, as
:mod:`gtrans.decoding.translation` does: an interrupted command goes on at the first unfinished
file, and a file that is finished is not translated again. A file that cannot be read does not stop
the others, and neither does an output that somebody else wrote or changed, which stays.
"""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from itertools import chain
from pathlib import Path

from gtrans.decoding.alternatives import json_lines
from gtrans.decoding.lines import lines_of_documents
from gtrans.decoding.loading import refuse_folders
from gtrans.decoding.resuming import partial_path, run_of_partial
from gtrans.decoding.translation import Job, made_from, refuse_foreign, with_direction
from gtrans.decoding.translation_options import FilesOptions
from gtrans.decoding.translation_record import SUFFIX, read_record, record_path
from gtrans.decoding.translator import Translator
from gtrans.errors import GtransError
from gtrans.formats.catalogue import (
    Reader,
    check_format,
    format_of,
    known_formats,
    require_libraries,
)
from gtrans.formats.document_file import DocumentFile
from gtrans.identity.digests import digest
from gtrans.identity.files import check_output, check_output_folder, locked, unwritable
from gtrans.languages import WITHOUT_SPACES, language_code
from gtrans.messages import say


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


def translate_files(options: FilesOptions) -> int:
    """Translate and write all files; returns the number of sentences.

    Raises:
        GtransError: a file that is missing or of an unknown format, two files of one name, an
            output that cannot be written or is an input; at the end, a file that is damaged, or
            whose output has been changed since it was written.
    """
    output = Path(options.output_dir)
    check_output_folder("--output-dir", output, options.sources)
    sources = list(_sources(options, output))
    refuse_folders(options.paths)
    targets = [output / source.place for source in sources]
    if options.nbest:
        targets = [target.with_name(f"{target.name}.jsonl") for target in targets]
    _check_targets(sources, targets, options)
    for source in sources:
        require_libraries(source.path, source.format, options.split_sentences)
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
    reader = Reader(str(cfg.source_lang), options.split_sentences, str(cfg.target_lang), choice)
    jobs = []
    for source, target in wanted:
        try:
            file = reader.read(source.path, source.format)
            jobs.append((source, file, _job(source, file, str(target), translator, options)))
        except Exception as error:
            failures.add(source.path, error)
    for folder in {target.parent for _, target in wanted}:
        try:
            folder.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise unwritable(f"`--output-dir` '{folder}'", error) from None
    _run(jobs, translator, options, failures)
    failures.end()
    return sum(job.sentences for _, _, job in jobs)


def _run(
    jobs: Sequence[tuple[_Source, DocumentFile, Job]],
    translator: Translator,
    options: FilesOptions,
    failures: _Failures,
) -> None:
    left = [one for one in jobs if options.force or not one[2].is_finished()]
    if len(left) < len(jobs):
        done = len(jobs) - len(left)
        say(f"{done} of {len(jobs)} files are translated already; `--force` translates them anew")
    for _, file, job in left:
        translator.warn_of_long(job.lines, file.where())
    sentences = files = 0
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
            sentences, files = sentences + job.sentences, files + 1
            for note in file.notes:
                say(str(note))
                notes[note.kind] += note.count
    told = "".join(f"; {kind}: {count}" for kind, count in notes.items())
    written = "1 file" if files == 1 else f"{files} files"
    say(f"{sentences} sentences in {written} written to {options.output_dir}{told}")


def _job(
    source: _Source,
    file: DocumentFile,
    target: str,
    translator: Translator,
    options: FilesOptions,
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
        "split_sentences": options.split_sentences,
    }
    names = {
        "checkpoints": list(options.paths), "data": options.data, "input": str(source.path),
        "split": None,
    }  # fmt: skip
    made = made_from(lines, options, translator, **further)
    return Job(target, lines, made, names, compose)


def _sources(options: FilesOptions, output: Path) -> Iterator[_Source]:
    """The files, those in folders with their relative paths.

    Raises:
        GtransError: there is no such file, its format is not known, or a folder has none.
    """
    for given in map(Path, options.sources):
        if not given.exists():
            raise GtransError(f"there is no file or folder '{given}'; check the path.")
        if not given.is_dir():
            yield _Source(given, Path(given.name), check_format(given, options.format))
            continue
        found, others = [], []
        for path in _files_in(given, output):
            kind = options.format or format_of(path)
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
    sources: Sequence[_Source], targets: Sequence[Path], options: FilesOptions
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
