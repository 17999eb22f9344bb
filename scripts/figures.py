"""Draw the figures of README and documentation from the code and from `results/`.

    python scripts/figures.py            write docs/figures/*.svg
    python scripts/figures.py --check    fail if a file there is not what would be written

Nothing is drawn by hand. What a prediction depends on is found by changing every word of a document
and scoring the document again with an untrained model; units, masks, gates and groups are those of
the classes that models use. An SVG has no fonts in it: the reader's are taken.
"""

from __future__ import annotations

import csv
import io
import logging
import sys
from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import matplotlib
import torch
from fairseq.data import Dictionary
from fairseq.models import ARCH_MODEL_REGISTRY
from matplotlib.figure import Figure
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
from gtrans.decoding.force_decode import score_tokens
from gtrans.decoding.loading import import_plugin
from gtrans.modules.layer_fusion import group_tops
from gtrans.modules.transformer import Gate
from gtrans.tasks.document_translation import DocumentTranslationTask
from gtrans.tasks.options import DocumentTranslationConfig

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


def box(axes: Any, x: float, y: float, text: str, size: float, height: float, **look: Any) -> None:
    """A coloured box of width 0.94 with a white text in its middle."""
    axes.add_patch(Rectangle((x, y), 0.94, height, **look))
    axes.text(x + 0.47, y + height / 2, text, color="white", ha="center", va="center",
              fontsize=size)  # fmt: skip


def legend(figure: Figure, *names: str) -> None:
    """What the colours of cells mean, below the figure."""
    handles = [
        Patch(facecolor=c, label=n) for c, n in zip((OWN, OTHER, NOTHING), names, strict=True)
    ]
    figure.legend(handles=handles, loc="outside lower center", ncols=len(handles), fontsize=8,
                  frameon=False)  # fmt: skip


# ---- from the code -------------------------------------------------------------------------------

SENTENCES, WORDS = 5, 2
# What stands in the figure of the systems: a title, the architecture, its unit, further options.
SYSTEMS: tuple[tuple[str, str, str, dict[str, Any]], ...] = (
    ("sentence Transformer", "gtransformer_tiny", "sentence", {}),
    ("concatenation, 2 to 2", "concat_transformer_tiny", "window", {}),
    ("Flat-Transformer", "flat_transformer_tiny", "window", {}),
    ("context encoder, 1 sentence", "document_aware_transformer_tiny", "window", {}),
    ("HAN, 3 sentences", "han_transformer_tiny", "window", {}),
    ("recurrent memory", "memory_transformer_tiny", "stream", {}),
    ("G-Transformer, groups only", "gtransformer_tiny", "document",
     {f"{part}_top_attention": "group" for part in ("encoder", "decoder", "cross")}),
    ("G-Transformer", "gtransformer_tiny", "document", {}),
)  # fmt: skip


def dependence(arch: str, unit: str, options: dict[str, Any]) -> torch.Tensor:
    """Which words each target word's probability depends on, in an untrained model.

    Returns:
        ``(target words, source and target words)`` whether a change of the latter changes the
        probability of the former.
    """
    # No word occurs twice.
    text = tuple(
        [" ".join(f"{side}{s}{w}" for w in range(WORDS)) for s in range(SENTENCES)] for side in "xy"
    )
    words = " ".join(line for side in text for line in side).split()
    changed = [
        tuple([line.replace(word, f"z{word[1:]}") for line in side] for side in text)
        for word in words
    ]
    symbols = Dictionary()
    for word in [*words, *(f"z{word[1:]}" for word in words)]:
        symbols.add_symbol(word)
    model_class: Any = ARCH_MODEL_REGISTRY[arch]
    task_cfg = OmegaConf.structured(DocumentTranslationConfig)
    task_cfg.unit = unit
    task_cfg.context_sides = model_class.context_sides[0] if unit == "window" else None
    task = DocumentTranslationTask(task_cfg, symbols, symbols)
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
    """What the prediction of each target word depends on, system by system."""
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
        cells(axes, [
            [1 if number in span.current else 2 if number in span.source else 0
             for number in range(len(lengths))]
            for span in unit.cut(lengths, lengths)
        ])  # fmt: skip
        axes.set_xlabel("sentences of the document", fontsize=7)
        axes.set_ylabel("rows of a batch", fontsize=7)
    legend(figure, "read and translated", "read as context", "not in the row")
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


def gates() -> Figure:
    """How far new gates are open, by ``--gate-bias``."""
    torch.manual_seed(1)
    dim = 256
    figure, axes = drawing(6.4, 2.8)
    group, other = torch.randn(2, 200, dim, dtype=torch.double)
    names = ["random (default)"]
    for place, bias in enumerate((None, 0.0, 3.0, 5.0, 10.0)):
        names += [f"--gate-bias {bias:.0f}"] if bias is not None else []
        with torch.no_grad():
            mixed = Gate(dim, bias).double()(group, other)
        opened = ((mixed - group) / (other - group)).flatten()
        low, middle, high = opened.quantile(opened.new_tensor([0.05, 0.5, 0.95])).tolist()
        axes.bar(place, middle, color=BLUE, width=0.6)
        axes.plot([place, place], [low, high], color=LINE)
        axes.text(place, high + 0.03, f"{middle:.2g}", ha="center", fontsize=8)
    axes.set_xticks(range(len(names)), names, fontsize=8)
    axes.set_ylabel("share of global attention", fontsize=8)
    axes.set_ylim(0, 1)
    return figure


def memory() -> Figure:
    """Which update reads which sentence: two documents side by side, 3 sentences of each."""
    counts = [7, 5, 6, 4]
    (windows,) = stream_windows(counts, range(4), 1, 2, lambda: 3, lambda runs: True)
    figure, axes = drawing(4.8, 2.6)
    panel(axes)
    for number, window in enumerate(windows):
        for run in (run for part in window for run in part):
            for position in range(run.position, run.position + run.count):
                box(axes, position, -run.document - 1, str(number + 1), 9, 0.94,
                    facecolor=COLOURS[number % len(COLOURS)])  # fmt: skip
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


def fusion() -> Figure:
    """Groups of layers of ``gtrans_fusion`` with 12 + 6 layers."""
    figure, axes = drawing(7.2, 2.2)
    panel(axes)
    for row, (side, layers, size) in enumerate((("encoder", 12, 3), ("decoder", 6, 2))):
        tops = group_tops(layers, size)
        for layer in range(1, layers + 1):
            box(axes, layer - 1, -1.6 * row - 1, str(layer), 8, 1, lw=2,
                facecolor=COLOURS[sum(top < layer for top in tops)],
                edgecolor="black" if layer in tops else "white")  # fmt: skip
        axes.text(-0.3, -1.6 * row - 0.5, side, ha="right", va="center", fontsize=8)
    axes.autoscale_view()
    axes.set_xlim(-2, 12.2)
    axes.set_aspect("equal")
    return figure


def flow() -> Figure:
    """The way of the data: rows are training, translating and judging; a box is a package."""
    rows = (
        ("training", (("text", "plain text to\nsubwords, binarised"),
         ("data", "sentences, windows,\ndocuments, streams"),
         ("tasks", "batches with plans\nof attention"), ("models, modules", "encoder, decoder"),
         ("criterions, optim", "loss, update"),
         ("checkpoints", "parameters, vocabulary,\npreparation"))),
        ("translating", (("formats, text", "sentences of\na document"), ("data", "the same units"),
         ("tasks", "the same batches"), ("models, modules", "one step for\nall hypotheses"),
         ("decoding", "search, K sentences"), ("formats, text", "the document,\ntranslated"))),
        ("judging", (("data", "documents of\nreference and systems"),
         ("evaluation", "counts per document"),
         ("evaluation", "scores, intervals,\ntests"), ("lab", "analyses, tables,\nfigures"))),
    )  # fmt: skip
    figure, axes = drawing(12, 3.6)
    panel(axes)
    width, height, step = 1.7, 0.8, 2.0
    for number, (name, boxes) in enumerate(rows):
        y = -1.25 * number
        axes.text(-0.15, y + height / 2, name, ha="right", va="center", fontsize=11)
        for place, (title, text) in enumerate(boxes):
            x = place * step
            axes.add_patch(
                Rectangle((x, y), width, height, facecolor=NOTHING, edgecolor=OWN, lw=1.5)
            )
            middle = x + width / 2
            axes.text(middle, y + 0.6, title, ha="center", va="center", fontsize=10, color=OWN)
            axes.text(middle, y + 0.25, text, ha="center", va="center", fontsize=8)
            if place:
                axes.annotate(
                    "", (x, y + height / 2), (x - step + width, y + height / 2),
                    arrowprops={"arrowstyle": "->", "color": LINE},
                )  # fmt: skip
    axes.set_xlim(-1.2, 12)
    axes.set_ylim(-2.7, 0.9)
    return figure


# ---- from results --------------------------------------------------------------------------------

D, CHATS = "Debian", "chats+Bible"
NEAR, FAR = "1300+400", "1300+1200"
BIAS_3 = "G-Transformer (gate bias 3)"
FOREST_PANELS = (
    (D, NEAR), (D, FAR), (D, "4000+400"), (D, "8000+400"), (CHATS, NEAR), (CHATS, FAR),
    ("TV subtitles", NEAR),
)  # fmt: skip
FOREST = (
    BATCHES, BIAS_3, "G-Transformer (gate bias 10)", "G-Transformer + memory",
    "G-Transformer + fusion", "recurrent memory", "HAN", "BERT context",
    "BERT context, whitened", "document-aware Transformer", "GTRANS fusion",
    "Flat-Transformer", "concatenation 2-to-2", "G-Transformer (paper's start)",
)  # fmt: skip
LEAST = -2.2  # smaller changes are arrows
CONTEXT_ROWS = (
    (D, NEAR, BIAS_3), (D, FAR, BIAS_3), (D, "4000+400", BIAS_3), (D, "8000+400", BIAS_3),
    (D, NEAR, "G-Transformer + memory"), (D, NEAR, "recurrent memory"),
    (D, NEAR, "BERT context, whitened"), (D, NEAR, "BERT context"), (D, NEAR, "HAN"),
    (D, NEAR, "G-Transformer (gate bias 10)"), (CHATS, NEAR, BIAS_3), (CHATS, FAR, BIAS_3),
    (CHATS, NEAR, "G-Transformer + memory"), (CHATS, NEAR, "recurrent memory"),
)  # fmt: skip
PRONOUN_ROWS = (
    (CHATS, NEAR, BIAS_3), (CHATS, FAR, BIAS_3), (CHATS, NEAR, "concatenation 2-to-2"),
    (CHATS, NEAR, "recurrent memory"), (CHATS, NEAR, "G-Transformer + memory"),
    (D, NEAR, BIAS_3), (D, FAR, BIAS_3), (D, NEAR, "HAN"), (D, NEAR, "BERT context, whitened"),
)  # fmt: skip


def values(metric: str, seed: str = "1") -> dict[tuple[str, str, str], Row]:
    """The rows of a metric by corpus, updates and system, with their own context."""
    return {
        (row.corpus, row.updates, row.system): row for row in read()
        if (row.metric, row.seed, row.context) == (metric, seed, "true")
    }  # fmt: skip


def updates_of(name: str) -> list[str]:
    """The numbers of `1300+400` as they are printed."""
    return [f"{int(number):,}" for number in name.split("+")]


def interval(axes: Any, row: Row, height: float, colour: str) -> None:
    """The bounds of a value as a line."""
    if row.low is not None:
        axes.plot([row.low, row.high], [height, height], color=colour, lw=1.6)


def forest() -> Figure:
    """Changes of d-BLEU, by system, corpus and start."""
    figure = Figure(figsize=(12, 5.2), layout="constrained")
    panels = figure.subplots(1, len(FOREST_PANELS), sharey=True)
    seeds = [(values(PRIMARY, "1"), BLUE, 0.0), (values(PRIMARY, "2"), ORANGE, 0.25)]
    for axes, (corpus, updates) in zip(panels, FOREST_PANELS, strict=True):
        first, further = updates_of(updates)
        unit = " updates" if updates == NEAR and corpus == D else ""
        axes.set_title(f"{corpus}\n{first} + {further}{unit}", fontsize=10)
        axes.axvline(0, color="black", lw=0.8)
        axes.grid(axis="x", alpha=0.3)
        axes.set_xlim(LEAST - 0.3, 1.9)
        axes.tick_params(labelsize=9)
        for place, system in enumerate(FOREST):
            for found, colour, below in seeds:
                row = found.get((corpus, updates, system))
                if row is None or row.value is None:
                    continue
                height = -place - below
                if row.value < LEAST:
                    axes.plot(LEAST, height, "<", color=RED, ms=6)
                    text = f"{row.value:.1f}".replace("-", "−")
                    axes.text(LEAST + 0.2, height, text, color=RED, fontsize=9, va="center")
                else:
                    axes.plot(row.value, height, "o", color=colour, ms=5)
                    interval(axes, row, height, colour)
    names = [f"{name}*" if name == BATCHES else name for name in FOREST]
    panels[0].set_yticks([-place for place in range(len(FOREST))], names, fontsize=9)
    marks = [Line2D([], [], color=BLUE, marker="o", label="seed 1"),
             Line2D([], [], color=ORANGE, marker="o", label="seed 2"),
             Line2D([], [], color=RED, marker="<", ls="", label="off the scale")]  # fmt: skip
    figure.supxlabel("change of d-BLEU from the sentence model with as many updates", fontsize=10)
    figure.legend(handles=marks, loc="outside lower right", ncols=3, fontsize=9, frameon=False)
    return figure


def learning() -> Figure:
    """Validation loss of the sentence model, and of what continues from it."""
    found = {place: row.value for place, row in values("validation loss").items()}
    figure, panels = drawing(10, 4.2, 1, 2)
    shown = (
        (CONTINUED, "sentence model, continued", GREY, "o"),
        (BATCHES, "sentence model, document batches", GREEN, "s"),
        (BIAS_3, BIAS_3, BLUE, "^"),
    )
    for axes, corpus in zip(panels, (D, CHATS), strict=True):
        axes.set_title(corpus, fontsize=11)
        trunk = sorted(
            (int(updates), loss) for (where, updates, system), loss in found.items()
            if (where, system) == (corpus, "sentence")
        )  # fmt: skip
        axes.plot(*zip(*trunk, strict=True), "-o", color="black", lw=2, ms=6)
        for first, loss in trunk:
            for system, _, colour, mark in shown:
                branch = [(first, loss)]
                for further in (400, 1200):
                    place = corpus, f"{first}+{further}", system
                    branch += [(first + further, found[place])] if place in found else []
                axes.plot(
                    *zip(*branch, strict=True), color=colour, marker=mark, lw=1.4, ms=6, zorder=3
                )
        axes.set_xlabel("updates", fontsize=10)
        axes.grid(alpha=0.3)
    panels[0].set_ylabel("validation loss (bits per token)", fontsize=10)
    marks = [Line2D([], [], color="black", marker="o", label="sentence model")]
    marks += [Line2D([], [], color=c, marker=m, label=name) for _, name, c, m in shown]
    figure.legend(handles=marks, loc="outside lower center", ncols=4, fontsize=9, frameon=False)
    return figure


def strip(
    places: Sequence[tuple[str, str, str]], shown: Sequence[tuple[str, str, str]], label: str
) -> Figure:
    """Values with intervals side by side: a line for each corpus, updates and system.

    Args:
        places: the lines.
        shown: name, metric and colour of each value.
        label: of the axis.
    """
    figure, axes = drawing(10, 0.9 + 0.3 * len(places))
    found = [(values(metric), colour) for _, metric, colour in shown]
    for number, place in enumerate(places):
        for kind, (rows, colour) in enumerate(found):
            row, height = rows[place], -number - 0.22 * (kind - (len(shown) - 1) / 2)
            interval(axes, row, height, colour)
            axes.plot(row.value, height, "o", color=colour, ms=5)
    names = [f"{corpus}, {' + '.join(updates_of(n))}: {system}" for corpus, n, system in places]
    axes.set_yticks([-number for number in range(len(names))], names, fontsize=9)
    axes.axvline(0, color="black", lw=0.8)
    axes.grid(axis="x", alpha=0.3)
    axes.set_xlabel(label, fontsize=10)
    marks = [Line2D([], [], color=c, marker="o", label=name) for name, _, c in shown]
    axes.legend(handles=marks, fontsize=9, loc="lower right")
    return figure


def context() -> Figure:
    """Log-probability gained from the true and from a shuffled context."""
    ending = "(nats per sentence)"
    shown = (
        ("shuffled context", f"log-probability, shuffled above none {ending}", ORANGE),
        ("true context", f"log-probability, true above no context {ending}", BLUE),
    )
    label = f"log-probability of the reference above that without context {ending}"
    return strip(CONTEXT_ROWS, shown, label)


def pronouns() -> Figure:
    """Margin of the right pronoun by the place of its antecedent."""
    places = (("same sentence", GREY), ("place unknown", PINK), ("sentence before", BLUE))
    shown = [(f"antecedent: {it}", f"ContraPro margin, {it} (nats)", c) for it, c in places]
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
    for system, name, colour, mark in (
        ("sentence", "sentence Transformer", GREY, "o"),
        ("concat_transformer", "concatenation of 2 sentences", ORANGE, "s"),
        ("memory_transformer", "recurrent memory", GREEN, "D"),
        ("gtransformer", "G-Transformer", BLUE, "^"),
    ):
        of_seeds = dict(sorted(accuracy[system].items()))
        means = [sum(some) / len(some) for some in of_seeds.values()]
        axes.plot(list(of_seeds), means, color=colour, marker=mark, lw=2, ms=7, label=name)
        for distance, some in of_seeds.items():
            axes.plot([distance, distance], [min(some), max(some)], color=colour, lw=1.2)
    axes.set_xticks(sorted(accuracy["sentence"]))
    axes.set_xlabel("distance of the antecedent in sentences", fontsize=11)
    axes.set_ylabel("right pronoun, %", fontsize=11)
    axes.set_ylim(45, 102)
    axes.grid(alpha=0.3)
    figure.legend(loc="outside lower center", ncols=2, fontsize=10, frameon=False)
    return figure


FIGURES: dict[str, Callable[[], Figure]] = {
    **{
        one.__name__: one
        for one in (systems, units, groups, gates, memory, fusion, flow, distances)
    },
    **{f"results-{one.__name__}": one for one in (forest, learning, context, pronouns)},
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
