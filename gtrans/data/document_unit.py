"""Documents as units: instances, and instances that overlap."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from gtrans.data.instances import split_instances, split_overlapping
from gtrans.data.unit import Unit, UnitSettings, UnitSpan, whole
from gtrans.errors import GtransError


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
    options = ("max_doc_tokens", "overlap", "recut")

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
        """The limit is ``max_doc_tokens``."""
        return cls(int(settings.max_doc_tokens), int(settings.overlap))

    def cut(
        self, source_lengths: Sequence[int], target_lengths: Sequence[int] | None = None
    ) -> list[UnitSpan]:
        """One row for each instance."""
        lengths = source_lengths if target_lengths is None else target_lengths
        if self.overlap:
            spans = []
            for first, own in split_overlapping(
                source_lengths, lengths, self.max_doc_tokens, self.overlap
            ):
                read = range(first, own.stop)
                spans.append(UnitSpan(read, read, own, own))
            return spans
        instances = split_instances(source_lengths, lengths, self.max_doc_tokens)
        return [UnitSpan(instance, instance, instance, instance) for instance in instances]

    def cut_anew(
        self, source_lengths: Sequence[int], target_lengths: Sequence[int], share: float
    ) -> list[UnitSpan]:
        """The first instance has ``share`` of the tokens of the others.

        A document that fits into one instance stays whole.
        """
        spans = self.cut(source_lengths, target_lengths)
        if len(spans) == 1:
            return spans
        first = max(1, round(share * self.max_doc_tokens))
        instances = split_instances(source_lengths, target_lengths, self.max_doc_tokens, first)
        return [UnitSpan(instance, instance, instance, instance) for instance in instances]

    def cut_to_translate(self, source_lengths: Sequence[int]) -> list[UnitSpan]:
        """With ``overlap`` one row: a row needs the translations of the one before."""
        return whole(len(source_lengths)) if self.overlap else self.cut(source_lengths)

    @property
    def tokens_at_once(self) -> int | None:
        """With ``overlap`` the limit of a row."""
        return self.max_doc_tokens if self.overlap else None

    def limited_to(self, max_doc_tokens: int) -> DocumentUnit:
        """The same unit with another limit."""
        return replace(self, max_doc_tokens=max_doc_tokens)
