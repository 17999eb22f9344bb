"""The document search with the interface of ``fairseq-generate`` and ``fairseq-interactive``."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import fields, replace
from typing import Any

import torch
from fairseq.dataclass.configs import GenerationConfig
from torch import Tensor

from gtrans.data.examples import source_of
from gtrans.data.vocabulary import MASK, language_token, split_languages
from gtrans.errors import GtransError
from gtrans.search.document_search import (
    DocumentHypothesis,
    DocumentSearch,
    SearchVocabulary,
    SentenceHypothesis,
)
from gtrans.search.options import SearchOptions
from gtrans.search.part_search import Parts, PartSearch

# Tokens of a batch within one document, with padding; --max-tokens of `fairseq-interactive`
# applies to whole documents.
_DOCUMENT_TOKENS = 4000
# Options that document search supports, and options that do not concern it.
_HONOURED = {"nbest", *(option.name for option in fields(SearchOptions))}
_UNRELATED = {
    "_name",
    "no_seed_provided",
    "no_early_stop",
    "no_beamable_mm",
    "lm_weight",
    "sacrebleu",
}
# A short row costs the work of a step, too.
LEAST_ROW_TOKENS = 16
# Logits of a step: 250 rows, a beam of 5 and 30,000 vocabulary entries; 150 MB in single precision.
MOST_LOGITS = 250 * 5 * 30_000


Entry = dict[str, Any]
"""A hypothesis of a sentence as fairseq's commands read it."""


def refuse_unsupported(generation: Any) -> None:
    """Raise GtransError for generation options that document search does not support."""
    for field in fields(GenerationConfig):
        value = getattr(generation, field.name, field.default)
        if field.name not in _HONOURED | _UNRELATED and value != field.default:
            raise GtransError(
                f"`--{field.name.replace('_', '-')}` is not supported: documents are decoded by "
                "one beam search that keeps their sentences; leave it out."
            )


def rows_at_once(beam: int, vocabulary: int) -> int:
    """Return the most rows whose logits in a step fit into ``MOST_LOGITS``; at least 1."""
    return max(MOST_LOGITS // (beam * vocabulary), 1)


def make_batches(
    lengths: Sequence[int], max_tokens: int, max_rows: int | None = None
) -> list[list[int]]:
    """Return batches of row indices, the longest rows first; a too long row is a batch of its own.

    Args:
        lengths: tokens of each row.
        max_tokens: most tokens of a batch, padding included.
        max_rows: most rows of a batch, or None.
    """
    batches: list[list[int]] = []
    rows_left = 0
    longest_first = sorted(range(len(lengths)), key=lambda index: -lengths[index])
    for index in longest_first:
        if not rows_left:
            batches.append([])
            # The first row of a batch is its longest.
            longest = max(lengths[index], LEAST_ROW_TOKENS)
            rows_left = max(max_tokens // longest, 1)
            rows_left = min(rows_left, max_rows or rows_left)
        batches[-1].append(index)
        rows_left -= 1
    return batches


class DocumentGenerator:
    """Translates batches; built by the task, called by its ``inference_step``.

    Attributes:
        rows_at_once: most rows of a batch, for the memory of their logits.
    """

    def __init__(
        self, models: Sequence[Any], task: Any, options: SearchOptions, nbest: int = 1
    ) -> None:
        """Generate with ``models``; keep ``nbest`` translations of a part.

        Raises:
            GtransError: with ``free``, the model does not decide where documents end.
        """
        dictionary, self.examples = task.target_dictionary, task.examples
        frame, unit = self.examples.frame, self.examples.unit
        self.models = list(models)
        self._complete = task.complete_input
        # fairseq's commands print tokens without these.
        self.symbols_to_strip_from_output = {frame.eos, frame.bos}
        # Not words.
        forbidden = {frame.pad, frame.bos, dictionary.index(MASK)}
        for language in split_languages(task.cfg.langs):
            forbidden.add(dictionary.index(language_token(language)))
        vocabulary = SearchVocabulary(
            opening=frame.opening,
            eos=frame.eos,
            pad=frame.pad,
            unk=dictionary.unk(),
            forbidden=tuple(sorted(forbidden)),
            prefix=frame.prefix,
            max_input_tokens=min(model.max_decoder_positions() for model in self.models),
            document_token=frame.document_token,
        )
        self.rows_at_once = rows_at_once(options.beam, len(dictionary))
        if options.free and frame.document_token is None:
            raise GtransError(
                "`--free` is for the document Transformer (--unit document --doc-mode full) with "
                "`--sentence-marks document` or `mbart-document`, which has learnt where documents "
                f"end; this model sees the unit {unit.name} with the special tokens "
                f"'{frame.special_tokens}': leave `--free` out."
            )
        if options.free and unit.tokens_at_once is not None:
            raise GtransError(
                "`--free` is for documents that are translated at once, but this model translates "
                "them chunk by chunk (`--overlap`, or a memory between chunks); leave it out."
            )
        self.search = DocumentSearch(vocabulary, options)
        if unit.sentence_by_sentence or unit.tokens_at_once is not None:
            self.search = PartSearch(vocabulary, options, frame, unit, nbest)

    def documents(
        self, source: Mapping[str, Tensor], finished: Parts | None = None
    ) -> list[list[DocumentHypothesis]]:
        """Return the hypotheses of every row, the best first, at least one each.

        They hold only the kept sentences of the row.

        Args:
            source: ``net_input`` of :meth:`gtrans.data.examples.ExampleBuilder.collate`.
            finished: parts of documents that are translated chunk by chunk.

        Raises:
            GtransError: probabilities are NaN.
        """
        for model in self.models:
            model.eval()
        source_lengths = []
        for row in self.examples.sources_to_translate(source):
            source_lengths.append([sentence.numel() - 1 for sentence in row])
        complete = self._complete(source)
        # Sentences are too small to be kept one by one.
        if self.examples.unit.tokens_at_once is None:
            finished = None
        hypotheses = self.search.search(self.models, complete, source_lengths, finished)
        # With finite probabilities the search always finds a hypothesis.
        for row in hypotheses:
            if not row or not math.isfinite(row[0].score):
                raise not_finite(self.models)
        kept_hypotheses = []
        for kept, row in zip(self.examples.kept_sentences(source), hypotheses, strict=True):
            kept_row = []
            for hypothesis in row:
                sentences = hypothesis.sentences[kept]
                kept_row.append(replace(hypothesis, sentences=sentences))
            kept_hypotheses.append(kept_row)
        return kept_hypotheses

    def sentences(self, source: Mapping[str, Tensor]) -> list[list[list[Entry]]]:
        """Return fairseq's dictionaries of the hypotheses of every sentence of every row.

        The n-th hypothesis of a sentence is part of the n-th hypothesis of its row.
        """
        rows = []
        for row in self.documents(source):
            sentences = []
            for hypotheses in zip(*(document.sentences for document in row), strict=True):
                sentences.append([self._entry(hypothesis) for hypothesis in hypotheses])
            rows.append(sentences)
        return rows

    def batch(self, sample: dict[str, Any]) -> list[list[Entry]]:
        """Return the hypotheses of every sentence of a batch, one sentence after the other.

        Sentences replace ids, source and target in ``sample``, as ``fairseq-generate`` prints them.

        Raises:
            GtransError: the model reads its earlier translations, which batches do not hold.
        """
        unit, net_input = self.examples.unit, sample["net_input"]
        if unit.sentence_by_sentence and unit.has_context:
            raise GtransError(
                "`--context-sides history`: fairseq-generate does not translate in document "
                "order, but this model attends to its own earlier translations; use `gtrans "
                "translate`."
            )
        source = source_of(net_input)
        translations = self.sentences(source)
        firsts = sample["first_sentence"].tolist()
        numbers: list[int] = []
        sentences: list[list[Entry]] = []
        for first, row in zip(firsts, translations, strict=True):
            numbers += range(first, first + len(row))
            sentences += row
        sample["id"] = torch.tensor(numbers)
        wanted = self.examples.kept_sentences(source)
        sources = self.examples.sources_to_translate(source)
        net_input["src_tokens"] = self._wanted(sources, wanted)
        if sample.get("target") is not None:
            targets = [self.examples.frame.sentences(row) for row in sample["target"]]
            sample["target"] = self._wanted(targets, wanted)
        return sentences

    def _wanted(self, rows: Sequence[list[Tensor]], wanted: Sequence[slice]) -> Tensor:
        """Return ``(sentences, longest)`` ids of the wanted sentences."""
        sentences: list[Tensor] = []
        for row, part in zip(rows, wanted, strict=True):
            sentences += row[part]
        padded: Tensor = self.examples.frame.pad_rows(sentences)
        return padded

    def document(self, document: Tensor) -> list[list[Entry]]:
        """Return the hypotheses of every sentence of a document ``(sentences, length)``."""
        builder = self.examples
        sentences: list[Tensor] = []
        for row in document:
            sentences += builder.frame.sentences(row)
        lengths = [sentence.numel() - 1 for sentence in sentences]
        examples = []
        for span in builder.unit.cut_to_translate(lengths):
            own = sentences[span.source.start : span.source.stop]
            examples.append(builder.example(span, own))
        translations: dict[int, list[list[Entry]]] = {}
        lengths = builder.lengths(examples)
        for batch in make_batches(lengths, _DOCUMENT_TOKENS, self.rows_at_once):
            collated = builder.collate([examples[index] for index in batch])
            source = {}
            for name, tensor in collated["net_input"].items():
                source[name] = tensor.to(document.device)
            for index, row in zip(batch, self.sentences(source), strict=True):
                translations[index] = row
        hypotheses: list[list[Entry]] = []
        for number in range(len(examples)):
            hypotheses += translations[number]
        return hypotheses

    def _entry(self, sentence: SentenceHypothesis) -> Entry:
        return {
            "tokens": torch.tensor(sentence.tokens),
            "score": self.search.options.score(sentence.scores),
            "attention": None,
            "alignment": torch.empty(0),
            "positional_scores": torch.tensor(sentence.scores),
        }


def not_finite(models: Iterable[Any]) -> GtransError:
    """Return the error for infinite or NaN probabilities."""
    paths: list[str] = []
    for model in models:
        path = getattr(model, "loaded_from", None)
        if path:
            paths.append(str(path))
    return GtransError(
        f"{' and '.join(paths) or 'the model'}: probabilities are not finite (NaN); its training "
        "has diverged, or half precision is too narrow for it: leave out --fp16."
    )
