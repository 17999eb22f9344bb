"""Beam search over documents whose parts are translated one after the other.

Parts are chunks, or the sentences of a stream or of windows with a history.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor

from gtrans.data.frame import Frame
from gtrans.data.units import SPECIAL_TOKENS_PER_SENTENCE, Unit, UnitSpan
from gtrans.search.document_search import (
    DocumentHypothesis,
    DocumentSearch,
    SearchVocabulary,
    SentenceHypothesis,
)
from gtrans.search.options import SearchOptions

PartsOfDocument = list[list[SentenceHypothesis]]
"""The hypotheses of a part of a document, the best first, as sentences."""


@dataclass(frozen=True)
class Parts:
    """Keeps the translations of parts, so that an interrupted search can go on behind them.

    Attributes:
        known: those that are finished, by row of the document in the batch and number of the part.
        add: is called with the others: row, number, hypotheses.
    """

    known: Mapping[tuple[int, int], PartsOfDocument]
    add: Callable[[int, int, PartsOfDocument], None]


@dataclass
class _Document:
    """A document in translation.

    Attributes:
        number: its row.
        sentences: its source sentences, each with ``</s>``.
        lengths: their words.
        spans: its parts.
        memories: the memory of each model for the next part; empty if no model has one.
        parts: the hypotheses of those that are translated, the best first.
        best: the best translation so far, sentence by sentence.
    """

    number: int
    sentences: list[Tensor]
    lengths: Sequence[int]
    spans: list[UnitSpan]
    memories: list[Any]
    parts: list[list[DocumentHypothesis]] = field(default_factory=list)
    best: list[Tensor] = field(default_factory=list)

    @property
    def is_finished(self) -> bool:
        """Whether all parts are translated."""
        return len(self.parts) == len(self.spans)

    def add(self, hypotheses: list[DocumentHypothesis]) -> None:
        """Store the hypotheses of the next part."""
        self.parts.append(hypotheses)
        like = self.sentences[0]
        self.best += [like.new_tensor(sentence.tokens) for sentence in hypotheses[0].sentences]


@dataclass
class _Part:
    """The next part of a document.

    Attributes:
        document: the document.
        sentences: those that it reads, and its own.
        own: its own.
        beginning: ``(length,)`` the input of the decoder before the first own one is opened; None
            in a part that reads no others.
    """

    document: _Document
    sentences: range
    own: range
    beginning: Tensor | None


class PartSearch(DocumentSearch):
    """Beam search over documents, part by part.

    A part knows two things of those before it. If chunks overlap, it begins with the last
    sentences of the one before, their source and their finished translations, which the model
    reads in one pass as a given beginning. If the model was trained on streams, or reads its
    earlier translations, it has a memory of the document. The memory is updated once for each
    part, from the states of all that it has read and of its best translation (Feng et al. 2022,
    §3.4). The parts of a batch of documents advance together. Time and memory per part do not
    depend on the length of a document.

    The n-th hypothesis of a document consists of the n-th hypotheses of its parts. Each of them
    continues the best hypotheses of the parts before.
    """

    def __init__(
        self,
        vocabulary: SearchVocabulary,
        options: SearchOptions,
        frame: Frame,
        unit: Unit,
        nbest: int,
    ) -> None:
        """A search over documents that ``unit`` cuts into parts.

        ``nbest`` translations of every part are kept; a document may have very many.
        """
        super().__init__(vocabulary, options)
        self.frame = frame
        self.unit = unit
        self.nbest = nbest

    @torch.no_grad()
    def search(
        self,
        models: Sequence[Any],
        source: Mapping[str, Tensor],
        source_lengths: Sequence[Sequence[int]],
        finished: Parts | None = None,
    ) -> list[list[DocumentHypothesis]]:
        """See :meth:`gtrans.search.document_search.DocumentSearch.search`.

        Rows are whole documents. Finished parts are used as long as all documents have the next
        one, so that the rest of the search has the same batches, and the same memories, as an
        undisturbed one.
        """
        # In training on single documents every chunk begins with the initial memory.
        carries = self.unit.sentence_by_sentence or self.unit.trained_in_runs
        documents: list[_Document] = []
        for row, lengths in zip(source["src_tokens"], source_lengths, strict=True):
            memories = [model.new_memory() for model in models] if carries else []
            sentences, spans = self.frame.sentences(row), self.unit.parts(lengths)
            document = _Document(len(documents), sentences, lengths, spans, memories)
            documents.append(document)
        while not all(document.is_finished for document in documents):
            parts = [self._next(document) for document in documents if not document.is_finished]
            number = len(parts[0].document.parts)
            known: list[Any] = [None]
            if finished is not None:
                known = [finished.known.get((part.document.number, number)) for part in parts]
            is_known = None not in known
            if is_known:
                for part, hypotheses in zip(parts, known, strict=True):
                    part.document.add([self._document(sentences) for sentences in hypotheses])
            # First parts have no beginning, and some others have no room for one.
            with_beginning = [part for part in parts if part.beginning is not None]
            without = [part for part in parts if part.beginning is None]
            for rows in filter(None, (with_beginning, without)):
                if not self._translate(models, rows, is_known):
                    return [[] for _ in documents]
            if finished is not None and not is_known:
                for part in parts:
                    hypotheses = [hypothesis.sentences for hypothesis in part.document.parts[-1]]
                    finished.add(part.document.number, number, hypotheses)
        return [self._joined(document.parts) for document in documents]

    def _translate(self, models: Sequence[Any], parts: Sequence[_Part], is_known: bool) -> bool:
        """Translate parts that all have a beginning or all have none, and update the memories.

        ``is_known``: they are translated already.

        Returns:
            False if a part has no hypothesis.
        """
        rows = []
        for part in parts:
            sentences = [part.document.sentences[number] for number in part.sentences]
            rows.append(self.frame.source(sentences))
        tokens = self.frame.pad_rows(rows)
        source = {"src_tokens": tokens, "src_lengths": tokens.ne(self.frame.pad).sum(1)}
        memories = []
        for number in range(len(parts[0].document.memories)):
            of_model = [part.document.memories[number] for part in parts]
            memories.append(type(of_model[0]).joined(of_model))
        if not is_known:
            shared: dict[str, Any] = dict(source)
            beginnings = [part.beginning for part in parts if part.beginning is not None]
            if beginnings:
                shared["prefix"] = self.frame.pad_rows(beginnings)
            inputs = [{**shared, "memory": memory} for memory in memories]
            if not memories:
                inputs = [dict(shared) for _ in models]
            lengths = []
            for part in parts:
                lengths.append([part.document.lengths[number] for number in part.own])
            results = self.run(models, inputs, lengths)
            if not all(results):
                return False
            for part, hypotheses in zip(parts, results, strict=True):
                part.document.add(hypotheses[: self.nbest])
        if not memories or all(part.document.is_finished for part in parts):
            return True
        rows = []
        for part in parts:
            sentences = [part.document.best[number] for number in part.sentences]
            rows.append(self.frame.target(sentences)[0])
        written = self.frame.pad_rows(rows)
        for number, (model, memory) in enumerate(zip(models, memories, strict=True)):
            if is_known:
                model.read({**source, "prev_output_tokens": written}, memory)
            else:
                model.remember(written, memory)
            for row, part in enumerate(parts):
                part.document.memories[number] = memory.following(torch.tensor([row]))
        return True

    def _next(self, document: _Document) -> _Part:
        """The next part, without the earlier sentences that leave no room.

        Their translations may be so long that the decoder could not read the new ones, too.
        """
        span = document.spans[len(document.parts)]
        limit = self.vocabulary.max_input_tokens
        needed = sum(document.lengths[number] + SPECIAL_TOKENS_PER_SENTENCE for number in span.kept)
        for first in range(span.source.start, span.kept.start):
            earlier = [document.best[number] for number in range(first, span.kept.start)]
            beginning = self.frame.read_before(earlier)
            if limit is None or len(beginning) + needed <= limit:
                return _Part(document, range(first, span.source.stop), span.kept, beginning)
        return _Part(document, span.kept, span.kept, None)

    def _joined(self, parts: Sequence[Sequence[DocumentHypothesis]]) -> list[DocumentHypothesis]:
        """Join the hypotheses of the parts of a document."""
        documents = []
        for hypotheses in zip(*parts, strict=False):
            sentences: list[SentenceHypothesis] = []
            for part in hypotheses:
                sentences += part.sentences
            documents.append(self._document(sentences))
        return documents

    def _document(self, sentences: list[SentenceHypothesis]) -> DocumentHypothesis:
        tokens: list[int] = []
        scores: list[float] = []
        # The search itself sets the special tokens between the sentences and at the end.
        begins_with_token = self.vocabulary.opening != self.vocabulary.eos
        for sentence in sentences:
            if begins_with_token and tokens:
                tokens.append(self.vocabulary.opening)
                scores.append(0.0)
            tokens += sentence.tokens
            scores += sentence.scores
        if begins_with_token:
            tokens.append(self.vocabulary.eos)
            scores.append(0.0)
        return DocumentHypothesis(sentences, self.options.score(scores), tokens, scores)
