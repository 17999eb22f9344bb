"""What older versions wrote gives what it gave: translations to the letter, log-probabilities.

``tests/frozen/make.py`` has made the files and describes them.
"""

from __future__ import annotations

import importlib.util
import json
import subprocess
import sys
import tarfile
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
import torch

FROZEN = Path(__file__).resolve().parent
# Above what other processors and other batches change in the last digits.
TOLERANCE = 1e-4


def answers_of(archive: Path) -> dict[str, Any]:
    """What the systems of a generation gave, by their names."""
    with tarfile.open(archive) as files:
        content = files.extractfile("answers.json")
        assert content is not None
        answers: dict[str, Any] = json.load(content)
    return answers


GENERATIONS = {path.name.removesuffix(".tar.xz"): path for path in FROZEN.glob("*.tar.xz")}
ANSWERS = {name: answers_of(path) for name, path in GENERATIONS.items()}
CHECKPOINTS = [(generation, system) for generation, all_ in ANSWERS.items() for system in all_]


@pytest.fixture(scope="module")
def make() -> ModuleType:
    """``tests/frozen/make.py``."""
    spec = importlib.util.spec_from_file_location("make_frozen", FROZEN / "make.py")
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.fixture(scope="module")
def folders(make: ModuleType, tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """Every generation, unpacked."""
    return {
        name: make.unpack(archive, tmp_path_factory.mktemp(name))
        for name, archive in GENERATIONS.items()
    }


@pytest.mark.parametrize(
    ("generation", "system"),
    [
        # `make test` tries every class, `make test-all` also its options: NAME-OPTION.
        pytest.param(*names, id="-".join(names), marks=pytest.mark.long if "-" in names[1] else ())
        for names in CHECKPOINTS
    ],
)
def test_a_frozen_checkpoint_gives_what_it_gave(
    generation: str, system: str, make: ModuleType, folders: dict[str, Path], tmp_path: Path
) -> None:
    before = ANSWERS[generation][system]
    now = make.answers(folders[generation], system, tmp_path)
    assert now["translations"] == before["translations"]
    for scores, expected in zip(now["log_probabilities"], before["log_probabilities"], strict=True):
        assert scores == pytest.approx(expected, abs=TOLERANCE, rel=0)


def test_every_system_is_frozen_and_says_something(make: ModuleType) -> None:
    assert set(make.systems()) <= {system for _, system in CHECKPOINTS}
    for generation, system in CHECKPOINTS:
        for beam, lines in ANSWERS[generation][system]["translations"].items():
            assert len(set(lines)) > 9, (system, beam)
    assert sum(path.stat().st_size for path in FROZEN.glob("*.tar.xz")) < 300_000


def test_checking_a_checkpoint_leaves_the_compiler_of_torch_alone(
    folders: dict[str, Path],
) -> None:
    """Loading it takes a second, and nothing here is compiled."""
    program = (
        "import sys\n"
        "from gtrans.checkpoints.reading import read_checkpoint\n"
        "from gtrans.translating.loading import import_plugin\n"
        "from gtrans.models.base.checkpoint_fit import check_fit\n"
        "import_plugin()\n"
        "for path in sys.argv[1:]:\n"
        "    check_fit(read_checkpoint(path), path)\n"
        "    assert 'torch._dynamo' not in sys.modules, path\n"
    )
    paths = [str(path) for folder in folders.values() for path in sorted(folder.glob("*.pt"))]
    assert len(paths) >= len(CHECKPOINTS)
    done = subprocess.run([sys.executable, "-c", program, *paths], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr


def test_a_frozen_checkpoint_goes_on_training_with_its_optimizer(
    make: ModuleType, folders: dict[str, Path], tmp_path: Path
) -> None:
    """Its next update is the one after its last, for Adam, too."""
    generation, system = max(folders), make.WITH_OPTIMIZER
    path = folders[generation] / f"{system}.pt"
    updates = torch.load(path, weights_only=True)["optimizer_history"][-1]["num_updates"]
    command, _, *options = ANSWERS[generation][system]["training"].split()
    words = [command, str(folders[generation] / "data"), *options, "--restore-file", str(path)]
    words += ["--save-dir", str(tmp_path), "--train-subset", "test", "--reset-dataloader"]
    make.train([[*words, "--max-update", str(updates + 1)]], make.REPO)
    state = torch.load(tmp_path / "checkpoint_last.pt", weights_only=True)
    assert state["optimizer_history"][-1]["num_updates"] == updates + 1
    moments = state["last_optimizer_state"]["state"].values()
    assert {moment["step"] for moment in moments} == {updates + 1}


@pytest.mark.long
def test_frozen_checkpoints_are_trained_further(
    make: ModuleType, folders: dict[str, Path], tmp_path: Path
) -> None:
    """Each for one update of a new run."""
    commands = []
    for generation, system in CHECKPOINTS:
        folder = folders[generation]
        command, _, *options = ANSWERS[generation][system]["training"].split()
        commands.append(
            [command, str(folder / "data"), *options,
             "--restore-file", str(folder / f"{system}.pt"),
             "--save-dir", str(tmp_path / generation / system), "--train-subset", "test",
             "--reset-dataloader", "--reset-optimizer", "--reset-lr-scheduler",
             "--max-update", "1"]
        )  # fmt: skip
    make.train(commands, make.REPO)
    for generation, system in CHECKPOINTS:
        path = tmp_path / generation / system / "checkpoint_last.pt"
        history = torch.load(path, weights_only=True)["optimizer_history"]
        assert history[-1]["num_updates"] == 1, system
