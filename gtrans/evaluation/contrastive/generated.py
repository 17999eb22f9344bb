"""Which candidate a free translation agrees with: accuracy of generated pronouns.

Like GenPro for ContraPro (Post and Junczys-Dowmunt 2023, "Escaping the sentence-level paradigm in
machine translation"): the model translates, and the words of its translation that tell the
candidates apart are looked up. Case and punctuation do not count.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from enum import StrEnum

from gtrans.evaluation.contrastive.items import Item
from gtrans.evaluation.contrastive.words import words_of


class Outcome(StrEnum):
    """What is in the translation of an item."""

    RIGHT = "right"
    RIVAL = "rival"
    NEITHER = "neither"


def has_own_words(item: Item) -> bool:
    """Whether each rival of the item differs from its right candidate in a word that one lacks."""
    right = Counter(words_of(item.target[-1]))
    texts = [Counter(words_of(item.candidates[rival][-1])) for rival in item.rivals]
    return item.has_right and bool(texts) and all(right - text for text in texts)


def outcome(item: Item, translation: str) -> Outcome:
    """What a translation of the item's last sentence, the one that needs the context, has.

    A word of a rival is one that it has more often than the right candidate; a word of the right
    candidate is one that it has more often than some rival.

    - ``RIVAL``: some rival's word is there more often than in the right candidate ("Sie" for
      "you" is thus no "sie" for "it" if the right candidate has it too);
    - ``RIGHT``: otherwise, if a word of the right candidate is there more often than in the
      rival that has it least;
    - ``NEITHER``: otherwise; the translation says it in other words.
    """
    found, right = Counter(words_of(translation)), Counter(words_of(item.target[-1]))
    rivals = [Counter(words_of(item.candidates[rival][-1])) for rival in item.rivals]
    if any(found[word] > right[word] for rival in rivals for word in rival - right):
        return Outcome.RIVAL
    own = {word for rival in rivals for word in right - rival}
    if any(found[word] > min(rival[word] for rival in rivals) for word in own):
        return Outcome.RIGHT
    return Outcome.NEITHER


def outcome_counts(
    items: Sequence[Item], found: Sequence[Outcome | None]
) -> dict[str, dict[str, int]]:
    """How often each outcome occurs, by phenomenon; items without one are ``not judged``."""
    counts: dict[str, dict[str, int]] = {}
    for item, one in zip(items, found, strict=True):
        if not item.contrastive:
            continue
        of_phenomenon = counts.setdefault(item.phenomenon, {kind.value: 0 for kind in Outcome})
        key = "not judged" if one is None else one.value
        of_phenomenon[key] = of_phenomenon.get(key, 0) + 1
    return counts


def quality(items: Sequence[Item], translations: Sequence[str]) -> dict[str, dict[str, float]]:
    """BLEU and chrF2 of the last sentences by phenomenon, of items without wrong translations."""
    pairs: dict[str, list[tuple[str, str]]] = {}
    for item, translation in zip(items, translations, strict=True):
        if not item.contrastive:
            pairs.setdefault(item.phenomenon, []).append((translation, item.target[-1]))
    if not pairs:
        return {}
    # Imported on demand: sacreBLEU needs half a second, which other sets should not.
    from gtrans.evaluation.metrics import METRICS, Options

    metrics = {key: METRICS[key].build(Options()) for key in ("s_bleu", "chrf")}
    scores: dict[str, dict[str, float]] = {}
    for phenomenon, of_phenomenon in pairs.items():
        found, references = zip(*of_phenomenon, strict=True)
        scores[phenomenon] = {"items": len(found)} | {
            key: metric.corpus_score(found, [references]).score for key, metric in metrics.items()
        }
    return scores
