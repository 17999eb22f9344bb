"""Translations judged by the words that tell the candidates of an item apart."""

from __future__ import annotations

from dataclasses import replace

import pytest

from gtrans.evaluation.contrastive import Item
from gtrans.evaluation.contrastive.generated import (
    Outcome,
    contradictions,
    has_own_words,
    judged,
    outcome,
)


def item_of(right: str, *wrong: str) -> Item:
    return Item("1", "p", 1, "target", ("a", "b"), ("A", right), tuple(("A", w) for w in wrong))


POLITE = item_of("Haben Sie sie gesehen?", "Haben Sie ihn gesehen?", "Haben Sie es gesehen?")
TWICE = item_of("Es ist, wie es ist.", "Sie ist, wie sie ist.", "Er ist, wie es ist.")
SHE = item_of("Hast du sie gesehen?", "Hast du ihn gesehen?", "Hast du es gesehen?")
HE = item_of("Hast du ihn gesehen?", "Hast du sie gesehen?", "Hast du es gesehen?")
IT = item_of("Ich habe es.", "Ich habe ihn.", "Ich habe sie.")
FORMAL = item_of("Kommen Sie?", "Kommst du?")
LEMONADE = item_of("Dan adorait la limonade.", "Dan adorait le citron pressé.")
CLITIC = item_of("Vous devez le ranger.", "Vous devez la ranger.")


@pytest.mark.parametrize(
    ("item", "translation", "expected"),
    [
        (POLITE, "Haben Sie sie gesehen?", "right"),
        (POLITE, "Sahen Sie sie?", "right"),
        (POLITE, "Haben Sie ihn gesehen?", "rival"),
        (POLITE, "Haben Sie das gesehen?", "neither"),
        (POLITE, "Haben Sie sie oder ihn gesehen?", "rival"),
        (POLITE, "Hast du sie gesehen?", "right"),
        (TWICE, "ES IST SO", "right"),
        (TWICE, "Er ist, wie er ist.", "rival"),
        (TWICE, "", "neither"),
        # "Sie" means "you" inside a sentence; at its beginning it may mean both,
        # and counts as the rival's where nothing of the right candidate is there.
        (HE, "Haben Sie ihn gesehen?", "right"),
        (HE, "Hast du ihn gesehen, wenn ich Sie fragen darf?", "right"),
        (HE, "Nein, gehört sie Ihnen und Ihrer Frau?", "rival"),
        (HE, "Ja. Sie war dort.", "rival"),
        (HE, "Sie haben ihn gesehen?", "right"),
        (SHE, "Haben Sie das gesehen?", "neither"),
        (SHE, "Haben Sie sie gesehen?", "right"),
        (SHE, 'Er sagte: "Sie ist da."', "right"),
        (FORMAL, "Und kommen Sie mit?", "right"),
        (IT, "Ich hab's.", "right"),
        (IT, "Ich hab’s.", "right"),
        # An article says nothing of another noun.
        (LEMONADE, "Dan adorait la boisson.", "neither"),
        (LEMONADE, "Dan aimait la limonade.", "right"),
        (LEMONADE, "Dan aimait le citron.", "rival"),
        (LEMONADE, "Dan aimait la limonade et le vin.", "right"),
        (CLITIC, "Tu dois le ranger.", "right"),
    ],
)
def test_what_a_translation_has(item: Item, translation: str, expected: str) -> None:
    assert has_own_words(item)
    assert outcome(item, translation).value == expected


def test_candidates_judge_themselves() -> None:
    for item in (POLITE, TWICE, LEMONADE, CLITIC):
        assert outcome(item, item.target[-1]) is Outcome.RIGHT
        assert {outcome(item, wrong[-1]) for wrong in item.contrastive} == {Outcome.RIVAL}


def test_answers_that_contradict_each_other_are_not_judged() -> None:
    """Of one source, "er" and "sie" are right, as the sentence before is translated."""
    he, she = item_of("Er fiel.", "Sie fiel."), item_of("Sie fiel.", "Er fiel.")
    other = replace(he, source=("a", "c"))
    assert contradictions([he, she, other]) == {"p": [0, 1]}
    assert judged([he, she, other], ["Er fiel."] * 3) == [None, None, Outcome.RIGHT]
    assert contradictions([he, replace(he, id="2")]) == {}


@pytest.mark.parametrize("rival", ["Ja, sie!", "Ja, sie sie."])
def test_a_rival_without_a_missing_word_cannot_be_told(rival: str) -> None:
    """Its words are all those of the right candidate, and perhaps more."""
    assert not has_own_words(item_of("Ja, sie?", rival))
