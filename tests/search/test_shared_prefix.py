"""Rows that begin alike: what is computed once, and that nothing else changes."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from support.suites import others_long
from support.untrained import task_for, untrained

from gtrans.models.bert_context_transformer import BertContextTransformer
from gtrans.models.concat_transformer import ConcatTransformer
from gtrans.models.flat_transformer import FlatTransformer
from gtrans.models.gtrans_fusion import GtransFusion
from gtrans.models.gtransformer import GTransformer
from gtrans.models.memory_transformer import MemoryTransformer
from gtrans.modules.group_attention import Segments, attention_plan
from gtrans.translating.force_decode import score_documents


@pytest.mark.parametrize("unit", ["document", "sentence", "window"])
@pytest.mark.parametrize("special_tokens", others_long(["both", "end", "bart"], ["both"]))
@settings(max_examples=10, deadline=None)
@given(data=st.data())
def test_candidates_score_the_same_together_and_alone(
    unit: str, special_tokens: str, data: Any
) -> None:
    sentence = st.lists(st.sampled_from("abc"), min_size=1, max_size=4).map(" ".join)
    task = task_for(unit, special_tokens)
    model = untrained(task)
    documents = []
    for _ in range(data.draw(st.integers(1, 3))):
        source = data.draw(st.lists(sentence, min_size=1, max_size=3))
        size = len(source)
        target = st.lists(sentence, min_size=size, max_size=size)
        documents += [(source, data.draw(target)) for _ in range(data.draw(st.integers(1, 4)))]
    limit = data.draw(st.sampled_from([1, 30, 1000]))
    together = score_documents([model], task, documents, max_tokens=limit)
    for document, scores in zip(documents, together, strict=True):
        assert score_documents([model], task, [document]) == [pytest.approx(scores, abs=1e-5)]


def test_a_source_is_encoded_once_and_a_beginning_read_once() -> None:
    task = task_for("document")
    model = untrained(task)
    read: list[tuple[int, ...]] = []
    logits: list[int] = []
    model.encoder.register_forward_pre_hook(lambda _, args: read.append(tuple(args[0].shape)))
    model.decoder.layers[0].register_forward_pre_hook(lambda _, args: read.append((len(args[0]),)))
    model.decoder.output_projection.register_forward_pre_hook(
        lambda _, args: logits.append(len(args[0]))
    )
    source = ["a b", "c"]
    documents = [(source, ["d", last]) for last in ("e d a", "e d b", "e c")]
    score_documents([model], task, documents, first=[1, 1, 1])
    # <s> d </s> <s> e, then: d a, d b without its d, c
    assert read == [(1, 7), (5 + 2 + 1 + 1,)]
    # The next words are predicted after: <s> e d a, b, c
    assert logits == [4 + 1 + 1]


@pytest.mark.parametrize(
    ("system", "options", "unit"),
    [
        (GTransformer, {"doc_mode": "full"}, "document"),
        (GTransformer, {"positions": "sentence"}, "document"),
        (GTransformer, {"attention_backend": "dense"}, "document"),
        (GTransformer, {"doc_mode": "full"}, "window"),
        (FlatTransformer, {"flat_bottom_layers": 1}, "window"),
        (ConcatTransformer, {}, "window"),
        (BertContextTransformer, {"context_input": "words", "context_layers": 1}, "window"),
        (MemoryTransformer, {}, "stream"),
        (GtransFusion, {}, "sentence"),
        (GtransFusion, {}, "document"),
        (GtransFusion, {"system": "ta"}, "document"),
    ],
    ids=lambda value: getattr(value, "__name__", str(value)),
)
def test_every_system_scores_candidates_together_as_alone(
    system: Any, options: dict[str, Any], unit: str
) -> None:
    task = task_for(unit)
    made = untrained(task, 1, system, **options).eval()
    first, second = ["a b", "c", "d"], ["e", "c c"]
    documents = [(first, ["d", "e d a", last]) for last in ("e", "e d", "b a", "b c", "b c")]
    documents += [(second, ["a b", last]) for last in ("c", "b c e", "b c d")]
    read: list[int] = []
    made.encoder.register_forward_pre_hook(lambda _, args: read.append(len(args[0])))
    together = score_documents([made], task, documents)
    # Each source once: two documents or streams, five sentences or windows.
    if system is not FlatTransformer:  # its encoder reads a window in two parts
        assert sum(read) == (2 if unit in ("document", "stream") else 5)
    for document, scores in zip(documents, together, strict=True):
        assert score_documents([made], task, [document]) == [pytest.approx(scores, abs=1e-5)]
    assert together[0] != pytest.approx(together[2], abs=1e-3)


def test_segments_that_only_add_up_do_not_cover_the_tokens() -> None:
    # A key that two queries share, and one that nobody sees: as many as there are tokens.
    queries = Segments(np.array([0, 1]), np.array([1, 1]))
    keys = Segments(np.array([0, 0]), np.array([1, 1]))
    assert attention_plan(queries, queries, (2, 2)).consecutive
    assert not attention_plan(queries, keys, (2, 2)).consecutive
