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
import sys
from collections.abc import Callable, Mapping, Sequence
from contextlib import nullcontext
from dataclasses import asdict, dataclass, replace
from itertools import chain
from pathlib import Path
from typing import Any

from gtrans.data.documents import STANDARD_STREAM, check_length
from gtrans.decoding.alternatives import json_lines
from gtrans.decoding.batching import LEAST_ROW_TOKENS
from gtrans.decoding.lines import (
    Line,
    Sentence,
    lines_of_dataset,
    lines_of_documents,
    lines_of_text,
)
from gtrans.decoding.loading import decoding_device
from gtrans.decoding.progress import Progress
from gtrans.decoding.resuming import (
    FinishedBatches,
    outputs_of_partial,
    partial_path,
    run_of_partial,
)
from gtrans.decoding.translation_options import DecodingOptions, TranslationOptions
from gtrans.decoding.translation_record import (
    TranslationRecord,
    read_record,
    record_path,
    write_record,
)
from gtrans.decoding.translator import Translator
from gtrans.errors import GtransError
from gtrans.formats.catalogue import packer
from gtrans.identity.digests import digest, digest_of_bytes, fingerprint
from gtrans.identity.files import (
    StrPath,
    binary_writer,
    check_output,
    is_file,
    locked,
    unwritable,
)
from gtrans.messages import say
from gtrans.text.plain_text import PLACEHOLDER
from gtrans.text.prepared_folder import prepared_files, read_state
from gtrans.text.reader import Choice, Document, Plain, notice_running_text, open_text
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
        return self.output != STANDARD_STREAM and is_file(self.output)

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


def translate(options: TranslationOptions) -> int:
    """Translate and write the output; returns the number of sentences.

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
    _check_output(options)
    decoding_device(options.cpu, options.fp16)
    with locked(options.output) if options.is_kept else nullcontext():
        return _translate(options)


def _translate(options: TranslationOptions) -> int:
    text, rows = None, None
    if options.input is not None:
        rows = open_text(options.input, "source", options.choice, once=True)
        if isinstance(rows, Plain):
            text, rows = list(rows.raw_lines()), None
            for number, line in enumerate(text, start=1):
                check_length(options.input, number, line)
            notice_running_text(options.input, text)
        if options.data is not None:
            read_state(Path(options.data))
    translator = Translator.of(options, of_split=options.split is not None)
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
        translator.task.load_dataset(str(options.split))
        lines = lines_of_dataset(translator.task.dataset(str(options.split)))
    if options.input is not None:
        translator.warn_of_text(options.input, sentences, lines)
        translator.warn_of_long(lines, [f"{options.input}:{number}" for number in numbers])
    names = {
        "checkpoints": list(options.paths),
        "data": options.data,
        "input": options.input,
        "split": options.split,
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
    job = Job(options.output, lines, made, names, compose)
    if not options.force and job.is_finished():
        say(f"'{options.output}' is already this translation; `--force` translates anew")
        return job.sentences
    with translator.progress(lines) as progress:
        job.run(translator, options.force, progress)
    if options.output != STANDARD_STREAM:
        say(f"{job.sentences} sentences written to {options.output}")
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


def _check_output(options: TranslationOptions) -> None:
    """Refuse an output that cannot be written or is read, before anything is computed."""
    if options.output == STANDARD_STREAM:
        return
    prepared = [] if options.data is None else prepared_files(options.data)
    inputs: list[str | Path] = [*options.paths, *prepared]
    if options.input is not None:
        inputs.append("/dev/stdin" if options.input == STANDARD_STREAM else options.input)
    check_output("--output", options.output, inputs)
    if options.is_kept:
        for beside in (partial_path(options.output), record_path(options.output)):
            check_output("--output", beside, inputs)
        run_of_partial(partial_path(options.output))
        refuse_foreign(options.output, options.force)


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
