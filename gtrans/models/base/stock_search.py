"""Lets fairseq's own beam search, which its translation task uses, run this project's models.

The models decode with ``begin`` and ``step`` and a state that knows which hypotheses belong to
one source, so that keys and values of a source are computed and stored once. fairseq instead
repeats the encoder's output for every hypothesis, and reorders it together with an
``incremental_state``. The base class here adapts one to the other: repeating and
reordering only record row numbers, and the state is created at the first step.
"""

from abc import abstractmethod
from collections.abc import Callable
from typing import Any, Optional

import torch
from fairseq.models import FairseqIncrementalDecoder
from torch import Tensor

from gtrans.modules.decode_state import DecodeState
from gtrans.modules.group_attention import to_device

_STATE = "gtrans"


class StockDecoder(FairseqIncrementalDecoder):
    """A decoder for fairseq, written with three methods: teacher_forced, begin and step."""

    # From the decoder's input, the encoded source and options of its own: logits
    # ``(batch, length, vocabulary)`` of every next token, and a dictionary of other outputs.
    teacher_forced: Callable[..., tuple[Any, dict[str, Any]]]

    @abstractmethod
    def begin(self, encoder_out: Any, beam: int) -> DecodeState:
        """The state before the first token, with ``beam`` hypotheses for every source."""

    @abstractmethod
    def step(self, tokens: Tensor, opens: Tensor, state: DecodeState) -> Tensor:
        """Logits ``(hypotheses, vocabulary)`` after one more token of every hypothesis."""

    def forward(
        self,
        prev_output_tokens: Tensor,
        encoder_out: Any,
        incremental_state: Optional[dict[str, Any]] = None,
        **options: Any,
    ) -> tuple[Any, dict[str, Any]]:
        """A teacher-forced pass, or with ``incremental_state`` one step of fairseq's search.

        Args:
            prev_output_tokens: ``(batch, length)``; in a step all tokens so far.
            encoder_out: the encoded sources.
            incremental_state: fairseq's memory of one search, empty at its beginning.
            options: further arguments of :meth:`teacher_forced`.

        Returns:
            logits ``(batch, length, vocabulary)``, in a step ``(batch, 1, vocabulary)`` of the
            last token, and a dictionary with at least ``attn``, which fairseq reads.
        """
        if incremental_state is None:
            return self.teacher_forced(prev_output_tokens, encoder_out, **options)
        state = incremental_state.get(_STATE)
        if state is None:
            # The hypotheses of a source stay next to each other in all of fairseq's searches.
            beam = max(prev_output_tokens.size(0) // encoder_out.layout.shape[0], 1)
            state = incremental_state[_STATE] = self.begin(encoder_out, beam)
        opens = torch.zeros_like(prev_output_tokens[:, 0], dtype=torch.bool)
        logits = torch.empty(0)
        # One token, unless the first call comes with a longer prefix.
        for tokens in prev_output_tokens[:, state.step + 1 :].unbind(1):
            logits = self.step(tokens, opens, state)
        return logits[:, None], {"attn": None}

    def reorder_incremental_state(
        self, incremental_state: dict[str, Any], new_order: Tensor
    ) -> None:
        """Hypothesis ``i`` continues hypothesis ``new_order[i]``; sources without any are dropped.

        The hypotheses of a source stay next to each other, as in all of fairseq's searches.
        """
        state = incremental_state.get(_STATE)
        if state is None:
            return
        # The host waits here once a step; what follows from the order it computes itself.
        parents = new_order.cpu().view(-1, state.beam)
        sources = torch.div(parents[:, 0], state.beam, rounding_mode="floor")
        numbers = torch.arange(sources.numel())
        if sources.numel() != state.document.numel() or not torch.equal(sources, numbers):
            state.keep(to_device(sources, new_order.device))
        # The same parents, counted among the sources that are left.
        remaining = (parents - (sources - numbers)[:, None] * state.beam).flatten()
        if not torch.equal(remaining, torch.arange(remaining.numel())):
            state.reorder(to_device(remaining, new_order.device))
