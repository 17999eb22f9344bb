"""Corpus scores of translated documents, each over a named unit.

Bao et al. (2021), G-Transformer, Appendix A, define s-BLEU (pairs of sentences) and
d-BLEU ("matching n-grams in the whole document"). BLEU needs segments, and the score
depends on them: n-grams are clipped, and matched, within a segment. So every signature
here adds to sacreBLEU's the unit that was one segment.

All arithmetic is sacreBLEU's. This module imports neither torch nor fairseq.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Literal, Protocol

from sacrebleu.metrics.bleu import BLEU
from sacrebleu.metrics.chrf import CHRF

from gtrans.errors import GtransError

Unit = Literal["sentence", "document", "instance"]

TOKENIZERS = tuple(BLEU.TOKENIZERS)


@dataclass(frozen=True)
class Score:
    """One score: ``value`` from 0 to 100, and the signature to report with it."""

    value: float
    signature: str


@dataclass(frozen=True)
class Options:
    """What a metric may be told.

    ``tokenize`` is one of :data:`TOKENIZERS`; ``None`` leaves the choice to sacreBLEU,
    which recommends one for ``target_lang`` (``zh``, ``ja``, ``ko``; otherwise ``13a``).
    """

    tokenize: str | None = None
    target_lang: str = ""
    lowercase: bool = False


class CorpusMetric(Protocol):
    """The part of a sacreBLEU metric that is used here."""

    def corpus_score(
        self, hypotheses: Sequence[str], references: Sequence[Sequence[str]] | None
    ) -> Any:
        """Score of aligned segments, as an object with a ``score``."""

    def get_signature(self) -> Any:
        """The signature, complete once ``corpus_score`` has seen the references."""


@dataclass(frozen=True)
class Metric:
    """A row of :data:`METRICS`: how a score is called, its segments, its arithmetic."""

    label: str
    unit: Unit
    build: Callable[[Options], CorpusMetric]


def _bleu(options: Options, *, warn: bool = False) -> CorpusMetric:
    """sacreBLEU's BLEU; ``warn`` when the hypotheses look tokenised.

    Raises:
        GtransError: the tokeniser needs a package or model that is not there.
    """
    try:
        return BLEU(
            lowercase=options.lowercase,
            force=not warn,
            tokenize=options.tokenize,
            trg_lang=options.target_lang,
        )
    except (ImportError, OSError, RuntimeError) as error:
        # sacreBLEU reports a missing extra in several lines; ours is one.
        reason = " ".join(str(error).split())
        chosen = (
            f"--tokenize {options.tokenize}"
            if options.tokenize
            else f"the tokeniser for --target-lang {options.target_lang}"
        )
        raise GtransError(f"{chosen} cannot be used: {reason}") from error


def _sentence_bleu(options: Options) -> CorpusMetric:
    # Only here does sacreBLEU warn of tokenised text: once is enough.
    return _bleu(options, warn=True)


def _chrf(options: Options) -> CorpusMetric:
    return CHRF(lowercase=options.lowercase)


METRICS: dict[str, Metric] = {
    "s_bleu": Metric("s-BLEU", "sentence", _sentence_bleu),
    "d_bleu": Metric("d-BLEU", "document", _bleu),
    "d_bleu_instance": Metric("d-BLEU (instances)", "instance", _bleu),
    "chrf": Metric("chrF2", "sentence", _chrf),
}
"""Every score that :func:`score_documents` computes, in the order of reports."""


def score_documents(
    hypotheses: list[list[str]],
    references: list[list[str]],
    instances: list[list[range]],
    *,
    instance_unit: str,
    options: Options | None = None,
) -> dict[str, Score]:
    """Compute every score of :data:`METRICS`.

    Args:
        hypotheses: documents of sentences; an empty sentence is an empty translation.
        references: documents of the same shape, at least one sentence in all.
        instances: for each document, the ranges of sentences that are one instance
            (:func:`gtrans.data.instances.split_instances`).
        instance_unit: how a signature names that unit, e.g. ``instance(512,bpe)``.
        options: tokeniser and case.

    Returns:
        Scores by the keys of :data:`METRICS`, in that order.

    Raises:
        GtransError: the tokeniser cannot be used.
        ValueError: the arguments do not have the same shape, or there is nothing to score.
    """
    if [len(document) for document in hypotheses] != [len(document) for document in references]:
        raise ValueError("hypotheses and references are not the same documents")
    for document, spans in zip(references, instances, strict=True):
        if [index for span in spans for index in span] != list(range(len(document))):
            raise ValueError("the instances do not take every sentence once, in order")
    if not any(references):
        raise ValueError("there is no sentence to score")
    options = options or Options()
    ranges: dict[Unit, list[list[range]]] = {
        "sentence": [[range(i, i + 1) for i in range(len(doc))] for doc in references],
        "document": [[range(len(doc))] for doc in references],
        "instance": instances,
    }
    unit_names: dict[Unit, str] = {
        "sentence": "sentence",
        "document": "document",
        "instance": instance_unit,
    }
    scores = {}
    for key, spec in METRICS.items():
        metric = spec.build(options)
        segments = _join(hypotheses, ranges[spec.unit])
        reference_segments = _join(references, ranges[spec.unit])
        value = float(metric.corpus_score(segments, [reference_segments]).score)
        signature = f"{metric.get_signature()}|unit:{unit_names[spec.unit]}"
        scores[key] = Score(value, signature)
    return scores


def _join(documents: list[list[str]], ranges: list[list[range]]) -> list[str]:
    """One segment per range: its sentences with a space between, empty ones left out."""
    return [
        " ".join(filter(None, document[span.start : span.stop]))
        for document, spans in zip(documents, ranges, strict=True)
        for span in spans
    ]
