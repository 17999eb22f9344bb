"""Peak memory of training with a large vocabulary: what its logits add to its embeddings."""

from __future__ import annotations

import argparse
import subprocess
import sys
from collections.abc import Iterator, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path

import torch
from documents import dictionary_of, documents_of
from fairseq.data import indexed_dataset
from measuring import Device, Size
from report import Benchmark, Row, Rows, Target, grid, lookup

CHUNKED, STOCK = "chunked_cross_entropy", "label_smoothed_cross_entropy"
MBART = "mBART25, `--memory-efficient-bf16`"
MBART_WORDS = 250_027
# Parameters, gradients and both moments of Adam, in fp32.
COPIES = 4
SETTINGS = (
    *("--task", "document_translation", "--source-lang", "en", "--target-lang", "de"),
    *("--sentence-marks", "both", "--optimizer", "adam", "--lr", "1e-5", "--clip-norm", "1"),
    *("--label-smoothing", "0.1", "--dropout", "0.1", "--max-update", "2", "--no-save"),
    *("--disable-validation", "--num-workers", "0", "--cpu"),
)
# Runs fairseq-train, then prints the most bytes that were resident at once.
COMMAND = """
import sys
from pathlib import Path
from fairseq_cli.train import cli_main
cli_main()
(line,) = (x for x in Path("/proc/self/status").read_text().splitlines() if "VmHWM" in x)
print("peak", int(line.split()[1]) * 1024)
"""


def measure(args: argparse.Namespace, device: Device) -> Iterator[Row]:
    """The peak of a whole training run, each in a process of its own."""
    size: Size = args.size
    flags = ["--arch", "gtransformer_tiny", "--share-all-embeddings"]
    for name, value in size.options().items():
        flags += [f"--{name.replace('_', '-')}", str(value)]
    runs = [(CHUNKED, words) for words in args.vocabularies]
    for criterion, words in [*runs, (STOCK, min(args.vocabularies))]:
        data = prepared(args.work, replace(size, vocabulary=words), args.tokens)
        peak = train(data, args.tokens, [*flags, "--criterion", criterion])
        yield {
            "words": words, "system": criterion, "peak_mb": peak,
            "table_mb": words * size.dim * 4 / 2**20,
        }  # fmt: skip
    if args.mbart:
        data = prepared(args.work, replace(size, vocabulary=MBART_WORDS), args.tokens)
        flags = ["--arch", "gtransformer_mbart_large", "--memory-efficient-bf16"]
        peak = train(data, args.tokens, [*flags, "--criterion", CHUNKED])
        yield {"words": MBART_WORDS, "system": MBART, "peak_mb": peak}


def prepared(folder: Path, size: Size, tokens: int) -> Path:
    """A binarised corpus of a few documents of about half of ``tokens``, over all words."""
    dictionary = dictionary_of(size)
    data = folder / f"data-{size.vocabulary}"
    data.mkdir(parents=True, exist_ok=True)
    documents = documents_of(tokens * 2 // 5, 6, dictionary)
    end = torch.tensor([dictionary.eos()])
    for number, language in enumerate(("en", "de")):
        dictionary.save(str(data / f"dict.{language}.txt"))
        path = str(data / f"train.en-de.{language}")
        builder = indexed_dataset.make_builder(f"{path}.bin", "mmap", len(dictionary))
        for document in documents:
            for sentence in document:
                builder.add_item(torch.cat([sentence[number], end]).int())
            builder.add_item(end.int())  # an empty line ends a document
        builder.finalize(f"{path}.idx")
    return data


def train(data: Path, tokens: int, flags: Sequence[str]) -> float:
    """Megabytes at the peak of two updates."""
    gtrans = Path(__file__).resolve().parents[2] / "gtrans"
    command = [
        *(sys.executable, "-c", COMMAND, str(data), "--user-dir", str(gtrans), *SETTINGS),
        *("--max-tokens", str(tokens), "--max-doc-tokens", str(tokens // 2), *flags),
        *("--save-dir", str(data / "none")),
    ]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        raise RuntimeError(done.stderr[-2000:])
    (peak,) = (line.split()[1] for line in done.stdout.splitlines() if line.startswith("peak "))
    return int(peak) / 2**20


def targets(rows: Rows) -> list[Target]:
    """What is asked of the larger vocabulary and of mBART."""
    found: list[Target] = []
    ours = sorted((row for row in rows if row["system"] == CHUNKED), key=lambda r: r["words"])
    if len(ours) > 1:
        first, last = ours[0], ours[-1]
        state = COPIES * (last["table_mb"] - first["table_mb"])
        text = (
            f"from {first['words']:,} to {last['words']:,} words: growth over that of parameters, "
            "gradients and Adam's state"
        )
        found.append((text, (last["peak_mb"] - first["peak_mb"]) / state, 1.3, False))
    whole = lookup(rows, "peak_mb")(MBART, MBART_WORDS)
    text = "mBART25 with all its words: gigabytes of the whole process"
    return [*found, (text, None if whole is None else whole / 1024, 16.0, False)]


def add_options(parser: argparse.ArgumentParser) -> None:
    """Options of this benchmark alone."""
    parser.add_argument(
        "--vocabularies", type=int, nargs="+", default=[125_000, 250_000], metavar="N",
        help="words of the vocabularies (default: %(default)s)",
    )  # fmt: skip
    parser.add_argument(
        "--tokens", type=int, default=2048, metavar="N",
        help="tokens of a batch (default: %(default)s)",
    )
    parser.add_argument(
        "--no-mbart", dest="mbart", action="store_false", help="leave out mBART, which needs 16 GB"
    )
    parser.add_argument("--work", type=Path, required=True, metavar="DIR", help="working folder")


BENCHMARK = Benchmark(
    name="vocabulary",
    title="Memory of a large vocabulary",
    text="The most memory that two updates of `fairseq-train` on {tokens} tokens ever have "
    "resident, all of the process, with one table of embeddings. Every cell is a process of its "
    "own. "
    f"mBART25 has its own size: 12 + 12 layers of width 1,024 and {MBART_WORDS:,} words. "
    "A cell is in megabytes.",
    size="vocabulary",
    devices=("cpu",),
    rounds=None,
    measure=measure,
    table=partial(grid, cell=lambda row: f"{row['peak_mb']:,.0f}", what="words of the vocabulary"),
    targets=targets,
    add_options=add_options,
)
