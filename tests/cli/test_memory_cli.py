"""The memory Transformer through the commands that a user types, and that it learns."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from support.runs import PLUGIN, TRAINING, refusal
from support.suites import others_long
from support.toy_documents import TASKS, accuracy_after_training
from support.untrained import memory_transformer

from gtrans.cli import main

if TYPE_CHECKING:
    from support.tiny_models import Finished, TinyWorld


RECIPE = (
    *(*TRAINING, "--arch", "memory_transformer_tiny", "--adam-betas", "(0.9, 0.98)"),
    *("--weight-decay", "0.01", "--lr", "3e-4", "--lr-scheduler", "inverse_sqrt"),
    *("--warmup-updates", "1000", "--label-smoothing", "0.1", "--log-format", "json"),
    *("--log-interval", "1", "--disable-validation"),
)


def train(tiny: TinyWorld, save: Path, *options: str | Path, updates: int = 4) -> Finished:
    return tiny.run(
        "train", tiny.data, *PLUGIN, *RECIPE, "--max-update", str(updates), "--save-dir", save,
        *options,
    )  # fmt: skip


def losses(done: Finished) -> list[str]:
    assert done.status == 0, done.stderr
    return re.findall(r'"loss": "([\d.]+)"', done.stdout + done.stderr)


@pytest.fixture(scope="module")
def trained(tiny: TinyWorld, tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Finished]:
    """A memory Transformer started from the sentence model, and the log of its training."""
    folder = tmp_path_factory.mktemp("memory")
    start = tiny.checkpoints["sentence"]
    done = train(tiny, folder, "--init-from", start, "--dropout", "0.2", "--update-freq", "2")
    assert done.status == 0, done.stderr
    return folder / "checkpoint_last.pt", done


def test_every_sentence_is_translated_once(trained, tiny, tmp_path):
    path, count = trained[0], len(tiny.pieces("en"))
    done = tiny.run.succeed(
        "generate", tiny.data, *PLUGIN, "--path", path, "--beam", "2", "--nbest", "2",
        "--max-len-b", "6", "--cpu",
    )  # fmt: skip
    for kind, times in (("S", 1), ("T", 1), ("H", 2), ("D", 2), ("P", 2)):
        found = [number for number, _ in done.lines(kind)]
        assert sorted(found) == sorted([*range(count)] * times), kind
    output = tmp_path / "out.de"
    command = [
        "translate", "--path", path, "--input", tiny.text / "test.en", "--cpu",
        "--output", output, "--beam", "2", "--max-len-a", "0", "--max-len-b", "6",
    ]  # fmt: skip
    assert main([str(word) for word in command]) == 0
    lines = output.read_text(encoding="utf-8").splitlines()
    assert len([line for line in lines if line]) == count
    text = (tiny.data / "text" / "test.bpe.en").read_text(encoding="utf-8")
    alone = tiny.run.succeed(
        "generate", tiny.data, *PLUGIN, "--path", path, "--beam", "2", "--max-len-b", "6",
        "--cpu", "--batch-size", "1",
    )  # fmt: skip
    hypotheses = [text for _, text in sorted(alone.lines("H"))]
    interactive = tiny.run.succeed(
        "interactive", tiny.data, *PLUGIN, "--path", path, "--beam", "2", "--max-len-b", "6",
        "--cpu", stdin=text,
    )  # fmt: skip
    assert [text for _, text in interactive.lines("H")] == hypotheses


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (("--max-window", "1"), "`--max-window` must be at least 2, or 0"),
        (("--min-window", "11"), "`--min-window` must be between 1 and `--max-window` 10"),
        (("--memory-layers", "7"), "`--memory-layers` must be top, all, or layers between 0 and 1"),
        (("--memory-size", "-1"), "`--memory-size` must be at least 0, but is -1"),
    ],
)
def test_mistakes_are_one_line(options, message, tiny, tmp_path):
    done = train(tiny, tmp_path, *options)
    assert done.status != 0
    assert refusal(done).startswith(message)


@pytest.mark.long
def test_two_processes(tiny, repo, tmp_path):
    """Each keeps to its streams, and an update reads what one process reads in two batches."""
    torchrun = Path(sys.executable).with_name("torchrun")
    command = (
        'fairseq-train "$@" --distributed-world-size 2 --distributed-init-method env:// '
        "--distributed-no-spawn --distributed-backend gloo --ddp-backend legacy_ddp "
        "--distributed-rank $RANK --device-id 0"
    )
    path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    options = ("--dropout", "0", "--lr", "1e-30", "--max-tokens", "256")
    alone = losses(train(tiny, tmp_path / "alone", *options, "--update-freq", "2", updates=6))
    done = subprocess.run(
        [
            torchrun, "--no-python", "--standalone", "--nproc_per_node", "2",
            "bash", "-c", command, "bash", tiny.data, *PLUGIN, *RECIPE, *options,
            "--max-update", "6", "--save-dir", tmp_path / "two",
        ],
        cwd=repo,
        env={**os.environ, "OMP_NUM_THREADS": "1", "PATH": path, "CUDA_VISIBLE_DEVICES": ""},
        capture_output=True, text=True, timeout=300, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    found = re.findall(r'"loss": "([\d.]+)"', done.stdout + done.stderr)
    assert [float(x) for x in found] == pytest.approx([float(x) for x in alone], abs=2e-3)


# ---- learning ------------------------------------------------------------------------------------


def learnt(task: str, updates: int, **options: Any) -> float:
    wide = {"encoder_embed_dim": 32, "memory_size": 4, "memory_bptt": -1, "dropout": 0.0}
    return accuracy_after_training(memory_transformer(**{**wide, **options}), task, updates, 2e-3)


@pytest.mark.parametrize("task", others_long(TASKS, ["source"]))
def test_learns_what_stood_up_to_three_sentences_back(task):
    assert learnt(task, 100) >= 0.95


def test_without_memory_it_cannot():
    assert 0.4 <= learnt("source", 40, memory_size=0) <= 0.6


@pytest.mark.long
def test_a_resumed_run_reads_what_an_undisturbed_one_reads(tiny, tmp_path):
    """In the middle of an epoch, by losses of parameters that do not move."""
    options = ("--dropout", "0", "--lr", "1e-30", "--update-freq", "2", "--max-window", "5",
               "--min-window", "2", "--max-tokens", "256")  # fmt: skip
    whole = losses(train(tiny, tmp_path / "whole", *options, updates=7))
    first = losses(train(tiny, tmp_path / "parts", *options, updates=3))
    rest = losses(train(tiny, tmp_path / "parts", *options, updates=7))
    assert [*first, *rest] == whole
    assert len(set(whole)) > 3
