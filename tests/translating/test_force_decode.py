"""Force decoding: numbers by hand, batches, units."""

from __future__ import annotations

import math

import pytest
import torch
from support.fake_models import RowByRow
from support.untrained import task_for, untrained
from torch import Tensor, nn

from gtrans.errors import GtransError
from gtrans.translating.force_decode import score_documents

DOCUMENTS = [
    (["a b", "c"], ["d", "e d a"]),
    (["a"], ["b"]),
    (["e d c b a", "a a", "b"], ["a b c", "d e", "c c c c"]),
    (["a b", "c"], ["d", "e d b"]),
]


class Fixed(RowByRow):
    """The same distribution at every position; remembers the shapes it was given."""

    def __init__(self, probabilities: dict[int, float], vocabulary: int) -> None:
        super().__init__()
        table = torch.full((vocabulary,), -math.inf)
        for token, probability in probabilities.items():
            table[token] = math.log(probability)
        self.table = nn.Parameter(table + 3)  # logits are known up to a constant only
        self.shapes: list[tuple[torch.Size, torch.Size]] = []

    def logits(self, src_tokens: Tensor, prev_output_tokens: Tensor) -> Tensor:
        assert not self.training
        self.shapes.append((src_tokens.shape, prev_output_tokens.shape))
        return self.table.expand(*prev_output_tokens.shape, -1)


def test_the_sum_over_words_and_end_tokens_by_hand():
    task = task_for("document")
    a, b, end = 4, 5, 2
    model = Fixed({a: 0.5, b: 0.25, end: 0.25}, len(task.target_dictionary))
    found = score_documents([model], task, [(["c", "c"], ["a a", "b"])])
    # 1/2 * 1/2 * 1/4, then 1/4 * 1/4; the <s> between them is not predicted
    assert found == [pytest.approx([math.log(1 / 16), math.log(1 / 16)])]


def test_an_ensemble_averages_probabilities():
    task = task_for("sentence")
    a, b, end = 4, 5, 2
    size = len(task.target_dictionary)
    models = [Fixed({a: 0.5, b: 0.25, end: 0.25}, size), Fixed({a: 0.25, b: 0.25, end: 0.5}, size)]
    found = score_documents(models, task, [(["c"], ["a b"])])
    assert found == [pytest.approx([math.log(3 / 8) + math.log(1 / 4) + math.log(3 / 8)])]


@pytest.mark.parametrize(
    ("special_tokens", "source", "decoder_input", "expected"),
    [
        # a=4 b=5 c=6 d=7 e=8, <s>=0 <pad>=1 </s>=2; None: the token that is not predicted
        ("both", [0, 4, 5, 2, 0, 6, 2], [0, 7, 2, 0, 8, 7, 4], [7, 2, None, 8, 7, 4, 2]),
        ("end", [4, 5, 2, 6, 2], [2, 7, 2, 8, 7, 4], [7, 2, 8, 7, 4, 2]),
    ],
)
def test_scores_are_those_of_the_logits(
    special_tokens: str, source: list[int], decoder_input: list[int], expected: list[int | None]
):
    task = task_for("document", special_tokens)
    model = untrained(task).eval()
    with torch.no_grad():
        logits = model(torch.tensor([source]), None, torch.tensor([decoder_input]))[0][0].double()
    sums = [0.0]
    for row, token in zip(logits, expected, strict=True):
        if token is None:
            continue
        sums[-1] += float(row[token]) - math.log(sum(math.exp(logit) for logit in row.tolist()))
        if token == 2:
            sums.append(0.0)
    assert score_documents([model], task, DOCUMENTS[:1]) == [pytest.approx(sums[:-1], abs=1e-5)]


def test_a_document_model_read_by_sentence_sums_over_sentences():
    task = task_for("document")
    model = untrained(task)
    alone = [
        [score_documents([model], task, [([s], [t])])[0][0] for s, t in zip(*document, strict=True)]
        for document in DOCUMENTS
    ]
    whole = score_documents([model], task, DOCUMENTS)
    task.cfg.unit = "sentence"
    assert score_documents([model], task, DOCUMENTS) == [
        pytest.approx(scores, abs=1e-5) for scores in alone
    ]
    # and as a document it does read the context
    assert whole[0][1] != pytest.approx(alone[0][1], abs=1e-3)


@pytest.mark.parametrize("unit", ["document", "sentence"])
def test_only_the_sentences_asked_for_are_returned(unit: str):
    task = task_for(unit)
    model = untrained(task)
    documents = [*DOCUMENTS, DOCUMENTS[2]]
    whole = score_documents([model], task, documents)
    first = [1, 0, 2, 1, 0]
    assert score_documents([model], task, documents, first=first) == [
        pytest.approx(scores[begin:], abs=1e-5) for begin, scores in zip(first, whole, strict=True)
    ]


def test_batches_keep_to_the_limit_and_equal_units_are_scored_once():
    task = task_for("document")
    entries = len(task.target_dictionary)
    model = Fixed(dict.fromkeys(range(entries), 1 / entries), entries)
    short, long = (["a"], ["a a"]), (["a"] * 9, ["a"] * 9)
    documents = [short, (["b"], ["a a"]), (["c"], ["a a"]), long, short]
    score_documents([model], task, documents, max_tokens=8)
    # <s> a a and <s> a </s>; the long one stands alone
    assert model.shapes == [((1, 27), (1, 26)), ((2, 3), (2, 3)), ((1, 3), (1, 3))]


@pytest.mark.parametrize("special_token", ["<s>", "</s>"])
def test_a_literal_special_token_is_refused(special_token: str):
    task = task_for("document")
    with pytest.raises(GtransError, match=f"'a {special_token} b' holds a literal special token"):
        score_documents([untrained(task)], task, [(["a"], [f"a {special_token} b"])])


def test_sides_of_different_length_are_refused():
    task = task_for("document")
    with pytest.raises(ValueError, match="2 source sentences, but 1 target"):
        score_documents([untrained(task)], task, [(["a", "b"], ["a"])])
