"""Flat-Transformer: the paper's equations, and which tokens its layers work on."""

from __future__ import annotations

import math
from typing import Any

import pytest
import torch
from support.batches import BOS, EOS, PAD
from support.untrained import dictionary, pair, sizes, untrained
from torch import Tensor

from gtrans.models.concat_transformer import ConcatTransformer
from gtrans.models.flat_transformer import FlatTransformer
from gtrans.models.gtransformer import GTransformer

DIM = 8
SIZES = {**sizes(2, DIM, ffn=12), "encoder_layers": 3}


def build(system: Any, **given: Any) -> Any:
    return untrained(pair(dictionary(16)), 1, system, **{**SIZES, **given}).eval()


def flat(**given: Any) -> FlatTransformer:
    model: FlatTransformer = build(FlatTransformer, **given)
    return model


def window(*sentences: list[int]) -> list[int]:
    return [token for words in sentences for token in (BOS, *words, EOS)]


def padded(*rows: list[int], left: bool = False) -> Tensor:
    longest = max(map(len, rows))
    fill = [[PAD] * (longest - len(row)) for row in rows]
    both = zip(rows, fill, strict=True)
    return torch.tensor([[*pad, *row] if left else [*row, *pad] for row, pad in both])


# Three windows: context on both sides, after only, none; the sentences have 4, 3 and 5 tokens.
ROWS = (window([5, 6, 7], [8, 9], [10]), window([11], [12, 13]), window([14, 15, 16]))
CURRENT = torch.tensor([1, 0, 0])
SENTENCES = ([BOS, 8, 9, EOS], [BOS, 11, EOS], [BOS, 14, 15, 16, EOS])


def layer_by_hand(layer: Any, x: Tensor) -> Tensor:
    """A post-norm encoder layer over one row ``(tokens, dim)``, as the Transformer is written."""
    attention = layer.self_attn
    q, k, v = (p(x) for p in (attention.q_proj, attention.k_proj, attention.v_proj))
    heads = []
    for part in torch.arange(DIM).view(2, DIM // 2):
        scores = q[:, part] @ k[:, part].T / math.sqrt(DIM / 2)
        heads.append(scores.softmax(-1) @ v[:, part])
    x = layer.self_attn_layer_norm(x + attention.out_proj(torch.cat(heads, 1)))
    return layer.final_layer_norm(x + layer.fc2(layer.fc1(x).relu()))  # type: ignore[no-any-return]


def position_signal(position: int) -> Tensor:
    """fairseq's sinusoid of a position from 0."""
    rates = [math.exp(-math.log(10000) * i / (DIM // 2 - 1)) for i in range(DIM // 2)]
    # Its positions begin after the padding token's.
    angles = [(position + PAD + 1) * rate for rate in rates]
    return torch.tensor([*map(math.sin, angles), *map(math.cos, angles)])


@torch.no_grad()
def encoded_by_hand(model: FlatTransformer, row: list[int], begin: int, end: int) -> Tensor:
    """Eq 2-5 for one window whose sentence stands at ``begin .. end``."""
    encoder = model.encoder
    x = torch.stack([
        math.sqrt(DIM) * encoder.embed_tokens.weight[token]
        + position_signal(position)
        + (
            0 if encoder.embed_segments is None
            else encoder.embed_segments.weight[int(begin <= position < end)]
        )
        for position, token in enumerate(row)
    ])  # fmt: skip
    for layer in encoder.layers[: encoder.bottom_layers]:
        x = layer_by_hand(layer, x)
    x = x[begin:end]
    for layer in encoder.layers[encoder.bottom_layers :]:
        x = layer_by_hand(layer, x)
    return x


@pytest.mark.parametrize("left", [False, True])
@pytest.mark.parametrize("bottom", [0, 1, 3])
@pytest.mark.parametrize("no_segments", [False, True])
def test_the_encoder_is_that_of_the_paper(left: bool, bottom: int, no_segments: bool) -> None:
    model = flat(flat_bottom_layers=bottom, no_segment_embedding=no_segments)
    with torch.no_grad():
        found = model.encode({"src_tokens": padded(*ROWS, left=left), "current_sentence": CURRENT})
    begins = (5, 0, 0)
    expected = [
        encoded_by_hand(model, row, begin, begin + len(sentence))
        for row, begin, sentence in zip(ROWS, begins, SENTENCES, strict=True)
    ]
    assert torch.allclose(found.states, torch.cat(expected), atol=1e-5)
    assert found.layout.document_lengths.tolist() == [4, 3, 5]


@pytest.mark.parametrize(("bottom", "tokens"), [
    (0, [12, 12, 12]), (1, [24, 12, 12]), (2, [24, 24, 12]), (3, [24, 24, 24]),
])  # fmt: skip
def test_top_layers_work_on_the_tokens_of_the_sentences_only(
    bottom: int, tokens: list[int]
) -> None:
    """The windows hold 24 tokens, the current sentences 12; no mask hides the others."""
    model = flat(flat_bottom_layers=bottom)
    seen: dict[str, list[int]] = {"layer": [], "fc1": [], "keys": [], "cross": []}

    def watch(name: str) -> Any:
        return lambda module, inputs: seen[name].append(inputs[0].size(0))

    for layer in model.encoder.layers:
        layer.register_forward_pre_hook(watch("layer"))
        layer.fc1.register_forward_pre_hook(watch("fc1"))
        layer.self_attn.k_proj.register_forward_pre_hook(watch("keys"))
    for layer in model.decoder.layers:
        layer.encoder_attn.k_proj.register_forward_pre_hook(watch("cross"))
    model(padded(*ROWS), None, padded([BOS, 5], [BOS], [BOS, 6, 7]), current_sentence=CURRENT)
    assert seen == {"layer": tokens, "fc1": tokens, "keys": tokens, "cross": [12, 12]}


SENTENCE_OPTIONS = {"unit": "sentence", "share_all_embeddings": True}


def transformer(**options: Any) -> GTransformer:
    model: GTransformer = build(GTransformer, doc_mode="full", **{**SENTENCE_OPTIONS, **options})
    return model


def test_parameters_are_those_of_the_transformer_and_the_segments() -> None:
    plain = {name: tensor.shape for name, tensor in transformer().state_dict().items()}
    shared = {"share_all_embeddings": True}
    for model, extra in (
        (flat(**shared), {"encoder.embed_segments.weight": (2, DIM)}),
        (flat(**shared, no_segment_embedding=True), {}),
        (flat(**SENTENCE_OPTIONS), {}),
        (build(ConcatTransformer, **shared), {}),
    ):
        found = {name: tensor.shape for name, tensor in model.state_dict().items()}
        assert found == {**plain, **extra}


@pytest.mark.parametrize("unit", ["sentence", "window"])
def test_without_context_it_is_the_sentence_transformer(unit: str) -> None:
    plain = transformer()
    model = flat(share_all_embeddings=True, unit=unit, no_segment_embedding=True)
    model.load_state_dict(plain.state_dict())
    source, target = padded(*SENTENCES), padded([BOS, 5], [BOS], [BOS, 6, 7])
    context = {"current_sentence": torch.zeros(3, dtype=torch.long)} if unit == "window" else {}
    expected, _ = plain(source, None, target)
    assert torch.equal(model(source, None, target, **context)[0], expected)


def test_concatenation_is_the_transformer_over_windows() -> None:
    """Both sides as one text: the document Transformer on the same rows."""
    plain = transformer(unit="document")
    model = build(ConcatTransformer, share_all_embeddings=True)
    model.load_state_dict(plain.state_dict())
    source, target = padded(*ROWS[:2]), padded([BOS, 5, EOS, BOS, 7], [BOS, 6, EOS, BOS])
    expected, _ = plain(source, None, target)
    assert torch.equal(model(source, None, target, current_sentence=CURRENT[:2])[0], expected)


# Words of a little language: which of two cues stands next to the sentence decides its word.
CUES, FILLER, ASK, SAYS = (4, 5), 6, 7, (8, 9)


def cued(count: int, seed: int, random_context: bool = False) -> tuple[Tensor, ...]:
    """Windows with the cue before or after the sentence, their targets, and who is current."""
    generator = torch.Generator().manual_seed(seed)
    draws = torch.randint(2, (count, 3), generator=generator).tolist()
    rows, targets, current = [], [], []
    for cue, after, other in draws:
        word = [CUES[other if random_context else cue]]
        around = [[FILLER], word] if after else [word, [FILLER]]
        rows.append(window(around[0], [ASK], around[1]))
        targets.append([BOS, SAYS[cue], EOS])
        current.append(1)
    return torch.tensor(rows), torch.tensor(targets), torch.tensor(current)


def accuracy(bottom: int, updates: int, random_context: bool = False) -> float:
    """Share of right words, after training on true contexts."""
    model = flat(flat_bottom_layers=bottom, dropout=0.0).train()
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-2)
    for update in range(updates):
        source, target, current = cued(32, seed=update)
        logits, _ = model(source, None, target[:, :-1], current_sentence=current)
        loss = torch.nn.functional.cross_entropy(logits[:, 0], target[:, 1])
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    model.eval()
    source, target, current = cued(300, seed=10**6, random_context=random_context)
    with torch.no_grad():
        found = model(source, None, target[:, :-1], current_sentence=current)[0][:, 0].argmax(-1)
    return float(found.eq(target[:, 1]).float().mean())


@pytest.mark.long
def test_learns_from_a_neighbour_and_from_nothing_else() -> None:
    assert accuracy(bottom=1, updates=80) >= 0.95
    assert 0.4 <= accuracy(bottom=1, updates=80, random_context=True) <= 0.6
    assert 0.4 <= accuracy(bottom=0, updates=80) <= 0.6
