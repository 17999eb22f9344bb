"""Beam search over documents whose parts are translated one after the other."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from gtrans.data.frame import Frame
from gtrans.data.units import MARKS_PER_SENTENCE, Unit, UnitSpan
from gtrans.decoding.document_search import (
    DocumentHypothesis,
    DocumentSearch,
    FinishedParts,
    SearchVocabulary,
    SentenceHypothesis,
)
from gtrans.decoding.options import SearchOptions
from gtrans.errors import GtransError
from gtrans.models.base.model import CarriedState, DocumentModel, SearchState


@dataclass
class Reader:
    """A model with the memory of the documents that it is translating."""

    model: DocumentModel
    memory: CarriedState

    def begin_decoding(self, source: Mapping[str, Any], beam: int) -> SearchState:
        """See :class:`gtrans.models.base.model.DocumentModel`, as the two below."""
        inputs: dict[str, Any] = {**source, "memory": self.memory}
        return self.model.begin_decoding(inputs, beam)

    def decode_step(self, tokens: Tensor, opens: Tensor, state: SearchState) -> Tensor:
        """Logits of the next token."""
        return self.model.decode_step(tokens, opens, state)

    def search_scores(self, logits: Tensor) -> Tensor:
        """What the search adds up."""
        return self.model.search_scores(logits)

    def follow(self, written: Tensor, documents: Tensor) -> None:
        """Update the memory with translations, and keep that of ``documents (n,)`` only.

        ``written (documents, longest)``: decoder input of the translated parts.
        """
        self.model.remember(written, self.memory)
        self.memory = self.memory.following(documents)


class PartSearch(DocumentSearch):
    """Base of searches that translate a document part by part.

    The n-th hypothesis of a document consists of the n-th hypotheses of its parts. Each of them
    continues the best hypotheses of the parts before.
    """

    def __init__(self, vocabulary: SearchVocabulary, options: SearchOptions, frame: Frame) -> None:
        super().__init__(vocabulary, options)
        self.frame = frame

    def joined(self, parts: Sequence[Sequence[DocumentHypothesis]]) -> list[DocumentHypothesis]:
        """The hypotheses of a document, from those of its parts."""
        count = min(len(hypotheses) for hypotheses in parts)
        return [
            self._document([one for part in parts for one in part[number].sentences])
            for number in range(count)
        ]

    def _document(self, sentences: list[SentenceHypothesis]) -> DocumentHypothesis:
        tokens: list[int] = []
        scores: list[float] = []
        # The search itself sets the marks between the sentences and at the end.
        marked = self.vocabulary.opening != self.vocabulary.eos
        for sentence in sentences:
            if marked and tokens:
                tokens.append(self.vocabulary.opening)
                scores.append(0.0)
            tokens += sentence.tokens
            scores += sentence.scores
        if marked:
            tokens.append(self.vocabulary.eos)
            scores.append(0.0)
        return DocumentHypothesis(sentences, self.options.score(scores), tokens, scores)


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
        memories: what each model with a memory carries to the next instance.
    """

    number: int
    sentences: list[Tensor]
    lengths: Sequence[int]
    spans: list[UnitSpan]
    parts: list[list[DocumentHypothesis]]
    best: list[Tensor]
    memories: list[CarriedState]

    @property
    def next(self) -> list[UnitSpan]:
        """The next instance, if there is one."""
        number = len(self.parts)
        return self.spans[number : number + 1]

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


def _known_parts(
    instances: Sequence[_Instance], finished: FinishedParts | None
) -> dict[int, list[list[SentenceHypothesis]]] | None:
    """The finished hypotheses of these instances by document; None: one of them has none.

    Raises:
        GtransError: an instance has another number of sentences.
    """
    known: dict[int, list[list[SentenceHypothesis]]] = {}
    if finished is None:
        return None
    for instance in instances:
        document = instance.document
        hypotheses = finished.get(document.number, len(document.parts))
        if hypotheses is None:
            return None
        wrong = [len(it) for it in hypotheses if len(it) != len(instance.own)]
        if wrong or not hypotheses:
            raise GtransError(
                f"the partial translation was changed: an instance of {len(instance.own)} "
                f"sentences has {sum(wrong[:1])} translations; `--force` translates anew."
            )
        known[document.number] = hypotheses
    return known


class InstanceSearch(PartSearch):
    """Beam search over documents longer than an instance, instance by instance.

    An instance knows two things of those before it. If instances overlap, it begins with the last
    sentences of the one before, their source and their finished translations, which the model
    reads in one pass as a given beginning. If the model was trained on streams with a memory, it
    has the memory of the document, which is updated once for each instance, from the states of all
    that it has read and of its best translation. The instances of a batch of documents advance
    together. Time and memory per instance do not depend on the length of a document.
    """

    def __init__(
        self,
        vocabulary: SearchVocabulary,
        options: SearchOptions,
        frame: Frame,
        unit: Unit,
        nbest: int,
    ) -> None:
        """A search over documents that ``unit`` cuts into instances.

        ``nbest`` translations of every instance are kept; a document may have very many.
        """
        super().__init__(vocabulary, options, frame)
        self.unit = unit
        self.nbest = nbest

    @torch.no_grad()
    def search(
        self,
        models: Sequence[Any],
        source: Mapping[str, Tensor],
        source_lengths: Sequence[Sequence[int]],
        finished: FinishedParts | None = None,
    ) -> list[list[DocumentHypothesis]]:
        """See :meth:`gtrans.decoding.document_search.DocumentSearch.search`.

        Rows are whole documents, their parts are instances. Finished parts are used as long as
        all documents have the next one, so that the rest of the search has the same batches, and
        the same memories, as an undisturbed one.

        Raises:
            GtransError: a finished part has another number of sentences than its instance.
        """
        documents = [
            _Document(
                number, self.frame.sentences(row), lengths, self.unit.parts(lengths),
                [], [], [model.new_memory() for model in models if self._carries(model)],
            )
            for number, (row, lengths) in enumerate(
                zip(source["src_tokens"], source_lengths, strict=True)
            )
        ]  # fmt: skip
        while True:
            instances = [
                self._instance(document, span) for document in documents for span in document.next
            ]
            if not instances:
                return [self.joined(document.parts) for document in documents]
            known = _known_parts(instances, finished)
            # First instances have no beginning, and some others have no room for one.
            begun = [instance for instance in instances if instance.beginning is not None]
            others = [instance for instance in instances if instance.beginning is None]
            for rows in (begun, others):
                if not rows:
                    continue
                if known is not None:
                    self._go_on(models, rows, known)
                elif not self._translate(models, rows):
                    return [[] for _ in documents]
            if known is not None or finished is None:
                continue
            for instance in instances:
                document = instance.document
                hypotheses = [hypothesis.sentences for hypothesis in document.parts[-1]]
                finished.add(document.number, len(document.parts) - 1, hypotheses)

    def _translate(self, models: Sequence[Any], rows: Sequence[_Instance]) -> bool:
        """Translate instances that all have a beginning or all have none.

        Returns:
            False if an instance has no hypothesis.
        """
        source = self._source(rows)
        beginnings = [row.beginning for row in rows if row.beginning is not None]
        prefix = {"prefix": self.frame.pad_rows(beginnings)} if beginnings else {}
        lengths = [[row.document.lengths[number] for number in row.own] for row in rows]
        readers = self._readers(models, rows)
        found = super().search(readers, {**source, **prefix}, lengths)
        for row, hypotheses in zip(rows, found, strict=True):
            if not hypotheses:
                return False
            row.document.add(hypotheses[: self.nbest])
        self._remember(readers, rows)
        return True

    def _go_on(
        self,
        models: Sequence[Any],
        rows: Sequence[_Instance],
        known: Mapping[int, list[list[SentenceHypothesis]]],
    ) -> None:
        """Add instances that an interrupted search has translated, by number of document."""
        for row in rows:
            row.document.add([self._document(it) for it in known[row.document.number]])
        self._remember(self._readers(models, rows), rows, self._source(rows))

    def _source(self, rows: Sequence[_Instance]) -> dict[str, Tensor]:
        tokens = self.frame.pad_rows(
            [self.frame.source([row.document.sentences[n] for n in row.sentences]) for row in rows]
        )
        return {"src_tokens": tokens, "src_lengths": tokens.ne(self.frame.pad).sum(1)}

    def _readers(self, models: Sequence[Any], rows: Sequence[_Instance]) -> list[Any]:
        """The models, each with the memories of the documents of ``rows`` if it has any."""
        memories = zip(*(row.document.memories for row in rows), strict=True)
        return [
            Reader(model, model.joined_memory(next(memories))) if self._carries(model) else model
            for model in models
        ]

    def _carries(self, model: Any) -> bool:
        """Whether the memory goes from instance to instance, as it did in training.

        In training on single documents every instance begins with the initial memory.
        """
        return self.unit.trained_in_runs and bool(model.has_memory)

    def _remember(
        self,
        readers: Sequence[Any],
        rows: Sequence[_Instance],
        source: Mapping[str, Tensor] | None = None,
    ) -> None:
        """Update the memories with instances whose translations are finished.

        ``source``: the instances, if the models have not read them yet.
        """
        remembering = [reader for reader in readers if isinstance(reader, Reader)]
        if not remembering or not any(row.document.next for row in rows):
            return
        written = self.frame.pad_rows(
            [self.frame.target([row.document.best[n] for n in row.sentences])[0] for row in rows]
        )
        for number, reader in enumerate(remembering):
            if source is not None:
                reader.model.read({**source, "prev_output_tokens": written}, reader.memory)
            else:
                reader.model.remember(written, reader.memory)
            separate = reader.model.separate_memories(reader.memory, len(rows))
            for row, own in zip(rows, separate, strict=True):
                row.document.memories[number] = own

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


class StreamSearch(PartSearch):
    """Beam search sentence by sentence, for models that remember the previous sentences.

    Feng et al. 2022, §3.4: each sentence of a document has its own beam search. When that has
    ended, the memory is updated once, from the states of the complete best hypothesis. The
    documents of a batch advance together; those without further sentences are dropped.
    """

    @torch.no_grad()
    def search(
        self,
        models: Sequence[Any],
        source: Mapping[str, Tensor],
        source_lengths: Sequence[Sequence[int]],
        finished: FinishedParts | None = None,
    ) -> list[list[DocumentHypothesis]]:
        """See :meth:`DocumentSearch.search`; the models must have ``new_memory``."""
        device = source["src_tokens"].device
        documents = [self.frame.sentences(row) for row in source["src_tokens"]]
        # For each document, for each of its sentences, the hypotheses.
        translations: list[list[list[DocumentHypothesis]]] = [[] for _ in documents]
        readers = [Reader(model, model.new_memory()) for model in models]
        active = list(range(len(documents)))
        step = 0
        while active:
            rows = [self.frame.source([documents[number][step]]) for number in active]
            tokens = self.frame.pad_rows(rows)
            lengths = tokens.ne(self.frame.pad).sum(1)
            hypotheses = super().search(
                readers,
                {"src_tokens": tokens, "src_lengths": lengths},
                [[source_lengths[number][step]] for number in active],
            )
            if not all(hypotheses):
                return [[] for _ in documents]
            for number, of_sentence in zip(active, hypotheses, strict=True):
                translations[number].append(of_sentence)
            step += 1
            remaining = [i for i, number in enumerate(active) if len(documents[number]) > step]
            active = [active[i] for i in remaining]
            if active:
                written = self._written([of_sentence[0] for of_sentence in hypotheses], device)
                for reader in readers:
                    reader.follow(written, torch.tensor(remaining, device=device))
        return [self.joined(sentences) for sentences in translations]

    def _written(self, best: Sequence[DocumentHypothesis], device: torch.device) -> Tensor:
        """``(documents, longest)`` decoder input of finished sentences."""
        sentences = [
            torch.tensor(hypothesis.sentences[0].tokens, device=device) for hypothesis in best
        ]
        return self.frame.pad_rows([self.frame.target([sentence])[0] for sentence in sentences])
