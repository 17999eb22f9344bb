"""Translation units: what a model reads at once.

One binarised corpus serves every model. Each class here is one unit. It decides, for training,
search, force decoding and evaluation, which sentences of a document form a row of a batch, which
of them are translated, and whether a document is translated at once or sentence after sentence.
This module needs neither torch nor fairseq.
"""

from __future__ import annotations

import sys
from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any, ClassVar, Protocol

from gtrans.data.instances import split_instances, split_overlapping
from gtrans.errors import GtransError

CONTEXT_KINDS = ("true", "fixed", "random", "none")
CONTEXT_SIDES = ("source", "both", "history")


@dataclass(frozen=True)
class UnitSpan:
    """One row of a batch, as sentence numbers of its document.

    Attributes:
        source: sentences on the source side.
        target: sentences on the target side, part of ``source``.
        written: the part of ``target`` that the model writes; it reads the other translations.
        current: the part of ``written`` whose translations are kept. Every sentence of a
            document is current in exactly one span, in order.
    """

    source: range
    target: range
    written: range
    current: range


class UnitSettings(Protocol):
    """The options that units are made from (:class:`gtrans.data.unit_options.UnitConfig`)."""

    max_doc_tokens: int
    instance_context: int | None
    overlap: int
    context_before: int | None
    context_after: int | None
    context_kind: Any
    context_sentence: str | None
    context_sides: Any


@dataclass(frozen=True)
class Unit(ABC):
    """What a model reads at once.

    Attributes:
        name: value of ``--unit``.
        has_current: rows have context; the model gets their first current sentence as ``current``.
    """

    name: ClassVar[str]
    has_current: ClassVar[bool] = False
    # In training a model reads runs of sentences of a document, one update after the other.
    trained_in_runs: ClassVar[bool] = False

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
        """The rows of one document whose translation is given.

        Args:
            source_lengths: tokens of every source sentence, without marks.
            target_lengths: the same of the target; None: as long as the source.
        """

    def cut_anew(
        self, source_lengths: Sequence[int], target_lengths: Sequence[int], share: float
    ) -> list[UnitSpan]:
        """As :meth:`cut`, at other places.

        Args:
            source_lengths, target_lengths: as in :meth:`cut`.
            share: size of the first row as a share of the limit, above 0 and at most 1.
        """
        return self.cut(source_lengths, target_lengths)

    def cut_to_translate(self, source_lengths: Sequence[int]) -> list[UnitSpan]:
        """The rows of one document that is to be translated."""
        return self.cut(source_lengths)

    @property
    def neighbours(self) -> str:
        """What neighbours are replaced by, one of :data:`CONTEXT_KINDS`."""
        return "true"

    def current(self, number: int) -> slice:
        """The current sentences of a row, if the first of them has this number."""
        return slice(number, number + 1)

    @property
    def writes_neighbours(self) -> bool:
        """Whether the model also writes the translations of a window's other sentences."""
        return False

    @property
    def sentence_by_sentence(self) -> bool:
        """Whether a document is translated one sentence after the other.

        If so, the search is :class:`gtrans.decoding.stream_search.StreamSearch`, else
        :class:`gtrans.decoding.document_search.DocumentSearch`.
        """
        return False

    @property
    def tokens_at_once(self) -> int | None:
        """Most tokens of a row that are translated at once; None: all of them.

        If it is a number, rows to translate are whole documents, and the search is
        :class:`gtrans.decoding.overlap_search.OverlapSearch`.
        """
        return None

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
    """A single sentence."""

    name = "sentence"

    @classmethod
    def from_settings(cls, settings: UnitSettings) -> SentenceUnit:
        """This unit has no options."""
        return cls()

    def cut(
        self, source_lengths: Sequence[int], target_lengths: Sequence[int] | None = None
    ) -> list[UnitSpan]:
        """One row for each sentence."""
        singles = [range(number, number + 1) for number in range(len(source_lengths))]
        return [UnitSpan(single, single, single, single) for single in singles]


@dataclass(frozen=True)
class WindowUnit(Unit):
    """A sentence and its neighbours in the document.

    Attributes:
        before, after: how many neighbours; fewer at the ends of the document.
        context_kind: neighbours are the ``true`` ones, are replaced by one ``fixed`` sentence or
            by ``random`` words, or are left out (``none``).
        context_sides: sides on which the row has its neighbours. ``source``: the source only;
            ``both``: both sides, and the model also writes the neighbours' translations
            (concatenation); ``history``: both sides, and the model reads its earlier
            translations, so that a document is translated sentence after sentence.
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
                f"`--context-kind {self.context_kind}` replaces source sentences, but "
                f"`--context-sides {self.context_sides}` also has their translations; give "
                "`none`, or `--context-sides source`."
            )
        if self.context_sides == "history" and self.after:
            raise GtransError(
                "`--context-sides history` reads the sentences before the current one; "
                f"`--context-after` must be 0, but is {self.after}."
            )

    @classmethod
    def from_settings(cls, settings: UnitSettings) -> WindowUnit:
        """As the options say; by default one neighbour before and none after."""
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
        """With ``history`` one row: a translation is needed for those of the next sentences."""
        if not self.sentence_by_sentence:
            return self.cut(source_lengths)
        return _whole(len(source_lengths))

    @property
    def neighbours(self) -> str:
        """As ``--context-kind``."""
        return self.context_kind

    @property
    def writes_neighbours(self) -> bool:
        """True in concatenation."""
        return self.context_sides == "both"

    @property
    def sentence_by_sentence(self) -> bool:
        """True with ``history``: the model reads its earlier translations."""
        return self.context_sides == "history" and self.context_kind != "none"


@dataclass(frozen=True)
class DocumentUnit(Unit):
    """Consecutive sentences of a document.

    Attributes:
        max_doc_tokens: most tokens of a row, see
            :func:`gtrans.data.instances.split_instances`.
        overlap: in decoding, how many sentences of the row before a row begins with; their
            translations are given (:func:`gtrans.data.instances.split_overlapping`).
    """

    name = "document"

    max_doc_tokens: int = 512
    overlap: int = 0

    def __post_init__(self) -> None:
        """Raises GtransError for a limit that is too small for any sentence."""
        if self.max_doc_tokens < 8:
            raise GtransError(
                f"`--max-doc-tokens` must be at least 8, but is {self.max_doc_tokens}."
            )
        if self.overlap < 0:
            raise GtransError(f"`--overlap` must be at least 0, but is {self.overlap}.")

    @classmethod
    def from_settings(cls, settings: UnitSettings) -> DocumentUnit:
        """The limit is ``max_doc_tokens``; with ``instance_context`` instances have context."""
        limits = int(settings.max_doc_tokens), int(settings.overlap)
        before = int(settings.instance_context or 0)
        return ContinuedUnit(*limits, before) if before else cls(*limits)

    def cut(
        self, source_lengths: Sequence[int], target_lengths: Sequence[int] | None = None
    ) -> list[UnitSpan]:
        """One row for each instance."""
        lengths = source_lengths if target_lengths is None else target_lengths
        if self.overlap:
            pairs = split_overlapping(source_lengths, lengths, self.max_doc_tokens, self.overlap)
            read = [(range(first, own.stop), own) for first, own in pairs]
            return [UnitSpan(sentences, sentences, own, own) for sentences, own in read]
        instances = split_instances(source_lengths, lengths, self.max_doc_tokens)
        return [UnitSpan(instance, instance, instance, instance) for instance in instances]

    def cut_anew(
        self, source_lengths: Sequence[int], target_lengths: Sequence[int], share: float
    ) -> list[UnitSpan]:
        """The first instance has ``share`` of the tokens of the others."""
        first = max(1, round(share * self.max_doc_tokens))
        instances = split_instances(source_lengths, target_lengths, self.max_doc_tokens, first)
        return [UnitSpan(instance, instance, instance, instance) for instance in instances]

    def cut_to_translate(self, source_lengths: Sequence[int]) -> list[UnitSpan]:
        """With ``overlap`` one row: a row needs the translations of the one before."""
        return _whole(len(source_lengths)) if self.overlap else self.cut(source_lengths)

    @property
    def tokens_at_once(self) -> int | None:
        """With ``overlap`` the limit of a row."""
        return self.max_doc_tokens if self.overlap else None

    def limited_to(self, max_doc_tokens: int) -> DocumentUnit:
        """The same unit with another limit."""
        return replace(self, max_doc_tokens=max_doc_tokens)

    def as_dict(self) -> dict[str, Any]:
        """Name and options; no overlap is not named, as in records of older versions."""
        options = super().as_dict()
        return options if self.overlap else {k: v for k, v in options.items() if k != "overlap"}


@dataclass(frozen=True)
class ContinuedUnit(DocumentUnit):
    """A document unit with context: source sentences before it, ``before`` or as many there are."""

    has_current = True

    before: int = 0

    def cut(
        self, source_lengths: Sequence[int], target_lengths: Sequence[int] | None = None
    ) -> list[UnitSpan]:
        """One row for each instance; the limit is that of the instance alone."""
        return [
            replace(span, source=range(max(span.source.start - self.before, 0), span.source.stop))
            for span in super().cut(source_lengths, target_lengths)
        ]

    def current(self, number: int) -> slice:
        """All sentences from the first one of the instance."""
        return slice(number, None)


@dataclass(frozen=True)
class StreamUnit(Unit):
    """A whole document, which a model reads sentence by sentence.

    In training :mod:`gtrans.data.stream` cuts it into runs of sentences.
    """

    name = "stream"
    trained_in_runs = True

    @classmethod
    def from_settings(cls, settings: UnitSettings) -> StreamUnit:
        """This unit has no options."""
        return cls()

    def cut(
        self, source_lengths: Sequence[int], target_lengths: Sequence[int] | None = None
    ) -> list[UnitSpan]:
        """One row, or none for an empty document."""
        return _whole(len(source_lengths))

    @property
    def sentence_by_sentence(self) -> bool:
        """True: the finished translation of a sentence is needed to update the memory."""
        return True


def _whole(count: int) -> list[UnitSpan]:
    whole = range(count)
    return [UnitSpan(whole, whole, whole, whole)] if count else []


UNITS: dict[str, type[Unit]] = {
    unit.name: unit for unit in (SentenceUnit, WindowUnit, DocumentUnit, StreamUnit)
}


def unit_of(name: str | None, settings: UnitSettings) -> Unit:
    """The unit ``name`` (None: documents) with the options of ``settings``.

    Raises:
        GtransError: an option out of range, ``--context-kind fixed`` without a sentence, or
            another context than the true one for a unit without context.
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
