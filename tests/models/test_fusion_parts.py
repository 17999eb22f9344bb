"""Layer fusion in every system: its limits, what it reads, and what begins anew."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from support.contract import SIZES, Built, Case, batch_of, build, first_cases, searched_and_read
from support.suites import one_in
from torch import Tensor

GROUPS = {"encoder_group_size": 1, "decoder_group_size": 1}


def without_fusion() -> list[Case]:
    """Each class with its first unit; not those whose layers are always fused."""
    return [case for case in first_cases() if case.model.options().encoder_group_size == 0]


def logits_of(built: Built) -> Tensor:
    built.model.eval()
    with torch.no_grad():
        net_input = built.task.complete_input(batch_of(built)["net_input"])
        found: Tensor = built.model(**net_input)[0]
    return found


@pytest.mark.parametrize("case", one_in(3, without_fusion()))
def test_one_group_at_its_limit_is_the_plain_system(case: Case, prepared_with_bert: Any) -> None:
    """One group without gates in the decoder; in the encoder one whose gate is open."""
    one = {f"{side}_group_size": SIZES[f"{side}_layers"] for side in ("encoder", "decoder")}
    plain = build(case, prepared_with_bert)
    fused = build(case, prepared_with_bert, decoder_group_fusion="last", **one)
    begun = fused.model.state_dict()
    for name, value in plain.model.state_dict().items():
        assert begun[name].equal(value), f"{name} begins otherwise with fusion"
    torch.nn.init.constant_(fused.model.encoder.fusion.weights, 1e4)
    assert logits_of(fused).equal(logits_of(plain))


def outputs_of(layers: Any) -> list[Tensor]:
    """A list that receives the outputs of these layers."""
    found: list[Tensor] = []
    for layer in layers:
        layer.register_forward_hook(lambda _, __, output: found.append(output))
    return found


@pytest.mark.parametrize("pre_norm", [False, True])
def test_the_encoder_of_a_g_transformer_is_fused_as_printed(
    prepared_with_bert: Any, pre_norm: bool
) -> None:
    """Eq 2; a pre-norm stack has one LayerNorm, not two."""
    case = Case("gtransformer_tiny", "document")
    built = build(case, prepared_with_bert, **GROUPS, encoder_normalize_before=pre_norm)
    encoder = built.model.eval().encoder
    torch.nn.init.normal_(encoder.fusion.weights)
    outputs = outputs_of(encoder.layers)
    with torch.no_grad():
        found = encoder(batch_of(built)["net_input"]["src_tokens"]).states
        gates = encoder.fusion.weights.sigmoid()
        norm = encoder.layer_norm if pre_norm else encoder.fusion.layer_norm
        expected = norm((gates[0] * outputs[0] + gates[1] * outputs[1]) / 2)
    assert (encoder.fusion.layer_norm is None) is pre_norm
    torch.testing.assert_close(found, expected)


def test_every_group_of_han_reads_its_own_past(prepared_with_bert: Any) -> None:
    """A single group in use is refined as it is among all."""
    case = Case("han_transformer_tiny", "window", "history")
    every = build(case, prepared_with_bert, **GROUPS)
    net_input = batch_of(every)["net_input"]
    states = []
    for groups in (None, "1:1", "2:2"):
        built = build(case, prepared_with_bert, use_groups=groups, **GROUPS)
        built.model.load_state_dict(every.model.state_dict())
        with torch.no_grad():
            states.append(built.model.eval()(**net_input, states_only=True)[0].features)
    torch.testing.assert_close(torch.cat(states[1:]), states[0])


@pytest.mark.parametrize("left_out", [{"keep_encoder_layers": 1}, {"use_groups": "1:1"}])
def test_memories_of_layers_that_do_not_run_are_left_out(
    prepared_with_bert: Any, left_out: dict[str, Any]
) -> None:
    case = Case("memory_transformer_tiny", "stream")
    built = build(case, prepared_with_bert, memory_layers="all", **GROUPS, **left_out)
    for written, read in searched_and_read(built):
        assert written == pytest.approx(read, abs=1e-4)
