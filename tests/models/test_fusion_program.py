"""What the authors' GTRANS program does otherwise than the paper, as options."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest
import torch
from omegaconf import OmegaConf
from support.fusion_models import EOS, PAD, dictionary, fusion_model, shake

from gtrans.decoding.document_search import DocumentSearch, SearchOptions, SearchVocabulary
from gtrans.models.gtrans_fusion import GtransFusion, GtransFusionConfig
from gtrans.modules.layer_fusion import DecoderGroupFusion, fuse_log_probs, fuse_probabilities
from gtrans.modules.residual import LayerSpec, ResidualLayer
from gtrans.modules.transformer import DecoderLayer

SOURCE = torch.tensor([[PAD, PAD, 5, 6, 7, EOS], [8, 9, 10, 11, 12, EOS]])
INPUT = torch.tensor([[EOS, 5, 6, 7], [EOS, 8, PAD, PAD]])
REAL = INPUT.ne(PAD)
PROGRAM: dict[str, Any] = {
    "ffn_init": "linear", "decoder_group_fusion": "last", "probability_fusion": "geometric",
    "two_feed_forwards": True,
}  # fmt: skip


def test_the_forms_of_a_group_by_hand() -> None:
    """Five layers in groups of two; all gates are 1/2."""
    states = [torch.full((1, 1), float(layer)) for layer in range(6)]
    wanted = {"sum": [1.5, 3.5, 2.5], "mean": [0.75, 1.75, 2.5], "last": [2.0, 4.0, 5.0]}
    for kind, expected in wanted.items():
        fusion = DecoderGroupFusion(5, 2, kind)
        assert fusion(states).flatten().tolist() == expected
        assert (fusion.weights is None) == (kind == "last")


def test_geometric_fusion_by_hand() -> None:
    """The weighted mean of logarithms is Eq 7 with the other sign, and no probability."""
    psi = torch.tensor([0.25, 0.75])
    one, other = torch.tensor([[0.5, 0.25, 0.25]]), torch.tensor([[0.1, 0.8, 0.1]])
    logits = torch.stack([one.log() + 3, other.log() - 5])
    scores = fuse_probabilities(logits, psi.log(), "geometric")
    torch.testing.assert_close(scores, 0.25 * one.log() + 0.75 * other.log())
    mean = fuse_log_probs(torch.stack([one.log(), other.log()]), psi.log(), "arithmetic")
    assert bool((scores <= mean).all()) and float(scores.exp().sum()) < 1


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


def test_every_parameter_of_the_program_learns() -> None:
    model = fusion_model(**PROGRAM)
    model(SOURCE, None, INPUT)[0][REAL].square().sum().backward()
    assert all(parameter.grad is not None for parameter in model.parameters())


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


@pytest.mark.parametrize(
    ("two", "millions"), [(True, 363.0), (False, 334.6)], ids=["program", "one net"]
)
def test_parameters_with_xlmr_base(two: bool, millions: float) -> None:
    """With XLM-R's 250,002 symbols and 95 languages; the paper counts 362 million (table V)."""
    symbols = dictionary(250_002 + 95 - 4)
    cfg = OmegaConf.structured(
        GtransFusionConfig(two_feed_forwards=two, share_all_embeddings=True)
    )
    cfg._name = "gtrans_fusion_xlmr_base"
    task = SimpleNamespace(source_dictionary=symbols, target_dictionary=symbols)
    with torch.device("meta"):
        model = GtransFusion.build_model(cfg, task)
    count = sum(parameter.numel() for parameter in model.parameters())
    assert count / 1e6 == pytest.approx(millions, abs=0.15)
