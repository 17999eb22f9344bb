"""Kill commands of the project at random moments, and compare what they come to in the end.

    python scripts/kills.py --out FOLDER [--kills 200] [--cases NAME ..]

A case is a command as a user types it, on a small corpus, with tiny models, on the CPU. It runs
once without interruption. Then, trial by trial, it is started in an empty folder, killed with
SIGKILL, started again, killed again, up to three times, until it ends by itself. Two kills of five
wait for a file that is being written: a checkpoint, if the command trains. Its files must then be
those of the uninterrupted run: byte by byte, checkpoints by all that they hold except times. No
child process may outlive a kill by more than ten seconds.

Trials are kept as they come: run the same command again to go on. Delete FOLDER after a change of
the code. The exit status is 1 if anything differs; what differs is kept in FOLDER/trials. Needs
Linux (/proc).
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
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from fnmatch import fnmatch
from pathlib import Path
from typing import Any

import torch

from gtrans.checkpoints.reading import read_checkpoint

ROOT = Path(__file__).resolve().parents[1]
PROGRAMS = Path(sys.executable).parent
CHECKPOINT = "*checkpoint*.pt*"
MOST_KILLS = 3  # of one trial
AIMED = 0.4  # share of the kills that wait for a file that is being written
GRACE = 10.0  # seconds within which the children of a killed process end
# What says when and where a run was, not what it has come to.
LEFT_OUT = re.compile(
    r"extra_state\.(metrics|previous_training_time)"
    r"|task_state\.run\.start\.[^.]+\.(path|digest)|made_from\.checkpoints\.\d+|run"
)
# The options that decide about numbers; others, such as ports, are the machine's.
OPTIONS = ("model", "task", "criterion", "optimizer", "lr_scheduler")


@dataclass(frozen=True)
class Case:
    """A command that is killed; ``{NAME}`` in it is the folder of another case's whole run.

    Attributes:
        command: the words that are typed.
        results: patterns of the files that are compared.
        weight: its share of the kills; 0: it only makes what others need.
        aim: pattern of the files during whose writing a part of the kills happens.
        whole: all processes are killed at once, as when a job is cancelled; otherwise only the
            first one, and its children have to notice.
    """

    command: str
    results: tuple[str, ...]
    weight: int = 1
    aim: str = "*"
    whole: bool = False

    @property
    def others(self) -> list[str]:
        """The names of the cases that it builds on."""
        return [name for name in re.findall(r"\{([a-z-]+)\}", self.command) if name != "root"]

    def words(self, expected: Path) -> list[str]:
        """The command; ``expected`` holds the folders of uninterrupted runs."""
        folders = {name: str(expected / name) for name in self.others} | {"root": str(ROOT)}
        filled = re.sub(r"\{([a-z-]+)\}", lambda found: folders[found[1]], self.command)
        first, *rest = filled.split()
        return [str(PROGRAMS / first) if (PROGRAMS / first).exists() else first, *rest]


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


def _training(options: str, data: str = "prepare", loss: str = _LOSS, steps: str = _STEPS) -> Case:
    """``gtrans train``, with checkpoints within epochs and at their ends."""
    command = f"gtrans train {{{data}}}/data {options} {_SIZE} {loss} {_TRAINING} {steps}"
    return Case(command, ("run/checkpoint*.pt",), 3, CHECKPOINT)


CASES = {
    "corpus": Case("gtrans make-corpus --docs 200 --items 2 --out corpus", ("corpus/**/*",)),
    "bert": Case(
        "python {root}/scripts/make_bert.py --text {corpus}/corpus/train.en --out bert "
        "--vocabulary 200 --dim 16 --heads 2 --updates 0",
        ("bert/*",), weight=0,
    ),
    "prepare": Case(f"{_PREPARE} --workers 2", ("data/**/*",), 2),
    "prepare-bert": Case(f"{_PREPARE} --bert {{bert}}/bert", ("data/**/*",), 2),
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
    "adapt": Case(
        "gtrans adapt --path {train-sentence}/run/checkpoint_best.pt --source-lang en "
        "--target-lang de --train {corpus}/corpus/train --valid {corpus}/corpus/test --out out "
        "--every 5 --cpu -- --max-update 10 --max-tokens 1000 --eval-bleu-args "
        '{"beam":1,"max_len_a":1,"max_len_b":5}',
        ("out/*.pt", "out/*/checkpoint*.pt", "out/valid*"), 1, CHECKPOINT,
    ),
    "translate": Case(
        f"gtrans translate {_MODEL} --input {{corpus}}/corpus/test.en --output out.de {_SEARCH}",
        ("out.de",), 2,
    ),
    "pages": Case(
        "split -l 60 --additional-suffix=.txt {corpus}/corpus/test.en page-", ("*.txt",), weight=0
    ),
    "translate-files": Case(
        f"gtrans translate {{pages}} --output-dir out {_MODEL} {_SEARCH}", ("out/**/*",), 2
    ),
    "cxmi": Case(
        f"gtrans cxmi {_MODEL} --src {{corpus}}/corpus/test.en --ref {{corpus}}/corpus/test.de "
        "--output out.tsv",
        ("out.tsv",),
    ),
    "average": Case(
        "gtrans average --last-updates 3 --output average.pt {train-sentence}/run", ("average.pt",)
    ),
    "convert": Case(
        "gtrans convert --from gtrans --extend-positions 300 {train-bf}/run/checkpoint_last.pt "
        "longer.pt",
        ("longer.pt",),
    ),
    "script": Case(
        "bash {root}/exp_gtransformer/run-finetune.sh --out out --gpus 0 "
        "--train-prefix {corpus}/corpus/train --valid-prefix {corpus}/corpus/valid "
        "--test-prefix {corpus}/corpus/test --bpe-merges 300 --beam 1 --arch gtransformer_tiny "
        f"--sentence-updates 20 --document-updates 10 --max-tokens 1000 -- {_SIZE} {_GLOBAL} "
        "--save-interval-updates 4",
        ("out/data/**/*", "out/*/checkpoint*.pt", "out/test.*", "out/scores.*"),
        2, CHECKPOINT, whole=True,
    ),
}  # fmt: skip


# ---- a command that is watched from outside ------------------------------------------------------


class Watched:
    """A running command in a process group of its own; none of it is left after ``with``."""

    def __init__(self, words: list[str], folder: Path, log: Path) -> None:
        """Start it in ``folder``; what it prints is added to ``log``."""
        self.folder = f"{folder.resolve()}/"
        self.begin = time.monotonic()
        environment = {**os.environ, "OMP_NUM_THREADS": "1", "CUDA_VISIBLE_DEVICES": ""}
        with open(log, "ab") as file:
            self.process = subprocess.Popen(
                words, cwd=folder, env=environment, stdin=subprocess.DEVNULL, stdout=file,
                stderr=subprocess.STDOUT, start_new_session=True,
            )  # fmt: skip

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
        while time.monotonic() < end:
            if not self._group():
                return False
            time.sleep(0.1)
        return True

    def writing(self, pattern: str) -> bool:
        """Whether a file of the folder whose name matches is open for writing."""
        for pid in self._group():
            with contextlib.suppress(OSError):  # it has ended, or closed the file, meanwhile
                for entry in os.scandir(f"/proc/{pid}/fd"):
                    path = os.readlink(entry.path)
                    if not path.startswith(self.folder) or path.endswith(".lock"):
                        continue
                    info = Path(f"/proc/{pid}/fdinfo/{entry.name}").read_text()
                    flags = int(info.partition("flags:")[2].split()[0], 8)
                    if flags & (os.O_WRONLY | os.O_RDWR) and fnmatch(Path(path).name, pattern):
                        return True
        return False

    def _group(self) -> list[int]:
        """Its processes that still run."""
        found = []
        for entry in os.scandir("/proc"):
            with contextlib.suppress(OSError):
                if entry.name.isdigit():
                    stat = Path(entry.path, "stat").read_text().rpartition(")")[2].split()
                    if int(stat[2]) == self.process.pid and stat[0] not in "ZX":
                        found.append(int(entry.name))
        return found


# ---- what it has come to -------------------------------------------------------------------------


def differences(expected: Path, folder: Path, patterns: tuple[str, ...]) -> list[str]:
    """What differs between the results in two folders, a line for each file."""
    wanted, got = _files(expected, patterns), _files(folder, patterns)
    lines = [f"{name}: missing" for name in wanted.keys() - got.keys()]
    lines += [f"{name}: not in an uninterrupted run" for name in got.keys() - wanted.keys()]
    for name in wanted.keys() & got.keys():
        lines += [f"{name}: {what}" for what in _difference(wanted[name], got[name])]
    return sorted(lines)


def _files(folder: Path, patterns: tuple[str, ...]) -> dict[str, Path]:
    matching = (path for pattern in patterns for path in folder.glob(pattern))
    found = (path for path in matching if path.is_file() and path.suffix not in (".lock", ".log"))
    return {str(path.relative_to(folder)): path for path in found}


def _difference(expected: Path, got: Path) -> list[str]:
    """The first thing that differs in two files, as a list of one; none if they are the same."""
    if expected.suffix == ".pt":
        return list(_unequal(_checkpoint(expected), _checkpoint(got)))[:1]
    if expected.read_bytes() == got.read_bytes():
        return []
    if expected.suffix == ".json":
        both = (json.loads(path.read_text("utf-8")) for path in (expected, got))
        return list(_unequal(*both))[:1]
    return ["other bytes"]


def _checkpoint(path: Path) -> dict[str, Any]:
    """The part of a checkpoint that must be the same."""
    state = read_checkpoint(path)
    if state.get("cfg"):
        state["cfg"] = {name: state["cfg"].get(name) for name in OPTIONS}
    # Every start of a run adds an entry, the last one is that of the checkpoint.
    state["optimizer_history"] = (state.get("optimizer_history") or [])[-1:]
    return state


def _unequal(expected: Any, got: Any, name: str = "") -> Iterator[str]:
    """Where two nested values differ."""
    if LEFT_OUT.fullmatch(name):
        return
    if isinstance(expected, torch.Tensor) and isinstance(got, torch.Tensor):
        if expected.dtype != got.dtype or not torch.equal(expected, got):
            yield f"{name} differs"
    elif isinstance(expected, Mapping) and isinstance(got, Mapping):
        for key in sorted({*expected, *got}, key=str):
            inner = f"{name}.{key}" if name else str(key)
            if key in expected and key in got:
                yield from _unequal(expected[key], got[key], inner)
            else:
                yield f"{inner} is only in one of them"
    elif isinstance(expected, list | tuple) and isinstance(got, list | tuple):
        if len(expected) != len(got):
            yield f"{name} has {len(got)} entries instead of {len(expected)}"
        for number, pair in enumerate(zip(expected, got, strict=False)):
            yield from _unequal(*pair, f"{name}.{number}")
    elif type(expected) is not type(got) or expected != got:
        yield f"{name} is {got!r:.60} instead of {expected!r:.60}"


# ---- trials --------------------------------------------------------------------------------------


def expect(out: Path, name: str) -> float:
    """Seconds of the uninterrupted run of a case, after those of the cases that it builds on.

    Raises:
        SystemExit: a command failed.
    """
    case = CASES[name]
    for other in case.others:
        expect(out, other)
    folder = out / "expected" / name
    record, log = folder.with_suffix(".seconds"), folder.with_suffix(".log")
    if not record.exists():
        _empty(folder, log)
        with Watched(case.words(out / "expected"), folder, log) as run:
            if run.process.wait():
                raise SystemExit(f"{name}: its uninterrupted run failed, see {log}")
            record.write_text(str(run.seconds))
        print(f"{name}: {record.read_text()} s without interruption", file=sys.stderr)
    return float(record.read_text())


def trial(out: Path, name: str, number: int, seed: int) -> dict[str, Any]:
    """Kill a case up to three times, let it finish, compare; the record."""
    case, seconds = CASES[name], expect(out, name)
    draw = random.Random(f"{seed} {name} {number}")
    folder = out / "trials" / f"{name}.{number}"
    log = folder.with_suffix(".log")
    _empty(folder, log)
    record: dict[str, Any] = {"case": name, "trial": number, "kills": [], "outlived": 0}
    left = draw.randint(1, MOST_KILLS)
    status: int | str | None = None
    while status is None:
        moment = draw.uniform(0, seconds) if left else float("inf")
        aimed = draw.random() < AIMED
        with Watched(case.words(out / "expected"), folder, log) as run:
            while (status := run.process.poll()) is None:
                time.sleep(0.002)
                if run.seconds > max(60.0, 20 * seconds):
                    status = "no end"
                    break
                if run.seconds < moment:
                    continue
                hit = run.writing(case.aim)
                if aimed and not hit and run.seconds < moment + seconds / 5:
                    continue  # it may begin to write soon
                record["kills"].append({"seconds": round(run.seconds, 3), "writing": hit})
                run.kill(case.whole)
                record["outlived"] += run.outlived()
                left -= 1
                break
    expected = out / "expected" / name
    problems = [f"status {status}"] if status else differences(expected, folder, case.results)
    record["differences"] = problems
    record["more"] = len(_files(folder, ("**/*",)).keys() - _files(expected, ("**/*",)).keys())
    if not problems:
        shutil.rmtree(folder)
        log.unlink()
    return record


def _empty(folder: Path, log: Path) -> None:
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    log.write_bytes(b"")


def table(records: list[dict[str, Any]]) -> str:
    """The sums of every case as a Markdown table."""
    heads = ("kills", "while it wrote", "trials", "identical", "children left", "files left")
    lines = [("case", *heads), ("---", *["---:"] * len(heads))]
    names = dict.fromkeys(record["case"] for record in records)
    for title, of in [*((name, {name}) for name in names), ("**all**", set(names))]:
        chosen = [record for record in records if record["case"] in of]
        kills = [kill for record in chosen for kill in record["kills"]]
        numbers = (
            len(kills), sum(kill["writing"] for kill in kills), len(chosen),
            sum(not record["differences"] for record in chosen),
            sum(record["outlived"] for record in chosen),
            sum(bool(record["more"]) for record in chosen),
        )  # fmt: skip
        lines.append((title, *map(str, numbers)))
    return "".join(f"| {' | '.join(line)} |\n" for line in lines)


def main() -> int:
    """Run all trials that are asked for; 1 if anything differs."""
    killed = [name for name, case in CASES.items() if case.weight]
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--out", type=Path, required=True, metavar="DIR", help="folder to work in")
    parser.add_argument(
        "--kills", type=int, default=200, metavar="N",
        help="kills of all cases together (default: %(default)s)",
    )  # fmt: skip
    parser.add_argument(
        "--cases", nargs="+", choices=killed, default=killed, metavar="NAME",
        help=f"what is killed: {', '.join(killed)} (default: all)",
    )  # fmt: skip
    parser.add_argument("--seed", type=int, default=1, help="of all moments (default: %(default)s)")
    args = parser.parse_args()
    out = args.out.resolve()
    out.mkdir(parents=True, exist_ok=True)
    log = out / "trials.jsonl"
    records = [json.loads(line) for line in log.read_text().splitlines()] if log.exists() else []
    whole = sum(CASES[name].weight for name in args.cases)
    for name in args.cases:
        share = max(1, args.kills * CASES[name].weight // whole)
        while True:
            done = [one for one in records if one["case"] == name]
            # A command that ends too quickly to be killed is not tried for ever.
            if sum(len(one["kills"]) for one in done) >= share or len(done) > 2 * share:
                break
            number = len(done) + 1
            record = trial(out, name, number, args.seed)
            records.append(record)
            with log.open("a") as file:
                file.write(json.dumps(record) + "\n")
            faults = record["differences"] or ("a child outlives it" if record["outlived"] else "")
            print(f"{name} {number}: {len(record['kills'])} kills {faults or ''}", file=sys.stderr)
    print(table(records))
    return int(any(record["differences"] or record["outlived"] for record in records))


if __name__ == "__main__":
    sys.exit(main())
