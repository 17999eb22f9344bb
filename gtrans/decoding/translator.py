"""Models that turn the lines of a text into their translations, batch after batch."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Callable, Iterable, Sequence
from itertools import chain, islice
from pathlib import Path
from typing import Any, NamedTuple

import torch
from torch import Tensor
from tqdm import tqdm

from gtrans.checkpoints.reading import options_of, read_checkpoint
from gtrans.data.documents import check_length
from gtrans.data.examples import Example
from gtrans.data.units import Unit
from gtrans.decoding.document_search import DocumentHypothesis, FinishedParts
from gtrans.decoding.loading import (
    check_overrides,
    decoding_device,
    load_models,
    set_instances,
)
from gtrans.decoding.options import MAX_TOKENS, DecodingOptions, SearchOptions
from gtrans.decoding.resuming import FinishedBatches, Progress
from gtrans.errors import GtransError
from gtrans.files import digest
from gtrans.messages import say
from gtrans.text.moses import MosesPipeline
from gtrans.text.pipeline import PLACEHOLDER, input_warnings
from gtrans.text.prepared_folder import STATE_FILE, Preparation, load_pipeline
from gtrans.text.reader import is_boundary


def text_of_pieces(task: Any, tokens: bool = False) -> Callable[[str], str]:
    """What turns the pieces of a sentence into text, or with ``tokens`` into Moses' tokens.

    Raises:
        GtransError: the data folder was not prepared, or has no Moses tokens.
    """
    folder = task.data_folder
    pipeline = load_pipeline(folder, task.cfg.target_lang)
    if not tokens:
        return pipeline.decode
    if not isinstance(pipeline, MosesPipeline) or not pipeline.steps.tokenise:
        raise GtransError(f"`--tokens`: '{folder}' was prepared without Moses' tokeniser.")
    return pipeline.words


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
        nbest: how many translations of a sentence are kept with their scores, in the form of
            :func:`gtrans.decoding.translator.packed`; 0: the text of the best one.
        longest: most tokens of a sentence that the models can have seen in training, if their
            checkpoints say it, and in which option.
        checkpoints: digests of the checkpoints.
    """

    def __init__(
        self,
        models: list[Any],
        task: Any,
        text_of_pieces: Callable[[str], str],
        search: SearchOptions,
        max_tokens: int = MAX_TOKENS,
        nbest: int = 0,
    ) -> None:
        self.task = task
        self.text_of_pieces = text_of_pieces
        prepared = Preparation.read(task.data_folder)
        self.preparation = prepared and prepared.digest
        self.device = next(models[0].parameters()).device
        self.generator = task.generator_of(models, search, max(nbest, 1))
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
            options: fields of :class:`gtrans.decoding.options.DecodingOptions`,
                such as ``cpu=True`` or ``search=SearchOptions(beam=1)``.

        Raises:
            GtransError: see :func:`gtrans.decoding.loading.load_models`.
        """
        return cls.of(DecodingOptions(paths=(os.fspath(path),), **options))

    @classmethod
    def of(cls, options: DecodingOptions, of_split: bool = False) -> Translator:
        """The models that the options name, as :meth:`load`.

        ``of_split``: a binarised split is translated, so the data folder need not be prepared.
        """
        decoding_device(options.cpu, options.fp16)
        check_overrides(options.paths[0], options.context)
        digests = [digest(Path(path)) for path in options.paths if Path(path).is_file()]
        models, task = load_models(
            options.paths, options.data, options.context, cpu=options.cpu, fp16=options.fp16,
            bf16=options.bf16,
        )  # fmt: skip
        unit = task.examples.unit
        longest = min(map(_longest_seen, options.paths, models, [unit] * len(models)))
        set_instances(task, options.max_doc_tokens, options.overlap)
        for path, before in zip(options.paths, digests, strict=True):
            if digest(Path(path)) != before:
                raise GtransError(
                    f"{path}: it was replaced while it was read, perhaps by a training; run this "
                    "again."
                )
        if of_split and not (task.data_folder / STATE_FILE).exists():
            folder = task.data_folder
            say(f"'{folder}' was not made by 'gtrans prepare': tokens are written as they are")
            to_text: Callable[[str], str] = str
        else:
            to_text = text_of_pieces(task, options.tokens)
        found = cls(models, task, to_text, options.search, options.max_tokens, options.nbest)
        found.longest, found.checkpoints = longest, digests
        return found

    def translate(self, documents: Sequence[Sequence[str]]) -> list[list[str]]:
        """The translation of documents: for K sentences K translations, in the same order.

        With a free search (``SearchOptions(free=True)``) a document gets one text.

        Args:
            documents: each a list of sentences, in plain text.

        Raises:
            GtransError: a sentence that is empty or too long, or no list of sentences.
        """
        found = self.translated(documents)
        return [[unpacked(one)[0].text for one in of] for of in found] if self.nbest else found

    def alternatives(self, documents: Sequence[Sequence[str]]) -> list[list[list[Alternative]]]:
        """As :meth:`translate`: for each sentence the best translations with their scores.

        Raises:
            GtransError: as :meth:`translate`; or this was loaded without ``nbest``.
        """
        if not self.nbest:
            raise GtransError("load the translator with nbest=N to get N translations.")
        return [[unpacked(one) for one in of] for of in self.translated(documents)]

    def translated(
        self, documents: Sequence[Sequence[str]], places: Sequence[str] | None = None
    ) -> list[list[str]]:
        """As :meth:`translate`; with ``nbest`` the packed alternatives of each sentence.

        ``places`` says of each sentence where it stands; by default they are counted.
        """
        for number, document in enumerate(documents, start=1):
            if isinstance(document, str):
                raise GtransError(
                    f"document {number} is a text; a document is a list of sentences."
                )
            for place, sentence in enumerate(document, start=1):
                if not sentence.strip():
                    raise GtransError(
                        f"document {number}, sentence {place}: it is empty; leave it out."
                    )
                check_length(f"document {number}", place, sentence)
        lines = lines_of_documents(self.task, documents)
        counted = (
            f"document {number}, sentence {place}"
            for number, document in enumerate(documents, start=1)
            for place in range(1, len(document) + 1)
        )
        self.warn_of_text("the text", [*chain.from_iterable(documents)], lines)
        self.warn_of_long(lines, places or list(counted))
        return self.translate_all(lines)[: len(documents)]

    def translate_all(self, lines: Sequence[Line]) -> list[list[str]]:
        """For each document the translations of its sentences; no part of it is kept."""
        with FinishedBatches(None, "") as finished, self.progress(lines) as progress:
            return self.translate_lines(lines, finished, progress)

    def progress(self, *texts: Sequence[Line]) -> Progress:
        """The progress of translating ``texts``."""
        return Progress(sum(not isinstance(line, str) for lines in texts for line in lines))

    def warn_of_text(self, name: str, sentences: Sequence[str], lines: Sequence[Line]) -> None:
        """Say, once for a name, that a text is unknown words or is tokenised already.

        From the third text on, :attr:`warned` counts only.
        """
        warnings = warnings_of_text(self.task, name, sentences, lines)
        if warnings and name not in self.warned:
            self.warned.add(name)
            for warning in warnings if len(self.warned) <= WARNED_OF else ():
                say(f"warning: {warning}")

    def warn_of_long(self, lines: Sequence[Line], places: Sequence[str]) -> None:
        """Say which sentences are longer than any that the models have seen in training.

        ``places`` says of each sentence where it stands.
        """
        if self.longest is None:
            return
        limit, option = self.longest
        sentences = [line for line in lines if not isinstance(line, str)]
        for sentence, place in zip(sentences, places, strict=True):
            if len(sentence.ids) > limit:
                say(
                    f"{place}: a sentence of {len(sentence.ids):,} tokens, but the model was "
                    f"trained with {option} {limit:,}; it takes long and will hardly be "
                    "translated well: split it"
                )

    def cut(self, lines: Sequence[Line]) -> list[list[Example]]:
        """The rows of each document, in order, as examples."""
        documents: list[list[Sentence]] = [[]]
        for line in lines:
            if isinstance(line, str):
                documents.append([])
            else:
                documents[-1].append(line)
        unit = self.examples.unit
        examples: list[list[Example]] = [[] for _ in documents]
        for of_document, document in zip(examples, documents, strict=True):
            for span in unit.cut_to_translate([len(sentence.ids) - 1 for sentence in document]):
                sentences = [document[number] for number in span.source]
                ids = [sentence.ids for sentence in sentences]
                pieces = [s.word_pieces for s in sentences if s.word_pieces is not None]
                of_document.append(self.examples.example(span, ids, word_pieces=pieces))
        return examples

    def batches(self, examples: Sequence[Example], max_tokens: int) -> list[list[int]]:
        """Which examples are decoded together (:func:`gtrans.decoding.translator.make_batches`)."""
        lengths = self.examples.lengths(examples)
        return make_batches(lengths, max_tokens, self.generator.rows_at_once)

    def translate_lines(
        self, lines: Sequence[Line], finished: FinishedBatches, progress: Progress
    ) -> list[list[str]]:
        """For each document the translations of its sentences, or of its rows in free search.

        Args:
            lines: sentences, and boundaries between documents.
            finished: keeps batches, so that an interrupted run goes on behind them.
            progress: is told of every batch.

        Raises:
            GtransError: out of memory, or the finished batches were changed.
        """
        documents = self.cut(lines)
        examples = list(chain.from_iterable(documents))
        texts: list[list[str]] = [[] for _ in examples]
        for number, batch in enumerate(self.batches(examples, self.max_tokens)):
            translations, known = finished.get(number), True
            rows = [examples[index] for index in batch]
            parts = finished.parts(number, progress.add)
            if translations is None:
                known, translations = False, self._decoded(rows, parts)
                finished.add(number, translations)
            for index, of_row in zip(batch, translations, strict=False):
                texts[index] = of_row
            written = sum(
                row["written"] if self.free else len(of_row)
                for row, of_row in zip(rows, translations, strict=False)
            )
            progress.add(written - parts.sentences, known)
        sentences = sum(not isinstance(line, str) for line in lines)
        found, expected = sum(map(len, texts)), len(examples) if self.free else sentences
        if found != expected:
            raise GtransError(
                f"'{finished.path}' was changed: it has {found} translations, but {expected} are "
                "needed; `--force` translates anew."
            )
        in_order = iter(texts)
        return [list(chain.from_iterable(islice(in_order, len(of)))) for of in documents]

    def _decoded(self, rows: list[Example], parts: FinishedParts) -> list[list[str]]:
        try:
            return self.decode(rows, parts)
        except torch.cuda.OutOfMemoryError:
            raise GtransError(
                f"`--max-tokens` {self.max_tokens}: out of memory on the GPU, with {len(rows)} "
                "rows at once; give fewer tokens or a smaller `--beam` "
                f"({self.generator.search.options.beam})."
            ) from None

    def decode(
        self, examples: Sequence[Example], finished: FinishedParts | None = None
    ) -> list[list[str]]:
        """For each row the translations of its current sentences (one text, in free search).

        ``finished`` keeps the parts of rows that are translated in parts.
        """
        source = {
            name: tensor.to(self.device)
            for name, tensor in self.examples.collate(examples)["net_input"].items()
        }
        found = self.generator.documents(source, finished)
        if self.nbest:
            return [self._packed(hypotheses[: self.nbest]) for hypotheses in found]
        texts = [
            [self._text(sentence.tokens) for sentence in hypotheses[0].sentences]
            for hypotheses in found
        ]
        return [[" ".join(of_row)] for of_row in texts] if self.free else texts

    def _packed(self, hypotheses: Sequence[DocumentHypothesis]) -> list[str]:
        """Of every sentence of a row the alternatives; the n-th is part of the n-th hypothesis."""
        return [
            packed(
                Alternative(self._text(one.tokens), self.generator.score(one)) for one in sentences
            )
            for sentences in zip(*(one.sentences for one in hypotheses), strict=True)
        ]

    def _text(self, tokens: list[int]) -> str:
        pieces: str = self.task.target_dictionary.string(
            torch.tensor(tokens),
            extra_symbols_to_ignore=self.generator.symbols_to_strip_from_output,
        )
        text = self.text_of_pieces(pieces).strip()
        return PLACEHOLDER if is_boundary(text) else text


def _longest_seen(path: str, model: Any, unit: Unit) -> tuple[int, str]:
    """Most tokens of a sentence in the training of a checkpoint, and the option that says so."""
    limits = [(min(model.max_positions()), "--max-positions")]
    limits.append((int(unit.as_dict().get("max_doc_tokens", sys.maxsize)), "--max-doc-tokens"))
    dataset = options_of(read_checkpoint(path, in_memory=False), "dataset")
    limits.append((int(dataset.get("max_tokens") or sys.maxsize), "--max-tokens"))
    return min(limits)


WARNED_OF = 2
"""Of how many texts warnings are printed; a folder may have hundreds that are alike."""

# A short row costs the work of a step, too.
LEAST_ROW_TOKENS = 16
# Logits of a step: 250 rows, a beam of 5 and 30,000 symbols; 150 MB in single precision.
MOST_LOGITS = 250 * 5 * 30_000


def rows_at_once(beam: int, vocabulary: int) -> int:
    """The most rows of which a step of beam search computes no more than ``MOST_LOGITS``; >= 1."""
    return max(MOST_LOGITS // (beam * vocabulary), 1)


def make_batches(
    lengths: Sequence[int], max_tokens: int, max_rows: int | None = None
) -> list[list[int]]:
    """Batches of row indices with at most ``max_tokens`` tokens each, padding included.

    A longer row is a batch of its own. The longest rows come first, so that rows of similar
    length are decoded together. So the first batch has the longest rows, whose keys need the most
    memory; later batches have more rows, whose logits may need more (:func:`rows_at_once`).

    Args:
        lengths: tokens of each row.
        max_tokens: most tokens of a batch.
        max_rows: most rows of a batch; None: no limit but that of the tokens.
    """
    batches: list[list[int]] = []
    rows_left = 0
    for index in sorted(range(len(lengths)), key=lambda index: -lengths[index]):
        if not rows_left:
            batches.append([])
            # The first row of a batch is its longest.
            rows_left = max(max_tokens // max(lengths[index], LEAST_ROW_TOKENS), 1)
            if max_rows is not None:
                rows_left = min(rows_left, max_rows)
        batches[-1].append(index)
        rows_left -= 1
    return batches


class Sentence(NamedTuple):
    """The ids of a sentence with its end symbol, and its word pieces if a BERT reads them."""

    ids: Tensor
    word_pieces: Tensor | None


Line = Sentence | str
"""A line of a text: a sentence, or the text of a boundary."""


def lines_of_text(task: Any, text: Sequence[str]) -> list[Line]:
    """The lines of a text as tokens of ``task``; boundaries of documents stay text."""
    encode = _encoder(task)
    return [
        line if is_boundary(line) else encode(line)
        for line in tqdm(text, "reading", unit=" lines", disable=None)
    ]


def warnings_of_text(
    task: Any, name: str, sentences: Sequence[str], lines: Iterable[Line]
) -> list[str]:
    """What to say of a text that the models can hardly read.

    Args:
        task: the task that has encoded it.
        name: what it is called.
        sentences: its sentences.
        lines: its lines.
    """
    ids = [line.ids for line in lines if not isinstance(line, str)]
    unknown = sum(int((of == task.source_dictionary.unk()).sum()) for of in ids)
    tokens = sum(len(of) - 1 for of in ids)
    if found := input_warnings(name, sentences, unknown, tokens):
        pipeline = task.source_encoder()
        if isinstance(pipeline, MosesPipeline) and not pipeline.steps.tokenise:
            return input_warnings(name, (), unknown, tokens)
    return found


def lines_of_documents(task: Any, documents: Sequence[Sequence[str]]) -> list[Line]:
    """The sentences of documents as tokens of ``task``, with boundaries between the documents."""
    encode = _encoder(task)
    lines: list[Line] = []
    for document in documents:
        lines += [encode(sentence) for sentence in document]
        lines.append("")
    return lines[:-1]


def _encoder(task: Any) -> Callable[[str], Sentence]:
    encoder = task.source_encoder()

    def encode(sentence: str) -> Sentence:
        ids: Tensor = task.source_dictionary.encode_line(
            encoder.encode(sentence), add_if_not_exist=False
        )
        pieces = task.word_pieces([sentence])
        return Sentence(ids.long(), pieces and pieces[0])

    return encode


def lines_of_dataset(dataset: Any) -> list[Line]:
    """The lines of a :class:`gtrans.data.document_dataset.DocumentDataset`."""
    source, pieces = dataset.source, dataset.word_pieces
    lines = (
        Sentence(source[number].long(), None if pieces is None else pieces[number].long())
        for number in range(len(source))
    )
    return [line if line.ids.numel() > 1 else "" for line in lines]


class Alternative(NamedTuple):
    """A translation of a sentence.

    Attributes:
        text: the translation.
        score: :meth:`gtrans.decoding.options.SearchOptions.score`: the sum of the
            log-probabilities of its tokens, divided by their number to the power of ``lenpen``.
    """

    text: str
    score: float


def packed(alternatives: Iterable[Alternative]) -> str:
    """Alternatives as one text, the form in which finished translations are kept."""
    return json.dumps(list(alternatives), ensure_ascii=False)


def unpacked(text: str) -> list[Alternative]:
    """The alternatives of :func:`packed`."""
    return [Alternative(*one) for one in json.loads(text)]


def json_lines(
    names: Iterable[tuple[str, Sequence[str]]],
    sources: Sequence[Sequence[str]] | None,
    translations: Iterable[Sequence[str]],
) -> list[str]:
    """A JSON object for each sentence, with the names that ``gtrans score`` knows.

    Args:
        names: the id of each document and those of its sentences.
        sources: for each document its sentences, if they are known.
        translations: for each document of each sentence the :func:`packed` alternatives.
    """
    lines = []
    for number, ((document, ids), of_document) in enumerate(zip(names, translations, strict=True)):
        for place, (name, text) in enumerate(zip(ids, of_document, strict=True)):
            best, *others = unpacked(text)
            entry: dict[str, object] = {"doc_id": document, "seg_id": name}
            if sources is not None:
                entry["source"] = sources[number][place]
            entry |= _entry(best)
            if others:
                entry["nbest"] = [_entry(one) for one in (best, *others)]
            lines.append(json.dumps(entry, ensure_ascii=False))
    return lines


def _entry(one: Alternative) -> dict[str, object]:
    return {"hypothesis": one.text, "score": round(one.score, 6)}
