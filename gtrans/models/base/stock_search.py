"""Our models under fairseq's own beam search, as the stock translation tasks use it.

Our models decode with ``begin`` and ``step`` and a state that knows which rows are
hypotheses of one source, so that keys and values of a source are computed and kept once.
fairseq repeats the encoder's output for every hypothesis, and reorders it together with
an ``incremental_state``. The two base classes here translate: repeating and reordering
only note row numbers, and the state is made at the first step.
"""

from abc import abstractmethod
from collections.abc import Callable
from typing import Any, Optional

import torch
from fairseq.models import FairseqEncoder, FairseqIncrementalDecoder
from torch import Tensor

from gtrans.modules.decode_state import DecodeState
from gtrans.modules.encoder_output import EncoderOutput

_STATE = "gtrans"


class StockEncoder(FairseqEncoder):
    """An encoder whose ``forward`` gives an :class:`EncoderOutput`."""

    def reorder_encoder_out(self, encoder_out: EncoderOutput, new_order: Tensor) -> EncoderOutput:
        """Row ``i`` goes on from row ``new_order[i]``."""
        return encoder_out.reordered(new_order)


class StockDecoder(FairseqIncrementalDecoder):
    """A decoder that is called by fairseq and written in terms of three methods."""

    # Logits ``(batch, length, vocabulary)`` of every next token, and more outputs, from the
    # decoder's input, the encoded source and options of its own.
    teacher_forced: Callable[..., tuple[Any, dict[str, Any]]]

    @abstractmethod
    def begin(self, encoder_out: EncoderOutput, beam: int) -> DecodeState:
        """The state before the first token of every source, ``beam`` hypotheses each."""

    @abstractmethod
    def step(self, tokens: Tensor, opens: Tensor, state: DecodeState) -> Tensor:
        """Logits ``(rows, vocabulary)`` after one more token of every hypothesis."""

    def forward(
        self,
        prev_output_tokens: Tensor,
        encoder_out: EncoderOutput,
        incremental_state: Optional[dict[str, Any]] = None,
        **options: Any,
    ) -> tuple[Any, dict[str, Any]]:
        """Teacher-forced, or with ``incremental_state`` one step of fairseq's search.

        Args:
            prev_output_tokens: ``(batch, length)``; in a step all tokens so far.
            encoder_out: the encoded sources.
            incremental_state: fairseq's memory of one search, empty at its beginning.
            options: further arguments of :meth:`teacher_forced`.

        Returns:
            logits ``(batch, length, vocabulary)``, in a step those of the last token only,
            and a dictionary with at least ``attn``, which fairseq looks for.
        """
        if incremental_state is None:
            return self.teacher_forced(prev_output_tokens, encoder_out, **options)
        state = incremental_state.get(_STATE)
        if state is None:
            state = incremental_state[_STATE] = self._begin(encoder_out, prev_output_tokens.size(0))
        opens = torch.zeros_like(prev_output_tokens[:, 0], dtype=torch.bool)
        logits = torch.empty(0)
        # One token, unless the first call comes with a longer prefix.
        for tokens in prev_output_tokens[:, state.step + 1 :].unbind(1):
            logits = self.step(tokens, opens, state)
        return logits[:, None], {"attn": None}

    def _begin(self, encoder_out: EncoderOutput, rows: int) -> DecodeState:
        sources = encoder_out.layout.shape[0]
        beam = max(rows // sources, 1)
        own = torch.arange(sources, device=encoder_out.states.device).repeat_interleave(beam)
        if encoder_out.source_of_row is None or torch.equal(
            encoder_out.source_of_row, own
        ):
            return self.begin(encoder_out, beam)
        return self.begin(encoder_out.copied(), 1)

    def reorder_incremental_state(
        self, incremental_state: dict[str, Any], new_order: Tensor
    ) -> None:
        """Row ``i`` goes on from row ``new_order[i]``; sources that are left out are dropped.

        Hypotheses stay next to those of the same source, as in all of fairseq's searches.
        """
        state = incremental_state.get(_STATE)
        if state is None:
            return
        origins = new_order.view(-1, state.beam)
        sources = torch.div(origins[:, 0], state.beam, rounding_mode="floor")
        numbers = torch.arange(sources.numel(), device=new_order.device)
        if sources.numel() != state.document.numel() or not torch.equal(sources, numbers):
            state.keep(sources)
        rows = (origins - (sources - numbers)[:, None] * state.beam).flatten()
        if not torch.equal(rows, torch.arange(rows.numel(), device=rows.device)):
            state.reorder(rows, 0)
