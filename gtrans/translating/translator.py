"""Models that turn documents into their translations, batch after batch.

One process reads and writes everything; with several (``--workers``) the others only decode. So
progress, finished work on disk and errors are those of a single process, and so is every batch.
"""

from __future__ import annotations

import json
import multiprocessing as mp
import os
import signal
import sys
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from functools import partial
from itertools import chain
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
from gtrans.files import digest, unwritable
from gtrans.messages import say
from gtrans.search.document_search import SentenceHypothesis
from gtrans.search.generator import DocumentGenerator, make_batches
from gtrans.search.options import MAX_TOKENS, DecodingOptions, SearchOptions
from gtrans.search.part_search import Parts, PartsOfDocument
from gtrans.text.moses import MosesPipeline
from gtrans.text.pipeline import PLACEHOLDER, input_warnings
from gtrans.text.plausibility import TextSample, implausible
from gtrans.text.prepared_folder import Preparation, load_pipeline, read_state
from gtrans.text.reader import is_boundary
from gtrans.translating.loading import check_overrides, load_models, set_instances

WARNED_OF = 2
"""Of how many texts warnings are printed; a folder may have hundreds that are alike."""


class Sentence(NamedTuple):
    """The ids of a sentence with its end symbol, and its word pieces if a BERT reads them."""

    ids: Tensor
    word_pieces: Tensor | None


class Alternative(NamedTuple):
    """A translation of a sentence.

    Attributes:
        text: the translation.
        score: :meth:`gtrans.search.options.SearchOptions.score`: the sum of the
            log-probabilities of its tokens, divided by their number to the power of ``lenpen``.
    """

    text: str
    score: float


Translations = list[list[Alternative]]
"""Of each sentence of a document or of a row its translations, the best first."""


class Translator:
    """Models, and the step that turns their output into text.

    ``Translator.load("model.pt").translate(documents)`` is ``gtrans translate`` from Python.

    Attributes:
        task: the task of the models.
        text_of_pieces: turns the pieces of a sentence into text.
        preparation: digest of the preparation of the task's data folder, if it has one.
        device: that of the models.
        generator: the search.
        free: documents are decoded as one sequence.
        examples: builder of rows and batches.
        max_tokens: most source tokens of a batch.
        nbest: how many translations of a sentence are returned.
        longest: most tokens of a sentence that the models can have seen in training, if their
            checkpoints say it, and in which option.
        checkpoints: digests of the checkpoints.
        warned: texts that models can hardly translate.
    """

    def __init__(
        self,
        models: list[Any],
        task: Any,
        text_of_pieces: Callable[[str], str],
        search: SearchOptions,
        max_tokens: int = MAX_TOKENS,
        nbest: int = 1,
    ) -> None:
        self.task = task
        self.text_of_pieces = text_of_pieces
        prepared = Preparation.read(task.data_folder)
        self.preparation = prepared and prepared.digest
        self.device = next(models[0].parameters()).device
        self.generator = DocumentGenerator(models, task, search, nbest)
        self.free = search.free
        self.examples = self.generator.examples
        self.max_tokens = max_tokens
        self.nbest = nbest
        self.longest: tuple[int, str] | None = None
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
            options.paths, options.data, options.context, cpu=options.cpu, fp16=options.fp16,
            bf16=options.bf16, int8=options.int8,
        )  # fmt: skip
        unit = task.examples.unit
        longest = min(
            _longest_seen(path, model, unit)
            for path, model in zip(options.paths, models, strict=True)
        )
        set_instances(task, options.max_doc_tokens, options.overlap)
        if [digest(Path(path)) for path in options.paths] != digests:
            raise GtransError(
                f"{' or '.join(options.paths)}: it was replaced while it was read, perhaps by a "
                "training; run this again."
            )
        to_text = load_pipeline(task.data_folder, task.cfg.target_lang).decode
        nbest = max(options.nbest, 1)
        translator = cls(models, task, to_text, options.search, options.max_tokens, nbest)
        translator.longest, translator.checkpoints = longest, digests
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
        encoded = self.encoded(documents)
        self.warn_of("the text", documents, encoded, places or counted)
        with progress_of(len(counted)) as progress:
            work = Work(self, encoded, Kept(), progress)
            for number, rows in work.missing():
                work.add(number, self.decode_or_say(rows, work.parts(number)))
        return work.translations()

    def encoded(self, documents: Sequence[Sequence[str]]) -> list[list[Sentence]]:
        """The sentences of documents as tokens of the models."""
        encoder, dictionary = self.task.source_encoder(), self.task.source_dictionary

        def encode(sentence: str) -> Sentence:
            ids = dictionary.encode_line(encoder.encode(sentence), add_if_not_exist=False)
            pieces = self.task.word_pieces([sentence])
            return Sentence(ids.long(), pieces and pieces[0])

        return [[encode(sentence) for sentence in document] for document in documents]

    def warn_of(
        self,
        name: str,
        documents: Sequence[Sequence[str]],
        encoded: Sequence[Sequence[Sentence]],
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
        ids = [sentence.ids for document in encoded for sentence in document]
        if name not in self.warned:
            pipeline = self.task.source_encoder()
            tokenises = not isinstance(pipeline, MosesPipeline) or pipeline.steps.tokenise
            sentences = chain.from_iterable(documents if tokenises else ())
            unk = self.task.source_dictionary.unk()
            unknown = sum(int((sentence == unk).sum()) for sentence in ids)
            tokens = sum(len(sentence) - 1 for sentence in ids)
            sample = TextSample.of(name, str(self.task.cfg.source_lang), documents)
            warnings = input_warnings(name, sentences, unknown, tokens)
            warnings += implausible(sample, plain=False)
            if warnings:
                self.warned.add(name)
            for warning in warnings if len(self.warned) <= WARNED_OF else ():
                say(f"warning: {warning}")
        limit, option = self.longest or (sys.maxsize, "")
        for sentence, place in zip(ids, places, strict=True):
            if len(sentence) > limit:
                say(
                    f"{place}: a sentence of {len(sentence):,} tokens, but the model was "
                    f"trained with {option} {limit:,}; it takes long and will hardly be "
                    "translated well: split it"
                )

    def cut(self, documents: Sequence[Sequence[Sentence]]) -> list[list[Example]]:
        """The rows of each document, in order, as examples."""
        unit = self.examples.unit
        examples: list[list[Example]] = [[] for _ in documents]
        for rows, document in zip(examples, documents, strict=True):
            for span in unit.cut_to_translate([len(sentence.ids) - 1 for sentence in document]):
                sentences = [document[number] for number in span.source]
                ids = [sentence.ids for sentence in sentences]
                word_pieces = [pieces for _, pieces in sentences if pieces is not None]
                rows.append(self.examples.example(span, ids, word_pieces=word_pieces))
        return examples

    def batches(self, examples: Sequence[Example]) -> list[list[int]]:
        """Which examples are decoded together (:func:`gtrans.search.generator.make_batches`)."""
        lengths = self.examples.lengths(examples)
        return make_batches(lengths, self.max_tokens, self.generator.rows_at_once)

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
        pieces: str = self.task.target_dictionary.string(
            torch.tensor(tokens),
            extra_symbols_to_ignore=self.generator.symbols_to_strip_from_output,
        )
        text = self.text_of_pieces(pieces).strip()
        return PLACEHOLDER if is_boundary(text) else text


# ---- documents in translation --------------------------------------------------------------------

Place = tuple[int, ...]
"""The number of a batch, or of a batch, of a document in it and of a part of that."""


class Kept:
    """What a run has finished, one JSON line each. The caller has locked the output.

    Attributes:
        path: the file; None: nothing is kept.
        known: what earlier runs have finished, by place.
    """

    def __init__(self, path: Path | None = None, anew: bool = False) -> None:
        """Read the file; ``anew``: forget what it has.

        Raises:
            GtransError: it cannot be read or written.
        """
        self.path = path
        self.known: dict[Place, Any] = {}
        if path is None:
            return
        try:
            if anew:
                path.unlink(missing_ok=True)
            self._file = open(path, "a+b")  # noqa: SIM115
            self._file.seek(0)
            end = 0
            with suppress(ValueError, TypeError):  # an interrupted write
                for line in self._file:
                    if not line.endswith(b"\n"):
                        break
                    place, value = json.loads(line)
                    self.known[tuple(place)] = value
                    end += len(line)
            self._file.truncate(end)
        except OSError as error:
            raise unwritable(path, error) from None

    def add(self, value: Any, *place: int) -> None:
        """Keep a value that JSON can represent.

        Raises:
            GtransError: the disk is full, or the like; earlier ones are kept.
        """
        if self.path is None:
            return
        try:
            self._file.write(json.dumps([place, value]).encode() + b"\n")
            self._file.flush()
        except OSError as error:
            raise unwritable(self.path, error) from None

    def close(self) -> None:
        """Close the file."""
        if self.path is not None:
            with suppress(OSError):  # what could not be written has been reported
                self._file.close()


def progress_of(sentences: int) -> Any:
    """A progress bar of so many sentences; in a log it has a line every 30 seconds."""
    pause = 0.1 if sys.stderr.isatty() else 30.0
    unit = {"unit": " sentences", "mininterval": pause, "delay": pause}
    return tqdm(total=sentences, desc="translating", **unit)


class Work:
    """Documents in translation: their batches, and what is translated of them.

    Args:
        translator: cuts documents into rows, and rows into batches.
        documents: from :meth:`Translator.encoded`.
        kept: keeps finished batches and parts.
        progress: counts their sentences, from :func:`progress_of`.
    """

    def __init__(
        self,
        translator: Translator,
        documents: Sequence[Sequence[Sentence]],
        kept: Kept,
        progress: Any,
    ) -> None:
        self._cut = translator.cut(documents)
        self._rows = list(chain.from_iterable(self._cut))
        self._batches = translator.batches(self._rows)
        self._free = translator.free
        self._kept = kept
        self._progress = progress
        # For each batch that is not translated: its sentences that progress has counted.
        self._reported = dict.fromkeys(range(len(self._batches)), 0)
        self._translated: list[Translations] = [[] for _ in self._rows]
        batches = {place[0]: value for place, value in kept.known.items() if len(place) == 1}
        for number, rows in batches.items():
            stored = [[[Alternative(*pair) for pair in nbest] for nbest in row] for row in rows]
            self._store(number, stored, True)
        if kept.known:
            parts = len(kept.known) - len(batches)
            others = f", and {parts} chunks of others" if parts else ""
            say(f"going on from '{kept.path}': {len(batches)} batches are finished{others}")

    def missing(self) -> Iterator[tuple[int, list[Example]]]:
        """The batches that are not translated yet, each with its number and its rows.

        If all are translated, one without rows.
        """
        for number in list(self._reported) or [-1]:
            batch = self._batches[number] if self._reported else []
            yield number, [self._rows[index] for index in batch]

    def add(self, number: int, translations: list[Translations]) -> None:
        """Store the translations of a batch; one without rows changes nothing."""
        if not translations:
            return
        self._kept.add(translations, number)
        self._store(number, translations)

    def _store(self, number: int, translations: list[Translations], known: bool = False) -> None:
        batch = self._batches[number]
        for index, row in zip(batch, translations, strict=True):
            self._translated[index] = row
        written = sum(self._rows[index]["written"] if self._free else len(self._translated[index])
                      for index in batch)  # fmt: skip
        written -= self._reported.pop(number)
        if known:  # an earlier run has translated them, which says nothing of this one's speed
            self._progress.initial += written
        self._progress.update(written)

    @property
    def is_translated(self) -> bool:
        """Whether all batches are translated."""
        return not self._reported

    def parts(self, number: int) -> Parts:
        """Keeps the parts of the documents of a batch until it is finished."""
        return Parts(self.known_parts(number), partial(self.add_part, number))

    def known_parts(self, number: int) -> dict[Place, PartsOfDocument]:
        """The parts of a batch that an earlier run has translated, by document and part."""
        return {
            place[1:]: [[SentenceHypothesis(*pair) for pair in sentences] for sentences in known]
            for place, known in self._kept.known.items()
            if len(place) > 1 and place[0] == number
        }

    def add_part(self, number: int, document: int, part: int, hypotheses: PartsOfDocument) -> None:
        """Keep the translations of a part of a document of a batch."""
        self._kept.add(hypotheses, number, document, part)
        self._progress.update(len(hypotheses[0]))
        self._reported[number] += len(hypotheses[0])

    def translations(self) -> list[Translations]:
        """For each document the translations of its sentences; all batches are translated."""
        rows = iter(self._translated)
        return [list(chain.from_iterable(next(rows) for _ in document)) for document in self._cut]


# ---- processes -----------------------------------------------------------------------------------

Task = tuple[Work, int, list[Example]]
"""Documents in translation, the number of one of their batches, and its rows."""


@contextmanager
def workers(translator: Translator, options: DecodingOptions) -> Iterator[list[Connection]]:
    """Connections to processes that decode; none for ``--workers 1``.

    On CPUs a process is a copy of this one with one thread, so that models are in memory once. On
    GPUs each process loads the models on its own device.

    Args:
        translator: loaded with ``options``.
        options: ``workers`` processes, 0: as many as there are cores or GPUs.
    """
    on_gpus = translator.device.type == "cuda"
    most = torch.cuda.device_count() if on_gpus else len(os.sched_getaffinity(0))
    count = options.workers or most
    if on_gpus and count > most:
        raise GtransError(f"`--workers` {count}: there are {most} GPUs; give at most {most}.")
    if count > most:
        say(f"`--workers` {count}: more than the {most} cores, which does not help")
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


def decode(
    translator: Translator, connections: Sequence[Connection], tasks: Iterator[Task]
) -> Iterator[Work]:
    """Decode all batches; yields the documents of each one that is decoded.

    Args:
        translator: decodes if there are no other processes.
        connections: from :func:`workers`.
        tasks: the batches.

    Raises:
        GtransError: out of memory, or a process has ended.
    """
    if not connections:
        for work, number, rows in tasks:
            work.add(number, translator.decode_or_say(rows, work.parts(number)))
            yield work
        return
    idle, busy = [*connections], dict[Connection, tuple[Work, int]]()
    try:
        while True:
            while idle and (task := next(tasks, None)) is not None:
                work, number, rows = task
                busy[idle[-1]] = work, number
                idle.pop().send((rows, work.known_parts(number)))
            if not busy:
                return
            for connection in wait(list(busy)):
                assert isinstance(connection, Connection)
                work, number = busy[connection]
                place, value = connection.recv()
                if isinstance(value, Exception):
                    raise value
                if place:
                    document, part = place
                    work.add_part(number, document, part, value)
                    continue
                work.add(number, value)
                del busy[connection]
                idle.append(connection)
                yield work
    except (EOFError, OSError):
        raise GtransError(
            "`--workers`: a process has ended, perhaps because memory is short; give fewer. "
            "What is finished is kept: the same command goes on."
        ) from None


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


def best_of(documents: Sequence[Translations]) -> list[list[str]]:
    """The text of the best translation of each sentence."""
    return [[alternatives[0].text for alternatives in document] for document in documents]


def _longest_seen(path: str, model: Any, unit: Unit) -> tuple[int, str]:
    """Most tokens of a sentence in the training of a checkpoint, and the option that says so."""
    limits = [(min(model.max_positions()), "--max-positions")]
    limits.append((int(unit.as_dict().get("max_doc_tokens", sys.maxsize)), "--max-doc-tokens"))
    dataset = options_of(read_checkpoint(path, in_memory=False), "dataset")
    limits.append((int(dataset.get("max_tokens") or sys.maxsize), "--max-tokens"))
    return min(limits)
