"""The output projection, log-softmax and label-smoothed loss, some tokens at a time.

The logits ``(tokens, vocabulary)`` are the largest tensor of a training step: 2,048 tokens over
250,027 entries take 1.9 GiB. Here only one chunk's logits exist at a time.

The loss is a weighted sum over tokens, so the forward pass knows its gradient up to a factor. In
fp16 this factor, the loss scale, keeps small gradients from vanishing: there the backward pass
computes the logits again.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
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
        features: ``(groups, tokens, dim)`` packed, mostly of one group.
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
        smoothing: probability spread evenly over all other words, as in fairseq.
        rows: tokens of a chunk; None: :func:`rows_of`.
        predict: also find the most probable words.
        bias: ``(vocabulary,)``, or None.
    """
    settings = _LossSettings(
        smoothing=smoothing,
        rows=rows_of(projection.size(0), rows, projection.is_cuda),
        predict=predict,
        with_gradient=torch.is_grad_enabled(),
        dtype=autocast_dtype(features.device) or features.dtype,
    )
    total, smoothed, plain, *predicted = _ChunkedLoss.apply(  # type: ignore[no-untyped-call]
        features,
        projection,
        bias,
        weights,
        target,
        settings,
    )
    return Losses(total, smoothed, plain, predicted[0] if predict else None)


@dataclass(frozen=True)
class _LossSettings:
    """Arguments of :func:`chunked_loss`; ``dtype`` is the precision of the logits."""

    smoothing: float
    rows: int
    predict: bool
    with_gradient: bool
    dtype: torch.dtype


@dataclass(frozen=True)
class _LossInputs:
    """Tensors of :func:`chunked_loss`, in the precision of the logits."""

    features: Tensor
    projection: Tensor
    bias: Tensor | None
    target: Tensor


class _Gradients:
    """The gradients of features, projection and bias, each if ``wanted``, summed over chunks."""

    def __init__(self, inputs: _LossInputs, wanted: Sequence[bool]) -> None:
        features, projection = inputs.features, inputs.projection
        self.any_wanted = any(wanted)
        # In half precision a sum would lose the terms that the last chunks add.
        self._single = torch.promote_types(projection.dtype, torch.float32)
        self._projection = projection
        self._of_features: Tensor | None = None
        self._of_projection: Tensor | None = None
        self._of_bias: Tensor | None = None
        if wanted[0]:
            self._of_features = torch.empty_like(features)
        if wanted[1]:
            self._of_projection = torch.zeros_like(projection, dtype=self._single)
        if wanted[2]:
            self._of_bias = torch.zeros_like(projection[:, 0], dtype=self._single)

    def add(self, chunk: slice, features: Tensor, of_logits: Tensor) -> None:
        """Add a chunk: ``features (rows, dim)``, gradient ``of_logits (rows, vocabulary)``."""
        if self._of_features is not None:
            torch.mm(of_logits, self._projection, out=self._of_features[chunk])
        if self._of_projection is not None:
            if self._of_projection.dtype == features.dtype:
                self._of_projection.addmm_(of_logits.t(), features)
            else:
                self._of_projection += of_logits.t() @ features
        if self._of_bias is not None:
            self._of_bias += of_logits.sum(0, dtype=self._single)

    def converted(self, dtypes: Sequence[torch.dtype]) -> list[Tensor | None]:
        """Return the gradients in the types of the parameters; None where not wanted."""
        converted: list[Tensor | None] = []
        gradients = (self._of_features, self._of_projection, self._of_bias)
        for gradient, dtype in zip(gradients, dtypes, strict=True):
            converted.append(None if gradient is None else gradient.to(dtype))
        return converted


def _log_probs(features: Tensor, inputs: _LossInputs) -> Tensor:
    """``(rows, dim) -> (rows, vocabulary)``, at least in single precision."""
    logits = F.linear(features, inputs.projection, inputs.bias)
    single = torch.promote_types(features.dtype, torch.float32)
    return logits.to(single).log_softmax(1)


def _in_chunks(
    inputs: _LossInputs,
    weights: Tensor,
    settings: _LossSettings,
    gradients: _Gradients,
) -> list[Tensor]:
    """Return smoothed and plain losses, with ``predict`` words; add to ``gradients``."""
    vocabulary = inputs.projection.size(0)
    share = settings.smoothing / max(vocabulary - 1, 1)
    # The rest for the right word when every word has its share.
    right = 1 - settings.smoothing - share
    all_smoothed: list[Tensor] = []
    all_plain: list[Tensor] = []
    all_predicted: list[Tensor] = []
    for begin in range(0, inputs.features.size(0), settings.rows):
        chunk = slice(begin, begin + settings.rows)
        features = inputs.features[chunk]
        words = inputs.target[chunk, None]
        log_probs = _log_probs(features, inputs)
        plain = -log_probs.gather(1, words).squeeze(1)
        smoothed = plain
        if share:
            smoothed = right * plain - share * log_probs.sum(1)
        all_smoothed.append(smoothed)
        all_plain.append(plain)
        if settings.predict:
            all_predicted.append(log_probs.argmax(1))
        if gradients.any_wanted:
            # The gradient of the logits takes the place of the log-probabilities.
            factors = weights[chunk, None].to(log_probs)
            of_logits = log_probs.exp_()
            if share:
                of_logits.sub_(share)
            of_logits.mul_(factors)
            of_logits.scatter_add_(1, words, -right * factors)
            of_logits = of_logits.to(features.dtype)
            gradients.add(chunk, features, of_logits)
            del of_logits
        del log_probs  # before the next chunk has its own
    columns = [all_smoothed, all_plain]
    if settings.predict:
        columns.append(all_predicted)
    return [torch.cat(column) for column in columns]


class _ChunkedLoss(torch.autograd.Function):
    @staticmethod
    def forward(
        ctx: Any,
        features: Tensor,
        projection: Tensor,
        bias: Tensor | None,
        weights: Tensor,
        target: Tensor,
        settings: _LossSettings,
    ) -> tuple[Tensor, ...]:
        dtype = settings.dtype
        lowered_bias = None if bias is None else bias.to(dtype)
        inputs = _LossInputs(features.to(dtype), projection.to(dtype), lowered_bias, target)
        wanted = [settings.with_gradient and needed for needed in ctx.needs_input_grad[:3]]
        ctx.settings = settings
        ctx.dtypes = features.dtype, projection.dtype, projection.dtype
        ctx.in_backward = any(wanted) and dtype == torch.float16
        if ctx.in_backward:
            wanted = [False, False, False]
        with without_autocast(features.device):
            gradients = _Gradients(inputs, wanted)
            losses = _in_chunks(inputs, weights, settings, gradients)
            ctx.gradients = gradients.converted(ctx.dtypes)
        smoothed = losses[0]
        saved: list[Tensor | None] = [weights, smoothed]
        if ctx.in_backward:
            saved += [inputs.features, inputs.projection, inputs.bias, target]
        ctx.save_for_backward(*saved)
        ctx.mark_non_differentiable(*losses)
        total = (smoothed * weights).sum()
        return total, *losses

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad: Tensor, *_: Tensor) -> tuple[Tensor | None, ...]:
        weights, smoothed, *saved = ctx.saved_tensors
        # The gradient of a large vocabulary is not copied, so it can be used only once.
        known, ctx.gradients = ctx.gradients, None
        if known is None:
            raise RuntimeError("the gradient of a chunked loss can be asked for only once")
        if ctx.in_backward:
            scaled = weights * grad
            inputs = _LossInputs(*saved)
            settings = replace(ctx.settings, predict=False)
            with without_autocast(grad.device):
                gradients = _Gradients(inputs, ctx.needs_input_grad[:3])
                _in_chunks(inputs, scaled, settings, gradients)
                known = gradients.converted(ctx.dtypes)
        else:
            for gradient in known:
                if gradient is not None:
                    gradient.mul_(grad.to(gradient.dtype))
        of_weights = grad * smoothed if ctx.needs_input_grad[3] else None
        return (*known, of_weights, None, None)
