"""The base of translation units (:mod:`gtrans.data.units`), and their rows."""

from __future__ import annotations

import sys
from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any, ClassVar, Protocol


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
    stream_of: Any
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
        options: the options of the task that this unit reads, of those that not every unit reads.
    """

    name: ClassVar[str]
    has_current: ClassVar[bool] = False
    options: ClassVar[tuple[str, ...]] = ()
    # In training a model reads runs of sentences of a document, one update after the other.
    trained_in_runs: ClassVar[bool] = False
    # A row has several instances, of which the model must know where they begin.
    has_instances: ClassVar[bool] = False

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

    def parts(self, source_lengths: Sequence[int]) -> list[UnitSpan]:
        """The parts of a row to translate that are translated one after the other."""
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

        If so, the search is :class:`gtrans.decoding.part_search.StreamSearch`, else
        :class:`gtrans.decoding.document_search.DocumentSearch`.
        """
        return False

    @property
    def tokens_at_once(self) -> int | None:
        """Most tokens of a row that are translated at once; None: all of them.

        If it is a number, rows to translate are whole documents, and the search is
        :class:`gtrans.decoding.part_search.InstanceSearch`.
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


def whole(count: int) -> list[UnitSpan]:
    """One row of ``count`` sentences, all of them current; none of none."""
    every = range(count)
    return [UnitSpan(every, every, every, every)] if count else []
