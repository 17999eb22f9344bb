"""Does a deep, narrow post-norm model train, with fused groups of layers and without?

The experiment of table VIII of GTRANS on the embedded corpus: models are trained by
`fairseq-train` on sentences with the same settings and seeds, with fusion, without that of one
side, and without any. Every command's log is in the working folder; stopped, it goes on with the
runs that are not finished.
"""

from __future__ import annotations

import argparse
import json
import math
import re
import statistics
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

from measuring import Device, Size
from report import Benchmark, Row, Rows, table

from gtrans.identity.files import atomic_writer

ROOT = Path(__file__).resolve().parents[2]
PYTHON_BIN = Path(sys.executable).parent
SYSTEMS: dict[str, list[str]] = {
    "GTRANS": [],
    "without encoder fusion": ["--no-encoder-fusion"],
    "without decoder fusion": ["--no-decoder-fusion"],
    "without fusion (post-norm Transformer)": ["--system", "post-norm"],
}
SETTINGS = [
    *("--task", "document_translation", "--unit", "sentence", "--arch", "gtrans_fusion_tiny"),
    *("--share-all-embeddings", "--dropout", "0.1"),
    *("--optimizer", "adam", "--adam-betas", "(0.9, 0.98)", "--lr", "0.002"),
    *("--lr-scheduler", "inverse_sqrt", "--warmup-updates", "100"),
    *("--criterion", "multi_level_cross_entropy", "--label-smoothing", "0.1"),
    *("--max-tokens", "1024", "--no-save", "--num-workers", "0", "--cpu"),
    *("--log-format", "json", "--log-interval", "50"),
]
FREQUENCIES, NOTHING = "frequencies of tokens alone", "nothing known"


def measure(args: argparse.Namespace, device: Device) -> Iterator[Row]:
    """Validation losses of every run, and those of knowing less than any model."""
    yield from runs(args, SYSTEMS)


def runs(args: argparse.Namespace, systems: Mapping[str, Sequence[str]]) -> Iterator[Row]:
    """One row for each of ``systems`` (name: its options) and seed, and the two comparisons."""
    data = prepare(args.work, args.docs)
    updates: set[str] = set()
    for seed in args.seeds:
        for name, options in systems.items():
            run = train(args, data, name, options, seed)
            updates.update(run["bits"])
            yield run
    for name, bits in ((FREQUENCIES, unigram_bits(data)), (NOTHING, uniform_bits(data))):
        known = dict.fromkeys(sorted(updates, key=int), bits)
        yield {"system": name, "seed": None, "bits": known}


def prepare(out: Path, docs: int) -> Path:
    """The embedded corpus, binarised with 500 merges."""
    text, data = out / "text", out / "data"
    sides = ["--source-lang", "en", "--target-lang", "de"]
    splits = [x for s in ("train", "valid", "test") for x in (f"--{s}", str(text / s))]
    run_command(out, "corpus", "gtrans", "make-corpus", "--docs", str(docs), "--out", str(text))
    run_command(out, "prepare", "gtrans", "prepare", *sides, *splits, "--bpe-merges", "500",
         "--out", str(data))  # fmt: skip
    return data


def train(
    args: argparse.Namespace, data: Path, name: str, options: Sequence[str], seed: int
) -> Row:
    """One run; its validation losses in bits per token, by update."""
    label = re.sub(r"[^a-z]+", "-", name.lower()).strip("-")
    log = run_command(
        args.work, f"{label}.{seed}", "fairseq-train", str(data),
        "--user-dir", str(ROOT / "gtrans"), *SETTINGS, *_flags(args.size), *options,
        "--seed", str(seed), "--max-update", str(args.updates),
        "--validate-interval-updates", str(args.every), "--save-dir", str(args.work / "none"),
    )  # fmt: skip
    losses: dict[str, float] = {}
    diverged = "NaN detected" in log or "loss is nan" in log.lower()
    for line in re.findall(r"\| valid \| (\{.*\})", log):
        entry = json.loads(line)
        updates = int(entry["valid_num_updates"])
        if updates % args.every == 0:  # not those at the end of an epoch
            losses[str(updates)] = float(entry["valid_nll_loss"])  # JSON's keys are strings
    return {"system": name, "seed": seed, "bits": losses, "diverged": diverged}


def _flags(size: Size) -> list[str]:
    pairs = ((f"--{name.replace('_', '-')}", str(n)) for name, n in size.options().items())
    return [part for pair in pairs for part in pair]


def unigram_bits(data: Path) -> float:
    """Bits per token of the validation text, with the frequencies of the training text."""
    counts: Counter[str] = Counter()
    for line in (data / "text" / "train.bpe.de").read_text("utf-8").splitlines():
        counts.update([*line.split(), "</s>"] if line else [])
    total, bits, tokens = sum(counts.values()) + len(counts), 0.0, 0
    for line in (data / "text" / "valid.bpe.de").read_text("utf-8").splitlines():
        for token in [*line.split(), "</s>"] if line else []:
            bits -= math.log2((counts[token] + 1) / total)
            tokens += 1
    return bits / tokens


def uniform_bits(data: Path) -> float:
    """Bits per token of a uniform distribution over the dictionary."""
    symbols = (data / "dict.de.txt").read_text("utf-8").splitlines()
    return math.log2(len(symbols) + 4)  # and fairseq's four special ones


def shown(rows: Rows) -> str:
    """The table; a run that has broken off has infinite losses from then on."""
    updates = sorted({int(update) for row in rows for update in row["bits"]})
    lines = []
    for name in dict.fromkeys(row["system"] for row in rows):
        runs = [row for row in rows if row["system"] == name]
        seeds = f", {len(runs)} seed{'s' if len(runs) > 1 else ''}"
        label = name if runs[0]["seed"] is None else name + seeds
        lines.append([label, *(_cell(runs, update) for update in updates)])
    return table(["updates", *(f"{update:,}" for update in updates)], lines)


def _cell(runs: Rows, update: int) -> str:
    bits = [run["bits"].get(str(update), math.inf) for run in runs]
    median = f"{statistics.median(bits):.2f}"
    return median if len(bits) == 1 else f"{median} ({min(bits):.2f}–{max(bits):.2f})"


def run_command(out: Path, label: str, program: str, *arguments: str) -> str:
    """Run a command unless it has ended well before; its output."""
    log, done = out / "log" / f"{label}.log", out / "log" / f"{label}.done"
    beside = PYTHON_BIN / program
    command = [str(beside) if beside.is_file() else program, *arguments]
    if not done.is_file() or done.read_text("utf-8") != " ".join(command):
        print(f"$ {' '.join([program, *arguments])}", flush=True)
        log.parent.mkdir(parents=True, exist_ok=True)
        with log.open("w", encoding="utf-8") as stream:
            ended = subprocess.run(command, stdout=stream, stderr=subprocess.STDOUT, check=False)
        text = log.read_text("utf-8")
        # fairseq ends a run whose loss is not finite with an error; that is a result here.
        if ended.returncode and "FloatingPointError" not in text:
            raise SystemExit(f"run.py: error: {program} has failed, see {log}.")
        with atomic_writer(done) as file:
            file.write(" ".join(command))
    return log.read_text("utf-8")


def add_options(
    parser: argparse.ArgumentParser,
    updates: int = 600,
    seeds: Sequence[int] = (1, 2, 3),
) -> None:
    """Options of this benchmark alone; ``updates`` and ``seeds`` are defaults."""
    parser.add_argument("--work", type=Path, required=True, metavar="DIR", help="working folder")
    for flag, default, meaning in (
        ("--docs", 1500, "documents of the corpus"), ("--updates", updates, "updates of a run"),
        ("--every", 100, "updates between validations"),
    ):  # fmt: skip
        parser.add_argument(
            flag, type=int, default=default, metavar="N", help=f"{meaning} (default: %(default)s)"
        )
    parser.add_argument(
        "--seeds", type=int, nargs="+", default=list(seeds), metavar="N",
        help="a run of every system for each (default: %(default)s)",
    )  # fmt: skip


BENCHMARK = Benchmark(
    name="deep-fusion",
    title="Training a deep post-norm model",
    text="Table VIII of GTRANS on the embedded corpus: post-norm models with groups of 3 and 2 "
    "layers, trained on the sentences of {docs} documents (500 BPE merges), {updates} updates of "
    "at most 1,024 tokens, learning rate 0.002 after 100 updates of warm-up, with the same "
    "settings and seeds "
    "for all. A cell is the validation loss in bits per BPE token, the median of the seeds and, "
    "in brackets, the smallest and the largest; it is that of the fused probability. The last "
    "rows are a model that knows only how frequent tokens are, and one that knows nothing.",
    size="deep-narrow",
    devices=("cpu",),
    rounds=None,
    measure=measure,
    table=shown,
    add_options=add_options,
)
