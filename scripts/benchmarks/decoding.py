"""Time per token of beam search over whole documents, next to stock fairseq's generator."""

from __future__ import annotations

import argparse
import statistics
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

from documents import dictionary_of, document_batches, documents_of
from measuring import Device, ratio, take_turns
from report import Benchmark, Row, grid
from systems import GROUP_ONLY, gtransformer, stock, write_document, write_sequences
from torch import Tensor

YARDSTICK = "stock document Transformer"
# Name in the tables -> options of our model; None is stock fairseq.
SYSTEMS: dict[str, dict[str, Any] | None] = {
    YARDSTICK: None,
    "gtrans": {},
    "gtrans document Transformer": {"doc_mode": "full"},
    "gtrans, group attention only": dict(GROUP_ONLY),
}


def measure(args: argparse.Namespace, device: Device) -> Iterator[Row]:
    """Milliseconds per token of beam search over documents, one document at a time."""
    dictionary = dictionary_of(args.size)
    write: dict[str, Callable[[Tensor], int]] = {}
    for name, options in SYSTEMS.items():
        if options is None:
            model = device.model(stock(args.size, dictionary)).eval()
            write[name] = partial(_as_one_sequence, model, dictionary)
        else:
            model = device.model(gtransformer(args.size, dictionary, **options)).eval()
            write[name] = partial(write_document, model, dictionary)
    tasks = {}
    for words in args.lengths:
        # A few short documents, so that a round lasts long enough to be measured.
        text = documents_of(words, max(args.words // words, 1), dictionary)
        batches = document_batches(text, dictionary, 1)
        sources = [device.place(batch)["net_input"]["src_tokens"] for batch in batches]
        for name in SYSTEMS:
            if name != YARDSTICK or words <= args.stock_limit:
                tasks[name, words] = partial(per_token, device, write[name], sources)
    shortest = {name: min(w for n, w in tasks if n == name) for name, _ in tasks}
    for key in shortest.items() if args.warm_up else ():
        tasks[key]()
    cost = take_turns(tasks, args.rounds)
    for (name, words), times in cost.items():
        row: Row = {
            "words": words,
            "system": name,
            "ms_per_token": statistics.median(times),
            "of_shortest": ratio(times, cost[name, shortest[name]]),
        }
        if (YARDSTICK, words) in cost:
            row["times_stock"] = ratio(cost[YARDSTICK, words], times)
        yield row


def _as_one_sequence(model: Any, dictionary: Any, source: Tensor) -> int:
    """As long as the translations of our own search, marks included."""
    return write_sequences(model, dictionary, source, source.size(1) - 1)


def per_token(device: Device, write: Callable[[Tensor], int], sources: list[Tensor]) -> float:
    """Milliseconds per token of writing the translations of ``sources``, one after the other."""
    written = 0

    def work() -> None:
        nonlocal written
        written = sum(write(source) for source in sources)

    return device.seconds(work) * 1000 / written


def cell(row: Row) -> str:
    """A cell of the table."""
    found = f" ({row['times_stock']:.2f})" if "times_stock" in row else ""
    return f"{row['ms_per_token']:.2f}{found}"


def add_options(parser: argparse.ArgumentParser) -> None:
    """Options of this benchmark alone."""
    parser.add_argument(
        "--lengths", type=int, nargs="+", default=[256, 512, 1024, 2048], metavar="N",
        help="source words of a document (default: %(default)s)",
    )  # fmt: skip
    parser.add_argument(
        "--words", type=int, default=512, metavar="N",
        help="words of a round (default: %(default)s)",
    )  # fmt: skip
    parser.add_argument(
        "--stock-limit", type=int, default=1024, metavar="N",
        help="longest documents for stock fairseq (default: %(default)s)",
    )  # fmt: skip
    parser.add_argument(
        "--no-warm-up", dest="warm_up", action="store_false", help="measure the first run, too"
    )


BENCHMARK = Benchmark(
    name="decoding",
    title="Decoding",
    text="Beam search, beam 5, one document at a time, encoding included. The yardstick is stock "
    "fairseq's generator with a sentence Transformer's architecture on the whole document as "
    "one sequence. Untrained models never end, so all are made to write equally much: as "
    "many words in every sentence as its source has, marks on top. A cell is milliseconds "
    "per token, and in brackets how many times as fast as the yardstick that is.",
    size="narrow",
    measure=measure,
    table=partial(grid, cell=cell),
    add_options=add_options,
)
