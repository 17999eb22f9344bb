"""Scores, their segments, and how translations are matched with their reference."""

from __future__ import annotations

from itertools import pairwise
from pathlib import Path
from tempfile import TemporaryDirectory

import nltk
import pytest
import sacrebleu
from hypothesis import given, settings
from hypothesis import strategies as st
from support.score_corpus import CHUNKS, HYPOTHESES, REFERENCES, scores, text, write

from gtrans.data.units import split_chunks
from gtrans.errors import GtransError
from gtrans.evaluation.metrics import METRICS, Corpus, Documents, Options, measure
from gtrans.evaluation.texts import read_texts

# --- chunks ---------------------------------------------------------------------------

lengths = st.lists(st.tuples(st.integers(0, 40), st.integers(0, 40)), max_size=40)


def test_chunks_by_hand() -> None:
    # costs: 5, 5, 12 (longer than the limit: alone), 3, 7 (exactly ten with the 3)
    assert split_chunks([3, 1, 10, 1, 5], [2, 3, 4, 0, 5], 10) == [
        range(2),
        range(2, 3),
        range(3, 5),
    ]
    assert split_chunks([], [], 10) == []
    with pytest.raises(ValueError):
        split_chunks([1, 2], [1], 10)


# --- scores ------------------------------------------------------------------------------


def test_bleu_by_hand() -> None:
    # Sentences "a b c d" / "e f g h", translated "a b c d" / "e f g x":
    # s-BLEU: 7/8, 5/6, 3/4, 1/2 n-grams match; joined: 7/8, 6/7, 5/6, 4/5.
    corpus = Corpus([["a b c d", "e f g h"]], [[range(2)]])
    found = measure(corpus, {"x": [["a b c d", "e f g x"]]})
    s_bleu = 100 * (7 / 8 * 5 / 6 * 3 / 4 * 1 / 2) ** 0.25
    d_bleu = 100 * (7 / 8 * 6 / 7 * 5 / 6 * 4 / 5) ** 0.25
    assert found["s_bleu"].score("x") == pytest.approx(s_bleu)
    assert found["d_bleu"].score("x") == pytest.approx(d_bleu)
    assert found["d_bleu_chunk"].score("x") == pytest.approx(d_bleu)


def test_perfect_match_and_nothing_translated() -> None:
    perfect = dict.fromkeys(METRICS, 100.0) | {"ter": 0.0}
    found = scores(REFERENCES)
    assert found.pop("meteor") > 99  # its chunk penalty is never quite 0
    perfect.pop("meteor")
    assert found == pytest.approx(perfect)
    empty = [["" for _ in document] for document in REFERENCES]
    assert scores(empty) == dict.fromkeys(METRICS, 0.0) | {"ter": 100.0}


def test_case_is_ignored_only_on_request() -> None:
    shouted = [[sentence.upper() for sentence in document] for document in REFERENCES]
    assert scores(shouted)["s_bleu"] < 20
    ignored = scores(shouted, Options(lowercase=True))
    higher = [key for key, metric in METRICS.items() if metric.higher_is_better]
    assert [ignored[key] for key in higher if key != "meteor"] == pytest.approx([100.0] * 5)


def test_signatures_name_case_tokeniser_and_unit() -> None:
    def signatures(options: Options) -> dict[str, str]:
        corpus = Corpus(REFERENCES, CHUNKS, "chunk(9,bpe)")
        found = measure(corpus, {"x": HYPOTHESES}, list(METRICS), options)
        return {key: measurement.signature for key, measurement in found.items()}

    version = f"version:{sacrebleu.__version__}|unit:"
    bleu = f"nrefs:1|case:mixed|eff:no|tok:13a|smooth:exp|{version}"
    chrf = "nrefs:1|case:mixed|eff:yes|nc:6|nw:{}|space:no|" + version
    assert signatures(Options()) == {
        "s_bleu": bleu + "sentence",
        "d_bleu": bleu + "document",
        "d_bleu_chunk": bleu + "chunk(9,bpe)",
        "chrf": chrf.format(0) + "sentence",
        "chrf_pp": chrf.format(2) + "sentence",
        "ter": f"nrefs:1|case:lc|tok:tercom|norm:no|punct:yes|asian:no|{version}sentence",
        "meteor": "nrefs:1|case:lc|tok:13a|modules:exact|alpha:0.9|beta:3.0|gamma:0.5"
        f"|nltk:{nltk.__version__}|comparable-with-1.5:no|{version}sentence",
    }
    assert "|case:lc|" in signatures(Options(lowercase=True))["chrf"]
    chinese = signatures(Options(target_lang="zh"))
    assert "|tok:zh|" in chinese["d_bleu"]
    assert "|norm:yes|punct:yes|asian:yes|" in chinese["ter"]
    german = signatures(Options(target_lang="de"))
    assert "|tok:13a|" in german["d_bleu"]
    assert "|modules:exact+stem[snowball-german]|" in german["meteor"]
    assert "|tok:char|" in signatures(Options(tokenize="char", target_lang="zh"))["d_bleu"]


def test_many_processes_count_as_one_does() -> None:
    references = [[f"{sentence} {i % 7}" for sentence in REFERENCES[0]] for i in range(700)]
    hypotheses = [[f"{sentence} {i % 5}" for sentence in HYPOTHESES[0]] for i in range(700)]
    corpus = Corpus(references, [[range(3)] for _ in references])
    systems = {"one": hypotheses, "other": references}
    keys = ["s_bleu", "d_bleu", "meteor"]
    alone, together = (measure(corpus, systems, keys, jobs=jobs) for jobs in (1, 2))
    for key in keys:
        for name in systems:
            assert (alone[key].statistics[name] == together[key].statistics[name]).all()


# --- structure ---------------------------------------------------------------------------


def hypotheses(path: str, reference: str) -> Documents:
    return read_texts([reference], None, {"x": path}, "aligned").systems["x"]


@pytest.mark.parametrize(
    ("hypothesis", "expected"),
    [
        ("a\nb\n\nc\n", [["a", "b"], ["c"]]),
        ("a\nb\n\nc\n\n", [["a", "b"], ["c"]]),  # by documents: a boundary at the end
        ("a\nb\n<d>\nc\n", [["a", "b"], ["c"]]),
        ("a\nb\nc\n", [["a", "b"], ["c"]]),  # no boundary, but three sentences
        ("a\n\n\nc\n", [["a", ""], ["c"]]),  # line 2 is an empty translation
    ],
)
def test_ways_to_tell_the_documents_of_a_hypothesis(
    tmp_path: Path, hypothesis: str, expected: list[list[str]]
) -> None:
    ref = write(tmp_path / "ref", "A\nB\n\nC\n")
    assert hypotheses(write(tmp_path / "hyp", hypothesis), ref) == expected


@pytest.mark.parametrize(
    ("hypothesis", "difference"),
    [
        # A sentence too many in the first document.
        ("a\nb\nc\n\nd\n", "{hyp}:3 is a sentence but {ref}:3 is a document boundary"),
        # The same number of lines, but the boundary comes a line too early.
        ("a\n\nb\nc\n", "{hyp}:2 is a document boundary but {ref}:2 is a sentence"),
        ("a\nb\n\nc\nd\n", "{hyp}:5 is a sentence but {ref} ends"),
        # Cut short: the last translation is not empty, it is missing.
        ("a\n\n", "{ref} has 3 sentences: {ref}:2 (document 1) has no counterpart"),
        ("a\nb\nc\nd\n", "{ref} has 3 sentences: {hyp}:4 has no counterpart"),
        # An empty translation needs the boundaries.
        ("a\n\nc\n", "{hyp}:2 is a document boundary but {ref}:2 is a sentence"),
        ("a\n\nc\n", "(unless the files have the same lines)"),
        ("", "'{hyp}' holds no sentence"),
    ],
)
def test_another_structure_is_refused_with_the_first_line_that_differs(
    tmp_path: Path, hypothesis: str, difference: str
) -> None:
    ref = write(tmp_path / "ref", "A\nB\n\nC\n")
    hyp = write(tmp_path / "hyp", hypothesis)
    with pytest.raises(GtransError) as caught:
        hypotheses(hyp, ref)
    assert difference.format(hyp=hyp, ref=ref) in str(caught.value)
    assert hyp in str(caught.value)


@settings(max_examples=50)
@given(st.lists(st.lists(st.booleans(), min_size=1, max_size=4), min_size=1, max_size=4))
def test_empty_translations_stay_in_their_place(empty: list[list[bool]]) -> None:
    expected = [["" if gone else "x y" for gone in document] for document in empty]
    with TemporaryDirectory() as folder:
        ref = write(Path(folder, "ref"), text([["A" for _ in document] for document in empty]))
        hyp = write(Path(folder, "hyp"), text(expected))
        lines = [n for n, line in enumerate(Path(hyp).read_text().split("\n"), 1) if line]
        of_documents = lines == [*range(1, len(empty) + 1)] and sum(map(len, empty)) > len(empty)
        if lines and not of_documents:
            assert hypotheses(hyp, ref) == expected
            return
        with pytest.raises(GtransError, match="no sentence|as many as there are documents"):
            hypotheses(hyp, ref)


@given(lengths, st.integers(1, 100))
def test_chunks_partition_the_document_greedily_within_the_limit(
    pairs: list[tuple[int, int]], limit: int
) -> None:
    source, target = [a for a, _ in pairs], [b for _, b in pairs]
    cost = [max(pair) + 2 for pair in pairs]
    chunks = split_chunks(source, target, limit)

    assert [index for span in chunks for index in span] == list(range(len(pairs)))
    assert all(len(span) > 0 for span in chunks)
    for span in chunks:
        assert sum(cost[i] for i in span) <= limit or len(span) == 1
    for span, following in pairwise(chunks):
        assert sum(cost[i] for i in span) + cost[following.start] > limit
