"""Words and positions of packed tokens, and the order of sentences."""

from __future__ import annotations

from torch import Tensor, nn

from gtrans.modules.dropout import dropout
from gtrans.modules.layout import DocumentLayout
from gtrans.modules.positions import SinusoidalPositions

# fairseq counts positions from padding_idx + 1; checkpoints rely on it.
FIRST_POSITION = 2


class Embedder(nn.Module):
    """Scaled word embedding plus sinusoidal position.

    Positions count through the document, or restart in every sentence; then
    :meth:`order` gives the signal that tells global attention the sentence's number.
    """

    def __init__(self, dim: int, scale: float, dropout: float, by_sentence: bool) -> None:
        super().__init__()
        self.scale = scale
        self.dropout = dropout
        self.by_sentence = by_sentence
        self.sinusoid = SinusoidalPositions(dim)

    def places(self, layout: DocumentLayout) -> Tensor:
        """``(tokens,)`` the position of each packed token, from 0."""
        return layout.position_in_sentence if self.by_sentence else layout.position

    def order(self, sentence: Tensor) -> Tensor | None:
        """``(tokens, dim)`` signal of the sentence numbers, when positions do not tell them."""
        return self._sinusoid(sentence) if self.by_sentence else None

    def forward(self, tokens: Tensor, positions: Tensor, table: nn.Embedding) -> Tensor:
        """``tokens`` and ``positions (tokens,)`` -> ``(tokens, dim)``."""
        x = self.scale * table(tokens) + self._sinusoid(positions)
        return dropout(x, self.dropout, self.training)

    def _sinusoid(self, numbers: Tensor) -> Tensor:
        longest = int(numbers.max()) + 1 if numbers.numel() else 0
        signal: Tensor = self.sinusoid(numbers + FIRST_POSITION, longest + FIRST_POSITION)
        return signal
