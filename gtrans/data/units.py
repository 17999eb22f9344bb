"""Translation units: what a model reads at once, cut out of a document.

One binarised corpus serves every model. Which sentences stand in a row of a batch, and
which of them the row translates, is decided here, without torch, for training,
decoding, force decoding and evaluation alike.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from gtrans.data.instances import split_instances
from gtrans.errors import GtransError

UNITS = ("sentence", "window", "document", "stream")
CONTEXT_KINDS = ("true", "fixed", "random", "none")
CONTEXT_SIDES = ("source", "both")


@dataclass(frozen=True)
class Piece:
    """One row of a batch, as sentence numbers of its document.

    Attributes:
        source: sentences on the source side.
        target: sentences on the target side, all of them among ``source``.
        current: sentences that the row is there for, all of them among ``target``. Over
            the pieces of a document every sentence is current once, in order.
    """

    source: range
    target: range
    current: range


@dataclass(frozen=True)
class UnitOptions:
    """How documents become rows; of a trained model these travel in its checkpoint.

    Attributes:
        unit: ``sentence``; ``window``, a sentence and its neighbours in the document;
            ``document``, instances of consecutive sentences; ``stream``, a whole document,
            which a model reads sentence by sentence (:mod:`gtrans.data.stream` cuts it into
            windows for training).
        max_doc_tokens: most tokens of an instance, see
            :func:`gtrans.data.instances.split_instances`.
        context_before, context_after: neighbours of a window, as far as the document has
            them.
        context_kind: whether neighbours are the ``true`` ones, are replaced by one
            ``fixed`` sentence or by ``random`` words, or are left out (``none``).
        context_sides: whether a window has its neighbours on the ``source`` side only, or on
            ``both``.
    """

    unit: str
    max_doc_tokens: int = 512
    context_before: int = 1
    context_after: int = 0
    context_kind: str = "true"
    context_sides: str = "source"

    def __post_init__(self) -> None:
        """Raises GtransError for options out of range, naming flag and value."""
        for flag, value, least in (
            ("max-doc-tokens", self.max_doc_tokens, 8),
            ("context-before", self.context_before, 0),
            ("context-after", self.context_after, 0),
        ):
            if value < least:
                raise GtransError(f"`--{flag}` must be at least {least}, but is {value}.")
        if self.context_sides == "both" and self.context_kind in ("fixed", "random"):
            raise GtransError(
                f"`--context-kind {self.context_kind}` replaces source sentences, which "
                "`--context-sides both` translates; give `none`, or `--context-sides source`."
            )

    def pieces(
        self, source_lengths: Sequence[int], target_lengths: Sequence[int] | None = None
    ) -> list[Piece]:
        """The rows of one document.

        Args:
            source_lengths: tokens of every source sentence, without marks.
            target_lengths: the same of the target; None: taken for as long as the source.
        """
        count = len(source_lengths)
        if self.unit == "document":
            lengths = source_lengths if target_lengths is None else target_lengths
            instances = split_instances(source_lengths, lengths, self.max_doc_tokens)
            return [Piece(instance, instance, instance) for instance in instances]
        if self.unit == "stream":
            return [Piece(range(count), range(count), range(count))] if count else []
        none = self.unit == "sentence" or self.context_kind == "none"
        before, after = (0, 0) if none else (self.context_before, self.context_after)
        pieces = []
        for number in range(count):
            window = range(max(number - before, 0), min(number + after + 1, count))
            current = range(number, number + 1)
            both = self.context_sides == "both"
            pieces.append(Piece(window, window if both else current, current))
        return pieces
