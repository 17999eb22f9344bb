"""Context attention behind self-attention, as in Zhang et al. (2018)."""

from __future__ import annotations

import pytest
import torch
from omegaconf import OmegaConf
from support.untrained import task_for

from gtrans.models.bert_context_transformer import BertContextConfig, BertContextTransformer
from gtrans.modules.attention_plans import AttentionPlans
from gtrans.modules.context_attention import PackedContext
from gtrans.modules.layout import DocumentLayout

BOS, PAD, EOS, A, B, C = 0, 1, 2, 4, 5, 6
WINDOWS = torch.tensor([[BOS, A, B, EOS, BOS, C, EOS], [BOS, B, EOS, PAD, PAD, PAD, PAD]])
SOURCE = {"src_tokens": WINDOWS, "current": torch.tensor([1, 0])}
TARGET = torch.tensor([[BOS, A, A], [BOS, C, B]])


def model_of(pre_norm: bool = False, place: str = "behind") -> BertContextTransformer:
    sides = ("encoder", "decoder")
    torch.manual_seed(1)
    cfg = OmegaConf.structured(
        BertContextConfig(
            encoder_embed_dim=16,
            context_place=place,
            **{f"{side}_ffn_embed_dim": 16 for side in sides},
            **{f"{side}_{part}": 2 for side in sides for part in ("layers", "attention_heads")},
            **{f"{side}_normalize_before": pre_norm for side in sides},
        )
    )
    cfg._name = "document_aware_transformer_tiny"
    return BertContextTransformer.build_model(cfg, task_for("window")).eval()


@pytest.mark.parametrize("pre_norm", [False, True])
@pytest.mark.parametrize("side", ["encoder", "decoder"])
def test_by_hand(side: str, pre_norm: bool) -> None:
    """The gate mixes a state and its context attention, in place of a residual connection."""
    layer = getattr(model_of(pre_norm), side).layers[0]
    part = layer.context_attn
    x, states = torch.randn(3, 16), torch.randn(7, 16)
    context = PackedContext(states, torch.tensor([4, 3]))
    rows = DocumentLayout.of_rows(torch.tensor([2, 1]))
    plan = context.plan(rows.documents, 3)
    with torch.no_grad():
        query = part.layer_norm(x) if pre_norm else x
        attended = part.attention(query, states, states, plan)
        pair = (attended, x) if side == "decoder" else (x, attended)
        first = torch.sigmoid(part.gate.proj(torch.cat(pair, 1)))
        wanted = first * pair[0] + (1 - first) * pair[1]
        wanted = wanted if pre_norm else part.layer_norm(wanted)
        found = layer._context_behind(x, AttentionPlans(rows, context=context), plan)
    torch.testing.assert_close(found, wanted)


def test_it_is_a_sublayer_of_its_own() -> None:
    model, beside = model_of(), model_of(place="beside")
    names = {name for name, _ in model.named_parameters()}
    norms = names - {name for name, _ in beside.named_parameters()}
    assert len(norms) == 8  # weight and bias in two layers of each side
    assert all("context_attn.layer_norm" in name for name in norms)


@pytest.mark.parametrize("pre_norm", [False, True])
def test_decoding_step_by_step_is_the_teacher_forced_pass(pre_norm: bool) -> None:
    model = model_of(pre_norm)
    with torch.no_grad():
        wanted = model(WINDOWS, None, TARGET, current=SOURCE["current"])[0]
        state = model.begin_decoding(SOURCE, 1)
        for position, tokens in enumerate(TARGET.T):
            step = model.decode_step(tokens, torch.zeros_like(tokens).bool(), state)
            torch.testing.assert_close(step, wanted[:, position], atol=1e-5, rtol=1e-5)
    # The context matters.
    other = {**SOURCE, "src_tokens": WINDOWS.where(WINDOWS.ne(B), torch.tensor(A))}
    with torch.no_grad():
        changed = model(other["src_tokens"], None, TARGET, current=SOURCE["current"])[0]
    assert not torch.allclose(changed[0], wanted[0], atol=1e-4)
