"""What the training text costs a process: memory by its size, and time to form batches."""

from __future__ import annotations

import argparse
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import torch
from documents import dictionary_of
from fairseq.data import Dictionary, indexed_dataset
from measuring import Device, Size, in_own_process
from report import Benchmark, Row, Rows, table
from systems import document_task

_SENTENCES = 20  # of a document
_WORDS = 25  # of a sentence, on average


def measure(args: argparse.Namespace, device: Device) -> Iterator[Row]:
    """Memory and time of a text of every size, each in a process of its own."""
    for count in args.sentences:
        with tempfile.TemporaryDirectory() as folder:
            written = in_own_process(write, args.size, Path(folder), count)
            found = in_own_process(load, args.size, Path(folder), args.batches)
        yield {"sentences": count, "bytes_per_word": written, **found}


def write(size: Size, folder: Path, count: int) -> float:
    """Write a binarised text of ``count`` sentence pairs; bytes of a word on disk."""
    dictionary, draw = dictionary_of(size), np.random.default_rng(1)
    for lang in ("en", "de"):
        dictionary.save(str(folder / f"dict.{lang}.txt"))
        stem = folder / f"train.en-de.{lang}"
        builder = indexed_dataset.make_builder(f"{stem}.bin", "mmap", len(dictionary))
        words = 0
        for number in range(count):
            length = int(draw.integers(1, 2 * _WORDS))
            words += length
            ids = draw.integers(dictionary.nspecial, len(dictionary), length)
            builder.add_item(torch.from_numpy(np.append(ids, dictionary.eos())))
            if (number + 1) % _SENTENCES == 0:  # the empty line between documents
                builder.add_item(torch.tensor([dictionary.eos()]))
        builder.finalize(f"{stem}.idx")
    return sum(path.stat().st_size for path in folder.glob(f"{stem.name}.*")) / words


def load(size: Size, folder: Path, batches: int) -> dict[str, Any]:
    """Load the text as documents and form ``batches`` batches of 4,096 tokens."""
    task = document_task(
        *(Dictionary.load(str(folder / f"dict.{lang}.txt")) for lang in ("en", "de")),
        data=str(folder), unit="document", source_lang="en", target_lang="de",
        train_subset="train", seed=1, dataset_impl="mmap", update_freq=[1],
    )  # fmt: skip
    before, begin = _anonymous(), time.process_time()
    task.load_dataset("train")
    dataset = task.dataset("train")
    seconds, memory = time.process_time() - begin, _anonymous() - before
    iterator = task.get_batch_iterator(dataset, max_tokens=4096, seed=1, num_workers=0)
    epoch = iterator.next_epoch_itr(shuffle=True)
    begin, words = time.process_time(), 0
    for _, batch in zip(range(batches), epoch, strict=False):
        words += int(batch["ntokens"])
    return {
        "load_seconds": seconds,
        "megabytes": memory / 2**20,
        "words_per_second": words / (time.process_time() - begin),
    }


def _anonymous() -> int:
    """Bytes of this process that are no file's; Linux only."""
    lines = Path("/proc/self/status").read_text(encoding="utf-8").splitlines()
    (line,) = (x for x in lines if x.startswith("RssAnon:"))
    return int(line.split()[1]) * 1024


def add_options(parser: argparse.ArgumentParser) -> None:
    """Options of this benchmark alone."""
    parser.add_argument(
        "--sentences", type=int, nargs="+", default=[50_000, 500_000], metavar="N",
        help="sentence pairs of the text (default: %(default)s)",
    )  # fmt: skip
    parser.add_argument(
        "--batches", type=int, default=40, metavar="N",
        help="batches that are formed (default: %(default)s)",
    )  # fmt: skip


def shown(rows: Rows) -> str:
    """The table: a line for every size of the text."""
    heads = ["sentence pairs", "bytes of a word on disk", "loading, CPU seconds", "memory, MB",
             "words per CPU second in batches"]  # fmt: skip
    lines = [
        [
            f"{row['sentences']:,}", f"{row['bytes_per_word']:.2f}", f"{row['load_seconds']:.1f}",
            f"{row['megabytes']:,.0f}", f"{row['words_per_second']:,.0f}",
        ]
        for row in rows
    ]  # fmt: skip
    return table(heads, lines)


BENCHMARK = Benchmark(
    name="loading",
    title="Loading of text",
    text="A generated text, binarised as `fairseq-preprocess` does, with documents of 20 sentences "
    "of 25 words on average, loaded as documents by the task. The text itself stays in its file, "
    "which is mapped into memory and shared by all processes of a machine; memory here is what a "
    "process holds besides, for one text of both sides. Then batches of 4,096 tokens are formed "
    "in that process, {batches} of them.",
    size="narrow",
    devices=("cpu",),
    rounds=None,
    measure=measure,
    table=shown,
    add_options=add_options,
)
