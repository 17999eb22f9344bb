"""The memory Transformer through the commands that a user types, and that it learns."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from support.runs import PLUGIN, TRAINING
from support.suites import others_long
from support.toy_documents import TASKS, accuracy_after_training
from support.untrained import memory_transformer

from gtrans.cli import main

if TYPE_CHECKING:
    from support.tiny_models import Finished, TinyWorld


RECIPE = (
    *(*TRAINING, "--arch", "memory_transformer_tiny", "--adam-betas", "(0.9, 0.98)"),
    *("--weight-decay", "0.01", "--lr", "3e-4", "--lr-scheduler", "inverse_sqrt"),
    *("--warmup-updates", "1000", "--label-smoothing", "0.1", "--disable-validation"),
)


def train(tiny: TinyWorld, save: Path, *options: str | Path, updates: int = 4) -> Finished:
    return tiny.run(
        "train", tiny.data, *PLUGIN, *RECIPE, "--max-update", str(updates), "--save-dir", save,
        *options,
    )  # fmt: skip


@pytest.fixture(scope="module")
def trained(tiny: TinyWorld, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A memory Transformer started from the sentence model."""
    folder = tmp_path_factory.mktemp("memory")
    start = tiny.checkpoints["sentence"]
    done = train(tiny, folder, "--init-from", start, "--dropout", "0.2", "--update-freq", "2")
    assert done.status == 0, done.stderr
    return folder / "checkpoint_last.pt"


def test_every_sentence_is_translated_once(trained, tiny, tmp_path):
    path, count = trained, len(tiny.subwords("en"))
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


# ---- learning ------------------------------------------------------------------------------------


def learnt(task: str, updates: int, **options: Any) -> float:
    wide = {"encoder_embed_dim": 32, "memory_size": 4, "memory_bptt": -1, "dropout": 0.0}
    return accuracy_after_training(memory_transformer(**{**wide, **options}), task, updates, 2e-3)


@pytest.mark.parametrize("task", others_long(TASKS, ["source"]))
def test_learns_what_stood_up_to_three_sentences_back(task):
    assert learnt(task, 100) >= 0.95


def test_without_memory_it_cannot():
    assert 0.4 <= learnt("source", 40, memory_size=0) <= 0.6
