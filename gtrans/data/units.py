"""Translation units: what a model reads at once.

One binarised corpus serves every model. Each class here is one unit. It decides, for training,
search, force decoding and evaluation, which sentences of a document form a row of a batch, which
of them are translated, and whether a document is translated at once or part after part.
This module needs neither torch nor fairseq.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from gtrans.data.document_unit import DocumentUnit
from gtrans.data.stream_unit import InstanceStreamUnit, StreamUnit
from gtrans.data.unit import Unit, UnitSettings, UnitSpan, whole
from gtrans.errors import GtransError

__all__ = [
    "CONTEXT_KINDS", "CONTEXT_SIDES", "UNITS", "UNIT_OPTIONS", "DocumentUnit",
    "InstanceStreamUnit", "SentenceUnit", "StreamUnit", "Unit", "UnitSpan", "WindowUnit",
    "unit_class", "unit_of",
]  # fmt: skip

CONTEXT_KINDS = ("true", "fixed", "random", "none")
CONTEXT_SIDES = ("source", "both", "history")


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
    options = ("context_before", "context_after", "context_kind", "context_sentence",
               "context_sides", "context_redraw")  # fmt: skip

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
        return whole(len(source_lengths))

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


UNITS: dict[str, type[Unit]] = {
    "sentence": SentenceUnit,
    "window": WindowUnit,
    "document": DocumentUnit,
    "stream": StreamUnit,
}
_EVERY: tuple[type[Unit], ...] = (*UNITS.values(), InstanceStreamUnit)
UNIT_OPTIONS = frozenset(name for unit in _EVERY for name in unit.options)


def unit_class(name: str, stream_of: str | None) -> type[Unit]:
    """The unit ``name``; with ``stream_of`` instances, streams are of these."""
    unit = UNITS[name]
    return unit.of_steps(stream_of) if issubclass(unit, StreamUnit) else unit


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
