"""German pronouns of the text forms of ContraPro and ContraCAT.

In both, the wrong translations are the right one with other pronouns (and in ContraPro
possessives), so the candidates of an example have the same words elsewhere.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from gtrans.evaluation.contrastive.words import changed_words, words_of

_FORMS = {
    "er": ("er", "ihn", "ihm", "sein", "seine", "seinen", "seinem", "seiner", "seines"),
    "sie": ("sie", "ihr", "ihre", "ihren", "ihrem", "ihrer", "ihres"),
    "es": ("es",),
}
_PRONOUN_OF = {form: pronoun for pronoun, forms in _FORMS.items() for form in forms}
GENDERS = {"er": "m", "sie": "f", "es": "n"}
"""Pronouns of the third person singular, and their genders."""


def lemma_of(word: str) -> str:
    """The pronoun that a word is a form of, or '' if it is none: of "seinen" er."""
    return _PRONOUN_OF.get(word.lower(), "")


def pronoun_of(right: str, wrong: Sequence[str]) -> str:
    """The pronoun in which a text differs from all of ``wrong``: er, sie, es, or '' if unknown."""
    found = {_PRONOUN_OF.get(word, "") for word in changed_words(right, wrong)}
    return found.pop() if len(found) == 1 else ""


def pronouns_of(texts: Sequence[str]) -> list[str]:
    """The pronoun that each text has where they all differ: er, sie, es, or '' if unknown."""
    words = [words_of(text) for text in texts]
    places = [column for column in zip(*words, strict=False) if len(set(column)) > 1]
    if len(places) != 1 or len({len(of) for of in words}) > 1:
        return [""] * len(texts)
    return [_PRONOUN_OF.get(word, "") for word in places[0]]


def is_example(right: str, wrong: Sequence[str]) -> bool:
    """Whether the wrong texts put both other pronouns in the place of that of the right one."""
    pronoun, words = pronoun_of(right, wrong), words_of(right)
    others = {
        _PRONOUN_OF[new]
        for text in wrong
        for old, new in zip(words, words_of(text), strict=True)
        if old != new
    }
    return bool(pronoun) and others == _FORMS.keys() - {pronoun}


def differ_in_pronouns(text: str, changed: str) -> bool:
    """Whether two texts have the same words but for pronouns."""
    words, others = words_of(text), words_of(changed)
    return len(words) == len(others) and all(
        one == other or {one, other} <= _PRONOUN_OF.keys()
        for one, other in zip(words, others, strict=True)
    )


def examples(keys: Sequence[object], texts: Sequence[str]) -> Iterator[tuple[int, int]]:
    """The lines of each example, which begins with its right translation: ``(begin, end)``.

    The lines of an example have equal keys, differ in nothing but pronouns, and are all
    different. So the next example begins where one of these ends, also if it has the same source
    and context: two pronouns of a sentence make two examples with the same right translation.

    Args:
        keys: the source of each line with its context.
        texts: the translation of each line.
    """
    begin = 0
    while begin < len(texts):
        seen = {texts[begin]}
        end = begin + 1
        while (
            end < len(texts)
            and keys[end] == keys[begin]
            and texts[end] not in seen
            and differ_in_pronouns(texts[begin], texts[end])
        ):
            seen.add(texts[end])
            end += 1
        yield begin, end
        begin = end
