"""G-Transformer: document translation with group and global attention.

Bao, Zhang, Teng, Chen and Luo, "G-Transformer for Document-level Machine
Translation", ACL 2021.

==========  ==========================================================================
Eq 3-10     in one file, as printed: ``tests/support/gtransformer_equations.py``
Eq 3        group tags: :class:`gtrans.modules.group_attention.DocumentLayout`
Eq 4-5      :class:`gtrans.modules.transformer.MultiheadAttention`
Eq 6-8      :func:`gtrans.modules.group_attention.segment_attention` (regrouped)
Eq 9-10     :class:`gtrans.modules.transformer.DocumentAttention`, ``Gate``
§4.1        ``G_Q = G_K = G_X`` and so on: :mod:`gtrans.models.base.planning`
§4.2        combined attention in the top layers: :meth:`GTransformer.attention_kinds`
§4.3        decoding: :mod:`gtrans.search.document_search`
==========  ==========================================================================

With ``--doc-mode full`` the same class is the document Transformer (plain attention over the whole
unit, no gates, as many parameters as fairseq's Transformer), and with ``--unit sentence`` the
sentence Transformer.
"""

import logging
from dataclasses import dataclass, replace
from typing import Any, Optional

from fairseq.dataclass import ChoiceEnum

from gtrans.errors import GtransError
from gtrans.models.base.encoder import AttentionKinds
from gtrans.models.base.model import DocumentModel, InputSpec, reads_plain_documents
from gtrans.models.base.options import UnitTransformerConfig
from gtrans.models.base.presets import PLAIN_SWITCHES, register_system, sizes
from gtrans.modules.transformer import ATTENTION_KINDS, LayerSpec
from gtrans.option_types import START, option

logger = logging.getLogger(__name__)

_TopAttention = ChoiceEnum(list(ATTENTION_KINDS))


@dataclass
class GTransformerConfig(UnitTransformerConfig):
    """Options of :class:`GTransformer`."""

    doc_mode: ChoiceEnum(["partial", "full"]) = option(  # type: ignore[valid-type]
        "partial",
        "full: the document Transformer, the baseline, with plain attention over the whole unit; "
        "partial: the G-Transformer, with group attention",
    )
    encoder_global_layers: int = option(
        2,
        "how many top encoder layers have --encoder-top-attention; table 3's rows are cumulative: "
        "'- source-side context' is 0 here, and 0 for the other two",
    )
    decoder_global_layers: int = option(
        2,
        "how many top decoder layers have --decoder-top-attention (table 3, '- target-side "
        "context': 0)",
    )
    cross_global_layers: int = option(2, "how many top decoder layers have --cross-top-attention")
    encoder_top_attention: _TopAttention = option(  # type: ignore[valid-type]
        "combined", "kind of self-attention of the top encoder layers (table 6)"
    )
    decoder_top_attention: _TopAttention = option(  # type: ignore[valid-type]
        "combined", "kind of self-attention of the top decoder layers (table 6)"
    )
    cross_top_attention: _TopAttention = option(  # type: ignore[valid-type]
        "combined", "kind of cross-attention of the top decoder layers (table 6)"
    )
    no_language_locality: bool = option(
        False,
        "no group self-attention in any layer; table 5's rows are cumulative: '- language "
        "locality' also has --word-dropout 0",
    )
    no_translation_locality: bool = option(
        False,
        "no group cross-attention in any layer; table 5's rows are cumulative: '- translation "
        "locality' is all three, which is --doc-mode full without word dropout",
    )
    gate_bias: Optional[float] = option(
        None,
        "gates begin at sigmoid(BIAS) on the group side; 10 with --positions sentence starts "
        "exactly as the sentence model (default: random gates)",
        START,
    )


_MBART: dict[str, Any] = {
    **PLAIN_SWITCHES,
    "activation_fn": "gelu",
    "layernorm_embedding": True,
    "learned_positions": True,
    "share_all_embeddings": True,
    "encoder_normalize_before": True,
    "decoder_normalize_before": True,
}
PRESETS = {
    "gtransformer": sizes(6, 512, 2048, 8),
    "gtransformer_tiny": sizes(6, 256, 1024, 4),
    "gtransformer_small": sizes(6, 512, 1024, 4),
    "gtransformer_base": sizes(6, 512, 2048, 8),
    "gtransformer_big": sizes(6, 1024, 4096, 16),
    "gtransformer_large": sizes(12, 1024, 4096, 16),
    "gtransformer_mbart_large": sizes(12, 1024, 4096, 16, switches=_MBART),
}


@register_system("gtransformer", GTransformerConfig, PRESETS)
class GTransformer(DocumentModel):
    """G-Transformer: group attention, and combined group and global attention on top."""

    inputs = InputSpec(
        context_sides=("both", "source"), special_tokens={"gtransformer_mbart_large": "mbart"}
    )

    @classmethod
    def default_special_tokens(cls, cfg: Any, unit: str) -> str:
        """Return special tokens; a document Transformer learns where documents end."""
        special_tokens = super().default_special_tokens(cfg, unit)
        if reads_plain_documents(cfg, unit):
            of_documents = {"both": "document", "mbart": "mbart-document"}
            return of_documents.get(special_tokens, special_tokens)
        return special_tokens

    @classmethod
    def adapt_to_unit(cls, cfg: Any, unit: str) -> None:
        """Turn ``--doc-mode`` to full for single sentences, which have no groups."""
        if unit == "sentence" and cfg.get("doc_mode") == "partial":
            logger.info("a single sentence has no groups: --doc-mode is full")
            cfg.doc_mode = "full"

    @classmethod
    def check(cls, cfg: Any, task: Any) -> None:
        """Raise GtransError for options that contradict each other."""
        super().check(cfg, task)
        if cfg.unit == "window" and cfg.context_sides == "source" and cfg.doc_mode == "partial":
            raise GtransError(
                "`--doc-mode partial` pairs the sentences of both sides, but a window has its "
                "context on the source side only; give --context-sides both, or --doc-mode full."
            )
        if cfg.doc_mode == "full":
            return
        side_of_part = {"encoder": "encoder", "decoder": "decoder", "cross": "decoder"}
        for part, side in side_of_part.items():
            top = getattr(cfg, f"{part}_global_layers")
            layers = getattr(cfg, f"{side}_layers")
            if not 0 <= top <= layers:
                raise GtransError(
                    f"`--{part}-global-layers` must be between 0 and {layers}, the layers of that "
                    f"side, but is {top}; give `--{part}-global-layers {layers}`, or fewer."
                )

    @classmethod
    def attention_kinds(cls, cfg: Any) -> AttentionKinds:
        """Return group attention for the bottom layers, the chosen kinds for the top (§4.2)."""
        kinds = AttentionKinds.all("global", cfg)
        if cfg.doc_mode == "full":
            return kinds
        if not cfg.no_language_locality:
            encoder = _grouped(cfg, "encoder", len(kinds.encoder))
            decoder = _grouped(cfg, "decoder", len(kinds.decoder))
            kinds = replace(kinds, encoder=encoder, decoder=decoder)
        if not cfg.no_translation_locality:
            kinds = replace(kinds, cross=_grouped(cfg, "cross", len(kinds.cross)))
        return kinds

    @classmethod
    def layer_spec(cls, cfg: Any, side: str) -> LayerSpec:
        """Add the first bias of gates."""
        return replace(super().layer_spec(cfg, side), gate_bias=cfg.gate_bias)


def _grouped(cfg: Any, part: str, layers: int) -> list[str]:
    top_layers = int(getattr(cfg, f"{part}_global_layers"))
    top_kind = str(getattr(cfg, f"{part}_top_attention"))
    return ["group"] * (layers - top_layers) + [top_kind] * top_layers
