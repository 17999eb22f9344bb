"""What force decoding asks of a model, for models that tests make up."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Any

import torch
from torch import Tensor, nn

from gtrans.modules.chunked_loss import DecoderStates


class RowByRow(nn.Module, ABC):
    """A model that sees rows with a source each, and predicts after all of their words.

    It takes what the contract of models allows besides
    (:class:`gtrans.models.base.model.DocumentModel`), and makes such rows of it.
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
        predict_at: Tensor,
        states_only: bool,
    ) -> tuple[DecoderStates, dict[str, Any]]:
        """States at ``predict_at``, which are their logits."""
        assert states_only
        sources = src_tokens if source_of_row is None else src_tokens[source_of_row]
        assert len(sources) == len(prev_output_tokens)
        logits = self.logits(sources, prev_output_tokens)[predict_at]
        return DecoderStates(logits[None], torch.zeros(1), torch.eye(logits.size(1))), {}

    def project(self, features: Tensor) -> Tensor:
        """The logits of ``features (1, tokens, vocabulary)``."""
        return features[0]
