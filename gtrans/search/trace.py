"""The steps of a search, from which finished hypotheses are read."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from gtrans.modules.group_attention import Ints


class _EndingCandidates(NamedTuple):
    """Candidates of a step in which documents end, ``(width, beam)`` each."""

    ends: NDArray[np.bool_]
    origin: Tensor
    total: Tensor


@dataclass
class _Step:
    """The choices of a step.

    Attributes:
        numbers: ``(width,)`` the documents of the rows.
        tokens: ``(width, beam)`` ids.
        origins: ``(width, beam)`` the hypotheses of the document that they continue.
        scores: ``(width, beam)`` sums of log-probabilities.
        ending: None: no document ends.
    """

    numbers: Ints
    tokens: Ints
    origins: Ints
    scores: Tensor
    ending: _EndingCandidates | None = None


class _FoundEnds(NamedTuple):
    """The ends of finished hypotheses, by document, ``(hypotheses,)`` each.

    ``origin`` is the hypothesis that the end continues.
    """

    document: Ints
    step: Ints
    origin: Ints
    total: NDArray[np.float32]


class FinishedHypothesis(NamedTuple):
    """A finished hypothesis; ``tokens`` lack the last one, ``scores`` do not."""

    document: int
    tokens: list[int]
    scores: list[float]
    total: float


class SearchTrace:
    """All steps of a search, from which finished hypotheses are read at the end.

    So no step copies a history, and the host reads the device only a few times.
    """

    def __init__(self, documents: int, beam: int) -> None:
        self.documents = range(documents)
        self._beam = beam
        self._steps: list[_Step] = []

    def add(self, numbers: Ints, tokens: Ints, origins: Ints, scores: Tensor) -> None:
        """Store a step; see :class:`_Step`."""
        self._steps.append(_Step(numbers, tokens, origins, scores))

    def add_ends(self, ends: NDArray[np.bool_], origin: Tensor, totals: Tensor) -> None:
        """Store the candidates of the last step, which end documents."""
        self._steps[-1].ending = _EndingCandidates(ends, origin, totals)

    def finished(self) -> Iterator[FinishedHypothesis]:
        """Follow every finished hypothesis back, in the order of their ends."""
        found = self._found()
        if not len(found.document):
            return
        # tokens, sums, gains: (hypotheses, steps)
        tokens, sums = self._followed(found)
        hypotheses, steps = sums.shape
        # The sums before each step, and behind the last one.
        sums_before = np.zeros((hypotheses, steps + 1), np.float32)
        sums_before[:, 1:] = sums
        gains = sums - sums_before[:, :-1]
        final = sums_before[np.arange(hypotheses), found.step]
        # As Python computes it, in double precision.
        last = found.total.astype(np.float64) - final.astype(np.float64)
        for number in range(len(found.document)):
            step = int(found.step[number])
            scores = gains[number, :step].tolist()
            scores.append(float(last[number]))
            yield FinishedHypothesis(
                document=int(found.document[number]),
                tokens=tokens[number, :step].tolist(),
                scores=scores,
                total=float(found.total[number]),
            )

    def _found(self) -> _FoundEnds:
        all_ends: list[NDArray[np.bool_]] = []
        all_origins: list[Tensor] = []
        all_totals: list[Tensor] = []
        all_documents: list[Ints] = []
        all_steps: list[Ints] = []
        for number, step in enumerate(self._steps):
            if step.ending is None:
                continue
            all_ends.append(step.ending.ends)
            all_origins.append(step.ending.origin)
            all_totals.append(step.ending.total)
            all_documents.append(step.numbers)
            all_steps.append(np.full(len(step.numbers), number))
        if not all_ends:
            empty = np.zeros(0, dtype=np.int64)
            no_totals = np.zeros(0, dtype=np.float32)
            return _FoundEnds(empty, empty, empty, no_totals)
        ends = np.concatenate(all_ends)
        origins = torch.cat(all_origins).cpu().numpy()
        totals = torch.cat(all_totals).cpu().numpy()
        documents = np.concatenate(all_documents)
        steps = np.concatenate(all_steps)
        rows, candidates = np.nonzero(ends)
        # As they were found: the best first in a step, one step after the other.
        order = np.argsort(documents[rows], kind="stable")
        rows, candidates = rows[order], candidates[order]
        document = documents[rows]
        # A document has enough when it has as many as the beam.
        first_of_document = np.searchsorted(document, document)
        rank = np.arange(len(document)) - first_of_document
        is_wanted = rank < self._beam
        rows, candidates = rows[is_wanted], candidates[is_wanted]
        return _FoundEnds(
            document=documents[rows],
            step=steps[rows],
            origin=origins[rows, candidates],
            total=totals[rows, candidates],
        )

    def _followed(self, found: _FoundEnds) -> tuple[Ints, NDArray[np.float32]]:
        """Return ``(hypotheses, steps)`` tokens, and sums of log-probabilities."""
        longest = int(found.step.max())
        steps = self._steps[:longest]
        shape = (len(found.step), longest)
        tokens = np.zeros(shape, np.int64)
        sums = np.zeros(shape, np.float32)
        if not steps:
            return tokens, sums
        # The rows of all steps, one step after the other.
        all_tokens = np.concatenate([step.tokens for step in steps])
        all_origins = np.concatenate([step.origins for step in steps])
        scores_on_device = torch.cat([step.scores for step in steps])
        scores = scores_on_device.cpu().numpy()
        widths = [len(step.numbers) for step in steps]
        begins = np.cumsum([0, *widths])
        row_of = np.zeros(len(self.documents), np.int64)
        # The longest first, so that those that have a step are the first of them.
        order = np.argsort(-found.step, kind="stable")
        ends = -found.step[order]
        hypothesis, documents = found.origin[order], found.document[order]
        numbers: Ints | None = None
        for number in range(longest - 1, -1, -1):
            if steps[number].numbers is not numbers:
                numbers = steps[number].numbers
                row_of[numbers] = np.arange(len(numbers))
            active = int(np.searchsorted(ends, -number))
            rows = begins[number] + row_of[documents[:active]]
            current = hypothesis[:active]
            tokens[order[:active], number] = all_tokens[rows, current]
            sums[order[:active], number] = scores[rows, current]
            hypothesis[:active] = all_origins[rows, current]
        return tokens, sums
