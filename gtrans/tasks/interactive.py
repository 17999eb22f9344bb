"""Input of ``fairseq-interactive`` for the document task."""

import sys
from collections.abc import Callable
from typing import Any

import torch
from fairseq.data import Dictionary, FairseqDataset
from torch import Tensor
from torch.nn.utils.rnn import pad_sequence

from gtrans.messages import print_message

_MOST_UNKNOWN = 0.1  # of prepared text, in which hardly any token is unknown

# (number of the line relative to the first of the current buffer, its ids)
NumberedSentence = tuple[int, Tensor]


class LineBuffer:
    """Collects lines until an empty line ends a document."""

    def __init__(self, flush: bool) -> None:
        """``flush``: the end of the lines ends a document, too."""
        self.flush = flush
        self._open: list[tuple[int, str]] = []

    def add(self, lines: list[str]) -> list[list[tuple[int, str]]]:
        """Add lines; return complete documents as (line number, line), counted in ``lines``."""
        complete = []
        added = [*lines, ""] if self.flush else lines
        for number, line in enumerate(added):
            if line.strip():
                self._open.append((number, line))
            elif self._open:
                complete.append(self._open)
                self._open = []
        self._open = [(number - len(lines), line) for number, line in self._open]
        return complete


class InteractiveDocuments(FairseqDataset):
    """Documents as batches: one document a batch, one sentence a row."""

    def __init__(self, documents: list[list[NumberedSentence]], pad: int) -> None:
        self.documents = documents
        self.pad = pad

    def __len__(self) -> int:
        return len(self.documents)

    def __getitem__(self, index: int) -> list[NumberedSentence]:
        return self.documents[index]

    def collater(self, samples: list[list[NumberedSentence]]) -> dict[str, Any]:
        """Return the batch of one document."""
        (document,) = samples
        numbers, rows = zip(*document, strict=True)
        tokens = pad_sequence(list(rows), batch_first=True, padding_value=float(self.pad))
        lengths = torch.tensor([len(ids) for ids in rows])
        return {
            "id": torch.tensor(numbers),
            "net_input": {"src_tokens": tokens, "src_lengths": lengths},
        }

    def filter_indices_by_size(self, indices: Any, max_sizes: Any) -> tuple[Any, list[int]]:
        """Keep all documents."""
        return indices, []

    def batch_by_size(self, indices: Any, **_: Any) -> list[list[int]]:
        """Return one batch for each document."""
        return [[int(index)] for index in indices]


def lines_of(root: Any) -> LineBuffer:
    """Return the buffer of ``fairseq-interactive``.

    fairseq does not report the end of the input, so a file is read as one buffer; at a terminal
    an empty line ends the last document.
    """
    if root.get("interactive") is None or not root.common_eval.path:
        return LineBuffer(flush=False)
    is_terminal = root.interactive.get("input") == "-" and sys.stdin.isatty()
    if not is_terminal:
        root.interactive.buffer_size = sys.maxsize
    return LineBuffer(flush=not is_terminal)


def encode_documents(
    documents: list[list[tuple[int, str]]], encode: Callable[[str], str], dictionary: Dictionary
) -> list[list[NumberedSentence]]:
    """Return lines of documents as ids; warn of text that is not prepared."""
    encoded: list[list[NumberedSentence]] = []
    tokens = unknown_tokens = 0
    for document in documents:
        sentences = []
        for number, line in document:
            ids = dictionary.encode_line(encode(line), add_if_not_exist=False).long()
            sentences.append((number, ids))
            tokens += int(ids.ne(dictionary.eos()).sum())
            unknown_tokens += int(ids.eq(dictionary.unk()).sum())
        encoded.append(sentences)
    unknown = unknown_tokens / max(tokens, 1)
    if unknown > _MOST_UNKNOWN:
        print_message(
            f"warning: {unknown:.0%} of the tokens of the input are not in the vocabulary; "
            "fairseq-interactive reads text that is prepared as the data were; `gtrans translate "
            "--stream` prepares plain text"
        )
    return encoded
