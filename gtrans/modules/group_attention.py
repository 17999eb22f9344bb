"""Attention within groups of tokens, at a cost that grows with the groups.

G-Transformer (Bao et al. 2021) defines group attention as ordinary attention with a mask that
is -1e8 between tokens of different sentences (Eq 6-7). Sentences are contiguous, so no
``N x N`` mask is needed: :func:`segment_attention` pads the packed tokens to ``(segments,
longest segment)``, runs ``scaled_dot_product_attention``, and packs the result again. A segment
is a sentence in group attention and a whole document in global attention, so both run through
the same code.

:class:`AttentionPlan` holds the index tensors. It is built once for a batch and shared by all
layers. :func:`dense_attention` is the equation as written; it is the oracle of the tests, and
it returns the attention weights. For CUDA in half precision there is also
:mod:`gtrans.modules.varlen_attention`.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import torch
import torch.nn.functional as F
from torch import Tensor

from gtrans.modules.gather import Gather, padded_index, with_rows
from gtrans.modules.layout import Segments

BACKENDS = ("regroup", "dense", "varlen")

# On a CPU a new bucket begins at a segment that is shorter than this share of the longest one in
# the bucket. Measured: the cost of a bucket is mainly its padding.
_BUCKET_RATIO = 0.87

SHAPES = ("exact", "rounded")
"""Buckets as large as what is in them, for a CPU; or of few different shapes, for devices whose
libraries prepare something for every new shape and where every bucket is a launch."""

_FINE_FROM = 512


def shapes_for(device: torch.device) -> str:
    """The :data:`SHAPES` of a device's buckets."""
    return "exact" if device.type == "cpu" else "rounded"


def rounded_count(segments: int) -> int:
    """The next of 1 to 8, 10, 12, 14, 16, 20, ..: four numbers between powers of two."""
    return _next_of(segments, 4)


def rounded_width(tokens: int) -> int:
    """The next of 8, 12, 16, 24, ..: two numbers between powers of two, four above 512.

    Long segments are rounded less, because their attention is what costs most.
    """
    return max(_next_of(tokens, 4 if tokens > _FINE_FROM else 2), 8)


def _next_of(number: int, between: int) -> int:
    """The smallest of the ``between`` numbers in every octave that is not below ``number``."""
    step = max((1 << (number.bit_length() - 1)) // between, 1)
    return -(-number // step) * step


@dataclass(frozen=True)
class Bucket:
    """Segments of similar length: ``count`` of them, padded to ``query`` and ``key`` tokens.

    ``mask`` broadcasts to ``(count, heads, query, key)`` and is True on visible keys. Without
    it a query sees all keys or, if ``causal``, those up to its own position.
    """

    count: int
    query: int
    key: int
    mask: Tensor | None
    causal: bool


class AttentionPlan:
    """Who attends to whom, for packed queries and keys in matching segments.

    Segment ``i`` of the queries sees segment ``i`` of the keys and nothing else.
    """

    def __init__(
        self,
        query: Segments,
        key: Segments,
        query_tokens: int,
        key_tokens: int,
        causal: bool,
        shapes: str = "exact",
    ) -> None:
        """Pair ``query`` with ``key`` segments.

        Args:
            query: segments of the queries; together they hold all ``query_tokens``.
            key: equally many segments of the keys; they may leave keys out.
            query_tokens: number of packed queries.
            key_tokens: number of packed keys.
            causal: a query sees keys up to its own position only. The queries of a segment
                are then its last keys, or all of them.
            shapes: one of :data:`SHAPES`.
        """
        self.query = query
        self.key = key
        self.query_tokens = query_tokens
        self.key_tokens = key_tokens
        self.causal = causal
        self.shapes = shapes

    @classmethod
    def within(
        cls, segments: Segments, tokens: int, causal: bool = False, shapes: str = "exact"
    ) -> AttentionPlan:
        """Self-attention inside ``segments`` that cover all ``tokens``."""
        return cls(segments, segments, tokens, tokens, causal, shapes)

    @cached_property
    def _grouping(self) -> tuple[list[Bucket], Gather | None, Gather | None]:
        device = self.query.starts.device
        query_sizes, key_sizes = self.query.sizes, self.key.sizes
        longest = [max(pair) for pair in zip(query_sizes, key_sizes, strict=True)]
        # In causal attention a segment may have few queries but many keys.
        lengths = query_sizes if self.causal else longest
        order = sorted((i for i, n in enumerate(lengths) if n), key=lambda i: (-lengths[i], i))
        buckets: list[Bucket] = []
        query_index: list[Tensor] = []
        key_index: list[Tensor] = []
        begin = 0
        while begin < len(order):
            end = begin + 1
            while end < len(order) and self._alike(lengths[order[begin]], lengths[order[end]]):
                end += 1
            members = order[begin:end]
            chosen = torch.tensor(members, device=device)
            count, width_q, width_k = self._shape(
                len(members),
                max(query_sizes[i] for i in members),
                max(key_sizes[i] for i in members),
            )
            query_index.append(with_rows(padded_index(self.query, chosen, width_q), count))
            keys = with_rows(padded_index(self.key, chosen, width_k), count)
            key_index.append(keys)
            whole = all(query_sizes[i] == key_sizes[i] for i in members)
            mask = None
            if self.causal and not whole:
                last = self.key.lengths[chosen] - self.query.lengths[chosen]
                last = with_rows(last[:, None] + torch.arange(width_q, device=device), count, 0)
                mask = torch.arange(width_k, device=device) <= last[:, None, :, None]
            # A causal query never looks beyond itself, so padding after it needs no mask.
            elif not self.causal and any(key_sizes[i] != width_k for i in members):
                mask = keys.ge(0)[:, None, None, :]
                # Rows of padding see something, so that their softmax is a number.
                mask[len(members) :] = True
            causal = self.causal and whole
            buckets.append(Bucket(count, width_q, width_k, mask, causal))
            begin = end
        gather = Gather.build(query_index, self.query_tokens)
        same = self.query is self.key
        return buckets, gather, gather if same else Gather.build(key_index, self.key_tokens)

    def _alike(self, longest: int, length: int) -> bool:
        """Whether a segment comes into the bucket of the ``longest`` one."""
        if self.shapes == "exact":
            return length >= _BUCKET_RATIO * longest
        return rounded_width(length) == rounded_width(longest)

    def _shape(self, count: int, query: int, key: int) -> tuple[int, int, int]:
        """Count and widths of a bucket, given those of what is in it."""
        if self.shapes == "exact":
            return count, query, key
        query, key = rounded_width(query), rounded_width(key)
        if not self.causal and 2 * min(query, key) >= max(query, key):
            query = key = max(query, key)
        return rounded_count(count), query, key

    @property
    def buckets(self) -> list[Bucket]:
        """The segments in groups of similar length, longest first."""
        return self._grouping[0]

    @property
    def query_gather(self) -> Gather | None:
        """Packed queries to padded buckets; None if these are the same."""
        return self._grouping[1]

    @property
    def key_gather(self) -> Gather | None:
        """Packed keys to padded buckets; None if these are the same."""
        return self._grouping[2]

    def prepare(self, backend: str) -> None:
        """Compute on the host what attention by ``backend`` asks for."""
        if backend == "dense":
            _ = self.visible
            return
        _ = self._grouping
        if backend == "varlen":
            _ = self.boundaries, self.query.sizes, self.key.sizes

    @cached_property
    def boundaries(self) -> tuple[Tensor, Tensor] | None:
        """``(segments + 1,)`` int32: where segments of queries and of keys begin, and their end.

        None if the segments are not consecutive from the first token to the last, or if one of
        them is empty.
        """
        sides = ((self.query, self.query_tokens), (self.key, self.key_tokens))
        if not all(_covers(part, tokens) for part, tokens in sides):
            return None
        query, key = (
            torch.cat([part.starts, part.starts.new_tensor([tokens])]).int()
            for part, tokens in sides
        )
        return query, key

    @cached_property
    def visible(self) -> Tensor:
        """``(queries, keys)`` True where a query sees a key."""
        visible = torch.zeros(
            self.query_tokens, self.key_tokens, dtype=torch.bool, device=self.query.starts.device
        )
        for number, (queries, keys) in enumerate(
            zip(self.query.sizes, self.key.sizes, strict=True)
        ):
            chosen = torch.tensor([number], device=visible.device)
            pairs = torch.ones(queries, keys, dtype=torch.bool, device=visible.device)
            query_index = padded_index(self.query, chosen, queries).T
            visible[query_index, padded_index(self.key, chosen, keys)] = (
                pairs.tril(keys - queries) if self.causal else pairs
            )
        return visible


def _covers(segments: Segments, tokens: int) -> bool:
    """Whether the segments are consecutive, cover all ``tokens``, and none is empty."""
    ends = segments.lengths.cumsum(0)
    return (
        segments.index is None
        and all(segments.sizes)
        and sum(segments.sizes) == tokens
        and torch.equal(segments.starts, ends - segments.lengths)
    )


def segment_attention(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    plan: AttentionPlan,
    heads: int,
    dropout: float = 0.0,
) -> Tensor:
    """Multi-head attention inside segments, by regrouping (Eq 6 without its mask).

    Args:
        query: ``(queries, dim)`` projected and packed.
        key: ``(keys, dim)`` projected and packed; it need not be contiguous.
        value: ``(keys, dim)`` projected and packed.
        plan: the segments.
        heads: number of heads; the head dimension is ``dim / heads``.
        dropout: probability of dropping an attention weight.

    Returns:
        ``(queries, dim)``.
    """
    gather_q, gather_k = plan.query_gather, plan.key_gather
    if gather_q is not None:
        query = gather_q.pad(query)
    if gather_k is not None:
        key, value = gather_k.pad(key), gather_k.pad(value)
    buckets = plan.buckets
    # Split, not sliced: the gradient of every slice would be a tensor of full size.
    sizes_q = [bucket.count * bucket.query for bucket in buckets]
    sizes_k = [bucket.count * bucket.key for bucket in buckets]
    queries = torch.split(query, sizes_q)
    keys, values = (torch.split(x, sizes_k) for x in (key, value))
    outputs = []
    for bucket, q, k, v in zip(buckets, queries, keys, values, strict=True):
        attended = scaled_attention(
            _split_heads(q, bucket.count, heads),
            _split_heads(k, bucket.count, heads),
            _split_heads(v, bucket.count, heads),
            bucket.mask,
            dropout,
            bucket.causal,
        )
        outputs.append(attended.transpose(1, 2).reshape(bucket.count * bucket.query, -1))
    output = outputs[0] if len(outputs) == 1 else torch.cat(outputs)
    return output if gather_q is None else gather_q.pack(output)


def scaled_attention(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    mask: Tensor | None,
    dropout: float = 0.0,
    causal: bool = False,
) -> Tensor:
    """``scaled_dot_product_attention``, in training on a CPU in single precision.

    There the gradient of half precision takes longer (torch 2.13 with avx512_bf16).

    Args:
        query: ``(groups, heads, queries, dim)``.
        key: ``(groups, heads, keys, dim)``.
        value: ``(groups, heads, keys, dim)``.
        mask: broadcasts to ``(groups, heads, queries, keys)``, True on visible keys; or None.
        dropout: probability of dropping an attention weight.
        causal: a query sees keys up to its own position only.

    Returns:
        ``(groups, heads, queries, dim)``.
    """
    half = query.dtype in (torch.float16, torch.bfloat16)
    if not (half and query.is_cpu and torch.is_grad_enabled()):
        return F.scaled_dot_product_attention(query, key, value, mask, dropout, causal)
    with torch.autocast("cpu", enabled=False):
        attended = F.scaled_dot_product_attention(
            query.float(), key.float(), value.float(), mask, dropout, causal
        )
    return attended.to(query.dtype)


def _split_heads(states: Tensor, count: int, heads: int) -> Tensor:
    """``(count * length, dim) -> (count, heads, length, dim / heads)``."""
    return states.view(count, states.size(0) // count, heads, -1).transpose(1, 2)


def dense_attention(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    plan: AttentionPlan,
    heads: int,
    dropout: float = 0.0,
) -> tuple[Tensor, Tensor]:
    """Eq 6-7 as written, over all packed tokens at once, with the attention weights.

    Arguments as in :func:`segment_attention`.

    Returns:
        the output ``(queries, dim)`` and the weights ``(heads, queries, keys)``.
    """
    head_dim = query.size(1) // heads
    q, k, v = (x.view(x.size(0), heads, head_dim).transpose(0, 1) for x in (query, key, value))
    scores = torch.matmul(q, k.transpose(1, 2)) / head_dim**0.5
    weights = scores.masked_fill(~plan.visible, float("-inf")).softmax(-1, dtype=torch.float32)
    dropped = F.dropout(weights.type_as(v), dropout, training=dropout > 0)
    output = torch.matmul(dropped, v).transpose(0, 1).reshape(query.size(0), -1)
    return output, weights
