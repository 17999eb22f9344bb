"""The output projection, log-softmax and label-smoothed loss, some tokens at a time.

The logits of a batch, ``(tokens, vocabulary)``, are by far the largest tensor of a training step:
2,048 tokens over 250,027 symbols take 1.9 GiB, and a loss written with torch's functions keeps
several copies. Here only the logits of one piece of tokens exist at a time (:func:`rows_of`).

The loss is a weighted sum over tokens, so that its gradient is known up to one factor as soon as
the loss is: it is computed along with the loss, and no logits are computed twice or kept. In fp16
that factor, the loss scale, is what keeps small gradients from vanishing; there the logits are
computed again in the backward pass.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor
from torch.autograd.function import once_differentiable

from gtrans.modules.group_attention import DocumentLayout
from gtrans.modules.linear import autocast_dtype, without_autocast

# Just below 32 MiB, from which on glibc maps every block anew. A piece of fewer rows would be small
# beside the output matrix, which is read for each piece.
_LOGITS = (1 << 23) - (1 << 12)
# 1 GiB. On an H200 pieces of this size make an update of base size 1.5 to 1.8 times as fast as
# those for a CPU, because the host launches a fifth of the kernels.
_LOGITS_CUDA = 1 << 28
_FEWEST_ROWS = 128


@dataclass
class DecoderStates:
    """The outputs of a decoder's groups of layers, before the output matrix.

    Attributes:
        features: ``(groups, tokens, dim)`` packed; one group in most models.
        log_weights: ``(groups,)`` log psi, normalised.
        projection: ``(vocabulary, dim)`` the output matrix of all groups.
        layout: layout of the decoder's input, of all whose tokens these are unless some were
            chosen; None where ``features`` has the padded tokens.
        fusion: how a search fuses them (:func:`gtrans.modules.layer_fusion.fuse_log_probs`).
    """

    features: Tensor
    log_weights: Tensor
    projection: Tensor
    layout: DocumentLayout | None = None
    fusion: str = "arithmetic"


@dataclass
class Losses:
    """Losses of tokens, natural, in single precision at least.

    Attributes:
        total: the weighted sum of ``smoothed``, which has a gradient.
        smoothed: ``(tokens,)`` with label smoothing; without gradient, as what follows.
        plain: ``(tokens,)`` negative log-probabilities.
        predicted: ``(tokens,)`` ids of the most probable words, if they were asked for.
    """

    total: Tensor
    smoothed: Tensor
    plain: Tensor
    predicted: Tensor | None


def rows_of(vocabulary: int, most: int | None = None, cuda: bool = False) -> int:
    """How many tokens a piece has, so that its logits take about 32 MiB, on a GPU 1 GiB.

    Args:
        vocabulary: number of words.
        most: that many instead, whatever it takes.
        cuda: whether the logits are computed on a GPU.
    """
    return most or max((_LOGITS_CUDA if cuda else _LOGITS) // vocabulary, _FEWEST_ROWS)


def chunked_loss(
    features: Tensor,
    projection: Tensor,
    target: Tensor,
    weights: Tensor,
    smoothing: float,
    rows: int | None = None,
    predict: bool = False,
) -> Losses:
    """Label-smoothed cross-entropy of tokens, in pieces.

    Args:
        features: ``(tokens, dim)``.
        projection: ``(vocabulary, dim)``.
        target: ``(tokens,)`` ids.
        weights: ``(tokens,)`` by which the losses are multiplied in the sum.
        smoothing: the share of the probability that is spread evenly over all other words, as in
            fairseq's label-smoothed cross-entropy.
        rows: tokens of a piece; None: as :func:`rows_of` says.
        predict: also find the most probable words.

    Returns:
        The losses; the gradient of their sum goes to ``features``, ``projection`` and ``weights``.
    """
    rows = rows_of(projection.size(0), rows, projection.is_cuda)
    dtype = autocast_dtype(features.device) or features.dtype
    total, smoothed, plain, *predicted = _ChunkedLoss.apply(  # type: ignore[no-untyped-call]
        *(features, projection, weights, target, smoothing, rows),
        *(predict, torch.is_grad_enabled(), dtype),
    )
    return Losses(total, smoothed, plain, predicted[0] if predict else None)


class _Pieces:
    """The pieces of one batch."""

    def __init__(
        self, features: Tensor, projection: Tensor, target: Tensor, smoothing: float, rows: int
    ) -> None:
        self.features, self.projection, self.target = features, projection, target
        self.parts = [slice(at, at + rows) for at in range(0, features.size(0), rows)]
        self.share = smoothing / max(projection.size(0) - 1, 1)
        # What is left for the right word when every word has its share.
        self.right = 1 - smoothing - self.share

    def log_probs(self, part: slice) -> Tensor:
        """``(rows, vocabulary)`` of one piece."""
        return _single(F.linear(self.features[part], self.projection)).log_softmax(1)

    def losses(self, part: slice, log_probs: Tensor) -> tuple[Tensor, Tensor]:
        """The smoothed and the plain losses of one piece."""
        plain = -log_probs.gather(1, self.target[part, None]).squeeze(1)
        if self.share == 0:
            return plain, plain
        return self.right * plain - self.share * log_probs.sum(1), plain

    def gradient(self, part: slice, log_probs: Tensor, weights: Tensor) -> Tensor:
        """That of the logits of a piece, in place of its log-probabilities.

        ``weights (rows,)``: the gradient of each smoothed loss.
        """
        weights = weights[:, None].to(log_probs)
        gradient = log_probs.exp_()
        if self.share:
            gradient.sub_(self.share)
        gradient.mul_(weights)
        gradient.scatter_add_(1, self.target[part, None], -self.right * weights)
        return gradient.to(self.features.dtype)


class _Gradients:
    """Those of features and projection, piece by piece; None for what needs none."""

    def __init__(self, pieces: _Pieces, features: bool, projection: bool) -> None:
        self.pieces = pieces
        x, matrix = pieces.features, pieces.projection
        self.features = torch.empty_like(x) if features else None
        # In half precision a sum would lose what the last pieces add to it.
        single = torch.promote_types(matrix.dtype, torch.float32)
        self.projection = torch.zeros_like(matrix, dtype=single) if projection else None

    def add(self, part: slice, logits: Tensor) -> None:
        """Add what the gradient of a piece's logits, ``(rows, vocabulary)``, gives."""
        x = self.pieces.features[part]
        if self.features is not None:
            torch.mm(logits, self.pieces.projection, out=self.features[part])
        if self.projection is None:
            return
        if self.projection.dtype == x.dtype:
            self.projection.addmm_(logits.t(), x)
        else:
            self.projection += logits.t() @ x


class _ChunkedLoss(torch.autograd.Function):
    @staticmethod
    def forward(
        ctx: Any,
        features: Tensor,
        projection: Tensor,
        weights: Tensor,
        target: Tensor,
        smoothing: float,
        rows: int,
        predict: bool,
        with_gradient: bool,
        dtype: torch.dtype,
    ) -> tuple[Tensor, ...]:
        ctx.dtypes = features.dtype, projection.dtype
        ctx.settings = smoothing, rows
        wanted = with_gradient and any(ctx.needs_input_grad[:2])
        ctx.later = wanted and dtype == torch.float16
        columns: tuple[list[Tensor], ...] = ([], [], [])
        with without_autocast(features.device):
            features, projection = features.to(dtype), projection.to(dtype)
            pieces = _Pieces(features, projection, target, smoothing, rows)
            gradients = None
            if wanted and not ctx.later:
                gradients = _Gradients(pieces, *ctx.needs_input_grad[:2])
            for part in pieces.parts:
                log_probs = pieces.log_probs(part)
                values = [*pieces.losses(part, log_probs)]
                if predict:
                    values.append(log_probs.argmax(1))
                for column, value in zip(columns, values, strict=False):
                    column.append(value)
                if gradients is not None:
                    gradients.add(part, pieces.gradient(part, log_probs, weights[part]))
                del log_probs  # before the next piece has its own
        ctx.gradients = _cast(gradients, ctx.dtypes)
        smoothed, plain, *predicted = [torch.cat(column) for column in columns if column]
        ctx.save_for_backward(
            weights, smoothed, *((features, projection, target) if ctx.later else ())
        )
        ctx.mark_non_differentiable(smoothed, plain, *predicted)
        return (smoothed * weights).sum(), smoothed, plain, *predicted

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad: Tensor, *_: Tensor) -> tuple[Tensor | None, ...]:
        weights, smoothed, *inputs = ctx.saved_tensors
        weights_gradient = grad * smoothed if ctx.needs_input_grad[2] else None
        if ctx.later:
            pieces = _Pieces(*inputs, *ctx.settings)
            pieced = _Gradients(pieces, *ctx.needs_input_grad[:2])
            with without_autocast(grad.device):
                for part in pieces.parts:
                    log_probs = pieces.log_probs(part)
                    scaled = pieces.gradient(part, log_probs, weights[part] * grad)
                    pieced.add(part, scaled)
                    del log_probs, scaled
            ctx.gradients = _cast(pieced, ctx.dtypes)
        gradients: list[Tensor | None] | None
        # That of a large vocabulary is not copied, so it can be used only once.
        gradients, ctx.gradients = ctx.gradients, None
        if gradients is None:
            raise RuntimeError("the gradient of a chunked loss can be asked for only once")
        if not ctx.later:
            gradients = [x if x is None else x.mul_(grad.to(x.dtype)) for x in gradients]
        return (*gradients, weights_gradient, *[None] * 6)


def _cast(
    gradients: _Gradients | None, dtypes: tuple[torch.dtype, torch.dtype]
) -> list[Tensor | None] | None:
    """Both gradients in the precisions of what they belong to."""
    if gradients is None:
        return None
    pair = (gradients.features, gradients.projection)
    return [x if x is None else x.to(dtype) for x, dtype in zip(pair, dtypes, strict=True)]


def _single(x: Tensor) -> Tensor:
    """``x`` in single precision at least."""
    return x.float() if x.dtype in (torch.float16, torch.bfloat16) else x
