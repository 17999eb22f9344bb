"""GTRANS: fused groups of layers, and the systems that its paper compares it with.

Yang, Yin, Ma, Huang, Zhang, Wei and Li, "GTRANS: Grouping and Fusing Transformer Layers
for Neural Machine Translation", 2022.

==========  ==========================================================================
Eq 1-2      :class:`gtrans.modules.layer_fusion.EncoderGroupFusion`
Eq 3-4      :class:`gtrans.modules.layer_fusion.DecoderGroupFusion`
Eq 5-6      :class:`gtrans.modules.layer_fusion.ProbabilityFusion`, ``fuse_probabilities``
Eq 7        :class:`gtrans.criterions.chunked_cross_entropy.MultiLevelCrossEntropy`
table VI    ``--use-groups``; figure 7: ``--keep-encoder-layers``
table VIII  ``--no-encoder-fusion``, ``--no-decoder-fusion``
==========  ==========================================================================

Every system has the same layer fusion as an option (:mod:`gtrans.models.base.options`).
"""

from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any, Optional

from fairseq.dataclass import ChoiceEnum

from gtrans.errors import GtransError
from gtrans.models.base.encoder import StackDesign
from gtrans.models.base.model import DocumentModel, InputSpec
from gtrans.models.base.options import FusionConfig, StackConfig, layer_spec
from gtrans.models.base.presets import PLAIN_SWITCHES, register_system, sizes
from gtrans.models.base.warm_start import dictionaries_of
from gtrans.models.base.xlmr_start import start_from_xlmr
from gtrans.modules.layer_fusion import LayerCombination, LayerFusion, RepresentationFusion
from gtrans.modules.transformer import FFN_INITS, LayerSpec
from gtrans.option_types import option, option_again, refuse_given

SYSTEMS = ("gtrans", "post-norm", "pre-norm", "ta", "dlcl", "rezero", "mlrf")
_PRE_NORM = ("pre-norm", "dlcl")


@dataclass
class GtransFusionConfig(FusionConfig, StackConfig):
    """Options of :class:`GtransFusion`."""

    encoder_group_size: int = option_again(FusionConfig, "encoder_group_size", 3)
    decoder_group_size: int = option_again(FusionConfig, "decoder_group_size", 2)

    system: ChoiceEnum(list(SYSTEMS)) = option(  # type: ignore[valid-type]
        "gtrans",
        "gtrans: fused groups of layers; or a system that the paper compares it with: post-norm "
        "or pre-norm: the Transformer; ta: transparent attention (Bapna et al. 2018); dlcl: Wang "
        "et al. 2019; rezero: Bachlechner et al. 2020; mlrf: Wang et al. 2018",
    )
    ffn_init: ChoiceEnum(list(FFN_INITS)) = option(  # type: ignore[valid-type]
        "xavier",
        "how feed-forward networks begin: xavier; linear: as torch's nn.Linear (the authors' "
        "code), which gives their output an eighth of the variance in gtrans_fusion_small",
    )
    two_feed_forwards: bool = option(
        False,
        "a second feed-forward network in every decoder layer, before cross-attention (`addffn` of "
        "the authors' code, for XLM-R)",
    )
    init_xlmr: Optional[str] = option(
        None,
        "folder of an XLM-R (config.json, weights, tokenizer) to start from: it gives the encoder, "
        "the embeddings (--share-all-embeddings), and the decoder's self-attention and "
        "feed-forward networks, with --two-feed-forwards its cross-attention, too; not needed when "
        "resuming or decoding",
    )


# Where XLM-R (Conneau et al. 2020) differs from the Transformer.
_XLMR: dict[str, Any] = {
    **PLAIN_SWITCHES,
    "activation_fn": "gelu",
    "layernorm_embedding": True,
    "learned_positions": True,
    "max_positions": 512,
    "no_scale_embedding": True,
}
PRESETS = {
    "gtrans_fusion": sizes(6, 512, 2048, 8, switches=PLAIN_SWITCHES),
    "gtrans_fusion_tiny": sizes(6, 256, 1024, 4, switches=PLAIN_SWITCHES),
    "gtrans_fusion_small": sizes(6, 512, 1024, 8, switches=PLAIN_SWITCHES),
    "gtrans_fusion_base": sizes(6, 512, 2048, 8, switches=PLAIN_SWITCHES),
    "gtrans_fusion_big": sizes(6, 1024, 4096, 16, switches=PLAIN_SWITCHES),
    "gtrans_fusion_xlmr_base": sizes(12, 768, 3072, 12, decoder_layers=6, switches=_XLMR),
}


@register_system("gtrans_fusion", GtransFusionConfig, PRESETS)
class GtransFusion(DocumentModel):
    """GTRANS layer fusion: fused groups of layers, with the baselines of its paper."""

    inputs = InputSpec(units=("sentence", "window", "document"))
    # Why the model could not start from --init-xlmr.
    start_mistake: str | None = None

    @classmethod
    def check(cls, cfg: Any, task: Any) -> None:
        """Raise GtransError for options that contradict each other."""
        super().check(cfg, task)
        if cfg.system != "gtrans":
            names = ("no_encoder_fusion", "no_decoder_fusion", "fusion_bias")
            why = f"is for --system gtrans; '{cfg.system}' has no groups"
            refuse_given(cfg, FusionConfig, names, why)
        layers = int(cfg.encoder_layers or 0)
        kept = cfg.keep_encoder_layers
        if cfg.system == "mlrf" and kept not in (None, layers):
            raise GtransError(
                f"`--keep-encoder-layers` must be {layers} for --system mlrf, but is {kept}."
            )

    @classmethod
    def layer_groups(cls, cfg: Any) -> int:
        """Return how many groups of decoder layers predict words."""
        return super().layer_groups(cfg) if cfg.system == "gtrans" else 1

    @classmethod
    def layer_spec(cls, cfg: Any, side: str) -> LayerSpec:
        """Return pre-norm, post-norm or ReZero layers, by ``--system``."""
        return layer_spec(
            cfg,
            side,
            pre_norm=cfg.system in _PRE_NORM,
            rezero=cfg.system == "rezero",
            ffn_init=str(cfg.ffn_init),
            two_feed_forwards=side == "decoder" and bool(cfg.two_feed_forwards),
        )

    @classmethod
    def design(cls, cfg: Any, side: str) -> StackDesign:
        """Return the design of one side, fused as ``--system`` says."""
        design = super().design(cfg, side)
        if cfg.system == "gtrans":
            return design
        return replace(
            design,
            fusion=partial(_layer_fusion, cfg, side, design.spec.dim),
            transparent=int(cfg.encoder_layers or 0) if cfg.system == "ta" else 0,
        )

    @classmethod
    def build_from_options(cls, cfg: Any, task: Any) -> "GtransFusion":
        """Build a model, and start it from XLM-R with ``--init-xlmr``."""
        model = super().build_from_options(cfg, task)
        if not cfg.init_xlmr:
            return model
        folder = Path(cfg.init_xlmr)
        if not folder.exists():
            mistake = "there is no such folder."
        elif not folder.is_dir():
            mistake = "this is a file; give the folder with XLM-R's config.json and weights."
        elif not cfg.share_all_embeddings:
            mistake = "XLM-R has one table of embeddings; give `--share-all-embeddings`, too."
        else:
            start_from_xlmr(model, cfg.init_xlmr, dictionaries_of(task))
            return model
        # A resumed or finished run loads its own checkpoint and needs no XLM-R. The plan of a new
        # run raises the mistake, and `forward` if no run is planned (fairseq's own tasks).
        model.start_mistake = f"--init-xlmr {cfg.init_xlmr}: {mistake}"
        model.register_load_state_dict_post_hook(_has_parameters)
        return model

    def forward(self, *args: Any, **kwargs: Any) -> tuple[Any, dict[str, Any]]:
        """Run the model as in the base class.

        Raises:
            GtransError: training begins, but the model could not start from ``--init-xlmr``.
        """
        if self.start_mistake is not None and self.training:
            raise GtransError(self.start_mistake)
        return super().forward(*args, **kwargs)


def _layer_fusion(cfg: Any, side: str, dim: int) -> LayerFusion:
    layers = int(getattr(cfg, f"{side}_layers"))
    if cfg.system == "dlcl":
        return LayerCombination(layers, dim)
    if cfg.system == "mlrf":
        return RepresentationFusion(layers, dim)
    # With "ta", too, the last layer is the output; the decoder reads the stored states of all.
    return LayerFusion()


def _has_parameters(model: GtransFusion, _: Any) -> None:
    model.start_mistake = None
