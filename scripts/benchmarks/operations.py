"""Operations of torch in a step of beam search and in an update, next to stock fairseq.

Operations that are no views are counted, and how often the host waits for the device, on a
pretended GPU (:mod:`counting`): the time of a small step on a GPU is mainly the number of its
operations. Counts do not depend on the width of models. Untrained models write as many words as the
source has, stock fairseq as many as the longest of the batch.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable, Iterator
from typing import Any

import torch
from counting import OperationCounter, pretend
from measuring import Benchmark, Row
from models import GROUP_ONLY, SIZES, Setup, Trainer
from torch import Tensor

STOCK = "stock sentence Transformer"
# Name -> options of our model (None: stock fairseq), and whether it translates documents.
SYSTEMS: dict[str, tuple[dict[str, Any] | None, bool]] = {
    STOCK: (None, False),
    "gtrans sentence Transformer": ({"doc_mode": "full"}, False),
    "G-Transformer": ({}, True),
    "G-Transformer, group attention only": (dict(GROUP_ONLY), True),
    "document Transformer": ({"doc_mode": "full"}, True),
}


class StepCounter:
    """Counts calls of a function, which are the steps of a search."""

    def __init__(self, function: Callable[..., Any]) -> None:
        self.function = function
        self.count = 0

    def __call__(self, *arguments: Any, **named: Any) -> Any:
        """The result of the function."""
        self.count += 1
        return self.function(*arguments, **named)


def decoding(args: argparse.Namespace, setup: Setup) -> Iterator[Row]:
    """Operations of a step, the beginning and the end of the search included."""
    documents = setup.sources(args.words, args.documents)
    sentences = [[sentence] for document in documents for sentence in document]
    operations_of_stock = 0.0
    for name, (options, by_document) in SYSTEMS.items():
        model = setup.model(options).eval()
        text = documents if by_document else sentences
        if options is None:
            step = model.decoder.forward = StepCounter(model.decoder.forward)
            write: Callable[..., int] = setup.by_sentence
        else:
            step = model.decode_step = StepCounter(model.decode_step)
            write = setup.by_document
        with OperationCounter():
            pretend(model)
        with OperationCounter() as counter:
            write(model, text, args.tokens, None, pretend)
        per_step = counter.count / step.count
        if options is None:
            operations_of_stock = per_step
        yield {
            "part": "decoding",
            "system": name,
            "rows": len(text),
            "steps": step.count,
            "operations_per_step": per_step,
            "of_stock": per_step / operations_of_stock,
            "waits": counter.waits,
            "waits_per_step": counter.waits / step.count,
            "hypotheses": 5 * len(text),
        }


def training(args: argparse.Namespace, setup: Setup) -> Iterator[Row]:
    """Operations of forward, loss and backward, on the CPU; waits on a pretended GPU."""
    text = setup.documents(args.words, args.documents)
    words = args.words * args.documents
    operations_of_stock = 0.0
    for name, (options, by_document) in SYSTEMS.items():
        model = setup.model(options)
        ours = options is not None
        trainer = Trainer(setup, model, ours=ours)
        if by_document:
            (batch,) = setup.document_batches(text, words)
        else:
            (batch,) = setup.sentence_batches(text, 2 * words, 1, left_pad=not ours)

        def losses(trainer: Trainer = trainer, batch: Any = batch) -> None:
            loss: Tensor = trainer.criterion(trainer.model, batch)[0]
            loss.backward()

        if ours:
            batch["net_input"]["plan"] = model.planner.batch(batch["net_input"])
        with OperationCounter(on_host=True) as counter:
            losses()
        if not ours:
            operations_of_stock = counter.count
        row = {"part": "training", "system": name, "operations": counter.count}
        row["of_stock"] = counter.count / operations_of_stock
        if ours:
            with OperationCounter():
                pretend(model)
            with OperationCounter() as waiting:
                losses(batch=pretend(batch))
            row["waits"] = waiting.waits
        yield row


def measure(args: argparse.Namespace) -> Iterator[Row]:
    """Operations that are no views, and waits of the host, of every system."""
    torch.manual_seed(1)
    setup = Setup(SIZES[args.size])
    for part in (decoding, training):
        yield from part(args, setup)


OPERATIONS = Benchmark(
    size="toy",
    settings={"words": 120, "documents": 12, "tokens": 100_000},
    toy={"words": 60, "documents": 3},
    measure=measure,
    device="pretended GPU",
)
