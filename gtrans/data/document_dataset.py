"""The dataset of translation units."""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
import torch
from fairseq.data import FairseqDataset, data_utils
from torch import Tensor

from gtrans.data.examples import Example, ExampleBuilder
from gtrans.data.units import Ints, StreamSteps, Units, UnitSpan, sums, totals_of
from gtrans.errors import GtransError


class SmallestParts(NamedTuple):
    """The smallest parts of a batch, ``tokens (n,)``."""

    name: str
    tokens: Ints


class DocumentDataset(FairseqDataset):
    """Units of a parallel corpus as fairseq batches.

    A batch has ``id (batch,)``, the numbers of the units; ``numbers``, the same as a list;
    ``first_sentence (batch,)``, the number of each unit's first kept sentence in the corpus; and
    the entries of :meth:`gtrans.data.examples.ExampleBuilder.collate`.

    Attributes:
        plan_batch: makes ``net_input["plan"]`` from the rest of ``net_input``.
    """

    def __init__(
        self,
        source: Any,
        target: Any | None,
        units: Units,
        examples: ExampleBuilder,
        shuffle: bool = True,
        bert_subwords: Any | None = None,
        units_in_epoch: Callable[[int], Units] | None = None,
    ) -> None:
        """Keep the corpus and its units.

        Args:
            source, target, bert_subwords: indexed datasets of lines.
            units_in_epoch: returns the units of an epoch, if every epoch has its own.
        """
        self.source = source
        self.target = target
        self.bert_subwords = bert_subwords
        self.examples = examples
        self.shuffle = shuffle
        self._units_in_epoch = units_in_epoch
        self._limits = (sys.maxsize, sys.maxsize), ""
        self.plan_batch: Callable[[Mapping[str, Any]], dict[str, Any]] | None = None
        # (lines,) for both sides: tokens of a line with ``</s>``.
        other = source if target is None else target
        self.line_sizes = np.asarray(source.sizes), np.asarray(other.sizes)
        # (lines + 1,) for both sides: tokens of all lines before a line.
        special_tokens = examples.frame.extra_tokens
        self._tokens_before = [totals_of(sizes + special_tokens) for sizes in self.line_sizes]
        self.set_units(units)

    def set_epoch(self, epoch: int) -> None:
        """Use the units of an epoch."""
        super().set_epoch(epoch)
        if self._units_in_epoch is not None:
            self.set_units(self._units_in_epoch(epoch))
            self.check_lengths(*self._limits)

    def set_units(self, units: Units) -> None:
        """Replace the units of the dataset."""
        self.units = units
        self.source_sizes = self._tokens_of_units(0)
        self.target_sizes = self._tokens_of_units(1)

    def _tokens_of_units(self, side: int) -> Ints:
        """Return ``(units,)`` the tokens that are read at once."""
        lines = self.units.lines[:, side]
        totals = self._tokens_before[side]
        sizes = sums(lines, totals) + self.examples.frame.extra_tokens_of_unit
        unit = self.examples.unit
        # A stream is only translated step by step; in validation it is read as a whole.
        if unit.tokens_at_once is None or unit.trained_in_runs:
            return sizes
        line_tokens = np.diff(totals)
        longest_lines = [line_tokens[begin:end].max() for begin, end in lines.tolist()]
        # A line is never cut.
        most = np.maximum(unit.tokens_at_once, longest_lines)
        limited: Ints = np.minimum(sizes, most)
        return limited

    def check_lengths(self, longest: tuple[int, int], name: str) -> None:
        """Raise GtransError if a unit or a chunk has more tokens than the model has positions.

        Args:
            longest: positions on both sides.
            name: name of the corpus in messages.
        """
        self._limits = longest, name
        steps = self.lines_of_steps()
        sizes = self.source_sizes, self.target_sizes
        for side, limit in enumerate(longest):
            if steps is None:
                lines = self.units.lines[:, side]
                tokens = sizes[side]
            else:
                lines = steps
                tokens = sums(steps, self._tokens_before[side])
            too_long = np.flatnonzero(tokens > limit)
            if too_long.size:
                unit = int(too_long[0])
                raise GtransError(
                    f"{name}: the unit from line {lines[unit, 0] + 1} has "
                    f"{tokens[unit]} tokens, but the model has learned only {limit} positions; "
                    "give a smaller --max-doc-tokens (cut a single long sentence in the text), "
                    "--positions sentence, or extend the model (`gtrans convert "
                    "--extend-positions N`)."
                )

    def lines_of_steps(self) -> Ints | None:
        """Return ``(steps, 2)`` the lines of chunks; None if units are read whole."""
        unit = self.examples.unit
        if not unit.has_chunks:
            return None
        documents = self.units.lines[:, 0]
        return StreamSteps.of(documents, self.line_sizes, unit).lines

    @property
    def sizes(self) -> Ints:
        """``(units,)`` tokens of the longer side."""
        longer: Ints = np.maximum(self.source_sizes, self.target_sizes)
        return longer

    @property
    def smallest_parts(self) -> SmallestParts:
        """The units."""
        return SmallestParts("units", self.sizes)

    def __len__(self) -> int:
        return len(self.units)

    def __getitem__(self, index: int) -> dict[str, Any]:
        example = self.example(self.units.span(index))
        return {**example, **self.place(index)}

    def place(self, index: int) -> dict[str, int]:
        """Return the entries ``id`` and ``first_sentence`` of a sample."""
        first_sentence = int(self.units.first_sentence[index])
        return {"id": index, "first_sentence": first_sentence}

    def example(self, span: UnitSpan, chunks: Sequence[int] | None = None) -> Example:
        """Return a row of lines; ``chunks``: their sentences, if known."""
        source = _ids(self.source, span.source)
        target = bert_subwords = None
        if self.target is not None:
            target = _ids(self.target, span.target)
        if self.bert_subwords is not None:
            bert_subwords = _ids(self.bert_subwords, span.source)
        return self.examples.example(span, source, target, bert_subwords, chunks)

    def collater(self, samples: list[dict[str, Any]]) -> dict[str, Any]:
        """Merge examples into a batch; none give an empty dictionary."""
        if not samples:
            return {}
        numbers = [int(sample["id"]) for sample in samples]
        first_sentences = [int(sample["first_sentence"]) for sample in samples]
        batch = {
            "id": torch.tensor(numbers),
            "numbers": numbers,
            "first_sentence": torch.tensor(first_sentences),
            **self.examples.collate(samples),
        }
        if self.plan_batch is not None:
            batch["net_input"]["plan"] = self.plan_batch(batch["net_input"])
        return batch

    def num_tokens(self, index: int) -> int:
        """Tokens of the longer side."""
        return int(self.sizes[index])

    def num_tokens_vec(self, indices: Ints) -> Ints:
        """``(n,)`` tokens of the longer side."""
        sizes: Ints = self.sizes[indices]
        return sizes

    def size(self, index: int) -> tuple[int, int]:
        """Tokens of source and target."""
        return int(self.source_sizes[index]), int(self.target_sizes[index])

    def ordered_indices(self) -> Ints:
        """Sort units by length; ``shuffle`` mixes units of equal length."""
        order = np.arange(len(self))
        if self.shuffle:
            order = np.random.permutation(len(self))
        by_target = np.argsort(self.target_sizes[order], kind="mergesort")
        order = order[by_target]
        by_source = np.argsort(self.source_sizes[order], kind="mergesort")
        indices: Ints = order[by_source]
        return indices

    def filter_indices_by_size(self, indices: Ints, max_sizes: Any) -> tuple[Ints, list[int]]:
        """Keep all units: a long one is a batch of its own."""
        return indices, []

    def batch_by_size(
        self,
        indices: Ints,
        max_tokens: int | None = None,
        max_sentences: int | None = None,
        required_batch_size_multiple: int = 1,
    ) -> Any:
        """Batch as fairseq does; a unit above ``max_tokens`` is a batch of its own."""
        tokens = self.num_tokens_vec(indices)
        if max_tokens is not None:
            # fairseq rejects longer units; with this size, each fills a batch.
            tokens = np.minimum(tokens, max_tokens)
        batches = data_utils.batch_by_size(
            indices,
            num_tokens_fn=self.num_tokens,
            num_tokens_vec=tokens,
            max_tokens=max_tokens,
            max_sentences=max_sentences,
            required_batch_size_multiple=required_batch_size_multiple,
        )
        # fairseq drops a last batch whose size is no required multiple.
        in_batches = sum(len(batch) for batch in batches)
        rest = indices[in_batches:]
        if not len(rest):
            return batches
        return [*batches, rest]

    @property
    def can_reuse_epoch_itr_across_epochs(self) -> bool:
        """Whether no example depends on the epoch; fairseq then keeps its loading processes."""
        return self._units_in_epoch is None


def _ids(lines: Any, numbers: range) -> list[Tensor]:
    return [lines[number].long() for number in numbers]
