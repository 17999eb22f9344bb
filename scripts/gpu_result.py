"""A document model of base size on real text in a quarter of an hour of one GPU.

    python scripts/gpu_result.py pack --data DATA --pack result.tar.xz      on a CPU, once
    python scripts/gpu_result.py train --pack result.tar.xz --out OUT       8 minutes
    python scripts/gpu_result.py translate --out OUT                        4 minutes
    scripts/gpu_check.sh --wheels WHEELS --out OUT -- scripts/gpu_result.py ...   on a bare machine

`pack` binarises all English-German training text of DATA, with the development and test sets of
Debian, the chats and msdocs, in one file that is small enough to travel. `train` trains a sentence
model for --seconds: its first 20 seconds measure how many updates that are. From it, for --further
seconds of updates each, sentence training goes on, and a G-Transformer with gate bias 3 begins.
`translate` translates both sets by all three models as whole documents, and scores them by
document.

OUT/results.json is written after every step, with all commands, so that a cut leaves what there
is. Checkpoints stay in --work, which is not sent back. --cpu tries everything at toy size.
"""

from __future__ import annotations

import argparse
import gzip
import json
import os
import re
import shutil
import subprocess
import sys
import tarfile
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from gtrans.lab.logs import TrainingHistory, read_history
from gtrans.lab.provenance import provenance
from gtrans.messages import with_schema

MIB = 2**20
MOST = 64 * MIB  # what may travel
LANGUAGES = ("en", "de")
JUDGED = ("debian-web-ende", "bcontrast", "msctd", "msdocs-ende")  # with development and test sets
TRAINED = (
    "debian-web-ende/train",
    "bcontrast/train",
    "msctd/train",
    "msdocs-ende/train",
    "php-manual-ende/train",
    "wesnoth-ende/train",
    "bible-ende/train.bsb-menge",
    "bible-ende/train.nheb-elb1905",
    "bible-ende/train.bbe-textbibel",
)
MEASURED = 20.0  # seconds that tell how many updates fill the time
BATCH = "--max-tokens 32768 --warmup-updates 400 --patience 0 --log-interval 20"
TOY = (
    "--arch gtransformer_tiny --encoder-layers 2 --decoder-layers 2 --max-tokens 1024 "
    "--warmup-updates 20 --patience 0 --log-interval 2 --cpu"
)
DOCUMENT = "--unit document --doc-mode partial --positions sentence --gate-bias 3"
FROM_SENTENCE = "--lr-scale-pretrained 1"
MODELS = {
    "sentence": "",
    "continued": FROM_SENTENCE,
    "gtransformer": f"{FROM_SENTENCE} {DOCUMENT} --copy-local-to-global",
}
SETS = ("valid", "test")


# --- packing --------------------------------------------------------------------------------------


def join_texts(sources: Sequence[Path], target: Path, most: int | None) -> int:
    """Join gzipped texts, an empty line between their documents; returns the number of documents.

    ``most``: take at most as many documents of each.
    """
    count = 0
    with target.open("w", encoding="utf-8") as file:
        for source in sources:
            with gzip.open(source, "rt", encoding="utf-8") as text:
                documents = text.read().strip("\n").split("\n\n")[:most]
            for document in documents:
                file.write(("\n" if count else "") + document + "\n")
                count += 1
    return count


def pack(args: argparse.Namespace) -> None:
    """Write the pack.

    Raises:
        SystemExit: a step fails, or the pack is larger than what may travel.
    """
    work = args.work / "pack"
    shutil.rmtree(work, ignore_errors=True)
    (work / "corpus").mkdir(parents=True)
    files = {
        "train": list(TRAINED),
        "valid": [f"{name}/dev" for name in JUDGED],
        "test": [f"{name}/test" for name in JUDGED],
    }
    parts: dict[str, dict[str, int]] = {}
    for split, names in files.items():
        for lang in LANGUAGES:
            sources = [args.data / f"{name}.{lang}.gz" for name in names]
            join_texts(sources, work / "corpus" / f"{split}.{lang}", args.documents)
        parts[split] = {}
        for name in names:
            sources = [args.data / f"{name}.en.gz"]
            parts[split][name] = join_texts(sources, work / "part.en", args.documents)
    (work / "parts.json").write_text(json.dumps(parts, indent=1) + "\n", encoding="utf-8")
    texts = " ".join(f"--{split} corpus/{split}" for split in files)
    command = f"prepare --source-lang en --target-lang de {texts} --bpe-merges {args.merges}"
    gtrans(f"{command} --workers {args.workers} --out data-bin", work, work / "prepare.log")
    args.pack.parent.mkdir(parents=True, exist_ok=True)
    with tarfile.open(args.pack, "w:xz") as archive:
        for path in sorted((work / "data-bin").rglob("*")):
            if path.is_file() and not path.name.startswith(("train.bpe.", "train.tok.")):
                archive.add(path, path.relative_to(work))
        for split in SETS:
            for lang in LANGUAGES:
                archive.add(work / "corpus" / f"{split}.{lang}", f"corpus/{split}.{lang}")
        archive.add(work / "parts.json", "parts.json")
    size = args.pack.stat().st_size
    print(f"{args.pack}: {size / MIB:.1f} MiB; documents: {json.dumps(parts)}")
    if size > MOST:
        sys.exit(
            f"gpu_result: error: {args.pack} is larger than {MOST // MIB} MiB; lower --merges."
        )


def unpack(path: Path, work: Path) -> None:
    """Unpack a pack, once."""
    if not (work / "parts.json").is_file():
        work.mkdir(parents=True, exist_ok=True)
        with tarfile.open(path) as archive:
            archive.extraction_filter = getattr(tarfile, "data_filter", None)  # not in 3.11.2
            archive.extractall(work)


# --- running --------------------------------------------------------------------------------------


def gtrans(words: str, folder: Path, log: Path) -> float:
    """Run a command of gtrans in a folder; returns its seconds.

    Raises:
        SystemExit: it has failed; with the end of its log.
    """
    print(f"$ gtrans {words}", flush=True)
    begin = time.monotonic()
    with log.open("a", encoding="utf-8") as file:
        status = subprocess.call(
            [sys.executable, "-m", "gtrans", *words.split()],
            cwd=folder,
            env=os.environ | {"PYTHONUNBUFFERED": "1"},
            stdin=subprocess.DEVNULL,
            stdout=file,
            stderr=subprocess.STDOUT,
        )
    if status:
        end = log.read_text(encoding="utf-8", errors="replace").splitlines()[-3:]
        sys.exit(
            "\n".join([*end, f"gpu_result: error: gtrans {words.split()[0]} failed, see {log}"])
        )
    return time.monotonic() - begin


class Results:
    """The results so far; ``OUT/results.json`` always has all of them."""

    def __init__(self, out: Path) -> None:
        self.path = out / "results.json"
        self.content: dict[str, Any] = {"versions": provenance(), "device": device(), "steps": {}}
        if self.path.is_file():
            self.content = json.loads(self.path.read_text(encoding="utf-8"))

    def add(self, step: str, **facts: Any) -> None:
        """Add a step, and write the file."""
        self.content["steps"][step] = facts
        text = json.dumps(with_schema("gpu-result", self.content), indent=1)
        partial = self.path.with_suffix(".partial")
        partial.write_text(text + "\n", encoding="utf-8")
        partial.replace(self.path)
        print(f"{step}: {json.dumps(facts)[:300]}", flush=True)


def device() -> str:
    """The GPU, or the CPU."""
    import torch

    return torch.cuda.get_device_name() if torch.cuda.is_available() else "CPU"


# --- training -------------------------------------------------------------------------------------


def curves(history: TrainingHistory) -> dict[str, Any]:
    """Losses by the number of updates, in bits per subword."""
    return {
        "train": history.series("train", "nll_loss"),
        "valid": history.series("valid", "nll_loss"),
    }


def speed(history: TrainingHistory, name: str) -> float:
    """``ups`` or ``wps`` of the later updates of a log; the first ones have new shapes.

    fairseq's first line has 0, so a log of few lines is read at the end of its epochs.
    """
    values = [value for _, value in history.series("train", name) if value > 0]
    if not values:
        values = [record.values[name] for record in history.epochs if record.values[name] > 0]
    later = values[len(values) // 2 :]
    return sum(later) / len(later) if later else 0.0


def updates_in(history: TrainingHistory, seconds: float) -> int:
    """The number of updates that fill a time, by the speed of the last updates in a log."""
    return max(1, round(seconds * speed(history, "ups")))


def fit(args: argparse.Namespace, results: Results, name: str, seconds: float) -> None:
    """Train a model for a time: some seconds to measure its speed, then as many updates as fit."""
    work = args.work
    folder = f"checkpoints/{name}"
    sizes = TOY if args.cpu else f"--arch gtransformer_base --bf16 {BATCH}"
    words = f"train data-bin --config compare {sizes} {MODELS[name]} --seed {args.seed}"
    if name != "sentence":
        words += " --init-from checkpoints/sentence/checkpoint_last.pt"
    words += f" --save-dir {folder}"
    log = args.out / f"{name}.log"
    measured = min(MEASURED, seconds / 4)
    spent = gtrans(f"{words} --stop-time-hours {measured / 3600:.6f}", work, log)
    history = read_history(work / folder)
    updates = updates_in(history, seconds)
    spent += gtrans(f"{words} --max-update {updates}", work, log)
    history = read_history(work / folder)
    shutil.copy(work / folder / "train.log", args.out / f"{name}.train.log")
    results.add(
        name,
        command=f"gtrans {words} --max-update {updates}",
        updates=updates,
        seconds_of_updates=seconds,
        seconds=round(spent, 1),
        words_per_second=speed(history, "wps"),
        curves=curves(history),
    )


def train(args: argparse.Namespace) -> None:
    """The first command: three models."""
    args.out.mkdir(parents=True, exist_ok=True)
    unpack(args.pack, args.work)
    results = Results(args.out)
    parts = json.loads((args.work / "parts.json").read_text(encoding="utf-8"))
    results.add("pack", documents=parts)
    for name in MODELS:
        seconds = args.seconds if name == "sentence" else args.further
        fit(args, results, name, seconds)


# --- translating ----------------------------------------------------------------------------------


def translate(args: argparse.Namespace) -> None:
    """The second command: both sets by all models, with scores."""
    args.out.mkdir(parents=True, exist_ok=True)
    results, out = Results(args.out), args.out.resolve()
    # Untrained models would write as much as they may.
    search = "--cpu --beam 2 --max-len-a 0 --max-len-b 10" if args.cpu else "--bf16 --beam 5"
    for split in reversed(SETS):  # the test set is worth more
        written = []
        for name in MODELS:
            output = out / f"{split}.{name}.de"
            model = f"--path checkpoints/{name}/checkpoint_last.pt"
            text = f"--input corpus/{split}.en --output {output}"
            command = f"translate {model} {text} {search}"
            seconds = gtrans(command, args.work, args.out / "translate.log")
            results.add(f"{split}, {name}", command=f"gtrans {command}", seconds=round(seconds, 1))
            written.append(f"{name}={output}")
        score(args, results, split, written)


def score(args: argparse.Namespace, results: Results, split: str, systems: list[str]) -> None:
    """Scores of one set against the continued sentence model, with scores by document."""
    out = args.out.resolve()
    first = next(system for system in systems if system.startswith("continued="))
    ordered = [first, *(system for system in systems if system != first)]
    command = f"score --hyp {' '.join(ordered)} --ref corpus/{split}.de --src corpus/{split}.en"
    command += f" --target-lang de --metrics s_bleu d_bleu chrf --json {out / split}.scores.json"
    command += f" --segments {out / split}.segments.tsv"
    gtrans(command, args.work, args.out / f"{split}.scores.txt")
    found = json.loads((out / f"{split}.scores.json").read_text(encoding="utf-8"))
    scores: dict[str, dict[str, Any]] = {}
    for name, metrics in found["systems"].items():
        scores[name] = {}
        for metric, entry in metrics.items():
            scores[name][metric] = {"score": entry["score"]}
            if "comparison" in entry:
                compared = entry["comparison"]
                scores[name][metric] |= {
                    "change": compared["difference"],
                    "interval": compared.get("interval"),
                    "p": compared.get("paired_randomisation", {}).get("p"),
                }
    results.add(f"{split}, scores", command=re.sub(r"\S*/", "", f"gtrans {command}"), scores=scores)


def main() -> None:
    """Read the options and run."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    add = parser.add_argument
    add("step", choices=["pack", "train", "translate"])
    add("--pack", type=Path, metavar="FILE", help="the pack")
    add("--data", type=Path, metavar="DATA", help="pack: the corpora, CORPUS/SPLIT.LANG.gz")
    add("--out", type=Path, metavar="OUT", help="train, translate: a folder for what comes back")
    add("--work", type=Path, default=Path("build/gpu-result"), help="what stays (%(default)s)")
    add("--seconds", type=float, default=270, help="of the sentence model (%(default)s)")
    add("--further", type=float, default=80, help="of each model from it (%(default)s)")
    add("--seed", type=int, default=1)
    add("--merges", type=int, default=16_000, help="pack: merges of BPE (%(default)s)")
    add("--documents", type=int, metavar="N", help="pack: at most as many of each file, as a try")
    add("--workers", type=int, default=os.cpu_count(), help="pack: processes (%(default)s)")
    add("--cpu", action="store_true", help="toy size, on the CPU")
    args = parser.parse_args()
    needed = {"pack": ("data", "pack"), "train": ("pack", "out"), "translate": ("out",)}
    for name in needed[args.step]:
        if getattr(args, name) is None:
            parser.error(f"{args.step} needs `--{name}`.")
    for name in ("work", "data", "pack", "out"):
        if getattr(args, name) is not None:
            setattr(args, name, getattr(args, name).resolve())
    {"pack": pack, "train": train, "translate": translate}[args.step](args)


if __name__ == "__main__":
    main()
