"""Subwords: BPE, and published SentencePiece models with their dictionaries."""

from __future__ import annotations

import io
import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import redirect_stderr
from operator import attrgetter
from pathlib import Path
from typing import Any, ClassVar, NamedTuple

from subword_nmt.apply_bpe import BPE
from subword_nmt.learn_bpe import learn_bpe

from gtrans.data.dictionary_file import dictionary_lines, parse_dictionary, read_dictionary_file
from gtrans.data.documents import decoded, read_bytes, read_text
from gtrans.environment import require
from gtrans.errors import GtransError
from gtrans.files import atomic_writer, copy_file
from gtrans.messages import print_message
from gtrans.text.pipeline import PLACEHOLDER, TextPipeline, clean, escape, unescape

BPE_SEPARATOR = "@@"
SPACE = "\u2581"  # stands for a space in the subwords of SentencePiece
# Lower than the score of any subword, which is a log-probability or the number of a merge.
_UNKNOWN_SCORE = -1e7
_WHERE = "docs/pretrained.md says where it is"


# ---- BPE -----------------------------------------------------------------------------------------


def learn_codes(words: Counter[str], merges: int | None, entries: int | None, path: Path) -> None:
    """Learn BPE from the frequencies of words and write a file of codes.

    Args:
        merges: how many to learn; None: ``entries`` decides.
        entries: merges and characters; a character at the end of a word is an entry of its own.
    """
    codes = ""
    if any(len(word) > 1 for word in words):  # the library fails on single characters only
        codes = _learnt_codes(words, merges, entries)
    learnt = max(0, codes.count("\n") - 1)  # the first line is the version
    if not learnt:
        raise GtransError(
            "`--train` is too small for BPE: no two characters stand next to each other twice, or "
            "there are as many characters as `--bpe-symbols`; give more text or a larger number"
        )
    if learnt < (merges or 0):
        print_message(f"bpe: {learnt} merges instead of {merges}, no other pair occurs twice")
    with atomic_writer(path) as file:
        file.write(codes)


def _learnt_codes(words: Counter[str], merges: int | None, entries: int | None) -> str:
    counts = io.StringIO()
    for word, count in words.items():
        counts.write(f"{word} {count}\n")
    counts.seek(0)
    codes = io.StringIO()
    with redirect_stderr(io.StringIO()):  # the library draws a progress bar on any stream
        learn_bpe(counts, codes, merges or entries, is_dict=True, total_symbols=not merges)
    return codes.getvalue()


def count_merges(codes: Path) -> int:
    """Return the number of merges in a file."""
    lines = read_text(codes).removesuffix("\n").split("\n")
    return sum(not line.startswith("#version:") for line in lines)


def load_bpe(codes: Path) -> BPE:
    """Read the merges of a file."""
    return bpe_of(read_text(codes), codes)


def bpe_of(codes: str, path: Path, vocabulary: Iterable[str] | None = None) -> BPE:
    """Return BPE by the contents of a file of codes; only subwords of ``vocabulary``."""
    lines = codes.removesuffix("\n").split("\n")
    # The library ends the program at a bad line, so lines are checked here.
    for number, line in enumerate(lines, start=1):
        is_header = number == 1 and line.startswith("#version:")
        units = line.strip("\r ").split(" ")
        if not is_header and len(units) != 2:
            raise GtransError(f"{path}:{number}: not a BPE merge (two units, one space)")
    merges = io.StringIO()
    for line in lines:
        merges.write(f"{line}\n")
    merges.seek(0)
    known = None if vocabulary is None else set(vocabulary)
    return BPE(merges, separator=BPE_SEPARATOR, vocab=known)


# ---- models of others ----------------------------------------------------------------------------


# What the tokenisers of published models take for a space between two letters of Latin script.
_LATIN = "A-Za-z\u00c0-\u024f\u1e00-\u1eff"
_WORD_END = re.compile(f"(?<=[{_LATIN}])[\u200b\u200c\ufeff](?=[{_LATIN}])")


class SentencePiecePipeline(TextPipeline):
    """Plain text in the subwords of SentencePiece, without Moses steps.

    A subword that the dictionary lacks (:mod:`gtrans.conversion.trimming`) is split into known
    ones. ``decode`` gives the text back except for white space and SentencePiece's normalisation.

    Args:
        contents: of :attr:`files`, by name.
        side: 0: source, 1: target, if they have different models.

    Attributes:
        name: the kind of subwords in ``prepare.json``.
        files: in a data folder; the last one lists the subwords of the network.
    """

    name: ClassVar[str] = "sentencepiece"
    files: ClassVar[tuple[str, ...]] = ("sentencepiece.model", "sentencepiece.dict.txt")

    def __init__(
        self, lang: str, contents: Mapping[str, bytes], side: int = 0, folder: Path = Path()
    ) -> None:
        super().__init__(lang)
        names = self.files
        if len(names) > 2:  # of OPUS-MT: each language has its own
            names = names[side::2]
        model, dictionary = names
        self._processor = sentencepiece_of(contents[model], folder / model)
        text = decoded(contents[dictionary], folder / dictionary)
        subwords = subwords_in(text, folder / dictionary)
        self._vocabulary = frozenset(subwords)
        self._split: dict[str, list[str]] = {}

    @classmethod
    def copy(cls, model: Path, dictionary: Path | None, folder: Path) -> None:
        """Copy a model and a dictionary (None: all subwords) into a data folder."""
        processor = load_sentencepiece(model)
        if dictionary is None:
            subwords = model_subwords(processor)
        else:
            subwords = read_subwords(dictionary)
        model_file, dictionary_file = cls.files
        copy_file(model, folder / model_file)
        write_subwords(subwords, folder / dictionary_file)

    def tokenise(self, sentence: str) -> str:
        """Return the words without escapes, which the model does not know; U+2581 is a space."""
        spaced = _WORD_END.sub(" ", sentence.replace(SPACE, " "))
        return clean(spaced) or PLACEHOLDER

    def detokenise(self, tokens: str) -> str:
        """Return the text on one line."""
        return " ".join(tokens.split())

    def segment(self, tokens: str) -> str:
        """Return subwords; characters without one stay, but never become a special token."""
        subwords: list[str] = []
        for subword in self._processor.encode(tokens, out_type=str):
            for part in self._parts(subword):
                is_known = part in self._vocabulary
                subwords.append(part if is_known else escape(part))
        return " ".join(subwords) or PLACEHOLDER

    def _parts(self, subword: str) -> list[str]:
        number = self._processor.piece_to_id(subword)
        is_unknown = self._processor.is_unknown(number)
        if subword in self._vocabulary or len(subword) == 1 or is_unknown:
            return [subword]
        if subword not in self._split:
            self._split[subword] = self._best_split(subword)
        return self._split[subword]

    def _best_split(self, subword: str) -> list[str]:
        best = [_Split(0.0, [])]  # of the first 0, 1, .. characters
        for end in range(1, len(subword) + 1):
            candidates = []
            for begin, split in enumerate(best):
                part = subword[begin:end]
                if part in self._vocabulary or len(part) == 1:
                    score = split.score + self._score(part)
                    candidates.append(_Split(score, [*split.parts, part]))
            best.append(max(candidates, key=attrgetter("score")))
        return best[-1].parts

    def _score(self, part: str) -> float:
        number = self._processor.piece_to_id(part)
        if part not in self._vocabulary or self._processor.is_unknown(number):
            return _UNKNOWN_SCORE
        return float(self._processor.get_score(number))

    def unsegment(self, tokens: str) -> str:
        """Return the text of subwords; other dictionary entries stay."""
        text: str = self._processor.decode(unescape(tokens).split())
        return text.replace(SPACE, " ").strip()


class _Split(NamedTuple):
    score: float
    parts: list[str]


def load_sentencepiece(path: Path) -> Any:
    """Load a SentencePiece model."""
    require(["sentencepiece"], "`--sentencepiece`")
    if not path.is_file():
        raise GtransError(f"{path}: there is no such SentencePiece model; {_WHERE}.")
    return sentencepiece_of(read_bytes(path), path)


def sentencepiece_of(contents: bytes, path: Path) -> Any:
    """Load a SentencePiece model from the contents of the file ``path``."""
    require(["sentencepiece"], "`--sentencepiece`")
    import sentencepiece

    processor = sentencepiece.SentencePieceProcessor()
    try:
        processor.load_from_serialized_proto(contents)
    except (OSError, RuntimeError) as error:
        raise GtransError(f"{path}: not a SentencePiece model ({error}).") from None
    return processor


# Parts after the subwords; SentencePiece itself does not miss them in a file that was cut off.
_TRAINER, _NORMALISER = 2, 3


def check_whole_sentencepiece(path: Path) -> None:
    """Raise GtransError for a model that was cut off between two subwords."""
    records = set(_record_numbers(path.read_bytes()))
    if not records >= {_TRAINER, _NORMALISER}:
        raise GtransError(f"{path}: the end of the SentencePiece model is missing; fetch it again.")


def _record_numbers(content: bytes) -> Iterator[int]:
    place = 0
    while place < len(content):
        tag = _varint(content, place)
        yield tag.value >> 3
        length = _varint(content, tag.end)
        place = length.end + length.value


class _Varint(NamedTuple):
    """A number of a protocol buffer, and its end."""

    value: int
    end: int


def _varint(content: bytes, begin: int) -> _Varint:
    value = 0
    shift = 0
    end = begin
    while end < len(content):
        byte = content[end]
        value |= (byte & 0x7F) << shift
        end += 1
        shift += 7
        if byte < 0x80:
            break
    return _Varint(value, end)


def model_subwords(processor: Any) -> list[str]:
    """Return the subwords of a model, without special tokens."""
    subwords = []
    for number in range(processor.get_piece_size()):
        is_special = processor.is_control(number) or processor.is_unknown(number)
        if not is_special:
            subwords.append(str(processor.id_to_piece(number)))
    return subwords


class MarianPipeline(SentencePiecePipeline):
    """The SentencePiece models of OPUS-MT, one for each language; only in checkpoints."""

    name = "marian"
    files = ("source.spm", "target.spm", "source.dict.txt", "target.dict.txt")


# ---- dictionaries --------------------------------------------------------------------------------


def read_subwords(dictionary: Path) -> list[str]:
    """Return the subwords of a dictionary file."""
    return [entry.text for entry in read_dictionary_file(dictionary)]


def subwords_in(contents: str, dictionary: Path) -> list[str]:
    """Return the subwords in the contents of a dictionary file."""
    return [entry.text for entry in parse_dictionary(contents, dictionary)]


def write_subwords(subwords: Sequence[str], path: Path) -> None:
    """Write a dictionary file; every subword has the count 1."""
    entries = [(subword, 1) for subword in subwords]
    with atomic_writer(path) as file:
        file.writelines(dictionary_lines(entries))


SUBWORD_MODELS: dict[str, type[SentencePiecePipeline]] = {
    kind.name: kind for kind in (SentencePiecePipeline, MarianPipeline)
}
"""The kinds of subword models by their names in ``prepare.json``."""
