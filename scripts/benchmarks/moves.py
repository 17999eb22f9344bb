"""How many files one reads to follow a batch, a pass and a translation, next to stock fairseq.

    .venv/bin/python scripts/benchmarks/moves.py

A *move* is a call whose caller and callee lie in different files of the package; the caller is the
nearest function below it that is of the package, so that torch between two modules hides none. It
counts G-Transformer with 2 + 2 layers: a batch of two documents from data set to tensors, a forward
and a backward pass over it, and the translation of a document by beam search.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path
from types import FrameType
from typing import Any

import fairseq
import models
import numpy as np
import torch
from torch import Tensor

import gtrans
from gtrans.data.document_dataset import DocumentDataset
from gtrans.data.units import document_units
from gtrans.translating.loading import import_plugin

SETUP = models.Setup(models.Size(2, 64, 128, 4, 200))
WORDS = 60


def moves(package: Any, work: Callable[[], object]) -> tuple[set[str], int]:
    """The files of a package that ``work`` goes through, and the moves between them."""
    root = f"{Path(package.__file__).parent}/"
    files: set[str] = set()
    count = 0

    def see(frame: FrameType, event: str, _: Any) -> None:
        nonlocal count
        callee = frame.f_code.co_filename
        if event != "call" or not callee.startswith(root):
            return
        files.add(callee.removeprefix(root))
        caller = frame.f_back
        while caller is not None and not caller.f_code.co_filename.startswith(root):
            caller = caller.f_back
        count += caller is not None and caller.f_code.co_filename != callee

    sys.setprofile(see)
    work()
    sys.setprofile(None)
    return files, count


class Lines(list[Tensor]):
    """Lines of a binarised corpus, in memory."""

    @property
    def sizes(self) -> Any:
        """``(lines,)`` tokens of each."""
        return np.array([len(line) for line in self])


def dataset_of(documents: list[models.Document]) -> DocumentDataset:
    """The documents as a data set of whole documents."""
    sides = Lines(), Lines()
    for document in documents:
        for side, sentences in zip(sides, zip(*document, strict=True), strict=True):
            side += [*sentences, torch.tensor([SETUP.dictionary.eos()])]
    examples = SETUP.examples
    units = document_units(sides[0].sizes, sides[1].sizes, examples.unit, "text")
    return DocumentDataset(*sides, units, examples)


def main() -> None:
    """Count and print."""
    import_plugin()
    torch.set_num_threads(1)
    documents = SETUP.documents(WORDS, 2)
    layers = {f"{part}_global_layers": 1 for part in ("encoder", "decoder", "cross")}
    ours, theirs = (
        models.Trainer(SETUP, SETUP.model(options), ours=bool(options))
        for options in (layers, None)
    )
    dataset = dataset_of(documents)
    dataset.plan_batch = ours.model.planner
    batch = dataset.collater([dataset[0], dataset[1]])
    sentences = SETUP.sentence_batches(documents, 500)[0]
    source, written = batch["net_input"]["src_tokens"][:1], batch["target"].size(1)
    lengths = [[len(sentence) for sentence, _ in documents[0]]]

    def search() -> None:
        SETUP.write_documents(ours.model.eval(), source, lengths)

    def search_of_stock() -> None:
        SETUP.write_sequences(theirs.model.eval(), source, written)

    works: list[tuple[str, Any, Callable[[], object]]] = [
        ("a batch", gtrans, lambda: dataset.collater([dataset[0], dataset[1]])),
        ("forward, backward", gtrans, lambda: ours.criterion(ours.model, batch)[0].backward()),
        ("search", gtrans, search),
        (
            "forward, backward",
            fairseq,
            lambda: theirs.criterion(theirs.model, sentences)[0].backward(),
        ),
        ("search", fairseq, search_of_stock),
    ]
    for name, package, work in works:
        files, count = moves(package, work)
        print(f"{package.__name__:8} {name:18} {len(files):3} files {count:6,} moves")


if __name__ == "__main__":
    main()
