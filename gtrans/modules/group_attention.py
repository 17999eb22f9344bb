"""Group attention (G-Transformer, Bao et al. 2021, Eq 6-7) at a cost that grows with the groups.

In the paper a mask of -1e8 separates the sentences. Sentences are contiguous, so no ``N x N`` mask
is needed:

* :class:`DocumentLayout`: the document and sentence of each token. Models work on *packed* states
  ``(tokens, dim)``, the real tokens of all rows one after the other.
* :func:`attention_plan`: who attends to whom, as index tensors, made with the batch.
* :func:`segment_attention`: attention inside segments: sentences in group attention, documents in
  global attention. :func:`dense_attention` is the equation as written.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, NamedTuple

import numpy as np
import torch
import torch.nn.functional as F
from numpy.typing import NDArray
from torch import Tensor
from torch.nn.attention import SDPBackend, sdpa_kernel

Ints = NDArray[np.int64]
Plan = dict[str, Any]
"""Layouts, attention plans and index tensors of a batch (:mod:`gtrans.models.base.planning`)."""

_KERNELS = [SDPBackend.FLASH_ATTENTION, SDPBackend.EFFICIENT_ATTENTION, SDPBackend.MATH]

BACKENDS = ("auto", "regroup", "dense")
SHAPES = ("exact", "rounded")
"""Buckets as large as their segments, for a CPU; or of few different shapes, for devices whose
libraries prepare something for every new shape and where every bucket is a launch."""

# On a CPU a new bucket begins at a segment that is shorter than this share of the longest one in
# the bucket. Measured: the cost of a bucket is mainly its padding.
_BUCKET_RATIO = 0.87
_FINE_FROM = 512


class PlanPart:
    """A part of a plan: tensors, numbers and further parts."""

    def pin_memory(self) -> PlanPart:
        """Return the part in pinned memory; torch's ``DataLoader`` calls this."""
        pinned: PlanPart = with_tensors(self, Tensor.pin_memory)
        return pinned


def with_tensors(plan: Any, change: Callable[[Tensor], Tensor]) -> Any:
    """Return a plan with ``change`` applied to every tensor."""
    if isinstance(plan, Tensor):
        return change(plan)
    if isinstance(plan, PlanPart):
        parts = with_tensors(vars(plan), change)
        return type(plan)(**parts)
    if isinstance(plan, dict):
        return {name: with_tensors(part, change) for name, part in plan.items()}
    if isinstance(plan, list | tuple):
        return [with_tensors(part, change) for part in plan]
    return plan


# ---- layout: which token belongs to which sentence -----------------------------------------------


class Positions(NamedTuple):
    """Positions of tokens, from 0.

    Attributes:
        numbers: ``(tokens,)``, or one for all tokens.
        end: above all of them.
    """

    numbers: Tensor | int
    end: int


@dataclass(frozen=True)
class DocumentLayout(PlanPart):
    """The sentence structure of a padded batch.

    Attributes:
        shape: batch and length.
        index: ``(tokens,)`` position of every real token in the flattened batch.
        row: ``(tokens,)`` its document: a row of the batch, or a chunk if rows are divided.
        sentence: ``(tokens,)`` its sentence in the document, from 0 (the group tag of Eq 3).
        position, position_in_sentence: ``(tokens,)``, from 0.
        sentence_lengths: ``(sentences,)`` tokens.
        document_lengths, sentence_counts: ``(documents,)`` tokens and sentences.
        longest, longest_sentence: tokens of the longest document and sentence.
        most_sentences: of a document.
        chunks: ``(batch, most)`` sentences of each chunk of a row, then zeros; None: whole rows.
        whole: the layout without sharing, if rows share states (:func:`shared_prefixes`).
        computed: ``(tokens of whole,)`` the token that computes each token of ``whole``.
    """

    shape: Sequence[int]
    index: Tensor
    row: Tensor
    sentence: Tensor
    position: Tensor
    position_in_sentence: Tensor
    sentence_lengths: Tensor
    document_lengths: Tensor
    sentence_counts: Tensor
    longest: int
    longest_sentence: int
    most_sentences: int
    chunks: Tensor | None = None
    computed: Tensor | None = None
    whole: DocumentLayout | None = None

    @classmethod
    def from_starts(cls, real: Tensor, starts: Tensor) -> DocumentLayout:
        """Build the layout on the host from two boolean masks ``(batch, length)``.

        Args:
            real: True on tokens, False on padding on either side.
            starts: True where a sentence begins; the first token of a row always counts.
        """
        batch, length = real.shape
        index = np.flatnonzero(real.numpy())
        tokens = len(index)
        row = index // max(length, 1)
        lengths = np.bincount(row, minlength=batch)
        row_starts = lengths.cumsum() - lengths
        is_start = starts.numpy().ravel()[index]
        has_tokens = lengths > 0
        is_start[row_starts[has_tokens]] = True
        sentence_starts = np.flatnonzero(is_start)
        sentence_lengths = np.diff(sentence_starts, append=tokens)
        row_of_sentence = row[sentence_starts]
        counts = np.bincount(row_of_sentence, minlength=batch)
        sentences_before = counts.cumsum() - counts
        # The sentence of each token, counted through the batch.
        number = is_start.cumsum() - 1
        sentence = number - sentences_before[row]
        order = np.arange(tokens)
        position = order - row_starts[row]
        position_in_sentence = order - sentence_starts[number]
        return cls(
            shape=(batch, length),
            index=torch.from_numpy(index),
            row=torch.from_numpy(row),
            sentence=torch.from_numpy(sentence),
            position=torch.from_numpy(position),
            position_in_sentence=torch.from_numpy(position_in_sentence),
            sentence_lengths=torch.from_numpy(sentence_lengths),
            document_lengths=torch.from_numpy(lengths),
            sentence_counts=torch.from_numpy(counts),
            longest=_most(lengths),
            longest_sentence=_most(sentence_lengths),
            most_sentences=_most(counts),
        )

    @classmethod
    def of_rows(cls, lengths: Tensor) -> DocumentLayout:
        """Build the layout of rows of one sentence each; ``lengths (batch,)`` in tokens."""
        columns = torch.arange(int(lengths.max()))
        real = columns < lengths[:, None]
        no_starts = torch.zeros_like(real)
        return cls.from_starts(real, no_starts)

    @classmethod
    def of_source(cls, tokens: Tensor, pad: int, eos: int) -> DocumentLayout:
        """Build the layout of source ids ``(batch, length)``.

        ``eos`` is the last token of every sentence: ``</s>``, or the separator that follows it.
        """
        real = tokens.ne(pad)
        after_end = torch.zeros_like(real)
        after_end[:, 1:] = tokens[:, :-1].eq(eos)
        return cls.from_starts(real, after_end)

    @classmethod
    def of_target(cls, tokens: Tensor, pad: int, bos: int, eos: int) -> DocumentLayout:
        """Build the layout of decoder input ids ``(batch, length)``.

        Every sentence begins as its row: with ``bos`` in ``<s> .. </s> <s> ..`` (§4.3), with
        ``</s>`` in fairseq's rows, where the end of a sentence begins the next one.
        """
        real = tokens.ne(pad)
        first_column = real.int().argmax(1, keepdim=True)
        first = tokens.gather(1, first_column)
        bos_column = torch.full_like(first, bos)
        opening = torch.where(first.eq(eos), first, bos_column)
        starts = tokens.eq(opening) & real
        return cls.from_starts(real, starts)

    def on_host(self) -> DocumentLayout:
        """Return the layout on the host, which waits once."""
        parts = dict(vars(self))
        tensors = {}
        for name, part in parts.items():
            if isinstance(part, Tensor):
                tensors[name] = part
        parts.update(on_host(tensors))
        return DocumentLayout(**parts)

    def divided(self, chunks: Tensor | None) -> DocumentLayout:
        """Return the layout, on the host, with every chunk of a row as a document."""
        if chunks is None:
            return self
        counts = chunks[chunks > 0].numpy()
        sizes = self.sentence_lengths.numpy()
        first = counts.cumsum() - counts
        lengths = np.add.reduceat(sizes, first)
        row = np.arange(len(counts)).repeat(lengths)
        number = np.arange(len(sizes)).repeat(sizes)
        sentence = number - first[row]
        starts = lengths.cumsum() - lengths
        position = np.arange(self.tokens) - starts[row]
        return replace(
            self,
            row=torch.from_numpy(row),
            sentence=torch.from_numpy(sentence),
            position=torch.from_numpy(position),
            document_lengths=torch.from_numpy(lengths),
            sentence_counts=torch.from_numpy(counts),
            longest=_most(lengths),
            most_sentences=_most(counts),
            chunks=chunks,
        )

    @property
    def tokens(self) -> int:
        """Number of real tokens."""
        return int(self.index.numel())

    @property
    def documents(self) -> int:
        """Number of documents."""
        return int(self.document_lengths.numel())

    @property
    def sentence_starts(self) -> Tensor:
        """``(sentences,)`` packed index of the first token of each sentence."""
        return self.sentence_lengths.cumsum(0) - self.sentence_lengths

    @property
    def in_several(self) -> Tensor:
        """``(tokens,)`` whether a token's document has several sentences."""
        return self.sentence_counts.gt(1)[self.row]

    @property
    def is_dense(self) -> bool:
        """Whether the batch holds no padding."""
        batch, length = self.shape
        return self.tokens == batch * length

    def positions(self, by_sentence: bool) -> Positions:
        """Return the positions of the tokens in their documents or sentences."""
        if by_sentence:
            return Positions(self.position_in_sentence, self.longest_sentence)
        return Positions(self.position, self.longest)

    def pack(self, padded: Tensor) -> Tensor:
        """``(batch, length, ..) -> (tokens, ..)``."""
        flat = padded.flatten(0, 1)
        if self.is_dense:
            return flat
        return flat.index_select(0, self.index)

    def pad(self, packed: Tensor, value: float = 0.0) -> Tensor:
        """``(tokens, ..) -> (batch, length, ..)``, ``value`` on padding.

        Shared states are copied into every row.
        """
        if self.whole is not None and self.computed is not None:
            return self.whole.pad(packed[self.computed], value)
        batch, length = self.shape
        features = packed.shape[1:]
        if not self.is_dense:
            flat = packed.new_full((batch * length, *features), value)
            packed = flat.index_copy(0, self.index, packed)
        return packed.view(batch, length, *features)

    def choose(self, packed: Tensor, chosen: Tensor) -> Tensor:
        """``(tokens, ..) -> (chosen, ..)``: the tokens where ``chosen (batch, length)`` is True."""
        if self.whole is not None and self.computed is not None:
            computed = self.computed[self.whole.pack(chosen)]
            return packed[computed]
        return packed[self.pack(chosen)]

    def align(self, packed: Tensor) -> Tensor:
        """``(tokens, ..) -> (documents, longest, ..)``, zeros on the right."""
        if self.is_dense and self.chunks is None:
            return self.pad(packed)
        _, width = self.shape
        if self.chunks is not None:
            width = self.longest
        features = packed.shape[1:]
        padded = packed.new_zeros(self.documents, width, *features)
        padded[self.row, self.position] = packed
        return padded


def _most(numbers: Ints) -> int:
    return int(numbers.max(initial=0))


def shared_prefixes(whole: DocumentLayout, tokens: Tensor, sources: Tensor) -> DocumentLayout:
    """Return the layout, on the host, of rows that share the states of their common prefixes.

    A row computes only the states after the prefix that it shares with the row before.

    Args:
        whole: layout of ``tokens``.
        tokens: ``(rows, length)`` decoder input, padded on the right; sorted rows of a source
            share most.
        sources: ``(rows,)`` the source of each row.
    """
    ids = tokens.numpy()
    lengths = whole.document_lengths.numpy()
    row = whole.row.numpy()
    position = whole.position.numpy()
    is_common = np.cumprod(ids[1:] == ids[:-1], axis=1)
    common = is_common.sum(1)
    numbers = sources.numpy()
    is_same_source = numbers[1:] == numbers[:-1]
    shared = np.zeros_like(lengths)
    shared[1:] = np.where(is_same_source, common, 0)
    # Every row keeps its last token, so that every row has states of its own.
    all_but_last = np.maximum(lengths - 1, 0)
    shared = np.minimum(shared, all_but_last)
    is_own = position >= shared[row]
    own = np.flatnonzero(is_own)
    own_row = row[own]
    own_position = position[own]
    # (rows, length): the nearest row up to this one that computes its own state there
    owner = np.full(ids.shape, -1)
    owner[own_row, own_position] = own_row
    owner = np.maximum.accumulate(owner, axis=0)
    # (rows, length): the number of each own token
    table = np.full(ids.shape, -1)
    table[own_row, own_position] = np.arange(len(own))
    owner_of_token = owner[row, position]
    computed = table[owner_of_token, position]
    sizes = whole.sentence_lengths.numpy()
    sentence = np.arange(len(sizes)).repeat(sizes)
    _, own_sizes = np.unique(sentence[own], return_counts=True)
    chosen = torch.from_numpy(own)
    return replace(
        whole,
        index=whole.index[chosen],
        row=whole.row[chosen],
        sentence=whole.sentence[chosen],
        position=whole.position[chosen],
        position_in_sentence=whole.position_in_sentence[chosen],
        sentence_lengths=torch.from_numpy(own_sizes),
        document_lengths=torch.from_numpy(lengths - shared),
        computed=torch.from_numpy(computed),
        whole=whole,
    )


# ---- plans: who attends to whom ------------------------------------------------------------------


@dataclass(frozen=True)
class Segments:
    """Runs of packed tokens, in NumPy.

    Attributes:
        starts: ``(segments,)`` first token of each run.
        lengths: ``(segments,)``.
        index: packed indices, whose runs may share tokens; None: runs of the packed tokens.
    """

    starts: Ints
    lengths: Ints
    index: Ints | None = None

    @classmethod
    def of_lengths(cls, lengths: Tensor, index: Tensor | None = None) -> Segments:
        """Return runs of ``lengths (segments,)``, one after the other."""
        sizes = lengths.numpy()
        starts = sizes.cumsum() - sizes
        indices = None if index is None else index.numpy()
        return cls(starts, sizes, indices)

    def chosen(self, numbers: Ints) -> Segments:
        """Return the segments ``numbers (n,)``, in that order."""
        return Segments(self.starts[numbers], self.lengths[numbers], self.index)

    def padded(self, members: Ints, width: int, rows: int) -> Ints:
        """``(rows, width)`` token indices of the segments ``members``; -1 on padding."""
        offsets = np.arange(width)
        starts = self.starts[members][:, None]
        lengths = self.lengths[members][:, None]
        index = starts + offsets  # (members, width)
        after_end = offsets >= lengths
        if self.index is not None:
            readable = np.where(after_end, 0, index)
            index = self.index[readable]
        index = np.where(after_end, -1, index)
        padded: Ints = _with_rows(index, rows)
        return padded

    def cover(self, tokens: int) -> bool:
        """Whether the segments are consecutive, not empty, and hold all ``tokens``."""
        if self.index is not None:
            return False
        if not (self.lengths > 0).all():
            return False
        if int(self.lengths.sum()) != tokens:
            return False
        starts = self.lengths.cumsum() - self.lengths
        return bool((self.starts == starts).all())


def _with_rows(padded: Any, rows: int, value: int = -1) -> Any:
    """``(n, width) -> (rows, width)``, ``value`` at the end."""
    added_rows = (0, rows - len(padded))
    added_columns = (0, 0)
    return np.pad(padded, (added_rows, added_columns), constant_values=value)


@dataclass(frozen=True)
class Bucket(PlanPart):
    """Segments of similar length, ``segments`` many, padded to ``query`` and ``key`` tokens.

    ``mask`` broadcasts to ``(segments, heads, query, key)``, True on visible keys. Without it a
    query sees all keys, or if ``causal`` the keys up to its own position.
    """

    segments: int
    query: int
    key: int
    causal: bool
    mask: Tensor | None


@dataclass(frozen=True)
class Gather(PlanPart):
    """Pads packed tokens by an index; its gradient is a gather, faster than scatter-add.

    Attributes:
        index: ``(padded,)`` the packed token at each position, any on padding.
        inverse: ``(tokens,)`` the padded position of each token; None: some have several.
        unused: ``(tokens,)`` True on tokens without a position; None: there are none.
    """

    index: Tensor
    inverse: Tensor | None
    unused: Tensor | None

    def pad(self, packed: Tensor) -> Tensor:
        """``(tokens, dim) -> (padded, dim)``; padding is arbitrary."""
        if self.inverse is None:
            return packed.index_select(0, self.index)
        padded: Tensor = _GatherFunction.apply(  # type: ignore[no-untyped-call]
            packed, self.index, self.inverse, self.unused
        )
        return padded

    def pack(self, padded: Tensor) -> Tensor:
        """``(padded, dim) -> (tokens, dim)``; every token must have one position."""
        assert self.inverse is not None
        return padded.index_select(0, self.inverse)


class _GatherFunction(torch.autograd.Function):
    @staticmethod
    def forward(
        ctx: Any,
        packed: Tensor,
        index: Tensor,
        inverse: Tensor,
        unused: Tensor | None,
    ) -> Tensor:
        ctx.save_for_backward(inverse, unused)
        return packed.index_select(0, index)

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor, None, None, None]:
        inverse, unused = ctx.saved_tensors
        gathered = grad.index_select(0, inverse)
        if unused is not None:
            gathered.masked_fill_(unused[:, None], 0)
        return gathered, None, None, None


def gather_of(padded: Sequence[Ints], tokens: int) -> Gather | None:
    """Return the :class:`Gather` of the buckets' indices; None: nothing moves."""
    index = np.zeros(0, np.int64)
    if padded:
        index = np.concatenate([bucket.ravel() for bucket in padded])
    if len(index) == tokens and (index == np.arange(tokens)).all():
        return None
    real = np.flatnonzero(index >= 0)
    token_of_real = index[real]
    position = np.full(tokens, -1)
    position[token_of_real] = real
    is_unused = position < 0
    used = tokens - is_unused.sum()
    has_repeats = len(real) > used
    inverse: Tensor | None = None
    if not has_repeats:
        inverse = torch.from_numpy(np.maximum(position, 0))
    unused: Tensor | None = None
    if is_unused.any():
        unused = torch.from_numpy(is_unused)
    return Gather(
        index=torch.from_numpy(np.maximum(index, 0)),
        inverse=inverse,
        unused=unused,
    )


@dataclass(frozen=True)
class AttentionPlan(PlanPart):
    """Who attends to whom (:func:`attention_plan`).

    Attributes:
        size: numbers of packed queries and keys.
        buckets: the longest segments first.
        query, key: pad packed tokens to buckets; None: buckets are the packed tokens.
        causal: a query sees keys up to its own position only.
        begins: where segments of queries and keys begin, and the end, ``(segments + 1,)`` int32.
        consecutive: segments cover all tokens in order, and none is empty.
        longest: tokens of the longest segment of queries and keys.
    """

    size: Sequence[int]
    buckets: Sequence[Bucket]
    query: Gather | None
    key: Gather | None
    causal: bool
    begins: Sequence[Tensor]
    consecutive: bool
    longest: Sequence[int]

    @property
    def visible(self) -> Tensor:
        """``(queries, keys)`` True where a query sees a key."""
        queries, keys = self.size
        device = self.begins[0].device
        rows = torch.arange(queries, device=device)
        columns = torch.arange(keys, device=device)
        if self.query is not None and self.query.inverse is not None:
            # Padding is a row of its own, which is left out at the end.
            padded = torch.full_like(self.query.index, queries)
            rows = padded.index_copy(0, self.query.inverse, rows)
        if self.key is not None:
            columns = self.key.index
        seen = rows.new_zeros(queries + 1, keys)
        bucket_rows, bucket_columns = self.split(rows, columns)
        parts = zip(self.buckets, bucket_rows, bucket_columns, strict=True)
        for bucket, row, column in parts:
            pairs = seen.new_ones(bucket.segments, bucket.query, bucket.key)
            if bucket.mask is not None:
                pairs = pairs * bucket.mask[:, 0]
            if bucket.causal:
                pairs = pairs.tril()
            row = row.view(bucket.segments, -1, 1)
            column = column.view(bucket.segments, 1, -1)
            seen.index_put_((row, column), pairs, accumulate=True)
        return seen[:-1] > 0

    def split(self, queries: Tensor, *keys: Tensor) -> list[Sequence[Tensor]]:
        """Split padded queries and keys ``(padded, ..)`` into buckets."""
        rows = [bucket.segments * bucket.query for bucket in self.buckets]
        columns = [bucket.segments * bucket.key for bucket in self.buckets]
        # Split, not sliced: the gradient of every slice would be a tensor of full size.
        parts: list[Sequence[Tensor]] = [torch.split(queries, rows)]
        for packed in keys:
            parts.append(torch.split(packed, columns))
        return parts


def attention_plan(
    query: Segments,
    key: Segments,
    size: tuple[int, int],
    causal: bool = False,
    shapes: str = "exact",
) -> AttentionPlan:
    """Plan, on the host, attention from segment ``i`` of the queries to segment ``i`` of the keys.

    Args:
        query: segments that hold all queries.
        key: equally many segments; they may leave keys out.
        size: numbers of packed queries and keys.
        causal: a query sees keys up to its own position only; a segment's queries are its last
            keys, or all of them.
        shapes: one of :data:`SHAPES`.
    """
    queries, keys = size
    # In causal attention a segment may have few queries but many keys.
    lengths = query.lengths
    if not causal:
        lengths = np.maximum(query.lengths, key.lengths)
    buckets: list[Bucket] = []
    padded_queries: list[Ints] = []
    padded_keys: list[Ints] = []
    for members in _alike(lengths, shapes):
        query_lengths = query.lengths[members]
        key_lengths = key.lengths[members]
        segments = len(members)
        rows = _most(query_lengths)
        columns = _most(key_lengths)
        if shapes == "rounded":
            segments = rounded_count(segments)
            rows, columns = _rounded_widths(rows, columns, causal)
        key_index = key.padded(members, columns, segments)
        padded_queries.append(query.padded(members, rows, segments))
        padded_keys.append(key_index)
        # Causal attention with a query for every key needs no mask: the kernel has a flag for it.
        is_square = bool((query_lengths == key_lengths).all())
        mask: Tensor | None = None
        if causal and not is_square:
            last_keys = _last_keys(query_lengths, key_lengths, rows, segments)
            mask = torch.from_numpy(np.arange(columns) <= last_keys)
        # A causal query never looks beyond itself, so padding after it needs no mask.
        elif not causal and (key_lengths != columns).any():
            is_key = key_index[:, None, None, :] >= 0
            # Rows of padding see something, so that their softmax is a number.
            is_key[len(members) :] = True
            mask = torch.from_numpy(is_key)
        bucket = Bucket(
            segments=segments,
            query=rows,
            key=columns,
            causal=causal and is_square,
            mask=mask,
        )
        buckets.append(bucket)
    query_gather = gather_of(padded_queries, queries)
    key_gather = query_gather
    if query is not key:
        key_gather = gather_of(padded_keys, keys)
    return AttentionPlan(
        size=size,
        buckets=buckets,
        query=query_gather,
        key=key_gather,
        causal=causal,
        begins=[_begins(query.lengths), _begins(key.lengths)],
        consecutive=query.cover(queries) and key.cover(keys),
        longest=(_most(query.lengths), _most(key.lengths)),
    )


def _last_keys(query_lengths: Ints, key_lengths: Ints, rows: int, segments: int) -> Ints:
    """``(segments, 1, rows, 1)`` the last key that each query of a causal bucket sees."""
    offset = key_lengths - query_lengths
    last = offset[:, None] + np.arange(rows)  # (members, rows)
    padded: Ints = _with_rows(last, segments, 0)
    return padded[:, None, :, None]


def _begins(lengths: Ints) -> Tensor:
    begins = np.append(0, lengths.cumsum())
    return torch.from_numpy(begins.astype(np.int32))


def _rounded_widths(queries: int, keys: int, causal: bool) -> tuple[int, int]:
    """Return rounded widths, equal ones if that is not much larger."""
    rows = rounded_width(queries)
    columns = rounded_width(keys)
    wide = max(rows, columns)
    narrow = min(rows, columns)
    if not causal and 2 * narrow >= wide:
        return wide, wide
    return rows, columns


def _alike(lengths: Ints, shapes: str) -> Iterator[Ints]:
    """Group non-empty segments by similar length, the longest first."""
    order = np.argsort(-lengths, kind="stable")
    order = order[lengths[order] > 0]
    sizes: list[int] = lengths[order].tolist()
    begin = 0
    for end in range(1, len(sizes) + 1):
        if end < len(sizes) and _fits(sizes[end], sizes[begin], shapes):
            continue
        yield order[begin:end]
        begin = end


def _fits(length: int, longest: int, shapes: str) -> bool:
    """Whether a segment may stand in the bucket of a longer one."""
    if shapes == "exact":
        return length >= _BUCKET_RATIO * longest
    return rounded_width(length) == rounded_width(longest)


def shapes_for(device: torch.device) -> str:
    """Return the :data:`SHAPES` of a device's buckets."""
    return "exact" if device.type == "cpu" else "rounded"


def rounded_count(segments: int) -> int:
    """Return the next of 1 to 8, 10, 12, 14, 16, 20, ..: four numbers between powers of two."""
    return _next_of(segments, 4)


def rounded_width(tokens: int) -> int:
    """Return the next of 8, 12, 16, 24, ..: two numbers between powers of two, four above 512."""
    between = 4 if tokens > _FINE_FROM else 2
    return max(_next_of(tokens, between), 8)


def _next_of(number: int, between: int) -> int:
    """Return ``number`` rounded up to one of ``between`` numbers between powers of two."""
    octave = 1 << (number.bit_length() - 1)
    step = max(octave // between, 1)
    steps = -(-number // step)
    return steps * step


def on_host(tensors: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """Copy tensors of ids to the host, which waits once."""
    if all(tensor.device.type == "cpu" for tensor in tensors.values()):
        return dict(tensors)
    flattened = [tensor.flatten() for tensor in tensors.values()]
    joined = torch.cat(flattened)
    flat = joined.cpu()
    moved = {}
    begin = 0
    for name, tensor in tensors.items():
        end = begin + tensor.numel()
        moved[name] = flat[begin:end].view(tensor.shape)
        begin = end
    return moved


def to_device(plan: Any, device: torch.device) -> Any:
    """Copy a tensor or plan to ``device``; the host does not wait."""
    if device.type == "cpu":
        return plan
    return with_tensors(plan, partial(_copied, device=device))


def _copied(tensor: Tensor, device: torch.device) -> Tensor:
    if tensor.device == device:
        return tensor
    return tensor.pin_memory().to(device, non_blocking=True)


# ---- attention -----------------------------------------------------------------------------------


def segment_attention(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    plan: AttentionPlan,
    heads: int,
    dropout: float = 0.0,
) -> Tensor:
    """Multi-head attention inside segments (Eq 6 without its mask).

    Buckets of segments of similar length are padded, attended and packed again.

    Args:
        query: ``(queries, dim)`` projected and packed, as the result.
        key, value: ``(keys, dim)`` projected and packed.
        plan, heads: the segments, and the number of heads.
        dropout: of the weights.
    """
    if plan.query is not None:
        query = plan.query.pad(query)
    if plan.key is not None:
        key = plan.key.pad(key)
        value = plan.key.pad(value)
    queries, keys, values = plan.split(query, key, value)
    outputs = []
    for bucket, q, k, v in zip(plan.buckets, queries, keys, values, strict=True):
        # q, k, v: (segments, heads, tokens, dim / heads)
        q = _split_heads(q, bucket.segments, heads)
        k = _split_heads(k, bucket.segments, heads)
        v = _split_heads(v, bucket.segments, heads)
        attended = scaled_attention(q, k, v, bucket.mask, dropout, bucket.causal)
        tokens = bucket.segments * bucket.query
        joined = attended.transpose(1, 2).reshape(tokens, -1)
        outputs.append(joined)
    if len(outputs) == 1:
        output = outputs[0]
    else:
        output = torch.cat(outputs)
    if plan.query is None:
        return output
    return plan.query.pack(output)


def _split_heads(states: Tensor, segments: int, heads: int) -> Tensor:
    """``(segments * length, dim) -> (segments, heads, length, dim / heads)``."""
    length = states.size(0) // segments
    split = states.view(segments, length, heads, -1)
    return split.transpose(1, 2)


def scaled_attention(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    mask: Tensor | None,
    dropout: float = 0.0,
    causal: bool = False,
) -> Tensor:
    """``scaled_dot_product_attention``, in training on a CPU in single precision, which is faster.

    On a GPU cuDNN is left out: it builds a plan for every new shape.

    Args:
        query: ``(batch, heads, queries, dim)``, as the result.
        key, value: ``(batch, heads, keys, dim)``.
        mask: broadcasts to ``(batch, heads, queries, keys)``, True on visible keys.
        dropout, causal: as in torch.
    """
    if query.is_cuda:
        with sdpa_kernel(_KERNELS):
            return F.scaled_dot_product_attention(query, key, value, mask, dropout, causal)
    dtype = query.dtype
    is_half = dtype in (torch.float16, torch.bfloat16)
    if not is_half or not query.is_cpu or not torch.is_grad_enabled():
        return F.scaled_dot_product_attention(query, key, value, mask, dropout, causal)
    with torch.autocast("cpu", enabled=False):
        query, key, value = query.float(), key.float(), value.float()
        attended = F.scaled_dot_product_attention(query, key, value, mask, dropout, causal)
    return attended.to(dtype)


def dense_attention(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    plan: AttentionPlan,
    heads: int,
    dropout: float = 0.0,
) -> tuple[Tensor, Tensor]:
    """Eq 6-7 as written, over all tokens at once; arguments as in :func:`segment_attention`.

    Returns:
        the output ``(queries, dim)`` and the weights ``(heads, queries, keys)``.
    """
    queries, dim = query.shape
    keys = key.size(0)
    head_dim = dim // heads
    # q, k, v: (heads, tokens, head_dim)
    q = query.view(queries, heads, head_dim).transpose(0, 1)
    k = key.view(keys, heads, head_dim).transpose(0, 1)
    v = value.view(keys, heads, head_dim).transpose(0, 1)
    products = torch.matmul(q, k.transpose(1, 2))
    scores = products / head_dim**0.5
    scores = scores.masked_fill(~plan.visible, float("-inf"))
    weights = scores.softmax(-1, dtype=torch.float32)
    dropped = F.dropout(weights.type_as(v), dropout, training=dropout > 0)
    attended = torch.matmul(dropped, v)
    output = attended.transpose(0, 1).reshape(queries, -1)
    return output, weights
