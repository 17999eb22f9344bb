"""Models that turn the lines of a text into their translations, batch after batch."""

from __future__ import annotations

from argparse import Namespace
from collections.abc import Callable, Sequence
from dataclasses import asdict
from typing import Any, NamedTuple

import torch
from torch import Tensor
from tqdm import tqdm

from gtrans.data.documents import DOCUMENT_LINE
from gtrans.data.examples import Example
from gtrans.decoding.batching import make_batches
from gtrans.decoding.part_search import FinishedParts
from gtrans.decoding.search_options import SearchOptions
from gtrans.text.carried_preparation import Preparation
from gtrans.text.plain_text import PLACEHOLDER


class Sentence(NamedTuple):
    """The ids of a sentence with its end symbol, and its word pieces if a BERT reads them."""

    ids: Tensor
    word_pieces: Tensor | None


Line = Sentence | str
"""A line of a text: a sentence, or the text of a boundary."""


def lines_of_text(task: Any, text: Sequence[str]) -> list[Line]:
    """The lines of a text as tokens of ``task``; boundaries of documents stay text."""
    encoder = task.source_encoder()

    def encode(line: str) -> Line:
        if line in ("", DOCUMENT_LINE):
            return line
        ids: Tensor = task.source_dictionary.encode_line(
            encoder.encode(line), add_if_not_exist=False
        )
        pieces = task.word_pieces([line])
        return Sentence(ids.long(), pieces and pieces[0])

    return [encode(line) for line in tqdm(text, "reading", unit=" lines", disable=None)]


def lines_of_dataset(dataset: Any) -> list[Line]:
    """The lines of a :class:`gtrans.data.document_dataset.DocumentDataset`."""
    source, pieces = dataset.source, dataset.word_pieces
    lines = (
        Sentence(source[number].long(), None if pieces is None else pieces[number].long())
        for number in range(len(source))
    )
    return [line if line.ids.numel() > 1 else "" for line in lines]


class Translator:
    """Models, and the step that turns their output into text.

    Attributes:
        task: the task of the models.
        text_of_pieces: turns the pieces of a sentence into text.
        preparation: digest of the preparation of the task's data folder, if it has one.
        device: that of the models.
        generator: the search.
        free: documents are decoded as one sequence.
        examples: builder of rows and batches.
    """

    def __init__(
        self,
        models: list[Any],
        task: Any,
        text_of_pieces: Callable[[str], str],
        search: SearchOptions,
    ) -> None:
        self.task = task
        self.text_of_pieces = text_of_pieces
        prepared = Preparation.read(task.data_folder)
        self.preparation = prepared and prepared.digest
        self.device = next(models[0].parameters()).device
        generation = asdict(search)
        generation["unnormalized"] = not generation.pop("normalize")
        self.generator = task.build_generator(models, Namespace(**generation))
        self.free = search.free
        self.examples = self.generator.examples

    def cut(self, lines: Sequence[Line]) -> list[list[Example]]:
        """The rows of each document, in order, as examples."""
        documents: list[list[Sentence]] = [[]]
        for line in lines:
            if isinstance(line, str):
                documents.append([])
            else:
                documents[-1].append(line)
        unit = self.examples.unit
        examples: list[list[Example]] = [[] for _ in documents]
        for of_document, document in zip(examples, documents, strict=True):
            for span in unit.cut_to_translate([len(sentence.ids) - 1 for sentence in document]):
                sentences = [document[number] for number in span.source]
                ids = [sentence.ids for sentence in sentences]
                pieces = [s.word_pieces for s in sentences if s.word_pieces is not None]
                of_document.append(self.examples.example(span, ids, word_pieces=pieces))
        return examples

    def batches(self, examples: Sequence[Example], max_tokens: int) -> list[list[int]]:
        """Which examples are decoded together (:func:`gtrans.decoding.batching.make_batches`)."""
        lengths = self.examples.lengths(examples)
        return make_batches(lengths, max_tokens, self.generator.rows_at_once)

    def decode(
        self, examples: Sequence[Example], finished: FinishedParts | None = None
    ) -> list[list[str]]:
        """For each row the translations of its current sentences (one text, in free search).

        ``finished`` keeps the parts of rows that are translated in parts.
        """
        source = {
            name: tensor.to(self.device)
            for name, tensor in self.examples.collate(examples)["net_input"].items()
        }
        texts = [
            [self._text(sentence.tokens) for sentence in hypotheses[0].sentences]
            for hypotheses in self.generator.documents(source, finished)
        ]
        return [[" ".join(of_row)] for of_row in texts] if self.free else texts

    def _text(self, tokens: list[int]) -> str:
        pieces: str = self.task.target_dictionary.string(
            torch.tensor(tokens),
            extra_symbols_to_ignore=self.generator.symbols_to_strip_from_output,
        )
        text = self.text_of_pieces(pieces).strip()
        return PLACEHOLDER if text in ("", DOCUMENT_LINE) else text
