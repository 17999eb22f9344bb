"""The history of a beam search as back-pointers."""

from __future__ import annotations

import torch
from torch import Tensor


class SearchTrace:
    """Tokens, parents and scores of all steps, so that the search never copies a history."""

    def __init__(self, documents: int, beam: int, device: torch.device) -> None:
        """An empty history of ``documents`` searches with ``beam`` hypotheses each."""
        # (documents, steps, what, beam): doubles hold ids and single precision exactly
        self._data = torch.zeros(documents, 64, 3, beam, dtype=torch.double, device=device)

    def add(self, step: int, tokens: Tensor, parents: Tensor, scores: Tensor) -> None:
        """Store a step.

        Args:
            step: number of the step.
            tokens: ``(documents, beam)`` ids.
            parents: ``(documents, beam)`` the hypotheses that are continued.
            scores: ``(documents, beam)`` log-probabilities of the tokens.
        """
        if step == self._data.size(1):
            self._data = torch.cat([self._data, torch.zeros_like(self._data)], 1)
        for number, values in enumerate((tokens, parents, scores)):
            self._data[:, step, number] = values

    def follow(self, document: int, steps: int, hypothesis: int) -> tuple[list[int], list[float]]:
        """The tokens and scores of a hypothesis after ``steps`` steps."""
        tokens, scores = [], []
        for of_step in reversed(self._data[document, :steps].tolist()):
            token, parent, score = (values[hypothesis] for values in of_step)
            tokens.append(int(token))
            scores.append(score)
            hypothesis = int(parent)
        return tokens[::-1], scores[::-1]

    def keep(self, documents: Tensor) -> None:
        """Drop all other documents."""
        self._data = self._data[documents]
