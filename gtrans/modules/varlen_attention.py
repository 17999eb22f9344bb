"""Attention inside segments by variable-length kernels (CUDA, half precision).

FlashAttention reads packed queries and keys directly, with the indices at which segments begin,
so nothing is padded. The kernels have neither attention dropout nor fp32. :func:`suits` says
whether they can be used; if not, the model uses
:func:`gtrans.modules.group_attention.segment_attention`, and a warning says once why.
"""

from __future__ import annotations

import inspect
import logging
from collections.abc import Callable
from functools import cache, lru_cache
from typing import Any

import torch
from torch import Tensor

from gtrans.modules.group_attention import AttentionPlan

logger = logging.getLogger(__name__)

_LARGEST_HEAD = 256


def suits(query: Tensor, plan: AttentionPlan, heads: int, dropout: float) -> bool:
    """Whether the kernels can compute this attention.

    Args:
        query: ``(queries, dim)``.
        plan: its segments must be consecutive, cover all tokens, and none may be empty: keys
            in no segment would get no gradient instead of a zero one.
        heads: number of heads.
        dropout: probability of dropping an attention weight.
    """
    obstacle = _obstacle(query, heads, dropout)
    if obstacle is not None:
        _warn(obstacle)
    # Whether all tokens are in segments depends on the batch, and is no reason to warn.
    return obstacle is None and plan.boundaries is not None


def _obstacle(query: Tensor, heads: int, dropout: float) -> str | None:
    """Why the kernels cannot be used for any batch; None if they can."""
    head = query.size(1) // heads
    if not query.is_cuda:
        return "they need a CUDA device"
    if query.dtype not in (torch.float16, torch.bfloat16):
        return f"they need half precision (--bf16, --fp16, --amp), not {query.dtype}"
    if dropout:
        return f"they have no attention dropout, which is {dropout} (--attention-dropout 0)"
    if head % 8 or head > _LARGEST_HEAD:
        return f"heads must have a multiple of 8, at most {_LARGEST_HEAD} dimensions, not {head}"
    if not _device_has_kernels(query.device):
        return "this torch or this CUDA device does not have them"
    return None


@cache
def _warn(obstacle: str) -> None:
    logger.warning(
        "--attention-backend varlen: variable-length kernels are not used, attention is computed "
        "as by `regroup`: %s",
        obstacle,
    )


def varlen_attention(
    query: Tensor, key: Tensor, value: Tensor, plan: AttentionPlan, heads: int
) -> Tensor:
    """Eq 6 without its mask; needs :func:`suits`.

    Args:
        query: ``(queries, dim)`` projected and packed.
        key: ``(keys, dim)``.
        value: ``(keys, dim)``.
        plan: the segments.
        heads: number of heads.

    Returns:
        ``(queries, dim)``.

    Raises:
        ValueError: the segments of the plan do not cover all tokens.
    """
    if plan.boundaries is None:
        raise ValueError("variable-length attention needs segments that cover all tokens")
    begins_q, begins_k = plan.boundaries
    attended: Tensor = _kernel()(
        *(x.view(x.size(0), heads, -1) for x in (query, key, value)),
        begins_q,
        begins_k,
        max(plan.query.sizes),
        max(plan.key.sizes),
        **_causality(plan.causal),
    )
    return attended.flatten(1)


@lru_cache(maxsize=1)
def _kernel() -> Callable[..., Any]:
    from torch.nn.attention.varlen import varlen_attn  # not in every build of torch

    return varlen_attn


def _causality(causal: bool) -> dict[str, Any]:
    """The argument for causal attention: ``is_causal`` in torch 2.10, ``window_size`` later."""
    if not causal:
        return {}
    if "is_causal" in inspect.signature(_kernel()).parameters:
        return {"is_causal": True}
    return {"window_size": (-1, 0)}


@lru_cache(maxsize=8)
def _device_has_kernels(device: torch.device) -> bool:
    try:
        _kernel()
    except ImportError:
        return False
    return torch.cuda.get_device_capability(device)[0] >= 8
