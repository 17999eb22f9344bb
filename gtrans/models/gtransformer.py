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

import sys
from collections.abc import Callable, Mapping
from functools import partial
from typing import Any, TypeVar

from fairseq.data import Dictionary
from fairseq.models import (
    FairseqDecoder,
    FairseqEncoder,
    FairseqEncoderDecoderModel,
    register_model,
)
from torch import Tensor, nn

from gtrans.data.frame import Frame
from gtrans.models._gtransformer_options import (
    PRESETS,
    SENTENCE_MARKS_OF,
    GTransformerConfig,
    UnitTransformerConfig,
    attention_kinds,
    check_sizes,
    layer_spec,
)
from gtrans.models._presets import Presets, register_presets, resolve_sizes
from gtrans.models._transformer_options import beside_words, embedder
from gtrans.modules.attention import DocumentAttention, MultiheadAttention, new_parameters
from gtrans.modules.attention_plans import AttentionPlans
from gtrans.modules.context_attention import PackedContext
from gtrans.modules.decode_state import DecodeState, ways
from gtrans.modules.embedding import word_table
from gtrans.modules.encoder_output import EncoderOutput
from gtrans.modules.layout import DocumentLayout
from gtrans.modules.linear import Linear
from gtrans.modules.shared_prefix import SharedPrefixLayout
from gtrans.modules.transformer import BehindAttention, DecoderLayer, EncoderLayer, context_sources

__all__ = [
    "PRESETS",
    "GTransformer",
    "GTransformerConfig",
    "GTransformerDecoder",
    "GTransformerEncoder",
    "attention_kinds",
]

# Runs behind the self-attention of every layer: called with the layer's number, states
# ``(tokens, dim)`` and their layout, it gives the states that the rest of the layer gets.
LayerHook = Callable[[int, Tensor, DocumentLayout], Tensor]

Model = TypeVar("Model", bound="GTransformer")


class GTransformerEncoder(FairseqEncoder):
    """Embeds a batch of documents and runs the encoder layers on the packed tokens.

    ``closing`` is the last symbol of every source sentence.
    """

    def __init__(
        self, cfg: UnitTransformerConfig, dictionary: Dictionary, embed_tokens: nn.Embedding
    ) -> None:
        super().__init__(dictionary)
        self.closing = Frame.of(cfg, dictionary, dictionary).closing
        spec = layer_spec(cfg, "encoder")
        self.embed_tokens = embed_tokens
        self.embed_positions, self.layernorm_embedding = beside_words(cfg)
        self.embed = embedder(cfg, str(cfg.positions) == "sentence")
        self.layers = nn.ModuleList(EncoderLayer(spec, kind) for kind in attention_kinds(cfg)[0])
        self.layer_norm = spec.norm() if spec.pre_norm else None

    def forward(
        self,
        src_tokens: Tensor,
        return_all_layers: bool = False,
        behind: LayerHook | None = None,
        context: PackedContext | None = None,
    ) -> EncoderOutput:
        """``src_tokens (batch, length)``, padded on either side.

        ``behind`` runs behind every self-attention, ``context`` is that of each row.
        """
        layout = DocumentLayout.of_source(src_tokens, self.dictionary.pad(), self.closing)
        plans = AttentionPlans(layout, context=context)
        x = self._embed(src_tokens, layout)
        order = self.embed.order(layout.sentence)
        layers = []
        for number, layer in enumerate(self.layers):
            x = layer(x, plans, order, _of_layer(behind, number, layout))
            if return_all_layers:
                layers.append(x)
        if self.layer_norm is not None:
            x = self.layer_norm(x)
        return EncoderOutput(x, layout, order, layers, context)

    def _embed(
        self, src_tokens: Tensor, layout: DocumentLayout, segments: Tensor | None = None
    ) -> Tensor:
        """``(tokens, dim)`` packed; ``segments`` are embedded already."""
        return self.embed(  # type: ignore[no-any-return]
            layout.pack(src_tokens),
            self.embed.places(layout),
            self.embed_tokens,
            self.embed_positions,
            self.layernorm_embedding,
            segments,
        )

    def max_positions(self) -> int:
        """The longest document; sinusoidal positions grow on demand."""
        return _longest_text(self)


class GTransformerDecoder(FairseqDecoder):
    """The decoder: teacher-forced on packed tokens, or one token at a time.

    ``opening`` opens every sentence, in rows that ``</s>`` does not open.
    """

    def __init__(
        self, cfg: UnitTransformerConfig, dictionary: Dictionary, embed_tokens: nn.Embedding
    ) -> None:
        super().__init__(dictionary)
        opening = Frame.of(cfg, dictionary, dictionary).opening
        self.opening = dictionary.bos() if opening == dictionary.eos() else opening
        spec = layer_spec(cfg, "decoder")
        self.embed_tokens = embed_tokens
        self.embed_positions, self.layernorm_embedding = beside_words(cfg)
        self.embed = embedder(cfg, str(cfg.positions) == "sentence")
        _, self.self_kinds, self.cross_kinds = attention_kinds(cfg)
        self.layers = nn.ModuleList(
            DecoderLayer(spec, kind, cross)
            for kind, cross in zip(self.self_kinds, self.cross_kinds, strict=True)
        )
        final_norm = spec.pre_norm and not cfg.no_decoder_final_norm
        self.layer_norm = spec.norm() if final_norm else None
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
        behind: LayerHook | None = None,
        places: Tensor | None = None,
    ) -> tuple[Tensor, dict[str, Any]]:
        """Logits ``(batch, length, vocabulary)`` of every next token.

        With ``return_all_layers`` the dictionary holds ``"layers"``: the embedded
        input and every layer's output, ``(tokens, dim)``, and ``"layout"``. ``behind``
        runs behind the self-attention of every layer. With ``places (batch, length)`` the
        logits are ``(places, vocabulary)``, of the tokens where it is True. Rows of one
        source (``encoder_out.rows``) that follow each other share the states of what they
        have in common.
        """
        layers: list[Tensor] = []
        x, layout = self.states(
            prev_output_tokens, encoder_out, behind, layers if return_all_layers else None
        )
        x = layout.pad(x) if places is None else layout.choose(x, places)
        logits: Tensor = self.output_projection(x)
        return logits, {"layers": layers, "layout": layout} if return_all_layers else {}

    def states(
        self,
        prev_output_tokens: Tensor,
        encoder_out: EncoderOutput,
        behind: LayerHook | None = None,
        layers: list[Tensor] | None = None,
    ) -> tuple[Tensor, DocumentLayout]:
        """What :meth:`forward` projects, ``(tokens, dim)``, and its layout; fills ``layers``."""
        dictionary = self.dictionary
        layout = DocumentLayout.of_target(
            prev_output_tokens, dictionary.pad(), self.opening, dictionary.eos()
        )
        rows = encoder_out.rows
        if rows is not None:
            layout = SharedPrefixLayout.of(layout, prev_output_tokens, rows)
        plans = AttentionPlans(encoder_out.layout, layout, encoder_out.context, rows)
        x = self._embed(layout.pack(prev_output_tokens), self.embed.places(layout))
        order = self.embed.order(layout.sentence)
        if layers is not None:
            layers.append(x)
        for number, layer in enumerate(self.layers):
            inserted = _of_layer(behind, number, layout)
            x = layer(x, encoder_out.states, plans, order, encoder_out.order, inserted)
            if layers is not None:
                layers.append(x)
        return x if self.layer_norm is None else self.layer_norm(x), layout

    def begin(self, encoder_out: EncoderOutput, beam: int) -> DecodeState:
        """The state before the first token of every document, ``beam`` hypotheses each."""
        layout, states, order = encoder_out.layout, encoder_out.states, encoder_out.order
        group_sources: list[tuple[Tensor, Tensor]] = []
        global_sources: list[tuple[Tensor, Tensor]] = []
        ordered = states if order is None else states + order
        taken = ways(self.cross_kinds, layout)
        for layer, kind, way in zip(self.layers, self.cross_kinds, taken, strict=True):
            attention: DocumentAttention = layer.encoder_attn  # type: ignore[assignment]
            if way != "global":
                group_sources.append((attention.k_proj(states), attention.v_proj(states)))
            if way != "group":
                over_document = attention.global_attn or attention
                keys = states if kind == "group" else ordered
                key, value = over_document.k_proj(keys), over_document.v_proj(states)
                global_sources.append((layout.align(key), layout.align(value)))
        return DecodeState(
            layout,
            beam,
            self.self_kinds,
            group_sources,
            global_sources,
            self.cross_kinds,
            states,
            context_sources(self.layers, encoder_out.context),
        )

    def step(
        self,
        tokens: Tensor,
        opens: Tensor,
        state: DecodeState,
        behind: Callable[[int, Tensor], Tensor] | None = None,
    ) -> Tensor:
        """Logits ``(rows, vocabulary)`` after one more token of every hypothesis.

        Args:
            tokens: ``(rows,)`` the newest token.
            opens: ``(rows,)`` whether that token opens a sentence.
            state: updated in place.
            behind: called with the number and states ``(rows, dim)`` of every layer, behind
                its self-attention.
        """
        state.advance(opens)
        positions = state.slot if self.embed.by_sentence else state.document_position
        x = self._embed(tokens, positions)
        order = self.embed.order(state.sentence)
        for number, layer in enumerate(self.layers):
            inserted = None if behind is None else partial(behind, number)
            x = layer.step(x, state, number, order, inserted)  # type: ignore[operator]
        if self.layer_norm is not None:
            x = self.layer_norm(x)
        logits: Tensor = self.output_projection(x)
        return logits

    def _embed(self, tokens: Tensor, positions: Tensor) -> Tensor:
        x: Tensor = self.embed(
            tokens, positions, self.embed_tokens, self.embed_positions, self.layernorm_embedding
        )
        return x

    def max_positions(self) -> int:
        """The longest document; sinusoidal positions grow on demand."""
        return _longest_text(self)


@register_model("gtransformer", dataclass=GTransformerConfig)
class GTransformer(FairseqEncoderDecoderModel):
    """G-Transformer and, by its switches, the Transformer baselines of its paper."""

    encoder: GTransformerEncoder
    decoder: GTransformerDecoder
    encoder_type: type[GTransformerEncoder] = GTransformerEncoder
    # What the task may cut for this model, the default first; sentences before and behind
    # the current one in a window.
    units: tuple[str, ...] = ("document", "sentence", "window")
    context_sides: tuple[str, ...] = ("source", "both")
    context_size: tuple[int, int] = (1, 0)
    # Of architectures that are pretrained models; the others have marks on both sides.
    sentence_marks: Mapping[str, str] = SENTENCE_MARKS_OF
    options: type[UnitTransformerConfig] = GTransformerConfig
    presets: Presets = PRESETS

    @classmethod
    def build_model(cls, cfg: Any, task: Any) -> "GTransformer":
        """Build from options; sizes left open come from the preset ``cfg._name``.

        Raises:
            GtransError: options that contradict each other.
        """
        return cls.built(resolve_sizes(cfg, cls.options, cls.presets), task)

    @classmethod
    def built(cls: type[Model], cfg: UnitTransformerConfig, task: Any) -> Model:
        """Build from complete options.

        Raises:
            GtransError: options that contradict each other.
        """
        check_sizes(cfg, task)
        source, target = task.source_dictionary, task.target_dictionary
        dim = int(cfg.encoder_embed_dim or 0)
        encoder_table = decoder_table = word_table(len(source), dim, source.pad())
        if not cfg.share_all_embeddings:
            decoder_table = word_table(len(target), dim, target.pad())
        model = cls(
            cls.encoder_type(cfg, source, encoder_table),
            GTransformerDecoder(cfg, target, decoder_table),
        )
        model.use_backend(str(cfg.attention_backend))
        return model

    def use_backend(self, backend: str) -> None:
        """How attention is computed from now on, one of :data:`BACKENDS`."""
        for module in self.modules():
            if isinstance(module, MultiheadAttention):
                module.backend = backend

    def forward(
        self,
        src_tokens: Tensor,
        src_lengths: Tensor | None,
        prev_output_tokens: Tensor,
        current: Tensor | None = None,
        *,
        rows: Tensor | None = None,
        places: Tensor | None = None,
        **more: Tensor,
    ) -> tuple[Tensor, dict[str, Any]]:
        """Logits ``(batch, target length, vocabulary)`` and an empty dictionary.

        Args:
            src_tokens: ``(batch, source length)`` documents ``<s> .. </s> <s> .. </s>``
                or sentences ``.. </s>``, padded on either side.
            src_lengths: unused; the padding tells the lengths.
            prev_output_tokens: ``(batch, target length)`` decoder input, padded on the right.
            current: ``(batch,)`` number, in a window, of the sentence that it is there for;
                None: rows are no windows.
            rows, places: see :class:`gtrans.decoding.force_decode.ScoresCandidates`.
            more: what else :meth:`encode` takes.
        """
        encoded = self.encode(src_tokens, current, **more)
        output: tuple[Tensor, dict[str, Any]] = self.decoder(
            prev_output_tokens,
            encoded if rows is None else encoded.reordered(rows),
            places=places,
        )
        return output

    def encode(self, src_tokens: Tensor, current: Tensor | None = None) -> EncoderOutput:
        """The encoded rows; this model treats all sentences of a window alike."""
        encoded: EncoderOutput = self.encoder(src_tokens)
        return encoded

    def new_parameters(self) -> set[str]:
        """Names of the parameters that a sentence Transformer lacks (global attention, gates)."""
        return new_parameters(self)

    def begin_decoding(self, source: Mapping[str, Tensor], beam: int) -> DecodeState:
        """Encode a batch of documents for beam search."""
        more = {name: source[name] for name in source if name != "src_lengths"}
        encoded = self.encode(**more)
        return self.decoder.begin(encoded, beam)

    def decode_step(self, tokens: Tensor, opens: Tensor, state: DecodeState) -> Tensor:
        """See :meth:`GTransformerDecoder.step`."""
        return self.decoder.step(tokens, opens, state)


def _of_layer(
    behind: LayerHook | None, number: int, layout: DocumentLayout
) -> BehindAttention | None:
    return None if behind is None else lambda x: behind(number, x, layout)


def _longest_text(side: GTransformerEncoder | GTransformerDecoder) -> int:
    learned = side.embed_positions
    return sys.maxsize if learned is None or side.embed.by_sentence else learned.size


register_presets("gtransformer", GTransformerConfig, PRESETS)
