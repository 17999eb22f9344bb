"""Chunks that overlap: the cut, a given beginning in the search, and whole documents."""

from __future__ import annotations

from argparse import Namespace
from typing import Any

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from support.batches import BOS, EOS, PAD
from support.untrained import WORDS, task_for, untrained
from torch import Tensor

from gtrans.data.frame import SPECIAL_TOKENS, Frame
from gtrans.data.units import (
    SPECIAL_TOKENS_PER_SENTENCE,
    DocumentUnit,
    split_chunks,
    split_overlapping,
)
from gtrans.errors import GtransError
from gtrans.models.gtransformer_memory import GTransformerMemory
from gtrans.search.part_search import Parts, PartSearch

LENGTHS = st.lists(st.integers(1, 20), min_size=1, max_size=30)


@given(LENGTHS, st.integers(8, 60), st.integers(0, 6))
def test_the_cut(lengths: list[int], most: int, overlap: int) -> None:
    """Own sentences cover the document; those read before are the last, and there is room."""
    found = split_overlapping(lengths, lengths, most, overlap)
    assert [n for span in found for n in span.kept] == list(range(len(lengths)))
    if overlap == 0:
        assert [span.kept for span in found] == split_chunks(lengths, lengths, most)
    costs = [length + SPECIAL_TOKENS_PER_SENTENCE for length in lengths]
    for span in found:
        first, own = span.source.start, span.kept
        assert span == (range(first, own.stop), range(first, own.stop), own, own)
        assert own.start - overlap <= first <= own.start
        total = sum(costs[first : own.stop])
        assert total <= most or (first == own.start and len(own) == 1)
        if first > 0 and own.start - first < overlap:  # one more leaves no room for a new one
            assert sum(costs[first - 1 : own.start + 1]) > most
        if own.stop < len(lengths):
            assert total + costs[own.stop] > most


def generator_of(overlap: int, most: int, special_tokens: str = "both", **options: Any) -> Any:
    task = task_for("document", special_tokens)
    task.cfg.overlap, task.cfg.max_doc_tokens = overlap, most
    given = {"beam": 2, "max_len_a": 0, "max_len_b": 4, "nbest": 1, **options}
    return task, task.build_generator([untrained(task)], Namespace(**given))


def sentences_of(lengths: list[int], draw: torch.Generator | None = None) -> list[Tensor]:
    draw = torch.Generator().manual_seed(5) if draw is None else draw
    return [
        torch.cat([torch.randint(4, 4 + len(WORDS), (n,), generator=draw), torch.tensor([EOS])])
        for n in lengths
    ]


def translated(
    task: Any, generator: Any, documents: list[list[int]], finished: Any = None
) -> list[Any]:
    """The hypotheses of documents whose sentences have these lengths."""
    builder = task.examples
    draw = torch.Generator().manual_seed(5)
    examples = []
    for lengths in documents:
        sentences = sentences_of(lengths, draw)
        for span in builder.unit.cut_to_translate(lengths):
            examples.append(builder.example(span, [sentences[n] for n in span.source]))
    found: list[Any] = generator.documents(builder.collate(examples)["net_input"], finished)
    return found


@given(st.lists(st.lists(st.integers(1, 6), min_size=1, max_size=9), min_size=1, max_size=4),
       st.integers(1, 4), st.integers(8, 40), st.sampled_from(["both", "end", "bart"]))  # fmt: skip
@settings(max_examples=15, deadline=None)
def test_k_sentences_stay_k(
    documents: list[list[int]], overlap: int, most: int, special_tokens: str
) -> None:
    """Whatever overlaps: a translation for each sentence, and scores of the new ones only."""
    found = translated(*generator_of(overlap, most, special_tokens), documents)
    for lengths, hypotheses in zip(documents, found, strict=True):
        assert len(hypotheses[0].sentences) == len(lengths)
        own = [score for sentence in hypotheses[0].sentences for score in sentence.scores]
        length = len(hypotheses[0].tokens)
        assert hypotheses[0].score == pytest.approx(sum(own) / length)
        assert all(sentence.tokens[-1] == EOS for sentence in hypotheses[0].sentences)


def test_chunks_of_documents_begin_with_the_initial_memory() -> None:
    """As in training on documents: a search adds up what a pass over each row alone gives."""
    task = task_for("document")
    task.cfg.overlap, task.cfg.max_doc_tokens = 1, 16
    options = {"memory_output": "residual", "memory_layers": "all"}
    model = untrained(task, 1, GTransformerMemory, **options)
    generator = task.build_generator([model], Namespace(beam=2, max_len_a=0, max_len_b=4))
    lengths = [3, 4, 2, 5, 3, 6]
    ((hypothesis, *_),) = translated(task, generator, [lengths])
    builder, source, found = task.examples, sentences_of(lengths), hypothesis.sentences
    target = [torch.tensor(sentence.tokens) for sentence in found]
    spans = builder.unit.cut(lengths)
    assert len(spans) > 2 and any(len(span.source) > len(span.kept) for span in spans)
    for span in spans:
        sides = ([side[n] for n in span.source] for side in (source, target))
        row = builder.example(span, *sides)
        batch = builder.collate([row])
        log_probs = model(**batch["net_input"])[0].log_softmax(-1)
        scores = log_probs.gather(2, batch["target"][:, :, None])
        written = scores[batch["target"].ne(PAD)].flatten()
        own = torch.tensor([score for n in span.kept for score in found[n].scores])
        torch.testing.assert_close(written[-len(own) :], own)


def parts_in(known: dict[tuple[int, ...], Any]) -> Parts:
    """Finished chunks in memory."""

    def add(document: int, part: int, found: Any) -> None:
        known[document, part] = found

    return Parts(known, add)


def test_an_interrupted_search_has_the_batches_of_an_undisturbed_one(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A round that is finished in part is translated again."""
    documents = [[3, 3, 3, 3, 3], [2, 2, 2, 2], [4]]
    rows: list[list[int]] = []
    translate = PartSearch._translate

    def watched(self: Any, models: Any, parts: Any, *others: Any) -> bool:
        rows.append([row.document.number for row in parts])
        return translate(self, models, parts, *others)

    monkeypatch.setattr(PartSearch, "_translate", watched)
    parts: dict[tuple[int, ...], Any] = {}
    task, generator = generator_of(1, 12)
    whole = translated(task, generator, documents, parts_in(parts))
    rounds = list(rows)
    assert len(rounds) > 3
    # The second round is finished for the first document only.
    torn = parts_in({place: parts[place] for place in [(0, 0), (1, 0), (2, 0), (0, 1)]})
    rows.clear()
    again = translated(task, generator, documents, torn)
    assert rows == rounds[1:]
    for one, other in zip(again, whole, strict=True):
        assert [s.tokens for s in one[0].sentences] == [s.tokens for s in other[0].sentences]


@pytest.mark.parametrize("special_tokens", SPECIAL_TOKENS)
def test_what_is_read_before_a_sentence(special_tokens: str) -> None:
    """With the opening token of the next sentence it is the beginning of the decoder's input."""
    frame = Frame(BOS, EOS, PAD, special_tokens, 90, 91)
    sentences = [torch.tensor([*words, EOS]) for words in ([5, 6], [7], [8, 9, 4])]
    for count in (1, 2):
        read = [*frame.read_before(sentences[:count]).tolist(), frame.opening]
        whole = frame.target(sentences)[0].tolist()
        assert read == whole[: len(read)]
        assert len(read) < len(whole)


def test_a_document_of_one_chunk_is_translated_as_without() -> None:
    """Nothing changes for documents that fit into a chunk."""
    documents = [[3, 2, 4], [1], [5, 5, 2, 2]]
    with_overlap = translated(*generator_of(2, 100, nbest=2), documents)
    without = translated(*generator_of(0, 100), documents)
    for one, other in zip(with_overlap, without, strict=True):
        assert [h.tokens for h in one] == [h.tokens for h in other]
        assert [h.score for h in one] == pytest.approx([h.score for h in other])


def test_a_beginning_that_leaves_no_room_is_shortened() -> None:
    """The decoder's positions are for the new sentences first."""
    task, generator = generator_of(3, 16)
    search = generator.search
    lengths = [2, 2, 2, 2, 2, 2, 2]
    plain = translated(task, generator, [lengths])[0][0]
    search.vocabulary = type(search.vocabulary)(
        **{**search.vocabulary.__dict__, "max_input_tokens": 18}
    )
    short = translated(task, generator, [lengths])[0][0]
    assert len(plain.sentences) == len(short.sentences) == len(lengths)


def test_refused() -> None:
    """Units without chunks, a free search, a negative number."""
    task = task_for("sentence")
    task.cfg.overlap = 1
    with pytest.raises(GtransError, match="`--overlap 1` is for models that see documents"):
        _ = task.examples
    with pytest.raises(GtransError, match="`--free` is for documents that are translated at once"):
        generator_of(1, 16, "document", free=True)
    with pytest.raises(GtransError, match="`--overlap` must be at least 0, but is -1"):
        DocumentUnit(16, -1)
