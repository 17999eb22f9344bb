"""Contrastive evaluation: which candidate translation a model scores best."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Protocol

from gtrans.decoding.force_decode import MAX_TOKENS, EncodedDocument, score_documents
from gtrans.evaluation.contrastive import Item, Table, accuracy_table


class Encoder(Protocol):
    """The part of a text pipeline that is needed here."""

    def encode(self, sentence: str) -> str:
        """BPE tokens of a sentence, separated by spaces."""


def evaluate(
    models: Sequence[Any],
    task: Any,
    pipelines: tuple[Encoder, Encoder],
    items: Sequence[Item],
    *,
    max_tokens: int = MAX_TOKENS,
    progress: str | None = None,
) -> Table:
    """Accuracy of ``models`` by phenomenon and distance.

    Arguments as in :func:`score_items`. As a control, call it with
    :func:`gtrans.evaluation.contrastive.random_contexts` of the items.
    """
    scores = score_items(
        models, task, pipelines, items, max_tokens=max_tokens, progress=progress
    )
    return accuracy_table(items, scores)


def score_items(
    models: Sequence[Any],
    task: Any,
    pipelines: tuple[Encoder, Encoder],
    items: Sequence[Item],
    *,
    max_tokens: int = MAX_TOKENS,
    progress: str | None = None,
) -> list[list[float]]:
    """For each item the log-probabilities of its candidates, the correct one first.

    The sum leaves out the sentences before the first one in which the candidates of an item
    differ: their probability is the same for all candidates.

    Args:
        models: one model, or an ensemble.
        task: their task; ``task.cfg.unit`` says whether documents or sentences are read.
        pipelines: of source and target, for example from
            :func:`gtrans.text.prepared_folder.load_pipeline`.
        items: any number of items, in plain text (:meth:`Item.as_text`).
        max_tokens: most tokens of a batch, as in
            :func:`gtrans.decoding.force_decode.score_documents`.
        progress: name of a progress bar on standard error.
    """
    # The same context sentences occur in many candidates, and tokenising is slow.
    known: tuple[dict[str, str], dict[str, str]] = ({}, {})

    def encoded(sentences: Sequence[str], side: int) -> list[str]:
        for sentence in sentences:
            if sentence not in known[side]:
                known[side][sentence] = pipelines[side].encode(sentence)
        return [known[side][sentence] for sentence in sentences]

    documents: list[EncodedDocument] = []
    plain: list[Sequence[str]] = []
    first: list[int] = []
    for item in items:
        source = encoded(item.source, 0)
        for candidate in item.candidates:
            documents.append((source, encoded(candidate, 1)))
            first.append(item.context)
            plain.append(item.source)
    sentence_scores = iter(
        score_documents(
            models, task, documents, first=first, plain=plain, max_tokens=max_tokens,
            progress=progress,
        )
    )
    return [[sum(next(sentence_scores)) for _ in item.candidates] for item in items]
