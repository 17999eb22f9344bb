"""What older versions wrote gives what it gave: translations to the letter, log-probabilities.

``tests/frozen/make.py`` has made the files and describes them.
"""

from __future__ import annotations

import importlib.util
import json
import os
import subprocess
import sys
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
import torch

FROZEN = Path(__file__).resolve().parent
CHECKPOINTS = sorted(FROZEN.glob("*/*.pt"))
NAMES = [f"{path.parent.name}-{path.stem}" for path in CHECKPOINTS]
# Above what other processors and other batches change in the last digits.
TOLERANCE = 1e-4
# What one process does with many command lines: importing fairseq is most of a short run.
TRAIN_EACH = """
import json, sys
from fairseq_cli.train import cli_main
for command in json.load(sys.stdin):
    sys.argv = command
    cli_main()
"""


@pytest.fixture(scope="module")
def make() -> ModuleType:
    """``tests/frozen/make.py``."""
    spec = importlib.util.spec_from_file_location("make_frozen", FROZEN / "make.py")
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.fixture(scope="module")
def data(make: ModuleType, tmp_path_factory: pytest.TempPathFactory) -> dict[Path, Path]:
    """A copy of the data folder of every generation."""
    copies = {}
    for generation in {path.parent for path in CHECKPOINTS}:
        copies[generation] = tmp_path_factory.mktemp(generation.name) / "data"
        make.copy_data(generation, copies[generation])
    return copies


def frozen(checkpoint: Path) -> dict[str, Any]:
    """What stands next to a checkpoint."""
    found: dict[str, Any] = json.loads(checkpoint.with_suffix(".json").read_text(encoding="utf-8"))
    return found


@pytest.mark.parametrize(
    "checkpoint",
    [
        # `make test` tries every class, `make test-all` also its options: NAME-OPTION.
        pytest.param(path, id=name, marks=pytest.mark.long if "-" in path.stem else ())
        for path, name in zip(CHECKPOINTS, NAMES, strict=True)
    ],
)
def test_a_frozen_checkpoint_gives_what_it_gave(
    checkpoint: Path, make: ModuleType, data: dict[Path, Path], tmp_path: Path
) -> None:
    before = frozen(checkpoint)
    generation = checkpoint.parent
    now = make.answers(generation, checkpoint.stem, data[generation], tmp_path)
    assert now["translations"] == before["translations"]
    for scores, expected in zip(now["log_probabilities"], before["log_probabilities"], strict=True):
        assert scores == pytest.approx(expected, abs=TOLERANCE, rel=0)


def test_every_system_is_frozen_and_says_something(make: ModuleType) -> None:
    assert set(make.systems()) <= {path.stem for path in CHECKPOINTS}
    for checkpoint in CHECKPOINTS:
        for beam, lines in frozen(checkpoint)["translations"].items():
            assert len(set(lines)) > 9, (checkpoint, beam)


@pytest.mark.long
def test_frozen_checkpoints_are_trained_further(
    make: ModuleType, data: dict[Path, Path], tmp_path: Path
) -> None:
    """Each for one update; with its optimizer it is resumed, without it starts a new run."""
    commands = []
    for checkpoint, name in zip(CHECKPOINTS, NAMES, strict=True):
        state = torch.load(checkpoint, weights_only=True)
        done_before = 0
        if "last_optimizer_state" in state:
            done_before = state["optimizer_history"][-1]["num_updates"]
        command, _, *options = frozen(checkpoint)["training"].split()
        commands.append(
            [command, str(data[checkpoint.parent]), *options, "--restore-file", str(checkpoint),
             "--save-dir", str(tmp_path / name), "--train-subset", "test",
             "--reset-dataloader", "--max-update", str(done_before + 1)]
        )  # fmt: skip
    done = subprocess.run(
        [sys.executable, "-c", TRAIN_EACH],
        cwd=make.REPO,
        env={**os.environ, "OMP_NUM_THREADS": "1", "PYTHONPATH": str(make.REPO)},
        input=json.dumps(commands),
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout
    assert any(command[-1] != "1" for command in commands)
    for command, name in zip(commands, NAMES, strict=True):
        whole = torch.load(tmp_path / name / "checkpoint_last.pt", weights_only=True)
        updates = whole["optimizer_history"][-1]["num_updates"]
        assert updates == int(command[-1]), (name, updates)
