"""Criterions that never hold the logits of a whole batch."""

import math
from dataclasses import dataclass
from typing import Any, Optional

from fairseq import utils
from fairseq.criterions import FairseqCriterion, register_criterion
from fairseq.dataclass import FairseqDataclass
from fairseq.logging import metrics
from omegaconf import II
from torch import Tensor, nn

from gtrans.errors import GtransError
from gtrans.models.base.model import DocumentModel
from gtrans.modules.chunked_loss import DecoderStates, Losses, chunked_loss
from gtrans.modules.layer_fusion import fuse_log_probs
from gtrans.option_types import option


@dataclass
class ChunkedCrossEntropyConfig(FairseqDataclass):
    """Options of both criterions."""

    label_smoothing: float = option(0.0, "epsilon of label smoothing, 0: none")
    report_accuracy: bool = option(False, "also log how many words are predicted right, in percent")
    softmax_rows: Optional[int] = option(
        None,
        "most rows of logits in memory at once; each word has one row per group of the decoder "
        "(default: as many as fill 32 MiB, on a GPU 1 GiB, but at least 128)",
    )
    sentence_avg: bool = II("optimization.sentence_avg")


@register_criterion("chunked_cross_entropy", dataclass=ChunkedCrossEntropyConfig)
class ChunkedCrossEntropy(FairseqCriterion):
    """Cross-entropy with label smoothing, some words' logits at a time.

    Losses, gradients, options and logs equal fairseq's ``label_smoothed_cross_entropy``.
    """

    def __init__(
        self,
        task: Any,
        sentence_avg: bool = False,
        label_smoothing: float = 0.0,
        softmax_rows: int | None = None,
        report_accuracy: bool = False,
    ) -> None:
        super().__init__(task)
        if not 0 <= label_smoothing < 1:
            raise GtransError(
                f"`--label-smoothing` must be at least 0 and below 1, but is {label_smoothing}."
            )
        if softmax_rows is not None and softmax_rows < 1:
            raise GtransError(f"`--softmax-rows` must be at least 1, but is {softmax_rows}.")
        self.sentence_avg = sentence_avg
        self.smoothing = label_smoothing
        self.softmax_rows = softmax_rows
        self.report_accuracy = report_accuracy

    def forward(
        self, model: Any, sample: dict[str, Any], reduce: bool = True
    ) -> tuple[Tensor, int, dict[str, Any]]:
        """Return the loss of a batch, the number to divide it by, and values for the logs.

        Raises:
            GtransError: the model is not one of this project.
            ValueError: ``reduce`` is False.
        """
        if not reduce:
            raise ValueError(
                "chunked_cross_entropy has the sum of the losses only (reduce=True); for the "
                "losses of each word take label_smoothed_cross_entropy"
            )
        inner = _unwrapped(model)
        if not isinstance(inner, DocumentModel):
            raise GtransError(
                "`--criterion chunked_cross_entropy` needs a model of this project, but got "
                f"{type(inner).__name__}; take label_smoothed_cross_entropy."
            )
        states: DecoderStates = model(**sample["net_input"], states_only=True)[0]
        groups, words = states.features.shape[:2]
        self.check_groups(groups)
        assert states.layout is not None
        target = states.layout.pack(sample["target"])
        real = target.ne(self.padding_idx)
        group_weights = states.log_weights.exp()
        weights = group_weights[:, None] * real  # (groups, words)
        losses = chunked_loss(
            states.features.flatten(0, 1),
            states.projection,
            target.repeat(groups),
            weights.flatten(),
            smoothing=self.smoothing,
            rows=self.softmax_rows,
            predict=self.report_accuracy,
            bias=states.bias,
        )
        rows = sample["target"].size(0)
        size = rows if self.sentence_avg else sample["ntokens"]
        logged = {
            "loss": losses.total.data,
            "ntokens": sample["ntokens"],
            "nsentences": rows,
            "sample_size": size,
            **self._logged(states, losses, real, size),
        }
        if losses.predicted is not None:
            last = losses.predicted.view(groups, words)[-1]
            logged["n_correct"] = (last.eq(target) & real).sum()
            logged["total"] = real.sum()
        return losses.total, size, logged

    @classmethod
    def check_groups(cls, groups: int) -> None:
        """Raise GtransError if several groups of decoder layers predict words."""
        if groups > 1:
            raise GtransError(
                f"`--criterion chunked_cross_entropy` is for one prediction of every word, but the "
                f"decoder has {groups} groups; take multi_level_cross_entropy (their losses) or "
                "label_smoothed_cross_entropy (the loss of their fused probability)."
            )

    def _logged(
        self, states: DecoderStates, losses: Losses, real: Tensor, size: int
    ) -> dict[str, Any]:
        return {"nll_loss": (losses.plain * real).sum()}

    @classmethod
    def reduce_metrics(cls, logging_outputs: list[dict[str, Any]]) -> None:
        """Log the sums over workers and batches."""
        sums: dict[str, Any] = {}
        for output in logging_outputs:
            for name, value in output.items():
                sums[name] = sums.get(name, 0) + value
        size, words = sums["sample_size"], sums["ntokens"]
        nats_per_bit = math.log(2)
        loss = sums["loss"] / size / nats_per_bit
        nll_loss = sums["nll_loss"] / words / nats_per_bit
        metrics.log_scalar("loss", loss, size, round=3)
        metrics.log_scalar("nll_loss", nll_loss, words, round=3)
        metrics.log_derived("ppl", lambda meters: utils.get_perplexity(meters["nll_loss"].avg))
        for name in sorted(sums, key=lambda name: (len(name), name)):
            if name.startswith("loss_group_"):
                metrics.log_scalar(name, sums[name] / size / nats_per_bit, size, round=3)
            elif name.startswith("weight_group_"):
                metrics.log_scalar(name, sums[name] / size, size, round=4)
        if utils.item(sums.get("total", 0)) > 0:
            for name in ("total", "n_correct"):
                metrics.log_scalar(name, utils.item(sums[name]))
            metrics.log_derived("accuracy", _accuracy)

    @staticmethod
    def logging_outputs_can_be_summed() -> bool:
        """Return True."""
        return True


@register_criterion("multi_level_cross_entropy", dataclass=ChunkedCrossEntropyConfig)
class MultiLevelCrossEntropy(ChunkedCrossEntropy):
    """``sum_i psi_i CE(P_i)`` over the groups of the decoder (GTRANS, Eq 7), with label smoothing.

    ``nll_loss`` and ``ppl`` come from the fused probability without smoothing, ``accuracy`` from
    the last group. With several groups, ``loss_group_i`` is the smoothed loss of group i and
    ``weight_group_i`` its psi.
    """

    @classmethod
    def check_groups(cls, groups: int) -> None:
        """Accept any number of groups."""

    def _logged(
        self, states: DecoderStates, losses: Losses, real: Tensor, size: int
    ) -> dict[str, Any]:
        groups = states.features.size(0)
        plain = losses.plain.view(groups, -1) * real  # (groups, words)
        smoothed = losses.smoothed.view(groups, -1) * real
        fused = fuse_log_probs(-plain, states.log_weights, states.fusion)
        total = fused.data.mul(real).sum()
        logged: dict[str, Any] = {"nll_loss": -total}
        if groups == 1:
            return logged
        for number in range(groups):
            logged[f"loss_group_{number + 1}"] = smoothed[number].sum()
            # Sums of workers and batches are divided by their sizes again.
            weight = states.log_weights[number].data.exp()
            logged[f"weight_group_{number + 1}"] = weight * size
        return logged


def _unwrapped(model: Any) -> Any:
    """Return the model inside the wrappers of distributed training."""
    while not isinstance(model, DocumentModel):
        inner = getattr(model, "module", None)
        if not isinstance(inner, nn.Module):
            break
        model = inner
    return model


def _accuracy(meters: Any) -> float:
    """Return the percentage of words predicted right; NaN without words, as fairseq."""
    total = float(meters["total"].sum)
    if total <= 0:
        return math.nan
    return round(float(meters["n_correct"].sum) * 100 / total, 3)
