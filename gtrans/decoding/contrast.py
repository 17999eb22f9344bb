"""What a model makes of contrastive items: scores of their candidates, and translations."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any, Protocol

from gtrans.decoding.force_decode import MAX_TOKENS, EncodedDocument, score_documents
from gtrans.decoding.options import DecodingOptions
from gtrans.decoding.translator import Translator, lines_of_text
from gtrans.errors import GtransError
from gtrans.evaluation.contrastive import Item
from gtrans.text.pipeline import TextPipeline


class Encoder(Protocol):
    """The part of a text pipeline that is needed here."""

    def encode(self, sentence: str) -> str:
        """BPE tokens of a sentence, separated by spaces."""


def score_items(
    models: Sequence[Any],
    task: Any,
    pipelines: tuple[Encoder, Encoder],
    items: Sequence[Item],
    *,
    whole: bool = True,
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
        whole: see :func:`gtrans.decoding.force_decode.score_documents`.
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
            models,
            task,
            documents,
            first=first,
            plain=plain,
            whole=whole,
            max_tokens=max_tokens,
            progress=progress,
        )
    )
    return [[sum(next(sentence_scores)) for _ in item.candidates] for item in items]


def with_places(
    task: Any, encoder: Encoder, items: Sequence[Item], plain: Sequence[Item], whole: bool
) -> list[Item]:
    """Items grouped by the place of their cue, where documents are cut into instances.

    Args:
        task, whole: as in :func:`score_items`.
        encoder: the pipeline of the source.
        items: any number of items.
        plain: the same in plain text.

    Returns:
        the items. Those whose cue has a known distance have the group ``cue``: in the instance
        of the last sentence, in what this instance reads besides, or before it; and the same
        with the distance as ``cue at distance``.
    """
    unit = task.examples.unit
    if unit.name not in ("document", "stream") or not (unit.has_instances or not whole):
        return list(items)
    lengths: dict[str, int] = {}

    def length(sentence: str) -> int:
        if sentence not in lengths:
            lengths[sentence] = len(encoder.encode(sentence).split())
        return lengths[sentence]

    found = []
    for item, text in zip(items, plain, strict=True):
        place = None
        if item.distance is not None:
            last = unit.parts([length(sentence) for sentence in text.source])[-1]
            cue = len(text.source) - 1 - item.distance
            besides = "in its context" if unit.has_current else "in its overlap"
            place = "in the instance" if cue in last.current else besides
            place = place if cue in last.source else "before the instance"
        groups = {"cue": place, "cue at distance": f"{item.distance} {place}"} if place else {}
        found.append(replace(item, groups={**item.groups, **groups}))
    return found


def translate_items(
    models: list[Any],
    task: Any,
    target: TextPipeline,
    items: Sequence[Item],
    options: DecodingOptions,
) -> list[str]:
    """The translation of the last sentence of each item, which is translated as a document.

    Args:
        models: one model, or an ensemble.
        task: their task.
        target: the pipeline that turns tokens into text.
        items: any number of items, in plain text (:meth:`Item.as_text`).
        options: those of ``gtrans translate``.

    Raises:
        GtransError: there is not one translation for each item.
    """
    text = [line for item in items for line in (*item.source, "")]
    translator = Translator(models, task, target.decode, options.search, options.max_tokens)
    translations = translator.translate_all(lines_of_text(task, text))
    found = [sentences[-1] for sentences in translations if sentences]
    if len(found) != len(items):
        raise GtransError(
            f"`--generate`: {len(items)} items gave {len(found)} translated documents; an item has "
            "an empty sentence in its source."
        )
    return found
