"""What all layers share: sizes and switches, residuals, norms and the feed-forward network.

Parameter names follow fairseq's layers.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from gtrans.modules.attention import DocumentAttention
from gtrans.modules.linear import Linear, dropout

_ACTIVATIONS: dict[str, Callable[[Tensor], Tensor]] = {"relu": F.relu, "gelu": F.gelu}
ACTIVATIONS = tuple(_ACTIVATIONS)
FFN_INITS = ("xavier", "linear")


@dataclass(frozen=True)
class LayerSpec:
    """The sizes and switches shared by all layers of one side.

    Attributes:
        dim: width of the model.
        ffn_dim: width of the feed-forward network.
        heads: attention heads.
        dropout, attention_dropout, activation_dropout: probabilities.
        activation: name of the feed-forward network's activation.
        pre_norm: LayerNorm before each sublayer instead of after its residual.
        rezero: no LayerNorm; each layer has a learned scalar, 0 at the beginning, by which the
            outputs of its sublayers are multiplied (Bachlechner et al. 2020).
        gate_bias: see :class:`gtrans.modules.attention.Gate`.
        norm_eps: epsilon of LayerNorm (1e-12 in BERT).
        ffn_init: how feed-forward networks begin, one of :data:`FFN_INITS`: Xavier's uniform
            weights and no bias, or the default of ``nn.Linear``, uniform in
            ``+-1 / sqrt(inputs)``, bias included. With an inner width of twice the model's the
            output of Xavier's has eight times the variance, with four times 5.8 times.
        two_feed_forwards: a decoder layer has a feed-forward network behind self-attention, too.
    """

    dim: int
    ffn_dim: int
    heads: int
    dropout: float = 0.0
    attention_dropout: float = 0.0
    activation_dropout: float = 0.0
    activation: str = "relu"
    pre_norm: bool = False
    rezero: bool = False
    gate_bias: float | None = None
    norm_eps: float = 1e-5
    ffn_init: str = "xavier"
    two_feed_forwards: bool = False

    def feed_forward(self) -> tuple[Linear, Linear]:
        """The two new matrices of a feed-forward network."""
        linears = Linear(self.dim, self.ffn_dim), Linear(self.ffn_dim, self.dim)
        if self.ffn_init == "xavier":
            for linear in linears:
                nn.init.xavier_uniform_(linear.weight)
                nn.init.zeros_(linear.bias)
        return linears

    def norm(self) -> nn.Module:
        """A new LayerNorm of this layer's width; with ``rezero`` the identity."""
        return nn.Identity() if self.rezero else nn.LayerNorm(self.dim, self.norm_eps)

    def attention(self, kind: str) -> DocumentAttention:
        """A new attention of this layer's sizes, of one of the kinds of attention."""
        return DocumentAttention(self.dim, self.heads, self.attention_dropout, kind, self.gate_bias)


class ResidualLayer(nn.Module):
    """The residuals, norms and feed-forward network of every layer."""

    def __init__(self, spec: LayerSpec) -> None:
        super().__init__()
        self.spec = spec
        self.fc1, self.fc2 = spec.feed_forward()
        self.final_layer_norm = spec.norm()
        self.residual_scale = nn.Parameter(torch.zeros(1)) if spec.rezero else None

    def _residual(self, x: Tensor, norm: nn.Module, sublayer: Callable[[Tensor], Tensor]) -> Tensor:
        probability = self.spec.dropout
        if self.residual_scale is not None:
            return x + self.residual_scale * dropout(sublayer(x), probability, self.training)
        if self.spec.pre_norm:
            return x + dropout(sublayer(norm(x)), probability, self.training)
        output: Tensor = norm(x + dropout(sublayer(x), probability, self.training))
        return output

    def _feed_forward(self, x: Tensor) -> Tensor:
        return self._network(x, self.fc1, self.fc2, self.final_layer_norm)

    def _network(self, x: Tensor, inner: nn.Module, outer: nn.Module, norm: nn.Module) -> Tensor:
        def network(x: Tensor) -> Tensor:
            hidden = _ACTIVATIONS[self.spec.activation](inner(x))
            hidden = dropout(hidden, self.spec.activation_dropout, self.training)
            output: Tensor = outer(hidden)
            return output

        return self._residual(x, norm, network)
