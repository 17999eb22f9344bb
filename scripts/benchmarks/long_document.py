"""Translating one very long document, instance by instance."""

from __future__ import annotations

import argparse
import statistics
from collections.abc import Iterator
from functools import partial
from typing import Any

from documents import dictionary_of, documents_of
from measuring import Device, Size, in_own_process, peak_memory
from report import Benchmark, Row, Rows, Target, grid, lookup, over
from systems import BEAM, GLOBAL_LAYERS, Endless, equally_long, gtransformer, marks_of, ours

from gtrans.data.units import DocumentUnit, InstanceStreamUnit, Unit
from gtrans.decoding.instance_search import InstanceSearch

# Whether a system has a memory, and its overlap in sentences.
SYSTEMS = {"memory": (True, 0), "overlap": (False, 2), "both": (True, 2)}


def measure(args: argparse.Namespace, device: Device) -> Iterator[Row]:
    """Time per token and peak memory of beam search over one document."""
    found: dict[tuple[str, int], list[tuple[float, float]]] = {}
    for _ in range(args.rounds):
        for name in args.systems:
            for words in args.lengths:
                cost = in_own_process(translate, args.size, device, name, words, args.instance)
                found.setdefault((name, words), []).append(cost)
    for (name, words), costs in found.items():
        shortest = found[name, min(args.lengths)]
        yield {
            "words": words,
            "system": name,
            "ms_per_token": statistics.median(time for time, _ in costs),
            "process_mb": statistics.median(peak for _, peak in costs),
            "times_shortest": statistics.median(
                cost[0] / of_shortest[0] for cost, of_shortest in zip(costs, shortest, strict=True)
            ),
        }


def translate(
    size: Size, device: Device, name: str, words: int, instance: int
) -> tuple[float, float]:
    """Milliseconds per token of a document of ``words`` words, and megabytes of this process.

    Raises:
        ValueError: there is not one translation for each sentence.
    """
    dictionary = dictionary_of(size)
    has_memory, overlap = SYSTEMS[name]
    unit: Unit = DocumentUnit(instance, overlap)
    if has_memory:
        unit = InstanceStreamUnit(instance, overlap)
        made: Any = ours("gtransformer_memory_tiny", size, dictionary, **GLOBAL_LAYERS)
    else:
        made = gtransformer(size, dictionary)
    model = Endless(device.model(made).eval(), dictionary)
    frame, vocabulary = marks_of(dictionary)
    search = InstanceSearch(vocabulary, equally_long(BEAM), frame, unit, nbest=1)
    end = dictionary.eos()

    def write(words: int) -> int:
        (document,) = documents_of(words, 1, dictionary)
        sources = [source.new_tensor([*source.tolist(), end]) for source, _ in document]
        tokens = device.place(frame.source(sources)[None])
        lengths = [len(source) - 1 for source in sources]
        ((best, *_),) = search.search([model], {"src_tokens": tokens}, [lengths])
        if len(best.sentences) != len(sources):
            raise ValueError(f"{len(sources)} sentences gave {len(best.sentences)}")
        return len(best.tokens)

    write(4 * instance)  # libraries have their buffers
    written = 0

    def work() -> None:
        nonlocal written
        written = write(words)

    seconds = 0.0

    def timed() -> None:
        nonlocal seconds
        seconds = device.seconds(work)

    _, peak = peak_memory(device, timed)
    return seconds * 1000 / written, peak


def targets(rows: Rows) -> list[Target]:
    """What is asked of long documents on the CPU."""
    time, peak = lookup(rows, "times_shortest"), lookup(rows, "process_mb")
    short, long = (f(row["words"] for row in rows) for f in (min, max))
    found: list[Target] = []
    for name in SYSTEMS:
        words = f"{name}, {long:,} words over {short:,}"
        found.append((f"{words}: time per token", time(name, long), 1.15, False))
        memory = over(peak(name, long), peak(name, short))
        found.append((f"{words}: peak memory", memory, 1.1, False))
    return found


def add_options(parser: argparse.ArgumentParser) -> None:
    """Options of this benchmark alone."""
    parser.add_argument(
        "--lengths", type=int, nargs="+", default=[10_000, 100_000], metavar="N",
        help="source words of the document (default: %(default)s)",
    )  # fmt: skip
    parser.add_argument(
        "--systems", nargs="+", choices=SYSTEMS, default=list(SYSTEMS), metavar="NAME",
        help=f"what to measure: {', '.join(SYSTEMS)} (default: all)",
    )  # fmt: skip
    parser.add_argument(
        "--instance", type=int, default=512, metavar="N",
        help="most tokens of an instance (default: %(default)s)",
    )  # fmt: skip


BENCHMARK = Benchmark(
    name="long-document",
    title="One long document",
    text="Beam search over one document, which is cut into instances of {instance} tokens: with "
    "a memory that is carried between them, with an overlap of two sentences, and with both. Every "
    "sentence gets as many words as its source, and K sentences give K. A cell is milliseconds "
    "per token and, in brackets, the peak memory of a process of its own in megabytes.",
    size="narrow",
    devices=("cpu", "cuda-bf16"),
    rounds=1,
    measure=measure,
    table=partial(grid, cell=lambda row: f"{row['ms_per_token']:.2f} ({row['process_mb']:,.0f})"),
    targets=targets,
    add_options=add_options,
)
