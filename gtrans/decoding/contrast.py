"""What a model makes of contrastive items: scores of their candidates, and translations."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Protocol

from gtrans.decoding.force_decode import MAX_TOKENS, EncodedDocument, score_documents
from gtrans.decoding.translation import translate_lines
from gtrans.decoding.translation_options import TranslationOptions
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


def translate_items(
    models: list[Any],
    task: Any,
    target: TextPipeline,
    items: Sequence[Item],
    options: TranslationOptions,
) -> list[str]:
    """The translation of the last sentence of each item, which is translated as a document.

    Args:
        models: one model, or an ensemble.
        task: their task.
        target: the pipeline that turns tokens into text.
        items: any number of items, in plain text (:meth:`Item.as_text`).
        options: those of ``gtrans translate``; the output is not written.

    Raises:
        GtransError: there is not one translation for each item.
    """
    text = [line for item in items for line in (*item.source, "")]
    translator = Translator(models, task, target.decode, options.search)
    translations = translate_lines(translator, lines_of_text(task, text), options, run="")
    found = [sentences[-1] for sentences in translations if sentences]
    if len(found) != len(items):
        raise GtransError(
            f"`--generate`: {len(items)} items gave {len(found)} translated documents; an item has "
            "an empty sentence in its source."
        )
    return found
