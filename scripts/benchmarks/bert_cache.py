"""Time of an epoch with BERT's output from the cache, compared with computing it every time.

Runs a BERT-context Transformer, forward and backward, on some batches of a data folder made by
`gtrans prepare --bert`. There are three variants: BERT's output is computed for every batch, is
read from the cache on disk, or is in memory already.
"""

from __future__ import annotations

import argparse
import statistics
import tempfile
from collections.abc import Iterator, Mapping
from functools import partial
from pathlib import Path
from typing import Any

import torch
from fairseq import tasks
from measuring import Device, ratio, take_turns
from omegaconf import OmegaConf, open_dict
from report import Benchmark, Row, Rows, table
from systems import options_of

COMPUTED, CACHED, IN_MEMORY = "computed every time", "from the cache", "in memory already"
Sample = Mapping[str, Any]


class Epoch:
    """Some batches of a training set, in each of the three variants."""

    def __init__(self, args: argparse.Namespace, cache: Path) -> None:
        self.task = _task(str(args.data), cache)
        torch.manual_seed(1)
        options = options_of("bert_context_transformer_base", args.size)
        self.model = self.task.build_model(options).train()
        self.task.load_dataset("train")  # after the model, which says what it reads
        self.pad = self.task.target_dictionary.pad()
        dataset = self.task.dataset("train")
        batches = dataset.batch_by_size(dataset.ordered_indices(), max_tokens=args.max_tokens)
        chosen = batches[:: max(len(batches) // args.batches, 1)][: args.batches]
        self.samples = [dataset.collater([dataset[int(i)] for i in batch]) for batch in chosen]
        for sample in self.samples:
            self.task.complete_input(sample["net_input"])
        self.task.bert.flush()
        self.in_memory = [self.task.complete_input(sample["net_input"]) for sample in self.samples]

    def computed(self) -> None:
        """BERT computes every batch."""
        for sample in self.samples:
            found = dict(sample["net_input"])
            rows = [row[row.ne(1)] for row in found.pop("word_pieces")]
            states = self.task.bert.frozen(rows, torch.device("cpu"))
            found["context_states"] = torch.cat(states).float()
            found["context_lengths"] = torch.tensor([len(row) for row in rows])
            self._step(found, sample)

    def cached(self) -> None:
        """BERT's output is read from the cache on disk."""
        for sample in self.samples:
            self._step(self.task.complete_input(sample["net_input"]), sample)

    def from_memory(self) -> None:
        """BERT's output is in memory."""
        for sample, net_input in zip(self.samples, self.in_memory, strict=True):
            self._step(net_input, sample)

    def _step(self, net_input: Mapping[str, Any], sample: Sample) -> None:
        """Forward and backward of one batch."""
        self.model.zero_grad()
        logits = self.model(**net_input)[0]
        loss = torch.nn.functional.cross_entropy(
            logits.flatten(0, 1), sample["target"].flatten(), ignore_index=self.pad
        )
        loss.backward()  # type: ignore[no-untyped-call]

    @property
    def word_pieces(self) -> int:
        """Number of word pieces in all batches; padding is 1."""
        return sum(int(sample["net_input"]["word_pieces"].ne(1).sum()) for sample in self.samples)


def _task(data: str, cache: Path) -> Any:
    """The task as fairseq-train sets it up."""
    cfg = OmegaConf.structured(tasks.TASK_DATACLASS_REGISTRY["document_translation"])
    with open_dict(cfg):
        cfg.update(
            data=data, unit="window", bert_cache=str(cache), dataset_impl="mmap", seed=1,
            train_subset="train",
        )  # fmt: skip
    return tasks.TASK_REGISTRY["document_translation"].setup_task(cfg)


def measure(args: argparse.Namespace, device: Device) -> Iterator[Row]:
    """Seconds of each variant, and their ratio to the variant with BERT's output in memory."""
    with tempfile.TemporaryDirectory() as folder:
        epoch = Epoch(args, Path(folder))
        variants = {COMPUTED: epoch.computed, CACHED: epoch.cached, IN_MEMORY: epoch.from_memory}
        epoch.from_memory()  # warm-up
        seconds = take_turns(
            {name: partial(device.seconds, run) for name, run in variants.items()}, args.rounds
        )
    facts = {
        "batches": len(epoch.samples),
        "word_pieces": epoch.word_pieces,
        "bert_width": epoch.task.bert.frozen.dim,
    }
    for name, times in seconds.items():
        yield {
            "system": name,
            "seconds": statistics.median(times),
            "times_memory": ratio(times, seconds[IN_MEMORY]),
            **facts,
        }


def shown(rows: Rows) -> str:
    """The table."""
    return table(
        ["BERT's output", "seconds", "times that in memory"],
        [[r["system"], f"{r['seconds']:.2f}", f"{r['times_memory']:.2f}"] for r in rows],
    )


def add_options(parser: argparse.ArgumentParser) -> None:
    """Options of this benchmark alone."""
    parser.add_argument(
        "--data", type=Path, required=True, metavar="DIR",
        help="folder made by `gtrans prepare --bert`",
    )  # fmt: skip
    for flag, default, meaning in (
        ("--batches", 20, "batches of a round"), ("--max-tokens", 2000, "tokens of a batch"),
    ):  # fmt: skip
        parser.add_argument(
            flag, type=int, default=default, metavar="N", help=f"{meaning} (default: %(default)s)"
        )


BENCHMARK = Benchmark(
    name="bert-cache",
    title="BERT's output from the cache",
    text="Forward and backward of {batches} batches of {max_tokens} tokens with "
    "`bert_context_transformer`: BERT computes its output every time, it is read from "
    "`--bert-cache`, or stands in memory already.",
    size="context-base",
    devices=("cpu",),
    measure=measure,
    table=shown,
    add_options=add_options,
)
