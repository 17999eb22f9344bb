"""Embeddings of packed tokens, their positions and the numbers of their sentences.

Positions count from 0; embeddings add fairseq's offset, on which checkpoints rely.
"""

from __future__ import annotations

import math
from collections.abc import Callable

import torch
from torch import Tensor, nn

from gtrans.errors import GtransError
from gtrans.modules.group_attention import Positions, to_device
from gtrans.modules.transformer import dropout

# fairseq's padding_idx + 1.
OFFSET = 2
# Arrangements of sinusoidal positions.
SINUSOIDS = ("fairseq", "marian")


class SinusoidalPositions(nn.Module):
    """Sinusoidal embeddings (Vaswani et al. 2017) in the arrangement of fairseq or of Marian.

    Sines, then cosines. Rates fall from 1 to 1/10000 in fairseq, whose first position is 2; in
    Marian and the paper they end one step before, and the first position is 0.

    The table grows with longer texts. It is no buffer: ``--broadcast-buffers`` would send it to
    processes whose tables have another size.
    """

    def __init__(self, dim: int, size: int = 1024, kind: str = "fairseq") -> None:
        """``size``: positions at first; ``kind``: one of :data:`SINUSOIDS`."""
        super().__init__()
        self.dim = dim
        if kind == "marian":
            self.offset = 0
            self.sines = math.ceil(dim / 2)
            self.steps = dim / 2
        else:
            self.offset = OFFSET
            self.sines = dim // 2
            self.steps = dim // 2 - 1.0
        self.table = self._build(size)

    def _apply(self, fn: Callable[[Tensor], Tensor], recurse: bool = True) -> SinusoidalPositions:
        """Move the table with the model, as torch does with buffers."""
        super()._apply(fn, recurse)  # type: ignore[no-untyped-call]
        self.table = fn(self.table)
        return self

    def _build(self, size: int) -> Tensor:
        # On the CPU also where a model is built without values: `exp` there loads torch's compiler.
        steps = torch.arange(self.sines, device="cpu")
        slope = math.log(10000) / max(self.steps, 1.0)
        rates = torch.exp(steps * -slope)
        positions = torch.arange(size, device="cpu")
        angles = positions[:, None] * rates[None, :]
        table = torch.cat([angles.sin(), angles.cos()], 1)
        table = table[:, : self.dim]
        missing = self.dim - table.size(1)
        return nn.functional.pad(table, (0, missing))

    def forward(self, positions: Tensor | int, end: int | None = None) -> Tensor:
        """Embed ``(tokens,)`` positions as ``(tokens, dim)``, one number as ``(dim,)``.

        ``end`` is above all of them; None: the host waits to read it from the device.
        """
        if end is None:
            end = _end(positions)
        rows = self.table.size(0)
        needed = end + self.offset
        if needed > rows:
            size = max(needed, 2 * rows)
            table = self._build(size).to(self.table.dtype)
            self.table = to_device(table, self.table.device)
        if isinstance(positions, int):
            return self.table[positions + self.offset]
        return self.table.index_select(0, positions + self.offset)


class LearnedPositions(nn.Embedding):
    """Learned positions, as in BERT, BART and mBART; the weight is ``(offset + size, dim)``.

    The first ``offset`` vectors belong to no position: two in fairseq, the second one zero; none
    in BERT.
    """

    def __init__(self, dim: int, size: int = 1024, offset: int = OFFSET) -> None:
        padding_idx = offset - 1 if offset else None
        super().__init__(offset + size, dim, padding_idx)
        self.offset = offset
        nn.init.normal_(self.weight, std=dim**-0.5)
        if self.padding_idx is not None:
            nn.init.zeros_(self.weight[self.padding_idx])

    @property
    def size(self) -> int:
        """The number of positions."""
        return self.num_embeddings - self.offset

    def forward(self, positions: Tensor | int, end: int | None = None) -> Tensor:
        """Embed as :class:`SinusoidalPositions`; GtransError for a position after the last."""
        longest = end
        if longest is None or longest > self.size:
            longest = _end(positions)
        if longest > self.size:
            raise GtransError(
                f"a text has {longest} tokens, but the model has learned only {self.size} "
                "positions; give a smaller --max-doc-tokens, let positions restart in every "
                "sentence (--positions sentence), or extend the model's positions "
                "(`gtrans convert --extend-positions N`)."
            )
        if isinstance(positions, int):
            return self.weight[positions + self.offset]
        embedded: Tensor = super().forward(positions + self.offset)
        return embedded


def _end(positions: Tensor | int) -> int:
    if isinstance(positions, int):
        return positions + 1
    if not positions.numel():
        return 0
    return int(positions.max()) + 1


def word_table(words: int, dim: int, padding: int) -> nn.Embedding:
    """Make a table ``(words, dim)`` with variance ``1 / dim``."""
    table = nn.Embedding(words, dim, padding)
    nn.init.normal_(table.weight, std=dim**-0.5)
    nn.init.zeros_(table.weight[padding])
    return table


class Embedder(nn.Module):
    """Embeds packed tokens.

    The caller passes parameters in, so that they have fairseq's names.
    """

    def __init__(
        self,
        dim: int,
        scale: float,
        dropout: float,
        by_sentence: bool,
        has_combined_attention: bool = False,
        sinusoid: str = "fairseq",
    ) -> None:
        """``scale``: factor of the word embeddings.

        ``by_sentence``: positions restart in every sentence. ``has_combined_attention``: some layer
        combines group and global attention. ``sinusoid``: one of :data:`SINUSOIDS`.
        """
        super().__init__()
        self.scale = scale
        self.dropout = dropout
        self.by_sentence = by_sentence
        self.has_combined_attention = has_combined_attention
        self.sinusoid = SinusoidalPositions(dim, kind=sinusoid)

    def order(self, sentence: Tensor, end: int, several: Tensor) -> Tensor:
        """Embed sentence numbers as ``(tokens, dim)``, where positions restart.

        Args:
            sentence: ``(tokens,)`` numbers.
            end: above all of them.
            several: ``(tokens,)`` False if the source is one sentence: without combined attention
                the embedding is zero then, as in the sentence model.
        """
        order: Tensor = self.sinusoid(sentence, end)
        if self.has_combined_attention:
            return order
        return order * several[:, None]

    def forward(
        self,
        tokens: Tensor,
        positions: Positions,
        table: nn.Embedding,
        learned: LearnedPositions | None = None,
        norm: nn.LayerNorm | None = None,
        segments: Tensor | None = None,
    ) -> Tensor:
        """Return ``scale * word + position + segment``, normalised: ``(tokens, dim)``.

        Args:
            tokens: ``(tokens,)`` ids.
            positions: of these tokens.
            table: word embeddings.
            learned: learned positions; None: sinusoidal ones.
            norm: LayerNorm on the sum.
            segments: ``(tokens, dim)`` embedded token types.
        """
        embed_position = self.sinusoid if learned is None else learned
        position = embed_position(positions.numbers, positions.end)
        word = self.scale * table(tokens)
        x: Tensor = word + position
        if segments is not None:
            x = x + segments
        if norm is not None:
            x = norm(x)
        if self.training:
            x = dropout(x, self.dropout, True)
        return x
