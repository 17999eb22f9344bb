"""Figures of scores over language pairs: means and win ratios by resource."""

from __future__ import annotations

import statistics
from collections.abc import Mapping, Sequence

from gtrans.errors import GtransError
from gtrans.lab.analysis.figures import Figure, Panel, Point, Series
from gtrans.lab.analysis.scores import ScoreFile, facts_of

# Sentences of a pair. The paper does not print its bounds, so these are choices of this project: a
# pair of OPUS-100 that has all of its million sentences but the empty ones has high resource.
HIGH, LOW = 900_000, 100_000
CLASSES = ("high", "medium", "low")
ALL = "all"


def resource_class(sentences: int, high: int = HIGH, low: int = LOW) -> str:
    """One of :data:`CLASSES`: at least ``high`` sentences, fewer than ``low``, or between."""
    return "high" if sentences >= high else "low" if sentences < low else "medium"


def wins(
    files: Sequence[ScoreFile],
    baseline: str,
    metric: str,
    sizes: Mapping[str, int],
    bounds: tuple[int, int] = (HIGH, LOW),
    title: str = "",
) -> Figure:
    """Mean scores and win ratios by resource (Yang et al. 2022, table V).

    The win ratio is the share of language pairs, in per cent, with a better score than the
    baseline's, which is a lower one of an error rate; equal scores are no win. Seeds of a pair
    count by their mean.

    Args:
        files: scores; ``x`` is the language pair.
        baseline: label of the system to win against.
        metric: see :meth:`Scores.value`.
        sizes: training sentences of every pair; empty: there are no classes.
        bounds: least sentences of a pair with high resource, and the least that is not low.
        title: of the figure.

    Raises:
        GtransError: a pair lacks a size or the score of a system, or there is no such baseline.
    """
    found: dict[str, dict[str, list[float]]] = {}
    sign = 1
    for file in files:
        of_pair = found.setdefault(file.label, {}).setdefault(str(file.x), [])
        read = file.read()
        of_pair.append(read.value(metric).y)
        sign = 1 if read.higher_is_better(metric) else -1
    scores = {
        label: {pair: statistics.fmean(runs) for pair, runs in pairs.items()}
        for label, pairs in found.items()
    }
    if baseline not in scores:
        raise GtransError(f"`--baseline` {baseline} is none of {', '.join(scores)}.")
    pairs = list(scores[baseline])
    for label, of_label in scores.items():
        if odd := sorted(set(of_label) ^ set(pairs)):
            raise GtransError(
                f"{label} and {baseline} do not have the same language pairs: {', '.join(odd)}."
            )
    if sizes and (missing := [pair for pair in pairs if pair not in sizes]):
        raise GtransError(f"`--sizes` lacks {', '.join(missing)}.")
    members = {
        name: [pair for pair in pairs if resource_class(sizes[pair], *bounds) == name]
        for name in (CLASSES if sizes else ())
    }
    members = {name: chosen for name, chosen in members.items() if chosen} | {ALL: pairs}
    labels = list(scores)
    means, ratios = [], []
    for number, label in enumerate(labels):
        points, won = [], []
        for name, chosen in members.items():
            points.append(Point(name, statistics.fmean(scores[label][pair] for pair in chosen)))
            gains = [sign * (scores[label][pair] - scores[baseline][pair]) for pair in chosen]
            won.append(Point(name, 100 * sum(gain > 0 for gain in gains) / len(chosen)))
        means.append(Series(label, tuple(points), number, "bars"))
        if label != baseline:
            ratios.append(Series(label, tuple(won), number, "bars"))
    panels = [
        Panel(f"mean {metric}", "resource", metric, tuple(means)),
        Panel(f"pairs better than {baseline}", "resource", "win ratio (%)", tuple(ratios)),
    ]
    facts = {"pairs": {name: len(chosen) for name, chosen in members.items()}, "scores": scores}
    return Figure(title, tuple(panels), facts_of(files) | facts)
