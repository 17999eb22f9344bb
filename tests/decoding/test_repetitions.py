"""No n-gram twice in a sentence (``--no-repeat-ngram-size``), in documents and streams."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from fairseq.ngram_repeat_block import NGramRepeatBlock
from support.batches import BOS, EOS, PAD, batch_of
from support.gtransformer_models import WORDS, model_of
from support.untrained import translate_rows

from gtrans.decoding.document_search import DocumentSearch, SearchOptions, SearchVocabulary
from gtrans.decoding.repetitions import forbid_repetitions
from gtrans.errors import GtransError

BOTH = SearchVocabulary(BOS, EOS, PAD, 3, (BOS, PAD))
END = SearchVocabulary(EOS, EOS, PAD, 3, (BOS, PAD))


def ngrams(tokens: list[int], size: int) -> list[tuple[int, ...]]:
    return [tuple(tokens[i : i + size]) for i in range(len(tokens) - size + 1)]


@pytest.mark.parametrize("size", [2, 3, 4])
def test_one_sentence_has_the_pieces_that_fairseq_forbids(size: int) -> None:
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
    source = batch_of([[3, 1, 4], [2, 2], [5]], left=True)
    if vocabulary is END:
        source = torch.nn.utils.rnn.pad_sequence([row[row.ne(BOS)] for row in source], True, PAD)
    free, limited = (
        translate_rows(
            DocumentSearch(
                vocabulary,
                SearchOptions(beam=3, max_len_a=0, max_len_b=9, no_repeat_ngram_size=size_or_0),
            ),
            [model_of()],
            source,
        )
        for size_or_0 in (0, size)
    )
    words = [s.tokens[:-1] for of_row in limited for h in of_row for s in h.sentences]
    assert all(len(set(found)) == len(found) for found in (ngrams(w, size) for w in words))
    # The untrained model repeats itself, so the option has done something.
    words = [s.tokens[:-1] for of_row in free for h in of_row for s in h.sentences]
    assert any(len(set(found)) < len(found) for found in (ngrams(w, size) for w in words))


def test_two_sentences_may_be_the_same() -> None:
    row = torch.zeros(WORDS).index_fill(0, torch.tensor([4, 5, 6]), 50.0)

    class Constant:
        """Always the same logits: 4, 5 and 6 are likely."""

        def begin_decoding(self, source: Any, beam: int) -> Any:
            class State:
                def reorder(self, rows: Any) -> None: ...

                def keep(self, documents: Any) -> None: ...

            return State()

        def decode_step(self, tokens: torch.Tensor, opens: torch.Tensor, state: Any) -> Any:
            return row.repeat(len(tokens), 1)

        def search_scores(self, logits: torch.Tensor) -> torch.Tensor:
            return logits.log_softmax(-1)

    options = SearchOptions(beam=1, max_len_a=0, max_len_b=3, no_repeat_ngram_size=1)
    (found,) = translate_rows(DocumentSearch(BOTH, options), [Constant()], batch_of([[2, 2]]))
    assert [sorted(s.tokens[:-1]) for s in found[0].sentences] == [[4, 5, 6], [4, 5, 6]]


def test_a_mistake_is_one_line() -> None:
    with pytest.raises(GtransError, match="`--no-repeat-ngram-size` must be at least 0, but is -1"):
        SearchOptions(no_repeat_ngram_size=-1)
