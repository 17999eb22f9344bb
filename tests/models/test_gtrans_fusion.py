"""The fusion model as a whole: its limits, its size, its groups, its step-by-step decoding."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from fairseq.models.transformer import TransformerConfig, TransformerModelBase
from support.batches import EOS, PAD
from support.untrained import dictionary, fusion_model, pair, shake, untrained

from gtrans.errors import GtransError
from gtrans.models.gtrans_fusion import SYSTEMS, GtransFusion
from gtrans.modules.layer_fusion import (
    GROUP_FUSIONS,
    PROBABILITY_FUSIONS,
    DecoderGroupFusion,
)
from gtrans.modules.transformer import DecoderLayer, LayerSpec, ResidualLayer
from gtrans.search.document_search import DocumentSearch, SearchVocabulary
from gtrans.search.options import SearchOptions

SOURCE = torch.tensor([[PAD, PAD, 5, 6, 7, EOS], [8, 9, 10, 11, 12, EOS]])
INPUT = torch.tensor([[EOS, 5, 6, 7], [EOS, 8, PAD, PAD]])
REAL = INPUT.ne(PAD)
# What the authors' code does otherwise than the paper.
PROGRAM: dict[str, Any] = {
    "ffn_init": "linear", "decoder_group_fusion": "last", "probability_fusion": "geometric",
    "two_feed_forwards": True,
}  # fmt: skip


def count(model: torch.nn.Module) -> int:
    return sum(p.numel() for p in model.parameters())


@torch.no_grad()
def log_probs(model: GtransFusion) -> torch.Tensor:
    """``(real tokens, vocabulary)``."""
    found: torch.Tensor = model.get_normalized_probs(model(SOURCE, None, INPUT), log_probs=True)
    return found[REAL]


def stock_transformer() -> torch.nn.Module:
    cfg = TransformerConfig()
    for side in (cfg.encoder, cfg.decoder):
        side.layers, side.embed_dim, side.ffn_embed_dim, side.attention_heads = 5, 16, 32, 2
    cfg.decoder.input_dim = cfg.decoder.output_dim = 16
    cfg.max_source_positions = cfg.max_target_positions = 64
    model: torch.nn.Module = TransformerModelBase.build_model(cfg, pair(dictionary()))
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
    a_group = 6 * 16
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


# ---- decoding step by step -----------------------------------------------------------------------


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


# ---- what the authors' code does otherwise than the paper -------------------------------------


def test_the_forms_of_a_group_by_hand() -> None:
    """Five layers in groups of two; all gates are 1/2."""
    states = [torch.full((1, 1), float(layer)) for layer in range(6)]
    wanted = {"sum": [1.5, 3.5, 2.5], "mean": [0.75, 1.75, 2.5], "last": [2.0, 4.0, 5.0]}
    for kind, expected in wanted.items():
        fusion = DecoderGroupFusion(5, 2, kind)
        assert fusion(states).flatten().tolist() == expected
        assert (fusion.weights is None) == (kind == "last")


@torch.no_grad()
def test_every_search_adds_up_the_weighted_logarithms() -> None:
    """As training does (Eq 7), token by token and for fairseq, not normalised again."""
    model = shake(fusion_model(**PROGRAM))
    outputs = model(SOURCE, None, INPUT, states_only=True)[0]
    logs = (outputs.features @ outputs.projection.t()).log_softmax(-1)
    wanted = (outputs.log_weights.exp()[:, None, None] * logs).sum(0)
    whole = model.get_normalized_probs(model(SOURCE, None, INPUT), log_probs=True)
    torch.testing.assert_close(whole[REAL], outputs.layout.pad(wanted)[REAL])
    assert bool((whole[REAL].exp().sum(-1) < 0.999).any())
    state, opens = model.begin_decoding({"src_tokens": SOURCE}, 1), torch.zeros(2).bool()
    for place in range(4):
        step = model.search_scores(model.decode_step(INPUT[:, place], opens, state))
        real = REAL[:, place]
        torch.testing.assert_close(step[real], whole[real, place], atol=1e-5, rtol=1e-5)
    vocabulary = SearchVocabulary(EOS, EOS, PAD, 3, (0, PAD))
    search = DocumentSearch(vocabulary, SearchOptions(beam=2, max_len_a=0, max_len_b=4))
    ((best, *_), _) = search.search([model], {"src_tokens": SOURCE}, [[3], [5]])
    read = torch.tensor([[EOS, *best.tokens[:-1]]])
    scores = model.get_normalized_probs(model(SOURCE[:1], None, read), log_probs=True)[0]
    found = scores[torch.arange(len(best.tokens)), torch.tensor(best.tokens)]
    torch.testing.assert_close(torch.tensor(best.scores), found, atol=1e-4, rtol=1e-4)


@torch.no_grad()
def test_a_layer_with_two_feed_forward_nets() -> None:
    """Self-attention, fc3 and fc4, cross-attention, fc1 and fc2, each with residual and norm."""
    model = shake(fusion_model(**PROGRAM, no_decoder_fusion=True))
    layer: Any = model.decoder.layers[0]
    assert isinstance(layer, DecoderLayer)
    seen: dict[str, list[torch.Tensor]] = {}
    for name in ("self_attn", "encoder_attn", "fc3", "fc4", "fc1", "fc2"):
        getattr(layer, name).register_forward_hook(
            lambda _, given, out, name=name: seen.update({name: [given[0], out]})
        )
    result: list[torch.Tensor] = []
    layer.register_forward_hook(lambda _, given, out: result.extend((given[0], out)))
    model(SOURCE, None, INPUT)
    x = layer.self_attn_layer_norm(result[0] + seen["self_attn"][1])
    torch.testing.assert_close(seen["fc3"][0], x)
    x = layer.ffn_layer_norm(x + seen["fc4"][1])
    torch.testing.assert_close(seen["encoder_attn"][0], x)
    x = layer.encoder_attn_layer_norm(x + seen["encoder_attn"][1])
    torch.testing.assert_close(seen["fc1"][0], x)
    torch.testing.assert_close(result[1], layer.final_layer_norm(x + seen["fc2"][1]))


# ---- mistakes ------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"use_groups": "2"}, "`--use-groups` must be FIRST:LAST"),
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
        ({"no_encoder_fusion": True, "system": "dlcl"}, "`--no-encoder-fusion` is for --system"),
        ({"decoder_layers": 0}, "`--decoder-layers` must be at least 1, but is 0."),
    ],
)
def test_a_mistake_is_one_line(options: dict[str, Any], message: str) -> None:
    with pytest.raises(GtransError) as error:
        fusion_model(**options)
    assert message in str(error.value) and "\n" not in str(error.value)


def test_tables_of_different_dictionaries_cannot_be_shared() -> None:
    task = pair(dictionary(), dictionary(8))
    with pytest.raises(GtransError, match="needs a joint dictionary"):
        untrained(task, 1, GtransFusion, share_all_embeddings=True)


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


@pytest.mark.parametrize(("ffn", "ratio"), [(1024, 8.0), (2048, 5.76)])
def test_xavier_gives_feed_forward_nets_a_larger_output(ffn: int, ratio: float) -> None:
    """The variance of a branch's output on normalised states, of ReLU, without the biases."""
    torch.manual_seed(1)
    x = torch.nn.functional.layer_norm(torch.randn(400, 512), (512,))
    found = []
    for init in ("xavier", "linear"):
        layer = ResidualLayer(LayerSpec(512, ffn, 8, ffn_init=init))
        for linear in (layer.fc1, layer.fc2):
            torch.nn.init.zeros_(linear.bias)
        found.append(float(layer.fc2(layer.fc1(x).relu()).var().detach()))
    assert found[0] / found[1] == pytest.approx(ratio, rel=0.05)
    assert float(ResidualLayer(LayerSpec(8, 16, 2, ffn_init="linear")).fc1.bias.abs().max()) > 0


@pytest.mark.parametrize("system", [*SYSTEMS, "the program's"])
def test_every_parameter_learns(system: str) -> None:
    model = fusion_model(**(PROGRAM if system == "the program's" else {"system": system}))
    if system == "rezero":  # its layers begin as nothing
        shake(model)
    logits = model(SOURCE, None, INPUT)[0]
    logits.log_softmax(-1)[REAL].square().sum().backward()
    for name, parameter in model.named_parameters():
        if system == "dlcl" and name.endswith("fusion.weights"):
            assert bool(parameter.grad.tril().ne(0).any())  # type: ignore[union-attr]
        else:
            assert parameter.grad is not None, name
