"""Words of candidates, and those in which a right candidate differs from its rivals."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Sequence

_WORD = re.compile(r"\w+")


def words_of(text: str) -> list[str]:
    """The words in lower case; punctuation and apostrophes separate them."""
    return _WORD.findall(text.lower())


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
