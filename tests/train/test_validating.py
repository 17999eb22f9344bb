"""What is validated, what --patience counts, and on which part of the training set a run trains."""

from __future__ import annotations

import re
import subprocess
from importlib.util import find_spec
from pathlib import Path

import pytest
from support.running import command, environment
from support.runs import last, log_of, refusal, train, updates
from support.tiny_models import TinyWorld

# With this rate the loss gets worse from the first update on; an epoch has two updates.
WORSE = ("--max-tokens", "9000", "--lr", "9", "--patience", "2")
GOAL = 30
STOPPED = "validations without a gain, --patience"


def validated(log: str) -> list[int]:
    """Updates after which there was a validation."""
    return [int(found) for found in re.findall(r"subset \|.*num_updates (\d+)", log)]


@pytest.fixture(scope="module")
def undisturbed(tiny: TinyWorld, tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, str]:
    """A run that validates at the ends of epochs only."""
    folder = tmp_path_factory.mktemp("undisturbed")
    return folder, log_of(train(tiny.run, tiny.data, folder, *WORSE, updates=GOAL))


@pytest.mark.long
def test_patience_in_epochs_does_not_count_what_is_between(tiny, undisturbed, tmp_path):
    often = ("--validate-interval-updates", "1", "--save-interval-updates", "1")
    epochs = (*WORSE, *often, "--patience-unit", "epoch")
    log = log_of(train(tiny.run, tiny.data, tmp_path, *epochs, updates=GOAL))
    assert STOPPED in log
    assert updates(tmp_path) == updates(undisturbed[0]) < GOAL
    assert len(validated(log)) > len(validated(undisturbed[1]))
    assert (tmp_path / "checkpoint_1_1.pt").is_file()
    # Without, as in fairseq, the run ends before its first epoch does.
    log = log_of(train(tiny.run, tiny.data, tmp_path / "short", *WORSE, *often, updates=GOAL))
    assert STOPPED in log and updates(tmp_path / "short") < updates(tmp_path)


def test_checkpoints_without_validation(tiny, undisturbed, tmp_path):
    options = ("--save-interval-updates", "1", "--save-without-validation")
    log = log_of(train(tiny.run, tiny.data, tmp_path, *WORSE, *options, updates=GOAL))
    assert updates(tmp_path) == updates(undisturbed[0])
    assert validated(log) == validated(undisturbed[1])
    ends = validated(log)
    assert {path.name for path in tmp_path.glob("checkpoint_*_*.pt")} == {
        f"checkpoint_{1 + sum(end < update for end in ends)}_{update}.pt"
        for update in range(1, ends[-1]) if update not in ends
    }  # fmt: skip
    state = last(tmp_path)["extra_state"]["run_state"]["early_stop"]
    assert state == last(undisturbed[0])["extra_state"]["run_state"]["early_stop"]


def test_a_validation_that_is_asked_for_takes_place(tiny, tmp_path):
    options = (
        *("--save-interval-updates", "1", "--save-without-validation"),
        *("--validate-interval-updates", "2", "--patience", "9"),
    )
    # An epoch has more updates than the run, which is validated at its end.
    log = log_of(train(tiny.run, tiny.data, tmp_path, *options, updates=5))
    assert validated(log) == [2, 4, 5]


def test_a_run_on_a_sample(tiny, tmp_path):
    """It is the same in every run, and another one is another run."""
    sample = ("--sample-instances", "20", "--min-doc-tokens", "40")
    log = log_of(train(tiny.run, tiny.data, tmp_path, *sample, updates=1))
    assert re.search(r"train.en-de: \d+ of \d+ sentences are read in training", log)
    assert "train en-de: 20 units" in log
    line = refusal(train(tiny.run, tiny.data, tmp_path, "--sample-instances", "21", updates=2))
    for found in ("--sample-instances 20 -> 21", "--min-doc-tokens 40 -> 0"):
        assert found in line


BOARD = ("--tensorboard-logdir", "{board}", "--log-interval", "1", "--patience", "9")


@pytest.mark.skipif(find_spec("tensorboardX") is not None, reason="tensorboardX is installed")
def test_tensorboard_that_is_missing_is_one_line(tiny, tmp_path):
    line = refusal(train(tiny.run, tiny.data, tmp_path, *BOARD))
    assert line == (
        "`--tensorboard-logdir` needs the library tensorboardX, which is not installed; type, "
        "in this project's folder: pip install -e '.[tensorboard]'."
    )


@pytest.mark.long
@pytest.mark.skipif(find_spec("tensorboardX") is None, reason="tensorboardX is not installed")
def test_tensorboard(tiny, repo, tmp_path):
    """A process of its own: the last numbers are written when it ends."""
    board = tmp_path / "board"
    options = [option.format(board=board) for option in BOARD]
    options += ["--eval-bleu", "--eval-bleu-documents", "1", "--eval-bleu-args", '{"beam": 1}']
    words = command(tiny, tmp_path / "run", *options, "--max-update", "2")
    subprocess.run(words, cwd=repo, env=environment(repo), check=True, capture_output=True)
    for split, number in (("train", b"loss"), ("train_inner", b"loss"), ("valid", b"s_bleu")):
        (events,) = (board / split).glob("events.*")
        assert number in events.read_bytes()
