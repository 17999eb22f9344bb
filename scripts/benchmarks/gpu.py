"""What a GPU does in a second: training and decoding of base size, next to stock fairseq.

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
from types import SimpleNamespace
from typing import Any

import torch
from fairseq import utils
from fairseq.criterions.label_smoothed_cross_entropy import LabelSmoothedCrossEntropyCriterion
from fairseq.data import Dictionary, data_utils
from fairseq.optim.adam import FairseqAdamConfig
from fairseq.optim.fp16_optimizer import FP16Optimizer
from measuring import Benchmark, Row, Rows, table
from models import (
    BEAM,
    SIZES,
    Batch,
    Endless,
    dictionary_of,
    document_batches,
    documents_in,
    documents_of,
    marks_of,
    model_of,
    padded_sentences,
    sentence_batches,
    words_of,
    write_documents,
    write_sequences,
)
from omegaconf import OmegaConf
from torch import Tensor, nn
from torch.profiler import ProfilerActivity, profile

from gtrans.criterions.chunked_cross_entropy import ChunkedCrossEntropy
from gtrans.decoding.document_search import DocumentSearch
from gtrans.decoding.generator import make_batches
from gtrans.decoding.options import SearchOptions
from gtrans.optim.fused_adam import fuse

YARDSTICK = "stock sentence Transformer"
SENTENCES = "gtrans sentence Transformer"
SYSTEMS: dict[str, dict[str, Any] | None] = {
    YARDSTICK: None,
    SENTENCES: {"doc_mode": "full"},
    "G-Transformer, regroup": {"attention_backend": "regroup"},
    "G-Transformer, varlen": {"attention_backend": "auto"},
    "document Transformer": {"doc_mode": "full"},
}
DOCUMENTS = (
    "gpu: gzipped text whose sentence lengths are decoded, an empty line between documents "
    "(default: made-up lengths)"
)
_UPDATES = 100_000
# Calls of CUDA by which the host waits, and how many there may be.
_WAITS = ("cudaStreamSynchronize", "cudaDeviceSynchronize", "cudaEventSynchronize")
_MOST_WAITS = {"forward and backward": 0, "a decoding step": 2}


class Device:
    """The GPU, or for a try the CPU."""

    def __init__(self) -> None:
        self.cuda = torch.cuda.is_available()

    def model(self, model: nn.Module) -> nn.Module:
        """The model on this device, in bf16."""
        return model.to("cuda" if self.cuda else "cpu", torch.bfloat16)

    def place(self, batch: Any) -> Any:
        """A batch, or anything with tensors in it, on this device."""
        return utils.move_to_cuda(batch) if self.cuda else batch

    def seconds(self, work: Callable[[], object]) -> float:
        """By the clock, until all kernels are done."""
        begin = self._now()
        work()
        return self._now() - begin

    def _now(self) -> float:
        if self.cuda:
            torch.cuda.synchronize()
        return time.perf_counter()

    def reset(self) -> None:
        """Forget peaks, and memory that no tensor needs."""
        if self.cuda:
            torch.cuda.empty_cache()
            torch.cuda.reset_peak_memory_stats()

    def allocated(self, most: bool = False) -> float:
        """GiB of tensors; ``most``: since :meth:`reset`; 0 on the CPU."""
        read = torch.cuda.max_memory_allocated if most else torch.cuda.memory_allocated
        return read() / 2**30 if self.cuda else 0.0


class Updates:
    """Updates as ``fairseq-train --bf16`` makes them, the copy of the batch to the GPU included.

    Args:
        model, dictionary, device: of the system.
        ours: a model of this project, with the loss and the optimizer of its configurations.
    """

    def __init__(self, model: Any, dictionary: Dictionary, device: Device, ours: bool) -> None:
        before = device.allocated()
        self.model: Any = device.model(model).train()
        self.device, self.ours = device, ours
        task = SimpleNamespace(target_dictionary=dictionary)
        self.criterion: Any = (
            ChunkedCrossEntropy(task, label_smoothing=0.1) if ours
            else LabelSmoothedCrossEntropyCriterion(task, False, 0.1)
        )  # fmt: skip
        # A rate of almost nothing: the models are not to learn this text.
        adam = OmegaConf.structured(FairseqAdamConfig(adam_betas="(0.9, 0.98)", lr=[1e-7]))
        adam._name = "adam"
        cfg = OmegaConf.create({
            "common": {"bf16": True, "tpu": False, "fp16_scale_window": 128},
            "optimizer": OmegaConf.to_container(adam, resolve=False),
        })  # fmt: skip
        cfg.optimizer.lr, cfg.optimizer.tpu = [1e-7], False
        parameters = [p for p in self.model.parameters() if p.requires_grad]
        self.optimizer = FP16Optimizer.build_optimizer(cfg, parameters)
        if ours:
            fuse(self.optimizer.fp32_optimizer)

        small = documents_of(32, 1, dictionary)
        self.step(self.planned(document_batches(small, dictionary, 1)[0]))
        self.gigabytes = device.allocated() - before  # of parameters and the state of Adam

    def planned(self, batch: Batch) -> Batch:
        """The batch as a data worker gives it."""
        if not self.ours:
            return batch
        plan = self.model.planner(batch["net_input"])
        return {**batch, "net_input": {**batch["net_input"], "plan": plan}}

    def passes(self, batch: Batch) -> int:
        """Forward and backward on a batch of the host; what gradients are divided by."""
        batch = self.device.place(batch)
        loss, size, _ = self.criterion(self.model, batch)
        self.optimizer.backward(loss)
        return int(size)

    def step(self, batch: Batch) -> None:
        """One update."""
        size = self.passes(batch)
        self.optimizer.multiply_grads(1 / size)
        norm = self.optimizer.clip_grad_norm(1.0)
        if not torch.isfinite(norm):  # fairseq's trainer asks, too
            raise FloatingPointError("the gradients are not finite")
        self.optimizer.step()
        self.optimizer.zero_grad()

    def steps(self, batches: list[Batch]) -> None:
        """One update on each."""
        for batch in batches:
            self.step(batch)


def outcome(work: Callable[[], Row]) -> Row:
    """What ``work`` found, or why it found nothing, such as too little memory."""
    try:
        return work()
    except (FloatingPointError, RuntimeError) as error:
        return {"failed": f"{type(error).__name__}: {error}".partition("\n")[0][:200]}


def texts(args: argparse.Namespace, dictionary: Dictionary, words: int, batch: int) -> Any:
    """Batches of a cell: of documents, of stock's sentences, of our sentences."""
    sample = max(args.words // batch, 2)
    corpus = documents_of(words, max(4 * args.words // words, 2), dictionary)
    documents = document_batches(corpus[: max(sample * batch // words, 2)], dictionary, batch)
    stock_batches = sentence_batches(corpus, dictionary, batch, sample)
    ours = [_right_padded(one, dictionary) for one in stock_batches]
    return documents[:sample], stock_batches, ours


def _right_padded(batch: Batch, dictionary: Dictionary) -> Batch:
    """The same sentences with the padding where our data set has it."""
    rows = [row[row.ne(dictionary.pad())] for row in batch["net_input"]["src_tokens"]]
    source = data_utils.collate_tokens(rows, dictionary.pad(), left_pad=False)
    return {**batch, "net_input": {**batch["net_input"], "src_tokens": source}}


def training(args: argparse.Namespace, device: Device, dictionary: Dictionary) -> Iterator[Row]:
    """Updates of all systems."""
    size = SIZES[args.size]
    systems = {
        name: Updates(model_of(size, dictionary, options), dictionary, device, bool(options))
        for name, options in SYSTEMS.items()
        if device.cuda or "varlen" not in name
    }
    for words, batch in args.cells:
        documents, theirs, ours = texts(args, dictionary, words, batch)
        made = {YARDSTICK: theirs, SENTENCES: ours}
        for name, updates in systems.items():
            batches = [updates.planned(one) for one in made.get(name, documents)]
            device.reset()
            row = outcome(partial(_speed, device, dictionary, updates, batches, args.seconds))
            yield {"part": "training", "system": name, "words": words, "batch": batch, **row}
            updates.optimizer.zero_grad()


def _speed(
    device: Device, dictionary: Dictionary, updates: Updates, batches: list[Batch], seconds: float
) -> Row:
    before = device.allocated()
    words = words_of(batches, dictionary)
    first = device.seconds(partial(updates.steps, batches))  # shapes that no batch had before
    rounds: list[float] = []
    while len(rounds) < 2 or sum(rounds) < seconds:
        rounds.append(device.seconds(partial(updates.steps, batches)))
    return {
        "words_per_second": words / statistics.median(rounds),
        "least": words / max(rounds),
        "most": words / min(rounds),
        "rounds": len(rounds),
        "updates": len(batches) * len(rounds),
        "first_words_per_second": words / first,
        # what only this system needs, of several that are there
        "gigabytes": device.allocated(most=True) - before + updates.gigabytes,
    }


def decoding(args: argparse.Namespace, device: Device, dictionary: Dictionary) -> Iterator[Row]:
    """Translating real documents, as documents and sentence by sentence."""
    lines = real_lines(args.documents, dictionary, args.document_count)
    sentences = [line for line in lines if line is not None]
    theirs, ours, gtrans = (
        device.model(model_of(SIZES[args.size], dictionary, options)).eval()
        for options in list(SYSTEMS.values())[:3]
    )
    write: dict[str, tuple[list[Any], Callable[..., int]]] = {
        YARDSTICK: (sentences, partial(write_stock, theirs)),
        SENTENCES: ([[sentence] for sentence in sentences], partial(write_ours, ours)),
        "G-Transformer": (documents_in(lines), partial(write_ours, gtrans)),
    }
    for rows, work in write.values():
        outcome(partial(_written, device, partial(work, dictionary, device, rows[:4], 4000, 4)))
    for tokens, most in args.decoding_batches:
        for name, (rows, work) in write.items():
            device.reset()
            all_rows = partial(work, dictionary, device, rows, tokens, most)
            about = {"sentences": len(sentences), "rows": len(rows)}
            about |= {"batch": tokens, "most_rows": most}
            row = outcome(partial(_written, device, all_rows))
            yield {"part": "decoding", "system": name, **about, **row}


def _written(device: Device, write: Callable[[], int]) -> Row:
    written: list[int] = []
    seconds = device.seconds(lambda: written.append(write()))
    return {"tokens": written[0], "seconds": seconds, "tokens_per_second": written[0] / seconds,
            "gigabytes": device.allocated(most=True)}  # fmt: skip


def write_ours(
    model: nn.Module, dictionary: Dictionary, device: Device, rows: list[list[Tensor]],
    tokens: int, most: int,
) -> int:  # fmt: skip
    """Translate as many rows at once as have ``tokens``, at most ``most``."""
    frame, written = marks_of(dictionary)[0], 0
    sources = [frame.source(row) for row in rows]
    for batch in make_batches([len(source) for source in sources], tokens, most):
        source = device.place(frame.pad_rows([sources[number] for number in batch]))
        words = [[len(sentence) - 1 for sentence in rows[number]] for number in batch]
        written += write_documents(model, dictionary, source, words)
    return written


def write_stock(
    model: nn.Module, dictionary: Dictionary, device: Device, sentences: list[Tensor],
    tokens: int, most: int,
) -> int:  # fmt: skip
    """Translate with fairseq's generator, every sentence as long as the longest of its batch."""
    sources = padded_sentences(sentences, dictionary, tokens, most)
    write = partial(write_sequences, model, dictionary)
    return sum(write(device.place(source), source.size(1) - 1) for source in sources)


def real_lines(path: Path | None, dictionary: Dictionary, most: int) -> list[Tensor | None]:
    """Sentences with the lengths of those of a text, an empty line between documents; no marks."""
    if path is None:
        text = documents_of(120, most, dictionary)
        lengths = [[len(source) for source, _ in document] for document in text]
    else:
        with gzip.open(path, "rt", encoding="utf-8") as file:
            blocks = file.read().strip("\n").split("\n\n")
        lengths = [[len(line.split()) for line in block.splitlines()] for block in blocks[:most]]
    draw = torch.Generator().manual_seed(1)
    end = torch.tensor([dictionary.eos()])
    found: list[Tensor | None] = []
    for document in lengths:
        for length in document:
            ids = torch.randint(dictionary.nspecial, len(dictionary), (length,), generator=draw)
            found.append(torch.cat([ids, end]))
        found.append(None)
    return found


def long_document(args: argparse.Namespace, device: Device, dictionary: Dictionary) -> Any:
    """One update on one document of very many words."""
    for name in ("G-Transformer, regroup", "G-Transformer, varlen", "document Transformer"):
        for words in args.long if device.cuda or "varlen" not in name else ():
            device.reset()
            model = model_of(SIZES[args.size], dictionary, SYSTEMS[name])
            updates = Updates(model, dictionary, device, ours=True)
            documents = documents_of(words, 1, dictionary)
            batch = updates.planned(document_batches(documents, dictionary, 1)[0])
            row = outcome(partial(_update, device, updates, batch))
            yield {"part": "long document", "system": name, "words": words, **row}
            del model, updates


def _update(device: Device, updates: Updates, batch: Batch) -> Row:
    updates.step(batch)
    device.reset()
    seconds = device.seconds(partial(updates.step, batch))
    return {"seconds": seconds, "gigabytes": device.allocated(most=True)}


def waits(args: argparse.Namespace, device: Device, dictionary: Dictionary) -> Iterator[Row]:
    """How often the host waits for the GPU, in a training update and in a decoding step.

    Without a GPU nothing is counted; tests/contract/test_host_waits.py pretends one.

    Raises:
        RuntimeError: there are more waits than there should be.
    """
    for name in ("G-Transformer, regroup", "G-Transformer, varlen") if device.cuda else ():
        model: Any = model_of(SIZES[args.size], dictionary, SYSTEMS[name])
        updates = Updates(model, dictionary, device, ours=True)
        documents = documents_of(64, 1, dictionary)
        batch = updates.planned(document_batches(documents, dictionary, 1)[0])
        on_device, source = device.place(batch), batch["net_input"]["src_tokens"]

        def passes(updates: Any = updates, batch: Any = on_device) -> None:
            updates.criterion(updates.model, batch)[0].backward()

        passes()
        training = _waits(passes)
        updates.model.eval()
        few, many = (_of_search(updates.model, dictionary, device.place(source), n) for n in (3, 7))
        # What the beginning and the end of a document cost is the same in both.
        of_step = (many[0] - few[0]) / (many[1] - few[1])
        found = {"forward and backward": training.total(), "a decoding step": of_step}
        yield {"part": "waits", "system": name, **found}
        for what, most in _MOST_WAITS.items():
            if found[what] > most:
                raise RuntimeError(f"{found[what]} waits of {what}, but at most {most}: {training}")


def _waits(work: Callable[[], object]) -> Counter[str]:
    torch.cuda.synchronize()
    with profile(activities=[ProfilerActivity.CPU, ProfilerActivity.CUDA]) as recorded:
        work()
    found = Counter(event.name for event in recorded.events() if event.name in _WAITS)
    # The profiler waits once itself when it ends.
    found["cudaDeviceSynchronize"] = max(found["cudaDeviceSynchronize"] - 1, 0)
    return found


def _of_search(model: Any, dictionary: Dictionary, source: Tensor, words: int) -> tuple[int, int]:
    """Waits and steps of a search that writes ``words`` words in every sentence."""
    count = int(source.eq(dictionary.eos()).sum())
    options = SearchOptions(beam=BEAM, max_len_a=0, max_len_b=words)
    search = DocumentSearch(marks_of(dictionary)[1], options)
    written = Endless(model, dictionary)

    def write() -> None:
        search.search([written], {"src_tokens": source}, [[words] * count])

    write()
    written.steps = 0
    return _waits(write).total(), written.steps


def measure(args: argparse.Namespace) -> Iterator[Row]:
    """Words per second and memory of updates and of beam search, cell by cell."""
    device = Device()
    if device.cuda:
        # cuDNN would prepare every new shape: a tenth of the speed until all have been seen.
        torch.backends.cuda.enable_cudnn_sdp(False)
    dictionary = dictionary_of(SIZES[args.size])
    for part in (training, decoding, long_document, waits):
        yield from part(args, device, dictionary)


def shown(rows: Rows) -> str:
    """Three tables: updates, beam search, a very long document."""
    of: dict[str, list[Row]] = {}
    for row in rows:
        if "failed" not in row or row["part"] == "training":
            of.setdefault(row["part"], []).append(row)
    updates = sorted(of.get("training", []), key=lambda row: (row["batch"], row["words"]))
    speed = {(it["words"], it["batch"], it["system"]): it.get("words_per_second") for it in updates}
    lines = []
    for row in updates:
        cells = [row["system"], f"{row['words']:,}", f"{row['batch']:,}"]
        if "failed" in row:
            lines.append([*cells, row["failed"], "", "", ""])
            continue
        per_second = row["words_per_second"]
        of_stock = speed.get((row["words"], row["batch"], YARDSTICK))
        ratio = f"{per_second / of_stock:.2f}" if of_stock else "–"
        hours = _UPDATES * 16_384 / per_second / 3600
        lines.append([*cells, _gib(row), f"{per_second:,.0f}", ratio, f"{hours:.1f}"])
    heads = ["model", "words of a document", "words of a batch", "GiB", "words a second",
             "of stock's", f"hours for {_UPDATES:,} x 16,384 words"]  # fmt: skip
    found = [table(heads, lines)] if lines else []
    if searches := of.get("decoding"):
        heads = ["beam search", "rows", "rows at once, at most", "tokens", "seconds"]
        found.append(table([*heads, "tokens a second"], [
            [row["system"], f"{row['rows']:,}", f"{row['most_rows']:,}", f"{row['tokens']:,}",
             f"{row['seconds']:.1f}", f"{row['tokens_per_second']:,.0f}"] for row in searches
        ]))  # fmt: skip
    if long := of.get("long document"):
        found.append(table(["one document", "words", "seconds of an update", "GiB"], [
            [row["system"], f"{row['words']:,}", f"{row['seconds']:.2f}", _gib(row)] for row in long
        ]))  # fmt: skip
    return "\n".join(found)


def _gib(row: Row) -> str:
    return f"{row['gigabytes']:.1f}" if row["gigabytes"] else "–"


GPU = Benchmark(
    title="On a GPU",
    text="Updates as `fairseq-train --bf16` makes them, alone on the GPU, the copy of each batch "
    "to it included; each cell at least {seconds} s after every batch has been seen once. Stock "
    "fairseq trains with its own loss and Adam, models of this project with "
    "`chunked_cross_entropy` and `fused_adam`. Memory is that of parameters, Adam and the "
    "largest update. Beam search: beam 5, documents and sentences with the lengths of real ones; "
    "untrained models write as many words as the source has (stock fairseq as many as the "
    "longest of the batch).",
    size="base",
    settings={"documents": None, "document_count": 200, "seconds": 1.5, "words": 98_304,
              "cells": [[512, 16384], [2048, 16384], [512, 65536], [2048, 65536]],
              "decoding_batches": [[256_000, 1024], [16_000, 234]], "long": [65_536]},
    toy={"document_count": 5, "seconds": 0.1, "words": 480, "cells": [[60, 120], [120, 240]],
         "decoding_batches": [[300, 4]], "long": [240]},
    measure=measure,
    table=shown,
    device="CUDA, bf16",
)  # fmt: skip
