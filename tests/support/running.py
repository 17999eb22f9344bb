"""Trainings as processes of their own, and the words of two that train together."""

from __future__ import annotations

import os
import socket
import sys
from collections.abc import Sequence
from pathlib import Path

from support.runs import words
from support.tiny_models import Finished, StockCommands, TinyWorld


def command(tiny: TinyWorld, folder: Path, *options: str) -> list[str]:
    """``gtrans train`` as a process of its own."""
    program = (sys.executable, "-m", "gtrans", "train")
    return [str(part) for part in (*program, *words(tiny.data, folder, *options))]


def environment(repo: Path) -> dict[str, str]:
    """Of such a process: one thread, no GPU."""
    return {
        **os.environ, "OMP_NUM_THREADS": "1", "CUDA_VISIBLE_DEVICES": "", "PYTHONPATH": str(repo),
    }  # fmt: skip


def free_port() -> int:
    """A port that nothing listens on."""
    with socket.socket() as server:
        server.bind(("127.0.0.1", 0))
        return int(server.getsockname()[1])


def in_two(
    stock: StockCommands, data: Path, folder: Path, *options: str, updates: int = 0
) -> list[Finished]:
    """``gtrans train`` in two processes of one run; the options are those of :func:`words`."""
    both = two_ranks(["train", *words(data, folder, *options, updates=updates)])
    return stock.together("gtrans", *both)


def two_ranks(command: Sequence[str | Path], ddp: str = "legacy_ddp") -> list[list[str | Path]]:
    """A command twice, for two processes on the CPU that train together."""
    together = [
        *command,
        *("--distributed-world-size", "2", "--distributed-no-spawn", "--device-id", "0"),
        *("--distributed-backend", "gloo", "--ddp-backend", ddp),
        *("--distributed-init-method", f"tcp://127.0.0.1:{free_port()}"),
    ]
    return [[*together, "--distributed-rank", str(rank)] for rank in range(2)]
