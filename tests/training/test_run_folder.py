"""A run folder knows its settings: what goes on, what is refused, what is finished."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest
from support.runs import log_of, refusal, train, updates
from support.tiny_models import StockCommands, TinyWorld


@pytest.fixture(scope="module")
def run(tiny: TinyWorld, stock: StockCommands, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run of two updates; not to be changed."""
    folder = tmp_path_factory.mktemp("run") / "run"
    log_of(train(stock, tiny.data, folder, updates=2))
    return folder


@pytest.fixture
def folder(run: Path, tmp_path: Path) -> Path:
    """The run of two updates, to be changed."""
    return Path(shutil.copytree(run, tmp_path / "run"))


def contents(folder: Path) -> dict[str, bytes]:
    """The checkpoints of a folder, byte for byte."""
    return {path.name: path.read_bytes() for path in folder.rglob("*.pt")}


WAYS_OUT = (
    "; give another --save-dir, or --restart to start anew (the checkpoints are kept), or "
    "--reset-optimizer, --restore-file or --finetune-from-model if the change is meant."
)


@pytest.mark.parametrize(
    ("options", "found"),
    [
        (("--seed", "2"), "--seed 1 -> 2"),
        (("--word-dropout", "0.3"), "--word-dropout 0.0 -> 0.3"),
        (("--dropout", "0.5", "--lr", "0.1"), "--lr 0.003 -> 0.1, --dropout 0.1 -> 0.5"),
        (("--max-tokens", "256"), "--max-tokens 512 -> 256"),
        (("--update-freq", "2"), "GPUs x --update-freq 1 -> 2"),
        (("--unit", "sentence"), "--unit document -> sentence"),
        (("--encoder-global-layers", "2"), "--encoder-global-layers 1 -> 2"),
        (("--arch", "gtransformer_base"), "--arch gtransformer_tiny -> gtransformer_base"),
        (("--bf16",), "--bf16 off -> on"),
        (("--adam-betas", "(0.9, 0.9)"), "--adam-betas 0.9,0.999 -> 0.9,0.9"),
        (("--lr-scheduler", "inverse_sqrt"), "--lr-scheduler fixed -> inverse_sqrt"),
        (("--label-smoothing", "0.1"), "--label-smoothing 0.0 -> 0.1"),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_other_settings_are_refused(options, found, run, tiny, stock):
    before = contents(run)
    line = refusal(train(stock, tiny.data, run, *options, updates=4))
    assert line == f"--save-dir {run} holds a run with other settings: {found}{WAYS_OUT}"
    assert contents(run) == before


def test_what_is_free_may_change(folder, tiny, stock):
    free = (
        *("--max-epoch", "7", "--num-workers", "1", "--log-interval", "1", "--log-format", "json"),
        *("--save-interval-updates", "3", "--keep-interval-updates", "1", "--patience", "3"),
        *("--validate-interval", "2", "--data-buffer-size", "2", "--max-tokens-valid", "300"),
    )
    assert "(epoch 1 @ 2 updates)" in log_of(train(stock, tiny.data, folder, *free, updates=3))
    assert updates(folder) == 3
