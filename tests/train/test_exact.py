"""A run that is stopped at any update and resumed ends like one that nobody disturbed."""

from __future__ import annotations

import re
import shutil
from pathlib import Path
from typing import Any

import pytest
from support.runs import GROUPS, differing, log_of, outcome, train
from support.tiny_models import StockCommands, TinyWorld


def long(*options: str) -> Any:
    """Options that are tried in the long tests."""
    return pytest.param(options, marks=pytest.mark.long)


def epochs(log: str) -> int:
    return max(int(number) for number in re.findall(r"begin training epoch (\d+)", log))


class Runs:
    """Runs that end undisturbed, or stop after some updates and go on."""

    def __init__(self, stock: StockCommands, data: Path, folder: Path) -> None:
        self.stock, self.data, self.folder = stock, data, folder

    def train(self, name: str, options: tuple[str, ...], updates: int) -> str:
        folder = self.folder / name
        named = [option.replace("{run}", str(folder)) for option in options]
        return log_of(train(self.stock, self.data, folder, *named, updates=updates))

    def check(self, *options: str, stops: tuple[int, ...], updates: int) -> str:
        """Compare both ends; returns the log of the undisturbed run."""
        log = self.train("whole", options, updates)
        for stop in (*stops, updates):
            self.train("parts", options, stop)
        ends = [outcome(self.folder / name) for name in ("whole", "parts")]
        assert ends[0]["updates"] == updates
        assert differing(*ends) == []
        return log


@pytest.fixture
def runs(tiny: TinyWorld, stock: StockCommands, tmp_path: Path) -> Runs:
    return Runs(stock, tiny.data, tmp_path)


@pytest.mark.long
def test_in_a_later_epoch(runs):
    """Units of equal length are in the batches in which they were before; word dropout ends."""
    options = ("--word-dropout", "0.2", "--unit", "sentence", "--max-tokens", "1500")
    log = runs.check(*options, "--word-dropout-epochs", "2", stops=(9, 17), updates=20)
    assert epochs(log) > 2


@pytest.mark.long
def test_in_instances_that_are_cut_anew(runs):
    """A later epoch has its own instances, whenever the run was begun."""
    options = ("--recut", "--max-doc-tokens", "60", "--max-tokens", "3000")
    log = runs.check(*options, stops=(5, 8), updates=10)
    assert epochs(log) > 2


@pytest.mark.long
def test_in_mixed_folders(stock: StockCommands, tiny: TinyWorld, tmp_path: Path) -> None:
    """Every epoch draws its own units of a folder, whenever the run was begun."""
    runs = Runs(stock, Path(f"{tiny.data}:{tiny.data}"), tmp_path)
    options = ("--mix", "0.5:0.25", "--max-doc-tokens", "60", "--max-tokens", "3000")
    log = runs.check(*options, stops=(5, 8), updates=10)
    assert epochs(log) > 2


@pytest.mark.long
@pytest.mark.parametrize(
    "options",
    [
        ("--bf16",),
        long("--bf16", "--memory-efficient-bf16"),
        long("--amp"),
        ("--update-freq", "2", "--num-workers", "1"),
        long("--lr-scheduler", "inverse_sqrt", "--warmup-updates", "4", "--curriculum", "1"),
        long("--update-ordered-indices-seed", "--max-tokens", "2000"),
    ],
    ids=lambda options: " ".join(options[:2]),
)
def test_under_options(options, runs):
    runs.check(*options, stops=(3,), updates=6)


def test_streams_keep_their_memories(runs):
    options = (
        *("--arch", "memory_transformer_tiny", "--max-tokens", "200", "--update-freq", "2"),
        *("--min-window", "1", "--max-window", "2"),
    )
    runs.check(*options, stops=(3, 5), updates=7)


@pytest.mark.long
def test_streams_of_instances_keep_their_memories(runs):
    """Cut anew in every epoch; gradients reach the instance before."""
    options = (
        *("--arch", "gtransformer_memory_tiny", *GROUPS, "--max-doc-tokens", "20", "--recut"),
        *("--max-tokens", "300", "--update-freq", "2", "--memory-output", "residual"),
    )
    runs.check(*options, stops=(3,), updates=5)


@pytest.mark.long
def test_several_folders_take_turns(runs, tiny, tmp_path):
    other = Path(shutil.copytree(tiny.data, tmp_path / "other"))
    runs.data = Path(f"{tiny.data}:{other}")
    log = runs.check("--max-tokens", "3000", stops=(7,), updates=9)
    assert epochs(log) > 2


@pytest.mark.long
def test_windows_with_random_neighbours(runs):
    options = ("--arch", "flat_transformer_tiny", "--context-kind", "random")
    runs.check(*options, "--num-workers", "2", stops=(2,), updates=4)


@pytest.mark.long
def test_features_of_a_bert(runs, prepared_with_bert, tmp_path):
    """Each run has a cache of its own, and the second one loses what it has not written yet."""
    runs.data = prepared_with_bert
    options = ("--arch", "bert_context_transformer_tiny", "--bert-cache", "{run}/features")
    runs.check(*options, stops=(2,), updates=4)


@pytest.mark.long
def test_fusion_with_its_multi_level_loss(runs):
    options = (
        *("--arch", "gtrans_fusion_tiny", "--encoder-group-size", "1"),
        *("--decoder-group-size", "1", "--criterion", "multi_level_cross_entropy"),
    )
    runs.check(*options, stops=(2,), updates=4)


@pytest.mark.long
def test_the_best_loss_and_the_plateau(runs):
    """Validation of every update and at the ends of epochs decides on rate and patience."""
    options = (
        *("--lr-scheduler", "reduce_lr_on_plateau", "--lr-patience", "1", "--lr", "0.5"),
        *("--patience", "30", "--validate-interval-updates", "2", "--max-tokens", "3000"),
        *("--save-interval-updates", "2", "--keep-interval-updates", "1"),
    )
    log = runs.check(*options, stops=(4, 8, 12), updates=20)
    assert epochs(log) > 3


@pytest.mark.long
def test_stopped_at_the_end_of_an_epoch(runs):
    """fairseq writes the checkpoint before it tells the schedule the epoch's loss."""
    options = ("--lr-scheduler", "inverse_sqrt", "--patience", "30", "--max-tokens", "3000")
    log = runs.train("first", options, 20)
    ends = [int(at) for at in re.findall(r"Saved checkpoint .* @ (\d+) updates", log)]
    assert len(ends) > 2
    runs.check(*options, stops=(ends[0], ends[1]), updates=20)
