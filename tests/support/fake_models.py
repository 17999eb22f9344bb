"""What force decoding asks of a model, for models that tests make up."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Any

from torch import Tensor, nn


class RowByRow(nn.Module, ABC):
    """A model that sees rows with a source each, and predicts after all of their words.

    It takes what the contract of models allows besides
    (:class:`gtrans.models.base.contract.DocumentModel`), and makes such rows of it.
    """

    @abstractmethod
    def logits(self, src_tokens: Tensor, prev_output_tokens: Tensor) -> Tensor:
        """``(rows, length, vocabulary)``; as many sources as targets."""

    def forward(
        self,
        src_tokens: Tensor,
        src_lengths: Tensor | None,
        prev_output_tokens: Tensor,
        *,
        source_of_row: Tensor | None = None,
        predict_at: Tensor | None = None,
    ) -> tuple[Tensor, dict[str, Any]]:
        """Logits at ``predict_at``."""
        sources = src_tokens if source_of_row is None else src_tokens[source_of_row]
        assert len(sources) == len(prev_output_tokens)
        logits = self.logits(sources, prev_output_tokens)
        return (logits if predict_at is None else logits[predict_at]), {}
