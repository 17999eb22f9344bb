"""Document search behind the interface of ``fairseq-generate`` and ``-interactive``."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import fields, replace
from typing import Any

import torch
from fairseq.data import Dictionary
from fairseq.dataclass.configs import GenerationConfig
from torch import Tensor

from gtrans.data.examples import ExampleBuilder
from gtrans.decoding.document_search import (
    DocumentHypothesis,
    DocumentSearch,
    SearchOptions,
    SearchVocabulary,
    SentenceHypothesis,
)
from gtrans.decoding.stream_search import StreamSearch
from gtrans.errors import GtransError

# Options that document search follows, and those that do not concern it.
_HONOURED = {
    "beam", "nbest", "max_len_a", "max_len_b", "min_len", "unnormalized", "lenpen", "unkpen",
    "temperature",
}  # fmt: skip
_UNRELATED = {
    "_name", "no_seed_provided", "no_early_stop", "no_beamable_mm", "lm_weight", "sacrebleu",
}  # fmt: skip


def refuse_unsupported(generation: Any) -> None:
    """Refuse generation options that document search does not follow.

    Raises:
        GtransError: naming the first such flag.
    """
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
    """Translates batches; built by the task, called by its ``inference_step``."""

    def __init__(
        self,
        models: Sequence[Any],
        dictionary: Dictionary,
        examples: ExampleBuilder,
        generation: Any,
        symbols: Sequence[int],
        complete: Callable[[Mapping[str, Tensor]], dict[str, Tensor]] = dict,
    ) -> None:
        """``symbols``: ids that are no words (language symbols, mask).

        ``complete`` turns ``net_input`` of a batch into what the models take.
        """
        frame = examples.frame
        self.models = list(models)
        self.examples = examples
        self._complete = complete
        self.nbest = int(getattr(generation, "nbest", 1))
        self.lenpen = float(getattr(generation, "lenpen", 1.0))
        self.normalize = not getattr(generation, "unnormalized", False)
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
        )
        options = SearchOptions(
            beam=int(getattr(generation, "beam", 5)),
            max_len_a=float(getattr(generation, "max_len_a", 0)),
            max_len_b=float(getattr(generation, "max_len_b", 200)),
            min_len=int(getattr(generation, "min_len", 1)),
            lenpen=self.lenpen,
            unkpen=float(getattr(generation, "unkpen", 0)),
            normalize=self.normalize,
            temperature=float(getattr(generation, "temperature", 1.0)),
        )
        self.search = (
            StreamSearch(vocabulary, options, frame)
            if examples.unit.sentence_by_sentence
            else DocumentSearch(vocabulary, options)
        )

    def documents(self, source: Mapping[str, Tensor]) -> list[list[DocumentHypothesis]]:
        """All hypotheses of every row, the best first, and at least one.

        They hold the sentences that the row is there for, and no others.

        Args:
            source: ``net_input`` of
                :meth:`gtrans.data.examples.ExampleBuilder.collate`.

        Raises:
            GtransError: the models give no probabilities but NaN.
        """
        for model in self.models:
            model.eval()
        words = [
            [sentence.numel() - 1 for sentence in row]
            for row in self.examples.sources_to_translate(source)
        ]
        found = self.search.search(self.models, self._complete(source), words)
        if not all(found):
            # Whatever the search forbids, finite probabilities leave it a way to the end.
            raise GtransError(
                "the model's probabilities are not finite (NaN); its training has diverged, or "
                "half precision is too narrow for it: leave out --fp16."
            )
        return [
            [replace(one, sentences=one.sentences[wanted]) for one in hypotheses]
            for wanted, hypotheses in zip(self.examples.wanted(source), found, strict=True)
        ]

    def sentences(self, source: Mapping[str, Tensor]) -> list[list[list[dict[str, Any]]]]:
        """For every row, for every sentence, its hypotheses as fairseq prints them.

        The n-th hypothesis of a sentence is its part of the document's n-th hypothesis.
        """
        return [
            [
                [self._entry(hypothesis.sentences[k]) for hypothesis in hypotheses]
                for k in range(len(hypotheses[0].sentences))
            ]
            for hypotheses in self.documents(source)
        ]

    def _entry(self, sentence: SentenceHypothesis) -> dict[str, Any]:
        length = len(sentence.tokens) ** self.lenpen if self.normalize else 1.0
        return {
            "tokens": torch.tensor(sentence.tokens),
            "score": sum(sentence.scores) / length,
            "attention": None,
            "alignment": torch.empty(0),
            "positional_scores": torch.tensor(sentence.scores),
        }
