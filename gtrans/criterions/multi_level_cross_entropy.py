"""Multi-level training (GTRANS, Eq 7) as a criterion of fairseq."""

import math
from dataclasses import dataclass
from typing import Any

from fairseq import utils
from fairseq.criterions import FairseqCriterion, register_criterion
from fairseq.dataclass import FairseqDataclass
from fairseq.logging import metrics
from omegaconf import II
from torch import Tensor

from gtrans.data.unit_options import option
from gtrans.errors import GtransError
from gtrans.modules.layer_fusion import fuse_log_probs
from gtrans.modules.multi_level import GroupOutputs, smoothed_losses


@dataclass
class MultiLevelCrossEntropyConfig(FairseqDataclass):
    """Options of :class:`MultiLevelCrossEntropy`."""

    label_smoothing: float = option(0.0, "epsilon of label smoothing, 0: none")
    softmax_rows: int = option(
        1024, "most rows of logits in memory at once; each word has one row per group"
    )
    sentence_avg: bool = II("optimization.sentence_avg")


@register_criterion("multi_level_cross_entropy", dataclass=MultiLevelCrossEntropyConfig)
class MultiLevelCrossEntropy(FairseqCriterion):
    """``sum_i psi_i CE(P_i)`` over the groups of the decoder, with label smoothing.

    The logs have, in bits per word: ``loss``, Eq 7 with label smoothing; ``nll_loss`` (and
    ``ppl``), that of the fused probability (``--probability-fusion``) without smoothing;
    ``loss_group_i``, the
    smoothed loss of group i. ``weight_group_i`` is the weight psi of group i. A model without
    groups counts as one group.
    """

    def __init__(
        self, task: Any, sentence_avg: bool, label_smoothing: float, softmax_rows: int
    ) -> None:
        super().__init__(task)
        if not 0 <= label_smoothing < 1:
            raise GtransError(
                f"`--label-smoothing` must be at least 0 and below 1, but is {label_smoothing}."
            )
        if softmax_rows < 1:
            raise GtransError(f"`--softmax-rows` must be at least 1, but is {softmax_rows}.")
        self.sentence_avg = sentence_avg
        self.smoothing = label_smoothing
        self.softmax_rows = softmax_rows

    def forward(
        self, model: Any, sample: dict[str, Any], reduce: bool = True
    ) -> tuple[Tensor, int, dict[str, Any]]:
        """The loss of a batch, the number to divide it by, and the values for the logs.

        Raises:
            GtransError: the model has no groups to train.
        """
        if not getattr(model, "has_group_outputs", False):
            raise GtransError(
                "`--criterion multi_level_cross_entropy` needs a gtrans_fusion model; other models "
                "take label_smoothed_cross_entropy."
            )
        outputs: GroupOutputs = model(**sample["net_input"], groups_only=True)[0]
        target = outputs.layout.pack(sample["target"])
        features = outputs.features
        real = target.ne(self.padding_idx)
        if not bool(real.all()):
            target, features = target[real], features[:, real]
        groups, words = features.shape[:2]
        smoothed, plain = smoothed_losses(
            features.flatten(0, 1),
            outputs.projection,
            target.repeat(groups),
            self.smoothing,
            self.softmax_rows,
        )
        each = smoothed.view(groups, words).sum(1)
        weights = outputs.log_weights.exp()
        loss = (weights * each).sum()
        fused = fuse_log_probs(-plain.view(groups, words), outputs.log_weights, outputs.fusion)
        size = sample["target"].size(0) if self.sentence_avg else sample["ntokens"]
        logged = {
            "loss": loss.data,
            "nll_loss": -fused.data.sum(),
            "ntokens": sample["ntokens"],
            "nsentences": sample["target"].size(0),
            "sample_size": size,
        }
        for number in range(groups if groups > 1 else 0):
            logged[f"loss_group_{number + 1}"] = each[number].data
            # Sums of workers and batches are divided by their sizes again.
            logged[f"weight_group_{number + 1}"] = weights[number].data * size
        return loss, size, logged

    @classmethod
    def reduce_metrics(cls, logging_outputs: list[dict[str, Any]]) -> None:
        """Put the sums over workers and batches into the logs."""
        sums: dict[str, Any] = {}
        for output in logging_outputs:
            for name, value in output.items():
                sums[name] = sums.get(name, 0) + value
        size, words = sums["sample_size"], sums["ntokens"]
        bits = math.log(2)
        metrics.log_scalar("loss", sums["loss"] / size / bits, size, round=3)
        metrics.log_scalar("nll_loss", sums["nll_loss"] / words / bits, words, round=3)
        metrics.log_derived("ppl", lambda meters: utils.get_perplexity(meters["nll_loss"].avg))
        for name in sorted(sums, key=lambda name: (len(name), name)):
            if name.startswith("loss_group_"):
                metrics.log_scalar(name, sums[name] / size / bits, size, round=3)
            elif name.startswith("weight_group_"):
                metrics.log_scalar(name, sums[name] / size, size, round=4)

    @staticmethod
    def logging_outputs_can_be_summed() -> bool:
        """The logs of several workers can be summed."""
        return True
