"""Draw the attention maps of a document: which words attend to which.

The model is run on one unit of the split --split and its reference. There is a map for every kind
of attention in every layer: self and cross, within a sentence (group) and over the document
(global), to a context, to a recurrent memory, and for its updates (a map for each sentence). Rows
are the words that attend, in the decoder named by the word that is predicted.

--out DIR gets a picture for every map (SVG), and their numbers (maps.json).
"""

from __future__ import annotations

import argparse
import json
import re
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from itertools import pairwise
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from gtrans.cli.shared.options import add_device, add_read
from gtrans.environment import ENGINE
from gtrans.errors import GtransError
from gtrans.files import check_output_folder
from gtrans.lab.attention import Location, watch_attention
from gtrans.lab.checkpoint_measurements import one_unit
from gtrans.lab.plots import figure_class, plain, write_together
from gtrans.messages import print_lines
from gtrans.modules.group_attention import AttentionPlan
from gtrans.modules.transformer import Pairs
from gtrans.translating.loading import load_models

EXAMPLE = (
    "gtrans analyse maps --path checkpoints/checkpoint_best.pt --data data-bin --split test "
    "--unit 3 --sentences 2-3 --out maps"
)
NEEDS = (*ENGINE, "matplotlib")
KINDS = ("self", "cross", "context", "memory", "update")


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the options."""
    files = parser.add_argument_group("files")
    files.add_argument("--path", required=True, metavar="CKPT", help="checkpoint")
    add_read(files)
    files.add_argument(
        "--out", required=True, metavar="DIR", help="folder for the pictures; made if missing"
    )
    group = parser.add_argument_group("what is drawn")
    group.add_argument(
        "--unit",
        type=int,
        default=1,
        metavar="N",
        help="number of the unit in the split: a document, a chunk of a long one, or the window of "
        "a sentence (default: %(default)s)",
    )
    group.add_argument(
        "--sentences", metavar="A-B", help="only what the sentences A to B of the unit attend to"
    )
    group.add_argument(
        "--kinds", nargs="+", choices=KINDS, help="only these kinds of attention (default: all)"
    )
    add_device(parser.add_argument_group("size"))


def run(args: argparse.Namespace) -> None:
    """Draw the maps into the folder."""
    first, last = _sentence_range(args.sentences)
    folder = Path(args.out)
    check_output_folder("--out", folder, [args.data, args.path])
    models, task = load_models([args.path], args.data, cpu=args.cpu, fp16=args.fp16)
    model = models[0]
    device = next(model.parameters()).device
    net_input, target = one_unit(task, args.split, args.unit, device)
    text = unit_text(model, task, net_input, target)
    maps = attention_maps(model, task.complete_input(net_input), text)
    if args.sentences:
        sentences = max(text.source.sentences or (1,))
        if last > sentences:
            raise GtransError(
                f"`--sentences {args.sentences}`: unit {args.unit} of {args.split} has {sentences} "
                "sentences."
            )
        maps = of_sentences(maps, first, last)
    if args.kinds:
        maps = [heatmap for heatmap in maps if heatmap.place.kind in args.kinds]
    if not maps:
        raise GtransError(
            f"{args.path}: it has no attention that --sentences and --kinds leave over."
        )
    _write_maps(folder, maps)
    print_lines(f"{folder}: {len(maps)} maps")


def _write_maps(folder: Path, maps: Sequence[Map]) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    contents: dict[Path, str | Callable[[], Any]] = {}
    numbers = []
    for heatmap in maps:
        contents[folder / f"{heatmap.name}.svg"] = partial(draw_map, heatmap)
        numbers.append(as_json(heatmap))
    text = json.dumps(numbers, ensure_ascii=False)
    contents[folder / "maps.json"] = f"{text}\n"
    write_together(contents)


def _sentence_range(text: str | None) -> tuple[int, int]:
    match = re.fullmatch(r"(\d{1,6})(?:-(\d{1,6}))?", text or "1-1")
    if match:
        first = int(match[1])
        last = int(match[2] or match[1])
        if 1 <= first <= last:
            return first, last
    raise GtransError(f"`--sentences` must be A-B, counted from 1, but is '{text}'.")


# -------------------------------------------------------------------------------------------------
#
# Attention maps of one unit: which words attend to which, layer by layer.


@dataclass(frozen=True)
class Axis:
    """The labels along one side of a map: words, or numbers if there are none.

    Attributes:
        sentences: the sentence of each word, from 1; None: words outside of sentences.
    """

    labels: tuple[str, ...]
    sentences: tuple[int, ...] | None = None

    def chosen(self, positions: Sequence[int]) -> Axis:
        """Return the labels at some positions."""
        labels = tuple(self.labels[n] for n in positions)
        if self.sentences is None:
            return Axis(labels)
        return Axis(labels, tuple(self.sentences[n] for n in positions))


@dataclass(frozen=True)
class Map:
    """The weights ``(heads, queries, keys)`` of one attention.

    Attributes:
        sentence: the sentence that writes to a memory, from 1; None: the map has all words.
    """

    place: Location
    sentence: int | None
    queries: Axis
    keys: Axis
    weights: Tensor

    @property
    def name(self) -> str:
        """Its name as a file, unique among the maps of a unit."""
        parts = [self.place.side, self.place.kind]
        if self.place.range:
            parts.append(self.place.range)
        parts.append(f"layer-{self.place.layer}")
        if self.sentence is not None:
            parts.append(f"sentence-{self.sentence}")
        return "-".join(parts)


@dataclass(frozen=True)
class UnitText:
    """The words of one unit.

    Attributes:
        read: input of the decoder.
        current: the part of ``source`` that is translated, in a window; otherwise all of it.
        context: subwords of a frozen BERT, or words of a context encoder.
    """

    source: Axis
    read: Axis
    predicted: Axis
    current: Axis
    context: Axis = Axis(())


def unit_text(model: Any, task: Any, net_input: dict[str, Tensor], target: Tensor) -> UnitText:
    """Return the words of a batch of one unit; ``target`` is ``(1, length)``."""
    source_tokens = net_input["src_tokens"]
    target_tokens = net_input["prev_output_tokens"]
    source_layout, target_layout = model.layouts(source_tokens, target_tokens)
    source = _word_axis(source_layout, source_tokens, task.source_dictionary)
    read = _word_axis(target_layout, target_tokens, task.target_dictionary)
    predicted = _word_axis(target_layout, target.to(target_tokens), task.target_dictionary)
    current, context = source, Axis(())
    if "current_sentence" in net_input:
        is_current = source_layout.sentence == int(net_input["current_sentence"])
        inside = is_current.nonzero()[:, 0]
        outside = (~is_current).nonzero()[:, 0]
        current = source.chosen(inside.tolist())
        context = source.chosen(outside.tolist())
    if "bert_subwords" in net_input:
        entries = task.bert.subwords.entries
        subwords = net_input["bert_subwords"][0].tolist()
        context = Axis(tuple(entries[subword] for subword in subwords))
    return UnitText(source, read, predicted, current, context)


def _word_axis(layout: Any, tokens: Tensor, dictionary: Any) -> Axis:
    ids = layout.pack(tokens).tolist()
    labels = tuple(dictionary[token] for token in ids)
    sentences = layout.sentence + 1
    return Axis(labels, tuple(sentences.tolist()))


@dataclass(frozen=True)
class _Call:
    weights: Tensor  # (heads, queries, keys)
    visible: Tensor  # (queries, keys)


def attention_maps(model: Any, net_input: dict[str, Tensor], text: UnitText) -> list[Map]:
    """Return the maps of all attentions of a model in evaluation mode, for a batch of one row."""
    calls: dict[Location, list[_Call]] = {}

    def keep(place: Location, weights: Tensor, pairs: AttentionPlan | Pairs) -> None:
        call = _Call(weights.float().cpu(), pairs.visible.cpu())
        calls.setdefault(place, []).append(call)

    with torch.no_grad(), watch_attention(model, keep):
        model(**net_input)
    maps = []
    for place in sorted(calls, key=lambda place: place.order):
        for number, call in enumerate(calls[place], start=1):
            if place.kind == "update":  # called once for each sentence
                maps.append(_update_map(place, call, text, number))
            else:
                maps.append(_map(place, call, text))
    return maps


def _map(place: Location, call: _Call, text: UnitText) -> Map:
    weights, visible = call.weights, call.visible
    heads, queries, keys = weights.shape
    query_axis = _fitting(queries, _query_candidates(place, text))
    if place.kind == "memory":
        # Each sentence has its own memory beside the other sentences'.
        keys = int(visible[0].sum())
        weights = weights[:, visible].view(heads, queries, keys)
    key_axis = _fitting(keys, _key_candidates(place, text))
    return Map(
        place=place,
        sentence=None,
        queries=query_axis,
        keys=key_axis,
        weights=weights,
    )


def _update_map(place: Location, call: _Call, text: UnitText, sentence: int) -> Map:
    queries, keys = call.weights.shape[1:]
    words = text.read if place.side == "decoder" else text.source
    positions = []
    for position, number in enumerate(words.sentences or ()):
        if number == sentence:
            positions.append(position)
    # The special token at a sentence's end may be left out.
    key_axis = _fitting(keys, [words.chosen(positions[:keys])])
    return Map(
        place=place,
        sentence=sentence,
        queries=_fitting(queries, []),
        keys=key_axis,
        weights=call.weights,
    )


def _query_candidates(place: Location, text: UnitText) -> list[Axis]:
    if place.side == "decoder":
        return [text.predicted]
    if place.side == "context_encoder":
        return [text.context]
    return [text.source, text.current]


def _key_candidates(place: Location, text: UnitText) -> list[Axis]:
    if place.kind == "memory":
        return []
    if place.kind == "cross":
        return [text.source, text.current]
    if place.kind == "context":
        return [text.context]
    if place.side == "decoder":
        return [text.read]
    return _query_candidates(place, text)


def _fitting(count: int, axes: Sequence[Axis]) -> Axis:
    """Return the first axis with ``count`` words, or numbers."""
    for axis in axes:
        if len(axis.labels) == count:
            return axis
    return Axis(tuple(str(number) for number in range(1, count + 1)))


def of_sentences(maps: Iterable[Map], first: int, last: int) -> list[Map]:
    """Return the rows of some sentences, and the columns to which they attend."""
    selected = []
    for heatmap in maps:
        if heatmap.sentence is None:
            selected.append(_rows_of_sentences(heatmap, first, last))
        elif first <= heatmap.sentence <= last:
            selected.append(heatmap)
    return [heatmap for heatmap in selected if heatmap.weights.numel()]


def _rows_of_sentences(heatmap: Map, first: int, last: int) -> Map:
    if heatmap.queries.sentences is None:
        return heatmap
    rows = []
    for row, sentence in enumerate(heatmap.queries.sentences):
        if first <= sentence <= last:
            rows.append(row)
    weights = heatmap.weights[:, rows]
    is_seen = weights.sum((0, 1)).nonzero()
    columns = is_seen.squeeze(1).tolist()
    return replace(
        heatmap,
        queries=heatmap.queries.chosen(rows),
        keys=heatmap.keys.chosen(columns),
        weights=weights[:, :, columns],
    )


def as_json(heatmap: Map) -> dict[str, Any]:
    """Return a map for JSON."""
    return {
        "name": heatmap.name,
        "queries": heatmap.queries.labels,
        "keys": heatmap.keys.labels,
        "weights": _rounded(heatmap.weights.mean(0)),
        "heads": [_rounded(head) for head in heatmap.weights],
    }


def _rounded(weights: Tensor) -> list[list[float]]:
    rows = []
    for row in weights.tolist():
        rows.append([round(value, 5) for value in row])
    return rows


# -------------------------------------------------------------------------------------------------
#
# Attention maps as pictures; the darker, the higher the weight.

_MANY_WORDS = 100  # more have no names along the side, only numbers of sentences
_INCHES_A_WORD = 0.17


def draw_map(heatmap: Map) -> Any:
    """Draw the mean of all heads with matplotlib."""
    weights = heatmap.weights.mean(0).numpy()
    rows, columns = weights.shape
    width = 2 + min(columns, _MANY_WORDS) * _INCHES_A_WORD
    height = 2 + min(rows, _MANY_WORDS) * _INCHES_A_WORD
    size = (width + 1, height)
    figure = figure_class()(figsize=size, layout="constrained")
    axes = figure.subplots()
    image = axes.imshow(
        weights,
        cmap="cividis_r",
        vmin=0,
        vmax=max(float(weights.max()), 1e-9),
        aspect="auto",
        interpolation="nearest",
    )
    _set_ticks(axes.xaxis, heatmap.keys, rotation=90)
    _set_ticks(axes.yaxis, heatmap.queries, rotation=0)
    for start in _sentence_starts(heatmap.queries):
        axes.axhline(start - 0.5, color="#D55E00", linewidth=0.6)
    for start in _sentence_starts(heatmap.keys):
        axes.axvline(start - 0.5, color="#D55E00", linewidth=0.6)
    figure.colorbar(image, ax=axes, label="weight", fraction=0.05)
    axes.set_title(heatmap.name.replace("-", " "), fontsize="medium")
    return figure


def _set_ticks(axis: Any, words: Axis, rotation: int) -> None:
    ticks = _ticks(words)
    labels = [plain(label) for label in ticks.values()]
    axis.set_ticks(list(ticks), labels, rotation=rotation, fontsize=7)


def _ticks(axis: Axis) -> dict[int, str]:  # labels by position
    count = len(axis.labels)
    if count <= _MANY_WORDS:
        return dict(enumerate(axis.labels))
    if axis.sentences is None:
        return {position: axis.labels[position] for position in range(0, count, count // 20)}
    ticks = {}
    for position in (0, *_sentence_starts(axis)):
        ticks[position] = f"sentence {axis.sentences[position]}"
    return ticks


def _sentence_starts(axis: Axis) -> list[int]:
    starts = []
    neighbours = pairwise(axis.sentences or ())
    for position, (before, after) in enumerate(neighbours, start=1):
        if before != after:
            starts.append(position)
    return starts
