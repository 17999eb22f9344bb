"""Attention inside segments by variable-length kernels (CUDA, half precision).

FlashAttention reads packed tokens with the indices at which segments begin, without padding. The
kernels have neither attention dropout nor fp32: where :func:`suits` is False, models use
:func:`gtrans.modules.group_attention.segment_attention`.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache
from typing import Any

import torch
from torch import Tensor

from gtrans.modules.group_attention import AttentionPlan

_LARGEST_HEAD = 256


def suits(query: Tensor, plan: AttentionPlan, heads: int, dropout: float) -> bool:
    """Whether the kernels can compute this attention.

    Args:
        query: ``(queries, dim)``.
        plan: its segments must be consecutive: keys in no segment would get no gradient instead of
            a zero one.
        heads, dropout: number of heads, and the weights' dropout.
    """
    head = query.size(1) // heads
    return (
        query.is_cuda
        and query.dtype in (torch.float16, torch.bfloat16)
        and not dropout
        and head % 8 == 0
        and head <= _LARGEST_HEAD
        and plan.consecutive
        and _device_has_kernels(query.device)
    )


def varlen_attention(
    query: Tensor, key: Tensor, value: Tensor, plan: AttentionPlan, heads: int
) -> Tensor:
    """Eq 6 without its mask, of packed, projected tokens; needs :func:`suits`.

    ``query`` and the result are ``(queries, dim)``, ``key`` and ``value (keys, dim)``.
    """
    q = query.view(query.size(0), heads, -1)
    k = key.view(key.size(0), heads, -1)
    v = value.view(value.size(0), heads, -1)
    window = (-1, 0 if plan.causal else -1)
    attended: Tensor = _kernel()(q, k, v, *plan.begins, *plan.longest, window_size=window)
    return attended.flatten(1)


@lru_cache(maxsize=1)
def _kernel() -> Callable[..., Any]:
    from torch.nn.attention.varlen import varlen_attn  # not in every build of torch

    return varlen_attn


@lru_cache(maxsize=8)
def _device_has_kernels(device: torch.device) -> bool:
    try:
        _kernel()
    except ImportError:
        return False
    return torch.cuda.get_device_capability(device)[0] >= 8
