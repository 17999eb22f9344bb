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

from gtrans.evaluation.contrastive.accuracy import Gain


@dataclass(frozen=True)
class Sentence:
    """A sentence of the reference.

    Attributes:
        document, sentence: numbers from 1, the second within the document.
        tokens: tokens of the reference, its end token included.
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
        resampled: what the jackknife leaves out: ``documents``, because sentences of a document are
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
    """CXMI of at least one sentence, with the interval of a :class:`Gain`."""
    documents = len({sentence.document for sentence in sentences})
    names = [str(sentence.document) if documents > 1 else "" for sentence in sentences]
    gain = Gain(tuple(sentence.cxmi for sentence in sentences), tuple(names))
    return Cxmi(
        value=gain.mean,
        interval=gain.interval,
        resampled="documents" if documents > 1 else "sentences",
        per_token=gain.mean * len(sentences) / sum(sentence.tokens for sentence in sentences),
        sentences=len(sentences),
        documents=documents,
    )
