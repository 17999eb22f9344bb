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
    SourceLengths,
)
from gtrans.search.options import SearchOptions

PartsOfDocument = list[list[SentenceHypothesis]]
"""The hypotheses of a part of a document, the best first, as sentences."""


@dataclass(frozen=True)
class Parts:
    """Stores the translations of parts, so that an interrupted search can go on.

    Attributes:
        finished: by row of the document in the batch and number of the part.
        add: called with every other part: row, number, hypotheses.
    """

    finished: Mapping[tuple[int, int], PartsOfDocument]
    add: Callable[[int, int, PartsOfDocument], None]

    def of_all(self, parts: Sequence[_Part], number: int) -> list[PartsOfDocument] | None:
        """Return the hypotheses of all ``parts``; None: one is not finished."""
        found = []
        for part in parts:
            key = part.document.number, number
            hypotheses = self.finished.get(key)
            if hypotheses is None:
                return None
            found.append(hypotheses)
        return found

    def add_newest(self, parts: Sequence[_Part], number: int) -> None:
        """Store the hypotheses of parts that have just been translated."""
        for part in parts:
            document = part.document
            newest = document.parts[-1]
            self.add(document.number, number, [hypothesis.sentences for hypothesis in newest])


@dataclass
class _Document:
    """A document in translation.

    Attributes:
        number: its row.
        sentences: its source sentences, each with ``</s>``.
        lengths: words of each sentence.
        memories: of each model for the next part, if any.
        parts: the hypotheses of translated parts, the best first.
        best: the best translation so far, by sentence.
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
        return len(self.parts) == len(self.spans)

    def add(self, hypotheses: list[DocumentHypothesis]) -> None:
        self.parts.append(hypotheses)
        like = self.sentences[0]
        for sentence in hypotheses[0].sentences:
            self.best.append(like.new_tensor(sentence.tokens))


@dataclass
class _Part:
    """The next part of a document.

    Attributes:
        sentences: all sentences that the part reads.
        own: the sentences to translate.
        beginning: ``(length,)`` the decoder's input before the first own sentence, or None.
    """

    document: _Document
    sentences: range
    own: range
    beginning: Tensor | None


class PartSearch(DocumentSearch):
    """Beam search over documents, part by part; all documents of a batch advance together.

    If chunks overlap, a part begins with the last sentences of the part before and their
    translations. A model of streams, or one that reads its earlier translations, has a memory,
    updated after each part from its best translation (Feng et al. 2022, §3.4).

    The n-th hypothesis of a document consists of the n-th hypotheses of its parts, which all
    continue the best hypotheses of the parts before.
    """

    def __init__(
        self,
        vocabulary: SearchVocabulary,
        options: SearchOptions,
        frame: Frame,
        unit: Unit,
        nbest: int,
    ) -> None:
        """Search documents that ``unit`` cuts into parts; keep ``nbest`` translations of each."""
        super().__init__(vocabulary, options)
        self.frame = frame
        self.unit = unit
        self.nbest = nbest

    @torch.no_grad()
    def search(
        self,
        models: Sequence[Any],
        source: Mapping[str, Tensor],
        source_lengths: SourceLengths,
        finished: Parts | None = None,
    ) -> list[list[DocumentHypothesis]]:
        """Translate as :meth:`gtrans.search.document_search.DocumentSearch.search`.

        Rows are whole documents. Finished parts are used as long as all documents have the next
        one, so that the rest has the batches and memories of an undisturbed search.
        """
        documents = self._documents(models, source, source_lengths)
        while True:
            unfinished = [document for document in documents if not document.is_finished]
            if not unfinished:
                break
            parts = [self._next(document) for document in unfinished]
            number = len(unfinished[0].parts)
            stored = None if finished is None else finished.of_all(parts, number)
            if stored is not None:
                self._take(parts, stored)
            # First parts have no beginning, and some others have no room for one.
            with_beginning = [part for part in parts if part.beginning is not None]
            without = [part for part in parts if part.beginning is None]
            is_stored = stored is not None
            for rows in (with_beginning, without):
                if rows and not self._process(models, rows, is_stored):
                    return [[] for _ in documents]
            if finished is not None and not is_stored:
                finished.add_newest(parts, number)
        return [self._joined(document.parts) for document in documents]

    def _take(self, parts: Sequence[_Part], stored: Sequence[PartsOfDocument]) -> None:
        for part, hypotheses in zip(parts, stored, strict=True):
            documents = [self._document(sentences) for sentences in hypotheses]
            part.document.add(documents)

    def _documents(
        self,
        models: Sequence[Any],
        source: Mapping[str, Tensor],
        source_lengths: SourceLengths,
    ) -> list[_Document]:
        # In training on single documents every chunk begins with the initial memory.
        has_memory = self.unit.sentence_by_sentence or self.unit.trained_in_runs
        documents: list[_Document] = []
        for row, lengths in zip(source["src_tokens"], source_lengths, strict=True):
            memories = []
            if has_memory:
                memories = [model.new_memory() for model in models]
            sentences = self.frame.sentences(row)
            spans = self.unit.parts(lengths)
            number = len(documents)
            documents.append(_Document(number, sentences, lengths, spans, memories))
        return documents

    def _process(self, models: Sequence[Any], parts: Sequence[_Part], is_stored: bool) -> bool:
        """Translate parts and update memories; return False if a part has no hypothesis.

        All of them have a beginning, or none; ``is_stored``: they are translated already.
        """
        rows = []
        for part in parts:
            sentences = [part.document.sentences[number] for number in part.sentences]
            rows.append(self.frame.source(sentences))
        tokens = self.frame.pad_rows(rows)
        lengths = tokens.ne(self.frame.pad).sum(1)
        source = {"src_tokens": tokens, "src_lengths": lengths}
        memories = self._joined_memories(parts)
        if not is_stored and not self._translate(models, parts, source, memories):
            return False
        if memories and not all(part.document.is_finished for part in parts):
            self._remember(models, parts, source, memories, is_stored)
        return True

    def _joined_memories(self, parts: Sequence[_Part]) -> list[Any]:
        """Return the memory of each model, with a row for each part."""
        memories = []
        of_documents = [part.document.memories for part in parts]
        for of_model in zip(*of_documents, strict=True):
            kind = type(of_model[0])
            memories.append(kind.joined(of_model))
        return memories

    def _translate(
        self,
        models: Sequence[Any],
        parts: Sequence[_Part],
        source: dict[str, Tensor],
        memories: Sequence[Any],
    ) -> bool:
        """Translate parts and store their hypotheses; return False if a part has none."""
        shared: dict[str, Any] = dict(source)
        beginnings = [part.beginning for part in parts if part.beginning is not None]
        if beginnings:
            shared["prefix"] = self.frame.pad_rows(beginnings)
        inputs = [{**shared, "memory": memory} for memory in memories]
        if not memories:
            inputs = [dict(shared) for _ in models]
        lengths = []
        for part in parts:
            of_document = part.document.lengths
            lengths.append([of_document[number] for number in part.own])
        results = self.run(models, inputs, lengths)
        if not all(results):
            return False
        for part, hypotheses in zip(parts, results, strict=True):
            part.document.add(hypotheses[: self.nbest])
        return True

    def _remember(
        self,
        models: Sequence[Any],
        parts: Sequence[_Part],
        source: dict[str, Tensor],
        memories: Sequence[Any],
        is_stored: bool,
    ) -> None:
        rows = []
        for part in parts:
            sentences = [part.document.best[number] for number in part.sentences]
            rows.append(self.frame.target(sentences).decoder_input)
        target = self.frame.pad_rows(rows)
        for number, (model, memory) in enumerate(zip(models, memories, strict=True)):
            if is_stored:
                model.read({**source, "prev_output_tokens": target}, memory)
            else:
                model.remember(target, memory)
            for row, part in enumerate(parts):
                following = memory.following(torch.tensor([row]))
                part.document.memories[number] = following

    def _next(self, document: _Document) -> _Part:
        """Return the next part; earlier sentences that leave the decoder no room are left out."""
        span = document.spans[len(document.parts)]
        limit = self.vocabulary.max_input_tokens
        needed = 0
        for number in span.kept:
            needed += document.lengths[number] + SPECIAL_TOKENS_PER_SENTENCE
        for first in range(span.source.start, span.kept.start):
            earlier = document.best[first : span.kept.start]
            beginning = self.frame.read_before(earlier)
            if limit is None or len(beginning) + needed <= limit:
                sentences = range(first, span.source.stop)
                return _Part(document, sentences, span.kept, beginning)
        return _Part(document, span.kept, span.kept, None)

    def _joined(self, parts: Sequence[Sequence[DocumentHypothesis]]) -> list[DocumentHypothesis]:
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
        has_opening = self.vocabulary.opening != self.vocabulary.eos
        for sentence in sentences:
            if has_opening and tokens:
                tokens.append(self.vocabulary.opening)
                scores.append(0.0)
            tokens += sentence.tokens
            scores += sentence.scores
        if has_opening:
            tokens.append(self.vocabulary.eos)
            scores.append(0.0)
        score = self.options.score(scores)
        return DocumentHypothesis(sentences, score, tokens, scores)
