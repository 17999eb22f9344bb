"""The Transformer with a context that another encoder has read, on tensors."""

from __future__ import annotations

import re
from typing import Any

import pytest
import torch
from support.batches import context_plan
from support.untrained import task_for, untrained

from gtrans.errors import GtransError
from gtrans.models.bert_context_transformer import BertContextTransformer
from gtrans.models.gtransformer import GTransformer

BOS, PAD, EOS, A, B, C = 0, 1, 2, 4, 5, 6
BERT_DIM = 6


def model_of(seed: int = 1, **options: Any) -> BertContextTransformer:
    given = {"bert_dim": BERT_DIM, **options}
    return untrained(task_for("window"), seed, BertContextTransformer, **given).eval()


def sentence_model() -> GTransformer:
    return untrained(task_for("sentence"), doc_mode="full").eval()


# Two windows: a sentence with the one before it, and one without.
WINDOWS = torch.tensor([[BOS, A, B, EOS, BOS, C, EOS], [BOS, B, EOS, PAD, PAD, PAD, PAD]])
CURRENT = torch.tensor([1, 0])
SENTENCES = torch.tensor([[BOS, C, EOS], [BOS, B, EOS]])
TARGET = torch.tensor([[BOS, A, A], [BOS, C, PAD]])
FEATURES = torch.linspace(-1, 1, 7 * BERT_DIM).view(7, BERT_DIM)
LENGTHS = torch.tensor([4, 3])
CONTEXT = {"current_sentence": CURRENT, "context_states": FEATURES, "context_lengths": LENGTHS}


def logits(model: BertContextTransformer, **context: Any) -> torch.Tensor:
    with torch.no_grad():
        return model(WINDOWS, None, TARGET, **{**CONTEXT, **context})[0]


def test_without_integration_it_is_the_sentence_transformer() -> None:
    plain, model = sentence_model(), model_of(bert_integration="none")
    assert {n: p.shape for n, p in model.named_parameters()} == {
        n: p.shape for n, p in plain.named_parameters()
    }
    model.load_state_dict(plain.state_dict())
    with torch.no_grad():
        assert torch.equal(logits(model), plain(SENTENCES, None, TARGET)[0])


@pytest.mark.parametrize("integration", ["both", "encoder", "decoder"])
@pytest.mark.parametrize("input_", ["bert", "words"])
def test_closed_gates_are_the_sentence_transformer(integration: str, input_: str) -> None:
    """Encoder gate at 1, decoder gate at 0, whatever the context says."""
    plain = sentence_model()
    model = model_of(
        bert_integration=integration, context_gate_bias=200.0, context_input=input_,
        context_layers=int(input_ == "words"),
    )  # fmt: skip
    loaded = model.load_state_dict(plain.state_dict(), strict=False)
    added = (".context_attn.", "context_encoder.", "whitening.")
    assert all(any(part in name for part in added) for name in loaded.missing_keys)
    assert not loaded.unexpected_keys
    with torch.no_grad():
        assert torch.equal(logits(model), plain(SENTENCES, None, TARGET)[0])


def test_a_trained_context_encoder_reads_the_neighbours_only() -> None:
    model = model_of(context_input="words", context_layers=1)
    before = logits(model, context_states=None, context_lengths=None)
    other = WINDOWS.clone()
    other[0, 1] = C
    with torch.no_grad():
        after = model(other, None, TARGET, current_sentence=CURRENT)[0]
        alone = model(SENTENCES, None, TARGET)[0]
    assert not torch.allclose(before[0], after[0], atol=1e-4)
    assert torch.allclose(before[1], after[1], atol=1e-6)
    # A sentence without context is the same in a window and alone.
    assert torch.allclose(before[1], alone[1], atol=1e-6)


@pytest.mark.parametrize(
    ("options", "flag"),
    [({"drop_net": 1.5}, "--drop-net"), ({"context_layers": -1}, "--context-layers"),
     ({"context_input": "words", "context_layers": 0}, "--context-layers")],
)  # fmt: skip
def test_options_out_of_range(options: dict[str, Any], flag: str) -> None:
    with pytest.raises(GtransError, match=flag):
        model_of(**options)


# ---- context attention behind self-attention, as in Zhang et al. (2018) --------------------------


@pytest.mark.parametrize("pre_norm", [False, True])
@pytest.mark.parametrize("side", ["encoder", "decoder"])
def test_context_attention_behind_self_attention_by_hand(side: str, pre_norm: bool) -> None:
    """The gate mixes a state and its context attention, in place of a residual connection."""
    norm = {f"{one}_normalize_before": pre_norm for one in ("encoder", "decoder")}
    model = model_of(context_place="behind", **norm)
    layer = getattr(model, side).layers[0]
    part = layer.context_attn
    x, states = torch.randn(3, 16), torch.randn(7, BERT_DIM)
    plan = context_plan([2, 1], [4, 3])
    with torch.no_grad():
        query = part.layer_norm(x) if pre_norm else x
        attended = part.attention(query, states, states, plan)
        pair = (attended, x) if side == "decoder" else (x, attended)
        first = torch.sigmoid(part.gate.proj(torch.cat(pair, 1)))
        wanted = first * pair[0] + (1 - first) * pair[1]
        wanted = wanted if pre_norm else part.layer_norm(wanted)
        found = layer._context_sublayer(
            x, lambda query: part.attention(query, states, states, plan)
        )
    torch.testing.assert_close(found, wanted)


# ---- learning ------------------------------------------------------------------------------------

FILLER, ASK, SAY_A, SAY_B = 4, 5, 6, 7
CUES = torch.eye(4, BERT_DIM)  # features of four words; two mean A, two mean B


def asked(count: int, seed: int, reads_words: bool) -> tuple[dict[str, torch.Tensor], torch.Tensor]:
    """Sentences whose translation stands in the context only, and that translation."""
    generator = torch.Generator().manual_seed(seed)
    cue = torch.randint(4, (count,), generator=generator)
    answer = torch.where(cue < 2, SAY_A, SAY_B)
    if reads_words:
        rows = torch.tensor([[BOS, FILLER, 0, EOS, BOS, ASK, EOS]]).repeat(count, 1)
        rows[:, 2] = torch.where(cue < 2, SAY_A, SAY_B)
        return {"src_tokens": rows, "current_sentence": torch.ones(count, dtype=torch.long)}, answer
    states = 0.1 * torch.randn(count, 3, BERT_DIM, generator=generator)
    place = torch.randint(3, (count,), generator=generator)
    states[torch.arange(count), place] += CUES[cue]
    return {
        "src_tokens": torch.tensor([[BOS, ASK, EOS]]).repeat(count, 1),
        "context_states": states.flatten(0, 1),
        "context_lengths": torch.full((count,), 3),
    }, answer


@pytest.mark.parametrize(
    "options",
    [{},
     *(pytest.param(options, marks=pytest.mark.long)
       for options in ({"context_input": "words", "context_layers": 1},
                       {"bert_integration": "encoder"}, {"bert_integration": "decoder"},
                       {"combine": "mean"}, {"context_layers": 1}))],
)  # fmt: skip
def test_learns_what_stands_in_the_context(options: dict[str, Any]) -> None:
    model = model_of(**options).train()
    words = options.get("context_input") == "words"
    optimizer = torch.optim.Adam(model.parameters(), lr=5e-3)
    for update in range(120):
        inputs, answer = asked(32, update, words)
        decoder_input = torch.full((32, 1), BOS)
        found = model(src_lengths=None, prev_output_tokens=decoder_input, **inputs)[0][:, 0]
        loss = torch.nn.functional.cross_entropy(found, answer)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    model.eval()
    inputs, answer = asked(200, 10**6, words)
    other, _ = asked(200, 10**6 + 1, words)
    for given, low, high in ((inputs, 0.95, 1.0), ({**inputs, **other}, 0.4, 0.6)):
        with torch.no_grad():
            found = model(src_lengths=None, prev_output_tokens=torch.full((200, 1), BOS), **given)[
                0
            ][:, 0]
        assert low <= float(found.argmax(-1).eq(answer).float().mean()) <= high


def test_whitened_states_are_those_of_a_model_with_other_weights() -> None:
    """The map in front of the projections adds nothing to what the model can be."""
    model, raw = model_of(), model_of(raw_bert_states=True)
    assert model.bert_whitening is not None
    before = logits(model)
    states = torch.randn(500, BERT_DIM) @ torch.randn(BERT_DIM, BERT_DIM) + 3
    model.bert_whitening.measure([states], "ab" * 32)
    changed = model.state_dict()
    assert not torch.allclose(logits(model), before, atol=1e-3)
    folded = dict(changed)
    mean, map_ = changed["whitening.mean"], changed["whitening.map"]
    for name, tensor in changed.items():
        if re.search(r"context_attn\.attention\.[kv]_proj\.weight", name):
            weight = tensor @ map_
            bias = name.replace("weight", "bias")
            folded[name], folded[bias] = weight, changed[bias] - weight @ mean
    raw.load_state_dict(folded)
    assert torch.allclose(logits(raw), logits(model), atol=1e-5)
