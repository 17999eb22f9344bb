"""The memory of a layer against the equations, and that of a model against step by step.

A step is a sentence in the memory Transformer, and a chunk of sentences in a G-Transformer.
"""

from __future__ import annotations

import math
from typing import Any

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from support.batches import BOS, EOS, PAD
from support.untrained import dictionary, g_transformer, memory_transformer, pair, sizes, untrained
from torch import Tensor, nn

from gtrans.errors import GtransError
from gtrans.models.gtransformer import GTransformer
from gtrans.models.gtransformer_memory import GTransformerMemory
from gtrans.models.memory_transformer import MemoryTransformer, parse_layers
from gtrans.modules.group_attention import DocumentLayout
from gtrans.modules.memory import MemoryFlow, MemorySpec, RecurrentMemory, memory_plan
from gtrans.modules.transformer import LayerSpec


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
        outputs.append(read if memory.memory_spec.output == "printed" else norm(h + read))
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

# A document by its steps, of sentences of words.
Step = list[list[int]]
Document = list[Step]
LAYERS = {f"{part}_global_layers": 1 for part in ("encoder", "decoder", "cross")}


def of_sentences(**options: Any) -> MemoryTransformer:
    model: MemoryTransformer = memory_transformer(**options).eval()
    return model


def of_chunks(**options: Any) -> GTransformerMemory:
    given = {"memory_size": 2, "memory_output": "residual", "memory_layers": "all", **LAYERS}
    return g_transformer(GTransformerMemory, **{**given, **options})


def padded(rows: list[list[int]], value: int = PAD) -> Tensor:
    tensors = [torch.tensor(row) for row in rows]
    return nn.utils.rnn.pad_sequence(tensors, batch_first=True, padding_value=value)


def inputs(documents: list[Document], of_chunks: bool = False) -> dict[str, Tensor]:
    """Both sides the same text; the decoder does not read the last end token of a row."""
    rows = [[t for step in doc for words in step for t in (BOS, *words, EOS)] for doc in documents]
    found = {"src_tokens": padded(rows), "prev_output_tokens": padded([row[:-1] for row in rows])}
    if of_chunks:
        found["chunks"] = padded([[len(step) for step in doc] for doc in documents], 0)
    return found


def logits_of(model: Any, documents: list[Document], **options: Any) -> Tensor:
    read = inputs(documents, isinstance(model, GTransformerMemory))
    found: Tensor = model(src_lengths=None, **read, **options)[0]
    return found


def step(seed: int, *sentences: int) -> Step:
    draw = torch.Generator().manual_seed(seed)
    return [torch.randint(4, 20, (n,), generator=draw).tolist() for n in sentences]


SENTENCES = [[step(1, 3), step(2, 5), step(3, 2)], [step(4, 4)], [step(5, 2), step(6, 6)]]
CHUNKS = [
    [step(1, 3, 2), step(2, 4), step(3, 1, 2, 2)],
    [step(4, 2, 5, 1)],
    [step(5, 6), step(6, 2, 2)],
]
MODELS = [
    *((of_sentences, SENTENCES, {"memory_layers": layers}) for layers in ("top", "all")),
    *((of_chunks, CHUNKS, {"memory_output": out}) for out in ("residual", "printed", "added")),
]


@pytest.mark.parametrize("side", ["encoder", "decoder", "both"])
@pytest.mark.parametrize(("made", "documents", "options"), MODELS)
@torch.no_grad()
def test_a_row_of_steps_is_step_by_step(made, documents, options, side):
    """Each begins with the memory that those before it have left."""
    model = made(memory_side=side, **options)
    for name, parameter in model.named_parameters():
        if "output_attn.out_proj" in name:  # of `added` it begins at zero
            nn.init.normal_(parameter, std=0.3, generator=torch.Generator().manual_seed(1))
    whole = logits_of(model, documents)
    without = logits_of(model, [[one] for doc in documents for one in doc])
    number = 0
    for row, document in enumerate(documents):
        at, flow = 0, MemoryFlow()
        for place, one in enumerate(document):
            alone = logits_of(model, [[one]], memory=flow)[0]
            flow = flow.following(torch.tensor([0]))
            torch.testing.assert_close(whole[row, at : at + len(alone)], alone)
            at += len(alone) + 1  # the end token is input, too, where another one follows
            assert torch.allclose(without[number, : len(alone)], alone, atol=1e-4) == (place == 0)
            number += 1


@torch.no_grad()
def test_without_memory_it_is_the_plain_transformer_to_the_last_bit():
    model = of_sentences(memory_size=0)
    task = pair(dictionary(60))
    plain = untrained(task, 0, GTransformer, **sizes(ffn=32), doc_mode="full").eval()
    assert plain.load_state_dict(model.state_dict()) and not model.has_memory
    for sentence in SENTENCES[0]:
        assert logits_of(model, [[sentence]]).equal(logits_of(plain, [[sentence]]))


@torch.no_grad()
def test_a_g_transformer_begins_as_without_memory_to_the_last_bit():
    """With the defaults, and with no memory at all; in windows of chunks, too."""
    plain = g_transformer(**LAYERS)
    single = [[chunk] for doc in CHUNKS for chunk in doc]
    wanted = logits_of(plain, single)
    for options in ({"memory_output": "added"}, {"memory_size": 0}):
        model = of_chunks(**options)
        missing, unexpected = nn.Module.load_state_dict(model, plain.state_dict(), strict=False)
        assert not unexpected and all(".memory." in name for name in missing)
        assert bool(missing) == model.has_memory
        assert torch.equal(logits_of(model, single), wanted)
        whole = logits_of(model, CHUNKS)
        for row, number in enumerate([0, 3, 4]):
            size = len(inputs([single[number]])["prev_output_tokens"][0])
            torch.testing.assert_close(whole[row, :size], wanted[number, :size])


def test_layers():
    assert parse_layers("top", 6) == [5]
    assert parse_layers("all", 3) == [0, 1, 2]
    assert parse_layers("0,4-5", 6) == [0, 4, 5]
    for wrong in ("6", "3-2", "x", "", "-1"):
        with pytest.raises(GtransError, match="--memory-layers"):
            parse_layers(wrong, 6)
    for options in ({"memory_bptt": -2}, {"memory_bptt": 0}):
        with pytest.raises(GtransError, match=next(iter(options)).replace("_", "-")):
            of_sentences(**options)


def reach(model: MemoryTransformer, sentences: int = 14) -> list[int]:
    """Distances of the sentences whose words get a gradient from the last sentence."""
    # Every sentence has words of its own on both sides.
    document = [[4 + 4 * n, 5 + 4 * n, 6 + 4 * n, 7 + 4 * n] for n in range(sentences)]
    logits = logits_of(model, [[[words] for words in document]])
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
    assert reach(of_sentences(**options)) == [0, 1]
    assert reach(of_sentences(**options, memory_bptt=2)) == [0, 1, 2]
    assert reach(of_sentences(**options, memory_bptt=-1)) == list(range(14))


def test_a_gradient_reaches_as_many_chunks_back_as_it_may():
    """Each memory is written by embeddings of the chunk before, and by those before that."""
    for bptt, reached in ((1, [False, True]), (-1, [True, True])):
        model = of_chunks(memory_bptt=bptt, memory_side="encoder")
        logits = logits_of(model, [[[[4, 4]], [[5, 5]], [[6, 6]]]])
        logits[0, -2:].sum().backward()
        gradient = model.encoder.embed_tokens.weight.grad
        assert gradient is not None
        assert [bool(gradient[word].abs().sum() > 0) for word in (4, 5)] == reached, bptt
