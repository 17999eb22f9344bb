"""A tiny fusion model must learn, every group of it, and every system it is compared with."""

from __future__ import annotations

from types import SimpleNamespace

import pytest
import torch
from support.batches import EOS
from support.untrained import dictionary, fusion_model
from torch import Tensor

from gtrans.criterions.chunked_cross_entropy import MultiLevelCrossEntropy
from gtrans.models.gtrans_fusion import SYSTEMS, GtransFusion

WORDS = range(4, 12)


def reversals(count: int, seed: int) -> tuple[Tensor, Tensor]:
    """Four words, and the same from the last to the first: attention has to find each."""
    generator = torch.Generator().manual_seed(seed)
    words = torch.randint(WORDS[0], WORDS[-1] + 1, (count, 4), generator=generator)
    end = torch.full((count, 1), EOS)
    return torch.cat([words, end], 1), torch.cat([words.flip(1), end], 1)


def trained(updates: int, **options: object) -> GtransFusion:
    model = fusion_model(
        encoder_layers=4, decoder_layers=4, encoder_embed_dim=32, encoder_group_size=2,
        dropout=0.0, **options,
    ).train()  # fmt: skip
    criterion = MultiLevelCrossEntropy(
        SimpleNamespace(target_dictionary=dictionary()), False, 0.1, 1024
    )
    optimizer = torch.optim.Adam(model.parameters(), lr=2e-3)
    for update in range(updates):
        source, target = reversals(32, update)
        decoder_input = torch.cat([target[:, -1:], target[:, :-1]], 1)
        net_input = {"src_tokens": source, "src_lengths": None, "prev_output_tokens": decoder_input}
        loss, size, _ = criterion(
            model, {"net_input": net_input, "target": target, "ntokens": target.numel()}
        )
        optimizer.zero_grad()
        (loss / size).backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
    return model.eval()


@torch.no_grad()
def accuracy(model: GtransFusion) -> float:
    """Share of unseen words that are predicted right."""
    source, target = reversals(100, 10**6)
    decoder_input = torch.cat([target[:, -1:], target[:, :-1]], 1)
    predicted = model(source, None, decoder_input)[0].argmax(-1)
    return float(predicted.eq(target).float().mean())


def test_a_fusion_model_learns_and_so_does_each_of_its_groups() -> None:
    model = trained(150)
    assert accuracy(model) >= 0.95
    for group in ("1:1", "2:2"):
        alone = fusion_model(
            encoder_layers=4, decoder_layers=4, encoder_embed_dim=32, encoder_group_size=2,
            use_groups=group,
        )  # fmt: skip
        alone.load_state_dict(model.state_dict())
        assert accuracy(alone) >= 0.8, group


@pytest.mark.long
@pytest.mark.parametrize("system", SYSTEMS)
def test_every_system_learns(system: str) -> None:
    assert accuracy(trained(300, system=system)) >= 0.95
