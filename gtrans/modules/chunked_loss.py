"""The output projection, log-softmax and label-smoothed loss, some tokens at a time.

The logits ``(tokens, vocabulary)`` are the largest tensor of a training step: 2,048 tokens over
250,027 entries take 1.9 GiB. Here only one chunk's logits exist at a time.

The loss is a weighted sum over tokens, so its gradient is known up to a factor together with the
loss, and no logits are kept. In fp16, where that factor, the loss scale, keeps small gradients from
vanishing, the backward pass computes the logits again.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor
from torch.autograd.function import once_differentiable

from gtrans.modules.group_attention import DocumentLayout
from gtrans.modules.precision import autocast_dtype, without_autocast

# Just below 32 MiB, from which on glibc maps every block anew. A chunk of fewer rows would be small
# beside the output matrix, which is read for each chunk.
_LOGITS = (1 << 23) - (1 << 12)
# 1 GiB. On an H200 chunks of this size make an update of base size 1.5 to 1.8 times as fast as
# those for a CPU, because the host launches a fifth of the kernels.
_LOGITS_CUDA = 1 << 28
_FEWEST_ROWS = 128


@dataclass
class DecoderStates:
    """The outputs of a decoder's groups of layers, before the output matrix.

    Attributes:
        features: ``(groups, tokens, dim)`` packed; one group in most models.
        log_weights: ``(groups,)`` log psi, normalised.
        projection: ``(vocabulary, dim)`` the output matrix.
        layout: of the decoder's input, which may have more tokens; None: tokens are padded.
        fusion: see :func:`gtrans.modules.layer_fusion.fuse_log_probs`.
        bias: ``(vocabulary,)`` of the output, or None.
    """

    features: Tensor
    log_weights: Tensor
    projection: Tensor
    layout: DocumentLayout | None = None
    fusion: str = "arithmetic"
    bias: Tensor | None = None


@dataclass
class Losses:
    """Losses of tokens in nats. Only ``total`` has a gradient.

    Attributes:
        total: the weighted sum of ``smoothed``.
        smoothed: ``(tokens,)`` with label smoothing.
        plain: ``(tokens,)`` negative log-probabilities.
        predicted: ``(tokens,)`` most probable ids, with ``predict``.
    """

    total: Tensor
    smoothed: Tensor
    plain: Tensor
    predicted: Tensor | None


def rows_of(vocabulary: int, most: int | None = None, cuda: bool = False) -> int:
    """Return the tokens of a chunk: ``most``, or logits of about 32 MiB, on a GPU 1 GiB."""
    if most:
        return most
    logits = _LOGITS_CUDA if cuda else _LOGITS
    return max(logits // vocabulary, _FEWEST_ROWS)


def chunked_loss(
    features: Tensor,
    projection: Tensor,
    target: Tensor,
    weights: Tensor,
    smoothing: float,
    rows: int | None = None,
    predict: bool = False,
    bias: Tensor | None = None,
) -> Losses:
    """Compute the label-smoothed cross-entropy of tokens, in chunks.

    ``features``, ``projection``, ``bias`` and ``weights`` get a gradient.

    Args:
        features: ``(tokens, dim)``.
        projection: ``(vocabulary, dim)``.
        target: ``(tokens,)`` ids.
        weights: ``(tokens,)`` of the losses in the sum.
        smoothing: share of the probability spread evenly over all other words, as in fairseq.
        rows: tokens of a chunk; None: :func:`rows_of`.
        predict: also find the most probable words.
        bias: ``(vocabulary,)``, or None.
    """
    rows = rows_of(projection.size(0), rows, projection.is_cuda)
    dtype = autocast_dtype(features.device) or features.dtype
    total, smoothed, plain, *predicted = _ChunkedLoss.apply(  # type: ignore[no-untyped-call]
        features,
        projection,
        bias,
        weights,
        target,
        smoothing,
        rows,
        predict,
        torch.is_grad_enabled(),
        dtype,
    )
    return Losses(total, smoothed, plain, predicted[0] if predict else None)


def _in_chunks(
    features: Tensor,
    projection: Tensor,
    bias: Tensor | None,
    weights: Tensor,
    target: Tensor,
    smoothing: float,
    rows: int,
    dtypes: Sequence[torch.dtype],
    wanted: Sequence[bool],
    predict: bool = False,
) -> tuple[list[Tensor], list[Tensor | None]]:
    """Return smoothed and plain losses, with ``predict`` words; and the ``wanted`` gradients."""
    share = smoothing / max(projection.size(0) - 1, 1)
    # The rest for the right word when every word has its share.
    right = 1 - smoothing - share
    features_gradient = torch.empty_like(features) if wanted[0] else None
    # In half precision a sum would lose the terms that the last chunks add.
    single = torch.promote_types(projection.dtype, torch.float32)
    projection_gradient = torch.zeros_like(projection, dtype=single) if wanted[1] else None
    bias_gradient = torch.zeros_like(projection[:, 0], dtype=single) if wanted[2] else None
    columns: tuple[list[Tensor], ...] = ([], [], [])
    for at in range(0, features.size(0), rows):
        part = slice(at, at + rows)
        x = features[part]
        words = target[part, None]
        logits = F.linear(x, projection, bias)
        log_probs = logits.to(torch.promote_types(x.dtype, torch.float32)).log_softmax(1)
        del logits
        plain = -log_probs.gather(1, words).squeeze(1)
        smoothed = plain if share == 0 else right * plain - share * log_probs.sum(1)
        columns[0].append(smoothed)
        columns[1].append(plain)
        if predict:
            columns[2].append(log_probs.argmax(1))
        if any(wanted):
            # The gradient of the logits takes the place of the log-probabilities.
            factors = weights[part, None].to(log_probs)
            gradient = log_probs.exp_()
            if share:
                gradient.sub_(share)
            gradient.mul_(factors).scatter_add_(1, words, -right * factors)
            gradient = gradient.to(features.dtype)
            if features_gradient is not None:
                torch.mm(gradient, projection, out=features_gradient[part])
            if projection_gradient is not None and projection_gradient.dtype == x.dtype:
                projection_gradient.addmm_(gradient.t(), x)
            elif projection_gradient is not None:
                projection_gradient += gradient.t() @ x
            if bias_gradient is not None:
                bias_gradient += gradient.sum(0, dtype=single)
            del gradient
        del log_probs  # before the next chunk has its own
    losses = [torch.cat(column) for column in columns if column]
    gradients = zip((features_gradient, projection_gradient, bias_gradient), dtypes, strict=True)
    return losses, [x if x is None else x.to(dtype) for x, dtype in gradients]


class _ChunkedLoss(torch.autograd.Function):
    @staticmethod
    def forward(
        ctx: Any,
        features: Tensor,
        projection: Tensor,
        bias: Tensor | None,
        weights: Tensor,
        target: Tensor,
        smoothing: float,
        rows: int,
        predict: bool,
        with_gradient: bool,
        dtype: torch.dtype,
    ) -> tuple[Tensor, ...]:
        dtypes = features.dtype, projection.dtype, projection.dtype
        ctx.settings = smoothing, rows, dtypes
        wanted = [with_gradient and needed for needed in ctx.needs_input_grad[:3]]
        ctx.later = any(wanted) and dtype == torch.float16
        now = [False] * 3 if ctx.later else wanted
        lowered = None if bias is None else bias.to(dtype)
        inputs = features.to(dtype), projection.to(dtype), lowered
        with without_autocast(features.device):
            (smoothed, plain, *predicted), ctx.gradients = _in_chunks(
                *inputs, weights, target, smoothing, rows, dtypes, now, predict
            )
        ctx.save_for_backward(weights, smoothed, *((*inputs, target) if ctx.later else ()))
        ctx.mark_non_differentiable(smoothed, plain, *predicted)
        return (smoothed * weights).sum(), smoothed, plain, *predicted

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad: Tensor, *_: Tensor) -> tuple[Tensor | None, ...]:
        weights, smoothed, *inputs = ctx.saved_tensors
        # The gradient of a large vocabulary is not copied, so it can be used only once.
        gradients, ctx.gradients = ctx.gradients, None
        if gradients is None:
            raise RuntimeError("the gradient of a chunked loss can be asked for only once")
        if ctx.later:
            features, projection, bias, target = inputs
            smoothing, rows, dtypes = ctx.settings
            scaled, wanted = weights * grad, ctx.needs_input_grad[:3]
            with without_autocast(grad.device):
                gradients = _in_chunks(
                    features, projection, bias, scaled, target, smoothing, rows, dtypes, wanted
                )[1]
        else:
            gradients = [x if x is None else x.mul_(grad.to(x.dtype)) for x in gradients]
        weights_gradient = grad * smoothed if ctx.needs_input_grad[3] else None
        return (*gradients, weights_gradient, *[None] * 6)
