"""Kill commands of the project at random moments, and compare their results in the end.

    python scripts/kills.py --out FOLDER [--kills 200] [--cases NAME ..]

A case is a command as a user types it, on a small corpus, with tiny models, on the CPU. It runs
once without interruption. Then, trial by trial, it is started in an empty folder, killed with
SIGKILL, started again, killed again, up to three times, until it ends by itself. Two kills of five
wait for a file that is being written: a checkpoint, if the command trains. Its files must then
equal the uninterrupted run's: byte by byte, checkpoints by all that they hold except times. No
child process may outlive a kill by more than ten seconds.

Trials are kept as they come: run the same command again to go on. Delete FOLDER after a change of
the code. The exit status is 1 if anything differs; what differs is kept in FOLDER/trials. Needs
Linux.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import random
import re
import shutil
import signal
import subprocess
import sys
import time
from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping, Sequence
from fnmatch import fnmatch
from pathlib import Path
from typing import Any

import psutil
import torch

from gtrans.checkpoints.reading import read_checkpoint

ROOT = Path(__file__).resolve().parents[1]
MOST_KILLS = 3  # of one trial
AIMED = 0.4  # share of the kills that wait for a file that is being written
GRACE = 10.0  # seconds within which the children of a killed process end
# Values about time and place of a run, not about its results.
LEFT_OUT = re.compile(
    r"(extra_state\.(metrics|previous_training_time)|provenance_digest|provenance\.checkpoints\.\d+"
    r"|task_state\.run\.start\.[^.]+\.(path|digest))(\..*)?"
)
# Options that change numbers; others, such as ports, belong to the machine.
OPTIONS = ("model", "task", "criterion", "optimizer", "lr_scheduler")


# ---- cases ---------------------------------------------------------------------------------------

_PREPARE = (
    "gtrans prepare --source-lang en --target-lang de --train {corpus}/corpus/train "
    "--valid {corpus}/corpus/valid --test {corpus}/corpus/test --bpe-merges 300 --out data"
)
_SIZE = (
    "--encoder-layers 2 --decoder-layers 2 --encoder-embed-dim 64 --encoder-ffn-embed-dim 128 "
    "--decoder-ffn-embed-dim 128 --encoder-attention-heads 2 --decoder-attention-heads 2 "
    "--share-all-embeddings"
)
_STEPS = "--max-tokens 1000 --max-update 40 --save-interval-updates 7"
_TRAINING = (
    "--optimizer adam --lr 0.003 --lr-scheduler inverse_sqrt --warmup-updates 10 --dropout 0.1 "
    "--save-dir run --cpu"
)
_LOSS = "--criterion label_smoothed_cross_entropy --label-smoothing 0.1"
_GLOBAL = "--encoder-global-layers 1 --decoder-global-layers 1 --cross-global-layers 1"
_SENTENCE = f"--arch gtransformer_tiny --unit sentence --doc-mode full {_GLOBAL}"
_START = "--init-from {train-sentence}/run/checkpoint_best.pt"
_MODEL = "--path {train-document}/run/checkpoint_best.pt --cpu"
_SEARCH = "--beam 2 --max-len-a 1 --max-len-b 5 --max-tokens 400"


def _training(
    options: str, data: str = "prepare", loss: str = _LOSS, steps: str = _STEPS
) -> tuple[str, str]:
    """``gtrans train``, with checkpoints within epochs and at their ends."""
    command = f"gtrans train {{{data}}}/data {options} {_SIZE} {loss} {_TRAINING} {steps}"
    return command, "run/checkpoint*.pt"


# A command, and the patterns of the files that are compared; none: it only makes what others need.
# {NAME} is the folder of another case's whole run. Where checkpoints are compared, kills wait for
# one that is being written, else for any file. All processes of bash are killed at once, as when
# a job is cancelled; of other commands only the first one, and its children have to notice.
CASES: dict[str, tuple[str, ...]] = {
    "corpus": ("gtrans make-corpus --docs 200 --items 2 --out corpus", "corpus/**/*"),
    "bert": (
        "python {root}/scripts/make_bert.py --text {corpus}/corpus/train.en --out bert "
        "--vocabulary 200 --dim 16 --heads 2 --updates 0",
    ),
    "prepare": (f"{_PREPARE} --workers 2", "data/**/*"),
    "prepare-bert": (f"{_PREPARE} --bert {{bert}}/bert", "data/**/*"),
    "train-sentence": _training(_SENTENCE),
    "train-document": _training(f"--arch gtransformer_tiny --unit document {_GLOBAL} {_START}"),
    "train-flat": _training(
        "--arch flat_transformer_tiny --unit window --context-before 1 --context-after 1"
    ),
    "train-memory": _training(
        f"--arch memory_transformer_tiny --unit stream {_START}",
        steps="--max-tokens 1000 --max-update 24 --save-interval-updates 5",
    ),
    "train-bert": _training(
        "--arch bert_context_transformer_tiny --unit window --context-before 1 "
        "--bert-cache features",
        data="prepare-bert",
    ),
    "train-fusion": _training(
        "--arch gtrans_fusion_tiny --unit sentence --encoder-group-size 1 --decoder-group-size 1",
        loss="--criterion multi_level_cross_entropy --label-smoothing 0.1",
    ),
    "train-bf": _training(f"{_SENTENCE} --bf16 --learned-positions --max-positions 200"),
    "train-patience": _training(
        f"{_SENTENCE} --no-epoch-checkpoints --validate-interval-updates 4 --patience 3",
        # so high a rate that the loss soon rises
        steps=f"{_STEPS} --lr 0.1 --keep-interval-updates 2",
    ),
    "adapt": (
        "gtrans adapt --path {train-sentence}/run/checkpoint_best.pt --source-lang en "
        "--target-lang de --train {corpus}/corpus/train --valid {corpus}/corpus/test --out out "
        "--every 5 --cpu -- --max-update 10 --max-tokens 1000 --eval-bleu-args "
        '{"beam":1,"max_len_a":1,"max_len_b":5}',
        "out/*.pt",
        "out/*/checkpoint*.pt",
        "out/valid.*",
        "out/valid/*",
    ),
    "translate": (
        f"gtrans translate {_MODEL} --input {{corpus}}/corpus/test.en --output out.de {_SEARCH}",
        "out.de",
    ),
    "pages": ("split -l 60 --additional-suffix=.txt {corpus}/corpus/test.en page-",),
    "translate-files": (
        f"gtrans translate {{pages}} --output-dir out {_MODEL} {_SEARCH}",
        "out/**/*",
    ),
    "cxmi": (
        f"gtrans cxmi {_MODEL} --src {{corpus}}/corpus/test.en --ref {{corpus}}/corpus/test.de "
        "--output out.tsv",
        "out.tsv",
    ),
    "average": (
        "gtrans average --last-updates 3 --output average.pt {train-sentence}/run",
        "average.pt",
    ),
    "script": (
        "bash {root}/exp_gtransformer/run-finetune.sh --out out --gpus 0 "
        "--train-prefix {corpus}/corpus/train --valid-prefix {corpus}/corpus/valid "
        "--test-prefix {corpus}/corpus/test --bpe-merges 300 --beam 1 --arch gtransformer_tiny "
        f"--sentence-updates 20 --document-updates 10 --max-tokens 1000 -- {_SIZE} {_GLOBAL} "
        "--save-interval-updates 4",
        "out/data/**/*",
        "out/*/checkpoint*.pt",
        "out/test.*",
        "out/scores.*",
    ),
}
_NAME = re.compile(r"\{([a-z-]+)\}")


def words(command: str, expected: Path) -> list[str]:
    """The words of a command; ``expected`` holds the folders of uninterrupted runs."""
    first, *rest = _NAME.sub(
        lambda match: str(ROOT if match[1] == "root" else expected / match[1]), command
    ).split()
    return [shutil.which(first, path=Path(sys.executable).parent) or first, *rest]


# ---- a command that is watched from outside ------------------------------------------------------


class Watched:
    """A running command in a process group of its own; none of it is left after ``with``."""

    def __init__(self, words: list[str], folder: Path, log: Path) -> None:
        """Start it in ``folder``; its output is added to ``log``."""
        self.folder = f"{folder.resolve()}/"
        self.begin = time.monotonic()
        environment = {**os.environ, "OMP_NUM_THREADS": "1", "CUDA_VISIBLE_DEVICES": ""}
        with open(log, "ab") as file:
            self.process = subprocess.Popen(
                words,
                cwd=folder,
                env=environment,
                stdin=subprocess.DEVNULL,
                stdout=file,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )

    def __enter__(self) -> Watched:
        return self

    def __exit__(self, *_: object) -> None:
        self.kill(whole=True)

    @property
    def seconds(self) -> float:
        """Since the start."""
        return time.monotonic() - self.begin

    def kill(self, whole: bool) -> None:
        """Kill all its processes, or the first one alone."""
        with contextlib.suppress(ProcessLookupError):
            (os.killpg if whole else os.kill)(self.process.pid, signal.SIGKILL)
        self.process.wait()

    def outlived(self) -> bool:
        """Whether a child is still there after the time of grace."""
        end = time.monotonic() + GRACE
        while self._group() and time.monotonic() < end:
            time.sleep(0.1)
        return bool(self._group())

    def writing(self, pattern: str) -> bool:
        """Whether a file of the folder whose name matches is open for writing."""
        for process in self._group():
            with contextlib.suppress(psutil.Error, OSError):  # it has ended meanwhile
                for file in process.open_files():
                    inside = file.path.startswith(self.folder) and not file.path.endswith(".lock")
                    if inside and file.mode != "r" and fnmatch(Path(file.path).name, pattern):
                        return True
        return False

    def _group(self) -> list[Any]:
        """Its processes that still run."""
        processes = []
        for process in psutil.process_iter():
            with contextlib.suppress(psutil.Error, OSError):
                if os.getpgid(process.pid) == self.process.pid:
                    processes += [process] if process.status() != psutil.STATUS_ZOMBIE else []
        return processes


# ---- comparing results ---------------------------------------------------------------------------


def differences(expected: Path, folder: Path, patterns: Sequence[str]) -> list[str]:
    """The differences between the results in two folders, a line for each file."""
    reference, result = _files(expected, patterns), _files(folder, patterns)
    lines = [f"{name}: missing" for name in reference.keys() - result.keys()]
    lines += [f"{name}: not in an uninterrupted run" for name in result.keys() - reference.keys()]
    for name in reference.keys() & result.keys():
        file, other = reference[name], result[name]
        if file.suffix in (".pt", ".json"):
            own, others = _values(file), _values(other)
            places = (place for place in own | others if not LEFT_OUT.fullmatch(place))
            unequal = [place for place in places if not _equal(own.get(place), others.get(place))]
            lines += [f"{name}: {place} differs" for place in unequal[:1]]
        elif file.read_bytes() != other.read_bytes():
            lines.append(f"{name}: other bytes")
    return sorted(lines)


def _files(folder: Path, patterns: Sequence[str]) -> dict[str, Path]:
    files = {}
    for pattern in patterns:
        for path in folder.glob(pattern):
            if path.is_file() and path.suffix not in (".lock", ".log"):
                files[str(path.relative_to(folder))] = path
    return files


def _values(path: Path) -> dict[str, Any]:
    """All that must be the same in a JSON file or a checkpoint, by its place."""
    if path.suffix == ".json":
        return dict(_flat(json.loads(path.read_text("utf-8"))))
    state = read_checkpoint(path)
    if state.get("cfg"):
        state["cfg"] = {name: state["cfg"].get(name) for name in OPTIONS}
    # Every start of a run adds an entry, the last one is that of the checkpoint.
    state["optimizer_history"] = (state.get("optimizer_history") or [])[-1:]
    return dict(_flat(state))


def _flat(value: Any, name: str = "") -> Iterator[tuple[str, Any]]:
    """The values in nested ones by their places."""
    if isinstance(value, list | tuple):
        value = dict(enumerate(value))
    if isinstance(value, Mapping) and value:
        for key, part in value.items():
            yield from _flat(part, f"{name}.{key}" if name else str(key))
    else:
        yield name, (value,)


def _equal(first: Any, other: Any) -> bool:
    """Whether two values are the same; None stands for a missing one."""
    if first is None or other is None:
        return False
    (a,), (b,) = first, other
    if isinstance(a, torch.Tensor) and isinstance(b, torch.Tensor):
        return a.dtype == b.dtype and torch.equal(a, b)
    return type(a) is type(b) and bool(a == b)


# ---- trials --------------------------------------------------------------------------------------


def expect(out: Path, name: str) -> float:
    """Run a case without interruption, after the cases that it builds on; returns the seconds.

    Raises:
        SystemExit: a command failed.
    """
    command = CASES[name][0]
    for other in _NAME.findall(command):
        if other != "root":
            expect(out, other)
    folder = out / "expected" / name
    record, log = folder.with_suffix(".seconds"), folder.with_suffix(".log")
    if not record.exists():
        _empty(folder, log)
        with Watched(words(command, out / "expected"), folder, log) as run:
            if run.process.wait():
                raise SystemExit(f"{name}: its uninterrupted run failed, see {log}")
            record.write_text(str(run.seconds))
    return float(record.read_text())


def trial(out: Path, name: str, number: int, seed: int) -> dict[str, Any]:
    """Kill a case up to three times, let it finish, compare; the record."""
    (command, *results), seconds = CASES[name], expect(out, name)
    aim = "*checkpoint*.pt*" if "checkpoint" in str(results) else "*"
    draw = random.Random(f"{seed} {name} {number}")
    expected, folder = out / "expected" / name, out / "trials" / f"{name}.{number}"
    log = folder.with_suffix(".log")
    _empty(folder, log)
    record: dict[str, Any] = {"case": name, "trial": number, "kills": [], "outlived": 0}
    left = draw.randint(1, MOST_KILLS)
    status: int | str | None = None
    while status is None:
        moment = draw.uniform(0, seconds) if left else float("inf")
        aimed = draw.random() < AIMED
        with Watched(words(command, out / "expected"), folder, log) as run:
            while True:
                status = run.process.poll()
                if status is not None:
                    break
                time.sleep(0.002)
                if run.seconds > max(60.0, 20 * seconds):
                    status = "no end"
                    break
                if run.seconds < moment:
                    continue
                hit = run.writing(aim)
                if aimed and not hit and run.seconds < moment + seconds / 5:
                    continue  # it may begin to write soon
                record["kills"].append({"seconds": round(run.seconds, 3), "writing": hit})
                run.kill(whole=command.startswith("bash"))
                record["outlived"] += run.outlived()
                left -= 1
                break
    record["differences"] = (
        [f"status {status}"] if status else differences(expected, folder, results)
    )
    if not record["differences"]:
        shutil.rmtree(folder)
        log.unlink()
    return record


def _empty(folder: Path, log: Path) -> None:
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    log.write_bytes(b"")


def table(records: list[dict[str, Any]]) -> str:
    """The sums of every case as a Markdown table."""
    sums: dict[str, Counter[str]] = defaultdict(Counter)
    for record in records:
        for title in (record["case"], "**all**"):
            sums[title] += Counter(
                {
                    "kills": len(record["kills"]),
                    "while it wrote": sum(kill["writing"] for kill in record["kills"]),
                    "trials": 1,
                    "identical": not record["differences"],
                    "children left": record["outlived"],
                }
            )
    heads = ("kills", "while it wrote", "trials", "identical", "children left")
    names = [name for name in sums if name != "**all**"] + ["**all**"] * bool(sums)
    lines = [("case", *heads), ("---", *["---:"] * len(heads))]
    lines += [(name, *(str(sums[name][head]) for head in heads)) for name in names]
    return "".join(f"| {' | '.join(line)} |\n" for line in lines)


def main() -> int:
    """Run all trials that are asked for; 1 if anything differs."""
    killed = [name for name, (_, *results) in CASES.items() if results]
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    add = parser.add_argument
    add("--out", type=Path, required=True, metavar="DIR", help="folder to work in")
    add(
        "--kills",
        type=int,
        default=200,
        metavar="N",
        help="of all cases together (default: %(default)s)",
    )
    add(
        "--cases",
        nargs="+",
        choices=killed,
        default=killed,
        metavar="NAME",
        help=f"what is killed: {', '.join(killed)} (default: all)",
    )
    add("--seed", type=int, default=1, help="of all moments (default: %(default)s)")
    args = parser.parse_args()
    out = args.out.resolve()
    out.mkdir(parents=True, exist_ok=True)
    log = out / "trials.jsonl"
    records = [json.loads(line) for line in log.read_text().splitlines()] if log.exists() else []
    share = max(1, args.kills // len(args.cases))
    for name in args.cases:
        done = [record for record in records if record["case"] == name]
        # A command may end too quickly to be killed.
        while sum(len(record["kills"]) for record in done) < share and len(done) <= 2 * share:
            record = trial(out, name, len(done) + 1, args.seed)
            done.append(record)
            records.append(record)
            with log.open("a") as file:
                file.write(json.dumps(record) + "\n")
            faults = record["differences"] or ("a child outlives it" if record["outlived"] else "")
            print(f"{name} {len(done)}: {len(record['kills'])} kills {faults}", file=sys.stderr)
    print(table(records))
    return int(any(record["differences"] or record["outlived"] for record in records))


if __name__ == "__main__":
    sys.exit(main())
