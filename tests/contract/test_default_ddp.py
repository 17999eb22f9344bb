"""Two processes under fairseq's default DDP: every parameter of every class gets its gradient."""

from __future__ import annotations

import socket

import pytest
from support.contract import cases, classes
from support.tiny_models import StockCommands

TRAINING = (
    *("--optimizer", "adam", "--lr", "0.003", "--max-tokens", "300", "--max-update", "3"),
    *("--criterion", "label_smoothed_cross_entropy", "--disable-validation", "--no-save"),
    *("--num-workers", "0", "--cpu", "--bert-cache-gb", "0.1", "--log-format", "json"),
    *("--log-interval", "1"),
)


def free_port() -> int:
    with socket.socket() as server:
        server.bind(("127.0.0.1", 0))
        return int(server.getsockname()[1])


# One of each kind of batch in any run of the tests; all in the long one.
ALWAYS = ("gtransformer_tiny", "memory_transformer_tiny", "flat_transformer_bert")


@pytest.mark.parametrize(
    "arch",
    [
        arch if arch in ALWAYS else pytest.param(arch, marks=pytest.mark.long)
        for arch in classes()
    ],
)
def test_two_processes_train(arch, stock: StockCommands, prepared_with_bert, tmp_path):
    case = next(case for case in cases() if case.arch == arch)
    command = [
        prepared_with_bert, "--user-dir", "gtrans", "--task", "document_translation",
        *case.flags, *TRAINING, "--save-dir", tmp_path, "--bert-cache", tmp_path / "features",
        "--distributed-world-size", "2", "--distributed-no-spawn", "--device-id", "0",
        "--distributed-backend", "gloo",
        "--distributed-init-method", f"tcp://127.0.0.1:{free_port()}",
    ]  # fmt: skip
    ranks = [[*command, "--distributed-rank", str(rank)] for rank in range(2)]
    first, second = stock.together("train", *ranks)
    assert (first.status, second.status) == (0, 0), first.stderr + second.stderr
    assert "done training" in first.stdout + first.stderr
