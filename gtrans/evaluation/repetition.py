"""How much a translation repeats itself, as a metric class of sacreBLEU.

A model that is not trained enough, or decodes what it has not seen, goes round in loops ("the list
of the list of the list"). They make a translation as long as its reference, so that BLEU's brevity
penalty does not see what is missing. A word is *repeated* if it stands in a pair of neighbouring
words which the same sentence has had before. The score is the share of repeated words, in percent;
that of the reference shows how much repetition is meant.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from typing import Any

from sacrebleu.metrics.base import Metric, Score, Signature
from sacrebleu.metrics.bleu import BLEU


class RepetitionSignature(Signature):
    """The signature of the repetition: everything that a score depends on."""

    def __init__(self, args: dict[str, Any]) -> None:
        super().__init__(args)
        self.info.update({"case": args["case"], "tok": args["tok"], "words": 2})


class Repetition(Metric):
    """Share of words that stand in a pair of words which their sentence has had before.

    Args:
        bleu: what splits a sentence into words.
    """

    _SIGNATURE_TYPE = RepetitionSignature

    def __init__(self, bleu: BLEU) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self._bleu = bleu
        self.case = "lc" if bleu.lowercase else "mixed"
        self.tok = bleu.tokenizer_signature

    def _preprocess_segment(self, sent: str) -> str:
        return str(self._bleu._preprocess_segment(sent))

    def _extract_reference_info(self, refs: Sequence[str]) -> dict[str, Any]:
        return {}

    def _compute_segment_statistics(
        self, hypothesis: str, ref_kwargs: dict[str, Any]
    ) -> list[float]:
        words = hypothesis.split()
        seen: set[tuple[str, str]] = set()
        repeated: set[int] = set()
        for place, pair in enumerate(pairwise(words)):
            if pair in seen:
                repeated |= {place, place + 1}
            seen.add(pair)
        return [len(repeated), len(words)]

    def _aggregate_and_compute(self, stats: list[list[float]]) -> Score:
        return self._compute_score_from_stats([sum(column) for column in zip(*stats, strict=True)])

    def _compute_score_from_stats(self, stats: list[float]) -> Score:
        return Score("repetition", 100 * stats[0] / stats[1] if stats[1] else 0.0)
