"""What a stack of layers gives: its last state, or several states fused.

GTRANS (Yang et al. 2022, "GTRANS: Grouping and Fusing Transformer Layers for Neural
Machine Translation") fuses groups of layers: Eq 2 in the encoder, Eq 3-4 in the
decoder, and the probabilities of the decoder's groups by Eq 5-6. The other classes are
other methods of using all layers that the paper compares with.

A :class:`LayerFusion` accompanies a stack: what it remembers of each layer
(:meth:`LayerFusion.remember`), what the next layer reads (:meth:`LayerFusion.layer_input`)
and what comes out at the top (``forward``). ``states`` is always the list of what was
remembered so far: of the embedded input first, then of every layer that has run.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

import torch
import torch.nn.functional as F
from torch import Tensor, nn


class LayerFusion(nn.Module):
    """The plain stack: a layer reads the one below, and the last one is the result.

    Attributes:
        reads_all: whether it needs the states of all layers, not only the last one.
        normalises: whether its result needs no final LayerNorm in pre-norm stacks.
    """

    reads_all = False
    normalises = False

    def remember(self, state: Tensor, number: int) -> Tensor:
        """What later layers see of ``state (.., dim)``; ``number`` 0 is the embedded input."""
        return state

    def layer_input(self, states: Sequence[Tensor]) -> Tensor:
        """What the next layer reads: ``(.., dim)``."""
        return states[-1]

    def forward(self, states: Sequence[Tensor]) -> Tensor:
        """The results of the stack: ``(groups, .., dim)``, one group in the plain stack."""
        return states[-1][None]


def run_layers(
    fusion: LayerFusion,
    layers: int,
    x: Tensor,
    run: Callable[[int, Tensor], Tensor],
    keep_all: bool = False,
) -> tuple[Tensor, list[Tensor]]:
    """Run a stack.

    Args:
        fusion: how the states of its layers are used.
        layers: how many bottom layers run.
        x: ``(.., dim)`` the embedded input.
        run: the layer of a number, from 0, on its input.
        keep_all: return the states of all layers, whether ``fusion`` needs them or not.

    Returns:
        the result ``(groups, .., dim)``, and what was kept: the states remembered of the input
        and of all layers, or of the last one only.
    """
    states = [fusion.remember(x, 0)]
    for number in range(layers):
        state = fusion.remember(run(number, fusion.layer_input(states)), number + 1)
        if not (keep_all or fusion.reads_all):
            states.clear()
        states.append(state)
    result: Tensor = fusion(states)
    return result, states


def group_tops(layers: int, group_size: int) -> list[int]:
    """Numbers, from 1, of the last layer of each group: ``alpha_i = min(i T, L)`` of Eq 2."""
    return [min(top, layers) for top in range(group_size, layers + group_size, group_size)]


class EncoderGroupFusion(LayerFusion):
    """Eq 2: the last layers of all groups, each times a scalar gate, averaged and normalised.

    A single group has no LayerNorm. Where only the bottom layers have run, their groups
    are fused, and the last of them may be cut short (figure 7).
    """

    reads_all = True

    def __init__(self, layers: int, group_size: int, dim: int) -> None:
        super().__init__()
        self.group_size = group_size
        groups = len(group_tops(layers, group_size))
        self.weights = nn.Parameter(torch.zeros(groups))
        self.layer_norm = nn.LayerNorm(dim) if groups > 1 else None

    def forward(self, states: Sequence[Tensor]) -> Tensor:
        """``(1, .., dim)``."""
        tops = group_tops(len(states) - 1, self.group_size)
        gates = torch.sigmoid(self.weights[: len(tops)])
        fused = _weighted_sum(gates, [states[top] for top in tops]) / len(tops)
        if self.layer_norm is not None:
            fused = self.layer_norm(fused)
        return fused[None]


class DecoderGroupFusion(LayerFusion):
    """Eq 3-4: in every group the sum of its layers, each times a scalar gate."""

    reads_all = True
    members: Tensor

    def __init__(self, layers: int, group_size: int) -> None:
        super().__init__()
        self.weights = nn.Parameter(torch.zeros(layers))
        tops = group_tops(layers, group_size)
        members = torch.zeros(len(tops), layers)
        for group, top in enumerate(tops):
            members[group, group * group_size : top] = 1
        self.register_buffer("members", members, persistent=False)
        self.groups = slice(0, len(tops))

    def use(self, first: int, last: int) -> int:
        """Give the groups ``first .. last`` only, from 1; returns how many layers they need."""
        self.groups = slice(first - 1, last)
        return int(self.members[last - 1].nonzero().max()) + 1

    def forward(self, states: Sequence[Tensor]) -> Tensor:
        """``(groups in use, .., dim)``; layers above these groups need not have run."""
        layers = states[1:]
        gates = torch.sigmoid(self.weights[: len(layers)])
        # One product for all groups: a decoding step has little to do but to start kernels.
        mixture = self.members[self.groups, : len(layers)].to(gates.dtype) * gates
        stacked = torch.stack(list(layers))
        return (mixture @ stacked.flatten(1)).view(-1, *stacked.shape[1:])


class ProbabilityFusion(nn.Module):
    """Eq 5-6: the weights with which the decoder's groups vote on a word."""

    def __init__(self, groups: int, dim: int) -> None:
        super().__init__()
        self.weights = nn.Parameter(torch.zeros(groups))
        self.temperature = math.sqrt(dim)

    def log_weights(self, groups: slice) -> Tensor:
        """``(groups in use,)`` log psi in single precision, normalised over these groups."""
        weights = self.weights[groups].float() / self.temperature
        return torch.log_softmax(weights, 0)


def fuse_probabilities(logits: Tensor, log_weights: Tensor) -> Tensor:
    """Eq 5 in log space and in single precision, whatever the type of ``logits``.

    Args:
        logits: ``(groups, .., vocabulary)``.
        log_weights: ``(groups,)`` log psi.

    Returns:
        ``(.., vocabulary)`` log-probabilities; a single group's logits as they are.
    """
    if logits.size(0) == 1:
        return logits[0]
    logits = logits.float()
    weights = log_weights.view(-1, *[1] * (logits.dim() - 1))
    return torch.logsumexp(logits + (weights - logits.logsumexp(-1, keepdim=True)), 0)


class TransparentAttention(nn.Module):
    """Bapna et al. 2018 (EMNLP): every decoder layer sees a mixture of its own of all states.

    The states are the encoder's embedded input and all of its layers.
    """

    def __init__(self, encoder_layers: int, decoder_layers: int) -> None:
        super().__init__()
        self.weights = nn.Parameter(torch.zeros(decoder_layers, encoder_layers + 1))

    def forward(self, states: Sequence[Tensor]) -> list[Tensor]:
        """The ``(.., dim)`` memory of each decoder layer."""
        rows = torch.softmax(self.weights[:, : len(states)].float(), 1).to(states[0].dtype)
        return [_weighted_sum(row, states) for row in rows]


class LayerCombination(LayerFusion):
    """DLCL, Wang et al. 2019 (ACL): each layer reads a linear combination of all below it.

    As there for pre-norm layers: a state passes a LayerNorm of its own, the weights begin
    as an average, and the combination of all states is the result of the stack.
    """

    reads_all = True
    normalises = True

    def __init__(self, layers: int, dim: int) -> None:
        super().__init__()
        average = torch.ones(layers + 1, layers + 1).tril()
        self.weights = nn.Parameter(average / average.sum(1, keepdim=True))
        self.layer_norms = nn.ModuleList(nn.LayerNorm(dim) for _ in range(layers + 1))

    def remember(self, state: Tensor, number: int) -> Tensor:
        """``state`` normalised."""
        normalised: Tensor = self.layer_norms[number](state)
        return normalised

    def layer_input(self, states: Sequence[Tensor]) -> Tensor:
        """The combination with the weights of the next layer."""
        return _weighted_sum(self.weights[len(states) - 1, : len(states)], states)

    def forward(self, states: Sequence[Tensor]) -> Tensor:
        """``(1, .., dim)``."""
        return self.layer_input(states)[None]


class RepresentationFusion(LayerFusion):
    """MLRF, Wang et al. 2018 (COLING): a feed-forward network fuses all layers of a stack.

    Of the functions that they compare this is the one that joins all layers side by side,
    ``LN(W2 relu(W1 [h_1; ..; h_L]))``, with the residual of the last layer.
    """

    reads_all = True

    def __init__(self, layers: int, dim: int) -> None:
        super().__init__()
        self.fc1 = nn.Linear(layers * dim, dim)
        self.fc2 = nn.Linear(dim, dim)
        for linear in (self.fc1, self.fc2):
            nn.init.xavier_uniform_(linear.weight)
            nn.init.zeros_(linear.bias)
        self.layer_norm = nn.LayerNorm(dim)

    def forward(self, states: Sequence[Tensor]) -> Tensor:
        """``(1, .., dim)``."""
        hidden = F.relu(self.fc1(torch.cat(list(states[1:]), -1)))
        fused: Tensor = self.layer_norm(states[-1] + self.fc2(hidden))
        return fused[None]


def _weighted_sum(weights: Tensor, states: Sequence[Tensor]) -> Tensor:
    """``sum_i weights[i] * states[i]``, without a copy of all states side by side."""
    total = weights[0] * states[0]
    for weight, state in zip(weights[1:], states[1:], strict=True):
        total = total + weight * state
    return total
