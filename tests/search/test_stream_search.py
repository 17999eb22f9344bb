"""Decoding sentence by sentence, with a memory that follows the best hypothesis."""

from __future__ import annotations

from collections.abc import Sequence

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from support.untrained import task_for, untrained

from gtrans.data.frame import Frame
from gtrans.data.units import StreamUnit
from gtrans.models.memory_transformer import MemoryTransformer
from gtrans.search.document_search import DocumentHypothesis, SearchVocabulary
from gtrans.search.options import SearchOptions
from gtrans.search.part_search import PartSearch

BOS, PAD, EOS, UNK = 0, 1, 2, 3
WORDS = tuple("abcdefgh")


def model_of(special_tokens: str = "both", seed: int = 1, **options: object) -> MemoryTransformer:
    task = task_for("stream", special_tokens, (WORDS, WORDS))
    return untrained(task, seed, MemoryTransformer, **options).eval()


def search_of(special_tokens: str = "both", **options: object) -> PartSearch:
    opening = BOS if special_tokens == "both" else EOS
    vocabulary = SearchVocabulary(opening, EOS, PAD, UNK, (BOS, PAD))
    chosen = SearchOptions(**{"beam": 3, "max_len_a": 0, "max_len_b": 6, **options})  # type: ignore[arg-type]
    return PartSearch(
        vocabulary, chosen, Frame(BOS, EOS, PAD, special_tokens), StreamUnit(), chosen.beam
    )


def translate(
    search: PartSearch, models: Sequence[MemoryTransformer], documents: list[list[list[int]]]
) -> list[list[DocumentHypothesis]]:
    frame = search.frame
    rows = [frame.source([torch.tensor([*s, EOS]) for s in document]) for document in documents]
    source = {"src_tokens": frame.pad_rows(rows)}
    return search.search(models, source, [[len(s) for s in document] for document in documents])


def text(seed: int, *sentences: int) -> list[list[int]]:
    draw = torch.Generator().manual_seed(seed)
    return [torch.randint(4, 12, (n,), generator=draw).tolist() for n in sentences]


DOCUMENTS = [text(1, 3, 5, 2), text(2, 4), text(3, 2, 6, 1, 3)]


@pytest.mark.parametrize("special_tokens", ["both", "end"])
def test_no_sentence_of_a_stream_repeats_a_subword(special_tokens: str) -> None:
    """Every sentence counts for itself: another one may have the same subwords."""
    search = search_of(special_tokens, no_repeat_ngram_size=1)
    documents = translate(search, [model_of(special_tokens)], DOCUMENTS)
    written = [[s.tokens[:-1] for s in found[0].sentences] for found in documents]
    assert all(len(set(tokens)) == len(tokens) for document in written for tokens in document)
    joined = [[token for tokens in document for token in tokens] for document in written]
    assert any(len(set(document)) < len(document) for document in joined)


@pytest.mark.parametrize("special_tokens", ["both", "end"])
@pytest.mark.parametrize("beam", [1, 4])
def test_scores_are_those_of_the_whole_document_read_at_once(special_tokens, beam):
    """So the memory has been updated from the complete best hypothesis of each sentence."""
    model, search = model_of(special_tokens), search_of(special_tokens, beam=beam)
    for document, found in zip(DOCUMENTS, translate(search, [model], DOCUMENTS), strict=True):
        best = found[0]
        assert len(best.sentences) == len(document)
        source = search.frame.source([torch.tensor([*s, EOS]) for s in document])
        written = [torch.tensor(sentence.tokens) for sentence in best.sentences]
        decoder_input, target = search.frame.target(written)
        with torch.no_grad():
            logits, _ = model(source[None], None, decoder_input[None])
        wanted = logits[0].log_softmax(-1)[torch.arange(target.numel()), target]
        scores = [score for sentence in best.sentences for score in sentence.scores]
        torch.testing.assert_close(
            torch.tensor(scores), wanted[target.ne(PAD)], atol=1e-4, rtol=1e-4
        )
        expected = sum(scores) / len(best.tokens)
        assert best.score == pytest.approx(expected, abs=1e-4)


def all_tokens(found: list[list[DocumentHypothesis]]) -> list[list[list[int]]]:
    return [[s.tokens for s in hypotheses[0].sentences] for hypotheses in found]


def test_other_documents_of_the_batch_do_not_matter():
    model, search = model_of(), search_of(beam=2)
    together = all_tokens(translate(search, [model], DOCUMENTS))
    alone = [all_tokens(translate(search, [model], [document]))[0] for document in DOCUMENTS]
    assert together == alone


def test_an_ensemble_has_a_memory_for_each_model():
    models = [model_of(seed=1), model_of(seed=2, memory_side="encoder"), model_of(memory_size=0)]
    once = all_tokens(translate(search_of(beam=2), models, DOCUMENTS))
    twice = all_tokens(translate(search_of(beam=2), models * 2, DOCUMENTS))
    assert [len(document) for document in once] == [3, 1, 4]
    assert once == twice


def test_hypotheses_continue_the_best_ones():
    found = translate(search_of(beam=3), [model_of()], DOCUMENTS[:1])[0]
    assert len(found) == 3
    assert len({tuple(h.sentences[0].tokens) for h in found}) == 3
    assert all(len(h.sentences) == 3 for h in found)


@settings(max_examples=15)
@given(
    st.lists(st.lists(st.integers(0, 4), min_size=1, max_size=4), min_size=1, max_size=3),
    st.integers(1, 3),
    st.integers(0, 3),
)
def test_k_sentences_give_k_sentences_within_their_limits(lengths, beam, limit):
    documents = [text(7, *sizes) for sizes in lengths]
    search = search_of(beam=beam, max_len_a=1.0, max_len_b=limit)
    for document, found in zip(documents, translate(search, [model_of()], documents), strict=True):
        assert [s.tokens[-1] for s in found[0].sentences] == [EOS] * len(document)
        for words, sentence in zip(document, found[0].sentences, strict=True):
            assert 1 <= len(sentence.tokens) - 1 <= max(len(words) + limit, 1)


def test_a_model_without_finite_probabilities_ends():
    model = model_of()
    with torch.no_grad():
        model.decoder.output_projection.weight.fill_(float("nan"))
    found: list[list[DocumentHypothesis]] = translate(search_of(), [model], DOCUMENTS)
    assert found == [[], [], []]
