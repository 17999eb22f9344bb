"""All systems learn on the device in every precision, on one GPU and on two."""

from __future__ import annotations

import json
import logging
import statistics
import subprocess
import sys
from pathlib import Path

import pytest
import torch
from support.contract import cases, classes
from support.running import free_port

from gtrans.cli import main

PRECISIONS = {
    "fp16": ("--fp16", "--fp16-no-flatten-grads"),
    "memory-efficient-fp16": ("--memory-efficient-fp16",),
    "bf16": ("--bf16",),
    "amp": ("--amp",),
}
TRAINING = (
    *("--optimizer", "adam", "--lr", "0.005", "--max-tokens", "400", "--seed", "1"),
    *("--criterion", "label_smoothed_cross_entropy", "--disable-validation", "--no-save"),
    *("--num-workers", "0", "--log-format", "json"),
    *("--log-interval", "1", "--fp16-init-scale", "4"),
)


def command(arch: str, corpus: Path, folder: Path, updates: int, *options: str) -> list[str]:
    """The words of ``gtrans train`` after its name."""
    case = next(case for case in cases() if case.arch == arch)
    words = [
        corpus, "--user-dir", "gtrans", "--task", "document_translation", *case.flags, *TRAINING,
        "--save-dir", folder, "--bert-cache", folder / "features", "--max-update", updates,
        *options,
    ]  # fmt: skip
    return [str(word) for word in words]


@pytest.mark.parametrize("precision", list(PRECISIONS))
@pytest.mark.parametrize("arch", list(classes()))
def test_the_loss_falls(
    arch, precision, corpus, device, repo, tmp_path, caplog, monkeypatch: pytest.MonkeyPatch
):
    if device == "cpu" and "fp16" in precision:
        pytest.skip("fp16 needs a GPU")
    monkeypatch.chdir(repo)
    only = ("--cpu",) if device == "cpu" else ("--distributed-world-size", "1")
    words = command(arch, corpus, tmp_path, 24, *PRECISIONS[precision], *only)
    with caplog.at_level(logging.INFO):
        assert main(["train", *words]) == 0
    inner = [record for record in caplog.records if record.name == "train_inner"]
    losses = [float(json.loads(record.getMessage())["loss"]) for record in inner]
    assert len(losses) >= 20, losses  # an update whose numbers overflow is not logged
    assert statistics.mean(losses[-4:]) < statistics.mean(losses[:4]) - 0.1, losses


def test_two_processes_train_together(corpus, device, repo, tmp_path):
    if device == "cuda" and torch.cuda.device_count() < 2:
        pytest.skip("one GPU; two are needed")
    on_cpus = ("--cpu", "--distributed-backend", "gloo", "--ddp-backend", "legacy_ddp")
    words = command("gtransformer_tiny", corpus, tmp_path, 6, *(on_cpus if device == "cpu" else ()))
    done = subprocess.run(
        [sys.executable, "-m", "torch.distributed.run", "--nproc-per-node", "2", "--master-port",
         str(free_port()), "-m", "gtrans", "train", *words],
        cwd=repo, capture_output=True, text=True, timeout=150, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert "training on 2 devices" in done.stdout and "done training" in done.stdout
