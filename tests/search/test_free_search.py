"""Free decoding: the document Transformer decides where its documents end."""

from __future__ import annotations

from itertools import pairwise

import pytest
import torch
from support.untrained import task_for, untrained

from gtrans.data.frame import Frame
from gtrans.models.gtransformer import GTransformer
from gtrans.search.document_search import DocumentSearch, SearchVocabulary
from gtrans.search.options import SearchOptions

BOS, PAD, EOS, UNK = 0, 1, 2, 3
FRAME = Frame(BOS, EOS, PAD, "document")
WORDS = tuple("abcdefgh")
DOCUMENTS = [[[4, 5, 6], [7, 8]], [[9, 10, 11, 4]]]


@pytest.fixture(scope="module")
def model() -> GTransformer:
    task = task_for("document", "document", (WORDS, WORDS))
    options = {"doc_mode": "full", "unit": "document", "sentence_marks": "document"}
    return untrained(task, 3, GTransformer, **options).eval()


def search(model: GTransformer, beam: int, **options: float):
    vocabulary = SearchVocabulary(EOS, EOS, PAD, UNK, (BOS, PAD), document_token=BOS)
    chosen = SearchOptions(beam=beam, free=True, **{"max_len_a": 0, "max_len_b": 12, **options})  # type: ignore
    rows = [FRAME.source([torch.tensor([*s, EOS]) for s in document]) for document in DOCUMENTS]
    lengths = [[len(s) for s in document] for document in DOCUMENTS]
    source = {"src_tokens": FRAME.pad_rows(rows)}
    return DocumentSearch(vocabulary, chosen).search([model], source, lengths), rows


@pytest.mark.parametrize("beam", [1, 4])
def test_scores_are_the_models_including_the_end_of_the_document(model, beam):
    found, rows = search(model, beam)
    for row, hypotheses in zip(rows, found, strict=True):
        assert hypotheses
        for hypothesis in hypotheses:
            sentences = [torch.tensor(sentence.tokens) for sentence in hypothesis.sentences]
            read, target = FRAME.target(sentences)
            assert hypothesis.tokens == target.tolist()  # so it ends with the document token
            logits = model(row[None], torch.tensor([row.numel()]), read[None])[0]
            expected = logits[0].log_softmax(-1).gather(1, target[:, None]).squeeze(1)
            torch.testing.assert_close(torch.tensor(hypothesis.scores), expected)
            assert hypothesis.score == pytest.approx(float(expected.mean()), abs=1e-5)


def test_the_number_of_sentences_is_the_models_choice(model):
    """It ends as soon as it may, or writes sentence after sentence."""
    counts = []
    for preferred in ({BOS: 20.0}, {BOS: -20.0, EOS: 20.0}):
        found, _ = search(_Biased(model, preferred), 2)
        counts.append([len(hypotheses[0].sentences) for hypotheses in found])
    assert counts[0] == [1, 1]
    assert all(count > len(d) for count, d in zip(counts[1], DOCUMENTS, strict=True))


def test_a_document_that_does_not_end_is_ended_at_its_limit(model):
    found, _ = search(_Biased(model, {5: 20.0}), 2, max_len_a=1.0, max_len_b=0.0)
    # as many tokens as the source, and the document token
    assert [len(hypotheses[0].tokens) for hypotheses in found] == [7 + 1, 5 + 1]


def test_no_ngram_of_the_document_is_repeated(model):
    found, _ = search(_Biased(model, {5: 20.0}), 2, max_len_b=8.0, no_repeat_ngram_size=2)
    for hypotheses in found:
        tokens = hypotheses[0].tokens
        pairs = [pair for pair in pairwise(tokens) if pair[1] != EOS]
        assert len(pairs) == len(set(pairs)) > 5


class _Biased:
    """A model that likes some tokens more, or less."""

    def __init__(self, model: GTransformer, preferred: dict[int, float]) -> None:
        self.model, self.preferred = model, preferred

    def begin_decoding(self, *arguments):
        return self.model.begin_decoding(*arguments)

    def decode_step(self, *arguments):
        logits = self.model.decode_step(*arguments).clone()
        for entry, more in self.preferred.items():
            logits[:, entry] += more
        return logits

    def search_scores(self, logits: torch.Tensor) -> torch.Tensor:
        return self.model.search_scores(logits)
