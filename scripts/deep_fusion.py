"""Does a deep, narrow post-norm model train, with fused groups of layers and without?

    python scripts/deep_fusion.py --out deep

The experiment behind table VIII of GTRANS on the embedded corpus: 24 + 18 layers of width
64, trained by `fairseq-train` on sentences with the same settings and seeds, with fusion,
without that of one side, and without any. It writes every command's log to OUT/log, and
docs/deep_fusion.json and docs/deep_fusion.md. Stopped, it goes on with the runs that are
not finished.
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
from collections.abc import Sequence
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
DOCS = ROOT / "docs"
PYTHON_BIN = Path(sys.executable).parent
SYSTEMS: dict[str, list[str]] = {
    "GTRANS": [],
    "without encoder fusion": ["--no-encoder-fusion"],
    "without decoder fusion": ["--no-decoder-fusion"],
    "without fusion (post-norm Transformer)": ["--system", "post-norm"],
}
SETTINGS = [
    *("--task", "document_translation", "--unit", "sentence", "--arch", "gtrans_fusion_tiny"),
    *("--encoder-embed-dim", "64", "--encoder-ffn-embed-dim", "128"),
    *("--decoder-ffn-embed-dim", "128", "--encoder-attention-heads", "2"),
    *("--decoder-attention-heads", "2", "--share-all-embeddings", "--dropout", "0.1"),
    *("--optimizer", "adam", "--adam-betas", "(0.9, 0.98)", "--lr", "0.002"),
    *("--lr-scheduler", "inverse_sqrt", "--warmup-updates", "100"),
    *("--criterion", "multi_level_cross_entropy", "--label-smoothing", "0.1"),
    *("--max-tokens", "1024", "--no-save", "--num-workers", "0", "--cpu"),
    *("--log-format", "json", "--log-interval", "50"),
]


def prepare(out: Path, docs: int) -> Path:
    """The embedded corpus, binarised with 500 merges."""
    text, data = out / "text", out / "data"
    sides = ["--source-lang", "en", "--target-lang", "de"]
    splits = [x for s in ("train", "valid", "test") for x in (f"--{s}", str(text / s))]
    _run(out, "corpus", "gtrans", "make-corpus", "--docs", str(docs), "--out", str(text))
    _run(out, "prepare", "gtrans", "prepare", *sides, *splits, "--bpe-merges", "500",
         "--out", str(data))  # fmt: skip
    return data


def train(out: Path, data: Path, name: str, seed: int, args: argparse.Namespace) -> dict[str, Any]:
    """One run; its validation losses in bits per token, by update."""
    label = re.sub(r"[^a-z]+", "-", name.lower()).strip("-")
    log = _run(
        out, f"{label}.{seed}", "fairseq-train", str(data), "--user-dir", str(ROOT / "gtrans"),
        *SETTINGS, "--encoder-layers", str(args.layers[0]), "--decoder-layers",
        str(args.layers[1]), *SYSTEMS[name], "--seed", str(seed),
        "--max-update", str(args.updates), "--validate-interval-updates", str(args.every),
        "--save-dir", str(out / "none"),
    )  # fmt: skip
    losses: dict[int, float] = {}
    diverged = "NaN detected" in log or "loss is nan" in log.lower()
    for line in re.findall(r"\| valid \| (\{.*\})", log):
        entry = json.loads(line)
        losses[int(entry["valid_num_updates"])] = float(entry["valid_nll_loss"])
    return {"system": name, "seed": seed, "bits": losses, "diverged": diverged}


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


def page(result: dict[str, Any]) -> str:
    """The results as markdown."""
    shown = sorted({int(u) for run in result["runs"] for u in run["bits"]})
    shown = [update for update in shown if update % result["every"] == 0]
    encoder, decoder = result["layers"]
    lines = [
        "# Training a deep post-norm model",
        "",
        "Written by `python scripts/deep_fusion.py`; do not edit. The numbers are in",
        "`deep_fusion.json`.",
        "",
        f"{encoder} + {decoder} post-norm layers of width 64 (2 heads, feed-forward 128), groups "
        "of 3 and 2 layers, trained on",
        f"the sentences of the embedded corpus ({result['docs']:,} documents), "
        f"{result['updates']} updates of at most 1,024 tokens,",
        "learning rate 0.002 after 100 updates of warm-up, with the same settings and seeds for",
        "all. A cell is the validation loss in bits per BPE token, the median of the seeds and, in",
        "brackets, the smallest and the largest; it is that of the fused probability. A model "
        "that knows",
        f"only how frequent tokens are has {result['unigram_bits']:.2f} bits, one that knows "
        f"nothing {result['uniform_bits']:.2f}.",
        "",
        "| updates | " + " | ".join(f"{update:,}" for update in shown) + " |",
        "| --- |" + " ---: |" * len(shown),
    ]
    for name in SYSTEMS:
        runs = [run for run in result["runs"] if run["system"] == name]
        cells = []
        for update in shown:
            bits = [run["bits"].get(update, math.inf) for run in runs]
            cells.append(f"{statistics.median(bits):.2f} ({min(bits):.2f}–{max(bits):.2f})")
        lines.append(f"| {name}, {len(runs)} seeds | " + " | ".join(cells) + " |")
    return "\n".join(lines) + "\n"


def _run(out: Path, label: str, program: str, *arguments: str) -> str:
    """Run a command unless it has ended well before; its output."""
    log, done = out / "log" / f"{label}.log", out / "log" / f"{label}.done"
    command = [str(PYTHON_BIN / program), *arguments]
    if not done.is_file() or done.read_text("utf-8") != " ".join(command):
        print(f"$ {' '.join([program, *arguments])}", flush=True)
        log.parent.mkdir(parents=True, exist_ok=True)
        with log.open("w", encoding="utf-8") as stream:
            ended = subprocess.run(command, stdout=stream, stderr=subprocess.STDOUT, check=False)
        text = log.read_text("utf-8")
        # fairseq ends a run whose loss is not finite with an error; that is a result here.
        if ended.returncode and "FloatingPointError" not in text:
            raise SystemExit(f"deep_fusion: error: {program} has failed, see {log}.")
        done.write_text(" ".join(command), "utf-8")
    return log.read_text("utf-8")


def main(argv: Sequence[str] | None = None) -> None:
    """Run the experiment and write its page."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--out", type=Path, required=True, metavar="DIR", help="working folder")
    parser.add_argument("--docs", type=int, default=1500, help="documents (default: %(default)s)")
    parser.add_argument("--updates", type=int, default=600, help="default: %(default)s")
    parser.add_argument("--every", type=int, default=100, help="updates between validations")
    parser.add_argument("--seeds", type=int, nargs="+", default=[1, 2, 3], metavar="N")
    parser.add_argument("--layers", type=int, nargs=2, default=[24, 18], metavar="N")
    parser.add_argument("--page", type=Path, default=DOCS / "deep_fusion.md", metavar="FILE")
    args = parser.parse_args(argv)
    data = prepare(args.out, args.docs)
    runs = [train(args.out, data, name, seed, args) for seed in args.seeds for name in SYSTEMS]
    settings = {k: getattr(args, k) for k in ("docs", "updates", "every", "seeds", "layers")}
    bits = {"unigram_bits": unigram_bits(data), "uniform_bits": uniform_bits(data)}
    result = {**settings, **bits, "runs": runs}
    args.page.with_suffix(".json").write_text(json.dumps(result, indent=1) + "\n", "utf-8")
    args.page.write_text(page(result), "utf-8")


if __name__ == "__main__":
    main()
