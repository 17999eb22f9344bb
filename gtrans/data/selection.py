"""Which part of a training set is read: long documents, or a sample of documents or of units."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from gtrans.errors import GtransError

Ints = NDArray[np.int64]

# Seeds that numpy's RandomState takes.
_MOST = 2**32 - 1


@dataclass(frozen=True)
class Selection:
    """A part of a training set, the same in every epoch, command and process.

    A sample depends on its seed and on what it is drawn from. With the same seed a smaller
    sample is part of a larger one.

    Attributes:
        min_tokens: fewest tokens of a document; others are left out first.
        documents: how many documents are drawn; 0: all.
        instances: how many units are drawn (sentences, windows, instances); 0: all.
        seed: of the sample.
    """

    min_tokens: int = 0
    documents: int = 0
    instances: int = 0
    seed: int = 1

    def __post_init__(self) -> None:
        """Raises GtransError for values out of range, or two samples at once."""
        for flag, value in (
            ("min-doc-tokens", self.min_tokens),
            ("sample-documents", self.documents),
            ("sample-instances", self.instances),
            ("sample-seed", self.seed),
        ):
            if value < 0:
                raise GtransError(f"`--{flag}` must be at least 0, but is {value}.")
        if self.seed > _MOST:
            raise GtransError(f"`--sample-seed` must be at most {_MOST}, but is {self.seed}.")
        if self.documents and self.instances:
            raise GtransError(
                f"`--sample-documents {self.documents}` and `--sample-instances {self.instances}` "
                "are two samples; give one of them."
            )

    def of_documents(self, tokens: Ints, name: str) -> Ints:
        """The documents that are read.

        Args:
            tokens: ``(documents,)`` tokens of each document.
            name: name of the training set in messages.

        Returns:
            their numbers, in ascending order.

        Raises:
            GtransError: none is left, or there are not so many.
        """
        left = np.flatnonzero(tokens >= self.min_tokens)
        if self.min_tokens and not len(left):
            raise GtransError(
                f"`--min-doc-tokens` {self.min_tokens}: no document of {name} is so long, the "
                f"longest has {int(tokens.max(initial=0))} tokens; give a smaller number."
            )
        so_long = f" of at least {self.min_tokens} tokens" if self.min_tokens else ""
        return left[self._sample("documents", self.documents, len(left), so_long, name)]

    def of_instances(self, count: int, name: str) -> Ints:
        """Which of ``count`` units are read, in ascending order.

        Raises:
            GtransError: there are not so many.
        """
        return self._sample("instances", self.instances, count, "", name)

    def _sample(self, what: str, wanted: int, count: int, such: str, name: str) -> Ints:
        if wanted > count:
            raise GtransError(
                f"`--sample-{what}` {wanted}: {name} has only {count} {what}{such}; give a smaller "
                "number, or leave it out to read all of them."
            )
        if not wanted:
            return np.arange(count)
        # RandomState gives the same numbers in every version of numpy.
        order = np.random.RandomState(self.seed).permutation(count)
        return np.sort(order[:wanted]).astype(np.int64)


WHOLE = Selection()
"""All documents and units."""
