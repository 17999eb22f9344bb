"""The figures of the results page and of README, from `results/` (see scripts/figures.py)."""

from __future__ import annotations

import csv
from collections import defaultdict
from collections.abc import Callable, Sequence
from typing import Any

from matplotlib.figure import Figure
from matplotlib.lines import Line2D

from results import BATCHES, CONTINUED, FOLDER, Row, read

BLUE, ORANGE, GREEN, RED, GREY = "#0072b2", "#e69f00", "#009e73", "#d55e00", "#777777"
PINK = "#cc79a7"
PANELS = (
    ("Debian", "1300+400", "Debian\n1,300 + 400 updates"),
    ("Debian", "1300+1200", "Debian\n1,300 + 1,200"),
    ("Debian", "4000+400", "Debian\n4,000 + 400"),
    ("Debian", "8000+400", "Debian\n8,000 + 400"),
    ("chats+Bible", "1300+400", "chats+Bible\n1,300 + 400"),
    ("chats+Bible", "1300+1200", "chats+Bible\n1,300 + 1,200"),
    ("TV subtitles", "1300+400", "TV subtitles\n1,300 + 400"),
)
BIAS_3 = "G-Transformer (gate bias 3)"
FOREST = (
    BATCHES, BIAS_3, "G-Transformer (gate bias 10)", "G-Transformer + memory",
    "G-Transformer + fusion", "recurrent memory", "HAN", "BERT context",
    "BERT context, whitened", "document-aware Transformer", "GTRANS fusion",
    "Flat-Transformer", "concatenation 2-to-2", "G-Transformer (paper's start)",
)  # fmt: skip
LEAST = -2.2  # smaller changes are arrows


def _find(rows: list[Row], **wanted: str) -> Row | None:
    """The first row with these fields."""
    for row in rows:
        if all(getattr(row, name) == value for name, value in wanted.items()):
            return row
    return None


def forest() -> Figure:
    """Changes of d-BLEU, by system, corpus and start."""
    rows = read()
    figure = Figure(figsize=(12, 5.2), layout="constrained")
    all_axes = figure.subplots(1, len(PANELS), sharey=True)
    for axes, (corpus, updates, title) in zip(all_axes, PANELS, strict=True):
        axes.set_title(title, fontsize=10)
        axes.axvline(0, color="black", lw=0.8)
        axes.grid(axis="x", alpha=0.3)
        axes.set_xlim(LEAST - 0.3, 1.9)
        axes.tick_params(labelsize=9)
        for place, system in enumerate(FOREST):
            for seed, colour in (("1", BLUE), ("2", ORANGE)):
                row = _find(rows, corpus=corpus, updates=updates, system=system, seed=seed,
                            context="true", metric="change of d-BLEU")  # fmt: skip
                if row is None or row.value is None:
                    continue
                height = -place - (0.25 if seed == "2" else 0)
                if row.value < LEAST:
                    axes.plot(LEAST, height, "<", color=RED, ms=6)
                    text = f"{row.value:.1f}".replace("-", "−")
                    axes.text(LEAST + 0.2, height, text, color=RED, fontsize=9, va="center")
                    continue
                axes.plot(row.value, height, "o", color=colour, ms=5)
                if row.low is not None:
                    axes.plot([row.low, row.high], [height, height], color=colour, lw=1.6)
    names = [f"{name}*" if name == BATCHES else name for name in FOREST]
    all_axes[0].set_yticks([-place for place in range(len(FOREST))], names, fontsize=9)
    marks = [
        Line2D([], [], color=c, marker="o", label=n)
        for n, c in (("seed 1", BLUE), ("seed 2", ORANGE))
    ]
    marks.append(Line2D([], [], color=RED, marker="<", ls="", label="off the scale"))
    figure.supxlabel("change of d-BLEU from the sentence model with as many updates", fontsize=10)
    figure.legend(handles=marks, loc="outside lower right", ncols=3, fontsize=9, frameon=False)
    return figure


def learning() -> Figure:
    """Validation loss of the sentence model, and of what continues from it."""
    rows = read()
    figure = Figure(figsize=(10, 4.2), layout="constrained")
    shown = ((CONTINUED, GREY, "o"), (BATCHES, GREEN, "s"), (BIAS_3, BLUE, "^"))
    for axes, corpus in zip(figure.subplots(1, 2), ("Debian", "chats+Bible"), strict=True):
        axes.set_title(corpus, fontsize=11)
        trunk = [
            (int(row.updates), row.value) for row in rows
            if row.corpus == corpus and row.system == "sentence" and row.seed == "1"
            and row.metric == "validation loss"
        ]  # fmt: skip
        trunk.sort()
        axes.plot(*zip(*trunk, strict=True), "-o", color="black", lw=2, ms=6)
        for first, loss in trunk:
            for system, colour, mark in shown:
                branch = [(first, loss)]
                for further in (400, 1200):
                    row = _find(
                        rows, corpus=corpus, updates=f"{first}+{further}", system=system,
                        seed="1", context="true", metric="validation loss",
                    )  # fmt: skip
                    if row is not None:
                        branch.append((first + further, row.value))
                axes.plot(
                    *zip(*branch, strict=True), color=colour, marker=mark, lw=1.4, ms=6, zorder=3
                )
        axes.set_xlabel("updates", fontsize=10)
        axes.grid(alpha=0.3)
    figure.axes[0].set_ylabel("validation loss (bits per token)", fontsize=10)
    names = {
        CONTINUED: "sentence model, continued",
        BATCHES: "sentence model, document batches",
        BIAS_3: BIAS_3,
    }
    marks = [Line2D([], [], color="black", marker="o", label="sentence model")]
    marks += [Line2D([], [], color=c, marker=m, label=names[s]) for s, c, m in shown]
    figure.legend(handles=marks, loc="outside lower center", ncols=4, fontsize=9, frameon=False)
    return figure


CONTEXT_ROWS = (
    ("Debian", "1300+400", BIAS_3), ("Debian", "1300+1200", BIAS_3), ("Debian", "4000+400", BIAS_3),
    ("Debian", "8000+400", BIAS_3), ("Debian", "1300+400", "G-Transformer + memory"),
    ("Debian", "1300+400", "recurrent memory"), ("Debian", "1300+400", "BERT context, whitened"),
    ("Debian", "1300+400", "BERT context"), ("Debian", "1300+400", "HAN"),
    ("Debian", "1300+400", "G-Transformer (gate bias 10)"), ("chats+Bible", "1300+400", BIAS_3),
    ("chats+Bible", "1300+1200", BIAS_3), ("chats+Bible", "1300+400", "G-Transformer + memory"),
    ("chats+Bible", "1300+400", "recurrent memory"),
)  # fmt: skip


PRONOUN_ROWS = (
    ("chats+Bible", "1300+400", BIAS_3), ("chats+Bible", "1300+1200", BIAS_3),
    ("chats+Bible", "1300+400", "concatenation 2-to-2"),
    ("chats+Bible", "1300+400", "recurrent memory"),
    ("chats+Bible", "1300+400", "G-Transformer + memory"),
    ("Debian", "1300+400", BIAS_3), ("Debian", "1300+1200", BIAS_3), ("Debian", "1300+400", "HAN"),
    ("Debian", "1300+400", "BERT context, whitened"),
)  # fmt: skip


Places = Sequence[tuple[str, str, str]]


def strip(places: Places, kinds: Sequence[tuple[str, str, str]], label: str) -> Figure:
    """Values with intervals side by side: a line for each corpus, updates and system.

    Args:
        places: the lines.
        kinds: name, metric and colour of each value.
        label: of the axis.
    """
    rows = read()
    figure = Figure(figsize=(10, 0.9 + 0.3 * len(places)), layout="constrained")
    axes = figure.subplots()
    names = []
    for number, (corpus, updates, system) in enumerate(places):
        for kind, (_, metric, colour) in enumerate(kinds):
            row = _find(
                rows, corpus=corpus, updates=updates, system=system, seed="1", metric=metric
            )
            assert row is not None and row.value is not None, (corpus, updates, system, metric)
            assert row.low is not None and row.high is not None, row
            height = -number - 0.22 * (kind - (len(kinds) - 1) / 2)
            axes.plot([row.low, row.high], [height, height], color=colour, lw=1.6)
            axes.plot(row.value, height, "o", color=colour, ms=5)
        first, further = updates.split("+")
        names.append(f"{corpus}, {int(first):,} + {int(further):,}: {system}")
    axes.set_yticks([-number for number in range(len(names))], names, fontsize=9)
    axes.axvline(0, color="black", lw=0.8)
    axes.grid(axis="x", alpha=0.3)
    axes.set_xlabel(label, fontsize=10)
    marks = [Line2D([], [], color=c, marker="o", label=name) for name, _, c in kinds]
    axes.legend(handles=marks, fontsize=9, loc="lower right")
    return figure


def context() -> Figure:
    """Log-probability gained from the true and from a shuffled context."""
    ending = "(nats per sentence)"
    kinds = (
        ("shuffled context", f"log-probability, shuffled above none {ending}", ORANGE),
        ("true context", f"log-probability, true above no context {ending}", BLUE),
    )
    label = f"log-probability of the reference above that without context {ending}"
    return strip(CONTEXT_ROWS, kinds, label)


def pronouns() -> Figure:
    """Margin of the right pronoun by the place of its antecedent."""
    places = (("same sentence", GREY), ("place unknown", PINK), ("sentence before", BLUE))
    kinds = [(f"antecedent: {it}", f"ContraPro margin, {it} (nats)", c) for it, c in places]
    label = "margin of the right pronoun, true above shuffled context (nats)"
    return strip(PRONOUN_ROWS, kinds, label)


def distances() -> Figure:
    """Accuracy of pronouns by distance of the antecedent, on the corpus of `make demo`."""
    with (FOLDER / "demo.csv").open(encoding="utf-8", newline="") as file:
        lines = [line for line in csv.DictReader(file) if line["phenomenon"] == "pronoun"]
    figure = Figure(figsize=(6.4, 4.2), layout="constrained")
    axes = figure.subplots()
    styles = {
        "sentence": ("sentence Transformer", GREY, "o"),
        "concat_transformer": ("concatenation of 2 sentences", ORANGE, "s"),
        "memory_transformer": ("recurrent memory", GREEN, "D"),
        "gtransformer": ("G-Transformer", BLUE, "^"),
    }
    for system, (name, colour, mark) in styles.items():
        by_distance: defaultdict[int, list[float]] = defaultdict(list)
        for line in lines:
            if line["system"] == system:
                by_distance[int(line["distance"])].append(100 * float(line["accuracy"]))
        if not by_distance:
            continue
        where = sorted(by_distance)
        means = [sum(by_distance[d]) / len(by_distance[d]) for d in where]
        axes.plot(where, means, color=colour, marker=mark, lw=2, ms=7, label=name)
        for d in where:
            axes.plot([d, d], [min(by_distance[d]), max(by_distance[d])], color=colour, lw=1.2)
    axes.set_xticks(where)
    axes.set_xlabel("distance of the antecedent in sentences", fontsize=11)
    axes.set_ylabel("right pronoun, %", fontsize=11)
    axes.set_ylim(45, 102)
    axes.grid(alpha=0.3)
    figure.legend(loc="outside lower center", ncols=2, fontsize=10, frameon=False)
    return figure


FIGURES: dict[str, Callable[[], Any]] = {
    "results-forest": forest,
    "results-learning": learning,
    "results-context": context,
    "results-pronouns": pronouns,
    "distances": distances,
}
