"""G-Transformer: document translation with group and global attention.

Bao, Zhang, Teng, Chen and Luo, "G-Transformer for Document-level Machine
Translation", ACL 2021.

==========  ==========================================================================
Eq 3        group tags: :class:`gtrans.modules.layout.DocumentLayout`
Eq 4-5      :class:`gtrans.modules.attention.MultiheadAttention`
Eq 6-8      :func:`gtrans.modules.group_attention.segment_attention` (regrouped) and
            ``dense_attention`` (as written)
Eq 9-10     :class:`gtrans.modules.attention.DocumentAttention`, ``GlobalGate``
§4.1        ``G_Q = G_K = G_X`` and so on: ``AttentionPlans``
§4.2        combined attention in the top layers: :func:`attention_kinds`
§4.3        decoding: :mod:`gtrans.decoding.document_search`
==========  ==========================================================================

With ``--doc-mode full`` the same classes are the document Transformer (plain
attention over the whole unit, no gates, as many parameters as fairseq's
Transformer), and with ``--unit sentence`` the sentence Transformer.
"""

import math
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Optional

from fairseq.data import Dictionary
from fairseq.dataclass import ChoiceEnum
from fairseq.models import (
    FairseqDecoder,
    FairseqEncoder,
    FairseqEncoderDecoderModel,
    register_model,
)
from torch import Tensor, nn

from gtrans.errors import GtransError
from gtrans.models._presets import (
    DocumentModelConfig,
    option,
    register_presets,
    resolve_sizes,
    size_option,
)
from gtrans.modules.attention import KINDS, DocumentAttention, new_parameters
from gtrans.modules.decode_state import DecodeState
from gtrans.modules.embedding import Embedder
from gtrans.modules.encoder_output import EncoderOutput
from gtrans.modules.group_attention import BACKENDS, AttentionPlans
from gtrans.modules.layout import DocumentLayout
from gtrans.modules.linear import Linear
from gtrans.modules.transformer import ACTIVATIONS, DecoderLayer, EncoderLayer, LayerSpec

_TopAttention = ChoiceEnum(list(KINDS))


@dataclass
class GTransformerConfig(DocumentModelConfig):
    """Options of :class:`GTransformer`, flat so that all of fairseq's front ends see them."""

    encoder_layers: Optional[int] = size_option("encoder layers")
    decoder_layers: Optional[int] = size_option("decoder layers")
    encoder_embed_dim: Optional[int] = size_option("width of the model, the same on both sides")
    encoder_ffn_embed_dim: Optional[int] = size_option("width of the encoder's feed-forward nets")
    decoder_ffn_embed_dim: Optional[int] = size_option("width of the decoder's feed-forward nets")
    encoder_attention_heads: Optional[int] = size_option("attention heads in the encoder")
    decoder_attention_heads: Optional[int] = size_option("attention heads in the decoder")
    dropout: float = option(0.1, "dropout after embeddings and sublayers")
    attention_dropout: float = option(0.0, "dropout on attention weights")
    activation_dropout: float = option(0.0, "dropout inside feed-forward networks")
    activation_fn: ChoiceEnum(list(ACTIVATIONS)) = option(  # type: ignore[valid-type]
        "relu", "activation of feed-forward networks"
    )
    encoder_normalize_before: bool = option(False, "pre-norm encoder layers")
    decoder_normalize_before: bool = option(False, "pre-norm decoder layers")
    share_decoder_input_output_embed: bool = option(
        False, "one table for decoder input and output"
    )
    share_all_embeddings: bool = option(
        False, "one table for encoder, decoder and output (needs a joint dictionary)"
    )
    no_scale_embedding: bool = option(False, "do not scale embeddings by sqrt(dim)")
    doc_mode: ChoiceEnum(["partial", "full"]) = option(  # type: ignore[valid-type]
        "partial", "partial: group attention; full: plain attention over the whole unit (baseline)"
    )
    encoder_global_layers: int = option(2, "top encoder layers with global self-attention")
    decoder_global_layers: int = option(2, "top decoder layers with global self-attention")
    cross_global_layers: int = option(2, "top decoder layers with global cross-attention")
    encoder_top_attention: _TopAttention = option(  # type: ignore[valid-type]
        "combined", "self-attention of those encoder layers (table 6)"
    )
    decoder_top_attention: _TopAttention = option(  # type: ignore[valid-type]
        "combined", "self-attention of those decoder layers"
    )
    cross_top_attention: _TopAttention = option(  # type: ignore[valid-type]
        "combined", "cross-attention of those decoder layers"
    )
    no_language_locality: bool = option(
        False, "self-attention is never grouped (table 5, '- language locality')"
    )
    no_translation_locality: bool = option(
        False, "cross-attention is never grouped (table 5, '- translation locality')"
    )
    positions: ChoiceEnum(["document", "sentence"]) = option(  # type: ignore[valid-type]
        "document",
        "positions count through the document (paper), or restart in every sentence, and global "
        "attention is told the number of the sentence",
    )
    gate_bias: Optional[float] = option(
        None,
        "gates begin at sigmoid(BIAS) on the group side whatever the input, so that a large "
        "value starts a document model as its sentence model (default: random gates)",
    )
    attention_backend: ChoiceEnum(list(BACKENDS)) = option(  # type: ignore[valid-type]
        "regroup", "how attention within groups is computed"
    )


PRESETS = {
    name: {
        "encoder_layers": layers,
        "decoder_layers": layers,
        "encoder_embed_dim": dim,
        "encoder_ffn_embed_dim": ffn,
        "decoder_ffn_embed_dim": ffn,
        "encoder_attention_heads": heads,
        "decoder_attention_heads": heads,
    }
    for name, layers, dim, ffn, heads in (
        ("gtransformer", 6, 512, 2048, 8),
        ("gtransformer_tiny", 6, 256, 1024, 4),
        ("gtransformer_small", 6, 512, 1024, 4),
        ("gtransformer_base", 6, 512, 2048, 8),
        ("gtransformer_big", 6, 1024, 4096, 16),
        ("gtransformer_large", 12, 1024, 4096, 16),
    )
}


def attention_kinds(cfg: GTransformerConfig) -> tuple[list[str], list[str], list[str]]:
    """Kinds of encoder self-, decoder self- and cross-attention, layer by layer (§4.2).

    Raises:
        GtransError: more global layers than layers, or a negative number of them.
    """

    def kinds(part: str, layers: int, grouped: bool) -> list[str]:
        top_layers = getattr(cfg, f"{part}_global_layers")
        if not 0 <= top_layers <= layers:
            raise GtransError(
                f"`--{part}-global-layers` must be between 0 and the {layers} layers of that "
                f"side, but is {top_layers}."
            )
        if cfg.doc_mode == "full" or not grouped:
            return ["global"] * layers
        top = str(getattr(cfg, f"{part}_top_attention"))
        return ["group"] * (layers - top_layers) + [top] * top_layers

    encoder, decoder = int(cfg.encoder_layers or 0), int(cfg.decoder_layers or 0)
    self_grouped, cross_grouped = not cfg.no_language_locality, not cfg.no_translation_locality
    return (
        kinds("encoder", encoder, self_grouped),
        kinds("decoder", decoder, self_grouped),
        kinds("cross", decoder, cross_grouped),
    )


class GTransformerEncoder(FairseqEncoder):
    """Embeds a batch of documents and runs the encoder layers on the packed tokens."""

    def __init__(
        self, cfg: GTransformerConfig, dictionary: Dictionary, embed_tokens: nn.Embedding
    ) -> None:
        super().__init__(dictionary)
        spec = _layer_spec(cfg, "encoder")
        self.embed_tokens = embed_tokens
        self.embed = _embedder(cfg)
        self.layers = nn.ModuleList(EncoderLayer(spec, kind) for kind in attention_kinds(cfg)[0])
        self.layer_norm = nn.LayerNorm(spec.dim) if spec.pre_norm else None

    def forward(
        self, src_tokens: Tensor, return_all_layers: bool = False
    ) -> EncoderOutput:
        """``src_tokens (batch, length)``, padded on either side."""
        layout = DocumentLayout.of_source(
            src_tokens, self.dictionary.pad(), self.dictionary.eos()
        )
        plans = AttentionPlans(layout)
        x = self.embed(layout.pack(src_tokens), self.embed.places(layout), self.embed_tokens)
        order = self.embed.order(layout.sentence)
        layers = []
        for layer in self.layers:
            x = layer(x, plans, order)
            if return_all_layers:
                layers.append(x)
        if self.layer_norm is not None:
            x = self.layer_norm(x)
        return EncoderOutput(x, layout, order, layers)

    def max_positions(self) -> int:
        """Positions grow on demand."""
        return sys.maxsize


class GTransformerDecoder(FairseqDecoder):
    """The decoder: teacher-forced on packed tokens, or one token at a time."""

    def __init__(
        self, cfg: GTransformerConfig, dictionary: Dictionary, embed_tokens: nn.Embedding
    ) -> None:
        super().__init__(dictionary)
        spec = _layer_spec(cfg, "decoder")
        self.embed_tokens = embed_tokens
        self.embed = _embedder(cfg)
        _, self.self_kinds, self.cross_kinds = attention_kinds(cfg)
        self.layers = nn.ModuleList(
            DecoderLayer(spec, kind, cross)
            for kind, cross in zip(self.self_kinds, self.cross_kinds, strict=True)
        )
        self.layer_norm = nn.LayerNorm(spec.dim) if spec.pre_norm else None
        self.output_projection = Linear(spec.dim, len(dictionary), bias=False)
        if cfg.share_all_embeddings or cfg.share_decoder_input_output_embed:
            self.output_projection.weight = embed_tokens.weight
        else:
            nn.init.normal_(self.output_projection.weight, std=spec.dim**-0.5)

    def forward(
        self,
        prev_output_tokens: Tensor,
        encoder_out: EncoderOutput,
        return_all_layers: bool = False,
    ) -> tuple[Tensor, dict[str, Any]]:
        """Logits ``(batch, length, vocabulary)`` of every next token.

        With ``return_all_layers`` the dictionary holds ``"layers"``: the embedded
        input and every layer's output, ``(tokens, dim)``, and ``"layout"``.
        """
        dictionary = self.dictionary
        layout = DocumentLayout.of_target(
            prev_output_tokens, dictionary.pad(), dictionary.bos(), dictionary.eos()
        )
        plans = AttentionPlans(encoder_out.layout, layout)
        packed = layout.pack(prev_output_tokens)
        x = self.embed(packed, self.embed.places(layout), self.embed_tokens)
        order = self.embed.order(layout.sentence)
        layers = [x]
        for layer in self.layers:
            x = layer(x, encoder_out.states, plans, order, encoder_out.order)
            if return_all_layers:
                layers.append(x)
        if self.layer_norm is not None:
            x = self.layer_norm(x)
        logits: Tensor = self.output_projection(layout.pad(x))
        return logits, {"layers": layers, "layout": layout} if return_all_layers else {}

    def begin(self, encoder_out: EncoderOutput, beam: int) -> DecodeState:
        """The state before the first token of every document, ``beam`` hypotheses each."""
        layout, states, order = encoder_out.layout, encoder_out.states, encoder_out.order
        group_sources: list[tuple[Tensor, Tensor]] = []
        global_sources: list[tuple[Tensor, Tensor]] = []
        ordered = states if order is None else states + order
        for layer, kind in zip(self.layers, self.cross_kinds, strict=True):
            attention: DocumentAttention = layer.encoder_attn  # type: ignore[assignment]
            if kind != "global":
                group_sources.append((attention.k_proj(states), attention.v_proj(states)))
            if kind != "group":
                over_document = attention.global_attn or attention
                key, value = over_document.k_proj(ordered), over_document.v_proj(states)
                global_sources.append((layout.align(key), layout.align(value)))
        return DecodeState(
            layout,
            beam,
            self.self_kinds,
            group_sources,
            global_sources,
            self.cross_kinds,
            states,
        )

    def step(self, tokens: Tensor, opens: Tensor, state: DecodeState) -> Tensor:
        """Logits ``(rows, vocabulary)`` after one more token of every hypothesis.

        Args:
            tokens: ``(rows,)`` the newest token.
            opens: ``(rows,)`` whether that token opens a sentence.
            state: updated in place.
        """
        state.advance(opens)
        positions = state.slot if self.embed.by_sentence else state.document_position
        x = self.embed(tokens, positions, self.embed_tokens)
        order = self.embed.order(state.sentence)
        for number, layer in enumerate(self.layers):
            x = layer.step(x, state, number, order)  # type: ignore[operator]
        if self.layer_norm is not None:
            x = self.layer_norm(x)
        logits: Tensor = self.output_projection(x)
        return logits

    def max_positions(self) -> int:
        """Positions grow on demand."""
        return sys.maxsize


@register_model("gtransformer", dataclass=GTransformerConfig)
class GTransformer(FairseqEncoderDecoderModel):
    """G-Transformer and, by its switches, the Transformer baselines of its paper."""

    encoder: GTransformerEncoder
    decoder: GTransformerDecoder
    units = ("document", "sentence", "window")

    @classmethod
    def build_model(cls, cfg: Any, task: Any) -> "GTransformer":
        """Build from options; sizes left open come from the preset ``cfg._name``.

        Raises:
            GtransError: options that contradict each other.
        """
        cfg = resolve_sizes(cfg, GTransformerConfig, PRESETS)
        _check(cfg, task)
        source, target = task.source_dictionary, task.target_dictionary
        encoder_table = _embedding(source, cfg.encoder_embed_dim)
        shared = cfg.share_all_embeddings
        decoder_table = encoder_table if shared else _embedding(target, cfg.encoder_embed_dim)
        model = cls(
            GTransformerEncoder(cfg, source, encoder_table),
            GTransformerDecoder(cfg, target, decoder_table),
        )
        for module in model.modules():
            if hasattr(module, "backend"):
                module.backend = str(cfg.attention_backend)
        return model

    def forward(
        self, src_tokens: Tensor, src_lengths: Tensor | None, prev_output_tokens: Tensor
    ) -> tuple[Tensor, dict[str, Any]]:
        """Logits ``(batch, target length, vocabulary)`` and an empty dictionary.

        Args:
            src_tokens: ``(batch, source length)`` documents ``<s> .. </s> <s> .. </s>``
                or sentences ``.. </s>``, padded on either side.
            src_lengths: unused; the padding tells the lengths.
            prev_output_tokens: ``(batch, target length)`` decoder input, padded on the right.
        """
        output: tuple[Tensor, dict[str, Any]] = self.decoder(
            prev_output_tokens, self.encoder(src_tokens)
        )
        return output

    def new_parameters(self) -> set[str]:
        """Names of the parameters that a sentence Transformer lacks (global attention, gates)."""
        return new_parameters(self)

    def begin_decoding(self, source: Mapping[str, Tensor], beam: int) -> DecodeState:
        """Encode a batch of documents for beam search."""
        return self.decoder.begin(self.encoder(source["src_tokens"]), beam)

    def decode_step(self, tokens: Tensor, opens: Tensor, state: DecodeState) -> Tensor:
        """See :meth:`GTransformerDecoder.step`."""
        return self.decoder.step(tokens, opens, state)


def _check(cfg: GTransformerConfig, task: Any) -> None:
    for side in ("encoder", "decoder"):
        heads = getattr(cfg, f"{side}_attention_heads")
        if heads < 1 or cfg.encoder_embed_dim % heads:
            raise GtransError(
                f"`--{side}-attention-heads` must divide `--encoder-embed-dim` "
                f"{cfg.encoder_embed_dim}, but is {heads}."
            )
    if cfg.unit == "window" and cfg.context_sides == "source" and cfg.doc_mode == "partial":
        raise GtransError(
            "`--doc-mode partial` pairs the sentences of both sides, but a window has its context "
            "on the source side only; give --context-sides both, or --doc-mode full."
        )
    if cfg.share_all_embeddings and task.source_dictionary != task.target_dictionary:
        raise GtransError(
            "`--share-all-embeddings` needs a joint dictionary, but the two sides differ; "
            "prepare the corpus with fairseq-preprocess --joined-dictionary."
        )


def _layer_spec(cfg: GTransformerConfig, side: str) -> LayerSpec:
    return LayerSpec(
        dim=int(cfg.encoder_embed_dim or 0),
        ffn_dim=getattr(cfg, f"{side}_ffn_embed_dim"),
        heads=getattr(cfg, f"{side}_attention_heads"),
        dropout=float(cfg.dropout),
        attention_dropout=float(cfg.attention_dropout),
        activation_dropout=float(cfg.activation_dropout),
        activation=str(cfg.activation_fn),
        pre_norm=getattr(cfg, f"{side}_normalize_before"),
        gate_bias=cfg.gate_bias,
    )


def _embedding(dictionary: Dictionary, dim: int | None) -> nn.Embedding:
    table = nn.Embedding(len(dictionary), int(dim or 0), dictionary.pad())
    nn.init.normal_(table.weight, std=table.embedding_dim**-0.5)
    nn.init.zeros_(table.weight[dictionary.pad()])
    return table


def _embedder(cfg: GTransformerConfig) -> Embedder:
    dim = int(cfg.encoder_embed_dim or 0)
    scale = 1.0 if cfg.no_scale_embedding else math.sqrt(dim)
    return Embedder(dim, scale, float(cfg.dropout), by_sentence=cfg.positions == "sentence")


register_presets("gtransformer", GTransformerConfig, PRESETS)
