"""G-Transformer's attention as its paper prints it (Bao et al. 2021, §4, Eq 3-10).

One document at a time, with ``N x N`` masks, for reading and as the oracle of the tests. Models
run :mod:`gtrans.modules.transformer`, which computes the same, but whose group attention has
linear cost in the number of sentences. Both use the parameters of the same modules.
"""

from __future__ import annotations

import torch
from torch import Tensor

from gtrans.modules.transformer import DocumentAttention, Gate, MultiheadAttention

GAMMA = -1e8


def group_tags(tokens: Tensor, end: int) -> Tensor:
    """Eq 3: ``(N,)`` ids -> ``(N,)`` tags from 1, which increase after each ``end`` mark."""
    ends = tokens.eq(end).long()
    return 1 + ends.cumsum(0) - ends


def group_mask(query_tags: Tensor, key_tags: Tensor) -> Tensor:
    """Eq 7: ``(queries,)`` and ``(keys,)`` tags -> ``(queries, keys)``, gamma where they differ."""
    one_q, one_k = torch.ones_like(query_tags), torch.ones_like(key_tags)
    difference = torch.outer(query_tags, one_k) - torch.outer(one_q, key_tags)
    mask: Tensor = difference.abs().clamp(max=1) * GAMMA
    return mask


def causal_mask(length: int) -> Tensor:
    """``(length, length)`` gamma on what follows a query: the decoder's own mask."""
    return torch.ones(length, length).triu(1) * GAMMA


def attention(query: Tensor, key: Tensor, value: Tensor, mask: Tensor | float = 0.0) -> Tensor:
    """Eq 4, and with ``mask (queries, keys)`` Eq 6: ``(queries, d_k)`` of one head."""
    scores: Tensor = query @ key.T / key.size(1) ** 0.5 + mask
    return scores.softmax(-1) @ value


def multi_head(
    module: MultiheadAttention, query: Tensor, key: Tensor, mask: Tensor | float = 0.0
) -> Tensor:
    """Eq 5, and with ``mask`` Eq 8: ``(queries, dim)`` from ``query`` and ``key`` (and value).

    ``module`` holds ``W^Q, W^K, W^V`` of all heads, concatenated, and ``W^O``.
    """
    projected = module.q_proj(query), module.k_proj(key), module.v_proj(key)
    heads = zip(*(x.chunk(module.heads, -1) for x in projected), strict=True)
    outputs = [attention(q, k, v, mask) for q, k, v in heads]
    output: Tensor = module.out_proj(torch.cat(outputs, -1))
    return output


def gate_sum(gate: Gate, group: Tensor, global_: Tensor) -> Tensor:
    """The last two lines of Eq 10: ``H_L * g + H_G * (1 - g)``."""
    g = torch.sigmoid(gate.proj(torch.cat([group, global_], -1)))
    return group * g + global_ * (1 - g)


def document_attention(
    module: DocumentAttention,
    query: Tensor,
    key: Tensor,
    query_tags: Tensor,
    key_tags: Tensor,
    causal: bool = False,
) -> Tensor:
    """The output ``(queries, dim)`` of one attention of a layer, by its kind (§4.1, §4.2)."""
    before = causal_mask(query.size(0)) if causal else 0.0
    if module.kind == "global":
        return multi_head(module, query, key, before)
    group = multi_head(module, query, key, group_mask(query_tags, key_tags) + before)
    if module.gate is None or module.global_attn is None:
        return group
    return gate_sum(module.gate, group, multi_head(module.global_attn, query, key, before))
