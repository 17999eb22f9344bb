"""Throughput of training, as a fraction of that of a sentence Transformer of stock fairseq."""

from __future__ import annotations

import argparse
import statistics
from collections.abc import Iterator
from functools import partial
from typing import Any

from documents import (
    Batch,
    dictionary_of,
    document_batches,
    documents_of,
    sentence_batches,
    words_of,
)
from measuring import Device, ratio, take_turns
from report import Benchmark, Row, grid
from systems import Trainer, gtransformer, stock

YARDSTICK = "stock sentence Transformer"
# Name in the tables -> options of our model; None is stock fairseq.
SYSTEMS: dict[str, dict[str, Any] | None] = {
    YARDSTICK: None,
    "gtrans regroup": {"attention_backend": "regroup"},
    "gtrans dense": {"attention_backend": "dense"},
    "gtrans document Transformer": {"doc_mode": "full"},
}
VARLEN = {"gtrans varlen": {"attention_backend": "auto"}}  # needs CUDA


def measure(args: argparse.Namespace, device: Device) -> Iterator[Row]:
    """Words per second of updates, for every length of documents and every system."""
    dictionary = dictionary_of(args.size)
    systems = SYSTEMS | (VARLEN if device.name == "cuda" else {})
    trainers = {}
    for name, options in systems.items():
        model = (
            stock(args.size, dictionary) if options is None
            else gtransformer(args.size, dictionary, **options)
        )  # fmt: skip
        trainers[name] = Trainer(model, dictionary, device)
    for words in args.lengths:
        text = documents_of(words, max(args.corpus_words // words, 1), dictionary)
        # The yardstick's batches come from the whole text, as a corpus has them: sorted
        # by length and hardly padded. As many as hold the words of the documents.
        sample = max(round(args.words / args.batch_words), 1)
        sentences = sentence_batches(text, dictionary, args.batch_words, sample)
        chosen = text[: max(args.words // words, 1)]
        documents = document_batches(chosen, dictionary, args.batch_words)
        batches: dict[str, list[Batch]] = {}
        for name, options in systems.items():
            if name == "gtrans dense" and words > args.quadratic_limit:
                continue  # its score matrices alone would take tens of gigabytes
            made = sentences if options is None else documents
            if name == "gtrans dense":
                # Its matrices are of a whole batch. One tells what a slow system costs.
                most = min(args.batch_words, args.quadratic_limit)
                made = document_batches(chosen, dictionary, most)[:1]
            batches[name] = [device.place(batch) for batch in made]
        for name, made in batches.items():
            trainers[name].steps(made[:1])  # position tables, buffers, caches
        seconds = take_turns(
            {name: partial(trainers[name].seconds, made) for name, made in batches.items()},
            args.rounds,
        )
        cost = {
            name: [taken / words_of(made, dictionary) for taken in seconds[name]]
            for name, made in batches.items()
        }
        for name, per_word in cost.items():
            yield {
                "words": words,
                "system": name,
                "words_per_second": 1 / statistics.median(per_word),
                "of_stock": ratio(cost[YARDSTICK], per_word),
            }


def add_options(parser: argparse.ArgumentParser) -> None:
    """Options of this benchmark alone."""
    parser.add_argument(
        "--lengths", type=int, nargs="+", default=[512, 1024, 2048, 4096], metavar="N",
        help="source words of a document (default: %(default)s)",
    )  # fmt: skip
    for flag, default, meaning in (
        ("--words", 16384, "words of a round"),
        ("--corpus-words", 1 << 19, "words of the text that batches are taken from"),
        ("--batch-words", 2048, "words of a batch"),
        ("--quadratic-limit", 2048, "longest documents and batches for the dense backend"),
    ):
        parser.add_argument(
            flag, type=int, default=default, metavar="N", help=f"{meaning} (default: %(default)s)"
        )


BENCHMARK = Benchmark(
    name="training",
    title="Training",
    text="Throughput of whole updates (forward, label-smoothed loss, backward, clipping, Adam) in "
    "target words per second; padding and special tokens do not count. The yardstick is stock "
    "fairseq's sentence Transformer on the same text of {corpus_words} words, in batches "
    "sorted by length and filled up to {batch_words} words and padding, of which evenly "
    "spaced ones are measured. A batch of documents holds {batch_words} words, or one longer "
    "document. A round takes about {words} words of each system. `regroup` and `dense` are the "
    "backends of group attention in G-Transformer; the document Transformer is "
    "`--doc-mode full`. A cell is words per second, and in brackets the fraction of the "
    "yardstick's.",
    size="narrow",
    measure=measure,
    table=partial(grid, cell=lambda r: f"{r['words_per_second']:,.0f} ({r['of_stock']:.2f})"),
    add_options=add_options,
)
