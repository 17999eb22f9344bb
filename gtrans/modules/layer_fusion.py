"""The output of a stack of layers: its last layer, or several layers fused.

GTRANS (Yang et al. 2022, "GTRANS: Grouping and Fusing Transformer Layers for Neural Machine
Translation") fuses groups of layers: Eq 2 in the encoder, Eq 3-4 in the decoder, and the
probabilities of the decoder's groups by Eq 5-6. The paper compares the other classes. *Groups* are
groups of layers here, not of tokens.

``states`` are the stored states: the embedded input, then every layer that has run.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import Tensor, nn


class LayerFusion(nn.Module):
    """The plain stack: a layer reads the one below, and the last one is the result.

    Attributes:
        reads_all: the fusion reads all states, not only the last.
        normalises: its result is normalised, so pre-norm stacks add no final norm.
    """

    reads_all = False
    normalises = False

    def remember(self, state: Tensor, number: int) -> Tensor:
        """Return the stored form of ``state (.., dim)`` of layer ``number`` (0: the input)."""
        return state

    def layer_input(self, states: Sequence[Tensor]) -> Tensor:
        """Return the next layer's input: ``(.., dim)``."""
        return states[-1]

    def forward(self, states: Sequence[Tensor]) -> Tensor:
        """Return the result of the stack: ``(groups, .., dim)``, one group in the plain stack."""
        return states[-1][None]


@dataclass(frozen=True)
class TokenSelection:
    """The tokens that the upper layers of a stack read.

    Attributes:
        bottom_layers: how many layers read all tokens.
        kept: ``(kept tokens,)`` indices of the tokens for the others.
    """

    bottom_layers: int
    kept: Tensor

    def select(self, states: Sequence[Tensor]) -> list[Tensor]:
        """``(tokens, dim) -> (kept tokens, dim)`` for each state."""
        return [state.index_select(0, self.kept) for state in states]


def run_layers(
    fusion: LayerFusion,
    layers: Sequence[Callable[[Tensor], Tensor]],
    x: Tensor,
    keep_all: bool = False,
    selection: TokenSelection | None = None,
) -> tuple[Tensor, list[Tensor]]:
    """Run a stack.

    Args:
        fusion: of the layers.
        layers: from the bottom.
        x: ``(.., dim)`` the embedded input.
        keep_all: return the states of all layers, even if ``fusion`` reads only the last.
        selection: None: all layers read all tokens.

    Returns:
        the result ``(groups, .., dim)``, and the states of input and layers, or of the last layer.
    """
    states = [fusion.remember(x, 0)]
    for number, layer in enumerate(layers):
        if selection is not None and number == selection.bottom_layers:
            states = selection.select(states)
        output = layer(fusion.layer_input(states))
        state = fusion.remember(output, number + 1)
        if not (keep_all or fusion.reads_all):
            states.clear()
        states.append(state)
    if selection is not None and selection.bottom_layers >= len(layers):
        states = selection.select(states)
    result: Tensor = fusion(states)
    return result, states


def group_tops(layers: int, group_size: int) -> list[int]:
    """Return the groups' last layers, from 1: ``alpha_i = min(i T, L)`` of Eq 2."""
    tops = range(group_size, layers + group_size, group_size)
    return [min(top, layers) for top in tops]


class EncoderGroupFusion(LayerFusion):
    """Eq 2: the mean of the groups' last layers, each times a scalar gate, normalised.

    If only the bottom layers have run, their groups are fused (figure 7).
    """

    reads_all = True

    def __init__(
        self,
        layers: int,
        group_size: int,
        dim: int,
        own_norm: bool = True,
        bias: float = 0.0,
    ) -> None:
        """The gate of the last group begins at ``sigmoid(bias)``, others at ``sigmoid(-bias)``.

        ``own_norm``: False if the stack ends with a LayerNorm. A single group never has its own.
        """
        super().__init__()
        self.group_size = group_size
        groups = len(group_tops(layers, group_size))
        weights = _first_weights(groups, [groups], bias)
        self.weights = nn.Parameter(weights)
        self.layer_norm: nn.LayerNorm | None = None
        if own_norm and groups > 1:
            self.layer_norm = nn.LayerNorm(dim)

    def forward(self, states: Sequence[Tensor]) -> Tensor:
        """``(1, .., dim)``."""
        layers = len(states) - 1
        tops = group_tops(layers, self.group_size)
        gates = torch.sigmoid(self.weights)[: len(tops)]
        last_layers = [states[top] for top in tops]
        total = _weighted_sum(gates, last_layers)
        fused = total / len(tops)
        if self.layer_norm is not None:
            fused = self.layer_norm(fused)
        return fused[None]


GROUP_FUSIONS = ("sum", "mean", "last")


class DecoderGroupFusion(LayerFusion):
    """One state for every group of the decoder (Eq 3).

    ``sum`` is Eq 4: the group's layers, each times a scalar gate. The authors' code divides it by
    the number of layers (``mean``, its ``dense``) or takes the last layer (``last``, its
    ``sparse``, the default).

    Attributes:
        bias: where gates begin, and the weights of the groups' probabilities.
    """

    reads_all = True
    members: Tensor
    weights: nn.Parameter | None

    def __init__(
        self,
        layers: int,
        group_size: int,
        kind: str = "sum",
        bias: float = 0.0,
    ) -> None:
        """Gates of last layers begin at ``sigmoid(bias)``, others at ``sigmoid(-bias)``.

        ``kind``: one of :data:`GROUP_FUSIONS`.
        """
        super().__init__()
        self.tops = group_tops(layers, group_size)
        self.bias = bias
        self.weights = None
        if kind != "last":
            weights = _first_weights(layers, self.tops, bias)
            self.weights = nn.Parameter(weights)
        members = torch.zeros(len(self.tops), layers)
        for group, top in enumerate(self.tops):
            if kind == "last":
                members[group, top - 1] = 1
                continue
            first = group * group_size
            share = 1.0
            if kind == "mean":
                share = 1 / (top - first)
            members[group, first:top] = share
        self.register_buffer("members", members, persistent=False)
        self.groups = slice(0, len(self.tops))

    def use(self, first: int, last: int) -> int:
        """Use only the groups ``first .. last``, from 1; return how many layers they need."""
        self.groups = slice(first - 1, last)
        return self.tops[last - 1]

    def forward(self, states: Sequence[Tensor]) -> Tensor:
        """``(groups in use, .., dim)``; layers above these groups may be missing."""
        layers = states[1:]
        # One product for all groups: the time of a decoding step is mainly kernel launches.
        members = self.members[self.groups, : len(layers)]  # (groups in use, layers)
        mixture = members.to(layers[0].dtype)
        if self.weights is not None:
            gates = torch.sigmoid(self.weights[: len(layers)])
            mixture = mixture * gates
        stacked = torch.stack(list(layers))
        mixed = mixture @ stacked.flatten(1)
        return mixed.view(-1, *stacked.shape[1:])


class ProbabilityFusion(nn.Module):
    """Eq 5-6: the weights psi of the decoder's groups in a word's probability."""

    def __init__(self, groups: int, dim: int, bias: float = 0.0) -> None:
        """The odds of the last group begin at ``exp(bias)`` to 1 against every other one."""
        super().__init__()
        self.temperature = math.sqrt(dim)
        self.weights = nn.Parameter(torch.zeros(groups))
        last = self.weights.data[-1:]
        nn.init.constant_(last, bias * self.temperature)

    def log_weights(self, groups: slice) -> Tensor:
        """``(groups in use,)`` log psi, normalised over these groups."""
        logits = self.weights[groups].float() / self.temperature
        return torch.log_softmax(logits, 0)


PROBABILITY_FUSIONS = ("arithmetic", "geometric")


def fuse_probabilities(logits: Tensor, log_weights: Tensor, kind: str = "arithmetic") -> Tensor:
    """Fuse the groups' logits to log-probabilities of a word.

    Args:
        logits: ``(groups, .., vocabulary)``.
        log_weights, kind: see :func:`fuse_log_probs`.

    Returns:
        ``(.., vocabulary)``; for a single group its logits, unchanged.
    """
    if logits.size(0) == 1:
        return logits[0]
    logits = logits.float()
    normaliser = logits.logsumexp(-1, keepdim=True)
    log_probs = logits - normaliser
    return fuse_log_probs(log_probs, log_weights, kind)


def fuse_log_probs(log_probs: Tensor, log_weights: Tensor, kind: str) -> Tensor:
    """Fuse log-probabilities ``(groups, ..)`` to ``(..)``.

    Args:
        log_probs: before fusion.
        log_weights: ``(groups,)`` log psi.
        kind: ``arithmetic``: ``log sum_i psi_i P_i`` (Eq 5); ``geometric``: ``sum_i psi_i log
            P_i`` (Eq 7, negated), as in the authors' search; probabilities sum to less than 1.
    """
    other_dimensions = [1] * (log_probs.dim() - 1)
    log_weights = log_weights.view(-1, *other_dimensions)
    if kind == "geometric":
        weighted = log_probs * log_weights.exp()
        return weighted.sum(0)
    weighted = log_probs + log_weights
    return torch.logsumexp(weighted, 0)


class TransparentAttention(nn.Module):
    """Bapna et al. 2018 (EMNLP): every decoder layer attends to its own mixture of all states."""

    def __init__(self, encoder_layers: int, decoder_layers: int) -> None:
        super().__init__()
        self.weights = nn.Parameter(torch.zeros(decoder_layers, encoder_layers + 1))

    def forward(self, states: Sequence[Tensor]) -> list[Tensor]:
        """Return for each decoder layer the ``(.., dim)`` states that it sees."""
        logits = self.weights[:, : len(states)].float()  # (decoder layers, states)
        weights = torch.softmax(logits, 1)
        weights = weights.to(states[0].dtype)
        return [_weighted_sum(mixture, states) for mixture in weights]


class LayerCombination(LayerFusion):
    """DLCL, Wang et al. 2019 (ACL): each layer reads a linear combination of all below it.

    Every state has its own LayerNorm; the weights begin as an average.
    """

    reads_all = True
    normalises = True

    def __init__(self, layers: int, dim: int) -> None:
        super().__init__()
        states = layers + 1
        is_below = torch.ones(states, states).tril()
        below = is_below.sum(1, keepdim=True)
        self.weights = nn.Parameter(is_below / below)
        self.layer_norms = nn.ModuleList(nn.LayerNorm(dim) for _ in range(states))

    def remember(self, state: Tensor, number: int) -> Tensor:
        """Return ``state`` normalised."""
        normalised: Tensor = self.layer_norms[number](state)
        return normalised

    def layer_input(self, states: Sequence[Tensor]) -> Tensor:
        """Return the combination with the weights of the next layer."""
        number = len(states)
        weights = self.weights[number - 1, :number]
        return _weighted_sum(weights, states)

    def forward(self, states: Sequence[Tensor]) -> Tensor:
        """``(1, .., dim)``."""
        return self.layer_input(states)[None]


class RepresentationFusion(LayerFusion):
    """MLRF, Wang et al. 2018 (COLING): ``LN(W2 relu(W1 [h_1; ..; h_L]) + h_L)``."""

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
        layers = torch.cat(list(states[1:]), -1)
        hidden = F.relu(self.fc1(layers))
        total = states[-1] + self.fc2(hidden)
        fused: Tensor = self.layer_norm(total)
        return fused[None]


def _first_weights(number: int, chosen: Sequence[int], bias: float) -> Tensor:
    """``(number,)``: ``bias`` for the ``chosen``, from 1, and ``-bias`` for the others."""
    weights = torch.full((number,), -bias)
    for layer in chosen:
        weights[layer - 1] = bias
    return weights


def _weighted_sum(weights: Tensor, states: Sequence[Tensor]) -> Tensor:
    total = weights[0] * states[0]
    for weight, state in zip(weights[1:], states[1:], strict=True):
        total = total + weight * state
    return total
