"""Training and decoding of base size on a GPU, next to stock fairseq.

Updates are those of `fairseq-train --bf16`, alone on the GPU, the copy of each batch to it
included. Stock fairseq trains with its own loss and Adam, models of this project with
`chunked_cross_entropy` and `fused_adam`. Memory is that of parameters, Adam and the largest update.
Beam search has beam 5 and the lengths of real sentences; untrained models write as many words as
the source has, stock fairseq as many as the longest of the batch. What compares them are the
seconds for the whole test set, the beginning and the end of every search included.

Cells come in the order of their value, so that a cut leaves a table. On the CPU (``--toy``) the
same cells run at small sizes, as a try.
"""

from __future__ import annotations

import argparse
import gzip
import statistics
import time
from collections import Counter
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

import torch
from fairseq import utils
from measuring import Benchmark, Row
from models import SIZES, Batch, Setup, Trainer
from torch import Tensor, nn
from torch.profiler import ProfilerActivity, profile

from gtrans.data.units import DocumentUnit

CUDA = torch.cuda.is_available()
STOCK = "stock sentence Transformer"
SENTENCES = "gtrans sentence Transformer"
REGROUP, VARLEN = "G-Transformer, regroup", "G-Transformer, varlen"
SYSTEMS: dict[str, dict[str, Any] | None] = {
    STOCK: None,
    SENTENCES: {"doc_mode": "full"},
    REGROUP: {"attention_backend": "regroup"},
    VARLEN: {"attention_backend": "auto"},
    "document Transformer": {"doc_mode": "full"},
}
if not CUDA:
    del SYSTEMS[VARLEN]
DOCUMENTS = (
    "gpu: gzipped text whose sentence lengths are decoded, an empty line between documents "
    "(default: made-up lengths)"
)
# Calls of CUDA by which the host waits, and how many are allowed.
_WAITS = ("cudaStreamSynchronize", "cudaDeviceSynchronize", "cudaEventSynchronize")
_MOST_WAITS = {"forward and backward": 0, "a decoding step": 2}
# Waits of a search besides: for its beginning and its end.
_OF_A_BATCH = 16


def placed(batch: Any) -> Any:
    """A batch, or anything with tensors in it, on the GPU."""
    return utils.move_to_cuda(batch) if CUDA else batch


def seconds(work: Callable[[], object]) -> float:
    """Seconds of ``work`` by the clock, until all kernels are done."""
    begin = _now()
    work()
    return _now() - begin


def _now() -> float:
    if CUDA:
        torch.cuda.synchronize()
    return time.perf_counter()


def reset() -> None:
    """Forget peaks, and memory that no tensor needs."""
    if CUDA:
        torch.cuda.empty_cache()
        torch.cuda.reset_peak_memory_stats()


def allocated(most: bool = False) -> float:
    """GiB of tensors; ``most``: since :func:`reset`; 0 on the CPU."""
    memory = torch.cuda.max_memory_allocated if most else torch.cuda.memory_allocated
    return memory() / 2**30 if CUDA else 0.0


def model_in_bf16(setup: Setup, name: str) -> nn.Module:
    """The model of a system on the GPU."""
    model: nn.Module = setup.model(SYSTEMS[name])
    return model.to("cuda" if CUDA else "cpu", torch.bfloat16)


class Updates(Trainer):
    """Updates as ``fairseq-train --bf16`` makes them, the copy of the batch to the GPU included."""

    def __init__(self, setup: Setup, name: str) -> None:
        before = allocated()
        self.setup, self.ours = setup, SYSTEMS[name] is not None
        super().__init__(setup, model_in_bf16(setup, name), True, self.ours)
        self.step(self.document(32))
        self.gigabytes = allocated() - before  # of parameters and the state of Adam

    def planned(self, batch: Batch) -> Batch:
        """The batch as a data worker gives it."""
        plan = {"plan": self.model.planner.batch(batch["net_input"])} if self.ours else {}
        return {**batch, "net_input": {**batch["net_input"], **plan}}

    def document(self, words: int) -> Batch:
        """A batch of one document."""
        (batch,) = self.setup.document_batches(self.setup.documents(words, 1), 1)
        return self.planned(batch)

    def step(self, batch: Batch) -> None:
        """One update on a batch of the host."""
        super().step(placed(batch))


def outcome(work: Callable[[], Row]) -> Row:
    """The result of ``work``, or why it failed, such as too little memory."""
    reset()
    try:
        return work()
    except (FloatingPointError, RuntimeError) as error:
        return {"failed": f"{type(error).__name__}: {error}".partition("\n")[0][:200]}


def training(args: argparse.Namespace, setup: Setup) -> Iterator[Row]:
    """Updates of all systems."""
    systems = {name: Updates(setup, name) for name in SYSTEMS}
    for words, batch in args.cells:
        sample = max(args.words // batch, 2)
        corpus = setup.documents(words, max(4 * args.words // words, 2))
        documents = setup.document_batches(corpus[: max(sample * batch // words, 2)], batch)
        for name, updates in systems.items():
            samples = documents[:sample]
            if name in (STOCK, SENTENCES):
                samples = setup.sentence_batches(corpus, batch, sample, name == STOCK)
            batches = [updates.planned(item) for item in samples]
            row = outcome(partial(_speed, updates, batches, args.seconds))
            yield {"part": "training", "system": name, "words": words, "batch": batch, **row}
            updates.optimizer.zero_grad()


def _speed(updates: Updates, batches: list[Batch], least: float) -> Row:
    before = allocated()
    words = updates.setup.words_of(batches)
    updates.steps(batches)  # shapes that no batch had before
    rounds: list[float] = []
    while len(rounds) < 2 or sum(rounds) < least:
        rounds.append(seconds(partial(updates.steps, batches)))
    return {
        "words_per_second": words / statistics.median(rounds),
        "least": words / max(rounds),
        "most": words / min(rounds),
        "rounds": len(rounds),
        # what only this system needs, of several that are there
        "gigabytes": allocated(most=True) - before + updates.gigabytes,
    }


def decoding(args: argparse.Namespace, setup: Setup) -> Iterator[Row]:
    """Translating real documents, as documents and sentence by sentence."""
    texts = real_documents(args.documents, setup, args.document_count)
    sentences = [[sentence] for text in texts for sentence in text]
    documents = [
        [text[number] for number in span.source]
        for text in texts
        for span in DocumentUnit(512).cut([len(sentence) - 1 for sentence in text])
    ]
    write: dict[str, tuple[list[list[Tensor]], Callable[..., int]]] = {}
    for name, system, rows in (
        (STOCK, STOCK, sentences),
        (SENTENCES, SENTENCES, sentences),
        ("G-Transformer", REGROUP, documents),
    ):
        way = setup.by_sentence if name == STOCK else setup.by_document
        write[name] = rows, partial(way, model_in_bf16(setup, system).eval())
        outcome(partial(_written, partial(write[name][1], rows[:4], 4000, 4, placed)))
    for tokens, most in args.decoding_batches:
        of_stock: float | None = None
        for name, (rows, work) in write.items():
            facts = {"sentences": len(sentences), "rows": len(rows)}
            facts |= {"batch": tokens, "most_rows": most}
            row = outcome(partial(_written, partial(work, rows, tokens, most, placed)))
            if name == STOCK:
                of_stock = row.get("seconds")
            if of_stock and "seconds" in row:
                row["times_stock"] = row["seconds"] / of_stock
            yield {"part": "decoding", "system": name, **facts, **row}


def _written(write: Callable[[], int]) -> Row:
    written: list[int] = []
    spent = seconds(lambda: written.append(write()))
    return {
        "tokens": written[0],
        "seconds": spent,
        "tokens_per_second": written[0] / spent,
        "gigabytes": allocated(most=True),
    }


def real_documents(path: Path | None, setup: Setup, most: int) -> list[list[Tensor]]:
    """Sentences with the lengths of those of a text, with ``</s>``."""
    if path is None:
        return setup.sources(120, most)
    with gzip.open(path, "rt", encoding="utf-8") as file:
        blocks = file.read().strip("\n").split("\n\n")[:most]
    lengths = [[len(line.split()) for line in block.splitlines()] for block in blocks]
    draw, dictionary = torch.Generator().manual_seed(1), setup.dictionary

    def sentence(length: int) -> Tensor:
        ids = torch.randint(dictionary.nspecial, len(dictionary), (length + 1,), generator=draw)
        ids[-1] = dictionary.eos()
        return ids

    return [[sentence(length) for length in document] for document in lengths]


def long_document(args: argparse.Namespace, setup: Setup) -> Iterator[Row]:
    """One update on one document of very many words."""
    for name in [name for name in SYSTEMS if name not in (STOCK, SENTENCES)]:
        for words in args.long:
            updates = Updates(setup, name)
            batch = updates.document(words)
            row = outcome(partial(_update, updates, batch))
            yield {"part": "long document", "system": name, "words": words, **row}
            del updates


def _update(updates: Updates, batch: Batch) -> Row:
    updates.step(batch)
    reset()
    spent = seconds(partial(updates.step, batch))
    return {"seconds": spent, "gigabytes": allocated(most=True)}


def waits(_: argparse.Namespace, setup: Setup) -> Iterator[Row]:
    """How often the host waits for the GPU, in a training update and in a decoding step.

    Without a GPU nothing is counted; `run.py operations` pretends one.

    Raises:
        RuntimeError: there are more waits than allowed.
    """
    for name in (REGROUP, VARLEN) if CUDA else ():
        updates = Updates(setup, name)
        batch = placed(updates.document(64))
        source = batch["net_input"]["src_tokens"]
        model, count = updates.model, int(source.eq(setup.dictionary.eos()).sum())

        def passes(updates: Updates = updates, batch: Batch = batch) -> None:
            updates.criterion(updates.model, batch)[0].backward()

        training = _waits(passes)
        model.eval()
        words = 7
        search = partial(setup.write_documents, model, source, [[words] * count])
        steps = count * (words + 2)  # with the special tokens of every sentence
        step = max(_waits(search).total() - _OF_A_BATCH, 0) / steps
        calls = {"forward and backward": training.total(), "a decoding step": step}
        yield {"part": "waits", "system": name, **calls}
        for case, most in _MOST_WAITS.items():
            if calls[case] > most:
                raise RuntimeError(f"{calls[case]} waits of {case}, but at most {most}: {training}")


def _waits(work: Callable[[], object]) -> Counter[str]:
    """The calls that wait, once the first run has made buffers and caches."""
    work()
    torch.cuda.synchronize()
    with profile(activities=[ProfilerActivity.CPU, ProfilerActivity.CUDA]) as recorded:
        work()
    counts = Counter(event.name for event in recorded.events() if event.name in _WAITS)
    # The profiler waits once itself when it ends.
    counts["cudaDeviceSynchronize"] = max(counts["cudaDeviceSynchronize"] - 1, 0)
    return counts


def measure(args: argparse.Namespace) -> Iterator[Row]:
    """Words per second and memory of updates and of beam search, cell by cell."""
    if CUDA:
        # cuDNN would prepare every new shape: a tenth of the speed until all have been seen.
        torch.backends.cuda.enable_cudnn_sdp(False)
    setup = Setup(SIZES[args.size])
    for part in (training, decoding, long_document, waits):
        yield from part(args, setup)


GPU = Benchmark(
    size="base",
    settings={
        "documents": None,
        "document_count": 200,
        "seconds": 1.5,
        "words": 98_304,
        "cells": [[512, 16384], [2048, 16384], [512, 65536], [2048, 65536]],
        "decoding_batches": [[256_000, 1024], [16_000, 234]],
        "long": [65_536],
    },
    toy={
        "document_count": 5,
        "seconds": 0.1,
        "words": 480,
        "cells": [[60, 120], [120, 240]],
        "decoding_batches": [[300, 4]],
        "long": [240],
    },
    measure=measure,
    device="CUDA, bf16" if CUDA else "CPU, bf16",
)
