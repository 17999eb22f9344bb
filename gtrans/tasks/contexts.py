"""What a task replaces the neighbours of a sentence by, if not by the true ones."""

from functools import cached_property
from typing import Any, Optional

from fairseq.data import Dictionary
from torch import Tensor

from gtrans.data.context_text import ContextText, Words
from gtrans.errors import GtransError
from gtrans.models.base.model import BERT_PIECES
from gtrans.tasks.parts.bert import BertPart
from gtrans.tasks.split_files import training_words
from gtrans.text.moses import LOWER_MARK


class SourceContexts:
    """The replacements in tokens of the source dictionary."""

    def __init__(self, cfg: Any, source: Dictionary) -> None:
        """``cfg``: options of the task."""
        self._cfg = cfg
        self._source = source

    def text(self, bert: Optional[BertPart]) -> Optional[ContextText]:
        """The replacement that the options ask for; None: the true context, or none.

        Args:
            bert: the part of the task that reads a BERT, or None.

        Raises:
            GtransError: random words, but the data folder has no training text; or a fixed
                sentence with a word that is not in the dictionary.
        """
        kind = str(self._cfg.context_kind)
        if kind == "fixed":
            return ContextText(self._fixed)
        if kind != "random":
            return None
        pieces = bert is not None and bert.use == BERT_PIECES
        words = bert.words if bert is not None and pieces else self._words
        return ContextText(words=words, seed=int(self._cfg.seed))

    @cached_property
    def _fixed(self) -> Tensor:
        """``(words + 1,)`` the sentence of ``--context-sentence``."""
        text = str(self._cfg.context_sentence)
        ids: Tensor = self._source.encode_line(text, add_if_not_exist=False).long()
        unknown = [word for word, found in zip(text.split(), ids, strict=False)
                   if found == self._source.unk()]  # fmt: skip
        if unknown:
            raise GtransError(
                f"`--context-sentence`: '{unknown[0]}' is not in the dictionary of the source; "
                "give tokens as they are in the prepared text, such as 'be@@ fore'."
            )
        return ids

    @cached_property
    def _words(self) -> Words:
        no_text = [*range(self._source.nspecial), self._source.index(LOWER_MARK)]
        return training_words(self._cfg, self._source.symbols, self._source.eos(), no_text)
