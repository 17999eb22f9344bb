"""Decoding of long texts in chunks: Figure 8 of Feng et al. 2022.

Documents of dummy tokens are cut into chunks of equal length. A sentence Transformer and the
Transformer with recurrent memory translate chunk after chunk, some documents side by side;
a document Transformer translates whole documents. Models are untrained and never end a
chunk by themselves: each becomes as long as its source.
"""

from __future__ import annotations

import argparse
import statistics
from collections.abc import Iterator
from functools import partial
from typing import Any

import torch
from documents import dictionary_of
from measuring import Device, Size, in_own_process, peak_memory, ratio, take_turns
from report import Benchmark, Row, Rows, Target, grid, lookup
from systems import Endless, equally_long, gtransformer, marks_of, ours
from torch import Tensor

from gtrans.decoding.document_search import DocumentSearch
from gtrans.decoding.stream_search import StreamSearch

SENTENCE = "sentence Transformer, chunk by chunk"
MEMORY = "recurrent memory, chunk by chunk"
DOCUMENT = "document Transformer, whole"
SYSTEMS = (SENTENCE, MEMORY, DOCUMENT)


class Text:
    """Documents of ``words`` dummy tokens each, and the searches that translate them."""

    def __init__(self, args: argparse.Namespace, words: int, device: Device) -> None:
        self.device = device
        self.dictionary = dictionary_of(args.size)
        self.frame, self.vocabulary = marks_of(self.dictionary)
        self.options = equally_long(args.beam)
        chunk = min(args.chunk, words)
        draw = torch.Generator().manual_seed(1)
        first, shape = self.dictionary.nspecial, (args.documents, words // chunk, chunk)
        drawn = torch.randint(first, len(self.dictionary), shape, generator=draw)
        self.chunks = drawn.to(device.name)

    def write(self, system: str, model: Any) -> int:
        """Translate with one of :data:`SYSTEMS`; the number of tokens."""
        endless = Endless(model, self.dictionary)
        search: DocumentSearch
        if system == MEMORY:
            search = StreamSearch(self.vocabulary, self.options, self.frame)
            return self._search(search, endless, self.chunks)
        search = DocumentSearch(self.vocabulary, self.options)
        if system == DOCUMENT:
            return self._search(search, endless, self.chunks.flatten(1)[:, None])
        return sum(
            self._search(search, endless, self.chunks[:, number : number + 1])
            for number in range(self.chunks.size(1))
        )

    def _search(self, search: DocumentSearch, model: Endless, sentences: Tensor) -> int:
        """``sentences (documents, sentences, length)``."""
        end = sentences.new_tensor([self.dictionary.eos()])
        rows = [
            self.frame.source([torch.cat([sentence, end]) for sentence in document])
            for document in sentences
        ]
        words = [[sentences.size(2)] * sentences.size(1)] * len(rows)
        found = search.search([model], {"src_tokens": torch.stack(rows)}, words)
        return sum(len(one.tokens) for document in found for one in document[0].sentences)

    def per_token(self, system: str, model: Any) -> float:
        """Milliseconds per token."""
        written = 0

        def work() -> None:
            nonlocal written
            written = self.write(system, model)

        return self.device.seconds(work) * 1000 / written


def model_of(system: str, size: Size, device: Device) -> Any:
    """The model of one of :data:`SYSTEMS`."""
    dictionary = dictionary_of(size)
    if system == MEMORY:
        made = ours("memory_transformer_tiny", size, dictionary)
    else:
        made = gtransformer(size, dictionary, doc_mode="full")
    return device.model(made).eval()


def added_memory(args: argparse.Namespace, device: Device, system: str, words: int) -> float:
    """Megabytes that translating adds to what a first chunk needed, in this process."""
    text = Text(args, words, device)
    model = model_of(system, args.size, device)
    Text(args, args.chunk, device).write(system, model)
    return peak_memory(device, partial(text.write, system, model))[0]


def measure(args: argparse.Namespace, device: Device) -> Iterator[Row]:
    """Time per token and memory of every system and length."""
    models = {system: model_of(system, args.size, device) for system in SYSTEMS}
    tasks = {
        (system, words): partial(Text(args, words, device).per_token, system, model)
        for words in args.lengths
        for system, model in models.items()
        if system != DOCUMENT or words <= args.whole_limit
    }
    shortest = {system: min(w for s, w in tasks if s == system) for system, _ in tasks}
    for key in shortest.items():
        tasks[key]()
    cost = take_turns(tasks, args.rounds)
    settings = argparse.Namespace(
        size=args.size, chunk=args.chunk, documents=args.documents, beam=args.beam
    )
    for (system, words), times in cost.items():
        yield {
            "words": words,
            "system": system,
            "ms_per_token": statistics.median(times),
            "times_sentence": ratio(times, cost[SENTENCE, words]),
            "of_shortest": ratio(times, cost[system, shortest[system]]),
            "added_mb": in_own_process(added_memory, settings, device, system, words),
        }


def cell(row: Row) -> str:
    """A cell of the table."""
    return f"{row['ms_per_token']:.2f} ({row['times_sentence']:.2f}); {row['added_mb']:,.0f}"


def targets(rows: Rows) -> list[Target]:
    """What is asked of the recurrent memory on the CPU."""
    longest = max(row["words"] for row in rows)
    return [
        (
            f"texts of {longest:,} tokens: recurrent memory over sentence Transformer",
            lookup(rows, "times_sentence")(MEMORY, longest),
            1.25,
            False,
        ),
        (
            f"recurrent memory: time per token at {longest:,} tokens over that of the shortest",
            lookup(rows, "of_shortest")(MEMORY, longest),
            1.1,
            False,
        ),
    ]


def add_options(parser: argparse.ArgumentParser) -> None:
    """Options of this benchmark alone."""
    parser.add_argument(
        "--lengths", type=int, nargs="+", default=[500, 1000, 2000, 4000], metavar="N",
        help="tokens of a document (default: %(default)s)",
    )  # fmt: skip
    for flag, default, meaning in (
        ("--chunk", 100, "tokens of a chunk"),
        ("--documents", 4, "documents side by side"),
        ("--beam", 5, "hypotheses of the search"),
        ("--whole-limit", 1000, "longest documents translated as a whole"),
    ):
        parser.add_argument(
            flag, type=int, default=default, metavar="N", help=f"{meaning} (default: %(default)s)"
        )


BENCHMARK = Benchmark(
    name="chunks",
    title="Long texts in chunks",
    text="Figure 8 of Feng et al. 2022: documents of dummy tokens in chunks of {chunk}, "
    "{documents} side by side, beam {beam}, encoding included. A chunk becomes as "
    "long as its source. The memory Transformer has 16 memory vectors in the top "
    "layers of encoder and decoder. The document Transformer reads and writes whole documents. "
    "A cell is milliseconds per token, in brackets how many times the sentence Transformer's, "
    "and the megabytes that the translation adds to what a first chunk needed.",
    size="narrow",
    measure=measure,
    table=partial(grid, cell=cell),
    targets=targets,
    add_options=add_options,
)
