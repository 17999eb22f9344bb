"""What changed during training, and what a model attends to: the charts of logs and analyses."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

from gtrans.errors import GtransError
from gtrans.identity.json_files import read_json
from gtrans.report.charts import Chart, Panel, Points, draw_panels
from gtrans.report.training import Training

_UPDATES = "updates"
# What is drawn of the training and of the validation, one frame each.
_CURVES = (
    ("train", "loss", "Training loss", "bits per token"),
    ("valid", "loss", "Validation loss", "bits per token"),
    ("valid", "s_bleu", "s-BLEU of validation", "s-BLEU"),
    ("valid", "d_bleu", "d-BLEU of validation", "d-BLEU"),
    ("valid", "chrf", "chrF2 of validation", "chrF2"),
)
# Values of a model's parts that a log may have, one frame for each model.
_PARTS = (
    ("weight_group_", "Group weights", "Weights of the layer groups in the loss", "weight"),
    ("gate", "Gates", "How far the gates are open", "open"),
    ("entropy", "Entropy", "Entropy of attention", "bits"),
)


def training_charts(models: Mapping[str, Training]) -> list[Chart]:
    """Losses and scores by updates, and what else the logs have of gates, groups and entropy."""
    panels = []
    for split, name, title, unit in _CURVES:
        every = {label: _series(one, split, name) for label, one in models.items()}
        if lines := {label: points for label, points in every.items() if points}:
            panels.append(Panel(title, _UPDATES, unit, lines))
    charts = []
    if panels:
        words = f"Curves of {', '.join(models)} by updates: " + "; ".join(map(_ends, panels))
        charts.append(draw_panels("curves", "Training and validation", words, panels))
    for part, title, heading, unit in _PARTS:
        found = []
        for label, one in models.items():
            names = [name for name in one.history.names("train") if part in name]
            lines = {name: points for name in names if (points := _series(one, "train", name))}
            if lines:
                found.append(Panel(label, _UPDATES, unit, lines))
        if found:
            words = f"{heading}, by updates: " + "; ".join(map(_ends, found))
            charts.append(draw_panels(part.strip("_"), title, words, found))
    return charts


def _series(training: Training, split: str, name: str) -> Points:
    history = training.history
    if split == "valid":
        split = next(iter(history.valid), "")
    return [(float(updates), value) for updates, value in history.series(split, name)]


def _ends(panel: Panel) -> str:
    """A frame in words: where its lines end."""
    ends = (f"{name} {points[-1][1]:.3g}" for name, points in panel.lines.items())
    return f"{panel.title} at the end: {', '.join(ends)}"


def analysis_charts(files: Mapping[str, Path]) -> list[Chart]:
    """Entropy of attention and openness of gates, by what ``gtrans analyse --json`` printed.

    A file with several checkpoints is drawn over updates, with one by layers.

    Args:
        files: by the label of the model.

    Raises:
        GtransError: a file has something else.
    """
    entropies, gates = [], []
    for label, path in files.items():
        try:
            found = read_json(path)
            x, points = _analysis(found, lambda gate: gate["open"], "gates")
            if points:
                gates.append(Panel(label, x, "open", points))
            x, points = _analysis(found, lambda one: one["entropy"], "attention")
            _, limits = _analysis(found, lambda one: one["most"], "attention")
            entropies.append(Panel(label, x, "bits", points, limits))
        except FileNotFoundError:
            raise GtransError(f"`--analysis` {path}: there is no such file.") from None
        except (KeyError, TypeError, ValueError, AttributeError):
            raise GtransError(
                f"`--analysis` {path}: it is not what `gtrans analyse --json` prints."
            ) from None
    charts = []
    for name, title, words, panels in (
        ("entropy-of", "Entropy of attention", "Entropy of attention; dotted: at most", entropies),
        ("gates-of", "Openness of gates", "Openness of gates, from 0 to 1", gates),
    ):
        if panels:
            text = f"{words}. " + "; ".join(map(_ends, panels))
            charts.append(draw_panels(name, title, text, panels))
    return charts


def _analysis(
    found: Any, value: Callable[[Mapping[str, Any]], float], part: str
) -> tuple[str, dict[str, Points]]:
    """The unit of x, and the mean value of each kind by it."""
    if not isinstance(found, list) or not found:
        raise TypeError
    by_updates = len(found) > 1
    sums: dict[str, dict[float, list[float]]] = {}
    for checkpoint in found:
        for one in checkpoint[part]:
            x = checkpoint["updates"] if by_updates else one["layer"]
            name = " ".join(filter(None, (one["side"], one["kind"], one.get("range"))))
            sums.setdefault(name, {}).setdefault(float(x), []).append(float(value(one)))
    lines = {name: list(_means(of)) for name, of in sums.items()}
    return _UPDATES if by_updates else "layer", lines


def _means(values: Mapping[float, list[float]]) -> Iterator[tuple[float, float]]:
    for x, found in sorted(values.items()):
        yield x, sum(found) / len(found)
