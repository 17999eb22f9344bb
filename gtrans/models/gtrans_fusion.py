"""GTRANS: groups of layers, fused; and the systems that its paper compares with.

Yang, Yin, Ma, Huang, Zhang, Wei and Li, "GTRANS: Grouping and Fusing Transformer Layers
for Neural Machine Translation", 2022.

==========  ==========================================================================
Eq 1-2      :class:`gtrans.modules.layer_fusion.EncoderGroupFusion`
Eq 3-4      :class:`gtrans.modules.layer_fusion.DecoderGroupFusion`
Eq 5-6      :class:`gtrans.modules.layer_fusion.ProbabilityFusion`, ``fuse_probabilities``
Eq 7        :mod:`gtrans.criterions.multi_level_cross_entropy`
table VI    ``--use-groups``; figure 7: ``--keep-encoder-layers``
table VIII  ``--no-encoder-fusion``, ``--no-decoder-fusion``
==========  ==========================================================================

The layers are those of the other systems here, with plain attention over the whole unit.
Logits that the model gives are log-probabilities already when it has several groups; a
softmax leaves them as they are, so every search can treat them as logits.
"""

import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import torch
from fairseq.data import Dictionary
from fairseq.models import FairseqEncoderDecoderModel, register_model
from torch import Tensor, nn

from gtrans.errors import GtransError
from gtrans.models._gtrans_fusion_options import (
    PRESETS,
    GtransFusionConfig,
    check,
    decoder_groups,
    layer_fusion,
    layer_spec,
    used_groups,
)
from gtrans.models._presets import register_presets, resolve_sizes
from gtrans.models._stock_search import StockDecoder, StockEncoder
from gtrans.models._transformer_options import beside_words, embedder
from gtrans.models._xlmr import start_from_xlmr
from gtrans.modules.attention import DocumentAttention
from gtrans.modules.attention_plans import AttentionPlans
from gtrans.modules.decode_state import DecodeState
from gtrans.modules.embedding import word_table
from gtrans.modules.encoder_output import EncoderOutput
from gtrans.modules.layer_fusion import (
    DecoderGroupFusion,
    ProbabilityFusion,
    TransparentAttention,
    fuse_probabilities,
)
from gtrans.modules.layout import DocumentLayout
from gtrans.modules.multi_level import GroupOutputs
from gtrans.modules.shared_prefix import SharedPrefixLayout
from gtrans.modules.transformer import DecoderLayer, EncoderLayer


class FusionEncoder(StockEncoder):
    """Embeds a batch, runs the encoder layers on the packed tokens, fuses them (Eq 2)."""

    def __init__(
        self, cfg: GtransFusionConfig, dictionary: Dictionary, embed_tokens: nn.Embedding
    ) -> None:
        super().__init__(dictionary)
        spec = layer_spec(cfg, "encoder")
        self.embed_tokens = embed_tokens
        self.embed_positions, self.layernorm_embedding = beside_words(cfg)
        self.embed = embedder(cfg)
        self.layers = nn.ModuleList(
            EncoderLayer(spec, "global") for _ in range(int(cfg.encoder_layers or 0))
        )
        self.fusion = layer_fusion(cfg, "encoder")
        self.layer_norm = spec.norm() if cfg.system == "pre-norm" else None
        self.used = cfg.keep_encoder_layers or len(self.layers)
        self.gives_layers = cfg.system == "ta"

    def forward(self, src_tokens: Tensor, src_lengths: Tensor | None = None) -> EncoderOutput:
        """``src_tokens (batch, length)``, padded on either side; lengths are not needed."""
        layout = DocumentLayout.of_source(
            src_tokens, self.dictionary.pad(), self.dictionary.eos()
        )
        plans = AttentionPlans(layout)
        x = self.embed(
            layout.pack(src_tokens),
            layout.position,
            self.embed_tokens,
            self.embed_positions,
            self.layernorm_embedding,
        )
        states = [self.fusion.remember(x, 0)]
        for number, layer in enumerate(self.layers[: self.used], 1):
            x = layer(self.fusion.layer_input(states), plans)
            states.append(self.fusion.remember(x, number))
        x = self.fusion(states)[0]
        if self.layer_norm is not None:
            x = self.layer_norm(x)
        return EncoderOutput(x, layout, None, states if self.gives_layers else [])

    def max_positions(self) -> int:
        """The longest unit; sinusoidal positions grow on demand."""
        return sys.maxsize if self.embed_positions is None else self.embed_positions.size


class FusionDecoder(StockDecoder):
    """The decoder layers, their groups, and the probabilities of all groups fused."""

    def __init__(
        self, cfg: GtransFusionConfig, dictionary: Dictionary, embed_tokens: nn.Embedding
    ) -> None:
        super().__init__(dictionary)
        spec = layer_spec(cfg, "decoder")
        layers = int(cfg.decoder_layers or 0)
        self.embed_tokens = embed_tokens
        self.embed_positions, self.layernorm_embedding = beside_words(cfg)
        self.embed = embedder(cfg)
        self.layers = nn.ModuleList(DecoderLayer(spec, "global", "global") for _ in range(layers))
        self.fusion = layer_fusion(cfg, "decoder")
        self.layer_norm = spec.norm() if cfg.system == "pre-norm" else None
        self.transparent = (
            TransparentAttention(int(cfg.encoder_layers or 0), layers)
            if cfg.system == "ta"
            else None
        )
        self.probabilities: ProbabilityFusion | None = None
        self.used = layers
        first, last = used_groups(cfg)
        self.groups = slice(first - 1, last)
        if isinstance(self.fusion, DecoderGroupFusion):
            self.probabilities = ProbabilityFusion(decoder_groups(cfg), spec.dim)
            self.used = self.fusion.use(first, last)
        self.output_projection = nn.Linear(spec.dim, len(dictionary), bias=False)
        if cfg.share_all_embeddings or cfg.share_decoder_input_output_embed:
            self.output_projection.weight = embed_tokens.weight
        else:
            nn.init.normal_(self.output_projection.weight, std=spec.dim**-0.5)

    def log_weights(self) -> Tensor:
        """``(groups in use,)`` log psi (Eq 6)."""
        if self.probabilities is None:
            return self.output_projection.weight.new_zeros(1, dtype=torch.float32)
        return self.probabilities.log_weights(self.groups)

    def teacher_forced(
        self,
        prev_output_tokens: Tensor,
        encoder_out: EncoderOutput,
        groups_only: bool = False,
        places: Tensor | None = None,
        **options: Any,
    ) -> tuple[Any, dict[str, Any]]:
        """Logits ``(batch, length, vocabulary)`` of every next token, all groups fused.

        With ``groups_only`` the :class:`GroupOutputs` in their place, for a criterion that
        does not want the logits of all groups in memory. ``places`` and rows of one source
        are what they are in :class:`~gtrans.models.gtransformer.GTransformerDecoder`.
        """
        dictionary = self.dictionary
        layout = DocumentLayout.of_target(
            prev_output_tokens, dictionary.pad(), dictionary.bos(), dictionary.eos()
        )
        rows = encoder_out.rows
        if rows is not None:
            layout = SharedPrefixLayout.of(layout, prev_output_tokens, rows)
        plans = AttentionPlans(encoder_out.layout, layout, rows=rows)
        x = self._embed(layout.pack(prev_output_tokens), layout.position)
        memories = self._memories(encoder_out)

        def run(layer: nn.Module, number: int, x: Tensor) -> Tensor:
            output: Tensor = layer(x, memories[number], plans)
            return output

        features = self._run(x, run)
        weights = self.log_weights()
        if groups_only:
            projection = self.output_projection.weight
            return GroupOutputs(features, weights, projection, layout), {"attn": None}
        if places is not None:
            features = layout.choose(features.transpose(0, 1), places).transpose(0, 1)
        logits = fuse_probabilities(self.output_projection(features), weights)
        return logits if places is not None else layout.pad(logits), {"attn": None}

    def begin(self, encoder_out: EncoderOutput, beam: int) -> DecodeState:
        """The state before the first token of every source, ``beam`` hypotheses each."""
        layout = encoder_out.layout
        memories = self._memories(encoder_out)
        sources: list[tuple[Tensor, Tensor]] = []
        for number in range(self.used):
            attention: DocumentAttention = self.layers[number].encoder_attn  # type: ignore[assignment]
            memory = memories[number]
            key, value = attention.k_proj(memory), attention.v_proj(memory)
            sources.append((layout.align(key), layout.align(value)))
        kinds = ["global"] * self.used
        return DecodeState(layout, beam, kinds, [], sources, kinds, encoder_out.states)

    def step(self, tokens: Tensor, opens: Tensor, state: DecodeState) -> Tensor:
        """Logits ``(rows, vocabulary)`` after one more token of every hypothesis.

        Args:
            tokens: ``(rows,)`` the newest token.
            opens: ``(rows,)`` whether that token opens a sentence.
            state: updated in place.
        """
        state.advance(opens)
        x = self._embed(tokens, state.document_position)

        def run(layer: Any, number: int, x: Tensor) -> Tensor:
            output: Tensor = layer.step(x, state, number, None)
            return output

        return fuse_probabilities(self.output_projection(self._run(x, run)), self.log_weights())

    def _embed(self, tokens: Tensor, positions: Tensor) -> Tensor:
        x: Tensor = self.embed(
            tokens, positions, self.embed_tokens, self.embed_positions, self.layernorm_embedding
        )
        return x

    def _memories(self, encoder_out: EncoderOutput) -> list[Tensor]:
        """What each decoder layer attends to, packed."""
        if self.transparent is None:
            return [encoder_out.states] * len(self.layers)
        memories: list[Tensor] = self.transparent(encoder_out.layers)
        return memories

    def _run(self, x: Tensor, run: Any) -> Tensor:
        """The layers in use on ``x (rows, dim)``: features ``(groups in use, rows, dim)``."""
        states = [self.fusion.remember(x, 0)]
        for number, layer in enumerate(self.layers[: self.used]):
            x = run(layer, number, self.fusion.layer_input(states))
            states.append(self.fusion.remember(x, number + 1))
        features: Tensor = self.fusion(states)
        return features if self.layer_norm is None else self.layer_norm(features)

    def max_positions(self) -> int:
        """The longest unit; sinusoidal positions grow on demand."""
        return sys.maxsize if self.embed_positions is None else self.embed_positions.size


@register_model("gtrans_fusion", dataclass=GtransFusionConfig)
class GtransFusion(FairseqEncoderDecoderModel):
    """A Transformer whose layers are fused in groups, and its baselines."""

    encoder: FusionEncoder
    decoder: FusionDecoder
    units = ("sentence", "window", "document")
    has_group_outputs = True
    missing_start: str | None = None

    @classmethod
    def build_model(cls, cfg: Any, task: Any) -> "GtransFusion":
        """Build from options; sizes left open come from the preset ``cfg._name``.

        Raises:
            GtransError: options that contradict each other.
        """
        cfg = resolve_sizes(cfg, GtransFusionConfig, PRESETS)
        check(cfg, task)
        source, target = task.source_dictionary, task.target_dictionary
        dim = int(cfg.encoder_embed_dim or 0)
        encoder_table = word_table(len(source), dim, source.pad())
        decoder_table = encoder_table
        if not cfg.share_all_embeddings:
            decoder_table = word_table(len(target), dim, target.pad())
        model = cls(
            FusionEncoder(cfg, source, encoder_table), FusionDecoder(cfg, target, decoder_table)
        )
        if cfg.init_xlmr and Path(cfg.init_xlmr).is_dir():
            start_from_xlmr(model, cfg.init_xlmr, {"encoder": source, "decoder": target})
        elif cfg.init_xlmr:
            # A resumed or finished run has its parameters from its own checkpoint; whether
            # this is one is known when the model is trained or not.
            model.missing_start = str(cfg.init_xlmr)
            model.register_load_state_dict_post_hook(_has_parameters)
        return model

    def forward(
        self,
        src_tokens: Tensor,
        src_lengths: Tensor | None,
        prev_output_tokens: Tensor,
        groups_only: bool = False,
        *,
        rows: Tensor | None = None,
        places: Tensor | None = None,
    ) -> tuple[Any, dict[str, Any]]:
        """Logits ``(batch, target length, vocabulary)``, and a dictionary for fairseq.

        Args:
            src_tokens: ``(batch, source length)``, padded on either side.
            src_lengths: unused; the padding tells the lengths.
            prev_output_tokens: ``(batch, target length)`` decoder input, padded on the right.
            groups_only: give the :class:`~gtrans.modules.multi_level.GroupOutputs` instead.
            rows, places: see :class:`gtrans.decoding.force_decode.ScoresCandidates`.

        Raises:
            GtransError: training begins without the XLM-R that it is to start from.
        """
        if self.missing_start is not None and self.training:
            raise GtransError(f"--init-xlmr {self.missing_start}: there is no such folder.")
        encoded: EncoderOutput = self.encoder(src_tokens)
        output: tuple[Any, dict[str, Any]] = self.decoder(
            prev_output_tokens,
            encoded if rows is None else encoded.reordered(rows),
            groups_only=groups_only,
            places=places,
        )
        return output

    def new_parameters(self) -> set[str]:
        """Names of the parameters that a plain Transformer lacks."""
        parts = (".fusion.", ".probabilities.", ".transparent.", ".residual_scale")
        return {n for n, _ in self.named_parameters() if any(part in n for part in parts)}

    def begin_decoding(self, source: Mapping[str, Tensor], beam: int) -> DecodeState:
        """Encode a batch for beam search."""
        return self.decoder.begin(self.encoder(source["src_tokens"]), beam)

    def decode_step(self, tokens: Tensor, opens: Tensor, state: DecodeState) -> Tensor:
        """See :meth:`FusionDecoder.step`."""
        return self.decoder.step(tokens, opens, state)


def _has_parameters(model: GtransFusion, _: Any) -> None:
    model.missing_start = None


register_presets("gtrans_fusion", GtransFusionConfig, PRESETS)
