"""Sequences of pieces that a sentence must not write twice."""

from __future__ import annotations

import torch
from torch import Tensor


def forbid_repetitions(log_probs: Tensor, history: Tensor, written: Tensor, size: int) -> None:
    """Give ``-inf`` to every piece that would end a second n-gram of ``size`` in its sentence.

    Args:
        log_probs: ``(hypotheses, vocabulary)``; changed in place.
        history: ``(hypotheses, length)`` all tokens so far.
        written: ``(hypotheses,)`` how many of the last tokens are pieces of the sentence that is
            being written; those before are marks and other sentences.
        size: of the n-grams.
    """
    length = history.size(1)
    if length < size:
        return
    ngrams = history.unfold(1, size, 1)  # (hypotheses, places, size)
    places = ngrams.size(1)
    begin = length - written  # of the sentence
    newest = history[:, length - size + 1 :]
    repeated = ngrams[:, :, :-1].eq(newest[:, None]).all(2)
    repeated &= history.new_ones(places).cumsum(0).sub(1) >= begin[:, None]
    # Added, not put at the places found: the host need not know where they are.
    added = torch.where(repeated, float("-inf"), 0.0).to(log_probs)
    log_probs.scatter_add_(1, ngrams[:, :, -1], added)
