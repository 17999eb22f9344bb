"""METEOR as a metric class of sacreBLEU, computed by nltk.

nltk implements Lavie and Agarwal (2007): exact matches, then stems, then synonyms, with one
set of parameters for all languages. The papers report METEOR 1.5 (Denkowski and Lavie, 2014),
which tunes its parameters per language, gives function words a lower weight and matches
paraphrases. Its scores are higher and not comparable; the signature says so.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cache
from typing import Any

import nltk
from nltk.stem.porter import PorterStemmer
from nltk.stem.snowball import SnowballStemmer
from nltk.translate.meteor_score import single_meteor_score
from sacrebleu.metrics.base import Metric, Score, Signature

ALPHA, BETA, GAMMA = 0.9, 3.0, 0.5

STEMMERS = {
    "ar": "arabic",
    "da": "danish",
    "de": "german",
    "es": "spanish",
    "fi": "finnish",
    "fr": "french",
    "hu": "hungarian",
    "it": "italian",
    "nb": "norwegian",
    "nl": "dutch",
    "nn": "norwegian",
    "no": "norwegian",
    "pt": "portuguese",
    "ro": "romanian",
    "ru": "russian",
    "sv": "swedish",
}
"""Snowball's stemmers by language; English uses Porter's, nltk's default for METEOR."""


class _NoWordNet:
    """Replaces a missing WordNet: no word has synonyms."""

    def synsets(self, word: str) -> list[Any]:
        return []


class _Stemmer:
    """A stemmer with a cache; without a stemmer, a word is its own stem."""

    def __init__(self, stem: Callable[[str], str] | None) -> None:
        self.stem = cache(stem or str)


def stem_function(lang: str) -> tuple[str, Callable[[str], str] | None]:
    """Name of the stemmer of a language, and the stemmer; ``("", None)`` if it has none."""
    if lang == "en":
        return "porter", PorterStemmer().stem
    if lang in STEMMERS:
        return f"snowball-{STEMMERS[lang]}", SnowballStemmer(STEMMERS[lang]).stem
    return "", None


def _wordnet(lang: str) -> Any:
    """English WordNet if nltk finds it on this machine, otherwise None; nothing is downloaded."""
    if lang != "en":
        return None
    for resource in ("corpora/wordnet", "corpora/wordnet.zip"):
        try:
            nltk.data.find(resource)
        except LookupError:
            continue
        from nltk.corpus import wordnet

        return wordnet
    return None


class METEORSignature(Signature):
    """The signature of METEOR: everything that a score depends on."""

    def __init__(self, args: dict[str, Any]) -> None:
        super().__init__(args)
        self.info.update(
            {
                "case": "lc",
                "tok": args["tokenizer"].signature(),
                "modules": args["modules"],
                "alpha": ALPHA,
                "beta": BETA,
                "gamma": GAMMA,
                "nltk": nltk.__version__,
                "comparable-with-1.5": False,
            }
        )


class METEOR(Metric):
    """Mean METEOR of the segments, times 100.

    Args:
        tokenizer: a tokeniser of sacreBLEU.
        lang: the language of the translations; it chooses stemmer and synonyms.
    """

    _SIGNATURE_TYPE = METEORSignature

    def __init__(self, tokenizer: Any, lang: str) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.tokenizer = tokenizer
        name, stem = stem_function(lang)
        self._stemmer = _Stemmer(stem)
        wordnet = _wordnet(lang)
        self._wordnet = wordnet or _NoWordNet()
        self.modules = "+".join(
            ["exact", *([f"stem[{name}]"] if stem else []), *(["wordnet"] if wordnet else [])]
        )

    def _preprocess_segment(self, sent: str) -> str:
        return str(self.tokenizer(sent.rstrip()))

    def _extract_reference_info(self, refs: Sequence[str]) -> dict[str, Any]:
        return {"references": [reference.split() for reference in refs]}

    def _compute_segment_statistics(
        self, hypothesis: str, ref_kwargs: dict[str, Any]
    ) -> list[float]:
        best = max(
            single_meteor_score(
                reference,
                hypothesis.split(),
                stemmer=self._stemmer,
                wordnet=self._wordnet,
                alpha=ALPHA,
                beta=BETA,
                gamma=GAMMA,
            )
            for reference in ref_kwargs["references"]
        )
        return [best, 1]

    def _aggregate_and_compute(self, stats: list[list[float]]) -> Score:
        return self._compute_score_from_stats([sum(column) for column in zip(*stats, strict=True)])

    def _compute_score_from_stats(self, stats: list[float]) -> Score:
        return Score("METEOR", 100 * stats[0] / stats[1] if stats[1] else 0.0)
