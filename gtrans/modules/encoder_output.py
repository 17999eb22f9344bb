"""What an encoder passes to a decoder."""

from __future__ import annotations

from dataclasses import dataclass, replace

from torch import Tensor

from gtrans.modules.context_attention import PackedContext
from gtrans.modules.layout import DocumentLayout


@dataclass
class EncoderOutput:
    """The encoded source of a batch.

    Attributes:
        states: ``(source tokens, dim)`` packed.
        layout: the source's layout.
        order: ``(source tokens, dim)`` embedded sentence numbers for global attention, or None.
        layers: outputs of all layers, ``(source tokens, dim)`` each, if they were asked for.
        context: the contexts for the decoder's context attention, or None.
        source_of_row: ``(rows,)`` the source of each row of a batch in which sources are
            repeated or reordered; None: every source once, in order.
    """

    states: Tensor
    layout: DocumentLayout
    order: Tensor | None
    layers: list[Tensor]
    context: PackedContext | None = None
    source_of_row: Tensor | None = None

    def reordered(self, order: Tensor) -> EncoderOutput:
        """A batch whose row ``i`` is row ``order[i]`` of this one, without copying states."""
        return replace(
            self,
            source_of_row=order if self.source_of_row is None else self.source_of_row[order],
        )

    def copied(self) -> EncoderOutput:
        """The batch of :attr:`source_of_row` with a copy of its source for every row."""
        if self.source_of_row is None:
            return self
        layout, index = self.layout.rows(self.source_of_row)
        return EncoderOutput(
            self.states[index],
            layout,
            None if self.order is None else self.order[index],
            [layer[index] for layer in self.layers],
            None if self.context is None else self.context.chosen(self.source_of_row),
        )
