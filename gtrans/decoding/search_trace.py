"""The history of a beam search as back-pointers."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray
from torch import Tensor


class SearchTrace:
    """Tokens, scores and parents of all steps, so that no history is copied in the search."""

    def __init__(self, documents: int, beam: int) -> None:
        """An empty history of ``documents`` searches with ``beam`` rows each."""
        self.tokens: NDArray[np.int64] = np.zeros((documents, 64, beam), np.int64)
        self.parents: NDArray[np.int64] = np.zeros((documents, 64, beam), np.int64)
        self.scores: NDArray[np.float32] = np.zeros((documents, 64, beam), np.float32)

    def add(
        self, documents: Tensor, step: int, tokens: Tensor, parents: Tensor, scores: Tensor
    ) -> None:
        """Note a step: ids, rows gone on from, log-probabilities ``(active, beam)``."""
        if step == self.tokens.shape[1]:
            for name in ("tokens", "parents", "scores"):
                old = getattr(self, name)
                setattr(self, name, np.concatenate([old, np.zeros_like(old)], 1))
        rows = documents.cpu().numpy()
        self.tokens[rows, step] = tokens.cpu().numpy()
        self.parents[rows, step] = parents.cpu().numpy()
        self.scores[rows, step] = scores.cpu().numpy()

    def follow(self, document: int, steps: int, row: int) -> tuple[list[int], list[float]]:
        """The tokens and scores that lead to ``row`` after ``steps`` steps."""
        tokens, scores = [], []
        for step in range(steps - 1, -1, -1):
            tokens.append(int(self.tokens[document, step, row]))
            scores.append(float(self.scores[document, step, row]))
            row = int(self.parents[document, step, row])
        return tokens[::-1], scores[::-1]
