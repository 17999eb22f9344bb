"""Subword models of pretrained models, with the dictionaries of their pieces."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from gtrans.errors import GtransError
from gtrans.files import atomic_writer
from gtrans.text.pipeline import TextPipeline


@dataclass(frozen=True)
class SubwordModel:
    """A kind of subword model that replaces the Moses steps and our own BPE.

    Attributes:
        name: the flag of ``gtrans prepare`` for this kind, without the dashes in front.
        files: its files in a data folder; the last one is the dictionary.
        model_files: the files of a model, by its path.
        check: raises GtransError unless the model and, if any, the dictionary can be read.
        copy: copies a model and its dictionary into a data folder, as ``files``.
        tokenise: the first step of the pipeline, which needs none of the files.
        pipeline: makes the text pipeline from a language and the paths of ``files``.
    """

    name: str
    files: tuple[str, ...]
    model_files: Callable[[Path], tuple[Path, ...]]
    check: Callable[[Path, Path | None], None]
    copy: Callable[[Path, Path | None, Path], None]
    tokenise: Callable[[str], str]
    pipeline: Callable[..., TextPipeline]

    @property
    def dictionary(self) -> str:
        """The file of the pieces that are in the vocabulary of the network."""
        return self.files[-1]

    def load(self, lang: str, folder: Path) -> TextPipeline:
        """The pipeline of one language of a data folder."""
        return self.pipeline(lang, *(folder / name for name in self.files))


def read_lines(path: Path) -> list[str]:
    """The lines of a file that belongs to a model.

    Raises:
        GtransError: it is not UTF-8.
    """
    try:
        return path.read_text(encoding="utf-8").split("\n")
    except UnicodeDecodeError as error:
        raise GtransError(
            f"{path}: not UTF-8 (at byte {error.start + 1}); fetch it anew."
        ) from None


def read_pieces(path: Path) -> list[str]:
    """The symbols of a dictionary with lines ``SYMBOL COUNT``.

    Raises:
        GtransError: it is missing, or a line has another form.
    """
    if not path.is_file():
        raise GtransError(
            f"{path}: there is no such dictionary; the dict.txt of a model belongs next to it."
        )
    pieces = []
    for number, line in enumerate(read_lines(path), 1):
        if not line:
            continue
        piece, _, count = line.rpartition(" ")
        if not piece or not count.isdigit():
            raise GtransError(f"{path}:{number}: not a line 'SYMBOL COUNT' of a dictionary.")
        pieces.append(piece)
    return pieces


def write_pieces(pieces: Sequence[str], path: Path) -> None:
    """Write a dictionary in fairseq's format."""
    with atomic_writer(path) as file:
        file.writelines(f"{piece} 1\n" for piece in pieces)
