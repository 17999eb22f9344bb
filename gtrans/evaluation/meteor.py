"""nltk's METEOR (Lavie and Agarwal 2007) as a metric class of sacreBLEU.

It matches words, then their stems, then synonyms, with one set of parameters for all languages.
Scores of METEOR 1.5 (Denkowski and Lavie 2014) are not comparable.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cache
from typing import Any

import nltk
from nltk.stem.porter import PorterStemmer
from nltk.stem.snowball import SnowballStemmer
from nltk.translate.meteor_score import meteor_score
from sacrebleu.metrics.base import Metric, Score, Signature

# Languages with a stemmer of Snowball's; English has Porter's, nltk's default for METEOR.
_SNOWBALL = {
    "ar": "arabic", "da": "danish", "de": "german", "es": "spanish", "fi": "finnish",
    "fr": "french", "hu": "hungarian", "it": "italian", "nb": "norwegian", "nl": "dutch",
    "nn": "norwegian", "no": "norwegian", "pt": "portuguese", "ro": "romanian", "ru": "russian",
    "sv": "swedish",
}  # fmt: skip


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
    if lang in _SNOWBALL:
        return f"snowball-{_SNOWBALL[lang]}", SnowballStemmer(_SNOWBALL[lang]).stem
    return "", None


def _wordnet(lang: str) -> Any:
    """English WordNet if nltk finds it on this machine, otherwise None; nothing is downloaded."""
    for resource in ("corpora/wordnet", "corpora/wordnet.zip") if lang == "en" else ():
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
        tokenizer = args["tokenizer"].signature()
        self.info.update({"case": "lc", "tok": tokenizer, "modules": args["modules"]})
        self.info.update({"alpha": 0.9, "beta": 3.0, "gamma": 0.5})  # nltk's defaults
        self.info.update({"nltk": nltk.__version__, "comparable-with-1.5": False})


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
        wordnet = _wordnet(lang)
        self._words = {"stemmer": _Stemmer(stem), "wordnet": wordnet or _NoWordNet()}
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
        words: Any = self._words
        return [meteor_score(ref_kwargs["references"], hypothesis.split(), **words), 1]

    def _aggregate_and_compute(self, stats: list[list[float]]) -> Score:
        return self._compute_score_from_stats([sum(column) for column in zip(*stats, strict=True)])

    def _compute_score_from_stats(self, stats: list[float]) -> Score:
        return Score("METEOR", 100 * stats[0] / stats[1] if stats[1] else 0.0)
