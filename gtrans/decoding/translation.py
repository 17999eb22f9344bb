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
from dataclasses import asdict
from itertools import chain, islice
from pathlib import Path
from typing import Any

import torch
from tqdm import tqdm

from gtrans import __version__
from gtrans.data.documents import STANDARD_STREAM, check_length, iterate_raw_lines
from gtrans.data.examples import Example
from gtrans.decoding.batching import LEAST_ROW_TOKENS
from gtrans.decoding.loading import decoding_device, load_models, set_instances
from gtrans.decoding.part_search import FinishedParts
from gtrans.decoding.resuming import FinishedBatches, partial_path, run_of_partial
from gtrans.decoding.translation_options import TranslationOptions
from gtrans.decoding.translation_record import (
    TranslationRecord,
    read_record,
    record_path,
    write_record,
)
from gtrans.decoding.translator import (
    Line,
    Sentence,
    Translator,
    lines_of_dataset,
    lines_of_text,
)
from gtrans.errors import GtransError
from gtrans.identity.digests import digest, fingerprint
from gtrans.identity.files import atomic_writer, check_output, locked, unwritable
from gtrans.messages import say
from gtrans.text.moses_pipeline import MosesPipeline
from gtrans.text.prepared_folder import STATE_FILE, load_pipeline, prepared_files, read_state


def translate(options: TranslationOptions) -> int:
    """Translate and write the output; returns the number of sentences.

    The output has one line for each line of the input. All boundaries between documents (empty
    lines, lines ``<d>``) are kept, also consecutive, leading and trailing ones. A translation
    that would be read as a boundary is written as U+FFFD, so that an empty line always is a
    boundary. (A translation is empty if the model writes only symbols that decoding to text
    removes.) With ``search.free`` the output has one line for each document instead, with the
    translations of its instances one after the other.

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
    text = None
    if options.input is not None:
        text = list(iterate_raw_lines(options.input, once=True))
        for number, line in enumerate(text, start=1):
            check_length(options.input, number, line)
        if options.data is not None:
            read_state(Path(options.data))
    digests = [digest(Path(path)) for path in options.paths if Path(path).is_file()]
    models, task = load_models(
        options.paths, options.data, options.context, cpu=options.cpu, fp16=options.fp16,
        bf16=options.bf16,
    )  # fmt: skip
    set_instances(task, options.max_doc_tokens, options.overlap)
    for path, before in zip(options.paths, digests, strict=True):
        if digest(Path(path)) != before:
            raise GtransError(
                f"{path}: it was replaced while it was read, perhaps by a training; run this again."
            )
    if text is None:
        task.load_dataset(str(options.split))
        lines = lines_of_dataset(task.dataset(str(options.split)))
    else:
        lines = lines_of_text(task, text)
    translator = Translator(models, task, _text_of_pieces(task, options), options.search)
    made_from = _made_from(lines, options, translator, digests)
    record = read_record(options.output) if options.is_kept and not options.force else None
    if record and record.run == fingerprint(made_from) and record.describes(options.output):
        say(f"'{options.output}' is already this translation; `--force` translates anew")
        if run_of_partial(partial_path(options.output)) == record.run:  # killed at its very end
            partial_path(options.output).unlink()
        return record.sentences
    translations = translate_lines(translator, lines, options, fingerprint(made_from))
    if options.search.free:
        text = [" ".join(of_document) for of_document in translations if of_document]
    else:
        following = chain.from_iterable(translations)
        text = [line if isinstance(line, str) else next(following) for line in lines]
    sentences = sum(not isinstance(line, str) for line in lines)
    _write(options, text, sentences, made_from)
    return sentences


def _text_of_pieces(task: Any, options: TranslationOptions) -> Callable[[str], str]:
    """What turns the pieces of a sentence into text.

    Raises:
        GtransError: there are no Moses tokens in the data folder.
    """
    folder = task.data_folder
    if options.split is not None and not (folder / STATE_FILE).exists():
        say(f"'{folder}' was not made by 'gtrans prepare': tokens are written as they are")
        return str
    pipeline = load_pipeline(folder, task.cfg.target_lang)
    if not options.tokens:
        return pipeline.decode
    if not isinstance(pipeline, MosesPipeline) or not pipeline.steps.tokenise:
        raise GtransError(f"`--tokens`: '{folder}' was prepared without Moses' tokeniser.")
    return pipeline.words


def translate_lines(
    translator: Translator, lines: Sequence[Line], options: TranslationOptions, run: str
) -> list[list[str]]:
    """For each document the translations of its sentences, or of its rows in free search.

    ``run`` is the fingerprint under which finished batches are kept, if the output is a file.
    """
    documents = translator.cut(lines)
    examples = list(chain.from_iterable(documents))
    batches = translator.batches(examples, options.max_tokens)
    texts: list[list[str]] = [[] for _ in examples]
    sentences = sum(not isinstance(line, str) for line in lines)
    kept = partial_path(options.output) if options.is_kept else None
    with (
        FinishedBatches(kept, run, options.force) as finished,
        tqdm(total=sentences, desc="translating", unit=" sentences", disable=None) as bar,
    ):
        for number, batch in enumerate(batches):
            shown, translations = bar.n, finished.get(number)
            if translations is None:
                rows = [examples[index] for index in batch]
                parts = finished.parts(number, bar.update)
                translations = _decode(translator, rows, options, parts)
                finished.add(number, translations)
            for index, of_row in zip(batch, translations, strict=False):
                texts[index] = of_row
                shown += examples[index]["written"] if translator.free else len(of_row)
            bar.update(shown - bar.n)  # parts of documents have moved it already
    found, expected = sum(map(len, texts)), len(examples) if translator.free else sentences
    if found != expected:
        raise GtransError(
            f"'{kept}' was changed: it has {found} translations, but {expected} are needed; "
            "`--force` translates anew."
        )
    in_order = iter(texts)
    return [list(chain.from_iterable(islice(in_order, len(of)))) for of in documents]


def _decode(
    translator: Translator,
    batch: list[Example],
    options: TranslationOptions,
    finished: FinishedParts,
) -> list[list[str]]:
    try:
        return translator.decode(batch, finished)
    except torch.cuda.OutOfMemoryError:
        raise GtransError(
            f"`--max-tokens` {options.max_tokens}: out of memory on the GPU, with {len(batch)} "
            f"rows at once; give fewer tokens or a smaller `--beam` ({options.search.beam})."
        ) from None


def _made_from(
    lines: Sequence[Line],
    options: TranslationOptions,
    translator: Translator,
    checkpoints: Sequence[str],
) -> dict[str, Any]:
    """Everything that the translations depend on."""
    rows = translator.generator.rows_at_once
    text = hashlib.sha256()
    for line in lines:
        text.update(b"\n")
        for part in [line.encode()] if isinstance(line, str) else _bytes_of(line):
            text.update(part)
    return {
        "gtrans": __version__,
        "input": text.hexdigest(),
        "checkpoints": list(checkpoints),
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
        read_record(options.output)


def _write(
    options: TranslationOptions,
    text: Sequence[str],
    sentences: int,
    made_from: Mapping[str, Any],
) -> None:
    """Write the lines of the translation and its record, and remove the partial translation."""
    output = options.output
    if output == STANDARD_STREAM:
        try:
            sys.stdout.buffer.write("".join(f"{line}\n" for line in text).encode())
            sys.stdout.buffer.flush()
        except BrokenPipeError:
            raise
        except OSError as error:
            raise unwritable("the standard output", error) from None
        return
    with atomic_writer(output) as file:
        file.writelines(f"{line}\n" for line in text)
    if options.is_kept:
        names = {
            "checkpoints": list(options.paths),
            "data": options.data,
            "input": options.input,
            "split": options.split,
        }
        written = digest(Path(output))
        record = TranslationRecord(fingerprint(made_from), made_from, names, sentences, written)
        write_record(output, record)
        partial_path(output).unlink(missing_ok=True)
    say(f"{sentences} sentences written to {output}")
