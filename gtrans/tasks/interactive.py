"""Input of ``fairseq-interactive`` for the document task."""

import sys
from collections.abc import Callable
from typing import Any, NamedTuple

import torch
from fairseq.data import Dictionary, FairseqDataset
from torch import Tensor
from torch.nn.utils.rnn import pad_sequence

from gtrans.messages import print_message

_MOST_UNKNOWN = 0.1  # of prepared text, in which hardly any token is unknown


class NumberedLine(NamedTuple):
    """A line and its number, from the first of the current buffer."""

    number: int
    line: str


class NumberedSentence(NamedTuple):
    """The ids ``(tokens + 1,)`` of a line, and its number."""

    number: int
    ids: Tensor


class LineBuffer:
    """Collects lines until an empty line ends a document."""

    def __init__(self, flush: bool) -> None:
        """``flush``: the end of the lines ends a document, too."""
        self.flush = flush
        self._open: list[NumberedLine] = []

    def add(self, lines: list[str]) -> list[list[NumberedLine]]:
        """Add lines; return the documents that are complete."""
        complete = []
        added = [*lines, ""] if self.flush else lines
        for number, line in enumerate(added):
            if line.strip():
                self._open.append(NumberedLine(number, line))
            elif self._open:
                complete.append(self._open)
                self._open = []
        unfinished = self._open
        # They are in the buffer before the next one.
        self._open = [NumberedLine(number - len(lines), line) for number, line in unfinished]
        return complete


class InteractiveDocuments(FairseqDataset):
    """Documents as batches, with a sentence in each row."""

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
        numbers = [sentence.number for sentence in document]
        rows = [sentence.ids for sentence in document]
        tokens = pad_sequence(rows, batch_first=True, padding_value=float(self.pad))
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

    fairseq does not report the end of the input, so a file is one buffer; at a terminal an empty
    line ends the last document.
    """
    if root.get("interactive") is None or not root.common_eval.path:
        return LineBuffer(flush=False)
    reads_stdin = root.interactive.get("input") == "-"
    is_terminal = reads_stdin and sys.stdin.isatty()
    if not is_terminal:
        root.interactive.buffer_size = sys.maxsize
    return LineBuffer(flush=not is_terminal)


def encode_documents(
    documents: list[list[NumberedLine]], encode: Callable[[str], str], dictionary: Dictionary
) -> list[list[NumberedSentence]]:
    """Encode the lines of documents; warn of text that is not prepared."""
    encoded: list[list[NumberedSentence]] = []
    tokens = unknown_tokens = 0
    for document in documents:
        sentences = []
        for number, line in document:
            ids = dictionary.encode_line(encode(line), add_if_not_exist=False).long()
            sentences.append(NumberedSentence(number, ids))
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
