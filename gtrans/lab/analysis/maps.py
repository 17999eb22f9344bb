"""Attention maps of one unit: which words attend to which, layer by layer."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from gtrans.lab.analysis.attention import Location, attention_watched
from gtrans.modules.attention import Pairs
from gtrans.modules.group_attention import AttentionPlan

MEMORY = ("update", "memory")


@dataclass(frozen=True)
class Axis:
    """What stands along one side of a map.

    Attributes:
        labels: the words, or numbers where there are none (memory vectors, a context).
        sentences: number of the sentence of each, from 1; None: they are in none.
    """

    labels: tuple[str, ...]
    sentences: tuple[int, ...] | None = None

    def chosen(self, places: Sequence[int]) -> Axis:
        """The part at ``places``."""
        sentences = self.sentences
        return Axis(
            tuple(self.labels[place] for place in places),
            None if sentences is None else tuple(sentences[place] for place in places),
        )


@dataclass(frozen=True)
class Map:
    """The weights of one attention.

    Attributes:
        place: which attention.
        sentence: of the words that write to a memory, from 1; None: the map is of all words.
        queries, keys: what attends, and to what.
        weights: ``(heads, queries, keys)``; the weights of a query add up to 1.
    """

    place: Location
    sentence: int | None
    queries: Axis
    keys: Axis
    weights: Tensor

    @property
    def name(self) -> str:
        """Its name as a file, unique among the maps of a unit."""
        sentence = "" if self.sentence is None else f"sentence-{self.sentence}"
        parts = (self.place.side, self.place.kind, self.place.range, f"layer-{self.place.layer}")
        return "-".join(filter(None, (*parts, sentence)))

    @property
    def title(self) -> str:
        """Its name for readers."""
        title = f"{self.place.side.replace('_', ' ')}, {_TITLES[self.place.kind]}"
        title += f" ({self.place.range})" if self.place.range else ""
        title += f", layer {self.place.layer}"
        return title if self.sentence is None else f"{title}, sentence {self.sentence}"


_TITLES = {
    "self": "self-attention",
    "cross": "cross-attention",
    "context": "attention to the context",
    "memory": "reading the memory",
    "update": "writing to the memory",
}


@dataclass(frozen=True)
class UnitText:
    """The words of one unit as a model reads and writes them.

    Attributes:
        source: what the encoder reads.
        read: what the decoder reads.
        written: what it predicts there.
        current: the part of ``source`` that is translated, in a window; otherwise all of it.
        context: what a frozen BERT (its word pieces) or a context encoder reads besides.
    """

    source: Axis
    read: Axis
    written: Axis
    current: Axis
    context: Axis = Axis(())


def unit_text(model: Any, task: Any, net_input: dict[str, Tensor], target: Tensor) -> UnitText:
    """The words of a batch of one unit.

    Args:
        model: reads it.
        task: its task.
        net_input: of the batch, with the word pieces that a BERT reads.
        target: ``(1, length)``.
    """
    layouts = model.layouts(net_input["src_tokens"], net_input["prev_output_tokens"])
    dictionaries = task.source_dictionary, task.target_dictionary
    source, read, written = (
        Axis(
            tuple(dictionary[token] for token in layout.pack(tokens).tolist()),
            tuple((layout.sentence + 1).tolist()),
        )
        for layout, tokens, dictionary in (
            (layouts[0], net_input["src_tokens"], dictionaries[0]),
            (layouts[1], net_input["prev_output_tokens"], dictionaries[1]),
            (layouts[1], target.to(net_input["prev_output_tokens"]), dictionaries[1]),
        )
    )
    current, context = source, Axis(())
    if "current" in net_input:
        inside = (layouts[0].sentence == int(net_input["current"])).tolist()
        current = source.chosen([n for n, here in enumerate(inside) if here])
        context = source.chosen([n for n, here in enumerate(inside) if not here])
    if "word_pieces" in net_input:
        symbols = task.bert.pieces.symbols
        context = Axis(tuple(symbols[piece] for piece in net_input["word_pieces"][0].tolist()))
    return UnitText(source, read, written, current, context)


def attention_maps(model: Any, net_input: dict[str, Tensor], text: UnitText) -> list[Map]:
    """The maps of all attentions of a model while it reads one unit, in the order of the data.

    Args:
        model: in evaluation mode.
        net_input: its input, a batch of one row.
        text: the words of this row.
    """
    calls: dict[Location, list[tuple[Tensor, Tensor]]] = {}

    def keep(place: Location, weights: Tensor, pairs: AttentionPlan | Pairs) -> None:
        calls.setdefault(place, []).append((weights.float().cpu(), pairs.visible.cpu()))

    with torch.no_grad(), attention_watched(model, keep):
        model(**net_input)
    maps = []
    for place, seen in sorted(calls.items(), key=lambda item: item[0].order):
        for number, (weights, visible) in enumerate(seen, 1):
            maps.append(_map(place, weights, visible, text, number))
    return maps


def _map(place: Location, weights: Tensor, visible: Tensor, text: UnitText, call: int) -> Map:
    queries, keys = weights.shape[1:]
    source = (text.source, text.current)
    of_decoder = place.side == "decoder"
    own = {"decoder": (text.written,), "context_encoder": (text.context,)}.get(place.side, source)
    if place.kind == "update":  # one call for each sentence
        words = text.read if of_decoder else text.source
        chosen = [n for n, sentence in enumerate(words.sentences or ()) if sentence == call]
        # The mark at a sentence's end may be left out.
        axis = _fitting(keys, words.chosen(chosen[:keys]))
        return Map(place, call, _numbers(queries), axis, weights)
    if place.kind == "memory":
        # Each sentence has its own memory beside those of the others.
        size = int(visible[0].sum())
        weights = weights[:, visible].view(weights.size(0), queries, size)
        return Map(place, None, _fitting(queries, *own), _numbers(size), weights)
    of_keys = own
    if place.kind in ("cross", "context"):
        of_keys = source if place.kind == "cross" else (text.context,)
    elif of_decoder:
        of_keys = (text.read,)
    return Map(place, None, _fitting(queries, *own), _fitting(keys, *of_keys), weights)


def _numbers(count: int) -> Axis:
    return Axis(tuple(str(number) for number in range(1, count + 1)))


def _fitting(count: int, *known: Axis) -> Axis:
    """The first of ``known`` that has ``count`` words; numbers if a part has no words here."""
    return next((axis for axis in known if len(axis.labels) == count), _numbers(count))


def of_sentences(maps: Iterable[Map], first: int, last: int) -> list[Map]:
    """The rows of some sentences, and of the columns those to which these rows attend."""
    found = []
    for one in maps:
        if one.sentence is not None:
            if first <= one.sentence <= last:
                found.append(one)
            continue
        rows = range(len(one.queries.labels))
        if one.queries.sentences is not None:
            rows_of = [n for n in rows if first <= one.queries.sentences[n] <= last]
            if not rows_of:
                continue
            weights = one.weights[:, rows_of]
            columns = weights.amax((0, 1)).nonzero().squeeze(1).tolist()
            found.append(
                Map(one.place, None, one.queries.chosen(rows_of), one.keys.chosen(columns),
                    weights[:, :, columns])
            )  # fmt: skip
        else:
            found.append(one)
    return [one for one in found if one.weights.numel()]


def as_json(one: Map) -> dict[str, Any]:
    """A map as an object; its weights are the means of all heads, and those of each head."""
    return {
        "name": one.name,
        "side": one.place.side,
        "kind": one.place.kind,
        "range": one.place.range,
        "layer": one.place.layer,
        "sentence": one.sentence,
        "queries": one.queries.labels,
        "keys": one.keys.labels,
        "weights": _rounded(one.weights.mean(0)),
        "heads": [_rounded(head) for head in one.weights],
    }


def _rounded(weights: Tensor) -> list[list[float]]:
    return [[round(value, 5) for value in row] for row in weights.tolist()]
