"""Translation units of a binarised corpus as fairseq batches."""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
import torch
from fairseq.data import FairseqDataset, data_utils

from gtrans.data.examples import Example, ExampleBuilder
from gtrans.data.units import Ints, StreamSteps, Units, UnitSpan, sums, totals_of
from gtrans.errors import GtransError


class DocumentDataset(FairseqDataset):
    """Units of a parallel corpus as fairseq batches.

    A batch has ``id (batch,)``, the numbers of the units, and ``numbers``, the same as a list,
    which stays on the host; ``first_sentence (batch,)``, the
    number of the first kept sentence of each unit in the corpus; ``nsentences`` and
    ``ntokens`` (words and end tokens of the target); ``net_input`` and ``target``, see
    :meth:`gtrans.data.examples.ExampleBuilder.collate`.

    Attributes:
        plan_batch: makes of the ``net_input`` of a batch what a model must know of it besides; it
            becomes ``net_input["plan"]``. None: batches have no plan.
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
        """A dataset of ``units``.

        Args:
            source: indexed dataset of the source lines.
            target: the same of the target; None: there is no target.
            units: the lines of each unit.
            examples: builds examples and batches.
            shuffle: units of equal length come in random order.
            bert_subwords: indexed dataset of the source lines in BERT's subwords, if examples have
                them.
            units_in_epoch: the units of an epoch, if every epoch has its own.
        """
        self.source = source
        self.target = target
        self.bert_subwords = bert_subwords
        self.examples = examples
        self.shuffle = shuffle
        self._units_in_epoch = units_in_epoch
        self._limits = (sys.maxsize, sys.maxsize), ""
        self.plan_batch: Callable[[Mapping[str, Any]], dict[str, Any]] | None = None
        # For both sides (lines,): tokens of a line with ``</s>``.
        other = source if target is None else target
        self.line_sizes = np.asarray(source.sizes), np.asarray(other.sizes)
        # For both sides (lines + 1,): tokens of all lines before a line.
        special_tokens = examples.frame.extra_tokens
        self._tokens_before = [totals_of(sizes + special_tokens) for sizes in self.line_sizes]
        self.set_units(units)

    def set_epoch(self, epoch: int) -> None:
        """Make the examples of this epoch next."""
        super().set_epoch(epoch)
        if self._units_in_epoch is not None:
            self.set_units(self._units_in_epoch(epoch))
            self.check_lengths(*self._limits)

    def set_units(self, units: Units) -> None:
        """Replace the units of the dataset."""
        self.units = units
        unit, sides = self.examples.unit, []
        for side, totals in enumerate(self._tokens_before):
            lines = units.lines[:, side]
            sizes = sums(lines, totals) + self.examples.frame.extra_tokens_of_unit
            # A stream is only translated step by step; in validation it is read as a whole.
            if unit.tokens_at_once is not None and not unit.trained_in_runs:
                line_tokens = np.diff(totals)
                longest = [line_tokens[begin:end].max() for begin, end in lines.tolist()]
                sizes = np.minimum(sizes, np.maximum(unit.tokens_at_once, longest))
            sides.append(sizes)
        self.source_sizes, self.target_sizes = sides

    def check_lengths(self, longest: tuple[int, int], name: str) -> None:
        """Refuse a unit, or a chunk, with more tokens than a model has learned positions.

        Args:
            longest: most tokens that the model can read on the source and on the target side.
            name: name of the corpus in messages.

        Raises:
            GtransError: naming the first line of the unit.
        """
        self._limits = longest, name
        steps = self.read_at_once()
        for side, limit in enumerate(longest):
            lines = self.units.lines[:, side] if steps is None else steps
            sizes = self.source_sizes, self.target_sizes
            tokens = sizes[side] if steps is None else sums(steps, self._tokens_before[side])
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

    def read_at_once(self) -> Ints | None:
        """``(n, 2)`` lines of chunks, where units have several; None: a unit is read at once."""
        if not self.examples.unit.has_chunks:
            return None
        return StreamSteps.of(self.units.lines[:, 0], self.line_sizes, self.examples.unit).lines

    @property
    def sizes(self) -> Ints:
        """``(units,)`` tokens of the longer side."""
        longer: Ints = np.maximum(self.source_sizes, self.target_sizes)
        return longer

    @property
    def indivisible(self) -> tuple[str, Ints]:
        """What cannot be divided to make a batch smaller, and ``(n,)`` the tokens of each."""
        return "units", self.sizes

    def __len__(self) -> int:
        return len(self.units)

    def __getitem__(self, index: int) -> dict[str, Any]:
        span = UnitSpan._make(range(*ends) for ends in self.units.lines[index].tolist())
        return {**self.example(span), **self.place(index)}

    def place(self, index: int) -> dict[str, int]:
        """Number and place of a unit, as entries of its sample."""
        return {"id": index, "first_sentence": int(self.units.first_sentence[index])}

    def example(self, span: UnitSpan, chunks: Sequence[int] | None = None) -> Example:
        """The example of a span of lines; ``chunks``: sentences of each, if they are known."""
        source = [self.source[line].long() for line in span.source]
        target = bert_subwords = None
        if self.target is not None:
            target = [self.target[line].long() for line in span.target]
        if self.bert_subwords is not None:
            bert_subwords = [self.bert_subwords[line].long() for line in span.source]
        return self.examples.example(span, source, target, bert_subwords, chunks)

    def collater(self, samples: list[dict[str, Any]]) -> dict[str, Any]:
        """Merge examples into a batch; an empty list gives an empty dictionary."""
        if not samples:
            return {}
        batch = {
            "id": torch.tensor([sample["id"] for sample in samples]),
            "numbers": [int(sample["id"]) for sample in samples],
            "first_sentence": torch.tensor([sample["first_sentence"] for sample in samples]),
            **self.examples.collate(samples),
        }
        if self.plan_batch is not None:
            batch["net_input"]["plan"] = self.plan_batch(batch["net_input"])
        return batch

    def num_tokens(self, index: int) -> int:
        """Tokens of the longer side of a unit."""
        return int(self.sizes[index])

    def num_tokens_vec(self, indices: Ints) -> Ints:
        """``(n,)`` tokens of the longer side of the units ``indices (n,)``."""
        sizes: Ints = self.sizes[indices]
        return sizes

    def size(self, index: int) -> tuple[int, int]:
        """Tokens of a unit on the source and on the target side."""
        return int(self.source_sizes[index]), int(self.target_sizes[index])

    def ordered_indices(self) -> Ints:
        """Units sorted by length; with ``shuffle``, units of equal length in random order."""
        count = len(self)
        order = np.random.permutation(count) if self.shuffle else np.arange(count)
        order = order[np.argsort(self.target_sizes[order], kind="mergesort")]
        indices: Ints = order[np.argsort(self.source_sizes[order], kind="mergesort")]
        return indices

    def filter_indices_by_size(self, indices: Ints, max_sizes: Any) -> tuple[Ints, list[int]]:
        """All units: none is too long, and a long unit gets its own batch."""
        return indices, []

    def batch_by_size(
        self,
        indices: Ints,
        max_tokens: int | None = None,
        max_sentences: int | None = None,
        required_batch_size_multiple: int = 1,
    ) -> Any:
        """As in fairseq; a unit with more than ``max_tokens`` tokens is a batch of its own."""
        tokens = self.num_tokens_vec(indices)
        if max_tokens is not None:
            tokens = np.minimum(tokens, max_tokens)
        batches = data_utils.batch_by_size(
            indices,
            num_tokens_fn=self.num_tokens,
            num_tokens_vec=tokens,
            max_tokens=max_tokens,
            max_sentences=max_sentences,
            required_batch_size_multiple=required_batch_size_multiple,
        )
        # fairseq drops the last batch if its size is not such a multiple.
        rest = indices[sum(len(batch) for batch in batches) :]
        return [*batches, rest] if len(rest) else batches

    @property
    def can_reuse_epoch_itr_across_epochs(self) -> bool:
        """Whether no example depends on the epoch (word dropout is part of the task).

        fairseq would keep the processes that load examples, and these know no later epoch.
        """
        return self._units_in_epoch is None
