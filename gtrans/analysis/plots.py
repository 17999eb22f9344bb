"""Plots of the results of :mod:`gtrans.analysis.corpus`, by matplotlib."""

from __future__ import annotations

import importlib
import io
import logging
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from gtrans.errors import GtransError
from gtrans.identity.files import binary_writer, check_output

if TYPE_CHECKING:
    from gtrans.analysis.corpus import Analysis

SUFFIXES = (".png", ".pdf", ".svg")
_DATE = {".pdf": {"CreationDate": None}, ".svg": {"Date": None}}


def check_plot(path: Path, inputs: Sequence[str | Path]) -> None:
    """Raises GtransError, before anything is computed, if no plot can be written to ``path``.

    This includes that it is one of ``inputs``, the files that are read.
    """
    if path.suffix not in SUFFIXES:
        raise GtransError(f"`--plot` must end in {', '.join(SUFFIXES)}, but is '{path}'.")
    check_output("--plot", path, inputs)
    _figure_class()


def _figure_class() -> Any:
    # fairseq makes every library log at level INFO.
    for library in ("matplotlib", "PIL"):
        logging.getLogger(library).setLevel(logging.WARNING)
    try:
        return importlib.import_module("matplotlib.figure").Figure
    except ModuleNotFoundError:
        raise GtransError(
            "`--plot` needs the library matplotlib; install the extra: pip install 'gtrans[plots]'."
        ) from None


def draw(found: Sequence[Analysis], path: Path) -> None:
    """Entropy of each kind of attention, by layer or by update; gradients by distance."""
    gradients = found[0].reach is not None
    figure = _figure_class()(figsize=(10 if gradients else 6, 4), layout="constrained")
    axes = figure.subplots(1, 1 + gradients, squeeze=False)[0]
    _entropies(axes[0], found)
    if gradients:
        _gradients(axes[1], found)
    rc_context = importlib.import_module("matplotlib").rc_context
    # The same plot is the same file: no date, and no random names.
    drawn, kind = io.BytesIO(), path.suffix.removeprefix(".")
    with rc_context({"svg.hashsalt": "gtrans"}):
        figure.savefig(drawn, dpi=150, format=kind, metadata=_DATE.get(path.suffix))
    # Written here, because its library does not say why a file could not be written.
    with binary_writer(path) as file:
        file.write(drawn.getvalue())


def _entropies(axes: Any, found: Sequence[Analysis]) -> None:
    over_updates = len(found) > 1
    lines: dict[str, list[tuple[int, float]]] = {}
    for one in found:
        sums: dict[tuple[str, int], tuple[float, int]] = {}
        for location, spread in one.seen.attention.items():
            name = " ".join(filter(None, (location.side, location.kind, location.range)))
            key = name, one.updates if over_updates else location.layer
            entropy, queries = sums.get(key, (0.0, 0))
            sums[key] = entropy + spread.entropy, queries + spread.queries
        for (name, x), (entropy, queries) in sums.items():
            lines.setdefault(name, []).append((x, entropy / queries))
    for name, points in sorted(lines.items()):
        axes.plot(*zip(*sorted(points), strict=True), marker="o", label=name)
    axes.xaxis.get_major_locator().set_params(integer=True)
    axes.set_xlabel("updates" if over_updates else "layer")
    axes.set_ylabel("entropy of attention (bits)")
    axes.legend(fontsize="small")


def _gradients(axes: Any, found: Sequence[Analysis]) -> None:
    for one in found:
        assert one.reach is not None
        for side in ("source", "target"):
            points = [
                (distance, one.reach.mean(side, distance))
                for distance in one.reach.distances()
                if one.reach.mean(side, distance)
            ]
            label = side if len(found) == 1 else f"{side}, {one.updates} updates"
            axes.plot(*zip(*points, strict=True), marker="o", label=label)
    axes.set_xlabel("sentences back")
    axes.set_ylabel("mean norm of the gradient at a word")
    axes.set_yscale("log")
    axes.legend(fontsize="small")
