"""The Transformer with a context that another encoder has read, on tensors."""

from __future__ import annotations

import re
from typing import Any

import pytest
import torch
from omegaconf import OmegaConf
from support.untrained import task_for

from gtrans.errors import GtransError
from gtrans.models.bert_context_transformer import BertContextConfig, BertContextTransformer
from gtrans.models.gtransformer import GTransformer, GTransformerConfig

BOS, PAD, EOS, A, B, C = 0, 1, 2, 4, 5, 6
SIZES = {
    "encoder_embed_dim": 16,
    **{f"{side}_ffn_embed_dim": 16 for side in ("encoder", "decoder")},
    **{f"{side}_{part}": 2 for side in ("encoder", "decoder")
       for part in ("layers", "attention_heads")},
}  # fmt: skip
BERT_DIM = 6


def model_of(seed: int = 1, **options: Any) -> BertContextTransformer:
    torch.manual_seed(seed)
    cfg = OmegaConf.structured(
        BertContextConfig(**{**SIZES, "bert_dim": BERT_DIM, **options})
    )
    cfg._name = options.pop("arch", "bert_context_transformer_tiny")
    return BertContextTransformer.build_model(cfg, task_for("window")).eval()


def sentence_model(seed: int = 1) -> GTransformer:
    torch.manual_seed(seed)
    cfg = OmegaConf.structured(GTransformerConfig(doc_mode="full", **SIZES))
    cfg._name = "gtransformer_tiny"
    return GTransformer.build_model(cfg, task_for("sentence")).eval()


# Two windows: a sentence with the one before it, and one without.
WINDOWS = torch.tensor([[BOS, A, B, EOS, BOS, C, EOS], [BOS, B, EOS, PAD, PAD, PAD, PAD]])
CURRENT = torch.tensor([1, 0])
SENTENCES = torch.tensor([[BOS, C, EOS], [BOS, B, EOS]])
TARGET = torch.tensor([[BOS, A, A], [BOS, C, PAD]])
FEATURES = torch.linspace(-1, 1, 7 * BERT_DIM).view(7, BERT_DIM)
LENGTHS = torch.tensor([4, 3])
CONTEXT = {"current": CURRENT, "context_states": FEATURES, "context_lengths": LENGTHS}


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


def test_a_model_in_half_precision_takes_features_as_they_come() -> None:
    model = model_of().bfloat16()
    assert logits(model).dtype == torch.bfloat16


@pytest.mark.parametrize("integration", ["both", "encoder", "decoder"])
@pytest.mark.parametrize("combine", ["gate", "mean"])
def test_each_sentence_depends_on_its_own_context(integration: str, combine: str) -> None:
    model = model_of(bert_integration=integration, combine=combine)
    before = logits(model)
    changed = FEATURES.clone()
    changed[:4] *= -1
    after = logits(model, context_states=changed)
    assert not torch.allclose(before[0], after[0], atol=1e-4)
    assert torch.allclose(before[1], after[1], atol=1e-6)


def test_a_trained_context_encoder_reads_the_neighbours_only() -> None:
    model = model_of(context_input="words", context_layers=1)
    before = logits(model, context_states=None, context_lengths=None)
    other = WINDOWS.clone()
    other[0, 1] = C
    with torch.no_grad():
        after = model(other, None, TARGET, current=CURRENT)[0]
        alone = model(SENTENCES, None, TARGET)[0]
    assert not torch.allclose(before[0], after[0], atol=1e-4)
    assert torch.allclose(before[1], after[1], atol=1e-6)
    # A sentence without context is the same in a window and alone.
    assert torch.allclose(before[1], alone[1], atol=1e-6)


def test_a_trained_encoder_on_top_of_bert_projects_its_width() -> None:
    model = model_of(context_input="bert", context_layers=1)
    assert model.context_encoder is not None
    assert model.context_encoder.project.weight.shape == (16, BERT_DIM)
    assert logits(model).shape == (2, 3, len(task_for("window").target_dictionary))


@pytest.mark.parametrize(
    "options",
    [{}, {"combine": "mean"}, {"bert_integration": "encoder"}, {"bert_integration": "decoder"},
     {"context_input": "words", "context_layers": 1}],
)  # fmt: skip
def test_decoding_step_by_step_is_the_teacher_forced_pass(options: dict[str, Any]) -> None:
    model = model_of(**options)
    whole = logits(model)
    beam = 2
    with torch.no_grad():
        state = model.begin_decoding({"src_tokens": WINDOWS, **CONTEXT}, beam)
        for place in range(2):
            tokens = TARGET[:, place].repeat_interleave(beam)
            step = model.decode_step(tokens, torch.zeros_like(tokens).bool(), state)
            assert torch.allclose(step[::beam], whole[:, place], atol=1e-5)
            assert torch.allclose(step[1::beam], whole[:, place], atol=1e-5)
        # The second document goes on alone.
        state.keep(torch.tensor([0]))
        tokens = TARGET[:1, 2].repeat_interleave(beam)
        step = model.decode_step(tokens, torch.zeros_like(tokens).bool(), state)
        assert torch.allclose(step[:1], whole[:1, 2], atol=1e-5)


def test_features_get_no_gradient_and_are_no_parameters() -> None:
    model = model_of().train()
    output = model(WINDOWS, None, TARGET, **CONTEXT)[0]
    output.sum().backward()
    assert FEATURES.grad is None
    assert all(p.grad is not None for n, p in model.named_parameters() if "context_attn" in n)


@pytest.mark.parametrize(
    ("options", "flag"),
    [({"drop_net": 1.5}, "--drop-net"), ({"context_layers": -1}, "--context-layers"),
     ({"context_input": "words", "context_layers": 0}, "--context-layers")],
)  # fmt: skip
def test_options_out_of_range(options: dict[str, Any], flag: str) -> None:
    with pytest.raises(GtransError, match=flag):
        model_of(**options)


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
        return {"src_tokens": rows, "current": torch.ones(count, dtype=torch.long)}, answer
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
            found = model(
                src_lengths=None, prev_output_tokens=torch.full((200, 1), BOS), **given
            )[0][:, 0]
        assert low <= float(found.argmax(-1).eq(answer).float().mean()) <= high
