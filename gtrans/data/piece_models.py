"""The kinds of text models that ``gtrans prepare`` takes over, by the name of their option."""

from gtrans.data.byte_bpe_pipeline import BYTE_BPE
from gtrans.data.pieces import PieceModel
from gtrans.data.sentencepiece_pipeline import SENTENCEPIECE

PIECE_MODELS: dict[str, PieceModel] = {model.name: model for model in (SENTENCEPIECE, BYTE_BPE)}
