"""What ``fairseq-interactive`` asks of the document task."""

from abc import abstractmethod
from typing import Any, Optional

from fairseq.data import Dictionary
from fairseq.tasks import FairseqTask
from torch import Tensor

from gtrans.data.frame import Frame
from gtrans.data.interactive import InteractiveDocuments, LineBuffer
from gtrans.errors import GtransError
from gtrans.messages import say
from gtrans.tasks.parts.bert import BertPart
from gtrans.text.pipeline import input_warnings

_MOST_UNKNOWN = 0.1  # of prepared text, in which hardly any token is unknown


class InteractiveTask(FairseqTask):
    """A task that reads documents line by line.

    Attributes:
        bert: the part that reads a BERT; None if the model reads none.
    """

    bert: Optional[BertPart]
    _lines: LineBuffer

    @property
    @abstractmethod
    def source_dictionary(self) -> Dictionary:
        """Dictionary of the source."""

    @property
    @abstractmethod
    def frame(self) -> Frame:
        """How sentences are marked."""

    def get_interactive_tokens_and_lengths(
        self, lines: list[str], encode_fn: Any
    ) -> tuple[list[list[tuple[int, Tensor]]], list[int]]:
        """The documents that ``lines`` complete, and the tokens of each.

        A document ends with an empty line or with the end of the input.

        Raises:
            GtransError: the model reads BERT's word pieces, which need plain text.
        """
        if self.bert is not None:
            raise GtransError(
                "fairseq-interactive reads prepared text, but this model needs plain text for "
                "BERT; use `gtrans translate --input -`."
            )

        def encode(line: str) -> Tensor:
            ids: Tensor = self.source_dictionary.encode_line(
                encode_fn(line), add_if_not_exist=False
            )
            return ids.long()

        documents = [
            [(number, encode(line)) for number, line in document]
            for document in self._lines.add(lines)
        ]
        ids = [sentence for document in documents for _, sentence in document]
        unknown = sum(int((of == self.source_dictionary.unk()).sum()) for of in ids)
        tokens = sum(len(of) - 1 for of in ids)
        for warning in input_warnings("input", (), unknown, tokens, _MOST_UNKNOWN):
            say(
                f"warning: {warning} fairseq-interactive reads text that is prepared as the data "
                "were; `gtrans translate --stream` prepares plain text"
            )
        return documents, [sum(len(ids) for _, ids in document) for document in documents]

    def build_dataset_for_inference(
        self, src_tokens: Any, src_lengths: Any, **kwargs: Any
    ) -> InteractiveDocuments:
        """The dataset of ``fairseq-interactive``: one document a batch."""
        return InteractiveDocuments(src_tokens, self.frame.pad)
