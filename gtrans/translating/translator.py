"""Models that translate documents, in this process or in the processes of ``--workers``."""

from __future__ import annotations

import multiprocessing as mp
import os
import signal
import sys
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from itertools import chain, islice
from multiprocessing.connection import Connection, wait
from pathlib import Path
from typing import Any, NamedTuple

import torch
from torch import Tensor
from tqdm import tqdm

from gtrans.checkpoints.reading import options_of, read_checkpoint
from gtrans.data.documents import check_length
from gtrans.data.examples import Example
from gtrans.data.units import Unit
from gtrans.errors import GtransError
from gtrans.files import digest
from gtrans.messages import print_message
from gtrans.search.document_search import DocumentHypothesis
from gtrans.search.generator import DocumentGenerator, make_batches
from gtrans.search.options import MAX_TOKENS, DecodingOptions, SearchOptions
from gtrans.search.part_search import Parts, PartsOfDocument
from gtrans.text.moses import MosesPipeline
from gtrans.text.pipeline import PLACEHOLDER, input_warnings
from gtrans.text.plausibility import TextSample, implausible
from gtrans.text.prepared_folder import read_state
from gtrans.text.reader import is_boundary
from gtrans.translating.loading import check_overrides, load_models, set_chunks
from gtrans.translating.output import Alternative, Translations, best_of
from gtrans.translating.unknown_words import unknown_words, with_symbols, words_of_subwords

MOST_WARNED_TEXTS = 2
"""Of how many texts warnings are printed; a folder may have hundreds that are alike."""


class EncodedSentence(NamedTuple):
    """The ids of a sentence with ``</s>``, and its subwords for a BERT."""

    ids: Tensor
    bert_subwords: Tensor | None


class TrainingLimit(NamedTuple):
    """The most tokens of a sentence in training, by an option."""

    tokens: int
    option: str


class Translator:
    """Models that translate documents.

    ``Translator.load("model.pt").translate(documents)`` is ``gtrans translate`` from Python.

    Attributes:
        preparation: digest of the preparation.
        checkpoints: their digests.
        warned: names of texts that models can hardly translate.
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
        self.limit: TrainingLimit | None = None
        self.copies_symbols = False
        self.warned: set[str] = set()
        self.checkpoints: list[str] = []

    @classmethod
    def load(cls, path: str | os.PathLike[str], **options: Any) -> Translator:
        """Load the model in a checkpoint.

        ``options``: fields of :class:`gtrans.search.options.DecodingOptions`, such as ``cpu=True``
        or ``search=SearchOptions(beam=1)``.
        """
        return cls.from_options(DecodingOptions(paths=(os.fspath(path),), **options))

    @classmethod
    def from_options(cls, options: DecodingOptions) -> Translator:
        """Load the models of these options."""
        check_overrides(options.paths[0], options.context)
        if options.data:
            read_state(Path(options.data))  # before models are loaded, which may take minutes
        files = [Path(path) for path in options.paths if Path(path).is_file()]
        digests = [digest(file) for file in files]
        models, task = load_models(
            options.paths,
            options.data,
            options.context,
            cpu=options.cpu,
            fp16=options.fp16,
            bf16=options.bf16,
            int8=options.int8,
        )
        unit = task.examples.unit  # before options of the search change it
        limits = []
        for path, model in zip(options.paths, models, strict=True):
            limits.append(_training_limit(path, model, unit))
        set_chunks(task, options.max_doc_tokens, options.overlap)
        if [digest(Path(path)) for path in options.paths] != digests:
            raise GtransError(
                f"{' or '.join(options.paths)}: it was replaced while it was read, perhaps by a "
                "training; run this again."
            )
        translator = cls(
            models,
            task,
            text_of_subwords=task.pipeline(str(task.cfg.target_lang)).decode,
            search=options.search,
            max_tokens=options.max_tokens,
            nbest=max(options.nbest, 1),
        )
        translator.limit = min(limits)
        translator.checkpoints = digests
        translator.copies_symbols = options.copy_symbols
        return translator

    def translate(self, documents: Sequence[Sequence[str]]) -> list[list[str]]:
        """Translate lists of sentences: K sentences become K translations, in the same order.

        A free search (``SearchOptions(free=True)``) gives one text for a document.

        Raises:
            GtransError: a sentence is empty or too long, or a document is no list.
        """
        return best_of(self.alternatives(documents))

    def alternatives(
        self, documents: Sequence[Sequence[str]], places: Sequence[str] | None = None
    ) -> list[Translations]:
        """Return the ``nbest`` translations of each sentence.

        ``places``: where each sentence stands, for messages.
        """
        counted = _checked_places(documents)
        encoded = self.encoded(documents)
        self.warn_about("the text", documents, encoded, places or counted)
        rows_of_documents = self.cut(encoded)
        rows = list(chain.from_iterable(rows_of_documents))
        translated: list[Translations] = [[] for _ in rows]
        with progress_of(len(counted)) as progress:
            for batch in self.batches(rows):
                batch_rows = [rows[index] for index in batch]
                decoded = self.decode_within_memory(batch_rows)
                for index, translations in zip(batch, decoded, strict=True):
                    translated[index] = translations
                    progress.update(self.sentences_in(rows[index], translations))
        return self.joined_rows(translated, rows_of_documents, documents)

    def encoded(self, documents: Sequence[Sequence[str]]) -> list[list[EncodedSentence]]:
        """Return sentences as tokens of the models."""
        encoded = []
        for document in documents:
            encoded.append([self._encoded(sentence) for sentence in document])
        return encoded

    def _encoded(self, sentence: str) -> EncodedSentence:
        tokens = self.task.source_encoder().encode(sentence)
        ids = self.task.source_dictionary.encode_line(tokens, add_if_not_exist=False)
        encoded = self.task.bert_subwords([sentence])
        bert_subwords = None if encoded is None else encoded[0]
        return EncodedSentence(ids.long(), bert_subwords)

    def warn_about(
        self,
        name: str,
        documents: Sequence[Sequence[str]],
        encoded: Sequence[Sequence[EncodedSentence]],
        places: Sequence[str],
    ) -> None:
        """Warn about text that models can hardly translate.

        Unknown words, tokenised text and other languages are reported once for each of the first
        names; sentences longer than any in training always.
        """
        ids = [sentence.ids for sentence in chain.from_iterable(encoded)]
        if name not in self.warned:
            warnings = self._warnings(name, documents, ids)
            if warnings:
                self.warned.add(name)
            if len(self.warned) <= MOST_WARNED_TEXTS:
                for warning in warnings:
                    print_message(f"warning: {warning}")
        limit = self.limit
        for sentence, place in zip(ids, places, strict=True):
            if limit is not None and len(sentence) > limit.tokens:
                print_message(
                    f"{place}: a sentence of {len(sentence):,} tokens, but the model was "
                    f"trained with {limit.option} {limit.tokens:,}; it takes long and will hardly "
                    "be translated well: split it"
                )

    def _warnings(
        self, name: str, documents: Sequence[Sequence[str]], ids: Sequence[Tensor]
    ) -> list[str]:
        pipeline = self.task.source_encoder()
        tokenises = not isinstance(pipeline, MosesPipeline) or pipeline.steps.tokenise
        sentences = chain.from_iterable(documents if tokenises else ())
        unk = self.task.source_dictionary.unk()
        unknown = 0
        tokens = 0
        for sentence in ids:
            unknown += int(sentence.eq(unk).sum())
            tokens += len(sentence) - 1
        warnings = list(input_warnings(name, sentences, unknown, tokens))
        lang = str(self.task.cfg.source_lang)
        if unknown:
            all_sentences = chain.from_iterable(documents)
            lacking = unknown_words(name, all_sentences, lang, self._words_with_unknown)
            if lacking:
                warnings.append(lacking)
        warnings += implausible(TextSample.of(name, lang, documents), plain=False)
        return warnings

    def _words_with_unknown(self, sentence: str) -> list[str]:
        pipeline = self.task.source_encoder()
        words = []
        if not hasattr(pipeline, "decode"):  # BERT's tokenizer replaces unknown words
            for word in sentence.split():
                subwords = pipeline.encode(word).split()
                if self._has_unknown(subwords):
                    words.append(word)
            return words
        lang = str(self.task.cfg.source_lang)
        encoded = pipeline.encode(sentence).split()
        for subwords in words_of_subwords(encoded, lang):
            if self._has_unknown(subwords):
                word = pipeline.decode(" ".join(subwords))
                # As in the text: decoding capitalises a first word.
                place = sentence.lower().find(word.lower())
                if place >= 0:
                    word = sentence[place : place + len(word)]
                words.append(word)
        return [word for word in words if word.strip()]  # some subwords only say the case

    def _has_unknown(self, subwords: Sequence[str]) -> bool:
        dictionary = self.task.source_dictionary
        return any(dictionary.index(subword) == dictionary.unk() for subword in subwords)

    def cut(self, documents: Sequence[Sequence[EncodedSentence]]) -> list[list[Example]]:
        """Return the rows of each document."""
        unit = self.examples.unit
        rows_of_documents = []
        for document in documents:
            rows = []
            lengths = [len(sentence.ids) - 1 for sentence in document]
            for span in unit.cut_to_translate(lengths):
                sentences = [document[number] for number in span.source]
                ids = [sentence.ids for sentence in sentences]
                subwords = []
                for sentence in sentences:
                    if sentence.bert_subwords is not None:
                        subwords.append(sentence.bert_subwords)
                rows.append(self.examples.example(span, ids, bert_subwords=subwords))
            rows_of_documents.append(rows)
        return rows_of_documents

    def batches(self, examples: Sequence[Example]) -> list[list[int]]:
        """Return the numbers of the examples in each batch."""
        lengths = self.examples.lengths(examples)
        return make_batches(lengths, self.max_tokens, self.generator.rows_at_once)

    def sentences_in(self, row: Example, translations: Translations) -> int:
        """Return how many sentences of a row are translated."""
        return int(row["predicted_sentences"]) if self.free else len(translations)

    def joined_rows(
        self,
        translated: Sequence[Translations],
        rows_of_documents: Sequence[Sequence[Example]],
        sources: Sequence[Sequence[str]],
    ) -> list[Translations]:
        """Return the translations of documents from all rows, in order."""
        rows = iter(translated)
        documents = []
        for document in rows_of_documents:
            rows_of_document = islice(rows, len(document))
            documents.append(list(chain.from_iterable(rows_of_document)))
        if self.copies_symbols and not self.free:
            for document_sources, sentences in zip(sources, documents, strict=True):
                # `Translation.write` reports a wrong number of sentences.
                for source, alternatives in zip(document_sources, sentences, strict=False):
                    _copy_symbols(source, alternatives)
        return documents

    def decode_within_memory(
        self, rows: Sequence[Example], finished: Parts | None = None
    ) -> list[Translations]:
        """Decode rows; raise GtransError if GPU memory is short."""
        if not rows:
            return []
        try:
            return self.decode(rows, finished)
        except torch.cuda.OutOfMemoryError:
            raise GtransError(
                f"`--max-tokens` {self.max_tokens}: out of memory on the GPU, with {len(rows)} "
                "rows at once; give fewer tokens or a smaller `--beam` "
                f"({self.generator.search.options.beam})."
            ) from None

    def decode(self, rows: Sequence[Example], finished: Parts | None = None) -> list[Translations]:
        """Return for each row the translations of its sentences; one text in free search.

        ``finished`` keeps parts of rows.
        """
        net_input = self.examples.collate(rows)["net_input"]
        source = {name: tensor.to(self.device) for name, tensor in net_input.items()}
        translations = []
        for hypotheses in self.generator.documents(source, finished):
            translations.append(self._translations(hypotheses[: self.nbest]))
        return translations

    def _translations(self, hypotheses: Sequence[DocumentHypothesis]) -> Translations:
        if self.free:
            best = hypotheses[0]
            texts = [self._text(sentence.tokens) for sentence in best.sentences]
            return [[Alternative(" ".join(texts), best.score)]]
        score = self.generator.search.options.score
        translations = []
        # The n-th translation of a sentence is part of the n-th hypothesis of its row.
        sentences = zip(*(hypothesis.sentences for hypothesis in hypotheses), strict=True)
        for versions in sentences:
            alternatives = []
            for version in versions:
                text = self._text(version.tokens)
                alternatives.append(Alternative(text, score(version.scores)))
            translations.append(alternatives)
        return translations

    def _text(self, tokens: list[int]) -> str:
        subwords: str = self.task.target_dictionary.string(
            torch.tensor(tokens),
            extra_symbols_to_ignore=self.generator.symbols_to_strip_from_output,
        )
        text = self.text_of_subwords(subwords).strip()
        return PLACEHOLDER if is_boundary(text) else text


def _copy_symbols(source: str, alternatives: list[Alternative]) -> None:
    for number, alternative in enumerate(alternatives):
        text = with_symbols(source, alternative.text)
        alternatives[number] = Alternative(text, alternative.score)


def progress_of(sentences: int) -> Any:
    """Return a progress bar for sentences; a log gets a line every 30 seconds."""
    pause = 0.1 if sys.stderr.isatty() else 30.0
    return tqdm(
        total=sentences,
        desc="translating",
        unit=" sentences",
        mininterval=pause,
        delay=pause,
    )


def _checked_places(documents: Sequence[Sequence[str]]) -> list[str]:
    places = []
    for number, document in enumerate(documents, start=1):
        if isinstance(document, str):
            raise GtransError(f"document {number} is a text; a document is a list of sentences.")
        for place, sentence in enumerate(document, start=1):
            places.append(f"document {number}, sentence {place}")
            if not sentence.strip():
                raise GtransError(f"{places[-1]}: it is empty; leave it out.")
            check_length(f"document {number}", place, sentence)
    return places


def _training_limit(path: str, model: Any, unit: Unit) -> TrainingLimit:
    dataset = options_of(read_checkpoint(path, in_memory=False), "dataset")
    positions = min(model.max_positions())
    document = int(unit.as_dict().get("max_doc_tokens", sys.maxsize))
    batch = int(dataset.get("max_tokens") or sys.maxsize)
    return min(
        TrainingLimit(positions, "--max-positions"),
        TrainingLimit(document, "--max-doc-tokens"),
        TrainingLimit(batch, "--max-tokens"),
    )


# ---- processes -----------------------------------------------------------------------------------


class ProcessTask(NamedTuple):
    """A batch for a process; ``finished``: see :class:`gtrans.search.part_search.Parts`."""

    rows: list[Example]
    finished: dict[tuple[int, int], PartsOfDocument]


@dataclass(frozen=True)
class FinishedPart:
    """A worker's answer for a part of a document; for a batch it is the translations."""

    document: int
    part: int
    hypotheses: PartsOfDocument


@contextmanager
def worker_processes(
    translator: Translator, options: DecodingOptions, sentences: int
) -> Iterator[list[Connection]]:
    """Start at most ``sentences`` processes that decode, and yield connections to them.

    On CPUs a process is a fork with one thread, so that models are in memory once. On GPUs each
    process loads the models on its own device. ``--workers 1`` starts none.
    """
    on_gpus = translator.device.type == "cuda"
    count = min(_number_of_workers(options.workers, on_gpus), sentences)
    context: Any = mp.get_context("spawn" if on_gpus else "fork")
    start: Callable[[], Translator] = partial(_on_one_core, translator)
    connections: list[Connection] = []
    processes: list[Any] = []
    try:
        if count == 1:
            count = 0
        for number in range(count):
            ours, theirs = context.Pipe()
            if on_gpus:
                start = partial(_on_gpu, number, options, translator.checkpoints)
            process = context.Process(target=_serve, args=(theirs, start), daemon=True)
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


def _number_of_workers(requested: int, on_gpus: bool) -> int:
    most = torch.cuda.device_count() if on_gpus else len(os.sched_getaffinity(0))
    count = requested or most
    if on_gpus and count > most:
        raise GtransError(f"`--workers` {count}: there are {most} GPUs; give at most {most}.")
    if count > most:
        print_message(f"`--workers` {count}: there are {most} cores, and as many processes decode")
    return min(count, most)


def _on_one_core(translator: Translator) -> Translator:
    torch.set_num_threads(1)
    return translator


def _on_gpu(device: int, options: DecodingOptions, checkpoints: Sequence[str]) -> Translator:
    torch.cuda.set_device(device)
    translator = Translator.from_options(options)
    if translator.checkpoints != checkpoints:
        raise GtransError("a checkpoint was replaced; run this again.")
    return translator


def _serve(connection: Connection, start: Callable[[], Translator]) -> None:
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the other process ends this one
    threading.Thread(target=_end_with_parent, daemon=True).start()
    try:
        translator = start()
        while True:
            task: ProcessTask = connection.recv()
            parts = Parts(task.finished, partial(_send_part, connection))
            connection.send(translator.decode_within_memory(task.rows, parts))
    except Exception as error:
        if not isinstance(error, GtransError):
            error = RuntimeError(repr(error))
        connection.send(error)


def _end_with_parent() -> None:
    parent = mp.parent_process()
    assert parent is not None
    wait([parent.sentinel])
    os._exit(1)


def _send_part(
    connection: Connection, document: int, part: int, hypotheses: PartsOfDocument
) -> None:
    connection.send(FinishedPart(document, part, hypotheses))
