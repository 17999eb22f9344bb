"""A Transformer whose layers attend to a context that another encoder has encoded.

Guo Zhiyu, "Incorporating BERT into Document-Level Neural Machine Translation", master's thesis,
2021: frozen BERT reads ``[CLS] context [SEP] sentence [SEP]``; its last hidden layer C_B is
attended to in every layer of a sentence Transformer.

===============  =====================================================================
§3.3             C_B: :class:`gtrans.modules.bert.FrozenBert`; the task computes it and
                 passes it in (``context_states``); it is not part of the model
Eq 3.4-3.5       :class:`gtrans.modules.context_attention.ContextAttention` next to
                 self-attention in the encoder (Eq 3.4 is inferred)
Eq 3.8-3.10      the same next to cross-attention in the decoder
§3.6             training in two steps: ``--init-from`` a sentence model
C_B, whitened    not in the thesis, which is ``--raw-bert-states``; context attention learns
                 several times as fast: :mod:`gtrans.modules.whitening`
Eq 2.11-2.17     BERT-fused with drop-net (Zhu et al. 2020): ``--combine mean``
===============  =====================================================================

The document-aware Transformer (Zhang et al. 2018) is the same model with a trained context
encoder (``--context-layers`` above 0), which reads the embedded words of the context
(``--context-input words``) or BERT's output (``--context-input bert``).
"""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, ClassVar, Optional

import torch
import torch.nn.functional as F
from fairseq.dataclass import ChoiceEnum
from torch import Tensor, nn

from gtrans.data.unit_options import option
from gtrans.errors import GtransError
from gtrans.models.base.decoder import Decoder
from gtrans.models.base.encoder import Encoder
from gtrans.models.base.model import BERT_FEATURES, DocumentModel
from gtrans.models.base.options import UnitTransformerConfig, sizes
from gtrans.models.base.parts.context import (
    INTEGRATIONS,
    ContextConfig,
    add_context_attention,
    check_context,
)
from gtrans.models.base.planning import BatchPlanner, Needs, SourcePlanner
from gtrans.models.base.presets import register_system, resolve_sizes, size_option
from gtrans.modules.attention_plans import AttentionPlans
from gtrans.modules.context_attention import PackedContext
from gtrans.modules.encoder_output import EncoderOutput
from gtrans.modules.layout import DocumentLayout, chosen_index, taken
from gtrans.modules.linear import Linear
from gtrans.modules.transformer import EncoderLayer, LayerSpec
from gtrans.modules.whitening import Whitening

__all__ = ["CONTEXT_INPUTS", "INTEGRATIONS", "BertContextTransformer", "ContextEncoder"]

CONTEXT_INPUTS = ("bert", "words")


@dataclass
class BertContextConfig(ContextConfig, UnitTransformerConfig):
    """Options of :class:`BertContextTransformer`."""

    raw_bert_states: bool = option(
        False,
        "attend to BERT's output as it is, as in the thesis and in BERT-fused, instead of whitened",
    )
    context_input: Optional[ChoiceEnum(list(CONTEXT_INPUTS))] = size_option(  # type: ignore[valid-type]
        "how the context is read: bert: the output of frozen BERT; words: those of the neighbours, "
        "embedded"
    )
    context_layers: Optional[int] = size_option(
        "trained layers of the context encoder: 0 for BERT alone, 1 for the document-aware "
        "Transformer"
    )
    bert_dim: Optional[int] = option(None, "set by the task")
    bert_fingerprint: Optional[str] = option(None, "set by the task")


BERT = {"context_input": "bert", "context_layers": 0}
WORDS = {"context_input": "words", "context_layers": 1}
PRESETS = {
    "bert_context_transformer": {**sizes(4, 512, 2048, 8), **BERT},
    "bert_context_transformer_tiny": {**sizes(4, 256, 1024, 4), **BERT},
    "bert_context_transformer_base": {**sizes(4, 512, 2048, 8), **BERT},
    "document_aware_transformer_tiny": {**sizes(4, 256, 1024, 4), **WORDS},
    "document_aware_transformer_base": {**sizes(4, 512, 2048, 8), **WORDS},
}


@dataclass
class ContextPlan:
    """The plan of sentences and of their contexts.

    Attributes:
        sentences: of the sentences to translate.
        current: ``(batch, length)`` their tokens in the windows
            (:func:`gtrans.modules.layout.chosen_index`); None: rows are sentences already.
        neighbours: the tokens of their neighbours, if the context is read as words.
        layers: of the context encoder; None: there is none.
        context: lengths of the contexts; None: there are none.
    """

    sentences: AttentionPlans
    current: Tensor | None
    neighbours: Tensor | None
    layers: AttentionPlans | None
    context: PackedContext | None

    @property
    def encoded(self) -> DocumentLayout:
        """The layout of the encoder's output."""
        return self.sentences.source


@dataclass(frozen=True)
class ContextPlanner:
    """Plans windows, or sentences if there is no ``current``.

    Attributes:
        sentences: plans the sentences to translate.
        reads: what is read of the context, one of :data:`CONTEXT_INPUTS`; None: nothing.
        layers: what the layers of the context encoder ask for; None: there is none.
        eos: ends the sentences of the context, and stands for one that is missing.
    """

    sentences: SourcePlanner
    reads: Optional[str]
    layers: Needs | None
    eos: int

    def __call__(self, source: Mapping[str, Any]) -> ContextPlan:
        """The plan of ``net_input`` without decoder input, on the host."""
        tokens, pad = source["src_tokens"], self.sentences.pad
        current = layout = None
        is_neighbour = torch.zeros_like(tokens, dtype=torch.bool)
        sentences = tokens
        if "current" in source:
            window = self.sentences.layout(tokens)
            is_current = window.sentence.eq(source["current"][window.row])
            in_window = window.pad(is_current.long()).bool()
            is_neighbour = tokens.ne(pad) & ~in_window
            current = chosen_index(in_window)
            sentences = taken(tokens, current, pad)
        neighbours = None
        if self.reads == "words":
            # Room for `</s>` in rows without neighbours.
            neighbours = F.pad(chosen_index(is_neighbour), (0, 1), value=-1)
            neighbours = neighbours[:, : max(neighbours.size(1) - 1, 1)]
            words = neighbours_of(tokens, neighbours, pad, self.eos)
            layout = DocumentLayout.of_source(words, pad, self.eos)
        elif self.reads == "bert" and "context_lengths" in source:
            layout = DocumentLayout.of_rows(source["context_lengths"])
        context = layers = None
        if layout is not None:
            context = PackedContext.of_lengths(layout.documents.lengths)
            if self.layers is not None:
                plans = AttentionPlans(layout, shapes=self.layers.shapes)
                layers = self.layers.complete(plans, layout)
        plan = self.sentences.of_tokens(sentences, context)
        return ContextPlan(plan, current, neighbours, layers, context)


def neighbours_of(tokens: Tensor, index: Tensor, pad: int, eos: int) -> Tensor:
    """The words at ``index`` (:func:`gtrans.modules.layout.chosen_index`); ``</s>`` if none."""
    words = taken(tokens, index, pad)
    first = torch.arange(words.size(1), device=words.device) == 0
    return torch.where(words.eq(pad) & first, eos, words)


class ContextEncoder(nn.Module):
    """Trained layers of self-attention over the context of a row."""

    def __init__(self, spec: LayerSpec, layers: int, input_dim: int) -> None:
        super().__init__()
        self.project = Linear(input_dim, spec.dim) if input_dim != spec.dim else None
        self.layers = nn.ModuleList(EncoderLayer(spec, "global") for _ in range(layers))
        self.layer_norm = spec.norm() if spec.pre_norm else None

    def forward(self, x: Tensor, plans: AttentionPlans) -> Tensor:
        """``(context tokens, input dim) -> (context tokens, dim)``."""
        if self.project is not None:
            x = self.project(x)
        for layer in self.layers:
            x = layer(x, plans)
        return x if self.layer_norm is None else self.layer_norm(x)


@register_system("bert_context_transformer", BertContextConfig, PRESETS)
class BertContextTransformer(DocumentModel):
    """BERT-context Transformer: a frozen BERT, or a trained encoder, reads the context."""

    units = ("window", "sentence")
    context_sides: ClassVar[tuple[str, ...]] = ("source",)

    def __init__(self, encoder: Encoder, decoder: Decoder) -> None:
        super().__init__(encoder, decoder)
        self.context_input = "bert"
        self.context_encoder: ContextEncoder | None = None
        self.whitening: Whitening | None = None

    @classmethod
    def bert_use(cls, cfg: Any) -> str | None:
        """The output of the frozen BERT, unless the context is read as words or not at all."""
        cfg = resolve_sizes(cfg, cls.options, cls.presets)
        reads_bert = cfg.bert_integration != "none" and cfg.context_input == "bert"
        return BERT_FEATURES if reads_bert else None

    @classmethod
    def check(cls, cfg: Any, task: Any) -> None:
        """Raises GtransError for options that contradict each other."""
        super().check(cfg, task)
        check_context(cfg)
        least = 1 if cfg.context_input == "words" else 0
        if cfg.context_layers < least:
            raise GtransError(
                f"`--context-layers` must be at least {least} with --context-input "
                f"{cfg.context_input}, but is {cfg.context_layers}."
            )

    def add_parts(self, cfg: Any) -> None:
        """Add the context encoder and context attention."""
        if cfg.bert_integration == "none":
            return
        spec = self.layer_spec(cfg, "encoder")
        width = spec.dim if cfg.context_input == "words" else int(cfg.bert_dim)
        self.context_input = str(cfg.context_input)
        if self.context_input == "bert":
            self.whitening = Whitening(width, cfg.raw_bert_states)
        if cfg.context_layers:
            self.context_encoder = ContextEncoder(spec, cfg.context_layers, width)
            width = spec.dim
        add_context_attention(self, cfg, width)

    @property
    def bert_whitening(self) -> Whitening | None:
        """The map that whitens BERT's output before it is attended to."""
        return self.whitening

    def encode(self, source: Mapping[str, Any]) -> EncoderOutput:
        """The encoded sentences with their contexts.

        Args:
            source: ``src_tokens (batch, length)`` windows or sentences, padded on the right;
                for windows ``current (batch,)``; if a BERT is read, ``context_states (context
                tokens, BERT's width)``, the features of all rows one after the other without
                padding, and ``context_lengths (batch,)``, how many of them each row has.
        """
        src_tokens: Tensor = source["src_tokens"]
        plan: ContextPlan = source.get("plan") or self.plan(source).source
        context = None
        if plan.context is not None:
            context = PackedContext(self._context_states(source, plan), plan.context.lengths)
        if plan.current is not None:
            src_tokens = taken(src_tokens, plan.current, self.encoder.dictionary.pad())
        encoded: EncoderOutput = self.encoder(src_tokens, context=context, plan=plan.sentences)
        return encoded

    def _context_states(self, source: Mapping[str, Any], plan: ContextPlan) -> Tensor:
        """``(context tokens, dim)``: what is attended to of the contexts of all rows."""
        if self.whitening is not None:
            states: Tensor = self.whitening(source["context_states"])
        else:
            states = self._embedded_words(source["src_tokens"], plan)
        if self.context_encoder is None or plan.layers is None:
            return states
        encoded: Tensor = self.context_encoder(states, plan.layers)
        return encoded

    def _embedded_words(self, src_tokens: Tensor, plan: ContextPlan) -> Tensor:
        """The embedded words of the neighbours: ``(context tokens, dim)``."""
        assert plan.neighbours is not None and plan.layers is not None
        dictionary = self.encoder.dictionary
        words = neighbours_of(src_tokens, plan.neighbours, dictionary.pad(), dictionary.eos())
        return self.encoder.embedded(words, plan.layers.source)

    @property
    def planner(self) -> BatchPlanner:
        """Makes the plans of sentences and of their contexts."""
        sentences = self.encoder.planner
        layers = None
        if self.context_encoder is not None:
            layers = replace(sentences.needs, kinds={"encoder": ("global",)}, context=False)
        eos = self.encoder.dictionary.eos()
        reads = "bert" if self.whitening is not None else None
        if self.context_input == "words":
            reads = "words"
        source = ContextPlanner(sentences, reads, layers, eos)
        return BatchPlanner(source, self.decoder.planner)
