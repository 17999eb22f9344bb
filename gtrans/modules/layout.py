"""The sentence structure of a batch of documents.

Models get a batch of token ids ``(batch, length)`` and work on *packed* states ``(tokens,
dim)``: the real tokens of all rows one after the other, without padding. A
:class:`DocumentLayout` knows to which sentence of which document each packed token belongs (the
group tags of G-Transformer, Eq 3), and converts between the padded and the packed form.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from functools import cached_property

import torch
from torch import Tensor


@dataclass(frozen=True)
class Segments:
    """Runs of packed tokens.

    Attributes:
        starts: ``(segments,)`` packed index of the first token of each run.
        lengths: ``(segments,)`` number of tokens of each run.
        index: packed indices. If given, the runs are runs of this list, so that a token may be
            in several of them; None: they are runs of the packed tokens themselves.
    """

    starts: Tensor
    lengths: Tensor
    index: Tensor | None = None

    def __len__(self) -> int:
        return int(self.starts.numel())

    @cached_property
    def sizes(self) -> list[int]:
        """The lengths as Python numbers; a plan of a batch has them before it is moved."""
        sizes: list[int] = self.lengths.tolist()
        return sizes

    def chosen(self, numbers: Tensor) -> Segments:
        """The segments with these ``numbers (n,)``, in that order."""
        return Segments(self.starts[numbers], self.lengths[numbers], self.index)


@dataclass(frozen=True)
class Positions:
    """Positions from 0.

    Attributes:
        numbers: ``(tokens,)``.
        end: more than any of them, perhaps by far, as a Python number.
    """

    numbers: Tensor
    end: int


@dataclass(frozen=True)
class DocumentLayout:
    """The sentence structure of a padded batch.

    Attributes:
        shape: ``(batch, length)`` of the padded batch.
        index: ``(tokens,)`` position of every real token in the flattened batch.
        row: ``(tokens,)`` the document (batch row) of a token.
        sentence: ``(tokens,)`` number of its sentence in the document, from 0.
        sentences: the runs of tokens that are sentences.
        documents: the runs of tokens that are documents.
        sentence_counts: ``(batch,)`` sentences of each document.
        instances: in a batch whose rows are :meth:`divided`, ``(batch, most)`` the sentences of
            each instance of a row, then zeros; None: a row is one document.
    """

    shape: tuple[int, int]
    index: Tensor
    row: Tensor
    sentence: Tensor
    sentences: Segments
    documents: Segments
    sentence_counts: Tensor
    instances: Tensor | None = field(default=None, kw_only=True)

    @classmethod
    def from_starts(cls, real: Tensor, starts: Tensor) -> DocumentLayout:
        """Build the layout from two boolean masks ``(batch, length)``.

        Args:
            real: True on tokens, False on padding, which may be on either side.
            starts: True on the first token of a sentence. The first token of a row opens a
                sentence even if it is not marked here.
        """
        batch, length = real.shape
        index = real.flatten().nonzero().squeeze(1)
        row = index // max(length, 1)
        lengths = real.sum(1)
        document_starts = lengths.cumsum(0) - lengths
        opens = starts.flatten()[index]
        opens[document_starts[lengths > 0]] = True
        sentence_starts = opens.nonzero().squeeze(1)
        ends = torch.cat([sentence_starts[1:], sentence_starts.new_tensor([index.numel()])])
        sentence_rows = row[sentence_starts]
        counts = torch.bincount(sentence_rows, minlength=batch)
        before = counts.cumsum(0) - counts
        return cls(
            shape=(batch, length),
            index=index,
            row=row,
            sentence=opens.cumsum(0) - 1 - before[row],
            sentences=Segments(sentence_starts, ends - sentence_starts),
            documents=Segments(document_starts, lengths),
            sentence_counts=counts,
        )

    @classmethod
    def of_rows(cls, lengths: Tensor) -> DocumentLayout:
        """The layout of rows that are one sentence each, ``(batch,)`` tokens long."""
        columns = torch.arange(int(lengths.max()), device=lengths.device)
        real = columns < lengths[:, None]
        return cls.from_starts(real, torch.zeros_like(real))

    @classmethod
    def of_source(cls, tokens: Tensor, pad: int, eos: int) -> DocumentLayout:
        """The layout of source ids ``(batch, length)``.

        ``eos`` is the last symbol of every sentence: ``</s>``, or the mark that follows it.
        """
        real = tokens.ne(pad)
        after_end = torch.zeros_like(real)
        after_end[:, 1:] = tokens[:, :-1].eq(eos)
        return cls.from_starts(real, after_end)

    @classmethod
    def of_target(cls, tokens: Tensor, pad: int, bos: int, eos: int) -> DocumentLayout:
        """The layout of decoder input ids ``(batch, length)``.

        Every sentence begins with the symbol with which its row begins: ``bos`` in a row
        ``<s> .. </s> <s> ..`` (§4.3: the tag increases after each ``</s>``), or ``</s>`` in
        fairseq's own rows ``</s> ..``, where the end of a sentence begins the next one.
        """
        real = tokens.ne(pad)
        first = tokens.gather(1, real.int().argmax(1, keepdim=True))
        opening = torch.where(first.eq(eos), first, torch.full_like(first, bos))
        return cls.from_starts(real, tokens.eq(opening) & real)

    def divided(self, instances: Tensor | None) -> DocumentLayout:
        """The same batch, in which every instance of a row is a document of its own.

        Attention and positions are then those of instances, wherever they speak of documents.

        Args:
            instances: see :attr:`instances`; None: rows stay as they are.

        Raises:
            ValueError: a row has another number of sentences.
        """
        if instances is None:
            return self
        if not torch.equal(instances.sum(1), self.sentence_counts):
            raise ValueError(
                f"instances of {instances.sum(1).tolist()} sentences in rows of "
                f"{self.sentence_counts.tolist()}"
            )
        counts = instances[instances > 0]
        numbers = torch.arange(counts.numel(), device=counts.device)
        row = numbers.repeat_interleave(counts).repeat_interleave(self.sentences.lengths)
        before = counts.cumsum(0) - counts
        starts = self.sentences.starts[before]
        ends = torch.cat([starts[1:], starts.new_tensor([self.tokens])])
        sentence = torch.arange(len(self.sentences), device=counts.device)
        return replace(
            self,
            row=row,
            sentence=sentence.repeat_interleave(self.sentences.lengths) - before[row],
            documents=Segments(starts, ends - starts),
            sentence_counts=counts,
            instances=instances,
        )

    @property
    def documents_of_row(self) -> Tensor:
        """``(batch,)`` how many of :attr:`documents` each row has."""
        if self.instances is None:
            return torch.ones_like(self.sentence_counts)
        return self.instances.gt(0).sum(1)

    def rows(self, chosen: Tensor) -> tuple[DocumentLayout, Tensor]:
        """The layout of a batch of the rows ``chosen (n,)``, repeated or reordered.

        Returns:
            the layout, and the index ``(its tokens,)`` of each of its packed tokens among those
            of this layout.
        """
        device = self.index.device
        numbers = self.pad(torch.arange(self.tokens, device=device) + 1)[chosen]
        opens = torch.zeros(self.tokens, dtype=torch.bool, device=device)
        opens[self.sentences.starts] = True
        layout = DocumentLayout.from_starts(numbers > 0, self.pad(opens)[chosen])
        if self.instances is not None:
            layout = layout.divided(self.instances[chosen])
        return layout, layout.pack(numbers) - 1

    @property
    def tokens(self) -> int:
        """Number of real tokens."""
        return int(self.index.numel())

    def positions(self, by_sentence: bool) -> Positions:
        """The position of every token in its document, or in its sentence."""
        if by_sentence:
            return Positions(self.position_in_sentence, self.most_in_sentence)
        return Positions(self.position, self.most_in_document)

    @property
    def sentence_numbers(self) -> Positions:
        """The number of every token's sentence in its document."""
        return Positions(self.sentence, self.most_sentences)

    @property
    def of_several(self) -> Tensor:
        """``(tokens,)`` whether a token's document has several sentences."""
        return self.sentence_counts.gt(1)[self.row]

    @cached_property
    def most_sentences(self) -> int:
        """Sentences of the document that has most of them."""
        return int(self.sentence_counts.max())

    @property
    def most_in_document(self) -> int:
        """Tokens of the longest document."""
        return max(self.documents.sizes, default=0)

    @property
    def most_in_sentence(self) -> int:
        """Tokens of the longest sentence."""
        return max(self.sentences.sizes, default=0)

    def prepare(self, by_sentence: bool) -> None:
        """Compute on the host what a model with these positions asks for."""
        _ = self.positions(by_sentence), self.most_sentences

    @cached_property
    def position(self) -> Tensor:
        """``(tokens,)`` position of a token in its document, from 0."""
        order = torch.arange(self.tokens, device=self.index.device)
        return order - self.documents.starts[self.row]

    @cached_property
    def position_in_sentence(self) -> Tensor:
        """``(tokens,)`` position of a token in its sentence, from 0."""
        order = torch.arange(self.tokens, device=self.index.device)
        return order - torch.repeat_interleave(
            self.sentences.starts, self.sentences.lengths, output_size=self.tokens
        )

    @cached_property
    def first_sentences(self) -> Tensor:
        """``(batch,)`` index, in :attr:`sentences`, of each document's first sentence."""
        return self.sentence_counts.cumsum(0) - self.sentence_counts

    @property
    def visible_sentences(self) -> Segments:
        """For each of :attr:`sentences` its tokens."""
        return self.sentences

    @property
    def visible_documents(self) -> Segments:
        """For each of :attr:`documents` its tokens."""
        return self.documents

    @cached_property
    def is_dense(self) -> bool:
        """Whether the batch holds no padding at all."""
        return self.tokens == self.shape[0] * self.shape[1]

    def pack(self, padded: Tensor) -> Tensor:
        """``(batch, length, ..) -> (tokens, ..)``."""
        flat = padded.flatten(0, 1)
        return flat if self.is_dense else flat.index_select(0, self.index)

    def pad(self, packed: Tensor, value: float = 0.0) -> Tensor:
        """``(tokens, ..) -> (batch, length, ..)``, ``value`` on padding."""
        if not self.is_dense:
            size = self.shape[0] * self.shape[1]
            flat = packed.new_full((size, *packed.shape[1:]), value)
            packed = flat.index_copy(0, self.index, packed)
        return packed.view(*self.shape, *packed.shape[1:])

    def choose(self, packed: Tensor, chosen: Tensor) -> Tensor:
        """``(tokens, ..) -> (chosen, ..)``: the tokens where ``chosen (batch, length)`` is True.

        They are in the order of the rows. Padding is left out even if it is chosen.
        """
        return packed[self.pack(chosen)]

    def align(self, packed: Tensor) -> Tensor:
        """``(tokens, ..) -> (documents, longest, ..)``, all padding on the right and zeros.

        They are as many and as long as the rows of the batch, unless these are divided.
        """
        shape = self.shape
        if self.instances is not None:
            shape = len(self.documents), self.most_in_document
        elif self.is_dense:
            return self.pad(packed)
        padded = packed.new_zeros(*shape, *packed.shape[1:])
        padded[self.row, self.position] = packed
        return padded


def chosen_index(chosen: Tensor) -> Tensor:
    """Where the chosen tokens of every row are, without gaps and padded on the right.

    Args:
        chosen: ``(batch, length)`` True on those to keep.

    Returns:
        ``(batch, most chosen of a row)`` their numbers in the flattened batch; -1 on padding.
    """
    lengths = chosen.sum(1)
    index = lengths.new_full((chosen.size(0), int(lengths.max())), -1)
    real = torch.arange(index.size(1), device=chosen.device) < lengths[:, None]
    index[real] = chosen.flatten().nonzero().squeeze(1)
    return index


def taken(tokens: Tensor, index: Tensor, pad: int) -> Tensor:
    """The ids ``tokens (batch, length)`` at ``index`` (:func:`chosen_index`), in its shape."""
    return tokens.flatten()[index.clamp(min=0)].masked_fill(index < 0, pad)
