"""HAN: hierarchical attention to the sentences before, on top of a sentence Transformer.

Miculicich, Ram, Pappas and Henderson, "Document-Level Neural Machine Translation with
Hierarchical Attention Networks", EMNLP 2018.

========  =============================================================================
§2.1-2.2  word level, sentence level, gate: :mod:`gtrans.modules.hierarchical_attention`
§2.3      on the encoder's last states (source sentences), on the decoder's (translations of
          the sentences before), or both: ``--han-side``
§3        k = 3 sentences before: ``context_size``
========  =============================================================================

What is attended to are the states that a sentence has by itself, without a context of its
own; so they are the same wherever a window begins, and a translation that is finished is
read once and then kept (:class:`History`). With the decoder's side a document is translated
sentence after sentence. Fused groups of the decoder attend to their own states, each to its own.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import torch
from fairseq.data import Dictionary
from fairseq.dataclass import ChoiceEnum
from torch import Tensor, nn

from gtrans.data.unit_options import option
from gtrans.errors import GtransError
from gtrans.models.base.decoder import Decoder
from gtrans.models.base.encoder import Encoder, EncoderOutput, StackDesign
from gtrans.models.base.model import SentenceTransformer
from gtrans.models.base.options import TransformerConfig, sizes
from gtrans.models.base.planning import Planner, joined, lengths_without_end, plan_of
from gtrans.models.base.presets import register_system
from gtrans.modules.context_attention import PackedContext
from gtrans.modules.decode_state import DecodeState
from gtrans.modules.group_attention import (
    BatchPlan,
    DocumentLayout,
    Entries,
    Ints,
    Segments,
)
from gtrans.modules.hierarchical_attention import (
    HierarchicalAttention,
    SentencesBefore,
    sentences_before,
)

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
        source: the encoder's states of each sentence.
        target: the decoder's states of its translation, those of a word's groups one after the
            other.
        encoded: the current sentences by themselves, until their translation is known.
    """

    source: list[PackedContext] = field(default_factory=list)
    target: list[PackedContext] = field(default_factory=list)
    encoded: EncoderOutput | None = None

    def following(self, documents: Tensor) -> "History":
        """What enters the next sentences of these documents."""
        source = [sentence.chosen(documents) for sentence in self.source]
        return History(source, [sentence.chosen(documents) for sentence in self.target])

    @classmethod
    def joined(cls, histories: Sequence["History"]) -> "History":
        """Those of documents that have as many sentences before the current one."""
        source, target = (
            [PackedContext.joined(places) for places in zip(*sides, strict=True)]
            for sides in ([one.source for one in histories], [one.target for one in histories])
        )
        return cls(source, target)


class HanPlanner(Planner):
    """Plans with the sentences before the last one of every row."""

    def of_source(self, source: Mapping[str, Tensor]) -> Entries:
        """As in the base class, with the layout of the ``rows`` that are read."""
        layout = self.source_layout(source["src_tokens"])
        encoded = layout
        if not self.further["keeps_window"]:
            last = layout.sentence_counts.cumsum(0) - 1
            encoded = DocumentLayout.of_rows(layout.sentence_lengths[last])
        before = in_window(layout, layout.sentence_lengths, self.shapes)
        further: dict[str, Any] = {"current": current_tokens(layout), "encoder_before": before}
        layouts = {"rows": layout, "source": encoded}
        return joined(self.of_rows(layout), plan_of(layouts, {}, **further))

    def further_of_target(self, layout: DocumentLayout, tokens: Tensor) -> dict[str, Any]:
        """Of a decoder that attends to them the words of sentences, and who attends to which."""
        if self.shares_prefixes:
            return {}
        words = lengths_without_end(layout, tokens, self.eos, layout.sentence_lengths)
        before = in_window(layout, words, self.shapes)
        return {"words": words, "current_words": current_tokens(layout), "decoder_before": before}


class HanEncoder(Encoder):
    """The sentence Transformer's encoder with hierarchical attention on top.

    Attributes:
        han: None where the encoder's side has none.
        keeps_window: the decoder reads the whole window, not only its last sentence.
    """

    def __init__(
        self, cfg: Any, dictionary: Dictionary, embed_tokens: nn.Embedding, design: StackDesign
    ) -> None:
        super().__init__(cfg, dictionary, embed_tokens, design)
        self.keeps_window = cfg.context_sides == "history"
        self.han: HierarchicalAttention | None = None

    def forward(  # type: ignore[override]
        self,
        src_tokens: Tensor,
        src_lengths: Tensor | None = None,
        *,
        memory: History | None = None,
        return_all_layers: bool = False,
        plan: BatchPlan | None = None,
    ) -> EncoderOutput:
        """Encode windows, whose last sentence is the current one, or sentences with a history.

        Args:
            src_tokens: ``(batch, length)``, padded on either side.
            src_lengths: unused.
            memory: the sentences before each row, if rows are single sentences.
            return_all_layers: put the outputs of all layers into ``layers``.
            plan: of the rows; None: it is made now.
        """
        if plan is None:
            plan = self.planned({"src_tokens": src_tokens})
        rows = replace(plan, layouts={"source": plan.layouts["rows"]})
        encoded = super().forward(src_tokens, return_all_layers=return_all_layers, plan=rows)
        current = plan.further["current"]
        h = refined = encoded.states[current]
        if memory is not None:
            memory.encoded = encoded
        if self.han is not None and memory is None:
            before = SentencesBefore.of(plan.further["encoder_before"])
            refined = self.han(h, encoded.states, before)
        elif self.han is not None and memory is not None:
            # The words of a document read its history as hypotheses do, each by itself.
            padded, layout = encoded.layout.align(h), encoded.layout
            sources = [self.han.sources(sentence) for sentence in memory.source]
            read = self.han.step(padded.flatten(0, 1), sources).view_as(padded)
            refined = read[layout.row, layout.position]
        if self.keeps_window or memory is not None:
            states = encoded.states.index_copy(0, current, refined)
            return replace(encoded, states=states)
        return EncoderOutput(refined, plan.layouts["source"], None, encoded.layers)


class HanDecoder(Decoder):
    """The sentence Transformer's decoder with hierarchical attention on top.

    Attributes:
        han: None where the decoder's side has none.
    """

    def __init__(
        self, cfg: Any, dictionary: Dictionary, embed_tokens: nn.Embedding, design: StackDesign
    ) -> None:
        super().__init__(cfg, dictionary, embed_tokens, design)
        self.han: HierarchicalAttention | None = None

    def states(
        self,
        prev_output_tokens: Tensor,
        encoder_out: EncoderOutput,
        memory: Any = None,
        layers: list[Tensor] | None = None,
        plan: BatchPlan | None = None,
    ) -> tuple[Tensor, DocumentLayout]:
        """As in the base class; the last sentence of every row has seen those before it."""
        if plan is None:
            plan = self.planned(prev_output_tokens, encoder_out)
        features, layout = super().states(prev_output_tokens, encoder_out, None, layers, plan)
        if self.han is None:
            return features, layout
        before = SentencesBefore.of(plan.further["decoder_before"])
        current = plan.further["current_words"]
        refined = [self.han(h[current], h, before) for h in features]
        return features.index_copy(1, current, torch.stack(refined)), layout

    def by_themselves(
        self, prev_output_tokens: Tensor, encoder_out: EncoderOutput
    ) -> PackedContext:
        """The states of finished translations, one a row, as later sentences attend to them.

        Those of the groups of a word ``(groups * dim,)`` stand one after the other.
        """
        plan = self.planned(prev_output_tokens, encoder_out)
        words = plan.further["words"]
        features, layout = super().states(prev_output_tokens, encoder_out, plan=plan)
        real = layout.position < words[layout.row]
        return PackedContext(features[:, real].transpose(0, 1).flatten(1), words)

    def begin(self, encoder_out: EncoderOutput, beam: int, memory: Any = None) -> DecodeState:
        """As in the base class, with the history of every row, if there is one."""
        state = super().begin(encoder_out, beam)
        if self.han is not None and memory is not None:
            state.further_sources = [self.han.sources(sentence) for sentence in memory.target]
        return state

    def step_states(self, tokens: Tensor, opens: Tensor, state: DecodeState) -> Tensor:
        """As in the base class; the states have seen the history."""
        features = super().step_states(tokens, opens, state)
        if self.han is None:
            return features
        refined = [self.han.step(h, state.further_sources, n) for n, h in enumerate(features)]
        return torch.stack(refined)


@register_system("han_transformer", HanTransformerConfig, PRESETS)
class HanTransformer(SentenceTransformer):
    """HAN: the last states attend to the words of earlier sentences, then to the sentences."""

    encoder: HanEncoder
    decoder: HanDecoder
    encoder_type = HanEncoder
    decoder_type = HanDecoder
    planner_type = HanPlanner
    units = ("window", "sentence")
    context_sides = ("history", "source")
    context_size = (3, 0)
    history_size = 0

    @classmethod
    def check(cls, cfg: Any, task: Any) -> None:
        """Raises GtransError for options that contradict each other."""
        super().check(cfg, task)
        if cfg.unit == "window" and cfg.context_after:
            raise GtransError(
                f"`--context-after` must be 0 for HAN, which reads the sentences before, but is "
                f"{cfg.context_after}."
            )
        if cfg.unit == "window" and cfg.context_sides == "source" and cfg.han_side != "encoder":
            raise GtransError(
                f"`--han-side {cfg.han_side}` reads earlier translations, which `--context-sides "
                "source` leaves out; give --context-sides history, or --han-side encoder."
            )

    def add_parts(self, cfg: Any) -> None:
        """Hierarchical attention, unless sentences are read by themselves."""
        if cfg.unit != "window":
            return
        self.history_size = int(cfg.context_before)
        for side, stack in (("encoder", self.encoder), ("decoder", self.decoder)):
            if cfg.han_side in ("both", side):
                stack.han = HierarchicalAttention(self.layer_spec(cfg, side))

    def new_planner(self, **further: Any) -> Planner:
        """As in the base class, with ``keeps_window``."""
        return super().new_planner(keeps_window=self.encoder.keeps_window, **further)

    @property
    def shares_prefixes(self) -> bool:
        """Not where a translation attends to other sentences of its row."""
        return self.decoder.han is None

    def begin_decoding(self, source: Mapping[str, Any], beam: int) -> DecodeState:
        """Encode rows; ``source["memory"]`` is the :class:`History` of single sentences."""
        return self.decoder.begin(self.encode(source), beam, source.get("memory"))

    def new_memory(self) -> History:
        """Nothing comes before the first sentence."""
        return History()

    @torch.no_grad()
    def remember(self, prev_output_tokens: Tensor, memory: History) -> None:
        """Put the sentences with their finished translations in front of ``memory``."""
        encoded = memory.encoded
        if encoded is None:
            raise ValueError("the sentences have not been encoded with this memory")
        source = PackedContext(encoded.states, encoded.layout.document_lengths)
        memory.source = [source, *memory.source][: self.history_size]
        if self.decoder.han is not None:
            target = self.decoder.by_themselves(prev_output_tokens, encoded)
            memory.target = [target, *memory.target][: self.history_size]


def current_tokens(layout: DocumentLayout) -> Tensor:
    """The tokens of the last sentence of every row."""
    last = layout.sentence_counts[layout.row] - 1
    return layout.sentence.eq(last).nonzero().squeeze(1)


def in_window(layout: DocumentLayout, words: Tensor, shapes: str) -> Entries:
    """The sentences before the last one of every row, by distance.

    ``words (sentences,)``: how many tokens of each are attended to. See
    :class:`gtrans.modules.hierarchical_attention.SentencesBefore`.
    """
    counts, starts = layout.sentence_counts.numpy(), layout.sentence_starts.numpy()
    last = counts.cumsum() - 1
    before: list[tuple[Ints, Segments]] = []
    for distance in range(1, layout.most_sentences):
        rows = np.flatnonzero(counts > distance)
        sentences = last[rows] - distance
        before.append((rows, Segments(starts[sentences], words.numpy()[sentences])))
    return sentences_before(layout.sentence_lengths.numpy()[last], before, layout.tokens, shapes)
