"""The authors' numbers (``gtransformer_reference.npz``) come out of this model, too."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator
from contextlib import contextmanager
from types import SimpleNamespace
from typing import Any

import pytest
import torch
from omegaconf import OmegaConf
from support import reference
from support.reference import arrays, tensor
from support.untrained import translate_rows
from torch import Tensor

from gtrans.models.base.encoder import EncoderOutput
from gtrans.models.gtransformer import GTransformer, GTransformerConfig
from gtrans.modules.group_attention import (
    BACKENDS,
    AttentionPlan,
    DocumentLayout,
    Segments,
    attention_plan,
)
from gtrans.modules.transformer import DocumentAttention, MultiheadAttention
from gtrans.search.document_search import DocumentHypothesis, DocumentSearch, SearchVocabulary
from gtrans.search.options import SearchOptions

TOLERANCE = 1e-4
PAD = 1


@pytest.fixture(scope="module", params=BACKENDS)
def model(request: pytest.FixtureRequest) -> GTransformer:
    sizes = arrays()["config/int"].tolist()
    layers, decoder_layers, dim, heads, ffn, encoder_top, decoder_top, cross_top = sizes
    cfg = GTransformerConfig(
        encoder_layers=layers,
        decoder_layers=decoder_layers,
        encoder_embed_dim=dim,
        encoder_attention_heads=heads,
        decoder_attention_heads=heads,
        encoder_ffn_embed_dim=ffn,
        decoder_ffn_embed_dim=ffn,
        encoder_global_layers=encoder_top,
        decoder_global_layers=decoder_top,
        cross_global_layers=cross_top,
        share_all_embeddings=True,
        dropout=0.0,
        attention_backend=request.param,
    )
    dictionary = reference.dictionary()
    task = SimpleNamespace(source_dictionary=dictionary, target_dictionary=dictionary)
    model = GTransformer.build_model(OmegaConf.structured(cfg), task)
    weights = {
        reference.our_name(name): value
        for name, value in reference.authors_weights().items()
        if not name.endswith(("version", "_float_tensor"))
    }
    model.load_state_dict(weights, strict=True)
    return model.eval()


def encode(model: GTransformer) -> EncoderOutput:
    return model.encoder(tensor("src_tokens"))


@contextmanager
def states_of(stack: Any) -> Iterator[list[Tensor]]:
    """What enters the layers of a stack in a pass, and the output of the last one."""
    states: list[Tensor] = []
    hooks = [
        layer.register_forward_pre_hook(lambda _, args: states.append(args[0]))
        for layer in stack.layers
    ]
    hooks.append(stack.layers[-1].register_forward_hook(lambda *got: states.append(got[2])))
    yield states
    for hook in hooks:
        hook.remove()


def assert_packed(packed: Tensor, layout: DocumentLayout, name: str, real: Tensor) -> None:
    """``packed`` equals the array ``name (time, batch, dim)`` where ``real (batch, time)``."""
    ours = layout.pad(packed)[real]
    torch.testing.assert_close(ours, tensor(name).transpose(0, 1)[real], atol=TOLERANCE, rtol=0)


def test_the_vocabulary_is_the_references() -> None:
    dictionary = reference.dictionary()
    assert len(dictionary) == int(arrays()["vocab_size"])
    for entry in ("[en]", "[de]", "<mask>"):
        assert dictionary.index(entry) == int(arrays()[f"id_of/{entry}"])


@torch.no_grad()
def test_group_tags(model: GTransformer) -> None:
    source = encode(model).layout
    real = tensor("src_tokens").ne(PAD)
    assert torch.equal(source.pad(source.sentence + 1), tensor("src_tags"))
    assert torch.equal(real, ~tensor("encoder_padding_mask"))
    target = DocumentLayout.of_target(tensor("prev_output_tokens"), PAD, 0, 2)
    assert torch.equal(target.pad(target.sentence + 1), tensor("tgt_tags"))


@torch.no_grad()
def test_encoder_states(model: GTransformer) -> None:
    with states_of(model.encoder) as states:
        output = encode(model)
    real = ~tensor("encoder_padding_mask")
    assert_packed(output.states, output.layout, "encoder_out", real)
    assert len(states) == 4
    for number, state in enumerate(states[1:]):
        assert_packed(state, output.layout, f"encoder_layer_out/{number}", real)


@torch.no_grad()
def test_decoder_states_and_logits(model: GTransformer) -> None:
    prev = tensor("prev_output_tokens")
    with states_of(model.decoder) as states:
        logits, _ = model.decoder(prev, encode(model))
    real = prev.ne(PAD)
    assert len(states) == 4
    layout = DocumentLayout.of_target(prev, PAD, 0, 2)
    for number, state in enumerate(states):
        assert_packed(state, layout, f"decoder_inner_state/{number}", real)
    expected = tensor("decoder_logits")
    torch.testing.assert_close(logits[real], expected[real], atol=TOLERANCE, rtol=0)


def losses(model: GTransformer) -> tuple[Tensor, Tensor]:
    """nll and the authors' loss, whose smoothing is uniform over all entries."""
    logits, _ = model(tensor("src_tokens"), tensor("src_lengths"), tensor("prev_output_tokens"))
    target = tensor("target")
    scored = target.ne(PAD)
    log_probs = logits.log_softmax(-1)[scored]
    nll = -log_probs.gather(1, target[scored][:, None]).sum()
    return nll, 0.9 * nll - 0.1 / log_probs.size(1) * log_probs.sum()


def test_losses(model: GTransformer) -> None:
    nll, loss = losses(model)
    assert int(tensor("target").ne(PAD).sum()) == 68
    assert nll.item() == pytest.approx(49.3648, abs=1e-4)
    assert nll.item() == pytest.approx(float(arrays()["nll_loss"]), rel=TOLERANCE)
    assert loss.item() == pytest.approx(float(arrays()["loss"]), rel=TOLERANCE)


def test_gradient_norms(model: GTransformer) -> None:
    """Every gradient norm, except of key biases relative to its size.

    A key bias adds the same number to all scores of a query, which softmax does not
    see. Its gradient is 0; either program only shows what rounding leaves of it.
    """
    model.zero_grad()
    losses(model)[1].backward()
    parameters = dict(model.named_parameters())
    expected = {
        reference.our_name(name[len("grad_norm/") :]): float(norm)
        for name, norm in arrays().items()
        if name.startswith("grad_norm/")
    }
    assert set(expected) == set(parameters)
    for name, norm in expected.items():
        gradient = parameters[name].grad
        assert gradient is not None
        if name.endswith("k_proj.bias"):
            assert norm < 1e-5 and gradient.norm().item() < 1e-5, name
        else:
            assert gradient.norm().item() == pytest.approx(norm, rel=TOLERANCE), name


def search(model: GTransformer, src_tokens: Tensor, beam: int) -> list[list[DocumentHypothesis]]:
    entries = [int(arrays()[f"id_of/{entry}"]) for entry in ("[en]", "[de]", "<mask>")]
    vocabulary = SearchVocabulary(opening=0, eos=2, pad=PAD, unk=3, forbidden=(PAD, *entries))
    options = SearchOptions(beam=beam, **reference.LIMITS)
    return translate_rows(DocumentSearch(vocabulary, options), [model], src_tokens)


@pytest.mark.parametrize(("name", "beam"), [("greedy", 1), ("beam5", 5)])
def test_hypotheses(model: GTransformer, name: str, beam: int) -> None:
    """All n best hypotheses, in order, with their scores; ``</s>`` stands for ``[de]``."""
    found = search(model, tensor("src_tokens"), beam)
    for row, ours in enumerate(found):
        theirs = reference.hypotheses(name, row)
        assert [hypothesis.tokens[:-1] for hypothesis in ours] == theirs
        scores = arrays()[f"decode/{name}/scores"][row]
        assert [hypothesis.score for hypothesis in ours] == pytest.approx(scores, abs=TOLERANCE)
        for rank, hypothesis in enumerate(ours):
            expected = arrays()[f"decode/{name}/positional_scores"][row, rank]
            length = len(hypothesis.tokens)
            assert hypothesis.scores == pytest.approx(expected[:length], abs=TOLERANCE)
            assert not expected[length:].any()


@pytest.mark.parametrize("name", ["greedy", "beam5"])
def test_each_document_alone_gives_the_same_best(model: GTransformer, name: str) -> None:
    for row, number in enumerate(arrays()["id"].tolist()):
        source = tensor(f"doc{number}/source")[None]
        ((best, *_),) = search(model, source, 1 if name == "greedy" else 5)
        assert best.tokens[:-1] == reference.hypotheses(name, row)[0]
        assert len(best.sentences) == len(reference.documents("source")[number])


class _Entropies:
    """Sums of the entropies of head-averaged attention weights, by kind of attention."""

    def __init__(self, model: GTransformer) -> None:
        self.sums: dict[str, float] = defaultdict(float)
        self.layers: dict[str, int] = defaultdict(int)
        for number, layer in enumerate(model.encoder.layers):
            self._watch("encoder_self", layer.self_attn)
            self._watch("decoder_self", model.decoder.layers[number].self_attn)
            self._watch("decoder_cross", model.decoder.layers[number].encoder_attn)

    def _watch(self, name: str, attention: DocumentAttention) -> None:
        self._observe(f"{name}_local", attention)
        if attention.global_attn is not None:
            self._observe(f"{name}_global", attention.global_attn)

    def _observe(self, name: str, attention: MultiheadAttention) -> None:
        def add(weights: Tensor, plan: AttentionPlan) -> None:
            mean = weights.mean(0)
            self.sums[name] -= torch.xlogy(mean, mean).sum().item()

        self.layers[name] += 1
        attention.observer = add


def _padding_plan(padding: Tensor, keys: DocumentLayout) -> AttentionPlan:
    """Queries of padding ``(batch, length)`` see all keys of their document."""
    lengths = padding.sum(1)
    queries, documents = Segments.of_lengths(lengths), Segments.of_lengths(keys.document_lengths)
    return attention_plan(queries, documents, (int(lengths.sum()), keys.tokens))


@torch.no_grad()
def test_attention_entropies(model: GTransformer) -> None:
    """The reference's mean runs over queries of padding, too; this model has none.

    They are played beside the model here: no key is padding, so they change nothing, and
    without a group they see their whole document (the fixture's padded rows agree).
    """
    src_tokens, prev = tensor("src_tokens"), tensor("prev_output_tokens")
    watched = _Entropies(model)
    with states_of(model.encoder) as inputs, states_of(model.decoder) as read:
        encoded = encode(model)
        model.decoder(prev, encoded)
    source, target = encoded.layout, DocumentLayout.of_target(prev, PAD, 0, 2)

    padding = src_tokens.eq(PAD)
    plan = _padding_plan(padding, source)
    x = start = model.encoder.embed.scale * model.encoder.embed_tokens.weight[PAD]
    x = start.expand(int(padding.sum()), -1)
    for number, layer in enumerate(model.encoder.layers):
        attended = layer.self_attn(x, inputs[number], {"group": plan, "global": plan})
        x = layer._feed_forward(layer.self_attn_layer_norm(x + attended))
        expected = tensor(f"encoder_layer_out/{number}").transpose(0, 1)[padding]
        torch.testing.assert_close(x, expected, atol=TOLERANCE, rtol=0)

    padding = prev.eq(PAD)
    plan, cross = _padding_plan(padding, target), _padding_plan(padding, source)
    x = start.expand(int(padding.sum()), -1)
    for number, layer in enumerate(model.decoder.layers):
        attended = layer.self_attn(x, read[number], {"group": plan, "global": plan})
        x = layer.self_attn_layer_norm(x + attended)
        attended = layer.encoder_attn(x, encoded.states, {"group": cross, "global": cross})
        x = layer._feed_forward(layer.encoder_attn_layer_norm(x + attended))
        expected = tensor(f"decoder_inner_state/{number + 1}").transpose(0, 1)[padding]
        torch.testing.assert_close(x, expected, atol=TOLERANCE, rtol=0)

    for part in model.modules():
        if isinstance(part, MultiheadAttention):
            part.observer = None
    kinds = [name for name in arrays() if name.startswith("attn_entropy_sum_nats/")]
    assert len(kinds) == 6
    for array in kinds:
        kind = array.split("/")[1]
        queries = src_tokens.size(1) if kind.startswith("encoder") else prev.size(1)
        mean = watched.sums[kind] / queries / watched.layers[kind]
        assert mean == pytest.approx(float(arrays()[array]), rel=TOLERANCE), kind
