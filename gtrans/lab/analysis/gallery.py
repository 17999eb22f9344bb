"""Attention maps as pictures, with a page that shows them all."""

from __future__ import annotations

import html
import json
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import Any

from gtrans.lab.analysis.maps import Axis, Map, as_json
from gtrans.lab.analysis.plots import figure_class, plain, write_together

INDEX, NUMBERS = "index.html", "maps.json"
_MANY_WORDS = 100  # more have no names along the side, only numbers of sentences
_INCHES_A_WORD = 0.17

_PAGE = """<!doctype html>
<html lang="en"><head><meta charset="utf-8"><title>{title}</title>
<meta name="viewport" content="width=device-width, initial-scale=1">
<style>body{{font-family:sans-serif;margin:1em;color:#111;background:#fff}}
figure{{display:inline-block;margin:1em;vertical-align:top}}img{{max-width:95vw}}</style></head><body>
<h1>{title}</h1>
<p>{text}</p>
<nav><ul>{links}</ul></nav>
{figures}</body></html>
"""


def draw_map(weights: Any, queries: Axis, keys: Axis, title: str) -> Any:
    """A figure of matplotlib: ``weights (queries, keys)``, the darker the higher."""
    rows, columns = weights.shape
    width, height = (2 + min(n, _MANY_WORDS) * _INCHES_A_WORD for n in (columns, rows))
    drawn = figure_class()(figsize=(width + 1, height), layout="constrained")
    axes = drawn.subplots()
    image = axes.imshow(
        weights, cmap="cividis_r", vmin=0, vmax=max(float(weights.max()), 1e-9), aspect="auto",
        interpolation="nearest",
    )  # fmt: skip
    for axis, of_axis, rotation in ((axes.xaxis, keys, 90), (axes.yaxis, queries, 0)):
        places, labels = _ticks(of_axis)
        axis.set_ticks(places, [plain(text) for text in labels], rotation=rotation, fontsize=7)
    _boundaries(axes.axhline, queries)
    _boundaries(axes.axvline, keys)
    drawn.colorbar(image, ax=axes, label="weight", fraction=0.05)
    axes.set_title(plain(title), fontsize="medium")
    return drawn


def _ticks(axis: Axis) -> tuple[list[int], list[str]]:
    if len(axis.labels) <= _MANY_WORDS:
        return list(range(len(axis.labels))), list(axis.labels)
    if axis.sentences is None:
        places = list(range(0, len(axis.labels), len(axis.labels) // 20))
        return places, [axis.labels[place] for place in places]
    places = [n for n, s in enumerate(axis.sentences) if not n or s != axis.sentences[n - 1]]
    return places, [f"sentence {axis.sentences[place]}" for place in places]


def _boundaries(line: Any, axis: Axis) -> None:
    for place, sentence in enumerate(axis.sentences or ()):
        if place and axis.sentences is not None and sentence != axis.sentences[place - 1]:
            line(place - 0.5, color="#D55E00", linewidth=0.6)


def write_gallery(maps: Sequence[Map], folder: Path, title: str, text: str, heads: bool) -> None:
    """Write a picture of every map, their numbers, and a page with all pictures.

    Args:
        maps: the maps.
        folder: an existing folder.
        title, text: heading and first paragraph of the page.
        heads: a picture for every head, not only the mean of all.

    Raises:
        GtransError: a file cannot be written; then none is.
    """
    contents: dict[Path, str | Callable[[], Any]] = {}
    links, figures = [], []
    for one in maps:
        drawings = [(one.name, one.title, one.weights.mean(0))]
        if heads:
            drawings += [
                (f"{one.name}-head-{number}", f"{one.title}, head {number}", weights)
                for number, weights in enumerate(one.weights, 1)
            ]
        for name, caption, weights in drawings:
            contents[folder / f"{name}.svg"] = partial(
                draw_map, weights.numpy(), one.queries, one.keys, caption
            )
            safe = html.escape(caption)
            links.append(f'<li><a href="#{name}">{safe}</a></li>')
            figures.append(
                f'<figure id="{name}"><img src="{name}.svg" alt="{safe}" loading="lazy"></figure>\n'
            )
    numbers = json.dumps([as_json(one) for one in maps], ensure_ascii=False)
    page = _PAGE.format(
        title=html.escape(title),
        text=html.escape(text),
        links="".join(links),
        figures="".join(figures),
    )
    for name, content in ((NUMBERS, f"{numbers}\n"), (INDEX, page)):
        contents[folder / name] = content
    write_together(contents)
