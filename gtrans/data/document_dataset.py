"""Translation units from one binarised corpus.

``fairseq-preprocess`` keeps the empty lines between documents as lone end symbols.
A unit (a sentence or an instance of a document) is formed here, when the corpus is
loaded, so one binarised corpus serves every model.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from fairseq.data import Dictionary, FairseqDataset, data_utils
from numpy.typing import NDArray
from torch import Tensor

from gtrans.data.instances import split_instances
from gtrans.errors import GtransError

UNITS = ("sentence", "document")
SENTENCE_MARKS = ("both", "end")

Ints = NDArray[np.int64]


@dataclass(frozen=True)
class Units:
    """Which lines of a corpus form which unit.

    Attributes:
        first_line: ``(units,)`` line of the first sentence, from 0, empty lines counted.
        first_sentence: ``(units,)`` the same, empty lines not counted.
        sentences: ``(units,)`` sentences of the unit.
    """

    first_line: Ints
    first_sentence: Ints
    sentences: Ints


@dataclass(frozen=True)
class Frame:
    """How sentences are marked in token sequences.

    ``both`` is the paper's frame: a source is ``<s> .. </s> <s> .. </s>``, the decoder
    reads ``<s> .. </s> <s> ..``. ``end`` is that of fairseq's sentence models: a
    source is ``.. </s> .. </s>``, the decoder reads ``</s> .. </s> ..``, the end of one
    sentence opening the next.
    """

    bos: int
    eos: int
    pad: int
    marks: str = "both"

    @property
    def opening(self) -> int:
        """The symbol that opens the decoder's input and its sentences."""
        return self.bos if self.marks == "both" else self.eos

    def source(self, sentences: Sequence[Tensor]) -> Tensor:
        """One document from its sentences, each ending with ``</s>``."""
        if self.marks == "end":
            return torch.cat(list(sentences))
        opening = sentences[0].new_tensor([self.bos])
        return torch.cat([part for sentence in sentences for part in (opening, sentence)])

    def target(self, sentences: Sequence[Tensor]) -> tuple[Tensor, Tensor]:
        """Decoder input and target of one document, equally long.

        The opening mark behind an end mark is set by the search, not predicted, so
        its place in the target is padding: losses of documents and sentences then
        count the same words.
        """
        whole = self.source(sentences)
        if self.marks == "end":
            return torch.cat([whole.new_tensor([self.eos]), whole[:-1]]), whole
        target = whole[1:].clone()
        target[target.eq(self.bos)] = self.pad
        return whole[:-1], target


def document_units(
    source_sizes: Ints, target_sizes: Ints | None, unit: str, max_tokens: int, name: str
) -> Units:
    """Form units from the sizes of all lines (end symbol counted; 1 is an empty line).

    Args:
        source_sizes: ``(lines,)``.
        target_sizes: ``(lines,)``, or None where there is no target.
        unit: ``sentence`` or ``document`` (instances of at most ``max_tokens``).
        max_tokens: see :func:`gtrans.data.instances.split_instances`.
        name: name of the corpus for messages.

    Raises:
        GtransError: the two sides differ in lines or document boundaries.
    """
    blank = source_sizes == 1
    other = source_sizes if target_sizes is None else target_sizes
    _check_sides(blank, other == 1, name)
    sentence_number = np.cumsum(~blank) - 1
    boundaries = np.flatnonzero(np.concatenate([[True], blank, [True]])) - 1
    pieces: list[tuple[int, int]] = []
    for begin, end in zip(boundaries[:-1] + 1, boundaries[1:], strict=True):
        if begin == end:
            continue
        if unit == "sentence":
            pieces.extend((line, 1) for line in range(begin, end))
            continue
        lengths = (sizes[begin:end] - 1 for sizes in (source_sizes, other))
        source_lengths, target_lengths = (part.tolist() for part in lengths)
        for piece in split_instances(source_lengths, target_lengths, max_tokens):
            pieces.append((begin + piece.start, len(piece)))
    if not pieces:
        raise GtransError(f"{name}: the corpus holds no sentence.")
    first_line = np.array([line for line, _ in pieces], np.int64)
    sentences = np.array([count for _, count in pieces], np.int64)
    return Units(first_line, sentence_number[first_line], sentences)


def _check_sides(
    source_blank: NDArray[np.bool_], target_blank: NDArray[np.bool_], name: str
) -> None:
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
    number of each unit's first sentence), ``nsentences``, ``ntokens`` (target words
    and end marks), ``net_input`` (``src_tokens``, ``src_lengths``,
    ``prev_output_tokens``) and ``target``; all padded on the right.
    """

    def __init__(
        self,
        source: Any,
        target: Any | None,
        units: Units,
        frame: Frame,
        shuffle: bool = True,
    ) -> None:
        """``source`` and ``target``: indexed datasets of lines (target None: translate only)."""
        self.source = source
        self.target = target
        self.units = units
        self.frame = frame
        self.shuffle = shuffle
        self.source_sizes = self._unit_sizes(source)
        self.target_sizes = self.source_sizes if target is None else self._unit_sizes(target)

    def _unit_sizes(self, lines: Any) -> Ints:
        sizes = np.asarray(lines.sizes, np.int64) + (self.frame.marks == "both")
        before = np.concatenate([[0], np.cumsum(sizes)])
        first = self.units.first_line
        unit_sizes: Ints = before[first + self.units.sentences] - before[first]
        return unit_sizes

    @property
    def sizes(self) -> Ints:
        """``(units,)`` tokens of the longer side."""
        return np.maximum(self.source_sizes, self.target_sizes)

    def __len__(self) -> int:
        return len(self.units.first_line)

    def __getitem__(self, index: int) -> dict[str, Any]:
        first = int(self.units.first_line[index])
        lines = range(first, first + int(self.units.sentences[index]))
        item: dict[str, Any] = {
            "id": index,
            "first_sentence": int(self.units.first_sentence[index]),
            "sentences": len(lines),
            "source": self.frame.source([self.source[line].long() for line in lines]),
        }
        if self.target is not None:
            sentences = [self.target[line].long() for line in lines]
            item["prev_output_tokens"], item["target"] = self.frame.target(sentences)
        return item

    def collater(self, samples: list[dict[str, Any]]) -> dict[str, Any]:
        """Merge items into a batch; an empty list gives an empty dictionary."""
        if not samples:
            return {}
        source = self._merge([item["source"] for item in samples])
        batch: dict[str, Any] = {
            "id": torch.tensor([item["id"] for item in samples]),
            "first_sentence": torch.tensor([item["first_sentence"] for item in samples]),
            "nsentences": sum(item["sentences"] for item in samples),
            "ntokens": int(source.ne(self.frame.pad).sum()),
            "net_input": {
                "src_tokens": source,
                "src_lengths": source.ne(self.frame.pad).sum(1),
            },
            "target": None,
        }
        if self.target is not None:
            batch["target"] = self._merge([item["target"] for item in samples])
            batch["net_input"]["prev_output_tokens"] = self._merge(
                [item["prev_output_tokens"] for item in samples]
            )
            batch["ntokens"] = int(batch["target"].ne(self.frame.pad).sum())
        return batch

    def _merge(self, rows: list[Tensor]) -> Tensor:
        return torch.nn.utils.rnn.pad_sequence(
            rows, batch_first=True, padding_value=float(self.frame.pad)
        )

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
        parts = [self.source] if self.target is None else [self.source, self.target]
        return all(getattr(part, "supports_prefetch", False) for part in parts)

    def prefetch(self, indices: Sequence[int]) -> None:
        """Read the lines of these units ahead."""
        lines = sorted(
            line
            for index in indices
            for line in range(
                int(self.units.first_line[index]),
                int(self.units.first_line[index] + self.units.sentences[index]),
            )
        )
        for part in (self.source, self.target):
            if part is not None:
                part.prefetch(lines)

    @property
    def can_reuse_epoch_itr_across_epochs(self) -> bool:
        """Batches do not depend on the epoch (word dropout happens in the task)."""
        return True
