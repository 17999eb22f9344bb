"""Page faults and CPU time of training: glibc's allocator as it is, and as the plugin sets it."""

from __future__ import annotations

import argparse
import os
import resource
import statistics
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from documents import dictionary_of, document_batches, documents_of
from measuring import Device, Size, in_own_process, ratio
from report import Benchmark, Row, Rows, Target, table
from systems import Trainer, gtransformer

from gtrans.criterions.chunked_cross_entropy import ChunkedCrossEntropy

OWN, SET = "as glibc sets it", "as the plugin sets it"
# A setting of the user's, equal to glibc's default, with which the plugin leaves all as it is.
_LEFT_ALONE = {"GLIBC_TUNABLES": "glibc.malloc.tcache_count=7"}


def measure(args: argparse.Namespace, device: Device) -> Iterator[Row]:
    """Updates on documents, each system in processes of its own, which take turns."""
    found: dict[str, list[tuple[float, float, float]]] = {OWN: [], SET: []}
    for _ in range(args.rounds):
        for name, environment in ((OWN, _LEFT_ALONE), (SET, {})):
            with _environment(environment):
                found[name].append(in_own_process(updates, args.size, args.words, args.updates))
    for name, runs in found.items():
        faults, system, seconds = (statistics.median(column) for column in zip(*runs, strict=True))
        of_own = ratio([run[2] for run in runs], [run[2] for run in found[OWN]])
        yield {
            "system": name, "faults": faults, "system_seconds": system, "seconds": seconds,
            "of_own": of_own,
        }  # fmt: skip


def updates(size: Size, words: int, count: int) -> tuple[float, float, float]:
    """Page faults, CPU seconds in the system and CPU seconds in all, of one update."""
    dictionary = dictionary_of(size)
    trainer = Trainer(
        gtransformer(size, dictionary), dictionary, criterion=ChunkedCrossEntropy
    )
    documents = documents_of(512, max(words * 2 // 512, 1), dictionary)
    batches = document_batches(documents, dictionary, words)
    trainer.steps(batches)  # the heap has grown
    before = resource.getrusage(resource.RUSAGE_SELF)
    for number in range(count):
        trainer.step(batches[number % len(batches)])
    after = resource.getrusage(resource.RUSAGE_SELF)
    system = after.ru_stime - before.ru_stime
    whole = system + after.ru_utime - before.ru_utime
    return (after.ru_minflt - before.ru_minflt) / count, system / count, whole / count


@contextmanager
def _environment(changes: dict[str, str]) -> Iterator[None]:
    """Processes that are started have these variables."""
    os.environ.update(changes)
    try:
        yield
    finally:
        for name in changes:
            del os.environ[name]


def targets(rows: Rows) -> list[Target]:
    """Hardly any page fault is left, and the CPU time is not larger."""
    by_name: dict[str, Any] = {row["system"]: row for row in rows}
    left = by_name[SET]["faults"] / max(by_name[OWN]["faults"], 1)
    return [
        ("page faults of an update: share that is left", left, 0.1, False),
        ("CPU time of an update: share that is left", by_name[SET]["of_own"], 1.0, False),
    ]


def shown(rows: Rows) -> str:
    """The systems one below the other."""
    heads = ["allocator", "page faults", "seconds in the system", "seconds", "share"]
    lines = [
        [
            row["system"], f"{row['faults']:,.0f}", f"{row['system_seconds']:.2f}",
            f"{row['seconds']:.2f}", f"{row['of_own']:.2f}",
        ]
        for row in rows
    ]  # fmt: skip
    return table(heads, lines)


def add_options(parser: argparse.ArgumentParser) -> None:
    """Options of this benchmark alone."""
    for flag, default, meaning in (
        ("--words", 2048, "words of a batch"), ("--updates", 4, "updates of a round"),
    ):  # fmt: skip
        parser.add_argument(
            flag, type=int, default=default, metavar="N", help=f"{meaning} (default: %(default)s)"
        )


BENCHMARK = Benchmark(
    name="allocator",
    title="Memory from the system",
    text="One update of a G-Transformer on documents of 512 words, {words} words a batch: page "
    "faults (memory that the system gives, or gives again) and CPU seconds, those in the system "
    "included. Every round is a process of its own.",
    size="narrow",
    devices=("cpu",),
    measure=measure,
    table=shown,
    targets=targets,
    add_options=add_options,
)
