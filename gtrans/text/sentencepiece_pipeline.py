"""The text pipeline of mBART and similar models: SentencePiece on plain text, no Moses steps.

A model has two files: that of SentencePiece, and the dictionary of the pieces in the vocabulary of
the network. A piece that is not in the dictionary (see :mod:`gtrans.checkpoints.trimming`) is split
into pieces that are; a character without a piece becomes the unknown word.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

from gtrans.errors import GtransError
from gtrans.files import copy_file
from gtrans.libraries import require
from gtrans.text import plain_text
from gtrans.text.pipeline import TextPipeline
from gtrans.text.subword_model import SubwordModel, read_pieces, write_pieces

MODEL_FILE = "sentencepiece.model"
PIECES_FILE = "sentencepiece.dict.txt"
SPACE = "\u2581"  # stands for a space in pieces
# Lower than the score of any piece, which is a log-probability or the number of a merge.
_UNKNOWN_SCORE = -1e7


class SentencePiecePipeline(TextPipeline):
    """Plain text, see :mod:`gtrans.text.plain_text`, in the pieces of the model.

    The model's own normalisation is not undone.
    """

    def __init__(self, lang: str, model: Path, pieces: Path) -> None:
        """``model`` is SentencePiece's file, ``pieces`` a dictionary of fairseq's.

        Raises:
            GtransError: a file is missing or not of its kind.
        """
        super().__init__(lang)
        self._files = model, pieces
        self._processor = load_model(model)
        self._known = frozenset(read_pieces(pieces))
        self._split: dict[str, list[str]] = {}

    def __reduce__(self) -> tuple[Any, ...]:
        return SentencePiecePipeline, (self.lang, *self._files)

    def tokenise(self, sentence: str) -> str:
        """See :func:`tokenise`."""
        return tokenise(sentence)

    def detokenise(self, tokens: str) -> str:
        """Plain text of what ``tokenise`` returned."""
        return plain_text.unescape(tokens)

    def segment(self, tokens: str) -> str:
        """Pieces of what ``tokenise`` returned, separated by one space; at least one."""
        pieces: list[str] = self._processor.encode(tokens, out_type=str)
        known = [part for piece in pieces for part in self._parts(piece)]
        return " ".join(known) or plain_text.PLACEHOLDER

    def _parts(self, piece: str) -> list[str]:
        """The piece, or the known pieces with the best total score into which it is split."""
        if piece in self._known or len(piece) == 1:
            return [piece]
        if piece not in self._split:
            # best[n]: score and parts of the first n characters
            best: list[tuple[float, list[str]]] = [(0.0, [])]
            for end in range(1, len(piece) + 1):
                candidates = [
                    (score + self._score(part), [*parts, part])
                    for begin, (score, parts) in enumerate(best)
                    if (part := piece[begin:end]) in self._known or end - begin == 1
                ]
                best.append(max(candidates, key=lambda candidate: candidate[0]))
            self._split[piece] = best[-1][1]
        return self._split[piece]

    def _score(self, part: str) -> float:
        number = self._processor.piece_to_id(part)
        if part not in self._known or self._processor.is_unknown(number):
            return _UNKNOWN_SCORE
        score: float = self._processor.get_score(number)
        return score

    def unsegment(self, tokens: str) -> str:
        """Text of pieces; a symbol that is only in the dictionary stays as it is."""
        text: str = self._processor.decode(tokens.split())
        return text.replace(SPACE, " ").strip()


def tokenise(sentence: str) -> str:
    """The words as they are, reserved symbols escaped; U+2581 is a space to the model."""
    return plain_text.tokenise(sentence.replace(SPACE, " "))


def load_model(path: Path) -> Any:
    """The SentencePiece model at ``path``.

    Raises:
        GtransError: it is missing or not a model, or the library is not installed.
    """
    require(["sentencepiece"], "`--sentencepiece`")
    import sentencepiece

    if not path.is_file():
        raise GtransError(
            f"{path}: there is no such SentencePiece model; that of mBART is "
            "sentence.bpe.model in https://dl.fbaipublicfiles.com/fairseq/models/mbart/"
            "mbart.cc25.v2.tar.gz, that of mBART-50 sentencepiece.bpe.model next to its weights."
        )
    processor = sentencepiece.SentencePieceProcessor()
    try:
        processor.load(str(path))
    except (OSError, RuntimeError) as error:
        raise GtransError(f"{path}: not a SentencePiece model ({error}).") from None
    return processor


def model_pieces(processor: Any) -> list[str]:
    """All pieces except special symbols, in the order of the model and of mBART's embeddings."""
    return [
        str(processor.id_to_piece(number))
        for number in range(processor.get_piece_size())
        if not (processor.is_control(number) or processor.is_unknown(number))
    ]


def _model_files(model: Path) -> tuple[Path, ...]:
    return (model,)


def _check(model: Path, dictionary: Path | None) -> None:
    load_model(model)
    if dictionary is not None:
        read_pieces(dictionary)


def _copy(model: Path, dictionary: Path | None, folder: Path) -> None:
    """Copy the model; without a dictionary, write its pieces in their order, as in mBART."""
    processor = load_model(model)
    pieces = model_pieces(processor) if dictionary is None else read_pieces(dictionary)
    copy_file(model, folder / MODEL_FILE)
    write_pieces(pieces, folder / PIECES_FILE)


SENTENCEPIECE = SubwordModel(
    "sentencepiece",
    (MODEL_FILE, PIECES_FILE),
    _model_files,
    _check,
    _copy,
    tokenise,
    SentencePiecePipeline,
)
