"""What a GPU does in a second: training and decoding of base size, next to stock fairseq.

Cells come in the order of their value, so that a cut leaves a table. On the CPU (``--device cpu
--size toy``) the same cells run at small sizes, as a try.
"""

from __future__ import annotations

import argparse
import gzip
import statistics
from collections.abc import Callable, Iterator, Mapping
from functools import partial
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import measuring
import torch
from documents import (
    Batch,
    Document,
    dictionary_of,
    document_batches,
    documents_of,
    sentence_batches,
    words_of,
)
from fairseq.criterions.label_smoothed_cross_entropy import LabelSmoothedCrossEntropyCriterion
from fairseq.data import Dictionary, data_utils
from fairseq.optim.adam import FairseqAdamConfig
from fairseq.optim.fp16_optimizer import FP16Optimizer
from measuring import Device, Size
from omegaconf import OmegaConf
from report import Benchmark, Row, Rows, table
from systems import BEAM, gtransformer, stock, write_sequences
from torch import Tensor, nn
from whole_set import documents_in, write_documents

from gtrans.criterions.chunked_cross_entropy import ChunkedCrossEntropy
from gtrans.decoding.translator import make_batches
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
# Words of a document and of a batch, the most telling first.
CELLS = [(512, 16384), (2048, 16384), (512, 65536), (2048, 65536)]
MORE_CELLS = [(8192, 16384), (8192, 65536), (1024, 16384), (1024, 65536)]
TOY_CELLS = [(60, 120), (120, 240)]
_UPDATES = 100_000


class Updates:
    """Updates as ``fairseq-train --bf16`` makes them, the copy of the batch to the GPU included.

    Args:
        model, dictionary, device: of the system.
        ours: a model of this project, with the loss and the optimizer of its configurations.
    """

    def __init__(self, model: Any, dictionary: Dictionary, device: Device, ours: bool) -> None:
        before = torch.cuda.memory_allocated() if device.name == "cuda" else 0
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

        self.gigabytes = 0.0  # of parameters and the state of Adam
        if device.name == "cuda":
            small = documents_of(32, 1, dictionary)
            self.step(self.planned(document_batches(small, dictionary, 1)[0]))
            self.gigabytes = (torch.cuda.memory_allocated() - before) / 2**30

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


def reset(device: Device) -> None:
    """Forget peaks, and memory that no tensor needs."""
    if device.name == "cuda":
        torch.cuda.empty_cache()
        torch.cuda.reset_peak_memory_stats()


def gigabytes(device: Device) -> float | None:
    """The most that tensors needed since :func:`reset`; None on the CPU."""
    return torch.cuda.max_memory_allocated() / 2**30 if device.name == "cuda" else None


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


def training(
    args: argparse.Namespace, device: Device, dictionary: Dictionary, more: bool = False
) -> Iterator[Row]:
    """Updates of all systems."""
    systems = {
        name: Updates(_model(args.size, dictionary, options), dictionary, device, bool(options))
        for name, options in SYSTEMS.items()
        if device.name == "cuda" or "varlen" not in name
    }
    for words, batch in args.more_cells if more else args.cells:
        documents, theirs, ours = texts(args, dictionary, words, batch)
        made = {YARDSTICK: theirs, SENTENCES: ours}
        cells = {
            name: [updates.planned(one) for one in made.get(name, documents)]
            for name, updates in systems.items()
        }
        for name, batches in cells.items():
            reset(device)
            of = device, dictionary, systems[name], batches, args.seconds
            row = outcome(partial(_speed, *of))
            yield {"part": "training", "system": name, "words": words, "batch": batch, **row}
            systems[name].optimizer.zero_grad()


def _model(size: Size, dictionary: Dictionary, options: Mapping[str, Any] | None) -> nn.Module:
    if options is None:
        return stock(size, dictionary)
    model: nn.Module = gtransformer(size, dictionary, **options)
    return model


def _speed(
    device: Device, dictionary: Dictionary, updates: Updates, batches: list[Batch], seconds: float
) -> Row:
    before = torch.cuda.memory_allocated() / 2**30 if device.name == "cuda" else 0.0
    words = words_of(batches, dictionary)
    first = device.seconds(partial(updates.steps, batches))  # shapes that no batch had before
    rounds: list[float] = []
    while len(rounds) < 2 or sum(rounds) < seconds:
        rounds.append(device.seconds(partial(updates.steps, batches)))
    peak = gigabytes(device)
    return {
        "words_per_second": words / statistics.median(rounds),
        "least": words / max(rounds),
        "most": words / min(rounds),
        "updates": len(batches) * len(rounds),
        "first_words_per_second": words / first,
        # what only this system needs, of several that are there
        "gigabytes": None if peak is None else peak - before + updates.gigabytes,
    }


def decoding(args: argparse.Namespace, device: Device, dictionary: Dictionary) -> Iterator[Row]:
    """Translating real documents, as documents and sentence by sentence."""
    lines = real_lines(args.documents, dictionary, args.document_count)
    sentences = [line for line in lines if line is not None]
    theirs, ours, gtrans = (
        device.model(_model(args.size, dictionary, options)).eval()
        for options in list(SYSTEMS.values())[:3]
    )
    write: dict[str, tuple[list[Any], Callable[..., int]]] = {
        YARDSTICK: (sentences, partial(write_stock, theirs)),
        SENTENCES: ([[sentence] for sentence in sentences], partial(write_ours, ours)),
        "G-Transformer": (documents_in(lines), partial(write_ours, gtrans)),
    }
    for rows, work in write.values():
        few = partial(work, dictionary, device.place, rows[:4], 4000, 4)
        outcome(partial(_written, device, few))
    for tokens, most in args.decoding_batches:
        for name, (rows, work) in write.items():
            reset(device)
            all_rows = partial(work, dictionary, device.place, rows, tokens, most)
            about = {"sentences": len(sentences), "rows": len(rows)}
            about |= {"batch": tokens, "most_rows": most}
            row = outcome(partial(_written, device, all_rows))
            yield {"part": "decoding", "system": name, **about, **row}


def _written(device: Device, write: Callable[[], int]) -> Row:
    begin = device.now()
    written = write()
    seconds = device.now() - begin
    return {"tokens": written, "seconds": seconds, "tokens_per_second": written / seconds,
            "gigabytes": gigabytes(device)}  # fmt: skip


def write_ours(
    model: nn.Module, dictionary: Dictionary, place: Any, rows: list[list[Tensor]], tokens: int,
    most: int,
) -> int:  # fmt: skip
    """Translate as many rows at once as have ``tokens``, at most ``most``."""
    return write_documents(model, dictionary, rows, tokens, place, most)


def write_stock(
    model: nn.Module, dictionary: Dictionary, place: Any, sentences: list[Tensor], tokens: int,
    most: int,
) -> int:  # fmt: skip
    """Translate with fairseq's generator, every sentence as long as the longest of its batch."""
    written = 0
    for batch in make_batches([len(sentence) for sentence in sentences], tokens, most):
        rows = [sentences[number] for number in batch]
        source = place(data_utils.collate_tokens(rows, dictionary.pad(), left_pad=True))
        written += write_sequences(model, dictionary, source, source.size(1) - 1, BEAM)
    return written


def real_lines(path: Path | None, dictionary: Dictionary, most: int) -> list[Tensor | None]:
    """Sentences with the lengths of those of a text, an empty line between documents; no marks."""
    if path is None:
        text: list[Document] = documents_of(120, most, dictionary)
        lengths = [[len(source) for source, _ in document] for document in text]
    else:
        with gzip.open(path, "rt", encoding="utf-8") as file:
            blocks = file.read().strip("\n").split("\n\n")
        lengths = [[len(line.split()) for line in block.splitlines()] for block in blocks[:most]]
    draw = torch.Generator().manual_seed(1)
    found: list[Tensor | None] = []
    for document in lengths:
        for length in document:
            ids = torch.randint(dictionary.nspecial, len(dictionary), (length,), generator=draw)
            found.append(torch.cat([ids, torch.tensor([dictionary.eos()])]))
        found.append(None)
    return found


def long_document(
    args: argparse.Namespace, device: Device, dictionary: Dictionary
) -> Iterator[Row]:
    """One update on one document of very many words."""
    for name in ("G-Transformer, regroup", "G-Transformer, varlen", "document Transformer"):
        if device.name == "cpu" and "varlen" in name:
            continue
        for words in args.long:
            reset(device)
            model = _model(args.size, dictionary, SYSTEMS[name])
            updates = Updates(model, dictionary, device, ours=True)
            documents = documents_of(words, 1, dictionary)
            batch = updates.planned(document_batches(documents, dictionary, 1)[0])
            row = outcome(partial(_update, device, updates, batch))
            yield {"part": "long document", "system": name, "words": words, **row}
            del model, updates


def _update(device: Device, updates: Updates, batch: Batch) -> Row:
    updates.step(batch)
    reset(device)
    seconds = device.seconds(partial(updates.step, batch))
    return {"seconds": seconds, "gigabytes": gigabytes(device)}


PARTS: dict[str, Callable[..., Iterator[Row]]] = {
    "training": training,
    "decoding": decoding,
    "long": long_document,
    "more": partial(training, more=True),
}


def measure(args: argparse.Namespace, device: Device) -> Iterator[Row]:
    """Words per second and memory of updates and of beam search, cell by cell."""
    toy = args.size == measuring.SIZES[measuring.TOY]
    args.cells, args.more_cells = (TOY_CELLS, TOY_CELLS[:1]) if toy else (CELLS, MORE_CELLS)
    args.words = 480 if toy else 98_304
    args.decoding_batches = [(300, 4)] if toy else [(256_000, 1024), (16_000, 234)]
    args.long = [240] if toy else [65_536]
    if device.name == "cuda":
        # cuDNN would prepare every new shape: a tenth of the speed until all have been seen.
        torch.backends.cuda.enable_cudnn_sdp(False)
    dictionary = dictionary_of(args.size)
    for part in args.parts:
        yield from PARTS[part](args, device, dictionary)


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
    return "–" if row["gigabytes"] is None else f"{row['gigabytes']:.1f}"


def add_options(parser: argparse.ArgumentParser) -> None:
    """Options of this benchmark alone."""
    add = parser.add_argument
    add(
        "--documents",
        type=Path,
        metavar="FILE",
        help="gzipped text whose sentence lengths are decoded, an empty line between documents "
        "(default: made-up lengths)",
    )
    add(
        "--document-count",
        type=int,
        default=200,
        metavar="N",
        help="only the first N of them (default: %(default)s)",
    )
    add(
        "--seconds",
        type=float,
        default=1.5,
        metavar="N",
        help="least time of a cell (default: %(default)s)",
    )
    add(
        "--parts",
        nargs="+",
        choices=list(PARTS),
        default=list(PARTS),
        metavar="PART",
        help=f"{', '.join(PARTS)} (default: all, in this order)",
    )


BENCHMARK = Benchmark(
    name="gpu",
    title="On a GPU",
    text="Updates as `fairseq-train --bf16` makes them, alone on the GPU, the copy of each batch "
    "to it included; each cell at least {seconds} s after every batch has been seen once. Stock "
    "fairseq trains with its own loss and Adam, models of this project with "
    "`chunked_cross_entropy` and `fused_adam`. Memory is that of parameters, Adam and the "
    "largest update. Beam search: beam 5, documents and sentences with the lengths of real ones; "
    "untrained models write as many words as the source has (stock fairseq as many as the "
    "longest of the batch).",
    size="base",
    devices=("cpu", "cuda-bf16"),
    rounds=None,
    measure=measure,
    table=shown,
    add_options=add_options,
)
