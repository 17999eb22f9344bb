"""Models that turn documents into their translations, batch after batch.

One process reads and writes everything; with several (``--workers``) the others only decode. So
progress, finished work on disk and errors are a single process's, and so is every batch.
"""

from __future__ import annotations

import multiprocessing as mp
import os
import signal
import sys
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from functools import partial
from itertools import chain
from multiprocessing.connection import Connection, wait
from pathlib import Path
from typing import Any, NamedTuple

import torch
from tqdm import tqdm

from gtrans.checkpoints.reading import options_of, read_checkpoint
from gtrans.data.documents import check_length
from gtrans.data.examples import Example
from gtrans.data.units import Unit
from gtrans.errors import GtransError
from gtrans.files import digest
from gtrans.messages import print_message
from gtrans.search.generator import DocumentGenerator, make_batches
from gtrans.search.options import MAX_TOKENS, DecodingOptions, SearchOptions
from gtrans.search.part_search import Parts
from gtrans.text.moses import MosesPipeline
from gtrans.text.pipeline import PLACEHOLDER, input_warnings
from gtrans.text.plausibility import TextSample, implausible
from gtrans.text.prepared_folder import read_state
from gtrans.text.reader import is_boundary
from gtrans.translating.loading import check_overrides, load_models, set_chunks
from gtrans.translating.translation import (
    Alternative,
    EncodedSentence,
    LinesOfText,
    Translation,
    Translations,
    best_of,
)
from gtrans.translating.unknown_words import unknown_words, words_of_subwords

WARNED_OF = 2
"""Of how many texts warnings are printed; a folder may have hundreds that are alike."""


class Translator:
    """Models, and the step that turns their output into text.

    ``Translator.load("model.pt").translate(documents)`` is ``gtrans translate`` from Python.

    Attributes:
        task: the task of the models.
        text_of_subwords: turns the subwords of a sentence into text.
        preparation: digest of the preparation of the task's data folder, if it has one.
        device: the models'.
        generator: the search.
        free: documents are decoded as one sequence.
        examples: builder of rows and batches.
        max_tokens: most source tokens of a batch.
        nbest: how many translations of a sentence are returned.
        longest: most tokens of a sentence that the models can have seen in training, if their
            checkpoints say it, and in which option.
        checkpoints: digests of the checkpoints.
        copies_symbols: symbols and emoji that a translation lacks are copied into it.
        warned: texts that models can hardly translate.
    """

    def __init__(
        self,
        models: list[Any],
        task: Any,
        text_of_subwords: Callable[[str], str],
        search: SearchOptions,
        max_tokens: int = MAX_TOKENS,
        nbest: int = 1,
    ) -> None:
        self.task = task
        self.text_of_subwords = text_of_subwords
        prepared = task.preparation
        self.preparation = None if prepared is None else prepared.digest
        self.device = next(models[0].parameters()).device
        self.generator = DocumentGenerator(models, task, search, nbest)
        self.free = search.free
        self.examples = self.generator.examples
        self.max_tokens = max_tokens
        self.nbest = nbest
        self.longest: tuple[int, str] | None = None
        self.copies_symbols = False
        self.warned: set[str] = set()
        self.checkpoints: list[str] = []

    @classmethod
    def load(cls, path: str | os.PathLike[str], **options: Any) -> Translator:
        """The model in a checkpoint, ready to translate.

        Args:
            path: the checkpoint.
            options: fields of :class:`gtrans.search.options.DecodingOptions`,
                such as ``cpu=True`` or ``search=SearchOptions(beam=1)``.

        Raises:
            GtransError: see :func:`gtrans.translating.loading.load_models`.
        """
        return cls.of(DecodingOptions(paths=(os.fspath(path),), **options))

    @classmethod
    def of(cls, options: DecodingOptions) -> Translator:
        """The models that the options name, as :meth:`load`."""
        check_overrides(options.paths[0], options.context)
        if options.data:
            read_state(Path(options.data))  # before models are loaded, which may take minutes
        digests = [digest(Path(path)) for path in options.paths if Path(path).is_file()]
        models, task = load_models(
            options.paths,
            options.data,
            options.context,
            cpu=options.cpu,
            fp16=options.fp16,
            bf16=options.bf16,
            int8=options.int8,
        )
        unit = task.examples.unit
        longest = min(
            _longest_seen(path, model, unit)
            for path, model in zip(options.paths, models, strict=True)
        )
        set_chunks(task, options.max_doc_tokens, options.overlap)
        if [digest(Path(path)) for path in options.paths] != digests:
            raise GtransError(
                f"{' or '.join(options.paths)}: it was replaced while it was read, perhaps by a "
                "training; run this again."
            )
        to_text = task.pipeline(str(task.cfg.target_lang)).decode
        nbest = max(options.nbest, 1)
        translator = cls(models, task, to_text, options.search, options.max_tokens, nbest)
        translator.longest, translator.checkpoints = longest, digests
        translator.copies_symbols = options.copy_symbols
        return translator

    def translate(self, documents: Sequence[Sequence[str]]) -> list[list[str]]:
        """The translation of documents: for K sentences K translations, in the same order.

        With a free search (``SearchOptions(free=True)``) a document gets one text.

        Args:
            documents: each a list of sentences, in plain text.

        Raises:
            GtransError: a sentence that is empty or too long, or no list of sentences.
        """
        return best_of(self.alternatives(documents))

    def alternatives(
        self, documents: Sequence[Sequence[str]], places: Sequence[str] | None = None
    ) -> list[Translations]:
        """As :meth:`translate`: for each sentence the ``nbest`` translations with their scores.

        ``places`` says of each sentence where it stands; by default they are counted.
        """
        counted = []
        for number, document in enumerate(documents, start=1):
            if isinstance(document, str):
                raise GtransError(
                    f"document {number} is a text; a document is a list of sentences."
                )
            for place, sentence in enumerate(document, start=1):
                counted.append(f"document {number}, sentence {place}")
                if not sentence.strip():
                    raise GtransError(f"{counted[-1]}: it is empty; leave it out.")
                check_length(f"document {number}", place, sentence)
        text = LinesOfText("the text", [list(document) for document in documents])
        text.places = list(places or counted)
        translation = Translation(self, text)
        with progress_of(len(counted)) as progress, translation.opened(progress):
            for number, rows in translation.missing():
                self.decode_batch(translation, number, rows)
        return translation.translations()

    def encoded(self, documents: Sequence[Sequence[str]]) -> list[list[EncodedSentence]]:
        """The sentences of documents as tokens of the models."""
        return [[self._encoded(sentence) for sentence in document] for document in documents]

    def _encoded(self, sentence: str) -> EncodedSentence:
        tokens = self.task.source_encoder().encode(sentence)
        ids = self.task.source_dictionary.encode_line(tokens, add_if_not_exist=False)
        subwords = self.task.bert_subwords([sentence])
        return EncodedSentence(ids.long(), None if subwords is None else subwords[0])

    def warn_of(
        self,
        name: str,
        documents: Sequence[Sequence[str]],
        encoded: Sequence[Sequence[EncodedSentence]],
        places: Sequence[str],
    ) -> None:
        """Warn about text that models can hardly translate.

        Once for a name, and for the first texts only: unknown words, text that is tokenised
        already, or in another language than the model's source. Always: sentences longer than any
        that the models have seen in training.

        Args:
            name: what the text is called.
            documents: its sentences.
            encoded: the same as tokens.
            places: where each sentence stands.
        """
        ids = [sentence.ids for sentence in chain.from_iterable(encoded)]
        if name not in self.warned:
            pipeline = self.task.source_encoder()
            tokenises = not isinstance(pipeline, MosesPipeline) or pipeline.steps.tokenise
            sentences = chain.from_iterable(documents if tokenises else ())
            unk = self.task.source_dictionary.unk()
            unknown = sum(int((sentence == unk).sum()) for sentence in ids)
            tokens = sum(len(sentence) - 1 for sentence in ids)
            sample = TextSample.of(name, str(self.task.cfg.source_lang), documents)
            warnings = input_warnings(name, sentences, unknown, tokens)
            told = self._unknown_words(name, documents) if unknown else ""
            if told:
                warnings.append(told)
            warnings += implausible(sample, plain=False)
            if warnings:
                self.warned.add(name)
            for warning in warnings if len(self.warned) <= WARNED_OF else ():
                print_message(f"warning: {warning}")
        limit, option = self.longest or (sys.maxsize, "")
        for sentence, place in zip(ids, places, strict=True):
            if len(sentence) > limit:
                print_message(
                    f"{place}: a sentence of {len(sentence):,} tokens, but the model was "
                    f"trained with {option} {limit:,}; it takes long and will hardly be "
                    "translated well: split it"
                )

    def _unknown_words(self, name: str, documents: Sequence[Sequence[str]]) -> str:
        """How many words the vocabulary lacks, and the first of them."""
        dictionary, pipeline = self.task.source_dictionary, self.task.source_encoder()
        lang = str(self.task.cfg.source_lang)

        def is_unknown(subword: str) -> bool:
            return bool(dictionary.index(subword) == dictionary.unk())

        def lacking(sentence: str) -> list[str]:
            words = []
            if not hasattr(pipeline, "decode"):  # BERT's tokenizer replaces unknown words
                for word in sentence.split():
                    if any(is_unknown(subword) for subword in pipeline.encode(word).split()):
                        words.append(word)
                return words
            for subwords in words_of_subwords(pipeline.encode(sentence).split(), lang):
                if any(is_unknown(subword) for subword in subwords):
                    word = pipeline.decode(" ".join(subwords))
                    # As it is written there: decoding makes a first word of it.
                    place = sentence.lower().find(word.lower())
                    words.append(sentence[place : place + len(word)] if place >= 0 else word)
            return [word for word in words if word.strip()]  # some subwords only say the case

        return unknown_words(name, chain.from_iterable(documents), lang, lacking)

    def cut(self, documents: Sequence[Sequence[EncodedSentence]]) -> list[list[Example]]:
        """The rows of each document, in order, as examples."""
        unit = self.examples.unit
        examples: list[list[Example]] = [[] for _ in documents]
        for rows, document in zip(examples, documents, strict=True):
            for span in unit.cut_to_translate([len(sentence.ids) - 1 for sentence in document]):
                sentences = [document[number] for number in span.source]
                ids = [sentence.ids for sentence in sentences]
                bert_subwords = [subwords for _, subwords in sentences if subwords is not None]
                rows.append(self.examples.example(span, ids, bert_subwords=bert_subwords))
        return examples

    def batches(self, examples: Sequence[Example]) -> list[list[int]]:
        """Which examples are decoded together (:func:`gtrans.search.generator.make_batches`)."""
        lengths = self.examples.lengths(examples)
        return make_batches(lengths, self.max_tokens, self.generator.rows_at_once)

    def decode_batch(self, translation: Translation, number: int, rows: Sequence[Example]) -> None:
        """Decode a batch of a text, and add its translations and its parts'."""
        parts = Parts(translation.parts_of(number), partial(translation.add_part, number))
        translation.add(number, self.decode_or_say(rows, parts))

    def decode_or_say(self, rows: Sequence[Example], finished: Parts) -> list[Translations]:
        """As :meth:`decode`; raises GtransError that says what to do if memory is short."""
        try:
            return self.decode(rows, finished) if rows else []
        except torch.cuda.OutOfMemoryError:
            raise GtransError(
                f"`--max-tokens` {self.max_tokens}: out of memory on the GPU, with {len(rows)} "
                "rows at once; give fewer tokens or a smaller `--beam` "
                f"({self.generator.search.options.beam})."
            ) from None

    def decode(
        self, examples: Sequence[Example], finished: Parts | None = None
    ) -> list[Translations]:
        """For each row the translations of its current sentences (one text, in free search).

        ``finished`` keeps the parts of rows that are translated in parts.
        """
        source = {
            name: tensor.to(self.device)
            for name, tensor in self.examples.collate(examples)["net_input"].items()
        }
        rows = [row[: self.nbest] for row in self.generator.documents(source, finished)]
        if self.free:
            texts = [" ".join(self._text(tokens) for tokens, _ in row[0].sentences) for row in rows]
            return [
                [[Alternative(text, row[0].score)]] for text, row in zip(texts, rows, strict=True)
            ]
        score = self.generator.search.options.score
        # The n-th translation of a sentence is part of the n-th hypothesis of its row.
        return [
            [
                [Alternative(self._text(tokens), score(scores)) for tokens, scores in several]
                for several in zip(*(hypothesis.sentences for hypothesis in row), strict=True)
            ]
            for row in rows
        ]

    def _text(self, tokens: list[int]) -> str:
        subwords: str = self.task.target_dictionary.string(
            torch.tensor(tokens),
            extra_symbols_to_ignore=self.generator.symbols_to_strip_from_output,
        )
        text = self.text_of_subwords(subwords).strip()
        return PLACEHOLDER if is_boundary(text) else text


# ---- processes -----------------------------------------------------------------------------------


class BatchOfText(NamedTuple):
    """A batch of a text: its number and its rows; without rows, nothing of the text is missing."""

    translation: Translation
    number: int
    rows: list[Example]


def progress_of(sentences: int) -> Any:
    """A progress bar of so many sentences; in a log it has a line every 30 seconds."""
    pause = 0.1 if sys.stderr.isatty() else 30.0
    unit = {"unit": " sentences", "mininterval": pause, "delay": pause}
    return tqdm(total=sentences, desc="translating", **unit)


def decode(
    translator: Translator,
    options: DecodingOptions,
    translations: Sequence[Translation],
    failed: Callable[[str, Exception], None],
) -> Iterator[Translation]:
    """Decode texts; yields each when its last batch is decoded, until then it is locked.

    Args:
        translator: decodes, alone or with copies in other processes.
        options: ``workers`` processes, 0: as many as there are cores or GPUs.
        translations: the texts.
        failed: is called for a text that cannot be begun, with its path and the error.

    Raises:
        GtransError: out of memory, or a process has ended.
    """
    opened: dict[Translation, ExitStack] = {}

    def batches() -> Iterator[BatchOfText]:
        for translation in translations:
            stack = everything.enter_context(ExitStack())
            try:
                stack.enter_context(translation.opened(progress))
            except GtransError as error:
                failed(translation.source.path, error)
                continue
            opened[translation] = stack
            for number, rows in translation.missing():
                yield BatchOfText(translation, number, rows)

    if not translations:
        return
    sentences = sum(translation.sentences for translation in translations)
    with (
        workers(translator, options, sentences) as connections,
        progress_of(sentences) as progress,
        ExitStack() as everything,
    ):
        for translation in _decoded(translator, connections, batches()):
            if translation.is_translated:
                with opened.pop(translation):
                    yield translation


def _decoded(
    translator: Translator, connections: Sequence[Connection], batches: Iterator[BatchOfText]
) -> Iterator[Translation]:
    """Decode batches here, or in other processes; yields the text of each decoded batch."""
    if connections:
        yield from _decoded_by_others(connections, batches)
        return
    for batch in batches:
        translator.decode_batch(*batch)
        yield batch.translation


def _decoded_by_others(
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
                connection.send((batch.rows, batch.translation.parts_of(batch.number)))
            if not busy:
                return
            for ready in wait(list(busy)):
                assert isinstance(ready, Connection)
                translation, number, _ = busy[ready]
                place, value = ready.recv()
                if isinstance(value, Exception):
                    raise value
                if place:
                    document, part = place
                    translation.add_part(number, document, part, value)
                    continue
                translation.add(number, value)
                del busy[ready]
                idle.append(ready)
                yield translation
    except (EOFError, OSError):
        raise GtransError(
            "`--workers`: a process has ended, perhaps because memory is short; give fewer. "
            "What is finished is kept: the same command goes on."
        ) from None


@contextmanager
def workers(
    translator: Translator, options: DecodingOptions, sentences: int
) -> Iterator[list[Connection]]:
    """Connections to processes that decode; none for ``--workers 1``.

    On CPUs a process is a copy of this one with one thread, so that models are in memory once. On
    GPUs each process loads the models on its own device.

    Args:
        translator: loaded with ``options``.
        options: ``workers`` processes, 0: as many as there are cores or GPUs.
        sentences: how many there are; more processes would have nothing to do.
    """
    on_gpus = translator.device.type == "cuda"
    most = torch.cuda.device_count() if on_gpus else len(os.sched_getaffinity(0))
    count = options.workers or most
    if on_gpus and count > most:
        raise GtransError(f"`--workers` {count}: there are {most} GPUs; give at most {most}.")
    if count > most:
        print_message(f"`--workers` {count}: there are {most} cores, and as many processes decode")
    count = min(count, most, sentences)
    context: Any = mp.get_context("spawn" if on_gpus else "fork")
    begin: Callable[[], Translator] = partial(_on_one_core, translator)
    connections: list[Connection] = []
    processes: list[Any] = []
    try:
        for number in range(count if count > 1 else 0):
            ours, theirs = context.Pipe()
            if on_gpus:
                begin = partial(_on_gpu, number, options, translator.checkpoints)
            process = context.Process(target=_serve, args=(theirs, begin), daemon=True)
            process.start()
            theirs.close()
            processes.append(process)
            connections.append(ours)
        yield connections
    finally:
        for process in processes:
            process.kill()  # it only computes
            process.join()
        for connection in connections:
            connection.close()


def _on_one_core(translator: Translator) -> Translator:
    torch.set_num_threads(1)
    return translator


def _on_gpu(device: int, options: DecodingOptions, checkpoints: Sequence[str]) -> Translator:
    torch.cuda.set_device(device)
    translator = Translator.of(options)
    if translator.checkpoints != checkpoints:
        raise GtransError("a checkpoint was replaced; run this again.")
    return translator


def _serve(connection: Connection, begin: Callable[[], Translator]) -> None:
    """Decode the batches that come, until the other process ends."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the other process ends this one
    parent = mp.parent_process()
    assert parent is not None

    def end_with_parent() -> None:
        wait([parent.sentinel])
        os._exit(1)

    def add(*values: Any) -> None:
        connection.send((values[:-1], values[-1]))

    threading.Thread(target=end_with_parent, daemon=True).start()
    try:
        translator = begin()
        while True:
            rows, known = connection.recv()
            connection.send(((), translator.decode_or_say(rows, Parts(known, add))))
    except Exception as error:
        failure = error if isinstance(error, GtransError) else RuntimeError(repr(error))
        connection.send(((), failure))


def _longest_seen(path: str, model: Any, unit: Unit) -> tuple[int, str]:
    """Most tokens of a sentence in the training of a checkpoint, and the option that says so."""
    limits = [(min(model.max_positions()), "--max-positions")]
    limits.append((int(unit.as_dict().get("max_doc_tokens", sys.maxsize)), "--max-doc-tokens"))
    dataset = options_of(read_checkpoint(path, in_memory=False), "dataset")
    limits.append((int(dataset.get("max_tokens") or sys.maxsize), "--max-tokens"))
    return min(limits)
