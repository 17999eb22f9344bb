"""Embeddings of packed tokens, their positions and the numbers of their sentences."""

from __future__ import annotations

from torch import Tensor, nn

from gtrans.modules.dropout import dropout
from gtrans.modules.layout import DocumentLayout, Positions
from gtrans.modules.positions import LearnedPositions, SinusoidalPositions


def word_table(words: int, dim: int, padding: int) -> nn.Embedding:
    """A new table ``(words, dim)`` with variance ``1 / dim``, for embeddings that are scaled."""
    table = nn.Embedding(words, dim, padding)
    nn.init.normal_(table.weight, std=dim**-0.5)
    nn.init.zeros_(table.weight[padding])
    return table


class Embedder(nn.Module):
    """Scaled word embedding plus position, and segments and a LayerNorm if the model has them.

    Positions count through the document or restart in every sentence. If they restart,
    :meth:`order` embeds the number of the sentence for global attention.

    The caller owns all parameters and passes them in, so that they have fairseq's names
    (``embed_tokens``, ``embed_positions``, ``layernorm_embedding``).
    """

    def __init__(
        self, dim: int, scale: float, dropout: float, by_sentence: bool, has_groups: bool = False
    ) -> None:
        """``has_groups``: global attention stands beside group attention, in some layer."""
        super().__init__()
        self.scale = scale
        self.dropout = dropout
        self.by_sentence = by_sentence
        self.has_groups = has_groups
        self.sinusoid = SinusoidalPositions(dim)

    def positions(self, layout: DocumentLayout) -> Positions:
        """The position of each packed token."""
        return layout.positions(self.by_sentence)

    def order(self, sentence: Positions, several: Tensor) -> Tensor | None:
        """``(tokens, dim)`` embedded sentence numbers; None if positions do not restart.

        Args:
            sentence: the number of each token's sentence.
            several: ``(tokens,)`` whether the source of its row has several sentences. Where it
                has one there is nothing to tell apart. In models whose only attention is that of
                the sentence model the embedding is then zero, so that a sentence alone is what it
                is for the sentence model.
        """
        if not self.by_sentence:
            return None
        order: Tensor = self.sinusoid(sentence.numbers, sentence.end)
        return order if self.has_groups else order * several[:, None]

    def forward(
        self,
        tokens: Tensor,
        positions: Positions,
        table: nn.Embedding,
        learned: LearnedPositions | None = None,
        norm: nn.LayerNorm | None = None,
        segments: Tensor | None = None,
    ) -> Tensor:
        """``scale * word + position + segment``, normalised, then dropout.

        Args:
            tokens: ``(tokens,)`` ids.
            positions: of each token.
            table: the word embeddings.
            learned: learned positions; None: sinusoidal ones.
            norm: LayerNorm on the sum, or None.
            segments: ``(tokens, dim)`` embedded segments (token types), or None.

        Returns:
            ``(tokens, dim)``.

        Raises:
            GtransError: a position after the last learned one.
        """
        embed_position = self.sinusoid if learned is None else learned
        position = embed_position(positions.numbers, positions.end)
        x = self.scale * table(tokens) + position
        if segments is not None:
            x = x + segments
        if norm is not None:
            x = norm(x)
        return dropout(x, self.dropout, self.training)
