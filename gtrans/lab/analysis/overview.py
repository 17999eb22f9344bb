"""The figure of several models: entropy, gates and gradients."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass

from gtrans.lab.analysis.corpus import Analysis, as_json
from gtrans.lab.analysis.figures import Figure, Kind, Panel, Point, Series, mean_of_runs, shades


@dataclass(frozen=True)
class _Value:
    """A measured value: a point of a line in a panel is the mean of some of them.

    Attributes:
        panel: title of the panel.
        line: name of the line, besides the model.
        x: where it belongs unless values are drawn over updates.
        total: sum of what was measured.
        number: how many were measured.
    """

    panel: str
    line: str
    x: int
    total: float
    number: float = 1.0


_Measured = Callable[[Analysis], Iterable[_Value]]
_Lines = dict[tuple[str, str], tuple[Point, ...]]


class _View:
    """The analyses of all models."""

    def __init__(self, found: Sequence[Analysis]) -> None:
        self.found = found
        self.labels = list(dict.fromkeys(one.label for one in found))
        self.training = len({one.run for one in found}) < len(found)
        self.x_label = "updates" if self.training else "layer"

    def panels(self, measured: _Measured, training: bool) -> dict[str, _Lines]:
        """The points of every model and line of every panel, over updates or by ``x``."""
        sums: dict[str, dict[tuple[str, str], dict[int, dict[float, list[float]]]]] = {}
        for one in self.found:
            for value in measured(one):
                line = sums.setdefault(value.panel, {}).setdefault((one.label, value.line), {})
                run = line.setdefault(one.run, defaultdict(lambda: [0.0, 0.0]))
                pair = run[one.updates if training else value.x]
                pair[0] += value.total
                pair[1] += value.number
        return {
            panel: {
                name: mean_of_runs(
                    [(x, total / number) for x, (total, number) in run.items()]
                    for run in runs.values()
                )
                for name, runs in lines.items()
            }
            for panel, lines in sums.items()
        }

    def series(
        self, lines: _Lines, kind: Kind = "line", before: str = "", shaded: bool = False
    ) -> list[Series]:
        """The lines of a panel: a colour for each model, or for each line of the only model.

        Further lines of one of several models are dashed. ``before`` begins their names.
        ``shaded`` lines are in an order, which is their colour; those of further models are dashed.
        """
        others = list(dict.fromkeys(line for _, line in lines))
        several = len(self.labels) > 1
        found = []
        for (label, line), points in lines.items():
            name = ", ".join(filter(None, (label if several else "", line)))
            number, model = others.index(line), self.labels.index(label)
            found.append(
                Series(
                    " ".join(filter(None, (before, name))) or label,
                    points,
                    model if several else number,
                    kind,
                    dashed=(model if shaded else several and number) > 0,
                    shade=shades(len(others))[number] if shaded else None,
                    mark=model if shaded else number,
                )
            )
        return found


def overview(found: Sequence[Analysis], title: str = "", bin_size: int = 1) -> Figure:
    """Panels for every kind of attention, the gates, and gradients by distance and by layer.

    Values are drawn by layer; if a run has several checkpoints, over its updates, and then as the
    mean of all layers. Several runs of a model are one line, with the smallest and the largest.
    Gradients by distance are those of the last checkpoint of a run.

    Args:
        found: the analyses of all checkpoints; those of a run by updates.
        title: of the figure.
        bin_size: distances that are taken together.
    """
    view = _View(found)
    panels = [*_attention(view), *_gates(view), *_reach(found, bin_size), *_layers(view)]
    return Figure(title, tuple(panels), {"checkpoints": [as_json(one) for one in found]})


def _attention(view: _View) -> Iterator[Panel]:
    def entropy(one: Analysis, most: bool = False) -> Iterator[_Value]:
        for place, seen in one.seen.ordered_attention():
            total = seen.max_entropy if most else seen.entropy
            panel = f"{place.side.replace('_', ' ')}: {place.kind} attention"
            yield _Value(panel, place.range, place.layer, total, seen.queries)

    limits = view.panels(lambda one: entropy(one, most=True), view.training)
    for title, lines in view.panels(entropy, view.training).items():
        # Models that attend equally widely share a limit.
        different: dict[tuple[Point, ...], Series] = {}
        for series in view.series(limits[title], "limit", "at most"):
            different.setdefault(series.points, series)
        series_of = (*view.series(lines), *different.values())
        yield Panel(title, view.x_label, "entropy (bits)", series_of)


def _gates(view: _View) -> Iterator[Panel]:
    def opened(one: Analysis) -> Iterator[_Value]:
        for place, gate in one.seen.ordered_gates():
            line = f"{place.side} {place.kind}"
            yield _Value("gates", line, place.layer, gate.total, gate.values)

    for title, lines in view.panels(opened, view.training).items():
        series = tuple(view.series(lines))
        yield Panel(title, view.x_label, "share of the wider attention", series)


def _reach(found: Sequence[Analysis], bin_size: int) -> Iterator[Panel]:
    last = list({one.run: one for one in found}.values())

    def norms(one: Analysis) -> Iterator[_Value]:
        if one.reach is not None:
            for (side, distance), words in sorted(one.reach.words.items()):
                # A logarithmic axis has no place for zeros, as of group attention.
                if total := one.reach.norms[side, distance]:
                    yield _Value(f"gradients at {side} words", "", distance, total, words)

    view = _View(last)
    x_label = "sentences back"
    if bin_size > 1:
        x_label += f" (n: n to n + {bin_size - 1})"
    for title, lines in view.panels(norms, training=False).items():
        yield Panel(title, x_label, "mean norm at a word", tuple(view.series(lines)), True)


def _layers(view: _View) -> Iterator[Panel]:
    def norms(one: Analysis) -> Iterator[_Value]:
        for layer in one.layers or ():
            line = f"layer {layer.layer}" if view.training else ""
            yield _Value(f"gradients of {layer.side} layers", line, layer.layer, layer.norm)

    for title, lines in view.panels(norms, view.training).items():
        series = view.series(lines, shaded=view.training)
        yield Panel(title, view.x_label, "norm, loss per token", tuple(series), True)
