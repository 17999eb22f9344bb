"""Streams of made-up documents, and a task that is trained on them."""

from __future__ import annotations

from functools import partial
from typing import Any

import numpy as np
import torch
from omegaconf import OmegaConf
from torch import Tensor

from gtrans.data.stream import StreamDataset, StreamOptions
from gtrans.data.units import document_units
from gtrans.models.gtransformer_memory import GTransformerMemoryConfig
from gtrans.models.memory_transformer import MemoryTransformerConfig
from gtrans.modules.memory import MemoryFlow
from support.untrained import task_for

COUNTS = [3, 7, 1, 12, 5, 2, 9, 4]


class Lines(list[Tensor]):
    """An indexed dataset of lines."""

    @property
    def sizes(self) -> Any:
        return np.array([len(line) for line in self], np.int64)


def stream_task(steps: str) -> Any:
    """A task for streams of these steps; chunks have one to three sentences."""
    task = task_for("stream")
    task.cfg.stream_of, task.cfg.max_doc_tokens = steps, 10
    return task


def dataset_of(
    least: int = 2,
    most: int = 4,
    counts: list[int] = COUNTS,
    steps: str = "sentences",
) -> StreamDataset:
    draw = torch.Generator().manual_seed(4)
    lines = Lines()
    for count in counts:
        for _ in range(count):
            size = int(torch.randint(1, 5, (1,), generator=draw))
            words = torch.randint(4, 9, (size,), generator=draw)
            lines.append(torch.cat([words, torch.tensor([2])]))
        lines.append(torch.tensor([2]))
    examples = stream_task(steps).examples
    units = document_units(lines.sizes, lines.sizes, examples.unit, "text")
    options = StreamOptions(least, most)
    return StreamDataset(lines, lines, units, examples, options=options)


class Criterion(torch.nn.Module):
    """Notes the memory that enters each batch."""

    def __init__(self) -> None:
        super().__init__()
        self.seen: list[MemoryFlow | None] = []
        self.fail = False

    def forward(self, model: Any, sample: dict[str, Any]) -> tuple[Tensor, int, dict[str, Any]]:
        logits, _ = model(**sample["net_input"])
        if self.fail:
            raise RuntimeError("out of memory")
        self.seen.append(sample["net_input"].get("memory"))
        return logits[sample["target"].ne(1)].sum(), 1, {}


class Optimizer:
    """Only what a step asks of it."""

    def backward(self, loss: Tensor) -> None:
        loss.backward()


MODELS: dict[str, Any] = {
    "sentences": (MemoryTransformerConfig, "memory_transformer"),
    "instances": (
        partial(
            GTransformerMemoryConfig, memory_output="residual", encoder_global_layers=1,
            decoder_global_layers=1, cross_global_layers=1,
        ),
        "gtransformer_memory",
    ),
}  # fmt: skip


class World:
    """A task in training, document after document."""

    def __init__(
        self, least: int = 2, most: int = 3, steps: str = "sentences", **options_of_model: Any
    ) -> None:
        self.task = stream_task(steps)
        options = self.task.cfg
        options.train_subset, options.seed, options.update_freq = "train", 1, [1]
        self.dataset = dataset_of(least, most, steps=steps)
        self.task.datasets["train"] = self.dataset
        torch.manual_seed(1)
        kind, name = MODELS[steps]
        cfg = kind(
            encoder_layers=1, decoder_layers=1, encoder_embed_dim=8, encoder_ffn_embed_dim=8,
            decoder_ffn_embed_dim=8, encoder_attention_heads=1, decoder_attention_heads=1,
            dropout=0.0, **options_of_model,
        )  # fmt: skip
        cfg._name = name
        self.model = self.task.build_model(OmegaConf.structured(cfg))
        self.criterion = Criterion()
        indices = self.dataset.batch_by_size(np.arange(len(COUNTS)), max_sentences=2)
        self.batches = [self.dataset.collater([self.dataset[i] for i in b]) for b in indices]
        self.task.begin_epoch(1, self.model)

    def step(self, number: int, update: int | None = None, **options: Any) -> None:
        update = number if update is None else update
        self.task.train_step(
            self.batches[number], self.model, self.criterion, Optimizer(), update, **options
        )

    def entering(self) -> Tensor | None:
        """What entered the last batch."""
        flow = self.criterion.seen[-1]
        assert flow is not None
        return flow.entering
