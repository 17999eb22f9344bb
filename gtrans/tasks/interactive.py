"""What ``fairseq-interactive`` asks of the document task."""

import sys
from collections.abc import Callable
from typing import Any

import torch
from fairseq.data import Dictionary, FairseqDataset
from torch import Tensor

from gtrans.messages import print_message

_MOST_UNKNOWN = 0.1  # of prepared text, in which hardly any token is unknown
_EMPTY = torch.zeros(0, dtype=torch.long)

# (number of the line relative to the first of the current buffer, its ids)
NumberedSentence = tuple[int, Tensor]


class LineBuffer:
    """Holds the lines of a document until an empty line closes it."""

    def __init__(self, flush: bool) -> None:
        """``flush``: the end of the lines also closes a document."""
        self.flush = flush
        self._open: list[tuple[int, str]] = []

    def add(self, lines: list[str]) -> list[list[tuple[int, str]]]:
        """Add lines; returns the documents that they close, as (line number, line).

        Numbers are relative to the first of ``lines``, so that earlier lines have negative ones.
        """
        closed = []
        for number, line in enumerate([*lines, ""] if self.flush else lines):
            if line.strip():
                self._open.append((number, line))
            elif self._open:
                closed.append(self._open)
                self._open = []
        self._open = [(number - len(lines), line) for number, line in self._open]
        return closed


class InteractiveDocuments(FairseqDataset):
    """Documents as batches: a batch is one document, with a row for each sentence."""

    def __init__(self, documents: list[list[NumberedSentence]], pad: int) -> None:
        self.documents = documents
        self.pad = pad

    def __len__(self) -> int:
        return len(self.documents)

    def __getitem__(self, index: int) -> list[NumberedSentence]:
        return self.documents[index]

    def collater(self, samples: list[list[NumberedSentence]]) -> dict[str, Any]:
        """A batch of the only document in ``samples``, with a row for each sentence."""
        sentences = [sentence for document in samples for sentence in document]
        rows = [ids for _, ids in sentences]
        tokens = torch.nn.utils.rnn.pad_sequence(
            rows, batch_first=True, padding_value=float(self.pad)
        )
        return {
            "id": torch.tensor([number for number, _ in sentences]),
            "net_input": {
                "src_tokens": tokens,
                "src_lengths": torch.tensor([len(ids) for ids in rows]),
            },
        }

    def filter_indices_by_size(self, indices: Any, max_sizes: Any) -> tuple[Any, list[int]]:
        """All documents: none is too long."""
        return indices, []

    def batch_by_size(self, indices: Any, **_: Any) -> list[list[int]]:
        """One document a batch, because the command passes only its tokens to the task."""
        return [[int(index)] for index in indices]


def lines_of(root: Any) -> LineBuffer:
    """What collects the lines of ``fairseq-interactive``, whose end also ends a document.

    The command does not report the end of its input to the task. So a file is read to its end
    before it is translated; at a terminal, an empty line follows the last one.

    Args:
        root: all options of the command.
    """
    if root.get("interactive") is None or not root.common_eval.path:
        return LineBuffer(flush=False)
    whole = root.interactive.get("input") != "-" or not sys.stdin.isatty()
    if whole:
        root.interactive.buffer_size = sys.maxsize
    return LineBuffer(flush=whole)


def encode_documents(
    documents: list[list[tuple[int, str]]], encode: Callable[[str], str], dictionary: Dictionary
) -> list[list[NumberedSentence]]:
    """The lines of documents as ids; warns of text that is not prepared as the data were."""

    def ids_of(line: str) -> Tensor:
        ids: Tensor = dictionary.encode_line(encode(line), add_if_not_exist=False).long()
        return ids

    encoded = [[(number, ids_of(line)) for number, line in document] for document in documents]
    every = torch.cat([sentence for document in encoded for _, sentence in document] or [_EMPTY])
    unknown = float(every.eq(dictionary.unk()).sum() / every.ne(dictionary.eos()).sum().clamp(1))
    if unknown > _MOST_UNKNOWN:
        print_message(
            f"warning: {unknown:.0%} of the tokens of the input are not in the vocabulary; "
            "fairseq-interactive reads text that is prepared as the data were; `gtrans translate "
            "--stream` prepares plain text"
        )
    return encoded
