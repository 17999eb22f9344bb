"""The memory of a layer against the equations, and that of a model against sentence by sentence."""

from __future__ import annotations

import math

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from support.memory_models import SIZES, model_of, task
from torch import Tensor, nn

from gtrans.errors import GtransError
from gtrans.models.gtransformer import GTransformer, GTransformerConfig
from gtrans.models.memory_transformer import MemoryTransformer, parse_layers
from gtrans.modules.group_attention import DocumentLayout
from gtrans.modules.memory import MemoryFlow, MemorySpec, RecurrentMemory, memory_plan
from gtrans.modules.transformer import LayerSpec

BOS, PAD, EOS = 0, 1, 2


def layout_of(documents: list[list[int]]) -> DocumentLayout:
    """Documents by the lengths of their sentences."""
    longest = max(map(sum, documents))
    real = torch.zeros(len(documents), longest, dtype=torch.bool)
    starts = torch.zeros_like(real)
    for row, lengths in enumerate(documents):
        real[row, : sum(lengths)] = True
        for sentence in range(len(lengths)):
            starts[row, sum(lengths[:sentence])] = True
    return DocumentLayout.from_starts(real, starts)


# ---- one layer -----------------------------------------------------------------------------------


def as_written(memory: RecurrentMemory, sentences: list[Tensor]) -> list[Tensor]:
    """Eq 1-5 for one document, one head at a time."""

    def attend(attention: nn.Module, query: Tensor, keys: Tensor) -> Tensor:
        q, k, v = attention.q_proj(query), attention.k_proj(keys), attention.v_proj(keys)
        size = q.size(1) // attention.heads
        parts = []
        for head in range(attention.heads):
            part = slice(head * size, (head + 1) * size)
            scores = q[:, part] @ k[:, part].T / math.sqrt(size)
            parts.append(scores.softmax(-1) @ v[:, part])
        return attention.out_proj(torch.cat(parts, 1))

    m, outputs = memory.initial, []
    for number, h in enumerate(sentences):
        if number:
            before = sentences[number - 1]
            place = memory.sinusoid(torch.arange(len(m)))
            m = m + place
            m = memory.update_attn_layer_norm(m + attend(memory.update_attn, m, before))
            m = memory.final_layer_norm(m + memory.fc2(memory.fc1(m).relu()))
        read = attend(memory.output_attn, h, m)
        norm = memory.output_attn_layer_norm
        outputs.append(read if memory.memory.output == "printed" else norm(h + read))
    return outputs


lengths = st.lists(st.integers(1, 5), min_size=1, max_size=4)


@pytest.mark.parametrize("options", [{}, {"output": "printed"}])
@given(st.lists(lengths, min_size=1, max_size=3), st.integers(1, 3))
def test_all_sentences_at_once_are_one_after_the_other(options, documents, size):
    torch.manual_seed(3)
    spec = MemorySpec(size, bptt=-1, **options)
    memory = RecurrentMemory(LayerSpec(dim=8, ffn_dim=6, heads=2), spec)
    layout = layout_of(documents)
    h = torch.randn(layout.tokens, 8)
    out = memory(h, MemoryFlow(), memory_plan(layout, size))
    at = 0
    for lengths_of in documents:
        parts = h[at : at + sum(lengths_of)].split(lengths_of)
        wanted = torch.cat(as_written(memory, list(parts)))
        torch.testing.assert_close(out[at : at + sum(lengths_of)], wanted, atol=1e-5, rtol=1e-4)
        at += sum(lengths_of)


def test_pre_norm_layers_read_through_the_norm():
    torch.manual_seed(1)
    spec = LayerSpec(dim=8, ffn_dim=6, heads=2, pre_norm=True)
    memory = RecurrentMemory(spec, MemorySpec(2))
    h = torch.randn(3, 8)
    out = memory(h, MemoryFlow(), memory_plan(layout_of([[3]]), 2))
    normed = memory.output_attn_layer_norm(h)
    key, value = memory.prepare(MemoryFlow(), 1)
    wanted = h + memory.output_attn.attend(normed, key, value, None)
    torch.testing.assert_close(out, wanted)


# ---- a model -------------------------------------------------------------------------------------


Document = list[list[int]]


def padded(rows: list[list[int]]) -> Tensor:
    tensors = [torch.tensor(row) for row in rows]
    return nn.utils.rnn.pad_sequence(tensors, batch_first=True, padding_value=PAD)


def inputs(documents: list[Document]) -> tuple[Tensor, None, Tensor]:
    """Both sides the same text."""
    rows = [[t for words in doc for t in (BOS, *words, EOS)] for doc in documents]
    return padded(rows), None, padded([row[:-1] for row in rows])


def text(seed: int, *sentences: int) -> Document:
    draw = torch.Generator().manual_seed(seed)
    return [torch.randint(4, 64, (n,), generator=draw).tolist() for n in sentences]


DOCUMENTS = [text(1, 3, 5, 2), text(2, 4), text(3, 2, 6)]


@pytest.mark.parametrize("layers", ["top", "all"])
@pytest.mark.parametrize("side", ["encoder", "decoder", "both"])
def test_a_row_of_sentences_is_sentence_by_sentence(layers, side):
    model = model_of(memory_layers=layers, memory_side=side).eval()
    with torch.no_grad():
        whole, _ = model(*inputs(DOCUMENTS))
        for row, document in enumerate(DOCUMENTS):
            at, flow = 0, MemoryFlow()
            for sentence in document:
                logits, _ = model(*inputs([[sentence]]), memory=flow)
                flow = flow.following(torch.tensor([0]))
                size = len(sentence) + 1
                torch.testing.assert_close(whole[row, at : at + size], logits[0])
                at += size + 1  # the end mark is input, too, where another sentence follows


def test_without_memory_it_is_the_plain_transformer_to_the_last_bit():
    model = model_of(memory_size=0).eval()
    plain = GTransformer.build_model(GTransformerConfig(**SIZES, doc_mode="full"), task()).eval()
    assert plain.load_state_dict(model.state_dict()) and not model.has_memory
    with torch.no_grad():
        for sentence in DOCUMENTS[0]:
            batch = inputs([[sentence]])
            assert torch.equal(model(*batch)[0], plain(*batch)[0])


def test_layers():
    assert parse_layers("top", 6) == [5]
    assert parse_layers("all", 3) == [0, 1, 2]
    assert parse_layers("0,4-5", 6) == [0, 4, 5]
    for wrong in ("6", "3-2", "x", "", "-1"):
        with pytest.raises(GtransError, match="--memory-layers"):
            parse_layers(wrong, 6)
    for options in ({"memory_size": -1}, {"memory_bptt": -2}, {"memory_bptt": 0}):
        with pytest.raises(GtransError, match=next(iter(options)).replace("_", "-")):
            model_of(**options)


def reach(model: MemoryTransformer, sentences: int = 14) -> list[int]:
    """Distances of the sentences whose words get a gradient from the last sentence."""
    model.eval().zero_grad()
    # Every sentence has words of its own on both sides.
    document = [[4 + 4 * n, 5 + 4 * n, 6 + 4 * n, 7 + 4 * n] for n in range(sentences)]
    logits, _ = model(*inputs([document]))
    logits[0, -4:].log_softmax(-1)[:, 10].sum().backward()
    tables = [side.embed_tokens.weight.grad for side in (model.encoder, model.decoder)]
    return [
        back
        for back, words in enumerate(reversed(document))
        if any(bool(table[words].abs().sum() > 0) for table in tables)
    ]


@pytest.mark.parametrize("layers", ["top", "all"])
@pytest.mark.parametrize("side", ["both", "encoder", "decoder"])
def test_the_gradient_reaches_as_far_as_asked(side, layers):
    options = {"memory_side": side, "memory_layers": layers}
    assert reach(model_of(**options)) == [0, 1]
    assert reach(model_of(**options, memory_bptt=2)) == [0, 1, 2]
    assert reach(model_of(**options, memory_bptt=-1)) == list(range(14))
