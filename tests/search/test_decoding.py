"""Beam search over documents: the steps, the limits, and K sentences whatever happens."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import replace
from functools import cache
from types import SimpleNamespace
from typing import Any

import pytest
import torch
from fairseq.ngram_repeat_block import NGramRepeatBlock
from hypothesis import given, settings
from hypothesis import strategies as st
from support.batches import BATCHES, BOS, EOS, PAD, batch_of
from support.untrained import g_transformer, translate_rows
from torch import Tensor

from gtrans.errors import GtransError
from gtrans.models.gtransformer import GTransformer
from gtrans.search.document_search import (
    DocumentSearch,
    SearchVocabulary,
    forbid_repetitions,
    largest,
    token_moves,
)
from gtrans.search.options import SearchOptions

UNK, WORDS = 3, 20
BOTH = SearchVocabulary(BOS, EOS, PAD, UNK, (BOS, PAD))
END = SearchVocabulary(EOS, EOS, PAD, UNK, (BOS, PAD))


@pytest.mark.parametrize(
    "options", [{}, {"positions": "sentence", "gate_bias": 3.0}, {"doc_mode": "full"}]
)
def test_beams_reordered_and_documents_dropped(options: dict[str, Any]) -> None:
    """Hypotheses that change places keep their own past."""
    model = g_transformer(**options)
    source = batch_of([[3, 1], [5, 2], [4, 4]], left=True)
    beam, generator = 3, torch.Generator().manual_seed(0)
    state = model.begin_decoding({"src_tokens": source}, beam)
    history = torch.full((9, 1), BOS)
    documents = torch.arange(3)
    for step in range(1, 30):
        logits = model.decode_step(history[:, -1], history[:, -1].eq(BOS), state)
        whole, _ = model(source[documents].repeat_interleave(beam, 0), None, history)
        torch.testing.assert_close(logits, whole[:, -1], atol=1e-5, rtol=1e-4)
        parents = torch.randint(beam, (len(documents), beam), generator=generator)
        rows = (torch.arange(len(documents))[:, None] * beam + parents).flatten()
        state.reorder(rows)
        token = {6: EOS, 7: BOS}.get(step)
        new = torch.randint(4, WORDS, (len(rows),), generator=generator)
        new = new if token is None else torch.full_like(new, token)
        history = torch.cat([history[rows], new[:, None]], 1)
        if step == 9:  # the second document is finished
            keep = torch.tensor([0, 2])
            state.keep(keep)
            kept = (keep[:, None] * beam + torch.arange(beam)).flatten()
            documents, history = documents[keep], history[kept]


def framed(documents: list[list[int]], vocabulary: SearchVocabulary) -> Tensor:
    """A batch with the special tokens of a vocabulary."""
    source = batch_of(documents, left=True)
    if vocabulary is BOTH:
        return source
    return torch.nn.utils.rnn.pad_sequence([row[row.ne(BOS)] for row in source], True, PAD)


@pytest.mark.parametrize("vocabulary", [BOTH, END], ids=["both", "end"])
@given(BATCHES, st.integers(1, 4), st.integers(0, 3), st.sampled_from([0.0, 0.5, 1.5]))
@settings(max_examples=25)
def test_k_sentences_stay_k(
    vocabulary: SearchVocabulary, documents: list[list[int]], beam: int, b: int, a: float
) -> None:
    """An untrained model, any limit: K sentences, each within its limit, nothing left out."""
    model = _shared_model()
    source = framed(documents, vocabulary)
    search = DocumentSearch(vocabulary, SearchOptions(beam=beam, max_len_a=a, max_len_b=b))
    found = translate_rows(search, [model], source)
    assert len(found) == len(documents)
    for document, hypotheses in zip(documents, found, strict=True):
        assert 1 <= len(hypotheses) <= beam
        scores = [hypothesis.score for hypothesis in hypotheses]
        assert scores == sorted(scores, reverse=True)
        assert all(math.isfinite(score) for score in scores)
        assert len({tuple(hypothesis.tokens) for hypothesis in hypotheses}) == len(hypotheses)
        for hypothesis in hypotheses:
            assert len(hypothesis.sentences) == len(document)
            for words, sentence in zip(document, hypothesis.sentences, strict=True):
                assert sentence.tokens[-1] == EOS
                assert EOS not in sentence.tokens[:-1]
                assert not {BOS, PAD} & set(sentence.tokens)
                assert 1 <= len(sentence.tokens) - 1 <= max(int(a * words + b), 1)
                assert len(sentence.scores) == len(sentence.tokens)


@cache
def _shared_model() -> GTransformer:
    return g_transformer()


class Scripted:
    """A model that always gives the same logits, or those of a function of the last token."""

    def __init__(self, logits: Callable[[Tensor], Tensor]) -> None:
        self.logits = logits

    def begin_decoding(self, source: Mapping[str, Any], beam: int) -> Any:
        return SimpleNamespace(reorder=lambda rows: None, keep=lambda documents: None)

    def decode_step(self, tokens: Tensor, opens: Tensor, state: Any) -> Tensor:
        return self.logits(tokens)

    def search_scores(self, logits: Tensor) -> Tensor:
        return logits.log_softmax(-1)


def constant(best: int) -> Scripted:
    row = torch.zeros(WORDS)
    row[best] = 50.0
    return Scripted(lambda tokens: row.repeat(len(tokens), 1))


@pytest.mark.parametrize(
    ("best", "options", "source", "words"),
    [
        (7, {"max_len_a": 1, "max_len_b": 2}, [3, 0, 5], [5, 2, 7]),  # it never ends a sentence
        (EOS, {}, [3, 4], [1, 1]),  # it only ends sentences; --min-len 1
        (EOS, {"min_len": 0, "beam": 1}, [3, 4], [0, 0]),
    ],
)
def test_a_model_with_a_single_wish(
    best: int, options: dict[str, Any], source: list[int], words: list[int]
) -> None:
    search = DocumentSearch(BOTH, SearchOptions(**{"beam": 2, **options}))
    (found,) = translate_rows(search, [constant(best)], batch_of([source]))
    assert len(found[0].sentences) == len(source)
    assert [len(sentence.tokens) - 1 for sentence in found[0].sentences] == words


@pytest.mark.parametrize("best", [BOS, PAD])
def test_a_model_that_wants_special_tokens_gets_none(best: int) -> None:
    found = translate_rows(
        DocumentSearch(BOTH, SearchOptions(beam=3, max_len_a=0, max_len_b=4)),
        [constant(best)],
        batch_of([[3, 4], [2]]),
    )
    assert [len(document[0].sentences) for document in found] == [2, 1]


def test_scores_are_log_probabilities_over_length() -> None:
    row = torch.full((WORDS,), -1e9)
    row[7], row[EOS] = math.log(0.75), math.log(0.25)
    model = Scripted(lambda tokens: row.repeat(len(tokens), 1))
    options = SearchOptions(beam=1, max_len_a=0, max_len_b=1)
    hypothesis = translate_rows(DocumentSearch(BOTH, options), [model], batch_of([[2, 2]]))[0][0]
    # w </s> <s> w </s> and the end of the document; the tokens set by the search count, for 0.
    logs = [math.log(0.75), math.log(0.25), 0.0, math.log(0.75), math.log(0.25), 0.0]
    assert hypothesis.scores == pytest.approx(logs)
    assert hypothesis.score == pytest.approx(sum(logs) / 6)
    search = DocumentSearch(BOTH, replace(options, unnormalized=True))
    hypothesis = translate_rows(search, [model], batch_of([[2, 2]]))[0][0]
    assert hypothesis.score == pytest.approx(sum(logs))


def test_batching_documents_changes_nothing() -> None:
    model = _shared_model()
    documents = [[3, 4, 1], [6], [2, 2], [5, 0, 0, 3]]
    search = DocumentSearch(BOTH, SearchOptions(beam=3, max_len_a=1, max_len_b=3))
    together = translate_rows(search, [model], batch_of(documents, left=True))
    for document, hypotheses in zip(documents, together, strict=True):
        alone = translate_rows(search, [model], batch_of([document]))[0]
        assert [h.tokens for h in alone] == [h.tokens for h in hypotheses]
        assert [h.score for h in alone] == pytest.approx([h.score for h in hypotheses], abs=1e-5)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"beam": 0}, "`--beam` must be from 1 to 1000, but is 0"),
        ({"beam": 100_000}, "`--beam` must be from 1 to 1000, but is 100000"),
        ({"max_len_b": -1}, "`--max-len-b` must be from 0 to 1e.06, but is -1"),
        ({"no_repeat_ngram_size": -1}, "`--no-repeat-ngram-size` must be from 0"),
        ({"temperature": 0}, "`--temperature` must be from 1e-06"),
        ({"unkpen": math.nan}, "`--unkpen` must be from -1e.06 to 1e.06, but is nan"),
        ({"lenpen": 1000}, "`--lenpen` must be from -20 to 20, but is 1000"),
        ({"max_len_a": math.inf}, "`--max-len-a` must be from 0 to 1e.06, but is inf"),
        ({"max_len_b": math.nan}, "`--max-len-b` must be from 0 to 1e.06, but is nan"),
    ],
)
def test_impossible_options(options: dict[str, Any], message: str) -> None:
    with pytest.raises(GtransError, match=message):
        SearchOptions(**options)


@pytest.mark.parametrize("columns", [5, 64, 1300, 4096, 40_005])
def test_the_candidates_of_a_step_are_those_of_topk(columns: int) -> None:
    numbers = torch.randn(7, columns, generator=torch.Generator().manual_seed(columns))
    numbers[2] = float("-inf")
    numbers[2, columns - 1] = 1.0
    wanted = numbers.topk(5, 1)
    best, index = largest(numbers, 5)
    assert torch.equal(best, wanted.values)
    assert torch.equal(numbers.gather(1, index), best)
    assert torch.equal(index[:2], wanted.indices[:2])
    assert int(index[2, 0]) == columns - 1


def test_moves_take_the_memory_of_three_numbers_for_a_token() -> None:
    """Also in a vocabulary of 250,000 entries, whatever the beam is."""
    prefixed = replace(BOTH, prefix=9)
    moves = token_moves(prefixed, 250_000)
    assert moves.shape == (3, 250_000)
    assert moves.untyped_storage().nbytes() <= 6_000_000
    sentence, place, words = moves
    assert sentence.nonzero().flatten().tolist() == [BOS]
    assert place.nonzero().flatten().tolist() == sorted([BOS, EOS, 9])
    assert words.ne(1).nonzero().flatten().tolist() == sorted([BOS, 9])
    assert int(words[[BOS, 9]].max()) < -10_000_000  # no sentence has so many words


# ---- no n-gram twice in a sentence (`--no-repeat-ngram-size`) ------------------------------------


def ngrams(tokens: list[int], size: int) -> list[tuple[int, ...]]:
    return [tuple(tokens[i : i + size]) for i in range(len(tokens) - size + 1)]


@pytest.mark.parametrize("size", [2, 3, 4])
def test_one_sentence_has_the_subwords_that_fairseq_forbids(size: int) -> None:
    draw = torch.Generator().manual_seed(size)
    for written in range(8):
        words = torch.randint(4, 7, (6, written), generator=draw)
        rows = torch.cat([torch.full((6, 1), EOS), words], 1)
        theirs = NGramRepeatBlock(size)(rows, torch.zeros(6, 8), 3, 2, written)
        ours = torch.zeros(6, 8)
        forbid_repetitions(ours, words, torch.full((6,), written), size)
        assert ours.equal(theirs)


def test_earlier_sentences_do_not_count() -> None:
    history = torch.tensor([[4, 5, 6, EOS, BOS, 7, 4, 5], [4, 5, 6, EOS, BOS, 5, 4, 5]])
    log_probs = torch.zeros(2, 8)
    forbid_repetitions(log_probs, history, torch.tensor([3, 3]), 2)
    assert log_probs.isinf().nonzero().tolist() == [[1, 4]]  # 5 4 .. 5 [4]


@pytest.mark.parametrize("vocabulary", [BOTH, END], ids=["both", "end"])
@pytest.mark.parametrize("size", [1, 2, 3])
def test_no_sentence_of_a_document_repeats_itself(vocabulary: Any, size: int) -> None:
    source = framed([[3, 1, 4], [2, 2], [5]], vocabulary)
    free, limited = (
        translate_rows(
            DocumentSearch(
                vocabulary,
                SearchOptions(beam=3, max_len_a=0, max_len_b=9, no_repeat_ngram_size=size_or_0),
            ),
            [g_transformer()],
            source,
        )
        for size_or_0 in (0, size)
    )
    words = [s.tokens[:-1] for of_row in limited for h in of_row for s in h.sentences]
    assert all(len(set(found)) == len(found) for found in (ngrams(w, size) for w in words))
    # The untrained model repeats itself, so the option has done something.
    words = [s.tokens[:-1] for of_row in free for h in of_row for s in h.sentences]
    assert any(len(set(found)) < len(found) for found in (ngrams(w, size) for w in words))


def test_an_ensemble_of_a_model_with_itself_is_the_model() -> None:
    model = _shared_model()
    search = DocumentSearch(BOTH, SearchOptions(beam=2, max_len_a=1, max_len_b=3))
    one = translate_rows(search, [model], batch_of([[3, 4]]))[0]
    two = translate_rows(search, [model, model], batch_of([[3, 4]]))[0]
    assert [h.tokens for h in one] == [h.tokens for h in two]
