"""The words of a reference that gain by context, and what in the context decided them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from torch import Tensor

from gtrans.decoding.context_use import Text
from gtrans.evaluation.cxmi import END, Word
from gtrans.lab.analysis.deciders import Asked, Deciders, Decision

Scores = Sequence[Sequence[Tensor]]


@dataclass(frozen=True)
class Gain:
    """A word of the reference.

    Attributes:
        word: its scores.
        decision: what decided it; None if it gains less than the threshold.
    """

    word: Word
    decision: Decision | None


def words_with_scores(text: Text, found: Scores, bare: Scores) -> list[list[list[Word]]]:
    """The words of every sentence of every document, with the end mark.

    Args:
        text: what was read.
        found, bare: scores of the tokens with and without context, by document and sentence.
    """
    return [
        [
            [
                Word(
                    document, sentence, word, written, len(pieces),
                    *(_total(scores, pieces) for scores in of_sentence),
                )
                for word, (written, pieces) in enumerate(
                    zip([*words.texts, END], [*words.pieces, range(last, last + 1)], strict=True),
                    start=1,
                )
            ]
            for sentence, (words, of_sentence) in enumerate(
                zip(of_document, zip(*scores, strict=True), strict=True), start=1
            )
            for last in [len(of_sentence[0]) - 1]
        ]
        for document, (of_document, scores) in enumerate(
            zip(text.target.words, zip(found, bare, strict=True), strict=True), start=1
        )
    ]  # fmt: skip


def _total(scores: Tensor, pieces: range) -> float:
    return float(scores[pieces.start : pieces.stop, 0].sum())


def gains(
    models: Sequence[Any],
    task: Any,
    text: Text,
    scores: tuple[Scores, Scores],
    threshold: float,
    max_tokens: int,
    suspects: int,
) -> list[Gain]:
    """Every word of the references with its gain, and what decided those that gain.

    Args:
        models: one model, or an ensemble.
        task: their task.
        text: what they read.
        scores: those of the tokens with and without context, with rivals
            (:func:`gtrans.decoding.context_use.token_scores`).
        threshold: least gain of a word whose context is looked at, in nats.
        max_tokens: largest batch in tokens.
        suspects: most words of the context that are replaced for a word.
    """
    found, bare = scores
    words = [
        word
        for document in words_with_scores(text, found, bare)
        for sentence in document
        for word in sentence
    ]
    asked = {}
    for number, word in enumerate(words):
        if word.cxmi >= threshold and word.text != END:
            place = word.document - 1, word.sentence - 1, word.word - 1
            asked[number] = ask(text, place, found, bare)
    decisions: list[Decision] = []
    if asked:
        deciders = Deciders(models, task, text, max_tokens, suspects)
        decisions = deciders.decisions(list(asked.values()), found)
    of_word = dict(zip(asked, decisions, strict=True))
    return [Gain(word, of_word.get(number)) for number, word in enumerate(words)]


def ask(text: Text, place: tuple[int, int, int], found: Scores, bare: Scores) -> Asked:
    """The question what decided a word; ``place``: document, sentence and word, from 0."""
    document, sentence, word = place
    pieces = text.target.words[document][sentence].pieces[word]
    gained = found[document][sentence][:, 0] - bare[document][sentence][:, 0]
    decisive = max(pieces, key=lambda piece: float(gained[piece]))
    return Asked(*place, decisive, int(bare[document][sentence][decisive, 2]))
