"""Parts of a corpus, METEOR."""

from __future__ import annotations

from typing import Any

import nltk
import pytest
from nltk.stem.snowball import SnowballStemmer
from nltk.translate.meteor_score import single_meteor_score
from sacrebleu.metrics import BLEU

from gtrans.evaluation import metrics, table
from gtrans.evaluation.metrics import METRICS, Corpus, Measurement, Options, measure, token_counts

REFERENCES = [
    ["a b c d e f", "g h i j k", "l m n o", "p q r s t u v w"],
    ["a b c d", "b c d e f g"],
    ["c d e f g h i"],
]
HYPOTHESES = [
    ["a b c d e x", "g h i j k", "l m n x", "p q r s x u v w"],
    ["a b c x", ""],
    ["c d e f x h i"],
]


def measured(*keys: str) -> dict[str, Measurement]:
    corpus = Corpus(REFERENCES, [[range(len(d))] for d in REFERENCES])
    return measure(corpus, {"hyp": HYPOTHESES, "perfect": REFERENCES}, keys)


def bleu(*places: tuple[int, int]) -> float:
    hyp = [HYPOTHESES[document][sentence] for document, sentence in places]
    ref = [REFERENCES[document][sentence] for document, sentence in places]
    return float(BLEU().corpus_score(hyp, [ref]).score)


# --- parts -------------------------------------------------------------------------------


def test_bleu_by_position_and_by_length(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(table, "POSITIONS", 2)
    monkeypatch.setattr(table, "SENTENCE_LENGTHS", (4, 6))
    lengths = token_counts(REFERENCES, Options())
    parts = table.by_part(measured("s_bleu")["s_bleu"], lengths)
    first, second = parts["by_position"]
    assert (first.first, first.last, first.sentences) == (1, 2, 5)
    assert (second.first, second.last, second.sentences) == (3, 4, 2)
    assert first.scores["hyp"] == bleu((0, 0), (0, 1), (1, 0), (1, 1), (2, 0))
    assert second.scores["perfect"] == pytest.approx(100)
    short, middle, long = parts["by_sentence_length"]
    assert [part.sentences for part in (short, middle, long)] == [2, 3, 2]
    assert [part.last for part in (short, middle, long)] == [4, 6, None]
    assert short.scores["hyp"] == bleu((0, 2), (1, 0))
    assert middle.scores["hyp"] == bleu((0, 0), (0, 1), (1, 1))
    assert long.scores["hyp"] == bleu((0, 3), (2, 0))
    # A sentence whose reference is empty is in the first part.
    lengths[0] = 0
    shorter = table.by_part(measured("s_bleu")["s_bleu"], lengths)["by_sentence_length"]
    assert [part.sentences for part in shorter] == [3, 2, 2]


# --- METEOR ------------------------------------------------------------------------------

GERMAN = ["Die Katzen liefen in den Gärten .", "Er hat geschlafen ."]
OTHER = ["Die Katze lief im Garten .", "Er schläft ."]


class NoSynonyms:
    def synsets(self, word: str) -> list[Any]:
        return []


def meteor_score(lang: str) -> Measurement:
    corpus = Corpus([GERMAN], [[range(2)]])
    return measure(corpus, {"x": [OTHER]}, ["meteor"], Options(target_lang=lang))["meteor"]


def test_meteor_is_the_mean_of_nltks() -> None:
    stemmer = SnowballStemmer("german")
    expected = [
        single_meteor_score(
            ref.split(), hyp.split(), stemmer=stemmer, wordnet=NoSynonyms()  # type: ignore[arg-type]
        )
        for ref, hyp in zip(GERMAN, OTHER, strict=True)
    ]  # fmt: skip
    assert meteor_score("de").score("x") == pytest.approx(50 * sum(expected))


def test_stems_match_only_where_there_is_a_stemmer() -> None:
    german, unknown = meteor_score("de"), meteor_score("xx")
    assert german.score("x") > unknown.score("x")
    assert "|modules:exact|" in unknown.signature
    assert "|modules:exact+stem[snowball-german]|" in german.signature
    assert "|comparable-with-1.5:no|" in german.signature


def test_wordnet_is_used_for_english_where_it_is_at_hand(monkeypatch: pytest.MonkeyPatch) -> None:
    def missing(name: str) -> None:
        raise LookupError(name)

    def modules(lang: str, found: Any) -> str:
        monkeypatch.setattr(nltk.data, "find", found)
        metrics._word_forms.cache_clear()
        return METRICS["meteor"].signature(Options(target_lang=lang), 1).split("|")[3]

    assert modules("en", missing) == "modules:exact+stem[porter]"
    assert modules("en", str) == "modules:exact+stem[porter]+wordnet"
    assert "wordnet" not in modules("de", str)
    metrics._word_forms.cache_clear()
