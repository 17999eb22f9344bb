"""What a command of fairseq is rejected for before anything is loaded."""

from __future__ import annotations

from importlib.util import find_spec
from typing import Any

import torch

from gtrans.errors import GtransError, did_you_mean
from gtrans.libraries import require
from gtrans.option_types import check_limits
from gtrans.search.generator import refuse_unsupported
from gtrans.tasks.parts.eval_bleu import SCORES

_LOSSES = ("loss", "nll_loss", "ppl", "accuracy")
_LOGGED_BY = (
    *("cross_entropy", "label_smoothed_cross_entropy"),
    *("chunked_cross_entropy", "multi_level_cross_entropy"),
)


def check_first(task: Any, root: Any) -> None:
    """Reject what fairseq's command cannot begin with.

    Args:
        task: options of the task.
        root: all options of the command; None: they are not known.

    Raises:
        GtransError: options of generation that document search does not support; in training,
            options that contradict each other or the machine, naming the option.
    """
    if root is None:
        return
    if root.get("generation") is not None:
        refuse_unsupported(root.generation)
    if root.get("checkpoint") is None or root.common_eval.path:
        return
    check_limits(root)
    common, metric = root.common, str(root.checkpoint.best_checkpoint_metric)
    best, scores = f"`--best-checkpoint-metric {metric}`", SCORES if task.eval_bleu else ()
    known = (*_LOSSES, *scores)
    there_are = f"; there are {', '.join(known)}"
    logged = metric in known or metric.startswith("loss_group_")
    for wrong, message in (
        (
            task.get("overlap"),
            f"`--overlap {task.get('overlap')}` is for decoding; in training leave it out "
            "(`--recut` lets a model meet every sentence at every place of a chunk).",
        ),
        (
            common.amp and (common.fp16 or common.bf16),
            "`--amp` is given with `--fp16` or `--bf16`; leave one of them out.",
        ),
        (
            common.fp16 and not torch.cuda.is_available(),
            "`--fp16` needs a GPU, and there is none; leave it out.",
        ),
        (
            task.eval_bleu and root.dataset.disable_validation,
            "`--eval-bleu` needs validation; leave out `--disable-validation`.",
        ),
        (
            metric in SCORES and not scores,
            f"{best} is a score of `--eval-bleu`, which is missing.",
        ),
        (
            metric in scores and not root.checkpoint.maximize_best_checkpoint_metric,
            f"{best} needs `--maximize-best-checkpoint-metric`: the highest score is the best.",
        ),
        (
            not logged and str(root.criterion.get("_name")) in _LOGGED_BY,
            f"{best}: there is no such score{did_you_mean(metric, known) or there_are}",
        ),
    ):
        if wrong:
            raise GtransError(message)
    if common.tensorboard_logdir and find_spec("tensorboard") is None:
        require(["tensorboardX"], "`--tensorboard-logdir`")
