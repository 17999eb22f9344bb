"""Runs of this project's models under fairseq's own tasks know their folders, too."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest
from support.runs import differing, log_of, outcome, refusal, train
from support.tiny_models import StockCommands, TinyWorld

FUSION = ("--arch", "gtrans_fusion_tiny", "--encoder-group-size", "1", "--decoder-group-size", "1")
TASKS = {
    "translation": ("--source-lang", "en", "--target-lang", "de"),
    "translation_multi_simple_epoch": (
        *("--langs", "en,de", "--lang-pairs", "en-de,de-en", "--encoder-langtok", "tgt"),
        *("--decoder-langtok", "--sampling-method", "temperature"),
    ),
}


@pytest.mark.parametrize(
    "task",
    ["translation", pytest.param("translation_multi_simple_epoch", marks=pytest.mark.long)],
)
def test_a_run_goes_on_exactly_ends_and_refuses(
    task: str, tiny: TinyWorld, stock: StockCommands, tmp_path: Path
) -> None:
    options = ("--task", task, *TASKS[task], *FUSION, "--max-tokens", "2000")

    def run(name: str, updates: int, *more: str):
        return train(stock, tiny.data, tmp_path / name, *options, *more, updates=updates)

    whole, parts = tmp_path / "whole", tmp_path / "parts"
    assert "begin training epoch 2" in log_of(run("whole", 14))
    for stop in (3, 9, 14):
        log_of(run("parts", stop))
    assert differing(outcome(whole), outcome(parts)) == []
    before = (whole / "checkpoint_last.pt").read_bytes()
    assert "nothing is left to do" in log_of(run("whole", 14))
    assert (whole / "checkpoint_last.pt").read_bytes() == before
    line = refusal(run("whole", 16, "--seed", "5"))
    assert "holds a run with other settings: --seed 1 -> 5; give another --save-dir, or" in line
    if task != "translation":
        line = refusal(run("whole", 16, "--sampling-temperature", "5"))
        assert "--sampling-temperature 1.5 -> 5" in line


def test_decoding_compares_the_vocabulary(
    tiny: TinyWorld, stock: StockCommands, tmp_path: Path
) -> None:
    options = ("--task", "translation", *TASKS["translation"], *FUSION)
    log_of(train(stock, tiny.data, tmp_path / "run", *options, updates=1))
    folder = shutil.copytree(tiny.data, tmp_path / "other")
    for lang in ("en", "de"):
        path = folder / f"dict.{lang}.txt"
        path.write_text("".join(reversed(path.read_text("utf-8").splitlines(True))), "utf-8")
    for data, status in ((tiny.data, 0), (folder, 1)):
        done = stock(
            "generate", data, "--user-dir", "gtrans", "--path",
            tmp_path / "run" / "checkpoint_last.pt", "--beam", "1", "--max-len-b", "3", "--cpu",
        )  # fmt: skip
        assert done.status == status, done.stderr
    assert "another source vocabulary (entry 4 is" in done.stderr.strip().split("\n")[-1]
