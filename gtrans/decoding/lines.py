"""The lines of a text as a model reads them: sentences, and boundaries between documents."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any, NamedTuple

from torch import Tensor
from tqdm import tqdm

from gtrans.text.moses_pipeline import MosesPipeline
from gtrans.text.plain_text import input_warnings
from gtrans.text.reader import is_boundary


class Sentence(NamedTuple):
    """The ids of a sentence with its end symbol, and its word pieces if a BERT reads them."""

    ids: Tensor
    word_pieces: Tensor | None


Line = Sentence | str
"""A line of a text: a sentence, or the text of a boundary."""


def lines_of_text(task: Any, text: Sequence[str]) -> list[Line]:
    """The lines of a text as tokens of ``task``; boundaries of documents stay text."""
    encode = _encoder(task)
    return [
        line if is_boundary(line) else encode(line)
        for line in tqdm(text, "reading", unit=" lines", disable=None)
    ]


def warnings_of_text(
    task: Any, name: str, sentences: Sequence[str], lines: Iterable[Line]
) -> list[str]:
    """What to say of a text that the models can hardly read.

    Args:
        task: the task that has encoded it.
        name: what it is called.
        sentences: its sentences.
        lines: its lines.
    """
    ids = [line.ids for line in lines if not isinstance(line, str)]
    unknown = sum(int((of == task.source_dictionary.unk()).sum()) for of in ids)
    tokens = sum(len(of) - 1 for of in ids)
    if found := input_warnings(name, sentences, unknown, tokens):
        pipeline = task.source_encoder()
        if isinstance(pipeline, MosesPipeline) and not pipeline.steps.tokenise:
            return input_warnings(name, (), unknown, tokens)
    return found


def lines_of_documents(task: Any, documents: Sequence[Sequence[str]]) -> list[Line]:
    """The sentences of documents as tokens of ``task``, with boundaries between the documents."""
    encode = _encoder(task)
    lines: list[Line] = []
    for document in documents:
        lines += [encode(sentence) for sentence in document]
        lines.append("")
    return lines[:-1]


def _encoder(task: Any) -> Callable[[str], Sentence]:
    encoder = task.source_encoder()

    def encode(sentence: str) -> Sentence:
        ids: Tensor = task.source_dictionary.encode_line(
            encoder.encode(sentence), add_if_not_exist=False
        )
        pieces = task.word_pieces([sentence])
        return Sentence(ids.long(), pieces and pieces[0])

    return encode


def lines_of_dataset(dataset: Any) -> list[Line]:
    """The lines of a :class:`gtrans.data.document_dataset.DocumentDataset`."""
    source, pieces = dataset.source, dataset.word_pieces
    lines = (
        Sentence(source[number].long(), None if pieces is None else pieces[number].long())
        for number in range(len(source))
    )
    return [line if line.ids.numel() > 1 else "" for line in lines]
