"""Words and positions of packed tokens, and the order of sentences."""

from __future__ import annotations

from torch import Tensor, nn

from gtrans.modules.dropout import dropout
from gtrans.modules.layout import DocumentLayout
from gtrans.modules.positions import LearnedPositions, SinusoidalPositions


def word_table(words: int, dim: int, padding: int) -> nn.Embedding:
    """A new table of ``(words, dim)``, with the variance that the scale of embeddings expects."""
    table = nn.Embedding(words, dim, padding)
    nn.init.normal_(table.weight, std=dim**-0.5)
    nn.init.zeros_(table.weight[padding])
    return table


class Embedder(nn.Module):
    """Scaled word embedding plus position, and what else the model has.

    Positions count through the document, or restart in every sentence; then
    :meth:`order` gives the signal that tells global attention the sentence's number.

    All parameters are handed in by the caller, so that they have fairseq's names there
    (``embed_tokens``, ``embed_positions``, ``layernorm_embedding``).
    """

    def __init__(self, dim: int, scale: float, dropout: float, by_sentence: bool) -> None:
        super().__init__()
        self.scale = scale
        self.dropout = dropout
        self.by_sentence = by_sentence
        self.sinusoid = SinusoidalPositions(dim)

    def positions(self, layout: DocumentLayout) -> Tensor:
        """``(tokens,)`` the position of each packed token, from 0."""
        return layout.position_in_sentence if self.by_sentence else layout.position

    def order(self, sentence: Tensor) -> Tensor | None:
        """``(tokens, dim)`` signal of the sentence numbers, when positions do not tell them."""
        if not self.by_sentence:
            return None
        signal: Tensor = self.sinusoid(sentence)
        return signal

    def forward(
        self,
        tokens: Tensor,
        positions: Tensor,
        table: nn.Embedding,
        learned: LearnedPositions | None = None,
        norm: nn.LayerNorm | None = None,
        segments: Tensor | None = None,
    ) -> Tensor:
        """``scale * word + position + segment``, normalised, then dropout.

        Args:
            tokens: ``(tokens,)`` ids.
            positions: ``(tokens,)`` from 0.
            table: the words.
            learned: the positions (None: sinusoidal ones).
            norm: LayerNorm on the sum (None: there is none).
            segments: ``(tokens, dim)`` embedded segments (token types), or None.

        Returns:
            ``(tokens, dim)``.

        Raises:
            GtransError: a position after the last learned one.
        """
        position = (self.sinusoid if learned is None else learned)(positions)
        x = self.scale * table(tokens) + position
        if segments is not None:
            x = x + segments
        if norm is not None:
            x = norm(x)
        return dropout(x, self.dropout, self.training)
