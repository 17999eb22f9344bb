"""Peak memory of a training step on one document."""

from __future__ import annotations

import argparse
from collections.abc import Iterator
from functools import partial
from typing import Any

from documents import Batch, dictionary_of, document_batches, documents_of
from measuring import Device, Size, in_own_process, peak_memory
from report import Benchmark, Row, grid
from systems import GROUP_ONLY, Trainer, gtransformer

SYSTEMS: dict[str, dict[str, str]] = {"gtrans": {}, "gtrans, group attention only": GROUP_ONLY}


def measure(args: argparse.Namespace, device: Device) -> Iterator[Row]:
    """What an update on one document needs, each in a process of its own."""
    for name, options in SYSTEMS.items():
        for words in args.lengths:
            step, process = in_own_process(update, args.size, device, options, words)
            yield {"words": words, "system": name, "step_mb": step, "process_mb": process}


def update(size: Size, device: Device, options: dict[str, Any], words: int) -> tuple[float, float]:
    """Megabytes that an update on ``words`` words adds to this process, and all it needs."""
    dictionary = dictionary_of(size)
    trainer = Trainer(gtransformer(size, dictionary, **options), dictionary, device)

    def batch(words: int) -> Batch:
        made = document_batches(documents_of(words, 1, dictionary), dictionary, 1)
        placed: Batch = device.place(made[0])
        return placed

    # The optimizer has its state, and libraries their buffers, after a first update.
    trainer.step(batch(32))
    return peak_memory(device, partial(trainer.step, batch(words)))


def add_options(parser: argparse.ArgumentParser) -> None:
    """Options of this benchmark alone."""
    parser.add_argument(
        "--lengths", type=int, nargs="+", default=[1024, 4096, 16384], metavar="N",
        help="source words of a document (default: %(default)s)",
    )  # fmt: skip


BENCHMARK = Benchmark(
    name="memory",
    title="Memory of training",
    text="What one update on one document adds to the peak memory of a process that has made an "
    "update before, so that parameters, gradients and Adam's state are not in it; in "
    "brackets the peak of the whole process. Every cell is a process of its own. "
    "A cell is in megabytes.",
    size="narrow",
    devices=("cpu", "cuda-bf16"),
    rounds=None,
    measure=measure,
    table=partial(grid, cell=lambda row: f"{row['step_mb']:,.0f} ({row['process_mb']:,.0f})"),
    add_options=add_options,
)
