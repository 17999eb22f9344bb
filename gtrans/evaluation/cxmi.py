"""Conditional cross-mutual information: how much context a model uses.

Fernandes, Yin, Neubig and Martins, "Measuring and Increasing Context Usage in Context-Aware Machine
Translation", ACL 2021, section 2.2:

    CXMI(C -> Y | X) = 1/N sum_i log q(y_i | x_i, C_i) - log q(y_i | x_i)

in nats per sentence. A summand is the pointwise CXMI (P-CXMI) of a sentence.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from gtrans.evaluation.contrastive.accuracy import Gain


@dataclass(frozen=True)
class ScoredSentence:
    """A sentence of the reference.

    Attributes:
        document, sentence: numbers from 1; a sentence's is within its document.
        tokens: with the end token.
        with_context, without_context: log-probabilities in nats.
    """

    document: int
    sentence: int
    tokens: int
    with_context: float
    without_context: float

    @property
    def cxmi(self) -> float:
        """The gain in log-probability from context."""
        return self.with_context - self.without_context


@dataclass(frozen=True)
class Cxmi:
    """CXMI of a corpus.

    Attributes:
        value: nats per sentence.
        interval: 95% interval; None for a single sentence.
        resampled: the jackknife's unit: ``documents``, or ``sentences`` of one document.
    """

    value: float
    interval: tuple[float, float] | None
    resampled: str
    per_token: float
    sentences: int
    documents: int


def corpus_cxmi(sentences: Sequence[ScoredSentence]) -> Cxmi:
    """Return the CXMI of at least one sentence."""
    values = []
    documents = []
    tokens = 0
    for sentence in sentences:
        values.append(sentence.cxmi)
        documents.append(str(sentence.document))
        tokens += sentence.tokens
    document_count = len(set(documents))
    resampled = "documents"
    if document_count == 1:
        resampled = "sentences"
        documents = [""] * len(sentences)
    gain = Gain(tuple(values), tuple(documents))
    return Cxmi(
        value=gain.mean,
        interval=gain.interval,
        resampled=resampled,
        per_token=gain.mean * len(sentences) / tokens,
        sentences=len(sentences),
        documents=document_count,
    )
