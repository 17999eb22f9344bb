"""Rows of a batch, built from sentences, for training, search and force decoding."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor
from torch.nn.utils.rnn import pad_sequence

from gtrans.data.context_text import ContextText
from gtrans.data.frame import Frame
from gtrans.data.units import StreamUnit, Unit, UnitSpan
from gtrans.modules.bert import context_row

Example = dict[str, Any]


@dataclass(frozen=True)
class BertExamples:
    """Rows of BERT's subwords, ``[CLS] context [SEP] sentence [SEP]``.

    Attributes:
        longest: most subwords of a row.
        context: replaces the context, in BERT's subwords.
    """

    longest: int
    context: ContextText | None = None


@dataclass(frozen=True)
class ExampleBuilder:
    """Builds the examples of a task, and batches of them.

    Attributes:
        context: replaces the context; None: the true context.
    """

    frame: Frame
    unit: Unit
    context: ContextText | None = None
    bert_subwords: BertExamples | None = None

    def example(
        self,
        span: UnitSpan,
        source: Sequence[Tensor],
        target: Sequence[Tensor] | None = None,
        bert_subwords: Sequence[Tensor] | None = None,
        chunks: Sequence[int] | None = None,
    ) -> Example:
        """Return one row, not yet padded.

        Args:
            source, target: the sentences of ``span``, each ``(words + 1,)`` with its ``</s>``.
            bert_subwords: the source in BERT's subwords, each sentence with ``[SEP]``.
            chunks: the sentences of each chunk; None: the row is a whole document.

        Returns:
            ``source (length,)``; ``current_sentence``, the number of the first kept sentence in the
            row; ``predicted_sentences``, how many; with a target ``prev_output_tokens (length,)``
            and ``target (length,)``; if a model needs them ``bert_subwords (subwords,)`` and
            ``chunks (chunks,)``.
        """
        current = span.kept.start - span.source.start
        read_source = self._replaced(source, current, self.context)
        example: Example = {
            "source": self.frame.source(read_source),
            "current_sentence": current,
            "predicted_sentences": len(span.predicted),
        }
        if target is not None:
            decoder_input, predicted = self.frame.target(target)
            if span.predicted != span.target:
                predicted = self._only_predicted(predicted, span)
            example["prev_output_tokens"] = decoder_input
            example["target"] = predicted
        if self.unit.has_chunks and isinstance(self.unit, StreamUnit):
            if chunks is None:
                target_words = None if target is None else _word_counts(target)
                chunks = self.unit.steps(_word_counts(source), target_words)
            example["chunks"] = torch.tensor(chunks)
        if self.bert_subwords is not None:
            if bert_subwords is None:
                raise ValueError("this row needs the subwords of its sentences")
            texts = self._replaced(bert_subwords, current, self.bert_subwords.context)
            sentence = texts.pop(current)
            example["bert_subwords"] = context_row(texts, sentence, self.bert_subwords.longest)
        return example

    def lengths(self, examples: Sequence[Example]) -> list[int]:
        """Return how many source tokens of each example are read at once."""
        most = self.unit.tokens_at_once
        lengths = []
        for example in examples:
            tokens = int(example["source"].numel())
            if most is not None:
                tokens = min(tokens, most)
            lengths.append(tokens)
        return lengths

    def _only_predicted(self, target: Tensor, span: UnitSpan) -> Tensor:
        """Put padding on sentences that are read but not predicted."""
        ends = target.eq(self.frame.eos).long()
        number_in_row = ends.cumsum(0) - ends
        sentence = number_in_row + span.target.start
        is_before = sentence.lt(span.predicted.start)
        is_behind = sentence.ge(span.predicted.stop)
        return target.masked_fill(is_before | is_behind, self.frame.pad)

    def _replaced(
        self, sentences: Sequence[Tensor], current: int, context: ContextText | None
    ) -> list[Tensor]:
        if context is None or self.unit.context_kind in ("true", "none"):
            return list(sentences)
        replaced = []
        for number, sentence in enumerate(sentences):
            if number != current:
                sentence = context.instead(sentence, sentences[current])
            replaced.append(sentence)
        return replaced

    def collate(self, examples: Sequence[Example]) -> dict[str, Any]:
        """Return a batch: ``net_input``, ``target``, ``ntokens``, ``nsentences``.

        ``net_input`` holds the arguments of ``forward``, padded on the right: ``src_tokens (batch,
        source length)``, ``src_lengths (batch,)``, ``current_sentence (batch,)``, ``chunks (batch,
        most)``, ``prev_output_tokens (batch, target length)``. The task replaces ``bert_subwords
        (batch, subwords)`` by BERT's output.
        """
        source = self._padded(examples, "source")
        lengths = source.ne(self.frame.pad).sum(1)
        net_input = {"src_tokens": source, "src_lengths": lengths}
        if self.unit.has_context:
            current = [example["current_sentence"] for example in examples]
            net_input["current_sentence"] = torch.tensor(current)
        if self.unit.has_chunks:
            chunks = [example["chunks"] for example in examples]
            net_input["chunks"] = pad_sequence(chunks, batch_first=True)
        if self.bert_subwords is not None:
            net_input["bert_subwords"] = self._padded(examples, "bert_subwords")
        target = None
        if "target" in examples[0]:
            target = self._padded(examples, "target")
            net_input["prev_output_tokens"] = self._padded(examples, "prev_output_tokens")
        predicted_sentences = [example["predicted_sentences"] for example in examples]
        counted = source if target is None else target
        tokens = counted.ne(self.frame.pad).sum()
        return {
            "nsentences": sum(predicted_sentences),
            "ntokens": int(tokens),
            "net_input": net_input,
            "target": target,
        }

    def _padded(self, examples: Sequence[Example], name: str) -> Tensor:
        rows = [example[name] for example in examples]
        return self.frame.pad_rows(rows)

    def sources_to_translate(self, source: Mapping[str, Tensor]) -> list[list[Tensor]]:
        """Return for each row of ``net_input`` the source sentences to translate, with ``</s>``."""
        rows = [self.frame.sentences(row) for row in source["src_tokens"]]
        unit = self.unit
        if not unit.has_context or unit.predicts_context or unit.sentence_by_sentence:
            return rows
        to_translate = []
        for row, number in zip(rows, source["current_sentence"].tolist(), strict=True):
            to_translate.append(row[number : number + 1])
        return to_translate

    def kept_sentences(self, source: Mapping[str, Tensor]) -> list[slice]:
        """Return for each row of ``net_input`` which translated sentences are kept."""
        if not self.unit.predicts_context:
            return [slice(None)] * source["src_tokens"].size(0)
        current = source["current_sentence"].tolist()
        return [slice(number, number + 1) for number in current]


def source_of(net_input: Mapping[str, Any]) -> dict[str, Any]:
    """Return ``net_input`` without the target side and the plan."""
    source = dict(net_input)
    source.pop("prev_output_tokens", None)
    source.pop("plan", None)
    return source


def _word_counts(sentences: Sequence[Tensor]) -> list[int]:
    return [len(sentence) - 1 for sentence in sentences]
