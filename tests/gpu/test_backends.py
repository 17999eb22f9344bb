"""All backends of group attention give the same loss and gradients on the device."""

from __future__ import annotations

import pytest
import torch
from fairseq import utils
from support.contract import Case, batch_of, build, loss_of

from gtrans.modules.group_attention import BACKENDS

# Half precision rounds after every operation, and the kernels do so in another order.
BOUNDS = {torch.float32: 2e-4, torch.bfloat16: 6e-2, torch.float16: 1e-2}


def loss_and_gradients(backend: str, corpus, device: str, dtype: torch.dtype):
    built = build(
        Case("gtransformer_tiny", "document"), corpus, attention_backend=backend, dropout=0.0,
        encoder_embed_dim=32, encoder_attention_heads=2, decoder_attention_heads=2,
    )  # fmt: skip
    built.model.to(device, dtype).train()
    batch = batch_of(built)
    if device == "cuda":
        batch = utils.move_to_cuda(batch)
    loss = loss_of(built, batch)
    loss.backward()
    gradients = [p.grad.float().flatten() for p in built.model.parameters() if p.grad is not None]
    return loss.item(), torch.cat(gradients)


@pytest.mark.parametrize("dtype", list(BOUNDS), ids=str)
def test_backends_agree(dtype, corpus, device):
    expected, gradients = loss_and_gradients("dense", corpus, device, dtype)
    for backend in BACKENDS:
        loss, others = loss_and_gradients(backend, corpus, device, dtype)
        assert loss == pytest.approx(expected, rel=BOUNDS[dtype]), backend
        distance = (others - gradients).norm() / gradients.norm()
        assert distance < 4 * BOUNDS[dtype], (backend, float(distance))
