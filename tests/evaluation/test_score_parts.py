"""Parts of a corpus, METEOR, lexical consistency."""

from __future__ import annotations

from typing import Any

import nltk
import pytest
from nltk.stem.snowball import SnowballStemmer
from nltk.translate.meteor_score import single_meteor_score
from sacrebleu.metrics import BLEU

from gtrans.data.documents import read_parallel
from gtrans.evaluation import meteor
from gtrans.evaluation.buckets import by_position, by_sentence_length
from gtrans.evaluation.consistency import (
    Consistency,
    ConsistencyJudge,
    measurements,
    signature,
)
from gtrans.evaluation.metrics import Options, token_counts
from gtrans.evaluation.scores import Corpus, Measurement, measure
from gtrans.evaluation.significance import resample

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


def test_bleu_by_position() -> None:
    first, second = by_position(measured("s_bleu")["s_bleu"], 2)
    assert (first.first, first.last, first.counts) == (1, 2, {"sentences": 5})
    assert (second.first, second.last, second.counts) == (3, 4, {"sentences": 2})
    assert first.scores["s_bleu"]["hyp"] == bleu((0, 0), (0, 1), (1, 0), (1, 1), (2, 0))
    assert first.scores["mean_of_positions"]["hyp"] == pytest.approx(
        (bleu((0, 0), (1, 0), (2, 0)) + bleu((0, 1), (1, 1))) / 2
    )
    assert second.scores["s_bleu"]["perfect"] == pytest.approx(100)


def test_bleu_by_sentence_length() -> None:
    short, middle, long = by_sentence_length(
        measured("s_bleu")["s_bleu"], token_counts(REFERENCES, Options()), [4, 6]
    )
    assert [bucket.counts["sentences"] for bucket in (short, middle, long)] == [2, 3, 2]
    assert [bucket.label for bucket in (short, middle, long)] == ["1 to 4", "5 to 6", "7 and more"]
    assert short.scores["s_bleu"]["hyp"] == bleu((0, 2), (1, 0))
    assert middle.scores["s_bleu"]["hyp"] == bleu((0, 0), (0, 1), (1, 1))
    assert long.scores["s_bleu"]["hyp"] == bleu((0, 3), (2, 0))


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


def test_wordnet_is_used_for_english_where_it_is_at_hand(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def missing(name: str) -> None:
        raise LookupError(name)

    tokenizer = BLEU().tokenizer
    monkeypatch.setattr(nltk.data, "find", missing)
    assert meteor.METEOR(tokenizer, "en").modules == "exact+stem[porter]"
    monkeypatch.setattr(nltk.data, "find", lambda name: name)
    assert meteor.METEOR(tokenizer, "en").modules == "exact+stem[porter]+wordnet"
    assert "wordnet" not in meteor.METEOR(tokenizer, "de").modules


# --- lexical consistency -----------------------------------------------------------------

SOURCES = [
    ["the bank opened .", "a bank closed .", "no bank stayed ."],
    ["the river rose .", "that river fell ."],
]
TARGETS = [
    ["die Bank öffnete .", "eine Bank schloss .", "keine Bank blieb ."],
    ["der Fluss stieg .", "dieser Fluss sank ."],
]


def judge(translations: list[list[str]], lang: str = "") -> Consistency:
    return ConsistencyJudge(SOURCES, TARGETS, BLEU().tokenizer, lang).judge(translations)


def test_consistency_by_hand() -> None:
    # "bank" in three sentences has three pairs, two of them with the first; "river" one.
    of_reference = ConsistencyJudge(SOURCES, TARGETS, BLEU().tokenizer).judge_reference()
    assert of_reference == Consistency(4, 4, 2, consistent_with_first=3, pairs_with_first=3)
    assert judge(TARGETS) == of_reference
    # The third sentence has another word: one pair of "bank" is left. It is the only
    # word of its sentence that nothing else explains, so it counts as a translation.
    varied = [[*TARGETS[0][:2], "keine Sparkasse blieb ."], TARGETS[1]]
    assert judge(varied) == Consistency(2, 4, 2, consistent_with_first=2, pairs_with_first=3)
    assert judge(varied).score == 50
    # With another word in the first sentence, both later ones differ from it.
    at_first = [["die Sparkasse öffnete .", *TARGETS[0][1:]], TARGETS[1]]
    assert judge(at_first) == Consistency(2, 4, 2, consistent_with_first=1, pairs_with_first=3)
    assert judge(at_first).score_with_first == pytest.approx(100 / 3)
    empty = [["" for _ in document] for document in TARGETS]
    assert judge(empty) == Consistency(0, 0, 0, 0, 0)
    assert judge(empty).score is judge(empty).score_with_first is None
    nothing = ConsistencyJudge([], [], BLEU().tokenizer)
    assert nothing.judge([]) == nothing.judge_reference() == Consistency(0, 0, 0, 0, 0)


def test_consistency_is_resampled_by_documents() -> None:
    # "bank" of the first document: 1 of 3 pairs (1 of 2 with the first); "river": 1 of 1.
    varied = judge([[*TARGETS[0][:2], "keine Sparkasse blieb ."], TARGETS[1]])
    systems = {"reference": judge(TARGETS), "varied": varied}
    found = measurements(systems, "term:4+letters")
    assert list(found) == ["lexical_consistency", "lexical_consistency_with_first"]
    whole, first = found.values()
    assert whole.statistics["varied"].tolist() == [[1, 3], [1, 1]]
    assert first.statistics["varied"].tolist() == [[1, 2], [1, 1]]
    assert (whole.unit, whole.higher_is_better, whole.score("varied")) == ("document", True, 50)
    assert first.score("varied") == pytest.approx(varied.score_with_first)
    comparison = resample(whole).comparisons["varied"]
    assert (comparison.difference, comparison.direction) == (-50, "worse")
    # Drawn twice, the first document alone has 1 of 3 pairs, the second one all.
    assert comparison.interval == pytest.approx((-200 / 3, 0))
    # Documents without a pair are not drawn: they would have no score.
    silent = ConsistencyJudge([*SOURCES, ["."]], [*TARGETS, ["."]], BLEU().tokenizer)
    found = measurements({"silent": silent.judge_reference()}, "")
    assert found["lexical_consistency"].statistics["silent"].tolist() == [[3, 3], [1, 1]]
    # A score that a system does not have cannot be compared.
    assert measurements(systems | {"empty": judge([["", "", ""], ["", ""]])}, "") == {}


def test_inflected_forms_are_the_same_where_the_language_has_a_stemmer() -> None:
    inflected = [TARGETS[0], ["der Fluss stieg .", "dieses Flusses Pegel sank ."]]
    assert judge(inflected).score == 75
    assert judge(inflected, "de").score == 100
    assert "|stem:snowball-german|" in signature("13a", "de")
    assert "|stem:no|" in signature("13a", "xx")


def itself(text: list[list[str]]) -> Consistency:
    return ConsistencyJudge(text, text, BLEU().tokenizer).judge(text)


def test_short_words_frequent_words_and_single_sentences_are_no_terms() -> None:
    short = [["an ox ate .", "an ox ran ."]]
    assert itself(short).pairs == 0
    twice = [["bank bank ."], ["bank ."]]  # twice in a sentence, but once in a document
    assert itself(twice).pairs == 0
    frequent = [[f"which word{i} ." for i in range(11)]]
    assert itself(frequent).pairs == 0
    ten = [[f"which word{i} ." for i in range(10)]]
    assert itself(ten).pairs == 45


def test_consistency_falls_with_the_share_of_other_words(real_data: Any) -> None:
    folder = real_data / "newstest"
    pairs = read_parallel(folder / "newstest2021.refA.en.gz", folder / "newstest2021.refA.de.gz")
    sources, references = [list(column) for column in zip(*pairs, strict=True)]

    def varied(every: int) -> list[list[str]]:
        words = iter(range(10**9))
        return [
            [
                " ".join(
                    f"{word[:-1]}xq" if len(word) > 4 and next(words) % every == 0 else word
                    for word in text.split()
                )
                for text in document
            ]
            for document in references
        ]

    judge = ConsistencyJudge(sources, references, BLEU().tokenizer, "de")
    scores = [
        judge.judge(translations).score or 0.0
        for translations in (references, varied(10), varied(3))
    ]
    assert scores[0] > scores[1] + 4 > scores[2] + 8
