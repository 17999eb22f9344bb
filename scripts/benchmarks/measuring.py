"""How every benchmark measures: sizes of models, devices, time, ratios, memory.

Time is CPU time of the process, so that a busy machine spoils little; on CUDA it is the clock.
What is compared takes turns in one process, several rounds, and a ratio is the median of the
ratios of the rounds.
"""

from __future__ import annotations

import logging
import multiprocessing
import resource
import statistics
import sys
import time
from collections.abc import Callable, Hashable, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

import torch
from fairseq import utils
from fairseq.models import import_models
from fairseq.tasks import import_tasks
from torch import nn

Key = TypeVar("Key", bound=Hashable)
Result = TypeVar("Result")


@dataclass(frozen=True)
class Size:
    """Sizes of a model; encoder and decoder are equal."""

    layers: int
    dim: int
    ffn: int
    heads: int
    vocabulary: int

    def options(self) -> dict[str, int]:
        """The sizes as options of our models; the vocabulary is the dictionary's matter."""
        found = {"encoder_embed_dim": self.dim}
        for side in ("encoder", "decoder"):
            found[f"{side}_layers"] = self.layers
            found[f"{side}_ffn_embed_dim"] = self.ffn
            found[f"{side}_attention_heads"] = self.heads
        return found

    def __str__(self) -> str:
        return (
            f"{self.layers} + {self.layers} layers of width {self.dim:,} "
            f"({self.heads} heads, feed-forward {self.ffn:,})"
        )


TOY = "toy"
SIZES = {
    TOY: Size(6, 16, 32, 2, 50),  # to try a benchmark
    "narrow": Size(6, 256, 1024, 8, 8000),
    "small": Size(6, 512, 1024, 4, 8000),  # gtransformer_small
    "base": Size(6, 512, 2048, 8, 32_000),  # gtransformer_base
    "web": Size(3, 256, 1024, 4, 8000),
}


@dataclass(frozen=True)
class Device:
    """Where and in which precision to measure."""

    name: str
    dtype: torch.dtype

    @property
    def label(self) -> str:
        """For tables."""
        precision = {torch.float32: "fp32", torch.float16: "fp16", torch.bfloat16: "bf16"}
        where = "CPU, 1 thread" if self.name == "cpu" else "CUDA"
        return f"{where}, {precision[self.dtype]}"

    def now(self) -> float:
        """CPU seconds of this process; on CUDA the clock when all kernels are done."""
        if self.name == "cpu":
            return time.process_time()
        torch.cuda.synchronize()
        return time.perf_counter()

    def seconds(self, work: Callable[[], object]) -> float:
        """How long ``work`` takes."""
        begin = self.now()
        work()
        return self.now() - begin

    def place(self, batch: Any) -> Any:
        """A batch, or anything with tensors in it, on this device."""
        return batch if self.name == "cpu" else utils.move_to_cuda(batch)

    def model(self, model: nn.Module) -> nn.Module:
        """The model on this device, in this precision."""
        return model.to(self.name, self.dtype)


CPU = Device("cpu", torch.float32)
DEVICES = {
    "cpu": CPU,
    "cuda-fp16": Device("cuda", torch.float16),
    "cuda-bf16": Device("cuda", torch.bfloat16),
}


def available(names: Sequence[str]) -> list[str]:
    """Those of ``names`` that this machine has."""
    return [name for name in names if name == "cpu" or torch.cuda.is_available()]


def prepare_process() -> None:
    """One thread, none of fairseq's messages, and our tasks and models by their names."""
    logging.disable(logging.INFO)
    torch.set_num_threads(1)
    gtrans = Path(__file__).resolve().parents[2] / "gtrans"
    import_tasks(str(gtrans / "tasks"), "gtrans.tasks")
    import_models(str(gtrans / "models"), "gtrans.models")


def take_turns(tasks: Mapping[Key, Callable[[], float]], rounds: int) -> dict[Key, list[float]]:
    """Results of all ``tasks``, one after the other in every round."""
    results: dict[Key, list[float]] = {key: [] for key in tasks}
    for _ in range(rounds):
        for key, task in tasks.items():
            results[key].append(task())
    return results


def ratio(above: Sequence[float], below: Sequence[float]) -> float:
    """The median of the ratios of the rounds."""
    return statistics.median(a / b for a, b in zip(above, below, strict=True))


def in_own_process(work: Callable[..., Result], *arguments: Any) -> Result:
    """``work(*arguments)`` in a fresh process, whose memory has held nothing else."""
    spawn = multiprocessing.get_context("spawn")
    with ProcessPoolExecutor(1, spawn, initializer=prepare_process) as pool:
        return pool.submit(work, *arguments).result()


def peak_memory(device: Device, work: Callable[[], object]) -> tuple[float, float]:
    """Megabytes that ``work`` adds to what this process has needed so far, and all it needs then.

    On the CPU this counts only in a process of its own (see :func:`in_own_process`).
    """
    if device.name == "cuda":
        torch.cuda.reset_peak_memory_stats()
        before = torch.cuda.memory_allocated()
    else:
        before = _resident()
    work()
    after = torch.cuda.max_memory_allocated() if device.name == "cuda" else _resident()
    return (after - before) / 2**20, after / 2**20


def _resident() -> int:
    """Bytes of the largest resident set of this process so far."""
    status = Path("/proc/self/status")
    if status.exists():  # rusage would count what the parent process had when it forked, too
        (line,) = (x for x in status.read_text().splitlines() if x.startswith("VmHWM:"))
        return int(line.split()[1]) * 1024
    unit = 1 if sys.platform == "darwin" else 1024
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * unit
