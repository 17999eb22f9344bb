"""Peak memory of training on one long document, with checkpoints of activations and without."""

from __future__ import annotations

import argparse
from collections.abc import Iterator
from functools import partial
from typing import Any

from documents import Batch, dictionary_of, document_batches, documents_of
from measuring import Device, Size, in_own_process, peak_memory
from report import Benchmark, Row, Rows, Target, grid, lookup, over
from systems import GROUP_ONLY, Trainer, gtransformer

from gtrans.criterions.chunked_cross_entropy import ChunkedCrossEntropy

WITHOUT, WITH = "as it is", "`--checkpoint-activations`"


def measure(args: argparse.Namespace, device: Device) -> Iterator[Row]:
    """What an update on one document needs, each in a process of its own."""
    for name, lengths in ((WITHOUT, args.lengths), (WITH, [*args.lengths, *args.longest])):
        for words in lengths:
            found = in_own_process(update, args.size, device, name == WITH, words)
            step, process, seconds = found
            yield {
                "words": words, "system": name, "step_mb": step, "process_mb": process,
                "seconds": seconds,
            }  # fmt: skip


def update(
    size: Size, device: Device, checkpoints: bool, words: int
) -> tuple[float, float, float]:
    """Megabytes that an update on ``words`` words adds, all that the process needs; seconds."""
    dictionary = dictionary_of(size)
    options: dict[str, Any] = {**GROUP_ONLY, "checkpoint_activations": checkpoints}
    trainer = Trainer(
        gtransformer(size, dictionary, **options), dictionary, device, ChunkedCrossEntropy
    )

    def batch(words: int) -> Batch:
        made = document_batches(documents_of(words, 1, dictionary), dictionary, 1)
        placed: Batch = device.place(made[0])
        return placed

    # The optimizer has its state, and libraries their buffers, after a first update.
    trainer.step(batch(32))
    given, seconds = batch(words), []
    memory = peak_memory(device, lambda: seconds.append(trainer.seconds([given])))
    return *memory, seconds[0]


def targets(rows: Rows) -> list[Target]:
    """What is asked of checkpoints on the CPU."""
    step = lookup(rows, "step_mb")
    longest = max((row["words"] for row in rows if row["system"] == WITHOUT), default=0)
    left = over(step(WITH, longest), step(WITHOUT, longest))
    return [(f"{longest:,} words: share of the memory that is left", left, 0.5, False)]


def add_options(parser: argparse.ArgumentParser) -> None:
    """Options of this benchmark alone."""
    for flag, default, meaning in (
        ("--lengths", [16384], "source words of a document"),
        ("--longest", [65536], "further lengths with checkpoints"),
    ):
        parser.add_argument(
            flag, type=int, nargs="*", default=default, metavar="N",
            help=f"{meaning} (default: %(default)s)",
        )  # fmt: skip


BENCHMARK = Benchmark(
    name="checkpoints",
    title="Memory of long documents",
    text="One update of a G-Transformer with group attention only, on one document, by "
    "`chunked_cross_entropy`: what it adds to the peak memory of a process that has made an update "
    "before; in brackets the peak of the whole process, and the seconds of the update. Every cell "
    "is a process of its own. A cell is in megabytes.",
    size="narrow",
    devices=("cpu",),
    rounds=None,
    measure=measure,
    table=partial(
        grid,
        cell=lambda row: (
            f"{row['step_mb']:,.0f} ({row['process_mb']:,.0f}; {row['seconds']:,.0f} s)"
        ),
    ),
    targets=targets,
    add_options=add_options,
)
