"""Decoding of long texts in chunks: Figure 8 of Feng et al. 2022.

Documents of dummy tokens are cut into chunks of equal length. A sentence Transformer and the
Transformer with recurrent memory translate chunk after chunk, some documents side by side;
a document Transformer translates whole documents. Models are untrained and never end a
chunk by themselves: each becomes as long as its source.
"""

from __future__ import annotations

import argparse
import json
import resource
import statistics
import subprocess
import sys
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import torch
from benchmark_systems import (
    PAPER,
    TOY,
    Device,
    Endless,
    Size,
    devices,
    dictionary_of,
    gtransformer,
    memory_transformer,
)
from fairseq.data import Dictionary
from gtrans.data.examples import Frame
from torch import Tensor, nn

from gtrans.decoding.document_search import DocumentSearch, SearchOptions, SearchVocabulary
from gtrans.decoding.stream_search import StreamSearch

Row = dict[str, Any]

SENTENCE = "sentence Transformer, chunk by chunk"
MEMORY = "recurrent memory, chunk by chunk"
DOCUMENT = "document Transformer, whole"
SYSTEMS = (SENTENCE, MEMORY, DOCUMENT)
CHILD = "one-text"


class Text:
    """Documents of ``words`` dummy tokens each, and the searches that translate them."""

    def __init__(self, args: argparse.Namespace, words: int, device: Device) -> None:
        self.size = TOY if args.toy else PAPER
        self.dictionary = dictionary_of(self.size)
        self.chunk = min(args.chunk, words)
        self.device = device
        d = self.dictionary
        self.frame = Frame(d.bos(), d.eos(), d.pad())
        self.vocabulary = SearchVocabulary(
            d.bos(), d.eos(), d.pad(), d.unk(), (d.bos(), d.pad())
        )
        self.options = SearchOptions(beam=args.beam, max_len_a=1, max_len_b=0)
        draw = torch.Generator().manual_seed(1)
        shape = (args.documents, words // self.chunk, self.chunk)
        self.chunks = torch.randint(d.nspecial, len(d), shape, generator=draw).to(device.name)

    def write(self, system: str, model: nn.Module) -> int:
        """Translate with one of :data:`SYSTEMS`; the number of tokens."""
        endless = Endless(model, self.dictionary)  # type: ignore[arg-type]
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


def model_of(system: str, size: Size, dictionary: Dictionary) -> nn.Module:
    """The model of one of :data:`SYSTEMS`."""
    torch.manual_seed(1)
    if system == MEMORY:
        return memory_transformer(size, dictionary)
    return gtransformer(size, dictionary, doc_mode="full")


def chunks(args: argparse.Namespace) -> list[Row]:
    """Time per token and memory of every system and length."""
    rows = []
    for device in devices():
        size = TOY if args.toy else PAPER
        dictionary = dictionary_of(size)
        models = {s: device.model(model_of(s, size, dictionary)).eval() for s in SYSTEMS}
        tasks: dict[tuple[str, int], Callable[[], float]] = {}
        for words in args.lengths:
            text = Text(args, words, device)
            for system, model in models.items():
                if system != DOCUMENT or words <= args.whole_limit:
                    tasks[system, words] = partial(_milliseconds, device, text, system, model)
        for system in models:
            if (system, min(args.lengths)) in tasks:
                tasks[system, min(args.lengths)]()
        cost: dict[tuple[str, int], list[float]] = {key: [] for key in tasks}
        for _ in range(args.repetitions):
            for key, task in tasks.items():
                cost[key].append(task())
        for (system, words), times in cost.items():
            shortest, sentence = cost[system, min(args.lengths)], cost[SENTENCE, words]
            rows.append(
                {
                    "device": device.label,
                    "words": words,
                    "system": system,
                    "ms_per_token": statistics.median(times),
                    "times_sentence": _ratio(times, sentence),
                    "of_shortest": _ratio(times, shortest),
                    "added_mb": _added(args, device, system, words),
                }
            )
            print(json.dumps(rows[-1]), flush=True)
    return rows


def _ratio(above: list[float], below: list[float]) -> float:
    return statistics.median(a / b for a, b in zip(above, below, strict=True))


def _milliseconds(device: Device, text: Text, system: str, model: nn.Module) -> float:
    begin = device.seconds()
    written = text.write(system, model)
    return (device.seconds() - begin) * 1000 / written


def _added(args: argparse.Namespace, device: Device, system: str, words: int) -> float:
    """Megabytes that translating adds, in a process of its own."""
    command = [sys.executable, str(Path(__file__).with_name("benchmark.py")), CHILD]
    command += [device.name, str(device.dtype).split(".")[1], system, str(words)]
    for flag in ("chunk", "documents", "beam"):
        command += [f"--{flag}", str(getattr(args, flag))]
    command += ["--toy"] if args.toy else []
    done = subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True)
    return float(done.stdout.splitlines()[-1])


def one_text(args: argparse.Namespace) -> float:
    """The child's part of :func:`_added`: megabytes on top of what a first chunk needed."""
    device = Device(args.device, getattr(torch, args.dtype))
    text = Text(args, args.words, device)
    model = device.model(model_of(args.system, text.size, text.dictionary)).eval()
    first = Text(args, args.chunk, device)
    first.write(args.system, model)
    if device.name == "cuda":
        torch.cuda.reset_peak_memory_stats()
    before = _peak(device)
    text.write(args.system, model)
    return (_peak(device) - before) / 2**20


def _peak(device: Device) -> int:
    if device.name == "cuda":
        return torch.cuda.max_memory_allocated()
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * (
        1 if sys.platform == "darwin" else 1024
    )


def add_options(parser: argparse.ArgumentParser) -> None:
    """What both the mode and its child process take."""
    parser.add_argument(
        "--chunk", type=int, default=100, help="tokens of a chunk (default: %(default)s)"
    )
    parser.add_argument(
        "--documents", type=int, default=4, help="documents side by side (default: %(default)s)"
    )
    parser.add_argument("--beam", type=int, default=5, help="(default: %(default)s)")


def add_child(modes: Any) -> None:
    """The child process, which measures the memory of one system on one length."""
    child = modes.add_parser(CHILD)
    child.add_argument("device", choices=["cpu", "cuda"])
    child.add_argument("dtype", choices=["float32", "float16", "bfloat16"])
    child.add_argument("system", choices=SYSTEMS)
    child.add_argument("words", type=int)
    child.add_argument("--toy", action="store_true")
    add_options(child)
