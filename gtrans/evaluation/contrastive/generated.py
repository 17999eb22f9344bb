"""Which candidate a free translation agrees with: accuracy of generated pronouns.

Like GenPro for ContraPro (Post and Junczys-Dowmunt 2023, "Escaping the sentence-level paradigm in
machine translation"): the model translates, and the words of its translation that tell the
candidates apart are looked up. Punctuation does not count, nor does case, but for German polite
forms (:func:`told_words`).
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Sequence
from enum import StrEnum

from gtrans.evaluation.contrastive.items import Item

_WORD = re.compile(r"\w+")
_ELIDED_ES = re.compile(r"['’`]s\b")
_POLITE = frozenset(["Sie", "Ihnen", "Ihr", "Ihre", "Ihrem", "Ihren", "Ihrer", "Ihres"])
# After these, a capital says that a sentence or a quotation begins.
_OPENING = re.compile(r"(?:^|[.!?…:;\"„“”»«()\[\]–—-])[\s'’‚‘]*$")
ARTICLES = frozenset(
    {
        *("le", "la", "les", "l", "un", "une", "des", "du", "de", "d", "au", "aux"),
        *("der", "die", "das", "den", "dem", "ein", "eine", "einen", "einem", "einer", "eines"),
    }
)
"""French and German articles, and French prepositions joined with them."""


def words_of(text: str) -> list[str]:
    """The words in lower case; punctuation and apostrophes separate them."""
    return _WORD.findall(text.lower())


def told_words(text: str) -> tuple[list[str], list[str]]:
    """The words of a text that is judged by its words, and those of them that may mean another.

    They are those of :func:`words_of`, but for German: "Sie", "Ihnen" and the forms of "Ihr" keep
    their capital inside a sentence, where they mean "you". At the beginning of a sentence they
    cannot be told from "sie" and "ihr" and are among the second words, in lower case. The "'s" of
    "hab's" is "es".
    """
    text = _ELIDED_ES.sub(" es", text)
    words, unsure = [], []
    for match in _WORD.finditer(text):
        word = match[0]
        if word not in _POLITE:
            words.append(word.lower())
        elif _OPENING.search(text[: match.start()]):
            words.append(word.lower())
            unsure.append(word.lower())
        else:
            words.append(word)
    return words, unsure


def changed_words(right: str, wrong: Sequence[str]) -> list[str]:
    """The words of ``right`` that differ in every text of ``wrong``, in their order.

    Texts with as many words are compared word by word, as in sets whose wrong translations are
    made by replacing words. Of others, the words count that ``right`` has more often.
    """
    words, others = words_of(right), [words_of(text) for text in wrong]
    if all(len(other) == len(words) for other in others):
        return [word for place, word in enumerate(words) if all(o[place] != word for o in others)]
    more = [Counter(words) - Counter(other) for other in others]
    return [word for word in words if all(word in counts for counts in more)]


class Outcome(StrEnum):
    """What is in the translation of an item."""

    RIGHT = "right"
    RIVAL = "rival"
    NEITHER = "neither"


def has_own_words(item: Item) -> bool:
    """Whether the right candidate has, for each rival of the item, a word more often than it.

    If not, no word of a translation could show that it agrees with the right candidate: a rival
    that only adds words to it has all of its words.
    """
    right, rivals = _texts(item)
    return bool(rivals) and all(_more(right, text) for text in rivals)


def outcome(item: Item, translation: str) -> Outcome:
    """What a translation of the item's last sentence, the one that needs the context, has.

    A word of a rival is one that it has more often than the right candidate; a word of the right
    candidate is one that it has more often than some rival. Articles count only where candidates
    differ in nothing else: with other nouns they say nothing of the noun.

    - ``RIVAL``: some rival's word is there more often than in the right candidate. A German "Sie"
      that begins a sentence may mean "you", and is a rival's word only if there is no word of
      the right candidate;
    - ``RIGHT``: otherwise, if a word of the right candidate is there more often than in the
      rival that has it least;
    - ``NEITHER``: otherwise; the translation says it in other words.
    """
    counts, unsure = map(Counter, told_words(translation))
    right, rivals = _texts(item)
    wrong = [word for rival in rivals for word in _more(rival, right) if counts[word] > right[word]]
    own = {word for rival in rivals for word in _more(right, rival)}
    if any(counts[word] - unsure[word] > right[word] for word in wrong):
        return Outcome.RIVAL
    if any(counts[word] > min(rival[word] for rival in rivals) for word in own):
        return Outcome.RIGHT
    return Outcome.RIVAL if wrong else Outcome.NEITHER


def _texts(item: Item) -> tuple[Counter[str], list[Counter[str]]]:
    """How often each word is in the last sentence of the right candidate, and of its rivals."""
    right, *rivals = (
        Counter(told_words(item.candidates[place][-1])[0]) for place in (0, *item.rivals)
    )
    return right, rivals


def _more(text: Counter[str], other: Counter[str]) -> set[str]:
    """The words that tell ``text`` from ``other``, which has them less often."""
    more, less = set(text - other), set(other - text)
    return more if (more | less) <= ARTICLES else more - ARTICLES


def judged(
    items: Sequence[Item], translations: Sequence[str], own: Sequence[Item] | None = None
) -> list[Outcome | None]:
    """The outcome of each translation; None of an item that no translation can be judged by.

    ``own``: the items with their own contexts, if those of ``items`` are random.
    """
    unclear = {place for places in contradictions(own or items).values() for place in places}
    return [
        None if place in unclear or not has_own_words(item) else outcome(item, text)
        for place, (item, text) in enumerate(zip(items, translations, strict=True))
    ]


def contradictions(items: Sequence[Item]) -> dict[str, list[int]]:
    """The items whose right answers contradict each other for one source, by phenomenon.

    In the anaphora set of Bawden et al. the pairs of a block share a source, and the right pronoun
    depends on how the sentence before is translated; a perfect translation would get half of them.
    """
    by_source: dict[tuple[str, ...], list[int]] = {}
    for place, item in enumerate(items):
        if has_own_words(item):
            by_source.setdefault(item.source, []).append(place)
    contradicting: dict[str, list[int]] = {}
    for places in by_source.values():
        others = {items[place].target[-1] for place in places}
        for place in places:
            if any(outcome(items[place], text) is Outcome.RIVAL for text in others):
                contradicting.setdefault(items[place].phenomenon, []).append(place)
    return contradicting


def outcome_counts(
    items: Sequence[Item], outcomes: Sequence[Outcome | None]
) -> dict[str, dict[str, int]]:
    """How often each outcome occurs, by phenomenon; items without one are ``not judged``."""
    counts: dict[str, dict[str, int]] = {}
    for item, outcome in zip(items, outcomes, strict=True):
        phenomenon_counts = counts.setdefault(item.phenomenon, {kind.value: 0 for kind in Outcome})
        key = "not judged" if outcome is None else outcome.value
        phenomenon_counts[key] = phenomenon_counts.get(key, 0) + 1
    return counts
