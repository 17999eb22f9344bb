"""How many files one reads to follow a batch, a pass and a translation, next to stock fairseq.

    .venv/bin/python scripts/benchmarks/moves.py [--path CHECKPOINT --data FOLDER]

A *move* is a call whose caller and callee lie in different files of the package; the caller is the
nearest function below it that is of the package, so that torch between two modules hides none. It
counts G-Transformer with 2 + 2 layers: a batch of two documents from data set to tensors, a forward
and a backward pass over it, and the translation of a document by beam search; with ``--path`` also
the translation of two sentences of text by a checkpoint.
"""

from __future__ import annotations

import argparse
import sys
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from types import FrameType, SimpleNamespace
from typing import Any

import fairseq
import models
import numpy as np
import torch
from fairseq.criterions.label_smoothed_cross_entropy import LabelSmoothedCrossEntropyCriterion
from torch import Tensor

import gtrans
from gtrans.criterions.chunked_cross_entropy import ChunkedCrossEntropy
from gtrans.data.document_dataset import DocumentDataset
from gtrans.data.examples import ExampleBuilder
from gtrans.data.units import DocumentUnit, document_units
from gtrans.decoding.loading import import_plugin
from gtrans.decoding.translator import Translator

SIZE = models.Size(2, 64, 128, 4, 200)
WORDS = 60


class Moves:
    """A context that counts the moves between the files of a package."""

    def __init__(self, package: Any) -> None:
        self._root = f"{Path(package.__file__).parent}/"
        self.files: Counter[str] = Counter()
        self.count = 0

    def __enter__(self) -> Moves:
        sys.setprofile(self._see)
        return self

    def __exit__(self, *_: object) -> None:
        sys.setprofile(None)

    def _see(self, frame: FrameType, event: str, _: Any) -> None:
        called = frame.f_code.co_filename
        if event != "call" or not called.startswith(self._root):
            return
        self.files[called.removeprefix(self._root)] += 1
        caller = frame.f_back
        while caller is not None and not caller.f_code.co_filename.startswith(self._root):
            caller = caller.f_back
        self.count += caller is not None and caller.f_code.co_filename != called


class Lines(list[Tensor]):
    """Lines of a binarised corpus, in memory."""

    @property
    def sizes(self) -> Any:
        """``(lines,)`` tokens of each."""
        return np.array([len(line) for line in self])


def dataset_of(documents: list[models.Document], dictionary: Any) -> DocumentDataset:
    """The documents as a data set of whole documents."""
    end = torch.tensor([dictionary.eos()])
    sides = Lines(), Lines()
    for document in documents:
        for number, side in enumerate(sides):
            side += [torch.cat([pair[number], end]) for pair in document]
            side.append(end)
    examples = ExampleBuilder(models.marks_of(dictionary)[0], DocumentUnit(512))
    units = document_units(sides[0].sizes, sides[1].sizes, examples.unit, "text")
    return DocumentDataset(*sides, units, examples)


def main() -> None:
    """Count and print."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--path", metavar="CHECKPOINT", help="also translate text with this one")
    parser.add_argument("--data", metavar="FOLDER", help="the data that it was trained with")
    parser.add_argument("--files", action="store_true", help="also name the files")
    args = parser.parse_args()
    import_plugin()
    torch.set_num_threads(1)
    dictionary = models.dictionary_of(SIZE)
    documents = models.documents_of(WORDS, 2, dictionary)
    target = SimpleNamespace(target_dictionary=dictionary)
    layers = {f"{part}_global_layers": 1 for part in ("encoder", "decoder", "cross")}
    dataset = dataset_of(documents, dictionary)
    model = models.model_of(SIZE, dictionary, layers).train()
    stock = models.model_of(SIZE, dictionary, None).train()
    criterion = ChunkedCrossEntropy(target, label_smoothing=0.1)
    stock_criterion = LabelSmoothedCrossEntropyCriterion(target, False, 0.1)
    dataset.plan_batch = model.planner
    batch = dataset.collater([dataset[0], dataset[1]])
    sentences = models.sentence_batches(documents, dictionary, 500)[0]
    source, written = batch["net_input"]["src_tokens"][:1], batch["target"].size(1)
    lengths = [[len(sentence) + 1 for sentence, _ in documents[0]]]
    works: list[tuple[str, Any, Callable[[], object]]] = [
        ("a batch", gtrans, lambda: dataset.collater([dataset[0], dataset[1]])),
        ("forward, backward", gtrans, lambda: criterion(model, batch)[0].backward()),
        (
            "search",
            gtrans,
            lambda: models.write_documents(model.eval(), dictionary, source, lengths),
        ),
        ("forward, backward", fairseq, lambda: stock_criterion(stock, sentences)[0].backward()),
        (
            "search",
            fairseq,
            lambda: models.write_sequences(stock.eval(), dictionary, source, written),
        ),
    ]
    if args.path is not None:
        translator = Translator.load(args.path, data=args.data, cpu=True)
        works.append(
            ("text", gtrans, lambda: translator.translate([["the dog sleeps", "he runs"]]))
        )
    for name, package, work in works:
        with Moves(package) as moves:
            work()
        print(f"{package.__name__:8} {name:18} {len(moves.files):3} files {moves.count:6,} moves")
        if args.files:
            print("        ", ", ".join(sorted(moves.files)))


if __name__ == "__main__":
    main()
