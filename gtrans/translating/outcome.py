"""The outcome of a command's texts, and its messages."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from gtrans.data.documents import STANDARD_STREAM
from gtrans.errors import GtransError
from gtrans.messages import print_message
from gtrans.translating.translation import Translation


class Outcome:
    """The outcome of a command's texts; a failure does not stop the others."""

    def __init__(self, texts: int, output_dir: str | None) -> None:
        self._texts = texts
        self._output_dir = output_dir
        self._finished: list[Translation] = []
        self._written: list[Translation] = []
        self._failures = 0
        self._places_by_kind: dict[str, int] = {}  # of notes

    @contextmanager
    def failures_of(self, path: str | Path) -> Iterator[None]:
        """Report an error; for a single text it ends the command."""
        try:
            yield
        except Exception as error:
            self.failed(path, error)

    def failed(self, path: str | Path, error: Exception) -> None:
        """Report an error; raise it if there is no other text."""
        if self._output_dir is None:
            raise error
        message = str(error)
        if not isinstance(error, GtransError):
            message = f"'{path}': it cannot be translated ({type(error).__name__}: {error})"
        if self._texts == 1:
            raise GtransError(message) from error
        self._failures += 1
        print_message(message)

    def was_finished(self, translation: Translation) -> None:
        """Count a text of an earlier run."""
        self._finished.append(translation)

    def report_finished(self, others: int) -> None:
        """Print which texts an earlier run translated; ``others``: how many it did not."""
        if self._finished and self._output_dir is None:
            path = self._finished[0].output.path
            print_message(f"'{path}' is already this translation; `--force` translates anew")
        elif self._finished:
            count = len(self._finished)
            print_message(
                f"{count} of {count + others} files are translated already; `--force` translates "
                "them anew"
            )

    def was_written(self, translation: Translation) -> None:
        """Count a translated text, and print its notes."""
        self._written.append(translation)
        for note in translation.source.notes:
            print_message(str(note))
            places = self._places_by_kind.get(note.kind, 0)
            self._places_by_kind[note.kind] = places + note.count

    def report(self, unsaid_warnings: int) -> None:
        """Print how many sentences are translated; raise GtransError if a text is not."""
        if unsaid_warnings > 0:
            print_message(f"warning: the same holds for {unsaid_warnings} more files")
        sentences = sum(translation.sentence_count for translation in self._written)
        if self._output_dir is None:
            for translation in self._written:
                if translation.output.path != STANDARD_STREAM:
                    print_message(f"{sentences} sentences written to {translation.output.path}")
            return
        count = len(self._written)
        files = "1 file" if count == 1 else f"{count} files"
        notes = "".join(f"; {kind}: {places}" for kind, places in self._places_by_kind.items())
        print_message(f"{sentences} sentences in {files} written to {self._output_dir}{notes}")
        if self._failures:
            raise GtransError(
                f"{self._failures} of {self._texts} files are not translated, as told above; mend "
                "them and run this again: what is finished is not done twice."
            )
