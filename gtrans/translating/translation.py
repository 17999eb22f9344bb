"""Texts on their way: cut into batches, translated, written."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import asdict, dataclass, field
from functools import partial
from itertools import chain
from multiprocessing.connection import Connection, wait
from typing import Any, NamedTuple

from gtrans.data.examples import Example
from gtrans.errors import GtransError
from gtrans.files import digest_of_values
from gtrans.languages import WITHOUT_SPACES, language_code
from gtrans.search.document_search import SentenceHypothesis
from gtrans.search.generator import LEAST_ROW_TOKENS
from gtrans.search.options import DecodingOptions
from gtrans.search.part_search import Parts, PartsOfDocument
from gtrans.text.document_file import DocumentFile, DocumentIds, Note, numbered_ids
from gtrans.text.pipeline import PLACEHOLDER
from gtrans.text.reader import Document, is_boundary
from gtrans.translating.loading import decoding_device
from gtrans.translating.output import (
    Alternative,
    Output,
    PartKey,
    Translations,
    as_lines,
    best_of,
    json_lines,
)
from gtrans.translating.translator import (
    FinishedPart,
    ProcessTask,
    Translator,
    progress_of,
    worker_processes,
)
from gtrans.version import __version__

# Options that a translation does not depend on, or that the record has in another way.
_NOT_RECORDED = {"paths", "data", "cpu", "workers", "force", "selection"}


# ---- texts ---------------------------------------------------------------------------------------


@dataclass
class LinesOfText:
    """A text whose output has a line for each of its lines; see also ``DocumentFile``.

    Attributes:
        layout: the lines of the output; None: a translation.
        sentence_places: file and line of each sentence, for messages.
    """

    path: str
    sentences: list[list[str]]
    layout: list[str | None] = field(default_factory=list)
    sentence_places: list[str] = field(default_factory=list)
    ids: list[DocumentIds] = field(default_factory=list)
    notes: Sequence[Note] = ()

    @classmethod
    def of_lines(cls, path: str, lines: Sequence[str]) -> LinesOfText:
        """Read plain text, whose boundaries stay as they are."""
        text = cls(path, [])
        document: list[str] = []
        for number, line in enumerate(lines, start=1):
            if is_boundary(line):
                text.layout.append(line)
                document = []
                continue
            if not document:
                text.sentences.append(document)
            document.append(line)
            text.layout.append(None)
            text.sentence_places.append(f"{path}:{number}")
        text.ids = numbered_ids(text.sentences)
        return text

    @classmethod
    def of_documents(cls, path: str, documents: Iterable[Document]) -> LinesOfText:
        """Read documents, between which the output has an empty line."""
        text = cls(path, [])
        for number, document in enumerate(documents, start=1):
            if text.layout:
                text.layout.append("")
            sentences: list[str] = []
            ids: list[str] = []
            for segment in document.segments:
                if not segment.text():
                    text.layout.append(PLACEHOLDER)
                    continue
                text.layout.append(None)
                sentences.append(segment.text())
                ids.append(segment.name or str(len(sentences)))
                text.sentence_places.append(f"{path}:{segment.line}")
            text.sentences.append(sentences)
            text.ids.append(DocumentIds(document.name or str(number), ids))
        return text

    def translated(self, translations: Sequence[Sequence[str]], joint: str) -> bytes:
        """Return the contents of the output."""
        following = chain.from_iterable(translations)
        lines = []
        for line in self.layout:
            lines.append(next(following) if line is None else line)
        return as_lines(lines)


# ---- a text on its way ---------------------------------------------------------------------------


class Translation:
    """A text with its batches and its translations.

    ``documents``: the sentences of each document as tokens.
    """

    def __init__(
        self,
        translator: Translator,
        source: LinesOfText | DocumentFile,
        output: str,
        options: DecodingOptions,
        contents: Sequence[object],
    ) -> None:
        """``contents``: all in the text that the output depends on."""
        self.translator = translator
        self.source = source
        self.options = options
        self.documents = translator.encoded(source.sentences)
        self.sentence_count = sum(len(document) for document in self.documents)
        translator.warn_about(source.path, source.sentences, self.documents, source.sentence_places)
        provenance = self._provenance(options, contents)
        self.output = Output(output, provenance, options.force)
        self._progress: Any = None
        self._rows_of_documents: list[list[Example]] = []
        self._rows: list[Example] = []
        self._batches: list[list[int]] = []
        self._translated: list[Translations] = []
        # Numbers of batches, with the number of their sentences that progress has counted.
        self._untranslated: dict[int, int] = {}

    def _provenance(self, options: DecodingOptions, contents: Sequence[object]) -> dict[str, Any]:
        translator = self.translator
        chosen = asdict(options)
        for name in _NOT_RECORDED:
            del chosen[name]
        # The limit on rows is named where it makes other batches, of which a part is kept.
        rows = min(translator.generator.rows_at_once, options.max_tokens // LEAST_ROW_TOKENS)
        # A checkpoint without a vocabulary of its own reads and writes by that of --data.
        tokens = hashlib.sha256()
        for sentence in chain.from_iterable(self.documents):
            for ids in sentence:
                tokens.update(b"\n" if ids is None else ids.numpy().tobytes())
        return {
            "gtrans": __version__,
            "input": digest_of_values(list(contents)),
            "tokens": tokens.hexdigest(),
            "vocabulary": digest_of_values(translator.task.target_dictionary.symbols),
            "checkpoints": list(translator.checkpoints),
            "preparation": translator.preparation or "",
            "unit": translator.examples.unit.as_dict(),
            "device": decoding_device(options.cpu).type,
            "max_rows": rows,
            **chosen,
        }

    # ---- batches

    @contextmanager
    def opened(self, progress: Any) -> Iterator[None]:
        """Lock the output, cut the documents into batches, and take over finished ones."""
        self._progress = progress
        with self.output.opened():
            self._rows_of_documents = self.translator.cut(self.documents)
            self._rows = list(chain.from_iterable(self._rows_of_documents))
            self._batches = self.translator.batches(self._rows)
            self._translated = [[] for _ in self._rows]
            self._untranslated = dict.fromkeys(range(len(self._batches)), 0)
            for number, rows in self.output.batches.items():
                translations = [_alternatives_of(row) for row in rows]
                # Sentences of earlier runs say nothing of the speed of this run.
                self._progress.initial += self._store(number, translations)
            self._progress.update(0)
            yield

    def untranslated_batches(self) -> Iterator[BatchOfText]:
        """Yield the batches to translate; if none is left, one without rows."""
        if not self._untranslated:
            yield BatchOfText(self, -1, [])
        for number in list(self._untranslated):
            rows = [self._rows[index] for index in self._batches[number]]
            yield BatchOfText(self, number, rows)

    def add(self, number: int, translations: list[Translations]) -> None:
        """Keep the translations of a batch."""
        if translations:
            self.output.keep_batch(number, translations)
            self._progress.update(self._store(number, translations))

    def _store(self, number: int, translations: list[Translations]) -> int:
        """Store the translations of a batch; return the sentences not yet counted."""
        written = 0
        for index, row in zip(self._batches[number], translations, strict=True):
            self._translated[index] = row
            written += self.translator.sentences_in(self._rows[index], row)
        return written - self._untranslated.pop(number)

    @property
    def is_translated(self) -> bool:
        """Whether all batches are translated."""
        return not self._untranslated

    def parts_of(self, number: int) -> dict[tuple[int, int], PartsOfDocument]:
        """Return the parts of a batch that an earlier run translated."""
        parts = {}
        for key, stored in self.output.parts.items():
            if key.batch != number:
                continue
            hypotheses = []
            for sentences in stored:
                hypotheses.append([SentenceHypothesis(*pair) for pair in sentences])
            parts[key.document, key.part] = hypotheses
        return parts

    def add_part(self, number: int, document: int, part: int, hypotheses: PartsOfDocument) -> None:
        """Keep the translations of a part."""
        self.output.keep_part(PartKey(number, document, part), hypotheses)
        sentences = len(hypotheses[0])
        self._progress.update(sentences)
        self._untranslated[number] += sentences

    # ---- the end

    def translations(self) -> list[Translations]:
        """Return the translations of all sentences."""
        return self.translator.joined_rows(
            self._translated, self._rows_of_documents, self.source.sentences
        )

    def write(self) -> None:
        """Write all translations, and the record."""
        options = self.options
        names = {"checkpoints": options.paths, "data": options.data, "input": self.source.path}
        self.output.write(self._contents(options), names, self.sentence_count)

    def _contents(self, options: DecodingOptions) -> bytes:
        translations = self.translations()
        free = options.search.free
        counts = [len(document) for document in translations]
        if not free and counts != [len(document) for document in self.documents]:
            raise GtransError(
                f"'{self.output.partial}' was changed: it has {sum(counts)} translations, but "
                f"{self.sentence_count} are needed; `--force` translates anew."
            )
        if options.nbest:
            return as_lines(json_lines(self.source.ids, self.source.sentences, translations))
        best = best_of(translations)
        if free:
            texts = [" ".join(document) for document in best if document]
            return as_lines(texts)
        lang = language_code(str(self.translator.task.cfg.target_lang))
        between_sentences = "" if lang in WITHOUT_SPACES else " "
        return self.source.translated(best, between_sentences)


def _alternatives_of(row: Sequence[Any]) -> Translations:
    translations = []
    for alternatives in row:
        translations.append([Alternative(*alternative) for alternative in alternatives])
    return translations


# ---- texts in batches ----------------------------------------------------------------------------


class BatchOfText(NamedTuple):
    """A batch of a text; without rows if no batch is left."""

    translation: Translation
    number: int
    rows: list[Example]

    def translate(self, translator: Translator) -> None:
        """Translate the batch in this process, and keep its translations."""
        add_part = partial(self.translation.add_part, self.number)
        finished = Parts(self.translation.parts_of(self.number), add_part)
        translations = translator.decode_within_memory(self.rows, finished)
        self.translation.add(self.number, translations)


class OpenTexts(ExitStack):
    """Texts, locked from first to last batch.

    ``failed`` is called with the path of a text that cannot be opened.
    """

    def __init__(self, progress: Any, failed: Callable[[str, Exception], None]) -> None:
        super().__init__()
        self._progress, self._failed = progress, failed
        self._open: dict[Translation, ExitStack] = {}

    def batches(self, translations: Sequence[Translation]) -> Iterator[BatchOfText]:
        """Open text after text, and yield the batches to translate."""
        for translation in translations:
            stack = self.enter_context(ExitStack())
            try:
                stack.enter_context(translation.opened(self._progress))
            except GtransError as error:
                self._failed(translation.source.path, error)
                continue
            self._open[translation] = stack
            yield from translation.untranslated_batches()

    def closing(self, translation: Translation) -> ExitStack:
        """Return a context that closes a text."""
        return self._open.pop(translation)


def decode_texts(
    translator: Translator,
    options: DecodingOptions,
    translations: Sequence[Translation],
    failed: Callable[[str, Exception], None],
) -> Iterator[Translation]:
    """Decode texts, here or in ``options.workers`` processes; yield each finished one."""
    if not translations:
        return
    sentences = sum(translation.sentence_count for translation in translations)
    with (
        worker_processes(translator, options, sentences) as connections,
        progress_of(sentences) as progress,
        OpenTexts(progress, failed) as texts,
    ):
        batches = texts.batches(translations)
        if connections:
            decoded = _decoded_by_workers(connections, batches)
        else:
            decoded = _decoded_here(translator, batches)
        for translation in decoded:
            if translation.is_translated:
                with texts.closing(translation):
                    yield translation


def _decoded_here(translator: Translator, batches: Iterator[BatchOfText]) -> Iterator[Translation]:
    for batch in batches:
        batch.translate(translator)
        yield batch.translation


def _decoded_by_workers(
    connections: Sequence[Connection], batches: Iterator[BatchOfText]
) -> Iterator[Translation]:
    idle = list(connections)
    busy: dict[Connection, BatchOfText] = {}
    try:
        while True:
            while idle:
                batch = next(batches, None)
                if batch is None:
                    break
                connection = idle.pop()
                busy[connection] = batch
                finished = batch.translation.parts_of(batch.number)
                connection.send(ProcessTask(batch.rows, finished))
            if not busy:
                return
            for ready in wait(list(busy)):
                assert isinstance(ready, Connection)
                batch = busy[ready]
                answer = ready.recv()
                if isinstance(answer, Exception):
                    raise answer
                if isinstance(answer, FinishedPart):
                    batch.translation.add_part(
                        batch.number, answer.document, answer.part, answer.hypotheses
                    )
                    continue
                batch.translation.add(batch.number, answer)
                del busy[ready]
                idle.append(ready)
                yield batch.translation
    except (EOFError, OSError):
        raise GtransError(
            "`--workers`: a process has ended, perhaps because memory is short; give fewer. "
            "What is finished is kept: the same command goes on."
        ) from None
