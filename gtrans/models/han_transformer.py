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
from dataclasses import dataclass, field
from typing import Any, Optional

import torch
from fairseq.data import Dictionary
from fairseq.dataclass import ChoiceEnum
from torch import Tensor, nn

from gtrans.data.unit_options import option
from gtrans.errors import GtransError
from gtrans.models.base.decoder import Decoder
from gtrans.models.base.encoder import Encoder, StackDesign
from gtrans.models.base.model import SentenceTransformer
from gtrans.models.base.options import TransformerConfig, sizes
from gtrans.models.base.planning import Needs, SourcePlanner, TargetPlanner, planned
from gtrans.models.base.presets import register_system
from gtrans.modules.attention_plans import AttentionPlans
from gtrans.modules.context_attention import PackedContext
from gtrans.modules.decode_state import DecodeState
from gtrans.modules.encoder_output import EncoderOutput
from gtrans.modules.hierarchical_attention import HierarchicalAttention, SentencesBefore
from gtrans.modules.layout import DocumentLayout, Segments

SIDES = ("both", "encoder", "decoder")


@dataclass
class HanTransformerConfig(TransformerConfig):
    """Hierarchical attention."""

    han_side: ChoiceEnum(list(SIDES)) = option(  # type: ignore[valid-type]
        "both", "side whose states attend to the sentences before"
    )
    han_gate_bias: Optional[float] = option(
        None,
        "gates begin at sigmoid(BIAS) on the sentence's own side whatever the input, so that a "
        "large value starts as the sentence model (default: random gates)",
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


@dataclass
class HanPlan:
    """The plan of rows whose last sentences attend to those before them.

    Attributes:
        plans: of the Transformer below.
        current: ``(tokens,)`` the tokens of the last sentences.
        asking: their runs.
        before: the sentences before them, if those are in the rows.
        encoded: the layout of the encoder's output.
    """

    plans: AttentionPlans
    current: Tensor
    asking: Segments
    before: SentencesBefore
    encoded: DocumentLayout
    context: PackedContext | None = None


def _han_plan(
    plans: AttentionPlans, layout: DocumentLayout, words: Tensor, needs: Needs, whole: bool
) -> HanPlan:
    """``words (sentences,)``: how many tokens of each may be attended to."""
    current, asking = last_sentences(layout)
    before = SentencesBefore(
        asking, in_window(layout, words), layout.tokens, needs.shapes, needs.backend
    )
    encoded = layout if whole else DocumentLayout.of_rows(asking.lengths)
    return HanPlan(plans, current, asking, before, encoded)


@dataclass(frozen=True)
class HanPlanner(SourcePlanner):
    """Plans windows, whose last sentence is the current one, or sentences.

    Attributes:
        keeps_window: see :class:`HanEncoder`.
    """

    keeps_window: bool

    def __call__(self, source: Mapping[str, Any]) -> HanPlan:
        """See the base class."""
        plans = self.of_tokens(source["src_tokens"])
        layout = plans.source
        words = layout.sentences.lengths
        return _han_plan(plans, layout, words, self.needs, self.keeps_window)


class HanTargetPlanner(TargetPlanner):
    """Plans the translations of windows or of sentences."""

    def __call__(
        self,
        tokens: Tensor,
        source: DocumentLayout,
        context: PackedContext | None,
        source_of_row: Tensor | None = None,
    ) -> Any:
        """As in the base class, a :class:`HanPlan`."""
        plans = super().__call__(tokens, source, context, source_of_row)
        words = self.lengths_without_end(plans.words, tokens)
        return _han_plan(plans, plans.words, words, self.needs, whole=True)


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
        plan: HanPlan | None = None,
    ) -> EncoderOutput:
        """Encode windows, whose last sentence is the current one, or sentences with a history.

        Args:
            src_tokens: ``(batch, length)``, padded on either side.
            src_lengths: unused.
            memory: the sentences before each row, if rows are single sentences.
            return_all_layers: put the outputs of all layers into ``layers``.
        """
        if plan is None:
            plan = self.plan({"src_tokens": src_tokens})
        encoded = super().forward(src_tokens, return_all_layers=return_all_layers, plan=plan.plans)
        layout, before, keys = encoded.layout, plan.before, encoded.states
        h = encoded.states[plan.current]
        if memory is not None:
            memory.encoded = encoded
            before, keys = self._from_history(memory.source, plan.asking, encoded.states)
        refined = h if self.han is None else self.han(h, keys, before)
        if self.keeps_window or memory is not None:
            states = encoded.states.index_copy(0, plan.current, refined)
            return EncoderOutput(states, layout, encoded.order, encoded.layers)
        return EncoderOutput(refined, plan.encoded, None, encoded.layers)

    @property
    def planner(self) -> "HanPlanner":
        """Makes the plan of windows or of sentences."""
        base: SourcePlanner = super().planner
        return HanPlanner(base.pad, base.closing, base.needs, self.keeps_window)

    def _from_history(
        self, sentences: Sequence[PackedContext], asking: Segments, like: Tensor
    ) -> tuple[SentencesBefore, Tensor]:
        """Of single sentences: what comes before them, and the states in which it stands."""
        needs = self.planner.needs

        def plan(asking: Segments, lengths: list[Tensor]) -> SentencesBefore:
            before, start = from_history(lengths)
            return SentencesBefore(asking, before, start, needs.shapes, needs.backend)

        lengths = [sentence.lengths for sentence in sentences]
        before = planned(plan, like.device, asking, lengths)
        return before, torch.cat([like[:0], *(sentence.states for sentence in sentences)])


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
        plan: Any = None,
    ) -> tuple[Tensor, DocumentLayout]:
        """As in the base class; the last sentence of every row has seen those before it."""
        if self.han is None:
            return super().states(prev_output_tokens, encoder_out, None, layers, plan)
        if plan is None:
            plan = self.plan(prev_output_tokens, encoder_out)
        features, layout = super().states(prev_output_tokens, encoder_out, None, layers, plan.plans)
        refined = [self.han(h[plan.current], h, plan.before) for h in features]
        return features.index_copy(1, plan.current, torch.stack(refined)), layout

    @property
    def planner(self) -> TargetPlanner:
        """Makes the plan of the decoder's input."""
        base = super().planner
        if self.han is None:
            return base
        return HanTargetPlanner(base.pad, base.opening, base.eos, base.needs)

    def by_themselves(
        self, prev_output_tokens: Tensor, encoder_out: EncoderOutput
    ) -> PackedContext:
        """The states of finished translations, one a row, as later sentences attend to them.

        Those of the groups of a word ``(groups * dim,)`` stand one after the other.
        """
        base = super().planner
        plans, words = planned(
            base.with_words,
            prev_output_tokens.device,
            prev_output_tokens,
            encoder_out.layout,
        )
        features, layout = super().states(prev_output_tokens, encoder_out, plan=plans)
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
                stack.han = HierarchicalAttention(self.layer_spec(cfg, side), cfg.han_gate_bias)

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
        source = PackedContext(encoded.states, encoded.layout.documents.lengths)
        target = self.decoder.by_themselves(prev_output_tokens, encoded)
        memory.source = [source, *memory.source][: self.history_size]
        memory.target = [target, *memory.target][: self.history_size]


def last_sentences(layout: DocumentLayout) -> tuple[Tensor, Segments]:
    """The tokens of the last sentence of every row, and its runs in them."""
    last = layout.sentence_counts[layout.row] - 1
    lengths = layout.sentences.lengths[layout.sentence_counts.cumsum(0) - 1]
    tokens = layout.sentence.eq(last).nonzero().squeeze(1)
    return tokens, Segments(lengths.cumsum(0) - lengths, lengths)


def in_window(layout: DocumentLayout, words: Tensor) -> list[tuple[Tensor, Segments]]:
    """The sentences before the last one of every row, by distance.

    ``words (sentences,)``: how many tokens of each are attended to. See
    :class:`gtrans.modules.hierarchical_attention.SentencesBefore`.
    """
    last = layout.sentence_counts.cumsum(0) - 1
    before = []
    for distance in range(1, int(layout.sentence_counts.max())):
        rows = (layout.sentence_counts > distance).nonzero().squeeze(1)
        sentences = last[rows] - distance
        before.append((rows, Segments(layout.sentences.starts[sentences], words[sentences])))
    return before


def from_history(lengths: Sequence[Tensor]) -> tuple[list[tuple[Tensor, Segments]], int]:
    """The same of single sentences: all rows have equally many before them.

    ``lengths``: for each distance from 1 the tokens ``(rows,)`` of the sentences so far before.

    Returns:
        what comes before, and how many tokens that is.
    """
    before, start = [], 0
    for of_sentence in lengths:
        runs = Segments(of_sentence.cumsum(0) - of_sentence + start, of_sentence)
        before.append((torch.arange(len(of_sentence)), runs))
        start += int(of_sentence.sum())
    return before, start
