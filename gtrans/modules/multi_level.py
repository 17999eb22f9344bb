"""The loss of a model whose groups of layers each predict the next word (GTRANS, Eq 7)."""

from __future__ import annotations

from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import Tensor
from torch.utils.checkpoint import checkpoint

from gtrans.modules.layout import DocumentLayout


@dataclass
class GroupOutputs:
    """The outputs of a decoder's groups, before the output matrix.

    Attributes:
        features: ``(groups, tokens, dim)`` packed.
        log_weights: ``(groups,)`` log psi, normalised.
        projection: ``(vocabulary, dim)`` the output matrix of all groups.
        layout: layout of the decoder's input.
        fusion: how a search fuses them (:func:`gtrans.modules.layer_fusion.fuse_log_probs`).
    """

    features: Tensor
    log_weights: Tensor
    projection: Tensor
    layout: DocumentLayout
    fusion: str = "arithmetic"


def smoothed_losses(
    features: Tensor, projection: Tensor, target: Tensor, smoothing: float, chunk_size: int
) -> tuple[Tensor, Tensor]:
    """Cross-entropy of every token, with the logits of ``chunk_size`` tokens in memory at a time.

    Logits are computed again for the gradient, so that neither pass stores more of them.

    Args:
        features: ``(tokens, dim)``.
        projection: ``(vocabulary, dim)``.
        target: ``(tokens,)`` ids.
        smoothing: the share of the probability that is spread over all words, as in
            fairseq's label-smoothed cross-entropy.
        chunk_size: tokens of a chunk.

    Returns:
        the smoothed loss and the plain negative log-probability, ``(tokens,)`` each, natural,
        in single precision at least.
    """
    chunks = zip(torch.split(features, chunk_size), torch.split(target, chunk_size), strict=True)
    losses: list[tuple[Tensor, Tensor]] = [
        checkpoint(
            _smoothed_loss,
            chunk,
            projection,
            ids,
            smoothing,
            use_reentrant=False,
            preserve_rng_state=False,
        )
        for chunk, ids in chunks
    ]
    smoothed, plain = zip(*losses, strict=True)
    return torch.cat(smoothed), torch.cat(plain)


def _smoothed_loss(
    features: Tensor, projection: Tensor, target: Tensor, smoothing: float
) -> tuple[Tensor, Tensor]:
    logits = F.linear(features, projection)
    if logits.dtype in (torch.float16, torch.bfloat16):
        logits = logits.float()
    normaliser = logits.logsumexp(1)
    plain = normaliser - logits.gather(1, target[:, None]).squeeze(1)
    if smoothing == 0:
        return plain, plain
    uniform = normaliser - logits.mean(1)
    share = smoothing / (logits.size(1) - 1)
    # The smoothed target has `share` on every other word and 1 - smoothing on the right one.
    return (1 - smoothing - share) * plain + share * logits.size(1) * uniform, plain
