"""Draw learning curves from the logs of training runs, several models in one figure.

A run is a folder of `gtrans train`, which keeps the log train.log, or a log itself. Runs with one
label are seeds of one model: their mean is drawn, with the smallest and the largest value.

--values names values of the log: loss, nll_loss, ppl, gnorm, lr, wps of training, weight_group_* of
a model with several decoder groups. Values of a validation split begin with its name and a colon,
such as valid:loss and valid:s_bleu.
"""

from __future__ import annotations

import argparse
from collections.abc import Mapping, Sequence
from fnmatch import fnmatchcase
from itertools import chain

from gtrans.errors import GtransError
from gtrans.lab.logs import TrainingHistory, read_history
from gtrans.lab.plots import (
    Figure,
    Panel,
    Series,
    add_figure,
    check_figure,
    mean_of_runs,
    shades,
    title_of,
    write,
)
from gtrans.lab.runs import labelled_paths

EXAMPLE = (
    "gtrans analyse curves --path fine-tuned=out/finetune random=out/randinit "
    "--values loss valid:loss --plot curves.png"
)
NEEDS = ()


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the options."""
    parser.add_argument(
        "--path",
        required=True,
        nargs="+",
        metavar="[LABEL=]RUN",
        help="run folders or logs; without a label they are called by their folder",
    )
    parser.add_argument(
        "--values",
        nargs="+",
        default=list(DEFAULT_VALUES),
        metavar="NAME",
        help="what to draw, a panel each; * stands for any characters, such as weight_group_* "
        f"(default: {' '.join(DEFAULT_VALUES)})",
    )
    add_figure(parser)


def run(args: argparse.Namespace) -> None:
    """Read the logs, draw and print."""
    models = {}
    logs = []
    for label, paths in labelled_paths(args.path).items():
        models[label] = [read_history(path) for path in paths]
        logs += [run.path for run in models[label]]
    check_figure(args, logs)
    write(args, curves(models, args.values, title_of(list(models))))


# -------------------------------------------------------------------------------------------------
#
# Learning curves from the logs of training runs, several models in one figure.

DEFAULT_VALUES = ("loss", "valid:loss")
_TRAIN = "train"
_LABELS = {
    "loss": "loss (bits per token)",
    "nll_loss": "loss without smoothing (bits per token)",
    "ppl": "perplexity",
    "gnorm": "norm of the gradient",
    "lr": "learning rate",
    "wps": "tokens a second",
}


def curves(
    models: Mapping[str, Sequence[TrainingHistory]],
    values: Sequence[str] = DEFAULT_VALUES,
    title: str = "",
) -> Figure:
    """Draw a panel for every value, with a curve for every model (the mean of its runs).

    A value is ``loss``, ``valid:loss``, or ``weight_group_*`` for several curves.
    """
    panels = [_panel(models, value) for value in values]
    logs = {}
    for label, runs in models.items():
        logs[label] = [str(run.path) for run in runs]
    return Figure(title, tuple(panels), {"logs": logs})


def _panel(models: Mapping[str, Sequence[TrainingHistory]], value: str) -> Panel:
    split, _, pattern = value.rpartition(":")
    split = split or _TRAIN
    logged: dict[str, None] = {}
    for run in chain.from_iterable(models.values()):
        logged |= dict.fromkeys(run.names(split))
    names = [name for name in logged if fnmatchcase(name, pattern)]
    if not names:
        listed = ", ".join(logged) or "nothing"
        raise GtransError(f"`--values` {value}: no log has it; of {split} they have {listed}.")
    series: list[Series] = []
    for model, (label, runs) in enumerate(models.items()):
        for name, shade in zip(names, shades(len(names)), strict=True):
            points = mean_of_runs(run.series(split, name) for run in runs)
            if not points:
                continue
            if len(names) == 1:
                series.append(Series(label, points, model))
                continue
            line = Series(
                name if len(models) == 1 else f"{label}, {name}",
                points,
                dashed=model > 0,
                shade=shade,
                marker=model,
            )
            series.append(line)
    y_label = _LABELS.get(pattern, pattern)
    heading = "training" if split == _TRAIN else split
    return Panel(f"{heading}: {pattern}", "updates", y_label, tuple(series))
