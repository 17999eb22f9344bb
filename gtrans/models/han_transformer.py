"""HAN: hierarchical attention to the sentences before, on top of a sentence Transformer.

Miculicich, Ram, Pappas and Henderson, "Document-Level Neural Machine Translation with
Hierarchical Attention Networks", EMNLP 2018.

========  =============================================================================
§2.1-2.2  word level, sentence level, gate: :mod:`gtrans.modules.hierarchical_attention`
§2.3      on the encoder's last states (source sentences), on the decoder's (translations of
          the sentences before), or both: ``--han-side``
§3        k = 3 sentences before: ``HanTransformer.inputs``
========  =============================================================================

A sentence attends to the states of earlier sentences without context, so a finished translation is
read once and kept (:class:`History`). With the decoder's side a document is translated sentence
after sentence.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import torch
from fairseq.dataclass import ChoiceEnum
from torch import Tensor

from gtrans.models.base.decoder import Decoder
from gtrans.models.base.encoder import Encoder, EncoderOutput
from gtrans.models.base.model import InputSpec, SentenceTransformer
from gtrans.models.base.options import TransformerConfig
from gtrans.models.base.planning import Planner, lengths_without_end
from gtrans.models.base.presets import register_system, sizes
from gtrans.modules.decode_state import DecodeState
from gtrans.modules.group_attention import DocumentLayout, Plan
from gtrans.modules.hierarchical_attention import HierarchicalAttention, sentences_before
from gtrans.modules.transformer import PackedContext
from gtrans.option_types import option

SIDES = ("both", "encoder", "decoder")


@dataclass
class HanTransformerConfig(TransformerConfig):
    """Hierarchical attention."""

    han_side: ChoiceEnum(list(SIDES)) = option(  # type: ignore[valid-type]
        "both", "side whose states attend to the sentences before"
    )


PRESETS = {
    "han_transformer": sizes(6, 512, 2048, 8),
    "han_transformer_tiny": sizes(6, 256, 1024, 4),
    "han_transformer_base": sizes(6, 512, 2048, 8),
}


@dataclass
class History:
    """The last sentences of the documents of a batch, the nearest first.

    Attributes:
        source: the encoder's states of sentences.
        target: the decoder's states of translations, ``(words, layer groups * dim)``.
        encoded: the current sentences without context, until they are translated.
    """

    source: list[PackedContext] = field(default_factory=list)
    target: list[PackedContext] = field(default_factory=list)
    encoded: EncoderOutput | None = None

    def following(self, documents: Tensor) -> "History":
        """Return the history before the next sentences of ``documents (n,)``."""
        source = [sentence.chosen(documents) for sentence in self.source]
        target = [sentence.chosen(documents) for sentence in self.target]
        return History(source, target)

    @classmethod
    def joined(cls, histories: Sequence["History"]) -> "History":
        """Join histories of equal length."""
        source = [history.source for history in histories]
        target = [history.target for history in histories]
        return cls(_joined(source), _joined(target))


def _joined(histories: Sequence[list[PackedContext]]) -> list[PackedContext]:
    at_each_distance = zip(*histories, strict=True)
    return [PackedContext.joined(sentences) for sentences in at_each_distance]


class HanPlanner(Planner):
    """Plans windows, whose last sentence is the current one."""

    def source(self, net_input: Mapping[str, Any]) -> Plan:
        """Add ``current`` (:func:`current_tokens`) and ``encoder_before``."""
        layout = self.source_layout(net_input["src_tokens"])
        plan = self.source_rows(layout)
        plan["current"] = current_tokens(layout)
        plan["encoder_before"] = sentences_before(layout, layout.sentence_lengths, self.shapes)
        return plan

    def target(
        self,
        net_input: Mapping[str, Any],
        source: DocumentLayout,
        context_lengths: Tensor | None = None,
    ) -> Plan:
        """Add ``words``, ``current_words`` and ``decoder_before`` if the decoder uses them."""
        plan = super().target(net_input, source, context_lengths)
        if self.reuses_prefix_states:
            return plan
        layout, tokens = plan["target"], net_input["prev_output_tokens"]
        words = lengths_without_end(layout, tokens, self.eos, layout.sentence_lengths)
        plan["words"] = words
        plan["current_words"] = current_tokens(layout)
        plan["decoder_before"] = sentences_before(layout, words, self.shapes)
        return plan


def current_tokens(layout: DocumentLayout) -> Tensor:
    """Return ``(n,)`` the indices of packed tokens in the last sentence of their row."""
    last = layout.sentence_counts[layout.row] - 1
    is_current = layout.sentence.eq(last)
    return is_current.nonzero().squeeze(1)


class HanEncoder(Encoder):
    """The sentence Transformer's encoder, with hierarchical attention if ``han`` is set."""

    han: HierarchicalAttention | None

    def forward(  # type: ignore[override]
        self,
        src_tokens: Tensor,
        src_lengths: Tensor | None = None,
        *,
        memory: History | None = None,
        plan: Plan | None = None,
    ) -> EncoderOutput:
        """Encode windows, whose last sentence is the current one, or sentences with a history.

        Args:
            src_tokens: ``(batch, length)``, padded on either side.
            src_lengths: unused.
            memory: the sentences before each row, if rows are single sentences.
            plan: None: it is made now.
        """
        if plan is None:
            plan = self.planner.on_device({"src_tokens": src_tokens})
        encoded = super().forward(src_tokens, plan=plan)
        if memory is not None:
            memory.encoded = encoded
        if self.han is None:
            return encoded
        states, layout = encoded.states, encoded.layout
        if memory is None:
            current = plan["current"]
            refined = self.han(states[current], states, plan["encoder_before"])
            return replace(encoded, states=states.index_copy(0, current, refined))
        # Each word of a document attends to its history as the word of a hypothesis does.
        padded = layout.align(states)
        words = padded.flatten(0, 1)
        sources = [self.han.sources(sentence) for sentence in memory.source]
        refined = self.han.step(words, sources).view_as(padded)
        return replace(encoded, states=refined[layout.row, layout.position])


class HanDecoder(Decoder):
    """The sentence Transformer's decoder, with hierarchical attention if ``han`` is set."""

    han: HierarchicalAttention | None

    def states(
        self,
        prev_output_tokens: Tensor,
        encoder_out: EncoderOutput,
        memory: Any = None,
        plan: Plan | None = None,
    ) -> tuple[Tensor, DocumentLayout]:
        """Return states; the last sentence of a row sees the others."""
        if plan is None:
            plan = self.plan_target(prev_output_tokens, encoder_out)
        features, layout = super().states(prev_output_tokens, encoder_out, None, plan)
        if self.han is None:
            return features, layout
        current, before = plan["current_words"], plan["decoder_before"]
        refined = []
        for h in features:  # a layer group's
            refined.append(self.han(h[current], h, before))
        return features.index_copy(1, current, torch.stack(refined)), layout

    def states_without_context(
        self, prev_output_tokens: Tensor, encoder_out: EncoderOutput
    ) -> PackedContext:
        """Return ``(words, layer groups * dim)`` states of finished translations, one a row."""
        plan = self.plan_target(prev_output_tokens, encoder_out)
        words = plan["words"]
        features, layout = super().states(prev_output_tokens, encoder_out, plan=plan)
        is_word = layout.position < words[layout.row]
        of_words = features[:, is_word].transpose(0, 1)
        return PackedContext(of_words.flatten(1), words)

    def begin(self, encoder_out: EncoderOutput, beam: int, memory: Any = None) -> DecodeState:
        """Return the state before the first token, with histories."""
        state = super().begin(encoder_out, beam)
        if self.han is not None and memory is not None:
            state.further_sources = [self.han.sources(sentence) for sentence in memory.target]
        return state

    def step_states(self, tokens: Tensor, opens: Tensor, state: DecodeState) -> Tensor:
        """Return states that have seen the history."""
        features = super().step_states(tokens, opens, state)
        if self.han is None:
            return features
        refined = []
        for group, h in enumerate(features):
            refined.append(self.han.step(h, state.further_sources, group))
        return torch.stack(refined)


@register_system("han_transformer", HanTransformerConfig, PRESETS)
class HanTransformer(SentenceTransformer):
    """HAN: the last states attend to words of earlier sentences, then to the sentences."""

    encoder: HanEncoder
    decoder: HanDecoder
    encoder_type = HanEncoder
    decoder_type = HanDecoder
    planner_type = HanPlanner
    inputs = InputSpec(
        units=("window", "sentence"), context_sides=("history",), context_size=(3, 0)
    )
    history_size = 0

    def add_parts(self, cfg: Any) -> None:
        """Add hierarchical attention on the chosen sides."""
        self.history_size = int(cfg.context_before or 0)
        for side in ("encoder", "decoder"):
            stack = getattr(self, side)
            stack.han = None
            if cfg.unit == "window" and cfg.han_side in ("both", side):
                spec = self.layer_spec(cfg, side)
                stack.han = HierarchicalAttention(spec)

    @property
    def reuses_prefix_states(self) -> bool:
        """Whether translations ignore the other sentences of their row."""
        return self.decoder.han is None

    def begin_decoding(self, source: Mapping[str, Any], beam: int) -> DecodeState:
        """Encode rows and begin a search; ``source["memory"]``: the history of sentences."""
        return self.decoder.begin(self.encode(source), beam, source.get("memory"))

    def new_memory(self) -> History:
        """Return an empty history."""
        return History()

    @torch.no_grad()
    def remember(self, prev_output_tokens: Tensor, memory: History) -> None:
        """Put sentences and their translations in front of ``memory``."""
        encoded = memory.encoded
        if encoded is None:
            raise ValueError("the sentences have not been encoded with this memory")
        size = self.history_size
        source = PackedContext(encoded.states, encoded.layout.document_lengths)
        memory.source = [source, *memory.source][:size]
        if self.decoder.han is not None:
            target = self.decoder.states_without_context(prev_output_tokens, encoded)
            memory.target = [target, *memory.target][:size]
