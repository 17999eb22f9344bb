"""Draw the figures of README and documentation from the code itself.

    python scripts/figures.py            write docs/figures/*.svg
    python scripts/figures.py --check    fail if a file there is not what would be written

Nothing is drawn by hand. Results are those of `results/` (scripts/result_figures.py). What a
prediction depends on is found by changing every word of a document and scoring the document again
with an untrained model; units, masks, gates and groups are those of the classes that models use.
An SVG has no fonts in it: the reader's are taken.
"""

from __future__ import annotations

import argparse
import io
import logging
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import matplotlib
import torch
from fairseq.data import Dictionary
from fairseq.models import ARCH_MODEL_REGISTRY
from matplotlib.figure import Figure
from matplotlib.patches import Patch, PathPatch, Rectangle
from matplotlib.path import Path as Shape
from omegaconf import OmegaConf
from result_figures import FIGURES as RESULT_FIGURES

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "tests"))

from support.gtransformer_equations import causal_mask, group_mask, group_tags

from gtrans.data.stream import stream_windows
from gtrans.data.units import DocumentUnit, SentenceUnit, StreamUnit, Unit, WindowUnit
from gtrans.decoding.force_decode import score_tokens
from gtrans.decoding.loading import import_plugin
from gtrans.files import atomic_writer
from gtrans.modules.layer_fusion import group_tops
from gtrans.modules.transformer import Gate
from gtrans.tasks.document_translation import DocumentTranslationTask
from gtrans.tasks.options import DocumentTranslationConfig

FOLDER = Path(__file__).resolve().parent.parent / "docs" / "figures"
NOTHING, OWN, OTHER = "#f2f2f2", "#0072b2", "#e69f00"
COLOURS = ("#0072b2", "#e69f00", "#009e73", "#cc79a7", "#56b4e9", "#d55e00")
LINE = "#555555"

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


def words(side: str) -> list[list[str]]:
    """The sentences of a document in which no word occurs twice."""
    return [[f"{side}{s}{w}" for w in range(WORDS)] for s in range(SENTENCES)]


def dictionary() -> Dictionary:
    """All words, and others to replace them."""
    found = Dictionary()
    for side in "xyz":
        for sentence in words(side):
            for word in sentence:
                found.add_symbol(word)
    return found


def dependence(arch: str, unit: str, options: dict[str, Any]) -> list[list[int]]:
    """Which words each target word's probability depends on, in an untrained model.

    Returns:
        a row for each target word, in it for each source word, then for each target word, 1 if
        its change changes that probability, else 0.
    """
    symbols = dictionary()
    model_class: Any = ARCH_MODEL_REGISTRY[arch]
    sides = model_class.context_sides[0] if unit == "window" else None
    task_cfg = OmegaConf.structured(DocumentTranslationConfig)
    task_cfg.unit, task_cfg.context_sides = unit, sides
    task = DocumentTranslationTask(task_cfg, symbols, symbols)
    cfg = OmegaConf.structured(model_class.options)
    cfg._name = arch
    for name, value in options.items():
        setattr(cfg, name, value)
    torch.manual_seed(1)
    model = task.build_model(cfg).double().eval()

    texts = words("x"), words("y")
    changed = [texts]
    for side in range(2):
        for sentence in range(SENTENCES):
            for word in range(WORDS):
                both = [[list(line) for line in text] for text in texts]
                both[side][sentence][word] = "z" + both[side][sentence][word][1:]
                changed.append((both[0], both[1]))
    documents = [
        ([" ".join(line) for line in a], [" ".join(line) for line in b]) for a, b in changed
    ]
    scores = [
        torch.cat([tokens[:WORDS, 0] for tokens in sentences])
        for sentences in score_tokens([model], task, documents)
    ]
    differs = torch.stack([(other - scores[0]).abs() > 1e-9 for other in scores[1:]], 1)
    return [[int(value) for value in row] for row in differs.tolist()]


def panel(axes: Any, title: str) -> None:
    """An empty panel without scales."""
    axes.set_title(title, fontsize=9)
    axes.set_xticks([])
    axes.set_yticks([])
    for spine in axes.spines.values():
        spine.set_visible(False)


def cells(axes: Any, colours: Sequence[Sequence[str]], left: float = 0) -> None:
    """Squares in rows from above; ``left`` moves them."""
    squares: dict[str, list[Shape]] = {}
    for row, line in enumerate(colours):
        for column, colour in enumerate(line):
            x, y = left + column, -row - 1
            square = Shape([(x, y), (x + 1, y), (x + 1, y + 1), (x, y + 1), (x, y)], closed=True)
            squares.setdefault(colour, []).append(square)
    # One shape for all squares of a colour: the file is half as long.
    for colour, shapes in squares.items():
        shape = Shape.make_compound_path(*shapes)
        axes.add_patch(PathPatch(shape, facecolor=colour, edgecolor="white", lw=0.5))
    axes.autoscale_view()
    axes.set_aspect("equal")


def systems() -> Figure:
    """What the prediction of each target word depends on, system by system."""
    figure = Figure(figsize=(9.6, 3.9), layout="constrained")
    length = SENTENCES * WORDS
    for axes, (title, arch, unit, options) in zip(
        figure.subplots(2, 4).flatten(), SYSTEMS, strict=True
    ):
        panel(axes, title)
        found = dependence(arch, unit, options)
        for side in range(2):
            part = [row[side * length :][:length] for row in found]
            colours = [
                [NOTHING if not value else OWN if r // WORDS == c // WORDS else OTHER
                 for c, value in enumerate(row)]
                for r, row in enumerate(part)
            ]  # fmt: skip
            cells(axes, colours, left=side * (length + 1.5))
        for side, name in enumerate(("source words", "target words")):
            x = side * (length + 1.5) + length / 2
            axes.text(x, -length - 1, name, ha="center", va="center", fontsize=7)
        axes.set_ylabel("predicted word", fontsize=7)
        axes.set_ylim(-length - 2, 0.5)
    legend = {
        "of the same sentence": OWN, "of another sentence": OTHER, "has no influence": NOTHING
    }  # fmt: skip
    _legend(figure, legend)
    return figure


def units() -> Figure:
    """One document of seven sentences in the rows that each unit cuts it into."""
    lengths = [9, 6, 8, 5, 9, 7, 6]
    kinds: list[tuple[str, Unit]] = [
        ("sentence", SentenceUnit()),
        ("window (--context-before 1)", WindowUnit(before=1)),
        ("document (--max-doc-tokens 30)", DocumentUnit(max_doc_tokens=30)),
        ("stream", StreamUnit()),
    ]
    figure = Figure(figsize=(9.6, 2.6), layout="constrained")
    for axes, (title, unit) in zip(figure.subplots(1, 4), kinds, strict=True):
        panel(axes, title)
        spans = unit.cut(lengths, lengths)
        colours = [
            [OWN if number in span.current else OTHER if number in span.source else NOTHING
             for number in range(len(lengths))]
            for span in spans
        ]  # fmt: skip
        cells(axes, colours)
        axes.set_xlabel("sentences of the document", fontsize=7)
        axes.set_ylabel("rows of a batch", fontsize=7)
    _legend(
        figure, {"read and translated": OWN, "read as context": OTHER, "not in the row": NOTHING}
    )
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
    figure = Figure(figsize=(6.4, 4.6), layout="constrained")
    for axes, (title, mask) in zip(figure.subplots(2, 3).flatten(), masks.items(), strict=True):
        panel(axes, title)
        same = tags[:, None].eq(tags).tolist()
        colours = [
            [NOTHING if value < 0 else OWN if same[r][c] else OTHER for c, value in enumerate(row)]
            for r, row in enumerate(mask.tolist())
        ]
        cells(axes, colours)
        axes.set_xlabel("key", fontsize=7)
        axes.set_ylabel("query", fontsize=7)
    _legend(figure, {"same group": OWN, "another group": OTHER, "masked": NOTHING})
    return figure


def gates() -> Figure:
    """How far new gates are open, by ``--gate-bias``."""
    torch.manual_seed(1)
    dim = 256
    figure = Figure(figsize=(6.4, 2.8), layout="constrained")
    axes = figure.subplots()
    group, other = torch.randn(2, 200, dim, dtype=torch.double)
    shown: list[tuple[str, float | None]] = [("random (default)", None)]
    shown += [(f"--gate-bias {bias}", float(bias)) for bias in (0, 3, 5, 10)]
    for place, (_, bias) in enumerate(shown):
        with torch.no_grad():
            mixed = Gate(dim, bias).double()(group, other)
        opened = (mixed - group) / (other - group)
        low, middle, high = opened.flatten().quantile(
            torch.tensor([0.05, 0.5, 0.95], dtype=torch.double)
        )
        axes.bar(place, float(middle), color=COLOURS[0], width=0.6)
        axes.plot([place, place], [float(low), float(high)], color=LINE)
        axes.text(place, float(high) + 0.03, f"{float(middle):.2g}", ha="center", fontsize=8)
    axes.set_xticks(range(len(shown)), [name for name, _ in shown], fontsize=8)
    axes.set_ylabel("share of global attention", fontsize=8)
    axes.set_ylim(0, 1)
    return figure


def memory() -> Figure:
    """Which update reads which sentence: two documents side by side, 3 sentences of each."""
    counts = [7, 5, 6, 4]
    (windows,) = stream_windows(counts, range(4), 1, 2, lambda: 3, lambda runs: True)
    figure = Figure(figsize=(4.8, 2.6), layout="constrained")
    axes = figure.subplots()
    panel(axes, "")
    runs = [
        (number, run) for number, window in enumerate(windows) for part in window for run in part
    ]
    for number, run in runs:
        for position in range(run.position, run.position + run.count):
            colour = COLOURS[number % len(COLOURS)]
            axes.add_patch(Rectangle((position, -run.document - 1), 0.94, 0.94, facecolor=colour))
            axes.text(position + 0.47, -run.document - 0.53, str(number + 1), color="white",
                      ha="center", va="center", fontsize=9)  # fmt: skip
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
    figure = Figure(figsize=(7.2, 2.2), layout="constrained")
    axes = figure.subplots()
    panel(axes, "")
    for row, (side, layers, size) in enumerate((("encoder", 12, 3), ("decoder", 6, 2))):
        tops = group_tops(layers, size)
        for layer in range(1, layers + 1):
            number = sum(top < layer for top in tops)
            place = (layer - 1, -1.6 * row - 1)
            edge = "black" if layer in tops else "white"
            axes.add_patch(
                Rectangle(place, 0.94, 1, facecolor=COLOURS[number], edgecolor=edge, lw=2)
            )
            axes.text(place[0] + 0.47, place[1] + 0.5, str(layer), color="white", ha="center",
                      va="center", fontsize=8)  # fmt: skip
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
    figure = Figure(figsize=(12, 3.6), layout="constrained")
    axes = figure.subplots()
    panel(axes, "")
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


FIGURES: dict[str, Callable[[], Figure]] = {
    **{one.__name__: one for one in (systems, units, groups, gates, memory, fusion, flow)},
    **RESULT_FIGURES,
}


def _legend(figure: Figure, entries: dict[str, str]) -> None:
    handles = [Patch(facecolor=colour, label=name) for name, colour in entries.items()]
    figure.legend(handles=handles, loc="outside lower center", ncols=len(handles), fontsize=8,
                  frameon=False)  # fmt: skip


def as_svg(figure: Figure) -> str:
    """The file, the same each time."""
    buffer = io.StringIO()
    settings: Any = {"svg.hashsalt": "gtrans", "svg.fonttype": "none"}
    with matplotlib.rc_context(settings):
        figure.savefig(buffer, format="svg", metadata={"Date": None}, facecolor="white")
    return buffer.getvalue()


def main() -> None:
    """Draw all figures."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--check", action="store_true", help="compare, and write nothing")
    args = parser.parse_args()
    import_plugin()
    logging.getLogger().setLevel(logging.WARNING)  # fairseq leaves it at DEBUG
    for name, draw in FIGURES.items():
        path, text = FOLDER / f"{name}.svg", as_svg(draw())
        if not args.check:
            with atomic_writer(path) as file:
                file.write(text)
        elif not path.is_file() or path.read_text(encoding="utf-8") != text:
            raise SystemExit(f"figures: error: {path} is not up to date; run scripts/figures.py")


if __name__ == "__main__":
    main()
