"""A Transformer whose layers attend to a context, encoded by a frozen BERT or an own encoder.

Guo Zhiyu, "Incorporating BERT into Document-Level Neural Machine Translation", master's thesis,
2021.

===============  =====================================================================
§3.3             a frozen BERT reads ``[CLS] context [SEP] sentence [SEP]``; C_B, its last layer
                 (:class:`gtrans.modules.bert.FrozenBert`), is ``context_states``
Eq 3.4-3.5       :class:`gtrans.modules.transformer.ContextAttention` next to
                 self-attention in the encoder (Eq 3.4 is inferred)
Eq 3.8-3.10      the same next to cross-attention in the decoder
§3.6             training in two steps: ``--init-from`` a sentence model
C_B, whitened    not in the thesis (``--raw-bert-states``): :class:`gtrans.modules.bert.Whitening`
Eq 2.11-2.17     BERT-fused with drop-net (Zhu et al. 2020): ``--combine mean``
===============  =====================================================================

With a trained context encoder (``--context-layers``, ``--context-input``) it is the document-aware
Transformer (Zhang et al. 2018).
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Optional

import torch
import torch.nn.functional as F
from fairseq.dataclass import ChoiceEnum
from torch import Tensor, nn

from gtrans.errors import GtransError
from gtrans.models.base.decoder import Decoder
from gtrans.models.base.encoder import Encoder, EncoderOutput
from gtrans.models.base.model import BERT_FEATURES, DocumentModel, InputSpec
from gtrans.models.base.options import UnitTransformerConfig, size_option
from gtrans.models.base.planning import (
    Planner,
    chosen_index,
    self_plans,
    tokens_at,
)
from gtrans.models.base.presets import register_system, resolve_sizes, sizes
from gtrans.modules.bert import Whitening
from gtrans.modules.group_attention import DocumentLayout, Plan
from gtrans.modules.transformer import (
    COMBINATIONS,
    PLACES,
    ContextAttention,
    EncoderLayer,
    LayerInputs,
    LayerSpec,
    Linear,
    MultiheadAttention,
    PackedContext,
)
from gtrans.option_types import START, option

CONTEXT_INPUTS = ("bert", "words")
INTEGRATIONS = ("both", "encoder", "decoder", "none")


@dataclass
class ContextConfig:
    """Context attention."""

    bert_integration: ChoiceEnum(list(INTEGRATIONS)) = option(  # type: ignore[valid-type]
        "both", "which layers attend to the context (table 5.3)"
    )
    combine: ChoiceEnum(list(COMBINATIONS)) = option(  # type: ignore[valid-type]
        "gate",
        "how a layer combines its own attention with context attention: gate: by context gates "
        "(paper); mean: by their mean (BERT-fused)",
    )
    context_place: ChoiceEnum(list(PLACES)) = option(  # type: ignore[valid-type]
        "beside",
        "where a layer has context attention: beside: on the queries of its self-attention or "
        "cross-attention (thesis); behind: on the output of self-attention (Zhang et al. 2018)",
    )
    drop_net: float = option(
        1.0, "with --combine mean: how often training uses only one of the two attentions"
    )
    context_gate_bias: Optional[float] = option(
        None,
        "context gates begin at sigmoid(BIAS) on the side of the layer's own attention, so that a "
        "large value starts as the sentence model (default: random gates)",
        START,
    )


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


def neighbours_of(tokens: Tensor, index: Tensor, pad: int, eos: int) -> Tensor:
    """Return the words at ``index``; a row without any gets ``</s>``."""
    words = tokens_at(tokens, index, pad)
    is_first = torch.arange(words.size(1), device=words.device) == 0
    is_empty_row = words.eq(pad) & is_first
    return torch.where(is_empty_row, eos, words)


class ContextEncoder(nn.Module):
    """Trained layers of self-attention over contexts."""

    def __init__(self, spec: LayerSpec, layers: int, input_dim: int) -> None:
        super().__init__()
        self.project = Linear(input_dim, spec.dim) if input_dim != spec.dim else None
        self.layers = nn.ModuleList(EncoderLayer(spec, "global") for _ in range(layers))
        self.layer_norm = spec.norm() if spec.pre_norm else None

    def forward(self, x: Tensor, inputs: LayerInputs) -> Tensor:
        """Map ``(context tokens, input dim)`` to ``(context tokens, dim)``."""
        if self.project is not None:
            x = self.project(x)
        for layer in self.layers:
            x = layer(x, inputs)
        return x if self.layer_norm is None else self.layer_norm(x)


@dataclass(frozen=True, kw_only=True)
class ContextPlanner(Planner):
    """Plans windows, or sentences if a batch has no ``current_sentence``.

    Attributes:
        context_input: one of :data:`CONTEXT_INPUTS`; None: no layer attends to a context.
    """

    context_input: str | None = None

    def source(self, net_input: Mapping[str, Any]) -> Plan:
        """Return the encoder's part of a plan.

        Windows add ``current``, the places of the tokens of current sentences
        (:func:`gtrans.models.base.planning.chosen_index`), and ``neighbours``, the places of the
        others. A context adds ``context_layout``, ``context_lengths (batch,)``, and ``in_context``,
        the plans of its own attention.
        """
        tokens = net_input["src_tokens"]
        plan = Plan()
        is_neighbour = torch.zeros_like(tokens, dtype=torch.bool)
        sentences = tokens
        if "current_sentence" in net_input:
            is_current = self._in_current_sentence(tokens, net_input["current_sentence"])
            is_neighbour = tokens.ne(self.pad) & ~is_current
            plan["current"] = chosen_index(is_current)
            sentences = tokens_at(tokens, plan["current"], self.pad)
        layout = self.source_layout(sentences)
        if self.context_input == "words":
            index = chosen_index(is_neighbour)
            if index.size(1) == 0:  # room for `</s>`
                index = F.pad(index, (0, 1), value=-1)
            plan["neighbours"] = index
            words = neighbours_of(tokens, index, self.pad, self.eos)
            context_layout = DocumentLayout.of_source(words, self.pad, self.eos)
        elif self.context_input == "bert" and "context_lengths" in net_input:
            context_layout = DocumentLayout.of_rows(net_input["context_lengths"])
        else:
            return plan | self.source_rows(layout)
        context_lengths = context_layout.document_lengths
        plan |= self.source_rows(layout, context_lengths)
        plan["context_layout"] = context_layout
        plan["in_context"] = self_plans(context_layout, ("global",), self.shapes)
        plan["context_lengths"] = context_lengths
        return plan

    def _in_current_sentence(self, tokens: Tensor, current_sentence: Tensor) -> Tensor:
        """Return ``(batch, length)`` whether a token is in the current sentence."""
        window = self.source_layout(tokens)
        is_current = window.sentence.eq(current_sentence[window.row])
        return window.pad(is_current.long()).bool()


@register_system("bert_context_transformer", BertContextConfig, PRESETS)
class BertContextTransformer(DocumentModel):
    """BERT-context Transformer: a frozen BERT, or a trained encoder, encodes the context."""

    planner_type = ContextPlanner
    inputs = InputSpec(units=("window", "sentence"), context_sides=("source",))

    def __init__(self, encoder: Encoder, decoder: Decoder) -> None:
        super().__init__(encoder, decoder)
        self.context_input = "bert"
        self.context_encoder: ContextEncoder | None = None
        self.whitening: Whitening | None = None

    @classmethod
    def bert_use(cls, cfg: Any) -> str | None:
        """Return ``BERT_FEATURES`` if layers attend to BERT."""
        cfg = resolve_sizes(cfg, cls.options, cls.presets)
        reads_bert = cfg.bert_integration != "none" and cfg.context_input == "bert"
        return BERT_FEATURES if reads_bert else None

    @classmethod
    def check(cls, cfg: Any, task: Any) -> None:
        """Raise GtransError for options that contradict each other."""
        super().check(cfg, task)
        if not 0 <= cfg.drop_net <= 1:
            raise GtransError(f"`--drop-net` must be between 0 and 1, but is {cfg.drop_net}.")
        least = 1 if cfg.context_input == "words" else 0
        if cfg.context_layers < least:
            raise GtransError(
                f"`--context-layers` must be at least {least} with --context-input "
                f"{cfg.context_input}, but is {cfg.context_layers}."
            )

    def add_parts(self, cfg: Any) -> None:
        """Add the context encoder, and context attention to the chosen layers."""
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
        for side in ("encoder", "decoder"):
            if cfg.bert_integration not in ("both", side):
                continue
            layers: Any = getattr(self, side).layers
            for layer in layers:
                layer.context_attn = _context_attention(cfg, side, layer.spec, width)

    @property
    def bert_whitening(self) -> Whitening | None:
        """The map that whitens BERT's output."""
        return self.whitening

    def encode(self, source: Mapping[str, Any]) -> EncoderOutput:
        """Encode sentences with their contexts.

        ``source``: ``src_tokens (batch, length)`` windows or sentences, padded on the right; for
        windows ``current_sentence (batch,)``; with a BERT ``context_states (context tokens,
        width)`` and ``context_lengths (batch,)``.
        """
        src_tokens: Tensor = source["src_tokens"]
        plan: Plan = source.get("plan") or self.planner.on_device(source)
        context = None
        if "context_lengths" in plan:
            states = self._context_states(source, plan)
            context = PackedContext(states, plan["context_lengths"])
        if "current" in plan:
            src_tokens = tokens_at(src_tokens, plan["current"], self.encoder.frame.pad)
        encoded: EncoderOutput = self.encoder(src_tokens, context=context, plan=plan)
        return encoded

    def _context_states(self, source: Mapping[str, Any], plan: Plan) -> Tensor:
        if self.whitening is not None:
            states: Tensor = self.whitening(source["context_states"])
        else:
            frame = self.encoder.frame
            words = neighbours_of(source["src_tokens"], plan["neighbours"], frame.pad, frame.eos)
            states = self.encoder.embedded(words, plan["context_layout"])
        if self.context_encoder is not None:
            states = self.context_encoder(states, LayerInputs(plan["in_context"], {}))
        return states

    def new_planner(self, **further: Any) -> Planner:
        """Add the input of the context encoder."""
        reads_context = self.whitening is not None or self.context_input == "words"
        context_input = self.context_input if reads_context else None
        return super().new_planner(context_input=context_input, **further)


def _context_attention(cfg: Any, side: str, spec: LayerSpec, width: int) -> ContextAttention:
    attention = MultiheadAttention(spec.dim, spec.heads, spec.attention_dropout, width)
    is_sublayer = str(cfg.context_place) == "behind"
    return ContextAttention(
        attention,
        str(cfg.combine),
        context_first=side == "decoder",
        gate_bias=cfg.context_gate_bias,
        drop_net=float(cfg.drop_net),
        norm=spec.norm() if is_sublayer else None,
    )
