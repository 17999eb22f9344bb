"""Document search with the interface of ``fairseq-generate`` and ``fairseq-interactive``."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import fields, replace
from typing import Any

import torch
from fairseq.data import Dictionary
from fairseq.dataclass.configs import GenerationConfig
from torch import Tensor

from gtrans.data.examples import ExampleBuilder, source_of
from gtrans.decoding.document_search import (
    DocumentHypothesis,
    DocumentSearch,
    FinishedParts,
    SearchVocabulary,
    SentenceHypothesis,
)
from gtrans.decoding.loading import not_finite
from gtrans.decoding.options import SearchOptions
from gtrans.decoding.part_search import InstanceSearch, StreamSearch
from gtrans.decoding.translator import make_batches, rows_at_once
from gtrans.errors import GtransError

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
        if unit.tokens_at_once is not None:
            self.search = InstanceSearch(vocabulary, options, frame, unit, nbest)
        elif unit.sentence_by_sentence:
            self.search = StreamSearch(vocabulary, options, frame)

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
        hypotheses = self.search.search(self.models, complete, source_lengths, finished)
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
