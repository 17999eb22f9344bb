"""Translation units: what a model reads at once, cut out of a document.

One binarised corpus serves every model. Which sentences stand in a row of a batch, which of
them the row translates, and whether a document is translated at once or sentence after
sentence: each unit decides it in one class here, for training, decoding, force decoding and
evaluation alike. Nothing here needs torch or fairseq.
"""

from __future__ import annotations

import sys
from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any, ClassVar, Protocol

from gtrans.data.instances import split_instances
from gtrans.errors import GtransError

CONTEXT_KINDS = ("true", "fixed", "random", "none")
CONTEXT_SIDES = ("source", "both", "history")


@dataclass(frozen=True)
class UnitSpan:
    """One row of a batch, as sentence numbers of its document.

    Attributes:
        source: sentences on the source side.
        target: sentences on the target side, all of them among ``source``.
        written: those of them that the model writes; it reads the translations of the others.
        current: sentences that the row is there for, all of them among ``written``. Over the
            spans of a document every sentence is current once, in order.
    """

    source: range
    target: range
    written: range
    current: range


class UnitSettings(Protocol):
    """The options that units are made from (:class:`gtrans.data.unit_options.UnitConfig`)."""

    max_doc_tokens: int
    context_before: int | None
    context_after: int | None
    context_kind: Any
    context_sentence: str | None
    context_sides: Any


@dataclass(frozen=True)
class Unit(ABC):
    """What a model reads at once."""

    name: ClassVar[str]
    # Rows are windows around one sentence: models are told which one it is (`current`).
    has_current: ClassVar[bool] = False
    # Neighbours may be replaced by other text (`context_kind`). Without a type, which would
    # make it the first field of a subclass that has it as an option.
    context_kind = "true"

    @classmethod
    @abstractmethod
    def from_settings(cls, settings: UnitSettings) -> Unit:
        """The unit that the options describe.

        Raises:
            GtransError: an option out of range.
        """

    @abstractmethod
    def cut(
        self, source_lengths: Sequence[int], target_lengths: Sequence[int] | None = None
    ) -> list[UnitSpan]:
        """The rows of one document, in training and where translations are given.

        Args:
            source_lengths: tokens of every source sentence, without marks.
            target_lengths: the same of the target; None: taken for as long as the source.
        """

    def cut_to_translate(self, source_lengths: Sequence[int]) -> list[UnitSpan]:
        """The rows of one document whose translation is to be found."""
        return self.cut(source_lengths)

    @property
    def writes_neighbours(self) -> bool:
        """Whether the model writes translations of a window's other sentences, too."""
        return False

    @property
    def sentence_by_sentence(self) -> bool:
        """Whether a document is translated one sentence after the other.

        The search is then :class:`gtrans.decoding.stream_search.StreamSearch`, else
        :class:`gtrans.decoding.document_search.DocumentSearch`.
        """
        return False

    def limited_to(self, max_doc_tokens: int) -> Unit:
        """The same unit with another limit of tokens, if it has one."""
        return self

    def unlimited(self) -> Unit:
        """The same unit without a limit of tokens."""
        return self.limited_to(sys.maxsize)

    def as_dict(self) -> dict[str, Any]:
        """Name and options, for records of what was computed with it."""
        return {"unit": self.name, **asdict(self)}


@dataclass(frozen=True)
class SentenceUnit(Unit):
    """A sentence by itself."""

    name = "sentence"

    @classmethod
    def from_settings(cls, settings: UnitSettings) -> SentenceUnit:
        """It has no options."""
        return cls()

    def cut(
        self, source_lengths: Sequence[int], target_lengths: Sequence[int] | None = None
    ) -> list[UnitSpan]:
        """One row for each sentence."""
        singles = [range(number, number + 1) for number in range(len(source_lengths))]
        return [UnitSpan(single, single, single, single) for single in singles]


@dataclass(frozen=True)
class WindowUnit(Unit):
    """A sentence and its neighbours in the document, as far as the document has them.

    Attributes:
        before, after: how many neighbours.
        context_kind: whether neighbours are the ``true`` ones, are replaced by one ``fixed``
            sentence or by ``random`` words, or are left out (``none``).
        context_sides: whether the row has them on the ``source`` side only; on ``both``,
            where the model writes their translations, too (concatenation); or as a
            ``history``: on both, where it reads the translations that were made before, so
            that a document is translated sentence after sentence.
    """

    name = "window"
    has_current = True

    before: int = 1
    after: int = 0
    context_kind: str = "true"
    context_sides: str = "source"

    def __post_init__(self) -> None:
        """Raises GtransError for options out of range, naming flag and value."""
        for flag, value in (("context-before", self.before), ("context-after", self.after)):
            if value < 0:
                raise GtransError(f"`--{flag}` must be at least 0, but is {value}.")
        if self.context_sides != "source" and self.context_kind in ("fixed", "random"):
            raise GtransError(
                f"`--context-kind {self.context_kind}` replaces source sentences, of which "
                f"`--context-sides {self.context_sides}` has translations; give `none`, or "
                "`--context-sides source`."
            )
        if self.context_sides == "history" and self.after:
            raise GtransError(
                "`--context-sides history` reads the sentences before the current one; "
                f"`--context-after` must be 0, but is {self.after}."
            )

    @classmethod
    def from_settings(cls, settings: UnitSettings) -> WindowUnit:
        """Neighbours, where the options leave their number open: one before, none after."""
        before = settings.context_before
        return cls(
            1 if before is None else int(before),
            int(settings.context_after or 0),
            str(settings.context_kind or "true"),
            str(settings.context_sides or "source"),
        )

    def cut(
        self, source_lengths: Sequence[int], target_lengths: Sequence[int] | None = None
    ) -> list[UnitSpan]:
        """One row for each sentence, with its neighbours."""
        count = len(source_lengths)
        before, after = (0, 0) if self.context_kind == "none" else (self.before, self.after)
        spans = []
        for number in range(count):
            window = range(max(number - before, 0), min(number + after + 1, count))
            current = range(number, number + 1)
            target = current if self.context_sides == "source" else window
            written = window if self.context_sides == "both" else current
            spans.append(UnitSpan(window, target, written, current))
        return spans

    def cut_to_translate(self, source_lengths: Sequence[int]) -> list[UnitSpan]:
        """With a history, the whole document: each translation is needed for the next ones."""
        if not self.sentence_by_sentence:
            return self.cut(source_lengths)
        return _whole(len(source_lengths))

    @property
    def writes_neighbours(self) -> bool:
        """As in concatenation."""
        return self.context_sides == "both"

    @property
    def sentence_by_sentence(self) -> bool:
        """Whether translations are read that must have been made before."""
        return self.context_sides == "history"


@dataclass(frozen=True)
class DocumentUnit(Unit):
    """Consecutive sentences of a document.

    Attributes:
        max_doc_tokens: most tokens of an instance, see
            :func:`gtrans.data.instances.split_instances`.
    """

    name = "document"

    max_doc_tokens: int = 512

    def __post_init__(self) -> None:
        """Raises GtransError for a limit in which nothing has room."""
        if self.max_doc_tokens < 8:
            raise GtransError(
                f"`--max-doc-tokens` must be at least 8, but is {self.max_doc_tokens}."
            )

    @classmethod
    def from_settings(cls, settings: UnitSettings) -> DocumentUnit:
        """With the limit of the options."""
        return cls(int(settings.max_doc_tokens))

    def cut(
        self, source_lengths: Sequence[int], target_lengths: Sequence[int] | None = None
    ) -> list[UnitSpan]:
        """One row for each instance."""
        lengths = source_lengths if target_lengths is None else target_lengths
        instances = split_instances(source_lengths, lengths, self.max_doc_tokens)
        return [UnitSpan(instance, instance, instance, instance) for instance in instances]

    def limited_to(self, max_doc_tokens: int) -> DocumentUnit:
        """Instances of another length."""
        return DocumentUnit(max_doc_tokens)


@dataclass(frozen=True)
class StreamUnit(Unit):
    """A whole document, which a model reads sentence by sentence.

    For training :mod:`gtrans.data.stream` cuts it into runs of sentences.
    """

    name = "stream"

    @classmethod
    def from_settings(cls, settings: UnitSettings) -> StreamUnit:
        """It has no options."""
        return cls()

    def cut(
        self, source_lengths: Sequence[int], target_lengths: Sequence[int] | None = None
    ) -> list[UnitSpan]:
        """One row, or none for an empty document."""
        return _whole(len(source_lengths))

    @property
    def sentence_by_sentence(self) -> bool:
        """What a sentence leaves in the memory comes from its finished translation."""
        return True


def _whole(count: int) -> list[UnitSpan]:
    every = range(count)
    return [UnitSpan(every, every, every, every)] if count else []


UNITS: dict[str, type[Unit]] = {
    unit.name: unit for unit in (SentenceUnit, WindowUnit, DocumentUnit, StreamUnit)
}


def unit_of(name: str | None, settings: UnitSettings) -> Unit:
    """The unit ``name`` (None: documents) with the options of ``settings``.

    Raises:
        GtransError: an option out of range, a fixed context without its sentence, or a
            replaced one for a unit without context.
    """
    kind = str(settings.context_kind or "true")
    if name not in (None, "window") and kind != "true":
        raise GtransError(
            f"`--context-kind {kind}` is for the unit window, but this is the unit {name}; "
            "leave it out."
        )
    if kind == "fixed" and not settings.context_sentence:
        raise GtransError("`--context-kind fixed` needs `--context-sentence 'TOKENS ..'`.")
    return UNITS[name or "document"].from_settings(settings)
