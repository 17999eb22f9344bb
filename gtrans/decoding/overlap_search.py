"""Beam search over documents longer than an instance, whose instances overlap.

An instance begins with the last sentences of the one before, their source and their finished
translations. The model reads the latter in one pass, as a given beginning, and the search goes on
behind them. So what a sentence refers to may stand behind a cut, for a model that was trained
without: attention sees what it saw in training. The instances of a batch of documents advance
together.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from gtrans.data.frame import Frame
from gtrans.data.instances import MARKS_PER_SENTENCE
from gtrans.data.units import Unit, UnitSpan
from gtrans.decoding.document_search import (
    DocumentHypothesis,
    SearchOptions,
    SearchVocabulary,
    SentenceHypothesis,
)
from gtrans.decoding.part_search import FinishedParts, PartSearch
from gtrans.errors import GtransError
from gtrans.models.base.contract import SearchableModel


@dataclass
class _Document:
    """A document in translation.

    Attributes:
        number: its row.
        sentences: its source sentences, with end symbols.
        lengths: their words.
        spans: its instances.
        parts: the hypotheses of those that are translated, the best first.
        best: the best translation so far, sentence by sentence.
    """

    number: int
    sentences: list[Tensor]
    lengths: Sequence[int]
    spans: list[UnitSpan]
    parts: list[list[DocumentHypothesis]]
    best: list[Tensor]

    @property
    def next(self) -> list[UnitSpan]:
        """The next instance, if there is one."""
        return self.spans[len(self.parts) :][:1]

    def add(self, hypotheses: list[DocumentHypothesis]) -> None:
        """The next instance is translated."""
        self.parts.append(hypotheses)
        like = self.sentences[0]
        self.best += [like.new_tensor(sentence.tokens) for sentence in hypotheses[0].sentences]


@dataclass
class _Instance:
    """The next instance of a document.

    Attributes:
        document: the document.
        sentences: those that it reads, and its own.
        own: its own.
        beginning: ``(length,)`` what the decoder has read when the first own one is opened; None
            in an instance that reads no others.
    """

    document: _Document
    sentences: range
    own: range
    beginning: Tensor | None


def _go_on(documents: Sequence[_Document], finished: FinishedParts) -> None:
    """Add the instances that an interrupted search has translated.

    All documents advance together, so those are used that all documents have: the rest of the
    search then has the same batches as an undisturbed one.

    Raises:
        GtransError: an instance has another number of sentences.
    """
    for part in range(max(len(document.spans) for document in documents)):
        rows = [document for document in documents if part < len(document.spans)]
        known = [finished.get(document.number, part) for document in rows]
        for document, sentences in zip(rows, known, strict=True):
            if sentences is not None and len(sentences) != len(document.spans[part].current):
                raise GtransError(
                    f"the partial translation was changed: an instance of "
                    f"{len(document.spans[part].current)} sentences has {len(sentences)} "
                    "translations; `--force` translates anew."
                )
        if None in known:
            return
        for document, sentences in zip(rows, known, strict=True):
            document.add([_known(sentences or [])])


def _known(sentences: list[list[int]]) -> DocumentHypothesis:
    """A part that was translated before, of which the tokens are kept."""
    parts = [SentenceHypothesis(tokens, [0.0] * len(tokens)) for tokens in sentences]
    return DocumentHypothesis(parts, 0.0, [], [])


class OverlapSearch(PartSearch):
    """Beam search for one or several models over documents, instance by instance."""

    def __init__(
        self,
        vocabulary: SearchVocabulary,
        options: SearchOptions,
        frame: Frame,
        unit: Unit,
        nbest: int,
    ) -> None:
        """A search over documents that ``unit`` cuts into instances that overlap.

        ``nbest`` translations of every instance are kept; a document may have very many.
        """
        super().__init__(vocabulary, options, frame)
        self.unit = unit
        self.nbest = nbest

    @torch.no_grad()
    def search(
        self,
        models: Sequence[SearchableModel],
        source: Mapping[str, Tensor],
        source_lengths: Sequence[Sequence[int]],
        finished: FinishedParts | None = None,
    ) -> list[list[DocumentHypothesis]]:
        """See :meth:`gtrans.decoding.document_search.DocumentSearch.search`.

        Rows are whole documents, their parts are instances. A document with finished parts has
        one hypothesis.
        """
        documents = [
            _Document(number, self.frame.sentences(row), lengths, self.unit.cut(lengths), [], [])
            for number, (row, lengths) in enumerate(
                zip(source["src_tokens"], source_lengths, strict=True)
            )
        ]
        if finished is not None:
            _go_on(documents, finished)
        while True:
            instances = [
                self._instance(document, span) for document in documents for span in document.next
            ]
            if not instances:
                return [self.joined(document.parts) for document in documents]
            # First instances have no beginning, and some others have no room for one.
            begun = [instance for instance in instances if instance.beginning is not None]
            others = [instance for instance in instances if instance.beginning is None]
            for rows in (begun, others):
                if rows and not self._translate(models, rows):
                    return [[] for _ in documents]
            if finished is None:
                continue
            for instance in instances:
                document = instance.document
                best = [sentence.tokens for sentence in document.parts[-1][0].sentences]
                finished.add(document.number, len(document.parts) - 1, best)

    def _translate(self, models: Sequence[SearchableModel], rows: Sequence[_Instance]) -> bool:
        """Translate instances that all have a beginning or all have none.

        Returns:
            False if an instance has no hypothesis.
        """
        tokens = self.frame.pad_rows(
            [self.frame.source([row.document.sentences[n] for n in row.sentences]) for row in rows]
        )
        source = {"src_tokens": tokens, "src_lengths": tokens.ne(self.frame.pad).sum(1)}
        beginnings = [row.beginning for row in rows if row.beginning is not None]
        if beginnings:
            source["prefix"] = self.frame.pad_rows(beginnings)
        lengths = [[row.document.lengths[number] for number in row.own] for row in rows]
        found = super().search(models, source, lengths)
        for row, hypotheses in zip(rows, found, strict=True):
            if not hypotheses:
                return False
            row.document.add(hypotheses[: self.nbest])
        return True

    def _instance(self, document: _Document, span: UnitSpan) -> _Instance:
        """The instance ``span``, without those of the read sentences that leave no room.

        Their translations may be so long that the decoder could not read the new ones, too.
        """
        limit = self.vocabulary.max_input_tokens
        needed = sum(document.lengths[number] + MARKS_PER_SENTENCE for number in span.current)
        for first in range(span.source.start, span.current.start):
            read = [document.best[number] for number in range(first, span.current.start)]
            beginning = self.frame.read_before(read)
            if limit is None or len(beginning) + needed <= limit:
                return _Instance(document, range(first, span.source.stop), span.current, beginning)
        return _Instance(document, span.current, span.current, None)
