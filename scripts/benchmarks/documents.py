"""One seeded text, and its batches: of documents, and of sentences as stock fairseq has them."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from fairseq.data import Dictionary, LanguagePairDataset, data_utils
from measuring import Size
from torch import Tensor, nn

from gtrans.data.frame import Frame

Batch = dict[str, Any]
# A document: its sentences on both sides, ids without marks.
Document = list[tuple[Tensor, Tensor]]


def dictionary_of(size: Size) -> Dictionary:
    """A dictionary of ``size.vocabulary`` symbols, marks included."""
    symbols = Dictionary()
    for word in range(size.vocabulary - len(symbols)):
        symbols.add_symbol(f"w{word}")
    return symbols


def documents_of(words: int, count: int, dictionary: Dictionary, seed: int = 1) -> list[Document]:
    """``count`` documents of exactly ``words`` source words in sentences of about 25.

    Sentence lengths follow a gamma distribution of shape 3 between about 3 and 100, as
    those of news and speeches do; a target sentence has the length of its source times
    a factor around 1.
    """
    draw = np.random.default_rng(seed)

    def sentence(length: int) -> Tensor:
        return torch.from_numpy(draw.integers(dictionary.nspecial, len(dictionary), length))

    documents = []
    for _ in range(count):
        drawn = np.clip(draw.gamma(3.0, 1.0, max(round(words / 25), 1)), 0.36, 12.0)
        lengths = (drawn * words / drawn.sum()).astype(int)
        lengths[: words - lengths.sum()] += 1  # what rounding left out
        factors = draw.lognormal(0.0, 0.15, len(lengths))
        documents.append(
            [
                (sentence(length), sentence(max(round(length * factor), 1)))
                for length, factor in zip(lengths, factors, strict=True)
            ]
        )
    return documents


def source_words(documents: list[Document]) -> int:
    """Words on the source side, marks not counted."""
    return sum(len(source) for document in documents for source, _ in document)


def document_batches(documents: list[Document], dictionary: Dictionary, words: int) -> list[Batch]:
    """Batches of documents ``<s> .. </s> <s> .. </s>`` of ``words`` words, at least one each."""
    frame = Frame(dictionary.bos(), dictionary.eos(), dictionary.pad())
    end = torch.tensor([dictionary.eos()])
    batches: list[Batch] = []
    begin = 0
    while begin < len(documents):
        last, filled = begin + 1, source_words(documents[begin : begin + 1])
        while last < len(documents) and filled < words:
            filled += source_words(documents[last : last + 1])
            last += filled <= words
        sources, inputs, targets = [], [], []
        for document in documents[begin:last]:
            sources.append(frame.source([torch.cat([source, end]) for source, _ in document]))
            given, wanted = frame.target([torch.cat([target, end]) for _, target in document])
            inputs.append(given)
            targets.append(wanted)
        batches.append(_batch(*(_padded(rows, frame.pad) for rows in (sources, inputs, targets))))
        begin = last
    return batches


def _padded(rows: list[Tensor], pad: int) -> Tensor:
    return nn.utils.rnn.pad_sequence(rows, batch_first=True, padding_value=float(pad))


def _batch(source: Tensor, given: Tensor, target: Tensor) -> Batch:
    return {
        "net_input": {
            "src_tokens": source,
            "src_lengths": torch.full((len(source),), source.size(1)),
            "prev_output_tokens": given,
        },
        "target": target,
        "ntokens": target.numel(),
    }


def sentence_batches(
    documents: list[Document], dictionary: Dictionary, words: int, sample: int | None = None
) -> list[Batch]:
    """The same sentences as stock fairseq batches them: sorted by length, its own frame.

    Args:
        documents: a text; the larger it is, the less padding is in its batches.
        dictionary: of both sides.
        words: words and padding of a batch.
        sample: so many batches, evenly spaced from the shortest sentences to the
            longest (None: all).
    """
    end = torch.tensor([dictionary.eos()])
    pairs = [pair for document in documents for pair in document]
    sides = [[torch.cat([pair[i], end]) for pair in pairs] for i in (0, 1)]
    sizes = [np.array([len(line) for line in side]) for side in sides]
    dataset = LanguagePairDataset(
        sides[0], sizes[0], dictionary, sides[1], sizes[1], dictionary, shuffle=False
    )
    lengths = np.maximum(*sizes) - 1  # words, as in batches of documents
    order = dataset.ordered_indices()
    batches = data_utils.batch_by_size(
        order,
        num_tokens_fn=lambda index: int(lengths[index]),
        num_tokens_vec=lengths[order],
        max_tokens=words,
    )
    if sample is not None and sample < len(batches):
        middles = (np.arange(sample) + 0.5) * len(batches) / sample
        batches = [batches[int(middle)] for middle in middles]
    return [dataset.collater([dataset[index] for index in batch]) for batch in batches]


def words_of(batches: list[Batch], dictionary: Dictionary) -> int:
    """Target words of batches: neither padding nor marks."""
    return sum(int(batch["target"].ge(dictionary.nspecial).sum()) for batch in batches)
