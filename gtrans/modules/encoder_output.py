"""What an encoder hands to a decoder."""

from __future__ import annotations

from dataclasses import dataclass

from torch import Tensor

from gtrans.modules.context_attention import PackedContext
from gtrans.modules.layout import DocumentLayout


@dataclass
class EncoderOutput:
    """The encoded source of a batch.

    Attributes:
        states: ``(source tokens, dim)`` packed.
        layout: the source's layout.
        order: ``(source tokens, dim)`` order of sentences for global attention, or None.
        layers: outputs of all layers, packed, when they were asked for.
        context: what the decoder's context attention reads, or None.
    """

    states: Tensor
    layout: DocumentLayout
    order: Tensor | None
    layers: list[Tensor]
    context: PackedContext | None = None
