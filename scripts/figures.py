"""Draw the figures of README and documentation from the code and from `results/`.

    python scripts/figures.py            write docs/figures/*.svg
    python scripts/figures.py --check    fail if a file there is not what would be written

Nothing is drawn by hand. The words that a prediction depends on are found by changing every word of
a document and scoring it again with an untrained model; units, masks, gates and groups come from
the classes that models use. An SVG contains no fonts; it uses the reader's.
"""

from __future__ import annotations

import csv
import io
import json
import logging
import math
import sys
from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from itertools import chain, product
from pathlib import Path
from typing import Any

import matplotlib
import torch
from fairseq.data import Dictionary
from fairseq.models import ARCH_MODEL_REGISTRY
from matplotlib.figure import Figure
from matplotlib.layout_engine import ConstrainedLayoutEngine
from matplotlib.lines import Line2D
from matplotlib.patches import Patch, PathPatch, Rectangle
from matplotlib.path import Path as Shape
from omegaconf import OmegaConf

from results import BATCHES, CONTINUED, PRIMARY, Row, read, write
from results import FOLDER as RESULTS

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "tests"))

from support.gtransformer_equations import causal_mask, group_mask, group_tags

from gtrans.data.stream import stream_windows
from gtrans.data.units import DocumentUnit, SentenceUnit, StreamUnit, Unit, WindowUnit
from gtrans.environment import import_plugin
from gtrans.tasks.document_translation import DocumentTranslationTask
from gtrans.tasks.options import DocumentTranslationConfig
from gtrans.translating.force_decode import score_tokens

FOLDER = Path(__file__).resolve().parent.parent / "docs" / "figures"
BLUE, ORANGE, GREEN, PINK = "#0072b2", "#e69f00", "#009e73", "#cc79a7"
RED, GREY, LINE = "#d55e00", "#777777", "#555555"
COLOURS = (BLUE, ORANGE, GREEN, PINK, "#56b4e9", RED)
NOTHING, OWN, OTHER = "#f2f2f2", BLUE, ORANGE
COLOUR_OF = (NOTHING, OWN, OTHER)  # of the values of :func:`cells`


def drawing(width: float, height: float, rows: int = 1, columns: int = 1) -> tuple[Figure, Any]:
    """An empty figure and its panels, or its only one."""
    figure = Figure(figsize=(width, height), layout="constrained")
    return figure, figure.subplots(rows, columns)


def panel(axes: Any, title: str = "") -> None:
    """An empty panel without scales."""
    axes.set_title(title, fontsize=9)
    axes.set_xticks([])
    axes.set_yticks([])
    for spine in axes.spines.values():
        spine.set_visible(False)


def cells(axes: Any, values: Sequence[Sequence[int]], left: float = 0) -> None:
    """Squares in rows from above, in the colours of 0, 1 and 2; ``left`` moves them."""
    squares: dict[int, list[Shape]] = {}
    for row, line in enumerate(values):
        for column, value in enumerate(line):
            x, y = left + column, -row - 1
            square = Shape([(x, y), (x + 1, y), (x + 1, y + 1), (x, y + 1), (x, y)], closed=True)
            squares.setdefault(value, []).append(square)
    # One shape for all squares of a colour: the file is half as long.
    for value, shapes in squares.items():
        shape = Shape.make_compound_path(*shapes)
        axes.add_patch(PathPatch(shape, facecolor=COLOUR_OF[value], edgecolor="white", lw=0.5))
    axes.autoscale_view()
    axes.set_aspect("equal")


def legend(figure: Figure, *names: str) -> None:
    """The meaning of the colours of cells, below the figure."""
    handles = [
        Patch(facecolor=c, label=n) for c, n in zip((OWN, OTHER, NOTHING), names, strict=True)
    ]
    figure.legend(
        handles=handles, loc="outside lower center", ncols=len(handles), fontsize=8, frameon=False
    )


# ---- from the code -------------------------------------------------------------------------------

SENTENCES, WORDS = 5, 2
# Panels of the figure of the systems: title, architecture, unit, further options.
SYSTEMS: tuple[tuple[str, str, str, dict[str, Any]], ...] = (
    ("sentence Transformer", "gtransformer_tiny", "sentence", {}),
    ("concatenation, 2 to 2", "concat_transformer_tiny", "window", {}),
    ("Flat-Transformer", "flat_transformer_tiny", "window", {}),
    ("context encoder, 1 sentence", "document_aware_transformer_tiny", "window", {}),
    ("HAN, 3 sentences", "han_transformer_tiny", "window", {}),
    ("recurrent memory", "memory_transformer_tiny", "stream", {}),
    (
        "G-Transformer, groups only",
        "gtransformer_tiny",
        "document",
        {f"{part}_top_attention": "group" for part in ("encoder", "decoder", "cross")},
    ),
    ("G-Transformer", "gtransformer_tiny", "document", {}),
)


def dependence(arch: str, unit: str, options: dict[str, Any]) -> torch.Tensor:
    """Which words each target word's probability depends on, in an untrained model.

    Returns:
        ``(target words, source and target words)`` whether a change of the latter changes the
        probability of the former.
    """
    # No word occurs twice.
    source, target = (
        [" ".join(f"{side}{s}{w}" for w in range(WORDS)) for s in range(SENTENCES)] for side in "xy"
    )
    text = source, target
    words = " ".join(source + target).split()
    changed = []
    for word in words:
        other = f"z{word[1:]}"
        new_source = [line.replace(word, other) for line in source]
        new_target = [line.replace(word, other) for line in target]
        changed.append((new_source, new_target))
    dictionary = Dictionary()
    for word in [*words, *(f"z{word[1:]}" for word in words)]:
        dictionary.add_symbol(word)
    model_class: Any = ARCH_MODEL_REGISTRY[arch]
    task_cfg = OmegaConf.structured(DocumentTranslationConfig)
    task_cfg.unit = unit
    task_cfg.context_sides = model_class.inputs.context_sides[0] if unit == "window" else None
    task = DocumentTranslationTask(task_cfg, dictionary, dictionary)
    cfg = OmegaConf.merge(OmegaConf.structured(model_class.options), options)
    cfg._name = arch
    torch.manual_seed(1)
    model = task.build_model(cfg).double().eval()
    documents: Any = [text, *changed]
    scores = [
        torch.cat([tokens[:WORDS, 0] for tokens in sentences])
        for sentences in score_tokens([model], task, documents)
    ]
    return torch.stack([(other - scores[0]).abs() > 1e-9 for other in scores[1:]], 1)


def kinds(seen: torch.Tensor, same: torch.Tensor) -> Any:
    """Values of :func:`cells`: 0 where nothing is ``seen``, 1 where it is the ``same``, else 2."""
    return torch.where(seen, torch.where(same, 1, 2), 0).tolist()


def systems() -> Figure:
    """The words on which the prediction of each target word depends, system by system."""
    figure, panels = drawing(9.6, 3.9, 2, 4)
    length = SENTENCES * WORDS
    sentence = torch.arange(length) // WORDS
    for axes, (title, arch, unit, options) in zip(panels.flatten(), SYSTEMS, strict=True):
        panel(axes, title)
        sides = dependence(arch, unit, options).split(length, 1)
        lefts = [side * (length + 1.5) for side in range(2)]
        for left, seen in zip(lefts, sides, strict=True):
            cells(axes, kinds(seen, sentence[:, None].eq(sentence)), left)
        for left, name in zip(lefts, ("source words", "target words"), strict=True):
            x = left + length / 2
            axes.text(x, -length - 1, name, ha="center", va="center", fontsize=7)
        axes.set_ylabel("predicted word", fontsize=7)
        axes.set_ylim(-length - 2, 0.5)
    legend(figure, "of the same sentence", "of another sentence", "has no influence")
    return figure


def units() -> Figure:
    """One document of seven sentences in the rows that each unit cuts it into."""
    lengths = [9, 6, 8, 5, 9, 7, 6]
    shown: list[tuple[str, Unit]] = [
        ("sentence", SentenceUnit()),
        ("window (--context-before 1)", WindowUnit(before=1)),
        ("document (--max-doc-tokens 30)", DocumentUnit(max_doc_tokens=30)),
        ("stream", StreamUnit()),
    ]
    figure, panels = drawing(9.6, 2.6, 1, 4)
    for axes, (title, unit) in zip(panels, shown, strict=True):
        panel(axes, title)
        cells(
            axes,
            [
                [
                    1 if number in span.kept else 2 if number in span.source else 0
                    for number in range(len(lengths))
                ]
                for span in unit.cut(lengths, lengths)
            ],
        )
        axes.set_xlabel("sentences of the document", fontsize=7)
        axes.set_ylabel("rows of a batch", fontsize=7)
    legend(figure, "translated", "context only", "not in the row")
    return figure


def groups() -> Figure:
    """The masks of group and global attention (Eq 7)."""
    end = 1
    tokens = torch.tensor([5, 5, end, 5, 5, 5, end, 5, end])
    tags = group_tags(tokens, end)
    open_to_all = torch.zeros(len(tokens), len(tokens))
    group, before = group_mask(tags, tags), causal_mask(len(tokens))
    masks = {
        "encoder self, group": group,
        "decoder self, group": group + before,
        "cross, group": group,
        "encoder self, global": open_to_all,
        "decoder self, global": before,
        "cross, global": open_to_all,
    }
    figure, panels = drawing(6.4, 4.6, 2, 3)
    for axes, (title, mask) in zip(panels.flatten(), masks.items(), strict=True):
        panel(axes, title)
        cells(axes, kinds(mask >= 0, tags[:, None].eq(tags)))
        axes.set_xlabel("key", fontsize=7)
        axes.set_ylabel("query", fontsize=7)
    legend(figure, "same group", "another group", "masked")
    return figure


def memory() -> Figure:
    """Which update reads which sentence: two documents side by side, 3 sentences of each."""
    counts = [7, 5, 6, 4]
    (windows,) = stream_windows(counts, range(4), 1, 2, lambda: 3, lambda runs: True)
    figure, axes = drawing(4.8, 2.6)
    panel(axes)
    for number, window in enumerate(windows):
        for run in chain(*window):
            for position in range(run.position, run.position + run.count):
                y, colour = -run.document - 1, COLOURS[number % len(COLOURS)]
                axes.add_patch(Rectangle((position, y), 0.94, 0.94, facecolor=colour))
                axes.text(
                    position + 0.47,
                    y + 0.47,
                    str(number + 1),
                    color="white",
                    ha="center",
                    va="center",
                    fontsize=9,
                )
    axes.autoscale_view()
    axes.set_aspect("equal")
    axes.set_yticks(
        [-number - 0.53 for number in range(len(counts))],
        [f"document {number + 1}" for number in range(len(counts))],
        fontsize=8,
    )
    axes.tick_params(left=False)
    axes.set_xlabel("sentences; the number is that of the update", fontsize=8)
    return figure


def flow() -> Figure:
    """The way of the data: rows are training, translating and judging; a box is a package."""
    rows = (
        (
            "training",
            (
                ("text", "plain text to\nsubwords, binarised"),
                ("data", "sentences, windows,\ndocuments, streams"),
                ("tasks", "batches with plans\nof attention"),
                ("models, modules", "encoder, decoder"),
                ("criterions, optim", "loss, update"),
                ("checkpoints", "parameters, vocabulary,\npreparation"),
            ),
        ),
        (
            "translating",
            (
                ("formats, text", "sentences of\na document"),
                ("data", "the same units"),
                ("tasks", "the same batches"),
                ("models, modules", "one step for\nall hypotheses"),
                ("search", "K sentences"),
                ("formats, text", "the document,\ntranslated"),
            ),
        ),
        (
            "judging",
            (
                ("data", "documents of\nreference and systems"),
                ("evaluation", "counts per document"),
                ("evaluation", "scores, intervals,\ntests"),
                ("lab", "analyses, tables,\nfigures"),
            ),
        ),
    )
    figure, axes = drawing(12, 3.6)
    panel(axes)
    width, height, step = 1.7, 0.8, 2.0
    for number, (name, boxes) in enumerate(rows):
        y = -1.25 * number
        axes.text(-0.15, y + height / 2, name, ha="right", va="center", fontsize=11)
        for column, (title, text) in enumerate(boxes):
            x = column * step
            axes.add_patch(
                Rectangle((x, y), width, height, facecolor=NOTHING, edgecolor=OWN, lw=1.5)
            )
            middle = x + width / 2
            axes.text(middle, y + 0.6, title, ha="center", va="center", fontsize=10, color=OWN)
            axes.text(middle, y + 0.25, text, ha="center", va="center", fontsize=8)
            if column:
                axes.annotate(
                    "",
                    (x, y + height / 2),
                    (x - step + width, y + height / 2),
                    arrowprops={"arrowstyle": "->", "color": LINE},
                )
    axes.set_xlim(-1.2, 12)
    axes.set_ylim(-2.7, 0.9)
    return figure


# Storeys from the lowest: a title, and the folders with what each holds.
STOREYS: tuple[tuple[str, tuple[tuple[str, str], ...]], ...] = (
    (
        "storey 1: the plugin",
        (
            ("modules", "plain torch"),
            ("data", "units, batches"),
            ("text", "preparation"),
            ("checkpoints", "reading"),
            ("models", "a file a system"),
            ("optim", "two rates"),
            ("criterions", "chunked loss"),
            ("train", "the loop"),
            ("search", "K sentences"),
            ("tasks", "fairseq's task"),
        ),
    ),
    (
        "storey 2: what uses a trained model",
        (
            ("translating", "documents in and out"),
            ("evaluation", "scores, tests"),
            ("conversion", "other programs' models"),
        ),
    ),
    ("storey 3", (("cli", "a file a command"),)),
    ("annexes", (("lab", "papers, corpora"), ("formats", "Markdown, HTML, Word"))),
)


def storeys() -> Figure:
    """The folders of the package, by storey; the annexes stand beside."""
    package = Path(__file__).resolve().parent.parent / "gtrans"
    drawn_folders = {name for _, rooms in STOREYS for name, _ in rooms}
    assert drawn_folders == {path.parent.name for path in package.glob("*/*.py")}
    figure, axes = drawing(12, 3.4)
    panel(axes)
    width, height = 1.12, 0.8
    heights = (0.0, 1.25, 2.5, 2.5)  # the annexes stand beside storey 3
    lefts = (0.0, 0.0, 0.0, 8.03)
    for (title, rooms), low, left in zip(STOREYS, heights, lefts, strict=True):
        scale = 1.0 if len(rooms) > 3 else 1.7
        axes.text(left, low + height + 0.08, title, ha="left", va="bottom", fontsize=10)
        for number, (name, text) in enumerate(rooms):
            x = left + number * (width * scale + 0.08)
            edge = ORANGE if title == "annexes" else OWN
            axes.add_patch(
                Rectangle(
                    (x, low), width * scale, height, facecolor=NOTHING, edgecolor=edge, lw=1.5
                )
            )
            middle = x + width * scale / 2
            axes.text(middle, low + 0.55, name, ha="center", va="center", fontsize=10, color=edge)
            axes.text(middle, low + 0.22, text, ha="center", va="center", fontsize=7.5)
    axes.set_xlim(-0.1, 12.1)
    axes.set_ylim(-0.1, 3.7)
    return figure


# ---- from results --------------------------------------------------------------------------------

D, CHATS = "Debian", "chats+Bible"
NEAR, FAR = "1300+400", "1300+1200"
BIAS_3 = "G-Transformer (gate bias 3)"
FOREST_PANELS = (
    (D, NEAR),
    (D, FAR),
    (D, "4000+400"),
    (D, "8000+400"),
    (CHATS, NEAR),
    (CHATS, FAR),
    ("TV subtitles", NEAR),
)
FOREST = (
    BATCHES,
    BIAS_3,
    "G-Transformer (gate bias 10)",
    "G-Transformer + memory",
    "G-Transformer + fusion",
    "recurrent memory",
    "HAN",
    "BERT context",
    "BERT context, whitened",
    "document-aware Transformer",
    "GTRANS fusion",
    "Flat-Transformer",
    "concatenation 2-to-2",
    "G-Transformer (paper's start)",
    f"{BATCHES}, multiplier 1",
    f"{BIAS_3}, multiplier 1",
    "BERT context, whitened, multiplier 1",
    "Flat-Transformer, multiplier 1",
    "concatenation 2-to-2, multiplier 1",
)
LEAST = -2.2  # smaller changes are arrows
RATES = {"": "-", ", multiplier 1": "--"}  # how branches are drawn
CONTEXT_ROWS = (
    (D, NEAR, BIAS_3),
    (D, FAR, BIAS_3),
    (D, "4000+400", BIAS_3),
    (D, "8000+400", BIAS_3),
    (D, NEAR, "G-Transformer + memory"),
    (D, NEAR, "recurrent memory"),
    (D, NEAR, "BERT context, whitened"),
    (D, NEAR, "BERT context"),
    (D, NEAR, "HAN"),
    (D, NEAR, "G-Transformer (gate bias 10)"),
    (CHATS, NEAR, BIAS_3),
    (CHATS, FAR, BIAS_3),
    (CHATS, NEAR, "G-Transformer + memory"),
    (CHATS, NEAR, "recurrent memory"),
)
PRONOUN_ROWS = (
    (CHATS, NEAR, BIAS_3),
    (CHATS, FAR, BIAS_3),
    (CHATS, NEAR, "concatenation 2-to-2"),
    (CHATS, NEAR, "recurrent memory"),
    (CHATS, NEAR, "G-Transformer + memory"),
    (D, NEAR, BIAS_3),
    (D, FAR, BIAS_3),
    (D, NEAR, "HAN"),
    (D, NEAR, "BERT context, whitened"),
)


def values(metric: str, seed: str = "1") -> dict[tuple[str, str, str], Row]:
    """The rows of a metric by corpus, updates and system, with their own context."""
    return {
        (row.corpus, row.updates, row.system): row
        for row in read()
        if (row.metric, row.seed, row.context) == (metric, seed, "true")
    }


def updates_of(name: str) -> list[str]:
    """The numbers of `1300+400` as they are printed."""
    return [f"{int(number):,}" for number in name.split("+")]


def dot(axes: Any, row: Row, height: float, colour: str) -> None:
    """A value with its 95% interval, hollow where the data have none."""
    if row.low is not None:
        axes.plot([row.low, row.high], [height, height], color=colour, lw=1.6)
    face = "white" if row.low is None else colour
    axes.plot(row.value, height, "o", color=colour, markerfacecolor=face, ms=5)


def forest() -> Figure:
    """Changes of d-BLEU, by system, corpus and start."""
    figure = Figure(figsize=(13, 6.4), layout=ConstrainedLayoutEngine(wspace=0.04))
    panels = figure.subplots(1, len(FOREST_PANELS), sharey=True)
    seeds = [(values(PRIMARY, "1"), BLUE, 0.0), (values(PRIMARY, "2"), ORANGE, 0.25)]
    for axes, (corpus, updates) in zip(panels, FOREST_PANELS, strict=True):
        first, further = updates_of(updates)
        axes.set_title(f"{corpus}\n{first} + {further}", fontsize=10)
        axes.axvline(0, color="black", lw=0.8)
        axes.grid(axis="x", alpha=0.3)
        axes.set_xlim(LEAST - 0.3, 2.1)
        axes.set_xticks([-2, -1, 0, 1, 2])
        axes.tick_params(labelsize=9)
        for line, system in enumerate(FOREST):
            for rows, colour, below in seeds:
                row = rows.get((corpus, updates, system))
                if row is None or row.value is None:
                    continue
                height = -line - below
                if row.value < LEAST:
                    axes.plot(LEAST, height, "<", color=RED, ms=6)
                    text = f"{row.value:.1f}".replace("-", "−")
                    axes.text(LEAST + 0.2, height, text, color=RED, fontsize=9, va="center")
                else:
                    dot(axes, row, height, colour)
    names = [f"{name}*" if name.startswith(BATCHES) else name for name in FOREST]
    panels[0].set_yticks([-n for n in range(len(FOREST))], names, fontsize=9)
    entries = [
        Line2D([], [], color=BLUE, marker="o", label="seed 1"),
        Line2D([], [], color=ORANGE, marker="o", label="seed 2"),
        Line2D(
            [],
            [],
            color=GREY,
            marker="o",
            markerfacecolor="white",
            ls="",
            label="no interval in the data",
        ),
        Line2D([], [], color=RED, marker="<", ls="", label="off the scale"),
    ]
    label = (
        "change of d-BLEU from the sentence model with as many updates "
        "(titles: updates of the sentence model + further ones)"
    )
    panels[len(panels) // 2].set_xlabel(label, fontsize=10)
    figure.legend(handles=entries, loc="outside lower center", ncols=4, fontsize=9, frameon=False)
    return figure


def learning() -> Figure:
    """Validation loss of the sentence model and of the models that continue from it."""
    losses = {
        key: (row.value or 0) * math.log(2)  # the files have bits
        for key, row in values("validation loss").items()
    }
    figure, panels = drawing(10, 4.2, 1, 2)
    shown = (
        (CONTINUED, "sentence model, continued", GREY, "o"),
        (BATCHES, "sentence model, document batches", GREEN, "s"),
        (BIAS_3, BIAS_3, BLUE, "^"),
    )
    for axes, corpus in zip(panels, (D, CHATS), strict=True):
        axes.set_title(corpus, fontsize=11)
        trunk = sorted(
            (int(updates), loss)
            for (where, updates, system), loss in losses.items()
            if (where, system) == (corpus, "sentence")
        )
        axes.plot(*zip(*trunk, strict=True), "-o", color="black", lw=2, ms=6)
        for first, loss in trunk:
            for (system, _, colour, marker), (rate, line) in product(shown, RATES.items()):
                branch = [(first, loss)]
                for further in (400, 1200):
                    key = corpus, f"{first}+{further}", system + rate
                    branch += [(first + further, losses[key])] if key in losses else []
                axes.plot(
                    *zip(*branch, strict=True),
                    line,
                    color=colour,
                    marker=marker,
                    lw=1.4,
                    ms=6,
                    zorder=3,
                )
        axes.set_xlabel("updates", fontsize=10)
        axes.grid(alpha=0.3)
    panels[0].set_ylabel("validation loss (nats per token)", fontsize=10)
    entries = [Line2D([], [], color="black", marker="o", label="sentence model")]
    entries += [Line2D([], [], color=c, marker=m, label=name) for _, name, c, m in shown]
    entries += [Line2D([], [], color=GREY, ls="--", label="multiplier 1")]
    figure.legend(handles=entries, loc="outside lower center", ncols=3, fontsize=9, frameon=False)
    return figure


def dots(
    names: Sequence[str], shown: Sequence[tuple[str, str, Sequence[Row]]], label: str
) -> tuple[Figure, Any]:
    """Values with intervals side by side.

    Args:
        names: names of the lines.
        shown: name, colour and values of each kind of dots.
        label: label of the axis.
    """
    figure, axes = drawing(10, 0.9 + 0.3 * len(names))
    for kind, (_, colour, rows) in enumerate(shown):
        for number, row in enumerate(rows):
            dot(axes, row, -number - 0.22 * (kind - (len(shown) - 1) / 2), colour)
    axes.set_yticks([-number for number in range(len(names))], names, fontsize=9)
    axes.grid(axis="x", alpha=0.3)
    axes.set_xlabel(label, fontsize=10)
    entries = [Line2D([], [], color=c, marker="o", label=name) for name, c, _ in shown]
    axes.legend(handles=entries, fontsize=9, loc="best")
    return figure, axes


def strip(
    places: Sequence[tuple[str, str, str]], shown: Sequence[tuple[str, str, str]], label: str
) -> Figure:
    """Dots of ``shown`` metrics, each with a name and a colour: a line for each place."""
    names = [f"{corpus}, {' + '.join(updates_of(n))}: {system}" for corpus, n, system in places]
    kinds = []
    for name, metric, colour in shown:
        kinds.append((name, colour, [values(metric)[place] for place in places]))
    figure, axes = dots(names, kinds, label)
    axes.axvline(0, color="black", lw=0.8)
    return figure


def context() -> Figure:
    """Log-probability gained from the true and from a shuffled context."""
    ending = "(nats, mean over sentences)"
    shown = (
        ("shuffled context", f"log-probability, shuffled above none {ending}", ORANGE),
        ("true context", f"log-probability, true above no context {ending}", BLUE),
    )
    label = f"log-probability of the reference above that without context {ending}"
    return strip(CONTEXT_ROWS, shown, label)


def pronouns() -> Figure:
    """Margin of the right pronoun by the place of its antecedent."""
    places = (("same sentence", GREY), ("place unknown", PINK), ("sentence before", BLUE))
    shown = [(f"antecedent: {kind}", f"ContraPro margin, {kind} (nats)", c) for kind, c in places]
    label = "margin of the right pronoun, true above shuffled context (nats)"
    return strip(PRONOUN_ROWS, shown, label)


def distances() -> Figure:
    """Accuracy of pronouns by distance of the antecedent, on the corpus of `make demo`."""
    accuracy: defaultdict[str, defaultdict[int, list[float]]]
    accuracy = defaultdict(lambda: defaultdict(list))
    with (RESULTS / "demo.csv").open(encoding="utf-8", newline="") as file:
        for line in csv.DictReader(file):
            if line["phenomenon"] == "pronoun":
                percent = 100 * float(line["accuracy"])
                accuracy[line["system"]][int(line["distance"])].append(percent)
    figure, axes = drawing(6.4, 4.2)
    for system, name, colour, marker in (
        ("sentence", "sentence Transformer", GREY, "o"),
        ("concat_transformer", "concatenation of 2 sentences", ORANGE, "s"),
        ("memory_transformer", "recurrent memory", GREEN, "D"),
        ("gtransformer", "G-Transformer", BLUE, "^"),
    ):
        by_distance = dict(sorted(accuracy[system].items()))
        means = [sum(scores) / len(scores) for scores in by_distance.values()]
        axes.plot(list(by_distance), means, color=colour, marker=marker, lw=2, ms=7, label=name)
        for distance, scores in by_distance.items():
            axes.plot([distance, distance], [min(scores), max(scores)], color=colour, lw=1.2)
    axes.set_xticks(sorted(accuracy["sentence"]))
    axes.set_xlabel("distance of the antecedent in sentences", fontsize=11)
    axes.set_ylabel("right pronoun, %", fontsize=11)
    axes.set_ylim(45, 102)
    axes.grid(alpha=0.3)
    figure.legend(loc="outside lower center", ncols=2, fontsize=10, frameon=False)
    return figure


RESEGMENTED = {
    "WMT22 en-de, conversation": "customer chats, en-de (WMT22)",
    "WMT22 de-fr, conversation": "customer chats, de-fr (WMT22)",
    "bcontrast": "BConTrasT chats, German",
    "msctd": "MSCTD chats, German",
    "WMT22 en-de, news": "news, en-de (WMT22)",
    "newstest2021 en-de": "news, en-de (WMT21)",
    "WMT22 cs-uk, documents of 10 lines": "cs-uk (WMT22), ten lines each",
}


def resegmenting() -> Figure:
    """Right boundaries of two algorithms, by corpus and kind of translation."""
    measured = json.loads((RESULTS / "resegmenting.json").read_text(encoding="utf-8"))["rows"]
    lines: dict[str, list[dict[str, Any]]] = {}
    for corpus, name in RESEGMENTED.items():
        rows = [row for row in measured if row["corpus"] == corpus]
        systems = [row for row in rows if row["translation"].startswith("hyp.")]
        kinds = {f"{len(systems)} systems": systems} if systems else {}
        for row in rows:
            kind = {"ref.B.de": "other reference"}.get(row["translation"], row["translation"])
            if row not in systems and kind != "the reference":
                kinds[kind] = [row]
        lines |= {f"{name}: {kind}": group for kind, group in kinds.items()}

    def share(group: Sequence[dict[str, Any]], program: str) -> Row:
        right = sum(row[program]["right boundaries"] for row in group)
        value = 100 * right / sum(row["boundaries"] for row in group)
        return Row("", "", "", program, value=value, low=value, high=value)

    shown = [
        (program, colour, [share(group, program) for group in lines.values()])
        for program, colour in (("gtrans", BLUE), ("mweralign", ORANGE))
    ]
    return dots(list(lines), shown, "right boundaries, %")[0]


MEASURED = {  # in benchmarks.json, in the legends
    "stock sentence Transformer": ("stock fairseq, sentences", GREY),
    "stock document Transformer": ("stock fairseq, one sequence", GREY),
    "gtrans": ("G-Transformer", BLUE),
    "gtrans regroup": ("G-Transformer", BLUE),
    "gtrans dense": ("G-Transformer, dense masks", PINK),
    "gtrans, group attention only": ("G-Transformer, groups only", GREEN),
    "gtrans document Transformer": ("document Transformer", ORANGE),
}


def bars(axes: Any, rows: Sequence[dict[str, Any]], by: str, name: str, value: str) -> None:
    """Values of systems from above, a colour for each number ``by``, which the legend names."""
    systems = list(dict.fromkeys(row["system"] for row in rows))
    kinds = sorted({row[by] for row in rows})
    for row in rows:
        kind = kinds.index(row[by])
        height = -systems.index(row["system"]) - 0.4 * (kind - (len(kinds) - 1) / 2)
        axes.barh(height, row[value], 0.38, color=(BLUE, ORANGE)[kind])
        text = f"{row[value]:,.2f}" if row[value] < 100 else f"{row[value]:,.0f}"
        axes.text(row[value], height, f" {text}", va="center", fontsize=10)
    axes.set_yticks([-number for number in range(len(systems))], systems, fontsize=10)
    axes.set_xticks([])
    axes.set_ylim(0.6 - len(systems), 1.6)  # room for the legend
    axes.margins(x=0.25)
    handles = [
        Patch(facecolor=(BLUE, ORANGE)[n], label=f"{name} {k:,}") for n, k in enumerate(kinds)
    ]
    axes.legend(handles=handles, fontsize=10, loc="upper right")


def benchmarks() -> Figure:
    """The cost of training and translating next to stock fairseq."""
    results = json.loads((RESULTS / "benchmarks.json").read_text(encoding="utf-8"))
    rows = {name: result["rows"] for name, result in results.items()}
    figure, panels = drawing(11, 13, 3, 2)
    panels = panels.flatten()
    for axes, (name, value, title) in zip(
        panels[:3],
        (
            ("decoding", "ms_per_token", "CPU: translating, ms per token"),
            ("training", "words_per_second", "CPU: training, words per second"),
            ("memory", "step_mb", "CPU: memory of an update, MB"),
        ),
        strict=True,
    ):
        lines: defaultdict[str, list[tuple[int, float]]] = defaultdict(list)
        for row in rows[name]:
            lines[row["system"]].append((row["words"], row[value]))
        for system, points in lines.items():
            label, colour = MEASURED[system]
            axes.plot(*zip(*points, strict=True), "-o", color=colour, label=label)
        lengths = sorted({row["words"] for row in rows[name]})
        axes.set_xscale("log")
        axes.set_xticks(lengths, [f"{words:,}" for words in lengths], minor=False)
        axes.set_xticks([], minor=True)
        axes.set_ylim(0, 1.45 * max(row[value] for row in rows[name]))  # room for the legend
        axes.set_xlabel("words of a document", fontsize=10)
        axes.set_title(title, fontsize=12)
        axes.grid(alpha=0.3)
        axes.legend(fontsize=10, loc="upper left")
    width = {"cost": 256, "cost-base": 512}
    costs = [row | {"width": w} for name, w in width.items() for row in rows[name]]
    gpu: dict[str, list[Any]] = {"training": [], "decoding": []}
    for row in rows["gpu"]:
        if row["part"] in gpu:
            gpu[row["part"]].append(row)
    short = [row for row in gpu["training"] if row["words"] == 512]
    for axes, (group, by, label, value, title) in zip(
        panels[3:],
        (
            (
                costs,
                "width",
                "width of the model",
                "ms_per_token",
                "CPU: translating 8 at once,\nms per token",
            ),
            (
                short,
                "batch",
                "words of a batch",
                "words_per_second",
                "GPU: training, words per second",
            ),
            (
                gpu["decoding"],
                "most_rows",
                "rows at once, at most",
                "seconds",
                "GPU: translating 3,918 sentences,\nseconds",
            ),
        ),
        strict=True,
    ):
        bars(axes, group, by, label, value)
        axes.set_title(title, fontsize=12)
    return figure


FIGURES: dict[str, Callable[[], Figure]] = {
    **{
        draw.__name__: draw
        for draw in (
            systems,
            units,
            groups,
            memory,
            flow,
            storeys,
            distances,
            resegmenting,
            benchmarks,
        )
    },
    **{f"results-{draw.__name__}": draw for draw in (forest, learning, context, pronouns)},
}


def drawn() -> Iterator[tuple[Path, str]]:
    """The file of each figure and its text, the same each time."""
    import_plugin()
    logging.getLogger().setLevel(logging.WARNING)  # fairseq leaves it at DEBUG
    settings: Any = {"svg.hashsalt": "gtrans", "svg.fonttype": "none"}
    for name, draw in FIGURES.items():
        figure, buffer = draw(), io.StringIO()
        with matplotlib.rc_context(settings):
            figure.savefig(buffer, format="svg", metadata={"Date": None}, facecolor="white")
        yield FOLDER / f"{name}.svg", buffer.getvalue()


if __name__ == "__main__":
    write(__doc__, drawn())
