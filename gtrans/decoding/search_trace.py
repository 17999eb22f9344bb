"""The history of a beam search as back-pointers."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray
from torch import Tensor


class SearchTrace:
    """Tokens, scores and parents of all steps, so that the search never copies a history."""

    def __init__(self, documents: int, beam: int) -> None:
        """An empty history of ``documents`` searches with ``beam`` hypotheses each."""
        self.tokens: NDArray[np.int64] = np.zeros((documents, 64, beam), np.int64)
        self.parents: NDArray[np.int64] = np.zeros((documents, 64, beam), np.int64)
        self.scores: NDArray[np.float32] = np.zeros((documents, 64, beam), np.float32)

    def add(
        self, documents: Tensor, step: int, tokens: Tensor, parents: Tensor, scores: Tensor
    ) -> None:
        """Store a step of the active documents.

        Args:
            documents: ``(active,)`` their numbers.
            step: number of the step.
            tokens: ``(active, beam)`` ids.
            parents: ``(active, beam)`` the hypotheses that are continued.
            scores: ``(active, beam)`` log-probabilities of the tokens.
        """
        if step == self.tokens.shape[1]:
            for name in ("tokens", "parents", "scores"):
                old = getattr(self, name)
                setattr(self, name, np.concatenate([old, np.zeros_like(old)], 1))
        numbers = documents.cpu().numpy()
        self.tokens[numbers, step] = tokens.cpu().numpy()
        self.parents[numbers, step] = parents.cpu().numpy()
        self.scores[numbers, step] = scores.cpu().numpy()

    def follow(self, document: int, steps: int, hypothesis: int) -> tuple[list[int], list[float]]:
        """The tokens and scores of a hypothesis after ``steps`` steps."""
        tokens, scores = [], []
        for step in range(steps - 1, -1, -1):
            tokens.append(int(self.tokens[document, step, hypothesis]))
            scores.append(float(self.scores[document, step, hypothesis]))
            hypothesis = int(self.parents[document, step, hypothesis])
        return tokens[::-1], scores[::-1]
