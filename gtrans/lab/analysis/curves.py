"""Learning curves: what the logs of training runs say, several models in one figure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from fnmatch import fnmatchcase

from gtrans.errors import GtransError
from gtrans.lab.analysis.figures import Figure, Panel, Series, mean_of_runs, shades
from gtrans.lab.analysis.history import History

UPDATES, HOURS, EPOCHS = AXES = ("updates", "hours", "epochs")
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
    against: str = UPDATES,
    title: str = "",
) -> Figure:
    """A panel for every value: its curve for every model.

    Args:
        models: the logs of a model's runs, by its label. Several runs are drawn as their mean,
            with the smallest and the largest value; ``against`` hours, as a curve each.
        values: names of logged values, of training, or of a validation split behind its name:
            ``valid:loss``. ``*`` stands for any characters; the values that it finds are curves
            of one panel (``weight_group_*``).
        against: one of :data:`AXES`.
        title: of the figure.

    Raises:
        GtransError: no run has a value of this name.
    """
    panels = [_panel(models, value, against) for value in values]
    logs = {label: [str(run.path) for run in runs] for label, runs in models.items()}
    return Figure(title, tuple(panels), {"logs": logs})


def _panel(models: Mapping[str, Sequence[History]], value: str, against: str) -> Panel:
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
            found = [_points(run, split, name, against) for run in runs]
            found = [points for points in found if points]
            # Times of different runs have nothing in common of which there is a mean.
            for group in [[run] for run in found] if against == HOURS else [found]:
                points = mean_of_runs(group)
                if len(names) == 1:
                    series.append(Series(called, points, model))
                else:
                    series.append(Series(called, points, dashed=model > 0, shade=shade, mark=model))
    shown = _LABELS.get(pattern, pattern)
    where = "training" if split == _TRAIN else split
    x_label = {HOURS: "hours of training", EPOCHS: "epoch"}.get(against, "updates")
    return Panel(f"{where}: {pattern}", x_label, shown, tuple(one for one in series if one.points))


def _points(run: History, split: str, name: str, against: str) -> list[tuple[float, float]]:
    found = [record for record in run.records(split) if name in record.values]
    if against == UPDATES:
        return [(record.updates, record.values[name]) for record in found]
    if against == EPOCHS:
        # The last of an epoch, in which a validation or a line of the log may be one of several.
        return list({float(record.epoch): record.values[name] for record in found}.items())
    wall = dict(run.series(_TRAIN, "wall"))
    seconds = [
        (max((time for at, time in wall.items() if at <= record.updates), default=0.0), record)
        for record in found
    ]
    return [(time / 3600, record.values[name]) for time, record in seconds]
