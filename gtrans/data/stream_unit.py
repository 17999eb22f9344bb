"""Streams as units: whole documents that are read step by step, with a memory."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import ClassVar

from gtrans.data.document_unit import DocumentUnit
from gtrans.data.unit import Unit, UnitSettings, UnitSpan, whole
from gtrans.modules import STEPS


@dataclass(frozen=True)
class StreamUnit(Unit):
    """A whole document, which a model reads sentence by sentence.

    In training :mod:`gtrans.data.stream_windows` cuts it into runs of steps, here of sentences.
    """

    name = "stream"
    trained_in_runs = True
    options: ClassVar[tuple[str, ...]] = ("stream_of", "min_window", "max_window")

    @classmethod
    def of_steps(cls, steps: str | None) -> type[StreamUnit]:
        """The class for streams of ``steps``, one of :data:`~gtrans.modules.STEPS`."""
        return InstanceStreamUnit if steps == STEPS[1] else StreamUnit

    @classmethod
    def from_settings(cls, settings: UnitSettings) -> StreamUnit:
        """With ``stream_of`` a stream of instances of ``max_doc_tokens``."""
        if cls.of_steps(str(settings.stream_of)) is InstanceStreamUnit:
            return InstanceStreamUnit(int(settings.max_doc_tokens), int(settings.overlap))
        return StreamUnit()

    def cut(
        self, source_lengths: Sequence[int], target_lengths: Sequence[int] | None = None
    ) -> list[UnitSpan]:
        """One row, or none for an empty document."""
        return whole(len(source_lengths))

    def steps(
        self,
        source_lengths: Sequence[int],
        target_lengths: Sequence[int] | None = None,
        share: float | None = None,
    ) -> list[int]:
        """The sentences of each step of a document.

        Args:
            source_lengths, target_lengths: as in :meth:`cut`.
            share: as in :meth:`cut_anew`; None: steps are those of every epoch.
        """
        return [1] * len(source_lengths)

    @property
    def sentence_by_sentence(self) -> bool:
        """True: the finished translation of a sentence is needed to update the memory."""
        return True


@dataclass(frozen=True)
class InstanceStreamUnit(StreamUnit):
    """A whole document, which a model reads instance by instance.

    Attributes:
        max_doc_tokens, overlap: of instances, which are those of a
            :class:`gtrans.data.document_unit.DocumentUnit`.
    """

    has_instances = True
    options = (*StreamUnit.options, "max_doc_tokens", "overlap", "recut")

    max_doc_tokens: int = 512
    overlap: int = 0

    def __post_init__(self) -> None:
        """Raises GtransError as the document unit does."""
        _ = self._documents

    @property
    def _documents(self) -> DocumentUnit:
        return DocumentUnit(self.max_doc_tokens, self.overlap)

    def parts(self, source_lengths: Sequence[int]) -> list[UnitSpan]:
        """The instances."""
        return self._documents.cut(source_lengths)

    def steps(
        self,
        source_lengths: Sequence[int],
        target_lengths: Sequence[int] | None = None,
        share: float | None = None,
    ) -> list[int]:
        """The sentences of each instance, without those of an overlap."""
        other = source_lengths if target_lengths is None else target_lengths
        unit = self._documents
        if share is None:
            spans = unit.cut(source_lengths, other)
        else:
            spans = unit.cut_anew(source_lengths, other, share)
        return [len(span.current) for span in spans]

    @property
    def sentence_by_sentence(self) -> bool:
        """False: the memory is updated once for each instance."""
        return False

    @property
    def tokens_at_once(self) -> int:
        """The limit of an instance."""
        return self.max_doc_tokens

    def limited_to(self, max_doc_tokens: int) -> InstanceStreamUnit:
        """The same unit with another limit."""
        return replace(self, max_doc_tokens=max_doc_tokens)

    def unlimited(self) -> InstanceStreamUnit:
        """The same: a document of any length is read with its memory, as in training."""
        return self
