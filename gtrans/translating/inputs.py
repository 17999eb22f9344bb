"""What a command translates: the text of ``--input``, or files of documents."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import chain
from pathlib import Path
from typing import NamedTuple

from gtrans.annexes import formats
from gtrans.data.documents import STANDARD_STREAM, check_length
from gtrans.errors import GtransError
from gtrans.files import check_output, check_output_folder, digest, is_file
from gtrans.messages import print_message
from gtrans.search.options import DecodingOptions
from gtrans.text.prepared_folder import prepared_files
from gtrans.text.reader import (
    PlainText,
    Reader,
    TextSelection,
    have_markup,
    notice_running_text,
    open_text,
)
from gtrans.translating.loading import decoding_device, refuse_folders
from gtrans.translating.output import RECORD_SUFFIX, check_overwritable, read_record
from gtrans.translating.translation import LinesOfText, Translation
from gtrans.translating.translator import Translator


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
