"""Context attention as a part: a second attention in every layer of the encoder or decoder."""

from dataclasses import dataclass
from typing import Any, Optional

from fairseq.dataclass import ChoiceEnum

from gtrans.data.unit_options import option
from gtrans.errors import GtransError
from gtrans.models.base.model import DocumentModel
from gtrans.modules.attention import MultiheadAttention
from gtrans.modules.context_attention import COMBINATIONS, PLACES, ContextAttention

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
    )


def check_context(cfg: Any) -> None:
    """Raises GtransError for options out of range."""
    if not 0 <= cfg.drop_net <= 1:
        raise GtransError(f"`--drop-net` must be between 0 and 1, but is {cfg.drop_net}.")


def add_context_attention(model: DocumentModel, cfg: Any, width: int) -> None:
    """Let the layers that ``cfg`` names attend to context states of this width."""
    for side in ("encoder", "decoder"):
        if cfg.bert_integration not in ("both", side):
            continue
        layers: Any = getattr(model, side).layers
        for layer in layers:
            spec = layer.spec
            layer.context_attn = ContextAttention(
                MultiheadAttention(spec.dim, spec.heads, spec.attention_dropout, width),
                str(cfg.combine),
                context_first=side == "decoder",
                gate_bias=cfg.context_gate_bias,
                drop_net=float(cfg.drop_net),
                norm=spec.norm() if str(cfg.context_place) == "behind" else None,
            )
