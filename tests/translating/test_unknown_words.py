"""Words that a model lacks are named, and symbols are copied if that is asked for."""

from __future__ import annotations

import time

import pytest

from gtrans.text.subwords import SentencePiecePipeline
from gtrans.translating.unknown_words import unknown_words, with_symbols, words_of_subwords


def lacks(*parts: str):
    """The words of a sentence with one of these parts."""
    return lambda text: [word for word in text.split() if any(part in word for part in parts)]


def test_words_that_a_model_lacks_are_named() -> None:
    text = ["The lamp 🙂 is new.", "Łukasz is here.", "The 灯 is Łukasz."]
    told = unknown_words("a.en", text, "en", lacks("🙂", "Łukasz", "灯"))
    assert told == "a.en: 4 of 12 words are not in the vocabulary: 🙂, Łukasz, 灯"
    assert unknown_words("a.en", text, "en", lacks("x")) == ""
    told = unknown_words("a.zh", ["灯是新的。"], "zh_CN", lambda text: ["灯"])
    assert told == "a.zh: 1 of 5 characters are not in the vocabulary: 灯"
    told = unknown_words("a.en", [" ".join(f"w{n}" for n in range(30))], "en", lacks("w"))
    assert told.endswith("w9 and 20 more")
    tokens = ["<", "p", ">", ".", "<", "/", "p", ">", "."]
    told = unknown_words("a.en", ["<p>Go home. </p> Go."], "en", lambda text: tokens)
    assert told.startswith("a.en: 4 of 4 words")


def test_a_sentence_of_many_unknown_words_is_counted_in_linear_time() -> None:
    """For each word a copy of the words before it would take minutes."""
    sentence = " ".join(f"w{number}" for number in range(100_000))
    start = time.process_time()
    told = unknown_words("a.en", [sentence], "en", str.split)
    assert told.startswith("a.en: 100,000 of 100,000 words")
    assert time.process_time() - start < 10


@pytest.mark.parametrize(
    ("subwords", "lang", "words"),
    [
        ("Ł@@ uk@@ asz is", "en", ["Ł@@ uk@@ asz", "is"]),
        ("▁the ▁l amp", "en", ["▁the", "▁l amp"]),
        ("▁灯 是", "zh", ["▁灯", "是"]),
    ],
)
def test_words_of_subwords(subwords: str, lang: str, words: list[str]) -> None:
    assert list(map(" ".join, words_of_subwords(subwords.split(), lang))) == words


@pytest.mark.parametrize(
    ("source", "translation", "expected"),
    [
        ("The lamp 🙂 is new.", "Die Lampe ist neu.", "Die Lampe 🙂 ist neu."),
        ("It is new 👍🏽.", "Sie ist neu.", "Sie ist neu. 👍🏽"),
        ("☑ It is new.", "Sie ist neu.", "☑ Sie ist neu."),
        ("A 👩‍💻 and 🎉 go.", "A 🎉 und B.", "A 👩‍💻 🎉 und B."),
        ("5 + 3 = 8, #a.", "5 und 3.", "5 und 3."),
    ],
)
def test_symbols_are_copied(source: str, translation: str, expected: str) -> None:
    assert with_symbols(source, translation) == expected


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("house\u200bis", "house is"), ("a\ufeffb\u200cc", "a b c"), ("\ufeffhouse", "house"),
        ("می\u200cخواهم", "می\u200cخواهم"), ("so\u00adft", "soft"), ("é\u200bà", "é à"),
    ],
)  # fmt: skip
def test_zero_width_spaces_end_words_of_published_models(text: str, words: str) -> None:
    pipeline = SentencePiecePipeline.__new__(SentencePiecePipeline)
    assert pipeline.tokenise(text) == words
