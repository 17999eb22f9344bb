"""Translation units from one binarised corpus.

``fairseq-preprocess`` keeps the empty lines between documents as lone end symbols.
Units are formed here, when the corpus is loaded, so one binarised corpus serves every
model (:mod:`gtrans.data.units`).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from fairseq.data import Dictionary, FairseqDataset, data_utils
from numpy.typing import NDArray

from gtrans.data.rows import Item, Rows
from gtrans.data.units import Piece, UnitOptions
from gtrans.errors import GtransError

Ints = NDArray[np.int64]


@dataclass(frozen=True)
class Units:
    """Which lines of a corpus form which unit. Lines count from 0, empty ones included.

    Attributes:
        lines: ``(units, 6)`` begin and end of the source lines, of the target lines and of
            the lines that the unit is there for.
        first_sentence: ``(units,)`` number of the first of those among all sentences of
            the corpus.
    """

    lines: Ints
    first_sentence: Ints

    def __len__(self) -> int:
        return len(self.lines)

    def piece(self, index: int) -> Piece:
        """Unit ``index`` as ranges of lines."""
        begin, end, target_begin, target_end, first, last = self.lines[index].tolist()
        return Piece(range(begin, end), range(target_begin, target_end), range(first, last))


def document_units(
    source_sizes: Ints, target_sizes: Ints | None, options: UnitOptions, name: str
) -> Units:
    """Form units from the sizes of all lines (end symbol counted; 1 is an empty line).

    Args:
        source_sizes: ``(lines,)``.
        target_sizes: ``(lines,)``, or None where there is no target.
        options: what forms a unit.
        name: name of the corpus for messages.

    Raises:
        GtransError: the two sides differ in lines or document boundaries.
    """
    blank = source_sizes == 1
    other = source_sizes if target_sizes is None else target_sizes
    check_sides(blank, other == 1, name)
    boundaries = np.flatnonzero(np.concatenate([[True], blank, [True]])) - 1
    lines: list[list[int]] = []
    for begin, end in zip((boundaries[:-1] + 1).tolist(), boundaries[1:].tolist(), strict=True):
        lengths = ((sizes[begin:end] - 1).tolist() for sizes in (source_sizes, other))
        for piece in options.pieces(*lengths):
            parts = piece.source, piece.target, piece.current
            lines.append([begin + end for part in parts for end in (part.start, part.stop)])
    if not lines:
        raise GtransError(f"{name}: the corpus holds no sentence.")
    table = np.array(lines, np.int64)
    return Units(table, (np.cumsum(~blank) - 1)[table[:, 4]])


def check_sides(
    source_blank: NDArray[np.bool_], target_blank: NDArray[np.bool_], name: str
) -> None:
    """Raises GtransError where lines are not empty on both sides alike."""
    lines = min(len(source_blank), len(target_blank))
    differ = np.flatnonzero(source_blank[:lines] != target_blank[:lines])
    if differ.size:
        line = int(differ[0])
        empty, full = ("source", "target") if source_blank[line] else ("target", "source")
        raise GtransError(
            f"{name}: line {line + 1} is empty on the {empty} side but not on the {full} side; "
            "both sides need the same sentences and the same empty lines between documents."
        )
    if len(source_blank) != len(target_blank):
        raise GtransError(
            f"{name}: the source has {len(source_blank)} lines, the target {len(target_blank)}; "
            f"they part at line {lines + 1}."
        )


def check_no_marks(lines: Any, dictionary: Dictionary, name: str) -> None:
    """Refuse a binarised side that holds ``<s>`` or an inner ``</s>``.

    Raises:
        GtransError: naming the line.
    """
    buffer = getattr(lines, "_bin_buffer", None)
    if buffer is not None:  # one look at the whole memory map
        ids = np.frombuffer(buffer, dtype=lines._index.dtype)
        marks = np.count_nonzero(ids == dictionary.bos())
        ends = np.count_nonzero(ids == dictionary.eos())
        if marks == 0 and ends == len(lines):
            return
    if getattr(lines, "supports_prefetch", False):
        lines.prefetch(range(len(lines)))
    for number in range(len(lines)):
        line = lines[number]
        for mark, found in (
            (dictionary.bos_word, line.eq(dictionary.bos()).any()),
            (dictionary.eos_word, line[:-1].eq(dictionary.eos()).any()),
        ):
            if bool(found):
                raise GtransError(
                    f"{name}: line {number + 1} holds a literal {mark}, which would become a "
                    "sentence mark; escape it (`gtrans prepare` does) and binarise again."
                )


class DocumentDataset(FairseqDataset):
    """Units of a parallel corpus as fairseq batches.

    A batch has ``id`` (numbers of the units), ``first_sentence`` (``(batch,)`` corpus
    number of the first sentence that each unit is there for), ``nsentences`` and
    ``ntokens`` (of the target, words and end marks), ``net_input`` and ``target``; see
    :meth:`gtrans.data.rows.Rows.batch`.
    """

    def __init__(
        self,
        source: Any,
        target: Any | None,
        units: Units,
        rows: Rows,
        shuffle: bool = True,
        pieces: Any | None = None,
    ) -> None:
        """``source``, ``target``, ``pieces``: indexed datasets of lines.

        ``target`` is None to translate only; ``pieces`` are the source's word pieces, where
        the rows have them.
        """
        self.source = source
        self.target = target
        self.pieces = pieces
        self.rows = rows
        self.shuffle = shuffle
        # Tokens of all lines before a line, of both sides.
        self._tokens_before = [
            np.concatenate([[0], np.cumsum(np.asarray(side.sizes, np.int64) + marks)])
            for marks in [rows.frame.extra]
            for side in (source, source if target is None else target)
        ]
        self.use(units)

    def use(self, units: Units) -> None:
        """Make these the items of the dataset."""
        self.units = units
        self.source_sizes, self.target_sizes = (
            before[units.lines[:, column + 1]] - before[units.lines[:, column]]
            for before, column in zip(self._tokens_before, (0, 2), strict=True)
        )

    def check_lengths(self, longest: tuple[int, int], name: str) -> None:
        """Refuse a unit that is longer than a model's table of positions.

        Args:
            longest: most tokens that the model takes on the source and the target side.
            name: name of the corpus for messages.

        Raises:
            GtransError: naming the first line of the unit.
        """
        for sizes, limit, column in zip(
            (self.source_sizes, self.target_sizes), longest, (0, 2), strict=True
        ):
            too_long = np.flatnonzero(sizes > limit)
            if too_long.size:
                unit = int(too_long[0])
                raise GtransError(
                    f"{name}: the unit from line {self.units.lines[unit, column] + 1} has "
                    f"{sizes[unit]} tokens, but the model has learned only {limit} positions; "
                    "give a smaller --max-doc-tokens (a single sentence must be cut in the text), "
                    "--positions sentence, or extend the model (`gtrans convert "
                    "--extend-positions N`)."
                )

    @property
    def sizes(self) -> Ints:
        """``(units,)`` tokens of the longer side."""
        longer: Ints = np.maximum(self.source_sizes, self.target_sizes)
        return longer

    def __len__(self) -> int:
        return len(self.units)

    def __getitem__(self, index: int) -> dict[str, Any]:
        return {
            **self.item(self.units.piece(index)),
            "id": index,
            "first_sentence": int(self.units.first_sentence[index]),
        }

    def item(self, piece: Piece) -> Item:
        """The row of some lines."""
        source = [self.source[line].long() for line in piece.source]
        target = None
        if self.target is not None:
            target = [self.target[line].long() for line in piece.target]
        pieces = None
        if self.pieces is not None:
            pieces = [self.pieces[line].long() for line in piece.source]
        return self.rows.item(piece, source, target, pieces)

    def collater(self, samples: list[dict[str, Any]]) -> dict[str, Any]:
        """Merge items into a batch; an empty list gives an empty dictionary."""
        if not samples:
            return {}
        return {
            "id": torch.tensor([item["id"] for item in samples]),
            "first_sentence": torch.tensor([item["first_sentence"] for item in samples]),
            **self.rows.batch(samples),
        }

    def num_tokens(self, index: int) -> int:
        """Tokens of the longer side of a unit."""
        return int(self.sizes[index])

    def num_tokens_vec(self, indices: Ints) -> Ints:
        """The same for many units."""
        sizes: Ints = self.sizes[indices]
        return sizes

    def size(self, index: int) -> tuple[int, int]:
        """Source and target tokens of a unit."""
        return int(self.source_sizes[index]), int(self.target_sizes[index])

    def ordered_indices(self) -> Ints:
        """Units of similar length next to each other; equal ones in random order in training."""
        count = len(self)
        order = np.random.permutation(count) if self.shuffle else np.arange(count)
        order = order[np.argsort(self.target_sizes[order], kind="mergesort")]
        indices: Ints = order[np.argsort(self.source_sizes[order], kind="mergesort")]
        return indices

    def filter_indices_by_size(self, indices: Ints, max_sizes: Any) -> tuple[Ints, list[int]]:
        """Nothing is ever too long: positions grow, and long units get their own batch."""
        return indices, []

    def batch_by_size(
        self,
        indices: Ints,
        max_tokens: int | None = None,
        max_sentences: int | None = None,
        required_batch_size_multiple: int = 1,
    ) -> Any:
        """As fairseq; a unit with more than ``max_tokens`` tokens fills a batch alone."""
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
        # fairseq leaves out the last batch where its size is not the multiple asked for.
        rest = indices[sum(len(batch) for batch in batches) :]
        return [*batches, rest] if len(rest) else batches

    @property
    def supports_prefetch(self) -> bool:
        """Whether the indexed data can be read ahead."""
        parts = [part for part in (self.source, self.target, self.pieces) if part is not None]
        return all(getattr(part, "supports_prefetch", False) for part in parts)

    def prefetch(self, indices: Sequence[int]) -> None:
        """Read the lines of these units ahead."""
        for part, column in ((self.source, 0), (self.target, 2), (self.pieces, 0)):
            if part is not None:
                ranges = self.units.lines[list(indices), column : column + 2].tolist()
                part.prefetch(sorted({line for begin, end in ranges for line in range(begin, end)}))

    @property
    def can_reuse_epoch_itr_across_epochs(self) -> bool:
        """Batches do not depend on the epoch (word dropout happens in the task)."""
        return True
