"""Draw learning curves from the logs of training runs, several models in one figure.

A run is a folder with the log train.log, which the recipes keep, or a log itself. Runs with one
label are seeds of one model: their mean is drawn, with the smallest and the largest value.

--values names what the log has: loss, nll_loss, ppl, gnorm, lr, wps of training, weight_group_*
of a model with several decoder groups; behind the name of a validation split and a colon what was
measured on it: valid:loss, valid:s_bleu.
"""

from __future__ import annotations

import argparse
import json
import math
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from fnmatch import fnmatchcase
from pathlib import Path

from gtrans.errors import GtransError
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
    """Add the options of ``gtrans analyse curves``."""

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
    """Read the logs, draw and print.

    Raises:
        GtransError: a log is missing or has no such value, or the plot cannot be written.
    """

    given = labelled_paths(args.path)
    models = {label: [read_history(path) for path in paths] for label, paths in given.items()}
    check_figure(args, [run.path for runs in models.values() for run in runs])
    write(args, curves(models, args.values, title_of(list(models))))


# -------------------------------------------------------------------------------------------------
#
# Learning curves: what the logs of training runs say, several models in one figure.

DEFAULT_VALUES = ("loss", "valid:loss")
_TRAIN = "train"
_LABELS = {
    "loss": "loss (bits a token)",
    "nll_loss": "loss without smoothing (bits a token)",
    "ppl": "perplexity",
    "gnorm": "norm of the gradient",
    "lr": "learning rate",
    "wps": "tokens a second",
}


def curves(
    models: Mapping[str, Sequence[History]],
    values: Sequence[str] = DEFAULT_VALUES,
    title: str = "",
) -> Figure:
    """A panel for every value: its curve for every model.

    Args:
        models: the logs of a model's runs, by its label. Several runs are drawn as their mean,
            with the smallest and the largest value.
        values: names of logged values, of training, or of a validation split behind its name:
            ``valid:loss``. ``*`` stands for any characters; the values that it finds are curves
            of one panel (``weight_group_*``).
        title: of the figure.

    Raises:
        GtransError: no run has a value of this name.
    """
    panels = [_panel(models, value) for value in values]
    logs = {label: [str(run.path) for run in runs] for label, runs in models.items()}
    return Figure(title, tuple(panels), {"logs": logs})


def _panel(models: Mapping[str, Sequence[History]], value: str) -> Panel:
    split, _, pattern = value.rpartition(":")
    split = split or _TRAIN
    known = dict.fromkeys(
        name for runs in models.values() for run in runs for name in run.names(split)
    )
    names = [name for name in known if fnmatchcase(name, pattern)]
    if not names:
        has = ", ".join(known) or "nothing"
        raise GtransError(f"`--values` {value}: no log has it; of {split} they have {has}.")
    series: list[Series] = []
    for label, runs in models.items():
        for name, shade in zip(names, shades(len(names)), strict=True):
            called = label if len(names) == 1 else name if len(models) == 1 else f"{label}, {name}"
            model = list(models).index(label)
            points = mean_of_runs(run.series(split, name) for run in runs)
            if len(names) == 1:
                series.append(Series(called, points, model))
            else:
                series.append(Series(called, points, dashed=model > 0, shade=shade, mark=model))
    shown = _LABELS.get(pattern, pattern)
    where = "training" if split == _TRAIN else split
    return Panel(
        f"{where}: {pattern}", "updates", shown, tuple(one for one in series if one.points)
    )


# -------------------------------------------------------------------------------------------------
#
# What the log of a training run says, by the number of updates.

LOG = "train.log"
"""The log in a run folder: what the recipes keep of the training's output."""

# fairseq's line may have a time and a name before its message: with --log-file it has not.
_INNER = re.compile(r"(?:^|\| )epoch (\d+): +\d+ / \d+ (\S.*)$")
_SUMMARY = re.compile(r"(?:^|\| )epoch (\d+) \| (?:valid on '([^']+)' subset \| )?(\w+ \S+ \|.*)$")
_JSON = re.compile(r'\{"epoch": \d+, .*\}$')
_UPDATES = "num_updates"


@dataclass(frozen=True)
class Record:
    """What was logged at one moment.

    Attributes:
        updates: updates of the run up to then.
        epoch: from 1.
        values: what was logged, by fairseq's names without ``train_`` or ``valid_``: losses in
            bits (``loss``, ``nll_loss``), scores, ``gnorm``, ``lr``, ``weight_group_1`` .., and
            ``wall``, the seconds since the run began.
    """

    updates: int
    epoch: int
    values: dict[str, float]


@dataclass
class History:
    """The log of a run. What a run has done twice, because it was ended in between, counts once.

    Attributes:
        path: the log.
        inner: every ``--log-interval`` updates, means since the record before.
        epochs: at the end of every epoch, means over the epoch.
        valid: at every validation, by the name of the split.
    """

    path: Path
    inner: list[Record] = field(default_factory=list)
    epochs: list[Record] = field(default_factory=list)
    valid: dict[str, list[Record]] = field(default_factory=dict)

    @property
    def training(self) -> list[Record]:
        """The training by ``inner``, or by ``epochs`` if there is nothing more exact."""
        return self.inner or self.epochs

    @property
    def updates(self) -> int:
        """Updates up to the last record."""
        return max((record.updates for record in self._all()), default=0)

    def records(self, split: str) -> list[Record]:
        """Those of the split ``train``, or of a validation split."""
        return self.training if split == "train" else self.valid.get(split, [])

    def names(self, split: str) -> list[str]:
        """What was logged of a split, in the order of the log."""
        return list(dict.fromkeys(name for one in self.records(split) for name in one.values))

    def series(self, split: str, name: str) -> list[tuple[int, float]]:
        """``(updates, value)`` wherever the split has a value of this name."""
        return [
            (record.updates, record.values[name])
            for record in self.records(split)
            if name in record.values
        ]

    def _all(self) -> Iterator[Record]:
        yield from self.inner
        yield from self.epochs
        for records in self.valid.values():
            yield from records

    def _add(self, kind: str, record: Record) -> None:
        """Add a record; what is later than it in the log so far, the run does once more."""
        for records in (self.inner, self.epochs, *self.valid.values()):
            while records and records[-1].updates > record.updates:
                records.pop()
        own = {"inner": self.inner, "epochs": self.epochs}.get(kind)
        if own is None:
            own = self.valid.setdefault(kind, [])
        if own and own[-1].updates == record.updates:
            own.pop()
        own.append(record)


def read_history(run_folder: str | Path) -> History:
    """Read the log of a run.

    Args:
        run_folder: the folder of a run (``--save-dir``) with its log ``train.log``, as the
            recipes leave it; or a log: what a training printed, or its ``--log-file``. Both
            forms of ``--log-format`` are read, ``simple`` and ``json``.

    Raises:
        GtransError: there is no such log, or nothing about a training in it.
    """
    path = Path(run_folder)
    path = path / LOG if path.is_dir() else path
    history = History(path)
    try:
        with open(path, encoding="utf-8", errors="replace") as log:
            for line in log:
                # A bar of progress is drawn over itself.
                found = _record(line.rstrip("\n").rpartition("\r")[2])
                if found is not None:
                    history._add(*found)
    except FileNotFoundError:
        raise GtransError(
            f"{path}: there is no such log; name a run folder with its {LOG} (the run "
            f"scripts keep it, and so does `gtrans train --log-file DIR/{LOG}`), or a log itself."
        ) from None
    except OSError as error:
        raise GtransError(f"{path}: cannot be read ({error.strerror}).") from None
    if not history.updates:
        raise GtransError(
            f"{path}: it has no losses of a training; train with --log-format simple or json, and "
            "a --log-interval below the number of updates."
        )
    return history


def logged(run_folder: str | Path, word: str) -> float:
    """The first number behind a word of the log of a run, such as the number of parameters.

    Raises:
        GtransError: the log does not have the word.
    """
    log = Path(run_folder) / LOG
    found = re.search(re.escape(word) + r"\D*([\d,.]*\d)", log.read_text(encoding="utf-8"))
    if found is None:
        raise GtransError(f"{log}: it does not say '{word}'.")
    return float(found[1].replace(",", ""))


def _record(line: str) -> tuple[str, Record] | None:
    """Where a line of a log belongs, and what it says; None: it has no values."""
    if found := _JSON.search(line):
        return _of_json(found[0])
    if found := _INNER.search(line):
        kind, pairs = "inner", [pair.strip().partition("=") for pair in found[2].split(",")]
    elif found := _SUMMARY.search(line):
        kind = found[2] or "epochs"
        pairs = [pair.strip().partition(" ") for pair in found[3].split("|")]
    else:
        return None
    return _made(kind, int(found[1]), {name: value for name, _, value in pairs})


def _of_json(text: str) -> tuple[str, Record] | None:
    try:
        values = json.loads(text)
    except json.JSONDecodeError:  # cut off, as the training ended
        return None
    epoch = int(values.pop("epoch"))
    if "update" in values:  # only lines inside an epoch say how far it is
        return _made("inner", epoch, values)
    kind = next((name for name in values if name.endswith(f"_{_UPDATES}")), "")
    kind = kind.removesuffix(f"_{_UPDATES}")
    named = {name.removeprefix(f"{kind}_"): value for name, value in values.items()}
    return _made("epochs" if kind == "train" else kind, epoch, named)


def _made(kind: str, epoch: int, texts: dict[str, object]) -> tuple[str, Record] | None:
    values = {}
    for name, text in texts.items():
        try:
            value = float(str(text).replace(",", ""))
        except ValueError:  # such as None, or a list
            continue
        if name != "update" and math.isfinite(value):
            values[name] = value
    updates = values.pop(_UPDATES, None)
    return None if updates is None else (kind, Record(int(updates), epoch, values))
