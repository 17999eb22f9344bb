"""Words of candidates, and those in which a right candidate differs from its rivals."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Sequence

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
    for found in _WORD.finditer(text):
        word = found[0]
        if word not in _POLITE:
            words.append(word.lower())
        elif _OPENING.search(text[: found.start()]):
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
