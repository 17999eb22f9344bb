"""Models that turn documents into their translations, batch after batch.

:class:`DocumentGenerator` has the interface of ``fairseq-generate`` and ``fairseq-interactive``,
:class:`Translator` that of ``gtrans translate`` and of Python.
"""

from __future__ import annotations

import math
import os
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import fields, replace
from itertools import chain
from pathlib import Path
from typing import Any, NamedTuple

import torch
from fairseq.data import Dictionary
from fairseq.dataclass.configs import GenerationConfig
from torch import Tensor

from gtrans.checkpoints.reading import options_of, read_checkpoint
from gtrans.data.documents import check_length
from gtrans.data.examples import Example, ExampleBuilder, source_of
from gtrans.data.units import Unit
from gtrans.decoding.document_search import (
    DocumentHypothesis,
    DocumentSearch,
    SearchVocabulary,
    SentenceHypothesis,
)
from gtrans.decoding.loading import (
    check_overrides,
    decoding_device,
    load_models,
    not_finite,
    set_instances,
)
from gtrans.decoding.options import MAX_TOKENS, DecodingOptions, SearchOptions
from gtrans.decoding.part_search import FinishedParts, PartSearch
from gtrans.decoding.resuming import FinishedWork, Progress
from gtrans.errors import GtransError
from gtrans.files import digest
from gtrans.messages import say
from gtrans.text.moses import MosesPipeline
from gtrans.text.pipeline import PLACEHOLDER, input_warnings
from gtrans.text.prepared_folder import STATE_FILE, Preparation, load_pipeline
from gtrans.text.reader import is_boundary

# Tokens of a batch within one document, with padding; --max-tokens of `fairseq-interactive`
# applies to whole documents.
_DOCUMENT_TOKENS = 4000
# Options that document search supports, and options that do not concern it.
_HONOURED = {"nbest", *(option.name for option in fields(SearchOptions))}
_UNRELATED = {
    "_name", "no_seed_provided", "no_early_stop", "no_beamable_mm", "lm_weight", "sacrebleu",
}  # fmt: skip


def refuse_unsupported(generation: Any) -> None:
    """Raises GtransError for generation options that document search does not support."""
    for field in fields(GenerationConfig):
        if field.name in _HONOURED | _UNRELATED:
            continue
        value = getattr(generation, field.name, field.default)
        if value != field.default:
            flag = field.name.replace("_", "-")
            raise GtransError(
                f"`--{flag}` is not supported: documents are decoded by one beam search that "
                f"keeps their sentences; leave it out."
            )


class DocumentGenerator:
    """Translates batches; built by the task, called by its ``inference_step``.

    Attributes:
        rows_at_once: the most rows that a batch should have, for the memory of their logits.
    """

    def __init__(
        self,
        models: Sequence[Any],
        dictionary: Dictionary,
        examples: ExampleBuilder,
        options: SearchOptions,
        nbest: int,
        symbols: Sequence[int],
        complete: Callable[[Mapping[str, Tensor]], dict[str, Tensor]] = dict,
    ) -> None:
        """A generator for an ensemble of ``models``, or one.

        Args:
            models: the models.
            dictionary: dictionary of the target.
            examples: builds rows and batches.
            options: of the search.
            nbest: how many translations of a part are kept; a document may have very many parts.
            symbols: ids that are not words (language symbols, mask).
            complete: turns ``net_input`` of a batch into what the models take.
        """
        frame = examples.frame
        self.models = list(models)
        self.examples = examples
        self._complete = complete
        # fairseq's commands print tokens without these.
        self.symbols_to_strip_from_output = {frame.eos, frame.bos}
        forbidden = {frame.pad, frame.bos, *symbols}
        vocabulary = SearchVocabulary(
            frame.opening,
            frame.eos,
            frame.pad,
            dictionary.unk(),
            tuple(sorted(forbidden)),
            frame.prefix,
            min(model.max_decoder_positions() for model in self.models),
            frame.document_mark,
        )
        self.rows_at_once = rows_at_once(options.beam, len(dictionary))
        unit = examples.unit
        if options.free and frame.document_mark is None:
            raise GtransError(
                "`--free` is for the document Transformer (--unit document --doc-mode full) with "
                "`--sentence-marks document` or `mbart-document`, which has learnt where documents "
                f"end; this model reads the unit {unit.name} with the special tokens "
                f"'{frame.marks}': leave `--free` out."
            )
        if options.free and unit.tokens_at_once is not None:
            raise GtransError(
                "`--free` is for documents that are translated at once, but this model translates "
                "them instance by instance (`--overlap`, or a memory between instances); leave it "
                "out."
            )
        self.search = DocumentSearch(vocabulary, options)
        if unit.sentence_by_sentence or unit.tokens_at_once is not None:
            self.search = PartSearch(vocabulary, options, frame, unit, nbest)

    def documents(
        self, source: Mapping[str, Tensor], finished: FinishedParts | None = None
    ) -> list[list[DocumentHypothesis]]:
        """The hypotheses of every row, the best first, at least one each.

        They hold only the current sentences of the row.

        Args:
            source: ``net_input`` of
                :meth:`gtrans.data.examples.ExampleBuilder.collate`.
            finished: keeps the parts of documents that are translated instance by instance;
                those that it has are not translated again.

        Raises:
            GtransError: the models' probabilities are NaN.
        """
        for model in self.models:
            model.eval()
        source_lengths = [
            [sentence.numel() - 1 for sentence in row]
            for row in self.examples.sources_to_translate(source)
        ]
        complete = self._complete(source)
        # Sentences are too small to be kept one by one.
        kept = None if self.examples.unit.tokens_at_once is None else finished
        hypotheses = self.search.search(self.models, complete, source_lengths, kept)
        # With finite probabilities the search always finds a hypothesis.
        if not all(of_row and math.isfinite(of_row[0].score) for of_row in hypotheses):
            raise not_finite(self.models)
        return [
            [replace(hypothesis, sentences=hypothesis.sentences[wanted]) for hypothesis in of_row]
            for wanted, of_row in zip(self.examples.wanted(source), hypotheses, strict=True)
        ]

    def sentences(self, source: Mapping[str, Tensor]) -> list[list[list[dict[str, Any]]]]:
        """For every row, for each of its sentences, the hypotheses as fairseq's dictionaries.

        The n-th hypothesis of a sentence is part of the n-th hypothesis of its row.
        """
        return [
            [
                [self._entry(hypothesis.sentences[k]) for hypothesis in hypotheses]
                for k in range(len(hypotheses[0].sentences))
            ]
            for hypotheses in self.documents(source)
        ]

    def batch(self, sample: dict[str, Any]) -> list[list[dict[str, Any]]]:
        """The hypotheses of every sentence of a batch, one sentence after the other.

        The ids, the source and the target in ``sample`` are replaced by those of the sentences,
        so that ``fairseq-generate`` prints the lines of each sentence.

        Raises:
            GtransError: the model reads its earlier translations, but the batch does not hold
                whole documents.
        """
        unit, net_input = self.examples.unit, sample["net_input"]
        if unit.sentence_by_sentence and unit.has_current:
            raise GtransError(
                "`--context-sides history`: fairseq-generate does not translate in document "
                "order, but this model reads its own earlier translations; use `gtrans translate`."
            )
        source = source_of(net_input)
        translations = self.sentences(source)
        numbers: list[int] = []
        first_sentences = sample["first_sentence"].tolist()
        for first, of_row in zip(first_sentences, translations, strict=True):
            numbers += range(first, first + len(of_row))
        sample["id"] = torch.tensor(numbers)
        wanted = self.examples.wanted(source)
        sources = self.examples.sources_to_translate(source)
        net_input["src_tokens"] = self._joined(sources, wanted)
        if sample.get("target") is not None:
            targets = [self.examples.frame.sentences(row) for row in sample["target"]]
            sample["target"] = self._joined(targets, wanted)
        return [sentence for of_row in translations for sentence in of_row]

    def document(self, document: Tensor) -> list[list[dict[str, Any]]]:
        """The hypotheses of every sentence of one document, ``(sentences, length)`` ids."""
        builder = self.examples
        sentences = [part for row in document for part in builder.frame.sentences(row)]
        spans = builder.unit.cut_to_translate([sentence.numel() - 1 for sentence in sentences])
        examples = [
            builder.example(span, sentences[span.source.start : span.source.stop]) for span in spans
        ]
        translations: dict[int, list[list[dict[str, Any]]]] = {}
        lengths = builder.lengths(examples)
        for batch in make_batches(lengths, _DOCUMENT_TOKENS, self.rows_at_once):
            net_input = builder.collate([examples[index] for index in batch])["net_input"]
            source = {name: tensor.to(document.device) for name, tensor in net_input.items()}
            translations.update(zip(batch, self.sentences(source), strict=True))
        return [sentence for number in range(len(examples)) for sentence in translations[number]]

    def _joined(self, rows: list[list[Tensor]], wanted: list[slice]) -> Tensor:
        """``(sentences, longest)`` ids of the wanted sentences of all rows."""
        return self.examples.frame.pad_rows(
            [sentence for row, part in zip(rows, wanted, strict=True) for sentence in row[part]]
        )

    def score(self, sentence: SentenceHypothesis) -> float:
        """The score of a sentence: :meth:`SearchOptions.score`."""
        return self.search.options.score(sentence.scores)

    def _entry(self, sentence: SentenceHypothesis) -> dict[str, Any]:
        return {
            "tokens": torch.tensor(sentence.tokens),
            "score": self.score(sentence),
            "attention": None,
            "alignment": torch.empty(0),
            "positional_scores": torch.tensor(sentence.scores),
        }


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


class Sentence(NamedTuple):
    """The ids of a sentence with its end symbol, and its word pieces if a BERT reads them."""

    ids: Tensor
    word_pieces: Tensor | None


class Alternative(NamedTuple):
    """A translation of a sentence.

    Attributes:
        text: the translation.
        score: :meth:`gtrans.decoding.options.SearchOptions.score`: the sum of the
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
        self.generator = task.generator_of(models, search, nbest)
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
            bf16=options.bf16, int8=options.int8,
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
        nbest = max(options.nbest, 1)
        found = cls(models, task, to_text, options.search, options.max_tokens, nbest)
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
        return self.translate_encoded(encoded)

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
        """Say what models can hardly translate.

        That is, once for a name and of the first texts only, a text of unknown words or one that is
        tokenised already, and sentences longer than any that the models have seen in training.

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
            unknown = sum(int((of == self.task.source_dictionary.unk()).sum()) for of in ids)
            tokens = sum(len(of) - 1 for of in ids)
            if warnings := input_warnings(name, sentences, unknown, tokens):
                self.warned.add(name)
            for warning in warnings if len(self.warned) <= WARNED_OF else ():
                say(f"warning: {warning}")
        limit, option = self.longest or (sys.maxsize, "")
        for of_sentence, place in zip(ids, places, strict=True):
            if len(of_sentence) > limit:
                say(
                    f"{place}: a sentence of {len(of_sentence):,} tokens, but the model was "
                    f"trained with {option} {limit:,}; it takes long and will hardly be "
                    "translated well: split it"
                )

    def cut(self, documents: Sequence[Sequence[Sentence]]) -> list[list[Example]]:
        """The rows of each document, in order, as examples."""
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

    def translate_encoded(
        self,
        documents: Sequence[Sequence[Sentence]],
        kept: FinishedWork | None = None,
        progress: Progress | None = None,
    ) -> list[Translations]:
        """For each document the translations of its sentences, or its only one in free search.

        Args:
            documents: from :meth:`encoded`.
            kept: keeps batches, so that an interrupted run goes on behind them.
            progress: is told of every batch.

        Raises:
            GtransError: out of memory.
        """
        if progress is None:
            with Progress(sum(map(len, documents))) as progress:
                return self.translate_encoded(documents, kept, progress)
        work = BatchedDocuments(self, documents, kept or FinishedWork(), progress)
        for number, rows in work.missing():
            work.add(number, self.decode_or_say(rows, work.parts(number)))
        return work.translations()

    def decode_or_say(self, rows: Sequence[Example], finished: FinishedParts) -> list[Translations]:
        """As :meth:`decode`; raises GtransError that says what to do if memory is short."""
        try:
            return self.decode(rows, finished)
        except torch.cuda.OutOfMemoryError:
            raise GtransError(
                f"`--max-tokens` {self.max_tokens}: out of memory on the GPU, with {len(rows)} "
                "rows at once; give fewer tokens or a smaller `--beam` "
                f"({self.generator.search.options.beam})."
            ) from None

    def decode(
        self, examples: Sequence[Example], finished: FinishedParts | None = None
    ) -> list[Translations]:
        """For each row the translations of its current sentences (one text, in free search).

        ``finished`` keeps the parts of rows that are translated in parts.
        """
        source = {
            name: tensor.to(self.device)
            for name, tensor in self.examples.collate(examples)["net_input"].items()
        }
        found = [of_row[: self.nbest] for of_row in self.generator.documents(source, finished)]
        if self.free:
            return [[[self._joined(of_row[0])]] for of_row in found]
        # The n-th translation of a sentence is part of the n-th hypothesis of its row.
        return [
            [
                [Alternative(self._text(one.tokens), self.generator.score(one)) for one in several]
                for several in zip(*(hypothesis.sentences for hypothesis in of_row), strict=True)
            ]
            for of_row in found
        ]

    def _joined(self, document: DocumentHypothesis) -> Alternative:
        texts = [self._text(sentence.tokens) for sentence in document.sentences]
        return Alternative(" ".join(texts), document.score)

    def _text(self, tokens: list[int]) -> str:
        pieces: str = self.task.target_dictionary.string(
            torch.tensor(tokens),
            extra_symbols_to_ignore=self.generator.symbols_to_strip_from_output,
        )
        text = self.text_of_pieces(pieces).strip()
        return PLACEHOLDER if is_boundary(text) else text


class BatchedDocuments:
    """Documents in translation: their batches, and what is translated of them.

    Args:
        translator: cuts documents into rows, and rows into batches.
        documents: from :meth:`Translator.encoded`.
        kept: keeps finished batches.
        progress: is told of every batch.
    """

    def __init__(
        self,
        translator: Translator,
        documents: Sequence[Sequence[Sentence]],
        kept: FinishedWork,
        progress: Progress,
    ) -> None:
        self._rows_of_documents = translator.cut(documents)
        self._rows = list(chain.from_iterable(self._rows_of_documents))
        self._batches = translator.batches(self._rows, translator.max_tokens)
        self._sentences = sum(map(len, documents))
        self._free = translator.free
        self._kept = kept
        self._progress = progress
        self._told = dict.fromkeys(range(len(self._batches)), 0)
        self._found: list[Translations] = [[] for _ in self._rows]

    def missing(self) -> Iterator[tuple[int, list[Example]]]:
        """The batches that are not translated yet, each with its number and its rows."""
        for number, batch in enumerate(self._batches):
            known = self._kept.get(number)
            if known is None:
                yield number, [self._rows[index] for index in batch]
            else:
                alternatives = [[[Alternative(*x) for x in one] for one in row] for row in known]
                self._store(number, alternatives, known=True)

    def add(self, number: int, translations: list[Translations]) -> None:
        """A batch is translated."""
        self._kept.add(translations, number)
        self._store(number, translations, known=False)

    def _store(self, number: int, translations: list[Translations], known: bool) -> None:
        batch = self._batches[number]
        for index, of_row in zip(batch, translations, strict=True):
            self._found[index] = of_row
        written = sum(self._rows[index]["written"] if self._free else len(self._found[index])
                      for index in batch)  # fmt: skip
        self._progress.add(written - self._told.pop(number), known)

    @property
    def is_translated(self) -> bool:
        """Whether all batches are translated."""
        return not self._told

    def parts(self, number: int) -> Parts:
        """Keeps the parts of the documents of a batch until it is finished."""
        return Parts(self.known_parts(number), lambda found, *at: self.add_part(found, number, *at))

    def known_parts(self, number: int) -> dict[tuple[int, ...], list[list[SentenceHypothesis]]]:
        """The parts of a batch that an earlier run has translated, by document and part."""
        return {
            place[1:]: [[SentenceHypothesis(*x) for x in sentences] for sentences in known]
            for place, known in self._kept.of_parts(number).items()
        }

    def add_part(self, hypotheses: list[list[SentenceHypothesis]], *place: int) -> None:
        """A part is translated."""
        found = [[[one.tokens, one.scores] for one in sentences] for sentences in hypotheses]
        self._kept.add(found, *place)
        self._progress.add(len(hypotheses[0]))
        self._told[place[0]] += len(hypotheses[0])

    def translations(self) -> list[Translations]:
        """For each document the translations of its sentences; all batches are translated.

        Raises:
            GtransError: what was kept is of other sentences.
        """
        rows = iter(self._found)
        found = [
            list(chain.from_iterable(next(rows) for _ in of_document))
            for of_document in self._rows_of_documents
        ]
        expected = len(self._rows) if self._free else self._sentences
        if sum(map(len, found)) != expected:
            raise GtransError(
                f"'{self._kept.path}' was changed: it has {sum(map(len, found))} translations, but "
                f"{expected} are needed; `--force` translates anew."
            )
        return found


class Parts:
    """See :class:`gtrans.decoding.part_search.FinishedParts`.

    Args:
        known: the hypotheses of finished parts, by document and part.
        keep: is told of the hypotheses of a part, its document and its number.
    """

    def __init__(
        self,
        known: Mapping[tuple[int, ...], list[list[SentenceHypothesis]]],
        keep: Callable[..., None],
    ) -> None:
        self._known = known
        self._keep = keep

    def get(self, document: int, part: int) -> list[list[SentenceHypothesis]] | None:
        """The hypotheses of a part."""
        return self._known.get((document, part))

    def add(self, document: int, part: int, hypotheses: list[list[SentenceHypothesis]]) -> None:
        """Keep a part."""
        self._keep(hypotheses, document, part)


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


def documents_of_dataset(dataset: Any) -> list[list[Sentence]]:
    """The documents of a :class:`gtrans.data.document_dataset.DocumentDataset`.

    Two boundaries next to each other make an empty document.
    """
    source, pieces = dataset.source, dataset.word_pieces
    documents: list[list[Sentence]] = [[]]
    for number in range(len(source)):
        ids = source[number].long()
        if ids.numel() > 1:
            own = None if pieces is None else pieces[number].long()
            documents[-1].append(Sentence(ids, own))
        else:
            documents.append([])
    return documents
