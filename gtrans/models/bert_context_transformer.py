"""A Transformer whose layers attend to a context that another encoder has read.

Wu, "Document-level Neural Machine Translation using BERT as Context Encoder": frozen BERT
reads ``[CLS] context [SEP] sentence [SEP]``; its last hidden layer C_B is attended to in
every layer of a sentence Transformer.

===============  =====================================================================
§3.3             C_B: :class:`gtrans.modules.bert.FrozenBert`; the task computes it and
                 hands it in (``context_states``), it is no part of the model
Eq 3.4-3.5       :class:`gtrans.modules.context_attention.ContextAttention` beside
                 self-attention in the encoder
Eq 3.8-3.10      the same beside attention to the encoder in the decoder
§3.6             two steps of training: ``--init-from`` a sentence model
C_B, whitened    not in the thesis; the same model, in which context attention learns
                 several times as fast: :mod:`gtrans.modules.whitening`
Eq 2.11-2.17     BERT-fused with drop-net: ``--combine mean``
===============  =====================================================================

The document-aware Transformer (Zhang et al. 2018) is the same with a context encoder that
is trained (``--context-layers`` above 0) on the embedded words of the context
(``--context-input words``) or on top of BERT (``--context-input bert``).
"""

from dataclasses import dataclass
from typing import Any, Optional

from fairseq.dataclass import ChoiceEnum
from fairseq.models import register_model
from torch import Tensor, nn

from gtrans.errors import GtransError
from gtrans.models._gtransformer_options import (
    UnitTransformerConfig,
    layer_spec,
    transformer_presets,
)
from gtrans.models._presets import option, register_presets, resolve_sizes, size_option
from gtrans.models.gtransformer import (
    GTransformer,
    GTransformerDecoder,
    GTransformerEncoder,
)
from gtrans.modules.attention import MultiheadAttention
from gtrans.modules.attention_plans import AttentionPlans
from gtrans.modules.context_attention import COMBINATIONS, ContextAttention, PackedContext
from gtrans.modules.encoder_output import EncoderOutput
from gtrans.modules.layout import DocumentLayout, chosen_tokens
from gtrans.modules.linear import Linear
from gtrans.modules.transformer import EncoderLayer, LayerSpec
from gtrans.modules.whitening import Whitening

INTEGRATIONS = ("both", "encoder", "decoder", "none")
CONTEXT_INPUTS = ("bert", "words")


@dataclass
class BertContextConfig(UnitTransformerConfig):
    """Options of :class:`BertContextTransformer`."""

    bert_integration: ChoiceEnum(list(INTEGRATIONS)) = option(  # type: ignore[valid-type]
        "both", "layers of which side attend to the context (table 5.3)"
    )
    combine: ChoiceEnum(list(COMBINATIONS)) = option(  # type: ignore[valid-type]
        "gate", "gate: context gates (paper); mean: the mean of both attentions (BERT-fused)"
    )
    drop_net: float = option(
        1.0, "with --combine mean: how often training has only one of the two attentions"
    )
    context_gate_bias: Optional[float] = option(
        None,
        "context gates begin at sigmoid(BIAS) on the side of the Transformer whatever the input, "
        "so that a large value starts as the sentence model (default: random gates)",
    )
    raw_bert_states: bool = option(
        False, "attend to BERT's output as it is (thesis) instead of whitened"
    )
    context_input: Optional[ChoiceEnum(list(CONTEXT_INPUTS))] = size_option(  # type: ignore[valid-type]
        "what the context is read from: frozen BERT, or the embedded words of its sentences"
    )
    context_layers: Optional[int] = size_option("trained layers of the context encoder")
    bert_dim: Optional[int] = option(None, "set by the task")
    bert_fingerprint: Optional[str] = option(None, "set by the task")


_CONTEXTS = {
    "bert_context_transformer": {"context_input": "bert", "context_layers": 0},
    "document_aware_transformer": {"context_input": "words", "context_layers": 1},
}
PRESETS = {
    name: {**sizes, **context}
    for system, context in _CONTEXTS.items()
    for name, sizes in transformer_presets(
        {
            **({system: (4, 512, 2048, 8)} if system == "bert_context_transformer" else {}),
            f"{system}_tiny": (4, 256, 1024, 4),
            f"{system}_base": (4, 512, 2048, 8),
        }
    ).items()
}


class ContextEncoder(nn.Module):
    """Layers of self-attention over the context of a row, trained with the model."""

    def __init__(self, spec: LayerSpec, layers: int, input_dim: int) -> None:
        super().__init__()
        self.project = Linear(input_dim, spec.dim) if input_dim != spec.dim else None
        self.layers = nn.ModuleList(EncoderLayer(spec, "global") for _ in range(layers))
        self.layer_norm = spec.norm() if spec.pre_norm else None

    def forward(self, x: Tensor, layout: DocumentLayout) -> Tensor:
        """``(context tokens, input dim) -> (context tokens, dim)``."""
        if self.project is not None:
            x = self.project(x)
        plans = AttentionPlans(layout)
        for layer in self.layers:
            x = layer(x, plans)
        return x if self.layer_norm is None else self.layer_norm(x)


@register_model("bert_context_transformer", dataclass=BertContextConfig)
class BertContextTransformer(GTransformer):
    """The sentence Transformer with context attention, see the module."""

    units = ("window", "sentence")
    context_sides = ("source",)
    options = BertContextConfig
    presets = PRESETS

    def __init__(self, encoder: GTransformerEncoder, decoder: GTransformerDecoder) -> None:
        super().__init__(encoder, decoder)
        self.context_input = "bert"
        self.context_encoder: ContextEncoder | None = None
        self.whitening: Whitening | None = None

    @classmethod
    def reads_bert(cls, cfg: Any) -> str | None:
        """Whether the task has to hand in BERT's output (``features``) with every batch."""
        cfg = resolve_sizes(cfg, cls.options, cls.presets)
        wanted = cfg.bert_integration != "none" and cfg.context_input == "bert"
        return "features" if wanted else None

    @classmethod
    def build_model(cls, cfg: Any, task: Any) -> "BertContextTransformer":
        """Build from options.

        Raises:
            GtransError: options that contradict each other, or a BERT that is not the one
                that the model was trained with.
        """
        cfg = resolve_sizes(cfg, cls.options, cls.presets)
        if not 0 <= cfg.drop_net <= 1:
            raise GtransError(f"`--drop-net` must be between 0 and 1, but is {cfg.drop_net}.")
        least = 1 if cfg.context_input == "words" else 0
        if cfg.context_layers < least:
            raise GtransError(
                f"`--context-layers` must be at least {least} with --context-input "
                f"{cfg.context_input}, but is {cfg.context_layers}."
            )
        model = cls.built(cfg, task)
        if cfg.bert_integration != "none":
            model._add_context(cfg)
            model.use_backend(str(cfg.attention_backend))
        return model

    def _add_context(self, cfg: Any) -> None:
        encoder, decoder = (layer_spec(cfg, side) for side in ("encoder", "decoder"))
        width = encoder.dim if cfg.context_input == "words" else int(cfg.bert_dim)
        self.context_input = str(cfg.context_input)
        if self.context_input == "bert":
            self.whitening = Whitening(width, cfg.raw_bert_states)
        if cfg.context_layers:
            self.context_encoder = ContextEncoder(encoder, cfg.context_layers, width)
            width = encoder.dim
        sides = (("encoder", encoder, self.encoder), ("decoder", decoder, self.decoder))
        for side, spec, part in sides:
            if cfg.bert_integration not in ("both", side):
                continue
            for layer in part.layers:
                layer.context_attn = ContextAttention(
                    MultiheadAttention(spec.dim, spec.heads, spec.attention_dropout, width),
                    str(cfg.combine),
                    context_first=side == "decoder",
                    gate_bias=cfg.context_gate_bias,
                    drop_net=float(cfg.drop_net),
                )

    def encode(
        self,
        src_tokens: Tensor,
        current: Tensor | None = None,
        context_states: Tensor | None = None,
        context_lengths: Tensor | None = None,
    ) -> EncoderOutput:
        """The encoded sentences with their contexts.

        Args:
            src_tokens: ``(batch, source length)`` windows, or sentences, padded on the right.
            current: ``(batch,)`` number, in its window, of the sentence to translate; None
                where all rows are sentences.
            context_states: ``(context tokens, BERT's width)`` features of all rows, one behind
                the other, without padding.
            context_lengths: ``(batch,)`` how many of them belong to each row.
        """
        pad = self.encoder.dictionary.pad()
        words = None
        if current is not None:
            layout = DocumentLayout.of_source(src_tokens, pad, self.encoder.closing)
            own = layout.pad(layout.sentence.eq(current[layout.row])).bool()
            words = src_tokens, src_tokens.ne(pad) & ~own
            src_tokens = chosen_tokens(src_tokens, own, pad)
        context = None
        if self.context_input == "words":
            context = self._read_words(src_tokens, words)
        elif self.whitening is not None and context_states is not None:
            assert context_lengths is not None
            states = self.whitening(context_states)
            if self.context_encoder is not None:
                states = self.context_encoder(states, DocumentLayout.of_rows(context_lengths))
            context = PackedContext(states, context_lengths)
        encoded: EncoderOutput = self.encoder(src_tokens, context=context)
        return encoded

    def _read_words(
        self, src_tokens: Tensor, words: tuple[Tensor, Tensor] | None
    ) -> PackedContext:
        """The trained encoder's view of the context; a row without any has a lone ``</s>``."""
        encoder = self.encoder
        pad, eos = encoder.dictionary.pad(), encoder.dictionary.eos()
        tokens = src_tokens.new_full((src_tokens.size(0), 1), pad)
        if words is not None and bool(words[1].any()):
            tokens = chosen_tokens(*words, pad)
        tokens[tokens[:, 0].eq(pad), 0] = eos
        layout = DocumentLayout.of_source(tokens, pad, eos)
        embedded = encoder._embed(tokens, layout)
        assert self.context_encoder is not None
        return PackedContext(self.context_encoder(embedded, layout), layout.documents.lengths)

    def new_parameters(self) -> set[str]:
        """Names of the parameters that a sentence Transformer lacks."""
        own = {
            name
            for name, _ in self.named_parameters()
            if ".context_attn." in name or name.startswith("context_encoder.")
        }
        return super().new_parameters() | own


register_presets("bert_context_transformer", BertContextConfig, PRESETS)
