"""The text pipeline of BART: byte-level BPE (that of GPT-2) on plain text, no Moses steps.

A model is a folder in one of two forms. fairseq's BART has ``encoder.json`` and ``vocab.bpe``,
and writes a piece as its number in these files; the ``dict.txt`` of the model says which row of
the embeddings a number has. Hugging Face's BART has ``vocab.json`` and ``merges.txt``, writes a
piece as it is, and its number is the row.

Every byte is a piece, so every text can be segmented. ``decode`` gives back the text except for
the kind and number of white space.
"""

from __future__ import annotations

import importlib
import json
from itertools import groupby
from pathlib import Path
from typing import Any

from gtrans.errors import GtransError
from gtrans.files import atomic_writer, copy_file, read_object
from gtrans.libraries import require
from gtrans.text import plain_text
from gtrans.text.pipeline import TextPipeline
from gtrans.text.subword_model import SubwordModel, read_lines, read_pieces, write_pieces

MERGES_FILE = "byte-bpe.merges"
SYMBOLS_FILE = "byte-bpe.json"
PIECES_FILE = "byte-bpe.dict.txt"
_FAIRSEQ = ("vocab.bpe", "encoder.json")
_HUGGING_FACE = ("merges.txt", "vocab.json")
_DOWNLOADS = (
    "BART's are encoder.json and vocab.bpe in https://dl.fbaipublicfiles.com/fairseq/gpt2_bpe/, or "
    "vocab.json and merges.txt next to the weights on huggingface.co"
)
# In Hugging Face's files; fairseq's dictionaries have them by themselves.
_SPECIAL = ("<s>", "<pad>", "</s>", "<unk>", "<mask>")


class ByteBpePipeline(TextPipeline):
    """Plain text, see :mod:`gtrans.text.plain_text`, in the pieces of the model."""

    def __init__(self, lang: str, merges: Path, symbols: Path, pieces: Path) -> None:
        """The files of a data folder; ``symbols`` says how each piece is written.

        Raises:
            GtransError: a file is missing or not of its kind.
        """
        super().__init__(lang)
        self._files = merges, symbols, pieces
        library = _library()
        self._symbols: dict[str, str] = _table_in(symbols, str)
        self._written = {symbol: piece for piece, symbol in self._symbols.items()}
        numbers = {piece: number for number, piece in enumerate(self._symbols)}
        try:
            model = library.models.BPE(numbers, _read_merges(merges))
        except Exception as error:  # the library raises nothing more precise
            raise GtransError(f"{merges}: not merges of {symbols.name} ({error}).") from None
        self._tokenizer = library.Tokenizer(model)
        self._tokenizer.pre_tokenizer = library.pre_tokenizers.ByteLevel(add_prefix_space=False)
        self._decoder = library.decoders.ByteLevel()

    def __reduce__(self) -> tuple[Any, ...]:
        return ByteBpePipeline, (self.lang, *self._files)

    def tokenise(self, sentence: str) -> str:
        """The words as they are, reserved symbols escaped."""
        return plain_text.tokenise(sentence)

    def detokenise(self, tokens: str) -> str:
        """Plain text of what ``tokenise`` returned."""
        return plain_text.unescape(tokens)

    def segment(self, tokens: str) -> str:
        """Symbols of what ``tokenise`` returned, separated by one space; at least one."""
        pieces: list[str] = self._tokenizer.encode(tokens).tokens
        return " ".join(self._symbols[piece] for piece in pieces)

    def unsegment(self, tokens: str) -> str:
        """Text of pieces; a symbol that is only in the dictionary stays as it is."""
        parts = []
        for known, group in groupby(tokens.split(), self._written.__contains__):
            if known:
                parts.append(str(self._decoder.decode([self._written[one] for one in group])))
            else:
                parts.extend(group)
        return " ".join(parts)


def _library() -> Any:
    require(["tokenizers"], "`--byte-bpe`")
    return importlib.import_module("tokenizers")


def _table_in(path: Path, kind: type[int] | type[str]) -> dict[str, Any]:
    """The JSON object of a file: pieces, each with its number, or with how it is written."""
    try:
        table = read_object(path, f"; {_DOWNLOADS}.")
    except FileNotFoundError:
        raise GtransError(f"{path}: there is no such file; {_DOWNLOADS}.") from None
    found: dict[Any, str] = {}
    for piece, value in table.items():
        if type(value) is not kind:
            what = "a number" if kind is int else "a text"
            raise GtransError(f"{path}: the piece '{piece}' has {value!r:.40}, not {what}.")
        if value in found:
            raise GtransError(f"{path}: '{found[value]}' and '{piece}' have the same {value!r}.")
        found[value] = piece
    return table


def _read_merges(path: Path) -> list[tuple[str, str]]:
    if not path.is_file():
        raise GtransError(f"{path}: there is no such file; {_DOWNLOADS}.")
    merges = []
    for number, line in enumerate(read_lines(path), 1):
        if not line or (number == 1 and line.startswith("#version")):
            continue
        first, _, second = line.partition(" ")
        if not (first and second) or " " in second:
            raise GtransError(f"{path}:{number}: not two pieces to merge.")
        merges.append((first, second))
    return merges


def _model_files(folder: Path) -> tuple[Path, ...]:
    """The merges and the numbers of the pieces."""
    if not folder.is_dir():
        raise GtransError(f"{folder}: there is no such folder of a byte-level BPE; {_DOWNLOADS}.")
    for form in (_FAIRSEQ, _HUGGING_FACE):
        if any((folder / name).is_file() for name in form):
            return tuple(folder / name for name in form)
    raise GtransError(f"{folder}: it holds no byte-level BPE; {_DOWNLOADS}.")


def _read(folder: Path, dictionary: Path | None) -> tuple[dict[str, str], list[str]]:
    """How each piece is written, and the dictionary.

    Raises:
        GtransError: files that are missing or do not belong together.
    """
    merges, vocabulary = _model_files(folder)
    numbers: dict[str, int] = _table_in(vocabulary, int)
    if vocabulary.name == _FAIRSEQ[1]:
        symbols = {piece: str(number) for piece, number in numbers.items()}
        if dictionary is None:
            raise GtransError(
                f"`--byte-bpe` '{folder}' needs `--dictionary`, the dict.txt of the model: "
                f"{vocabulary.name} does not say which row of the embeddings a piece has."
            )
    else:
        symbols = {piece: piece for piece in numbers if piece not in _SPECIAL}
    pieces = (
        sorted(symbols, key=numbers.__getitem__) if dictionary is None else read_pieces(dictionary)
    )
    written = set(pieces)
    missing = [byte for byte in _bytes() if symbols.get(byte) not in written]
    if missing:
        raise GtransError(
            f"{dictionary or vocabulary}: {len(missing)} of the 256 bytes are missing; it does not "
            f"belong to the byte-level BPE in '{folder}'."
        )
    merged = {part for pair in _read_merges(merges) for part in (*pair, "".join(pair))}
    unknown = sorted(merged - symbols.keys())
    if unknown:
        raise GtransError(
            f"{merges}: '{unknown[0]}' is not in {vocabulary.name}; take both from one model."
        )
    return symbols, pieces


def _bytes() -> list[str]:
    alphabet: list[str] = _library().pre_tokenizers.ByteLevel.alphabet()
    return alphabet


def _check(folder: Path, dictionary: Path | None) -> None:
    _read(folder, dictionary)


def _copy(folder: Path, dictionary: Path | None, out: Path) -> None:
    symbols, pieces = _read(folder, dictionary)
    copy_file(_model_files(folder)[0], out / MERGES_FILE)
    with atomic_writer(out / SYMBOLS_FILE) as file:
        json.dump(symbols, file, ensure_ascii=False)
    write_pieces(pieces, out / PIECES_FILE)


BYTE_BPE = SubwordModel(
    "byte-bpe",
    (MERGES_FILE, SYMBOLS_FILE, PIECES_FILE),
    _model_files,
    _check,
    _copy,
    plain_text.tokenise,
    ByteBpePipeline,
)
