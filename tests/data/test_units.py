"""Units, as sentence numbers and as rows of a batch."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor

from gtrans.data.context_text import ContextText, DistinctWords, WordBoundaries
from gtrans.data.examples import Example, ExampleBuilder
from gtrans.data.frame import Frame
from gtrans.data.units import (
    UNITS,
    ChunkStreamUnit,
    DocumentUnit,
    SentenceUnit,
    StreamUnit,
    Unit,
    UnitSpan,
    WindowUnit,
    unit_of,
)
from gtrans.errors import GtransError

BOS, PAD, EOS = 0, 1, 2
FRAME = Frame(BOS, EOS, PAD)


def sentence(*words: int) -> Tensor:
    return torch.tensor([*words, EOS])


DOCUMENT = [sentence(10), sentence(20, 21), sentence(30), sentence(40)]


def examples_of(
    builder: ExampleBuilder, source: list[Tensor], target: list[Tensor] | None = None
) -> list[Example]:
    return [
        builder.example(
            span,
            [source[number] for number in span.source],
            None if target is None else [target[number] for number in span.target],
        )
        for span in builder.unit.cut([len(one) - 1 for one in source])
    ]


# Ten words of a single subword, 50 .. 59, and one of the subwords 60, 61.
ENTRIES = [f"x{number}" if number != 60 else "x@@" for number in range(100)]
WORDS = DistinctWords.of(
    np.array([*range(50, 60), EOS, 60, 61, 50, EOS, 3, EOS]), EOS, WordBoundaries.of(ENTRIES), [3]
)


def window(**options: Any) -> ExampleBuilder:
    kind = options.get("context_kind")
    context = ContextText(sentence(7, 8)) if kind == "fixed" else ContextText(words=WORDS, seed=1)
    return ExampleBuilder(FRAME, WindowUnit(**options), context)


def settings(**options: Any) -> SimpleNamespace:
    """Options of units; those left out are open."""
    open_options = {
        "max_doc_tokens": 512, "overlap": 0, "stream_of": None,
        "context_before": None, "context_after": None,
        "context_kind": "true", "context_sentence": None, "context_sides": None,
    }  # fmt: skip
    return SimpleNamespace(**{**open_options, **options})


ANY_UNIT = st.one_of(
    st.just(SentenceUnit()),
    st.just(StreamUnit()),
    st.builds(ChunkStreamUnit, st.integers(8, 60)),
    st.builds(DocumentUnit, st.integers(8, 60)),
    st.builds(
        WindowUnit,
        before=st.integers(0, 3),
        after=st.integers(0, 3),
        context_kind=st.sampled_from(["true", "none"]),
        context_sides=st.sampled_from(["source", "both"]),
    ),
    st.builds(
        WindowUnit,
        before=st.integers(0, 3),
        context_kind=st.sampled_from(["true", "none"]),
        context_sides=st.just("history"),
    ),
)


@given(st.lists(st.integers(1, 30), max_size=20), ANY_UNIT, st.booleans())
def test_every_sentence_is_current_once_and_in_order(
    lengths: list[int], unit: Unit, to_translate: bool
) -> None:
    spans = unit.cut_to_translate(lengths) if to_translate else unit.cut(lengths)
    assert [k for span in spans for k in span.kept] == list(range(len(lengths)))
    for span in spans:
        assert set(span.kept) <= set(span.predicted) <= set(span.target) <= set(span.source)
        assert set(span.source) <= set(range(len(lengths)))  # no neighbours beyond the ends


def test_a_history_is_read_in_training_and_made_in_decoding() -> None:
    unit = WindowUnit(before=2, context_sides="history")
    spans = unit.cut([1, 1, 1, 1])
    windows = [range(0, 1), range(0, 2), range(0, 3), range(1, 4)]
    singles = [range(number, number + 1) for number in range(4)]
    assert [span.source for span in spans] == windows
    assert [span.target for span in spans] == windows
    assert [span.predicted for span in spans] == singles
    assert [span.kept for span in spans] == singles
    # All sentences at once: each translation is needed for the next ones.
    assert unit.cut_to_translate([1, 1, 1, 1]) == [UnitSpan(*[range(4)] * 4)]
    assert unit.cut_to_translate([]) == []
    assert unit.sentence_by_sentence and not unit.predicts_context


def test_units_by_name_and_options() -> None:
    assert set(UNITS) == {"sentence", "window", "document", "stream"}
    assert unit_of(None, settings(max_doc_tokens=99)) == DocumentUnit(99)
    assert unit_of("window", settings()) == WindowUnit(1, 0, "true", "source")
    given = settings(context_before=0, context_after=2, context_kind="none", context_sides="both")
    assert unit_of("window", given) == WindowUnit(0, 2, "none", "both")
    assert unit_of("sentence", settings(context_before=3)) == SentenceUnit()
    assert unit_of("stream", settings()) == StreamUnit()
    chunks = settings(stream_of="instances", max_doc_tokens=99)
    assert unit_of("stream", chunks) == ChunkStreamUnit(99)


def test_limits_concern_documents_only() -> None:
    assert DocumentUnit(20).limited_to(9) == DocumentUnit(9)
    assert len(DocumentUnit(8).unlimited().cut([100] * 50)) == 1
    for unit in (SentenceUnit(), WindowUnit(2), StreamUnit()):
        assert unit.limited_to(9) == unit.unlimited() == unit


def test_rows_of_windows() -> None:
    examples = window(before=1, after=1)
    batch = examples.collate(examples_of(examples, DOCUMENT, DOCUMENT)[:2])
    assert batch["net_input"]["src_tokens"].tolist() == [
        [BOS, 10, EOS, BOS, 20, 21, EOS, PAD, PAD, PAD],
        [BOS, 10, EOS, BOS, 20, 21, EOS, BOS, 30, EOS],
    ]
    assert batch["net_input"]["current_sentence"].tolist() == [0, 1]
    assert batch["net_input"]["prev_output_tokens"].tolist() == [[BOS, 10, PAD], [BOS, 20, 21]]
    assert batch["target"].tolist() == [[10, EOS, PAD], [20, 21, EOS]]
    assert batch["nsentences"] == 2 and batch["ntokens"] == 5
    written = examples.sources_to_translate(batch["net_input"])
    assert [[one.tolist() for one in row] for row in written] == [[[10, EOS]], [[20, 21, EOS]]]
    assert examples.kept_sentences(batch["net_input"]) == [slice(None)] * 2


def test_rows_of_windows_on_both_sides() -> None:
    examples = window(before=1, context_sides="both")
    batch = examples.collate(examples_of(examples, DOCUMENT, DOCUMENT))
    assert batch["nsentences"] == 7
    written = examples.sources_to_translate(batch["net_input"])
    assert [[len(one) - 1 for one in row] for row in written] == [[1], [1, 2], [2, 1], [1, 1]]
    assert examples.kept_sentences(batch["net_input"]) == [slice(0, 1)] + [slice(1, 2)] * 3


@pytest.mark.parametrize("special_tokens", ["both", "end", "bart"])
def test_rows_with_a_history(special_tokens: str) -> None:
    """The model reads the translations before the current one, and is asked for that one only."""
    frame = Frame(BOS, EOS, PAD, special_tokens)
    builder = ExampleBuilder(frame, WindowUnit(before=2, context_sides="history"))
    plain = ExampleBuilder(frame, SentenceUnit())
    found = examples_of(builder, DOCUMENT, DOCUMENT)
    for number, example in enumerate(found):
        window = DOCUMENT[max(number - 2, 0) : number + 1]
        read, target = frame.target(window)
        assert example["source"].tolist() == frame.source(window).tolist()
        assert example["prev_output_tokens"].tolist() == read.tolist()
        assert (example["current_sentence"], example["predicted_sentences"]) == (len(window) - 1, 1)
        # Words and end token of the current sentence stand where they were, all else is padding.
        (alone,) = examples_of(plain, [DOCUMENT[number]], [DOCUMENT[number]])
        predicted = alone["target"][alone["target"].ne(PAD)].tolist()
        before = len(target) - len(predicted)
        assert example["target"].tolist() == [PAD] * before + predicted
        assert target[before:].tolist() == predicted
    batch = builder.collate(found)
    assert batch["nsentences"] == 4 and batch["ntokens"] == sum(map(len, DOCUMENT))
    assert batch["net_input"]["current_sentence"].tolist() == [0, 1, 2, 2]


def sources(builder: ExampleBuilder, document: list[Tensor]) -> list[list[list[int]]]:
    return [
        [one.tolist() for one in FRAME.sentences(example["source"])]
        for example in examples_of(builder, document)
    ]


def test_fixed_random_and_no_context() -> None:
    fixed = sources(window(context_kind="fixed"), DOCUMENT)
    assert fixed[0] == [[10, EOS]]  # a missing neighbour stays missing
    assert fixed[1] == [[7, 8, EOS], [20, 21, EOS]]
    assert sources(window(context_kind="none"), DOCUMENT) == [[one.tolist()] for one in DOCUMENT]
    random = sources(window(context_kind="random"), DOCUMENT)
    assert [row[-1] for row in random] == [one.tolist() for one in DOCUMENT]
    neighbours = [row[0] for row in random[1:]]
    assert [WORDS.count(np.array(one[:-1])) for one in neighbours] == [1, 2, 1]  # as many words
    assert all(50 <= word < 62 for one in neighbours for word in one[:-1])


def test_random_context_depends_on_text_and_seed_alone() -> None:
    long = [torch.randint(10, 99, (20,)) for _ in range(4)]
    long = [torch.cat([one, sentence()]) for one in long]
    examples = window(context_kind="random")
    assert sources(examples, long) == sources(examples, long)
    assert sources(examples, long)[2:] == sources(examples, long[1:])[1:]
    other = ExampleBuilder(FRAME, examples.unit, ContextText(words=WORDS, seed=2))
    assert sources(examples, long)[1] != sources(other, long)[1]


@pytest.mark.parametrize(
    ("text", "words"),
    [
        (["a b@@ c a", "b@@ c"], {"a", "b@@ c"}),
        (["b@@", "c"], {"b@@", "c"}),  # a sentence ends in the middle of a word
        (["un ##do it", "##do"], {"un ##do", "it", "##do"}),
        (["\u2581un do \u2581it", "do"], {"\u2581un do", "\u2581it", "do"}),
        (["a b", "b <unk>"], {"a", "b"}),
    ],
)
def test_random_words_are_whole_words_of_the_text(text, words) -> None:
    entries = ["<unk>", *sorted({subword for line in text for subword in line.split()} - {"<unk>"})]
    end = len(entries)
    lines = [[entries.index(subword) for subword in line.split()] for line in text]
    ids = np.array([number for line in lines for number in (*line, end)])
    found = DistinctWords.of(ids, end, WordBoundaries.of(entries), [0])
    parts = np.split(found.subwords, found.first[1:-1])
    assert {" ".join(entries[subword] for subword in part) for part in parts} == words
    assert len(found) == len(words)
    assert {len(found.draw(n, np.random.default_rng(1))) >= n for n in (0, 1, 50)} == {True}


@pytest.mark.parametrize(
    ("name", "options", "message"),
    [
        (None, {"max_doc_tokens": 7}, "`--max-doc-tokens` must be at least 8, but is 7"),
        ("window", {"context_after": -2}, "`--context-after` must be at least 0, but is -2"),
        (
            "window",
            {"context_sides": "history", "context_kind": "fixed", "context_sentence": "a"},
            "`--context-kind fixed` replaces",
        ),
        (
            "window",
            {"context_sides": "history", "context_after": 1},
            "`--context-after` must be 0, but is 1",
        ),
    ],
)
def test_refusals(name: str | None, options: dict[str, Any], message: str) -> None:
    with pytest.raises(GtransError, match=message):
        unit_of(name, settings(**options))
