"""What bf16 autocast brings to training on a CPU, for fairseq's own Transformer and for ours."""

from __future__ import annotations

import argparse
import statistics
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

import torch
from documents import Batch, dictionary_of, document_batches, documents_of, sentence_batches
from measuring import Device, ratio, take_turns
from report import Benchmark, Row, Rows, Target, table
from systems import Trainer, gtransformer, stock

from gtrans.criterions.chunked_cross_entropy import ChunkedCrossEntropy

STOCK, OURS = "stock sentence Transformer", "gtrans"


def measure(args: argparse.Namespace, device: Device) -> Iterator[Row]:
    """CPU seconds of updates in fp32 and under autocast, in turns."""
    dictionary = dictionary_of(args.size)
    text = documents_of(min(args.words, 512), max(args.words // 512, 1), dictionary)
    systems: dict[str, tuple[Trainer, list[Batch]]] = {
        STOCK: (
            Trainer(stock(args.size, dictionary), dictionary),
            sentence_batches(text, dictionary, args.words),
        ),
        OURS: (
            Trainer(gtransformer(args.size, dictionary), dictionary, criterion=ChunkedCrossEntropy),
            document_batches(text, dictionary, args.words),
        ),
    }
    tasks: dict[tuple[str, bool], Callable[[], float]] = {}
    for name, (trainer, batches) in systems.items():
        for lowered in (False, True):
            tasks[name, lowered] = partial(seconds, trainer, batches, lowered)
            seconds(trainer, batches, lowered)
    taken = take_turns(tasks, args.rounds)
    for name in systems:
        fp32, bf16 = taken[name, False], taken[name, True]
        yield {
            "system": name, "fp32": statistics.median(fp32), "bf16": statistics.median(bf16),
            "times": ratio(fp32, bf16),
        }  # fmt: skip


def seconds(trainer: Trainer, batches: list[Batch], lowered: bool) -> float:
    """CPU seconds of one update on each of ``batches``; ``lowered``: under autocast."""
    with torch.autocast("cpu", torch.bfloat16, enabled=lowered):
        return trainer.seconds(batches)


def targets(rows: Rows) -> list[Target]:
    """What is asked of our models."""
    times: dict[str, Any] = {row["system"]: row["times"] for row in rows}
    return [("G-Transformer: times as fast as in fp32", times.get(OURS), 1.5, True)]


def shown(rows: Rows) -> str:
    """The systems one below the other."""
    return table(
        ["system", "seconds in fp32", "under bf16 autocast", "times as fast"],
        [
            [row["system"], f"{row['fp32']:.2f}", f"{row['bf16']:.2f}", f"{row['times']:.2f}"]
            for row in rows
        ],
    )


def add_options(parser: argparse.ArgumentParser) -> None:
    """Options of this benchmark alone."""
    parser.add_argument(
        "--words", type=int, default=1024, metavar="N",
        help="words of a batch and of the text (default: %(default)s)",
    )  # fmt: skip


BENCHMARK = Benchmark(
    name="autocast",
    title="Training in bf16 on a CPU",
    text="CPU seconds of updates on the same {words} words, as documents of 512 words and as "
    "sentences, in fp32 and under bf16 autocast (`--amp --cpu`). It needs a processor with "
    "avx512_bf16.",
    size="narrow",
    devices=("cpu",),
    measure=measure,
    table=shown,
    targets=targets,
    add_options=add_options,
)
