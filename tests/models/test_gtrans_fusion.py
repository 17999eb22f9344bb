"""The fusion model as a whole: its limits, its size, its groups, its step-by-step decoding."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest
import torch
from fairseq.models.transformer import TransformerConfig, TransformerModelBase
from omegaconf import OmegaConf
from support.fusion_models import EOS, PAD, SIZES, dictionary, fusion_model, shake

from gtrans.errors import GtransError
from gtrans.models.base.presets import resolve_sizes
from gtrans.models.gtrans_fusion import PRESETS, SYSTEMS, GtransFusion, GtransFusionConfig
from gtrans.modules.layer_fusion import GROUP_FUSIONS, PROBABILITY_FUSIONS

SOURCE = torch.tensor([[PAD, PAD, 5, 6, 7, EOS], [8, 9, 10, 11, 12, EOS]])
INPUT = torch.tensor([[EOS, 5, 6, 7], [EOS, 8, PAD, PAD]])
REAL = INPUT.ne(PAD)


def count(model: torch.nn.Module) -> int:
    return sum(p.numel() for p in model.parameters())


@torch.no_grad()
def log_probs(model: GtransFusion) -> torch.Tensor:
    """``(real tokens, vocabulary)``."""
    found: torch.Tensor = model.get_normalized_probs(model(SOURCE, None, INPUT), log_probs=True)
    return found[REAL]


def stock_transformer() -> torch.nn.Module:
    symbols = dictionary()
    cfg = TransformerConfig()
    for side in (cfg.encoder, cfg.decoder):
        side.layers, side.embed_dim, side.ffn_embed_dim, side.attention_heads = 5, 16, 32, 2
    cfg.decoder.input_dim = cfg.decoder.output_dim = 16
    cfg.max_source_positions = cfg.max_target_positions = 64
    task = SimpleNamespace(source_dictionary=symbols, target_dictionary=symbols)
    model: torch.nn.Module = TransformerModelBase.build_model(cfg, task)
    return model.eval()


# ---- the plain Transformer as a limit ------------------------------------------------------------


def test_post_norm_is_the_stock_transformer() -> None:
    """Same parameters by name, same probabilities."""
    stock, ours = stock_transformer(), fusion_model(system="post-norm")
    state = {n: t for n, t in stock.state_dict().items() if n in ours.state_dict()}
    assert set(state) == set(ours.state_dict())
    ours.load_state_dict(state)
    with torch.no_grad():
        logits = stock(SOURCE, SOURCE.ne(PAD).sum(1), INPUT)[0]
    torch.testing.assert_close(log_probs(ours), logits.log_softmax(-1)[REAL], atol=1e-4, rtol=1e-4)


def fused_like_plain(plain: GtransFusion, **options: Any) -> GtransFusion:
    """The fusion model with the parameters of ``plain`` and the scalars given."""
    model = fusion_model(**options)
    scalars = {n: t for n, t in model.state_dict().items() if n not in plain.state_dict()}
    model.load_state_dict({**plain.state_dict(), **scalars})
    return model


@torch.no_grad()
def test_one_group_with_weights_at_their_limit_is_the_plain_transformer() -> None:
    plain = shake(fusion_model(system="post-norm"))
    model = fused_like_plain(plain, encoder_group_size=5, decoder_group_size=5)
    assert not torch.allclose(log_probs(model), log_probs(plain), atol=1e-2)
    limit = torch.tensor([-1e4, -1e4, -1e4, -1e4, 1e4])
    model.encoder.fusion.weights.fill_(1e4)
    model.decoder.fusion.weights.copy_(limit)
    torch.testing.assert_close(log_probs(model), log_probs(plain), atol=1e-5, rtol=1e-5)


@torch.no_grad()
def test_two_groups_at_their_limit_are_the_plain_transformer_plus_a_layer_norm() -> None:
    plain = shake(fusion_model(system="post-norm"))
    plain.encoder.layer_norm = torch.nn.LayerNorm(16)
    model = fusion_model(encoder_group_size=3, decoder_group_size=5)
    scalars = {n: t for n, t in model.state_dict().items() if n not in plain.state_dict()}
    state = {n: t for n, t in plain.state_dict().items() if n in model.state_dict()}
    model.load_state_dict({**state, **scalars})
    model.encoder.fusion.weights.copy_(torch.tensor([-1e4, 1e4]))
    model.decoder.fusion.weights.copy_(torch.tensor([-1e4, -1e4, -1e4, -1e4, 1e4]))
    torch.testing.assert_close(log_probs(model), log_probs(plain), atol=1e-3, rtol=1e-3)


@torch.no_grad()
def test_all_weight_on_one_group_is_that_group_alone() -> None:
    model = shake(fusion_model())
    assert model.decoder.probabilities is not None
    model.decoder.probabilities.weights.copy_(torch.tensor([-1e4, 1e4, -1e4]))
    alone = fusion_model(use_groups="2:2")
    alone.load_state_dict(model.state_dict())
    torch.testing.assert_close(log_probs(model), log_probs(alone), atol=1e-5, rtol=1e-5)


# ---- sizes ---------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("options", "more"),
    [
        # encoder gates + LayerNorm, decoder gates, weights of the groups
        ({}, 2 + 2 * 16 + 5 + 3),
        ({"encoder_group_size": 1, "decoder_group_size": 1}, 5 + 2 * 16 + 5 + 5),
        ({"encoder_group_size": 5, "decoder_group_size": 5}, 1 + 5 + 1),
        ({"no_encoder_fusion": True}, 5 + 3),
        ({"no_decoder_fusion": True}, 2 + 2 * 16),
        ({"no_encoder_fusion": True, "no_decoder_fusion": True}, 0),
        ({"encoder_group_size": 0, "decoder_group_size": 0}, 0),
        ({"system": "pre-norm"}, 2 * 2 * 16),
        ({"system": "ta"}, 5 * 6),
        ({"system": "dlcl"}, 2 * (6 * 6 + 6 * 2 * 16)),
        # no LayerNorm: 2 and 3 in each layer; a scalar in each
        ({"system": "rezero"}, 10 - 25 * 2 * 16),
    ],
)
def test_parameters_are_those_of_the_plain_transformer_and_the_scalars(
    options: dict[str, Any], more: int
) -> None:
    assert count(fusion_model(**options)) == count(stock_transformer()) + more


@pytest.mark.parametrize(
    ("name", "sizes"),
    [
        ("gtrans_fusion_tiny", (6, 6, 256, 1024, 4)),
        ("gtrans_fusion_small", (6, 6, 512, 1024, 8)),
        ("gtrans_fusion_base", (6, 6, 512, 2048, 8)),
        ("gtrans_fusion_big", (6, 6, 1024, 4096, 16)),
        ("gtrans_fusion_xlmr_base", (12, 6, 768, 3072, 12)),
    ],
)
def test_presets(name: str, sizes: tuple[int, ...]) -> None:
    cfg = OmegaConf.structured(GtransFusionConfig)
    cfg._name = name
    cfg = resolve_sizes(cfg, GtransFusionConfig, PRESETS)
    layers, width = (cfg.encoder_layers, cfg.decoder_layers), cfg.encoder_embed_dim
    assert (*layers, width, cfg.decoder_ffn_embed_dim, cfg.decoder_attention_heads) == sizes
    assert (cfg.encoder_ffn_embed_dim, cfg.encoder_attention_heads) == sizes[3:]
    assert cfg.system == "gtrans" and (cfg.encoder_group_size, cfg.decoder_group_size) == (3, 2)


def test_sixty_and_thirty_six_layers() -> None:
    model = fusion_model(encoder_layers=60, decoder_layers=36)
    assert model.encoder.fusion.weights.numel() == 20
    assert model.decoder.log_weights().numel() == 18
    assert bool(log_probs(model).isfinite().all())


# ---- groups and layers in use --------------------------------------------------------------------


@pytest.mark.parametrize(("groups", "layers"), [("1:3", 5), ("2:3", 5), ("1:1", 2), ("2:2", 4)])
def test_groups_in_use_are_renormalised_and_save_what_they_do_not_need(
    groups: str, layers: int
) -> None:
    whole = shake(fusion_model())
    model = fusion_model(use_groups=groups)
    model.load_state_dict(whole.state_dict())
    first, last = (int(part) for part in groups.split(":"))
    with torch.no_grad():
        outputs = whole(SOURCE, None, INPUT, states_only=True)[0]
    psi = outputs.log_weights.exp()[first - 1 : last]
    logits = outputs.features[first - 1 : last] @ outputs.projection.t()
    expected = (psi[:, None, None] / psi.sum() * logits.softmax(-1)).sum(0)
    torch.testing.assert_close(log_probs(model).exp(), expected.detach(), atol=1e-5, rtol=1e-4)

    # Groups that are projected in a step of 6 hypotheses.
    projected: list[int] = []
    a_group = 6 * SIZES["encoder_embed_dim"]
    model.decoder.output_projection.register_forward_hook(
        lambda _, inputs, __: projected.append(inputs[0].numel() // a_group)
    )
    run: list[int] = []
    for number, layer in enumerate(model.decoder.layers):
        layer.fc1.register_forward_hook(lambda *_, number=number: run.append(number))
    with torch.no_grad():
        state = model.begin_decoding({"src_tokens": SOURCE}, 3)
        model.decode_step(torch.full((6,), EOS), torch.zeros(6, dtype=torch.bool), state)
    assert projected == [last - first + 1]  # as many softmaxes as groups
    assert run == list(range(layers))  # and no layer above them


def test_bottom_encoder_layers_only() -> None:
    whole = shake(fusion_model(encoder_group_size=2))
    model = fusion_model(encoder_group_size=2, keep_encoder_layers=3)
    model.load_state_dict(whole.state_dict())
    outputs: list[torch.Tensor] = []
    for layer in whole.encoder.layers:
        layer.register_forward_hook(lambda _, __, output: outputs.append(output))
    with torch.no_grad():
        whole.encoder(SOURCE)
        found = model.encoder(SOURCE).states
        fusion = whole.encoder.fusion
        gates = fusion.weights.sigmoid()
        expected = fusion.layer_norm((gates[0] * outputs[1] + gates[1] * outputs[2]) / 2)
    torch.testing.assert_close(found, expected)


@pytest.mark.parametrize("system", [s for s in SYSTEMS if s != "mlrf"])
def test_every_system_can_do_with_its_bottom_layers(system: str) -> None:
    whole = shake(fusion_model(system=system))
    model = fusion_model(system=system, keep_encoder_layers=2)
    model.load_state_dict(whole.state_dict())
    assert not torch.allclose(log_probs(model), log_probs(whole), atol=1e-3)


# ---- decoding step by step -----------------------------------------------------------------------


@pytest.mark.parametrize("system", SYSTEMS)
@torch.no_grad()
def test_steps_give_what_teacher_forcing_gives(system: str) -> None:
    model = shake(fusion_model(system=system))
    whole = model.get_normalized_probs(model(SOURCE, None, INPUT), log_probs=True)
    state = model.begin_decoding({"src_tokens": SOURCE}, 1)
    opens = torch.zeros(2, dtype=torch.bool)
    for place in range(4):
        step = model.decode_step(INPUT[:, place], opens, state).log_softmax(-1)
        real = REAL[:, place]
        torch.testing.assert_close(step[real], whole[real, place], atol=1e-5, rtol=1e-5)


@pytest.mark.parametrize("system", SYSTEMS)
def test_every_parameter_learns(system: str) -> None:
    model = fusion_model(system=system)
    if system == "rezero":  # its layers begin as nothing
        shake(model)
    logits = model(SOURCE, None, INPUT)[0]
    logits.log_softmax(-1)[REAL].square().sum().backward()
    for name, parameter in model.named_parameters():
        if system == "dlcl" and name.endswith("fusion.weights"):
            assert bool(parameter.grad.tril().ne(0).any())  # type: ignore[union-attr]
        else:
            assert parameter.grad is not None, name


def test_rezero_begins_as_the_identity() -> None:
    model = fusion_model(system="rezero")
    seen: list[torch.Tensor] = []
    model.encoder.embed.register_forward_hook(lambda _, __, output: seen.append(output))
    with torch.no_grad():
        assert model.encoder(SOURCE).states.equal(seen[0])


@pytest.mark.parametrize("kind", GROUP_FUSIONS)
@pytest.mark.parametrize("probabilities", PROBABILITY_FUSIONS)
@torch.no_grad()
def test_with_a_large_bias_fusion_begins_as_the_plain_stack(kind: str, probabilities: str) -> None:
    """Eq 4 divided by the number of layers is the state of the last one by that number."""
    plain = fusion_model(system="post-norm")
    begun = {"decoder_group_fusion": kind, "probability_fusion": probabilities}
    fused, alike = fusion_model(fusion_bias=20.0, **begun), fusion_model(**begun)
    for model in (fused, alike):
        missing, unexpected = torch.nn.Module.load_state_dict(
            model, plain.state_dict(), strict=False
        )
        assert not unexpected and all("fusion" in name or "prob" in name for name in missing)
    expected, found, other = (
        model.get_normalized_probs(model(SOURCE, None, INPUT), log_probs=True)[REAL]
        for model in (plain, fused, alike)
    )
    if kind == "mean":  # the last group has one layer (5 = 2 + 2 + 1)
        assert fused.decoder.fusion.members[-1].sum() == 1
    torch.testing.assert_close(found, expected, atol=1e-3, rtol=1e-3)
    assert (other - expected).abs().max() > 0.01


# ---- mistakes ------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"use_groups": "3:4"}, "of the decoder's groups 1 to 3, but is '3:4'."),
        ({"use_groups": "0:1"}, "`--use-groups` must be FIRST:LAST"),
        ({"use_groups": "2"}, "but is '2'."),
        ({"use_groups": "2:1"}, "but is '2:1'."),
        ({"use_groups": "1:2", "system": "ta"}, "groups 1 to 1, but is '1:2'."),
        (
            {"encoder_group_size": 0, "no_encoder_fusion": True},
            "`--no-encoder-fusion` is for groups of layers; give `--encoder-group-size N`, or",
        ),
        (
            {"decoder_group_size": 0, "probability_fusion": "geometric"},
            "`--probability-fusion geometric` is for groups of layers; give",
        ),
        (
            {"encoder_group_size": 0, "decoder_group_size": 0, "fusion_bias": 5.0},
            "`--fusion-bias 5.0` is for groups of layers; give `--encoder-group-size N` or",
        ),
        ({"fusion_bias": 0.0, "system": "ta"}, "`--fusion-bias 0.0` is for --system gtrans; 'ta'"),
        ({"keep_encoder_layers": 6}, "`--keep-encoder-layers` must be 1 to 5, but is 6."),
        ({"keep_encoder_layers": 3, "system": "mlrf"}, "must be 5 for --system mlrf, but is 3."),
        ({"encoder_group_size": -2}, "`--encoder-group-size` must be at least 0, but is -2."),
        ({"decoder_group_size": -1}, "`--decoder-group-size` must be at least 0, but is -1."),
        ({"no_encoder_fusion": True, "system": "dlcl"}, "`--no-encoder-fusion` is for --system"),
        ({"decoder_attention_heads": 3}, "`--decoder-attention-heads` must divide"),
        ({"decoder_layers": 0}, "`--decoder-layers` must be at least 1, but is 0."),
        ({"learned_positions": True, "max_positions": 0}, "`--max-positions` must be at least 1"),
    ],
)
def test_a_mistake_is_one_line(options: dict[str, Any], message: str) -> None:
    with pytest.raises(GtransError) as error:
        fusion_model(**options)
    assert message in str(error.value) and "\n" not in str(error.value)


def test_tables_of_different_dictionaries_cannot_be_shared() -> None:
    cfg = OmegaConf.structured(GtransFusionConfig(**SIZES, share_all_embeddings=True))
    cfg._name = "gtrans_fusion_tiny"
    task = SimpleNamespace(source_dictionary=dictionary(), target_dictionary=dictionary(8))
    with pytest.raises(GtransError, match="needs a joint dictionary"):
        GtransFusion.build_model(cfg, task)
