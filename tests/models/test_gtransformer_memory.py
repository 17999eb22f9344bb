"""G-Transformer with a memory between instances: what it reads, and what it is without."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from support.batches import BOS, EOS, PAD
from support.gtransformer_models import model_of
from torch import Tensor, nn

from gtrans.models.gtransformer_memory import GTransformerMemory
from gtrans.modules.memory import MemoryFlow

Instance = list[list[int]]
LAYERS = {f"{part}_global_layers": 1 for part in ("encoder", "decoder", "cross")}


def memory_model(**options: Any) -> GTransformerMemory:
    given = {"memory_size": 2, "memory_output": "residual", "memory_layers": "all", **LAYERS}
    model = model_of(GTransformerMemory, **{**given, **options})
    assert isinstance(model, GTransformerMemory)
    return model


def text(seed: int, *sentences: int) -> Instance:
    draw = torch.Generator().manual_seed(seed)
    return [torch.randint(4, 20, (n,), generator=draw).tolist() for n in sentences]


# Documents by their instances.
DOCUMENTS = [
    [text(1, 3, 2), text(2, 4), text(3, 1, 2, 2)],
    [text(4, 2, 5, 1)],
    [text(5, 6), text(6, 2, 2)],
]


def inputs(documents: list[list[Instance]]) -> dict[str, Tensor]:
    """Both sides the same text; the decoder does not read the last end mark of a row."""
    rows = [
        torch.tensor([t for part in doc for words in part for t in (BOS, *words, EOS)])
        for doc in documents
    ]
    counts = [torch.tensor([len(part) for part in doc]) for doc in documents]
    pad = nn.utils.rnn.pad_sequence
    return {
        "src_tokens": pad(rows, True, PAD),
        "prev_output_tokens": pad([row[:-1] for row in rows], True, PAD),
        "instances": pad(counts, True, 0),
    }


def logits_of(model: Any, documents: list[list[Instance]], **options: Any) -> Tensor:
    found: Tensor = model(src_lengths=None, **inputs(documents), **options)[0]
    return found


# ---- the model -----------------------------------------------------------------------------------


@pytest.mark.parametrize("output", ["residual", "printed", "added"])
@pytest.mark.parametrize("side", ["encoder", "decoder", "both"])
@torch.no_grad()
def test_a_row_of_instances_is_instance_by_instance(side, output):
    """Each begins with the memory that those before it have left."""
    model = memory_model(memory_side=side, memory_output=output)
    for name, parameter in model.named_parameters():
        if "output_attn.out_proj" in name:  # of `added` it begins at zero
            nn.init.normal_(parameter, std=0.3, generator=torch.Generator().manual_seed(1))
    whole = logits_of(model, DOCUMENTS)
    without = logits_of(model, [[part] for doc in DOCUMENTS for part in doc])
    number = 0
    for row, document in enumerate(DOCUMENTS):
        at, flow = 0, MemoryFlow()
        for place, instance in enumerate(document):
            alone = logits_of(model, [[instance]], memory=flow)[0]
            flow = flow.following(torch.tensor([0]))
            torch.testing.assert_close(whole[row, at : at + len(alone)], alone)
            at += len(alone) + 1  # the end mark is input, too, where another one follows
            assert torch.allclose(without[number, : len(alone)], alone, atol=1e-4) == (place == 0)
            number += 1


@torch.no_grad()
def test_it_begins_as_the_model_without_memory_to_the_last_bit():
    """With the defaults, and with no memory at all; in windows of instances, too."""
    plain = model_of(**LAYERS)
    single = [[part] for doc in DOCUMENTS for part in doc]
    read = {n: t for n, t in inputs(single).items() if n != "instances"}
    wanted = plain(src_lengths=None, **read)[0]
    for options in ({"memory_output": "added"}, {"memory_size": 0}):
        model = memory_model(**options)
        missing, unexpected = nn.Module.load_state_dict(model, plain.state_dict(), strict=False)
        assert not unexpected and all(".memory." in name for name in missing)
        assert bool(missing) == model.has_memory
        assert torch.equal(logits_of(model, single), wanted)
        whole = logits_of(model, DOCUMENTS)
        begins = [0, 3, 4]
        for row, number in enumerate(begins):
            size = len(inputs([single[number]])["prev_output_tokens"][0])
            torch.testing.assert_close(whole[row, :size], wanted[number, :size])


def test_a_gradient_reaches_as_many_instances_back_as_it_may():
    """Each memory is written by embeddings of the instance before, and by those before that."""
    for bptt, reached in ((1, [False, True]), (-1, [True, True])):
        model = memory_model(memory_bptt=bptt, memory_side="encoder", dropout=0.0)
        rows = [[[[4, 4]], [[5, 5]], [[6, 6]]]]
        logits = logits_of(model, rows)
        logits[0, -2:].sum().backward()
        gradient = model.encoder.embed_tokens.weight.grad
        assert gradient is not None
        assert [bool(gradient[word].abs().sum() > 0) for word in (4, 5)] == reached, bptt
