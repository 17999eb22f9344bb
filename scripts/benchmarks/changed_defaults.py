"""What the recipes' defaults that follow the papers do to a trained model.

Each row is a recipe on the embedded corpus as it is, and the same recipe with one setting as it was
here before: `docs/fidelity.md` has them all. Models are tiny, and their learning rates are those of
small corpora; both translate the same text. The working folder keeps models and translations;
stopped, the command goes on where it was.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from deep_fusion import ROOT, run_command
from measuring import Device
from report import Benchmark, Row, Rows, table

RECIPES = ROOT / "exp_gtransformer"
_SIZES = (
    *("--encoder-layers", "3", "--decoder-layers", "3"),
    *("--encoder-embed-dim", "128"),
    *("--encoder-ffn-embed-dim", "256", "--decoder-ffn-embed-dim", "256"),
    *("--encoder-attention-heads", "4", "--decoder-attention-heads", "4"),
)
_RATES = ("--warmup-updates", "100", "--lr", "2e-3", "--dropout", "0.1")
_TRAINING = (*_RATES, *_SIZES)


@dataclass(frozen=True)
class Change:
    """One changed default.

    Attributes:
        name: what is changed.
        folder: of the recipe's output; changes with the same folder share its first model.
        recipe: name of the script.
        model: what the recipe calls the first model, in its names of files.
        ours, other: what both have, for the table.
        common: options of the recipe for both.
        training: options of training for both.
        own: options of the recipe for the first model only.
        changed: options of the recipe for the other model only.
        changed_training: options of training for the other model only.
        free: whether the first model decides how many sentences it writes.
    """

    name: str
    folder: str
    recipe: str
    model: str
    ours: str
    other: str
    common: tuple[str, ...] = ()
    training: tuple[str, ...] = _TRAINING
    own: tuple[str, ...] = ()
    changed: tuple[str, ...] = ()
    changed_training: tuple[str, ...] = ()
    free: bool = False


_MEMORY: dict[str, Any] = {
    "folder": "memory", "recipe": "memory", "model": "memory-1", "common": ("--runs", "1"),
}  # fmt: skip
_FUSION: dict[str, Any] = {
    "folder": "fusion", "recipe": "fusion", "model": "fusion-gtrans",
    "common": ("--corpus", "iwslt14", "--arch", "gtrans_fusion_tiny"),
    "training": (*_RATES, *_SIZES, "--encoder-layers", "6", "--decoder-layers", "6"),
}  # fmt: skip
CHANGES = (
    Change(
        "end of word dropout", "randinit", "randinit", "randinit", "after 5 epochs", "never",
        training=(*_TRAINING, "--word-dropout-epochs", "5"),
        changed_training=("--word-dropout-epochs", "0"),
    ),
    Change(
        "decoding of the document Transformer", "document", "randinit", "document",
        "marks of documents, `--free`", "marks of sentences, sentence by sentence",
        own=("--system", "document"), free=True,
        changed_training=(
            "--doc-mode", "full", "--word-dropout", "0", "--sentence-marks", "both",
        ),
    ),
    Change(
        "size of segment vectors", "flat", "flat", "flat", "1", "0.044",
        changed_training=("--segment-size", "0.044"),
    ),
    Change(
        "rates with a BERT", "flat-bert", "flat", "bert", "one", "two, 0.2 to 1",
        common=("--systems", "bert", "--bert", "{work}/bert"),
        training=(
            *_TRAINING, "--lr", "1e-3", "--encoder-layers", "2", "--encoder-ffn-embed-dim", "512",
        ),
        changed_training=("--optimizer", "two_rate_adam"),
    ),
    Change(
        "place of context attention", "zhang", "flat", "zhang", "behind", "beside",
        common=("--systems", "zhang"), changed_training=("--context-place", "beside"),
    ),
    Change(
        "what an update of the memory model reads", **_MEMORY, ours="8 documents",
        other="windows of 5 to 10 sentences", changed=("--batches", "filled"),
    ),
    Change(
        "label smoothing of the memory model", **_MEMORY, ours="0", other="0.1",
        changed_training=("--label-smoothing", "0.1"),
    ),
    Change(
        "state of a decoder group", **_FUSION, ours="last layer", other="sum",
        changed_training=("--decoder-group-fusion", "sum"),
    ),
    Change(
        "score of a word in the search", **_FUSION, ours="geometric", other="arithmetic",
        changed_training=("--probability-fusion", "arithmetic"),
    ),
    Change(
        "start of feed-forward networks", **_FUSION, ours="`nn.Linear`", other="Xavier",
        changed_training=("--ffn-init", "xavier"),
    ),
    Change(
        "feed-forward networks of a decoder layer", **_FUSION, ours="one", other="two",
        changed_training=("--two-feed-forwards",),
    ),
)  # fmt: skip


def measure(args: argparse.Namespace, device: Device) -> Iterator[Row]:
    """Scores of both models of every change, and the test of their difference."""
    text: Path = args.work / "text"
    run_command(
        args.work, "corpus", "gtrans", "make-corpus", "--docs", str(args.docs), "--out", str(text)
    )
    run_command(
        args.work, "bert", "python", str(ROOT / "scripts" / "make_bert.py"),
        "--text", str(text / "train.en"), "--out", str(args.work / "bert"), "--updates", "400",
    )  # fmt: skip
    for number, change in enumerate(CHANGES, start=1):
        if args.only is None or number in args.only:
            yield compare(args, number, change)


def compare(args: argparse.Namespace, number: int, change: Change) -> Row:
    """Train, translate and score both models of a change."""
    _train(args, change.folder, change, change.own)
    name = f"other-{number}"
    _train(
        args, name, change, ("--name", name, *change.changed), change.changed_training
    )
    # run-memory.sh numbers its runs.
    model = f"{name}-1" if change.recipe == "memory" else name
    out, text = args.work / change.folder, args.work / "text"
    scored = ("--metrics", "d_bleu") if change.free else ("--metrics", "s_bleu", "d_bleu")
    found = json.loads(
        _output(
            args, f"{name}.scores", "score", *scored, "--json",
            "--hyp", f"ours={out}/test.{change.model}.de", f"other={out}/test.{model}.de",
            "--ref", f"{text}/test.de", "--target-lang", "de",
        )
    )["systems"]  # fmt: skip
    row: Row = {"change": change.name, "ours": change.ours, "other": change.other}
    for key in scored[1:]:
        row[key] = [found[system][key]["score"] for system in ("ours", "other")]
    row["p"] = found["other"][scored[-1]]["comparison"]["paired_randomisation"]["p"]
    row["accuracy"] = [
        _accuracy(args, change, trained, label)
        for trained, label in ((change.model, change.folder), (model, name))
    ]
    return row


def _train(
    args: argparse.Namespace,
    label: str,
    change: Change,
    options: Sequence[str],
    training: Sequence[str] = (),
) -> None:
    """Run the recipe."""
    text = args.work / "text"
    splits = (("train", "train"), ("valid", "valid"), ("test", "test"))
    updates = ("--updates",) if change.recipe == "fusion" else ("--document-updates",)
    limits = [*updates, str(args.updates)]
    if change.recipe == "memory":
        limits += ["--sentence-updates", str(args.updates)]
    run_command(
        args.work, f"{label}.recipe", str(RECIPES / f"run-{change.recipe}.sh"),
        *(part for flag, split in splits for part in (f"--{flag}-prefix", str(text / split))),
        "--source-lang", "en", "--target-lang", "de", "--out", str(args.work / change.folder),
        "--gpus", "0", "--bpe-merges", "500", "--max-tokens", "1024", *limits,
        *(part.format(work=args.work) for part in change.common), *options,
        "--", *change.training, *training,
    )  # fmt: skip


def _accuracy(
    args: argparse.Namespace, change: Change, model: str, label: str
) -> float | None:
    """Right pronouns one sentence behind their noun, in per cent; None: no context is read."""
    if change.recipe == "fusion":
        return None
    out = args.work / change.folder
    found = json.loads(
        _output(
            args, f"{label}.contrast", "contrast", "--cpu", "--json",
            "--path", f"{out}/{model}/checkpoint_best.pt", "--data", f"{out}/data",
            "--set", f"{args.work}/text/contrastive/pronoun.jsonl",
        )
    )["contrastive"]  # fmt: skip
    return 100.0 * float(found["pronoun"]["1"])


def _output(args: argparse.Namespace, label: str, *command: str) -> str:
    """The JSON that a command prints, behind its messages."""
    log = run_command(args.work, label, "gtrans", *command)
    return log[log.index("\n{") + 1 :] if not log.startswith("{") else log


def shown(rows: Rows) -> str:
    """Both models side by side."""
    lines = []
    for row in rows:
        cells = []
        for key in ("s_bleu", "d_bleu", "accuracy"):
            pair = row.get(key) or [None, None]
            cells.append(" / ".join("–" if x is None else f"{x:.1f}" for x in pair))
        lines.append([row["change"], row["ours"], row["other"], *cells, f"{row['p']:.4f}"])
    heads = ["setting", "recipe", "other", "s-BLEU", "d-BLEU", "pronouns, %", "p of d-BLEU"]
    return table(heads, lines, texts=3)


def add_options(parser: argparse.ArgumentParser) -> None:
    """Options of this benchmark alone."""
    parser.add_argument("--work", type=Path, required=True, metavar="DIR", help="working folder")
    for flag, default, meaning in (
        ("--docs", 1500, "documents of the corpus"), ("--updates", 600, "updates of a model"),
    ):  # fmt: skip
        parser.add_argument(
            flag, type=int, default=default, metavar="N", help=f"{meaning} (default: %(default)s)"
        )
    parser.add_argument(
        "--only", type=int, nargs="+", metavar="N", help="rows of the table, from 1 (default: all)"
    )


BENCHMARK = Benchmark(
    name="changed-defaults",
    title="Defaults that follow the papers",
    text="Recipes on the embedded corpus ({docs} documents, 500 BPE merges), once as they are and "
    "once with one setting as it was here before they followed paper or program: {updates} updates "
    "of at most 1,024 tokens a model, and for a memory model {updates} before them for its "
    "sentence model; learning rate 0.002 (0.001 with a BERT), layers of width 128, one seed. A "
    "cell has the recipe's figure and the other one; pronouns are those of the contrastive set at "
    "distance 1; p is that of approximate randomisation over documents.",
    size="recipes",
    devices=("cpu",),
    rounds=None,
    measure=measure,
    table=shown,
    add_options=add_options,
)
