"""``fairseq-train --user-dir gtrans``: what it rejects, what it tells, and how it goes on."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest
import torch
from support.runs import (
    PLUGIN,
    differing,
    last,
    log_of,
    refusal,
    stock_train,
    train,
    updates,
)  # fmt: skip
from support.tiny_models import StockCommands, TinyWorld

TRANSLATION = (
    *("--task", "translation", "--source-lang", "en", "--target-lang", "de"),
    *("--arch", "gtrans_fusion_tiny", "--encoder-group-size", "1", "--decoder-group-size", "1"),
)
TASKS = {"document_translation": (), "translation": TRANSLATION}


@pytest.fixture(scope="module")
def run(tiny: TinyWorld, stock: StockCommands, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run of two updates by fairseq's own command; not to be changed."""
    folder = tmp_path_factory.mktemp("run") / "run"
    log_of(stock_train(stock, tiny.data, folder, updates=2))
    return folder


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (("--amp",), "`--amp`: fairseq's own optimizer for it unscales gradients twice; use `gtr"),
        (("--store-ema",), "`--store-ema` keeps an average that no command reads; leave it out"),
        (("--seed", "-1"), "`--seed`: "),
        ((*TRANSLATION, "--seed", "-1"), "`--seed`: "),
    ],
    ids=["amp", "ema", "seed", "seed of a stock task"],
)
def test_what_it_cannot_do_is_rejected(options, message, tiny, stock, tmp_path):
    done = stock_train(stock, tiny.data, tmp_path / "run", *options, updates=2)
    assert refusal(done).startswith(message)
    assert done.stderr.strip().splitlines()[-1].startswith("gtrans.errors.GtransError: ")
    assert not list(tmp_path.glob("run/*.pt"))


def test_a_stock_task_does_not_guard_the_folder(tiny, stock, tmp_path):
    """Only ``gtrans train`` does: a model is built without a look at any folder."""
    stock_train(stock, tiny.data, tmp_path, *TRANSLATION, updates=1)
    log_of(stock_train(stock, tiny.data, tmp_path, *TRANSLATION, "--seed", "2", updates=2))
    assert not list(tmp_path.glob(".gtrans*"))
    line = refusal(train(stock, tiny.data, tmp_path, *TRANSLATION, "--seed", "3", updates=3))
    assert "--seed 2 -> 3;" in line


def test_an_environment_in_which_checkpoints_may_hold_code(tiny, tmp_path, stock, monkeypatch):
    monkeypatch.setenv("TORCH_FORCE_NO_WEIGHTS_ONLY_LOAD", "1")
    for options in TASKS.values():
        line = refusal(stock_train(stock, tiny.data, tmp_path / "run", *options, updates=2))
        assert line.startswith("the environment has TORCH_FORCE_NO_WEIGHTS_ONLY_LOAD=1")


def test_a_folder_with_other_settings_is_rejected(run, tiny, stock):
    line = refusal(stock_train(stock, tiny.data, run, "--seed", "2", updates=4))
    assert line.startswith(f"--save-dir {run} holds a run with other settings: --seed 1 -> 2;")
    assert updates(run) == 2


def test_a_folder_with_another_vocabulary_is_rejected(run, tiny, stock, tmp_path):
    other = shutil.copytree(tiny.data, tmp_path / "other")
    for lang in ("en", "de"):
        path = other / f"dict.{lang}.txt"
        path.write_text("".join(reversed(path.read_text("utf-8").splitlines(True))), "utf-8")
    line = refusal(stock_train(stock, other, run, updates=4))
    assert f"the training data {tiny.data} -> {other}" in line or "dict." in line


def test_a_run_goes_on_ends_and_goes_on_under_gtrans_train(run, tiny, stock, tmp_path):
    """With the parameters of ``gtrans train``, and no update more than are asked for."""
    whole, parts = tmp_path / "whole", Path(shutil.copytree(run, tmp_path / "parts"))
    log_of(train(stock, tiny.data, whole, updates=4))
    assert "nothing is left to do" in log_of(stock_train(stock, tiny.data, parts, updates=2))
    log_of(stock_train(stock, tiny.data, parts, updates=3))
    log_of(train(stock, tiny.data, parts, updates=4))
    for name in ("model", "last_optimizer_state"):
        assert differing(last(whole)[name], last(parts)[name]) == []


def test_a_checkpoint_that_fairseq_would_pass_over_is_named(run, tiny, stock, tmp_path):
    folder = Path(shutil.copytree(run, tmp_path / "run"))
    (folder / "checkpoint_last.pt").rename(folder / "checkpoint_1_2.pt")
    line = refusal(stock_train(stock, tiny.data, folder, updates=4))
    assert line.endswith("use `gtrans train`, with the same options, which goes on from "
                         "checkpoint_1_2.pt.")  # fmt: skip


def test_what_cannot_be_exact_is_one_line(tiny, stock, tmp_path):
    log = log_of(stock_train(stock, tiny.data, tmp_path, "--bf16", updates=1))
    (line,) = [it for it in log.splitlines() if "`gtrans train` does all of it" in it]
    for what in ("half precision", "--patience", "streams", "--update-freq", "--patience-unit"):
        assert what in line
    assert "does all of it" not in log_of(train(stock, tiny.data, tmp_path / "own", updates=1))


def test_a_diverged_checkpoint_is_not_loaded(tiny, stock, tmp_path):
    state = last(tiny.checkpoints["document"].parent)
    state["model"]["encoder.embed_tokens.weight"][0, 0] = float("nan")
    torch.save(state, tmp_path / "broken.pt")
    done = stock(
        "generate", tiny.data, *PLUGIN, "--path", tmp_path / "broken.pt", "--beam", "1", "--cpu"
    )
    assert "encoder.embed_tokens.weight holds NaN or infinite numbers" in refusal(done)
