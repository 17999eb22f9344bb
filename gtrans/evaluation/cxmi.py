"""Conditional cross-mutual information: how much context a model uses.

Fernandes, Yin, Neubig and Martins, "Measuring and Increasing Context Usage in Context-Aware
Machine Translation", ACL 2021, section 2.2:

    CXMI(C -> Y | X) = H(Y | X) - H(Y | X, C)
                     = 1/N sum_i log q(y_i | x_i, C_i) - log q(y_i | x_i)

over the N sentence pairs of a held-out corpus, in nats per sentence; the ``y_i`` are the
references. Each summand is the pointwise CXMI (P-CXMI) of a sentence. This module imports neither
torch nor fairseq.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

TRIALS = 1000


@dataclass(frozen=True)
class Sentence:
    """A sentence of the reference.

    Attributes:
        document, sentence: numbers from 1, the second within the document.
        tokens: tokens of the reference, its end mark included.
        with_context, without_context: its log-probability, in nats.
    """

    document: int
    sentence: int
    tokens: int
    with_context: float
    without_context: float

    @property
    def cxmi(self) -> float:
        """The gain in log-probability through context."""
        return self.with_context - self.without_context


@dataclass(frozen=True)
class Cxmi:
    """CXMI of a corpus.

    Attributes:
        value: nats per sentence.
        interval: 95% interval of ``value``; None: there is only one sentence.
        resampled: what the bootstrap draws: ``documents``, because sentences of a document are
            not independent; ``sentences`` if there is only one document.
        per_token: nats per token.
        sentences, documents: how many there are.
    """

    value: float
    interval: tuple[float, float] | None
    resampled: str
    per_token: float
    sentences: int
    documents: int


def corpus_cxmi(sentences: Sequence[Sentence]) -> Cxmi:
    """CXMI of at least one sentence, with a percentile bootstrap of :data:`TRIALS` trials."""
    documents = len({sentence.document for sentence in sentences})
    of_document: dict[int, list[float]] = {}
    for number, sentence in enumerate(sentences):
        unit = sentence.document if documents > 1 else number
        of_document.setdefault(unit, []).append(sentence.cxmi)
    sums = np.array([sum(values) for values in of_document.values()])
    counts = np.array([len(values) for values in of_document.values()])
    generator = np.random.default_rng(1)
    drawn = generator.integers(len(sums), size=(TRIALS, len(sums)))
    values = sums[drawn].sum(1) / counts[drawn].sum(1)
    low, high = np.quantile(values, [0.025, 0.975])
    return Cxmi(
        value=float(sums.sum() / counts.sum()),
        interval=(float(low), float(high)) if len(sums) > 1 else None,
        resampled="documents" if documents > 1 else "sentences",
        per_token=float(sums.sum() / sum(sentence.tokens for sentence in sentences)),
        sentences=len(sentences),
        documents=documents,
    )
