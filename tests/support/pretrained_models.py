"""Tiny mBART models in the real formats of fairseq and Hugging Face."""

from __future__ import annotations

from argparse import Namespace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import torch
from fairseq.data import Dictionary
from torch import nn

from gtrans.checkpoints.sources import MBART25, MBART50
from gtrans.data.vocabulary import add_language_tokens
from support.runs import GROUPS

SUBWORDS = tuple(f"p{number}" for number in range(20))
LANGS = {"mbart": MBART25.split(","), "mbart50": MBART50.split(",")}
DIM, FFN, LAYERS, HEADS, POSITIONS = 24, 40, 2, 4, 30
# A model of these sizes on the command line, with more positions.
FLAGS = (
    *("--encoder-layers", "2", "--decoder-layers", "2", "--encoder-embed-dim", "24"),
    *("--encoder-ffn-embed-dim", "40", "--decoder-ffn-embed-dim", "40"),
    *("--encoder-attention-heads", "4", "--decoder-attention-heads", "4"),
    *(*GROUPS, "--max-positions", "600"),
)


def write_dictionaries(folder: Path, subwords: tuple[str, ...] = SUBWORDS) -> Path:
    """A data folder with nothing but dictionaries."""
    folder.mkdir(parents=True, exist_ok=True)
    for lang in ("en", "de"):
        text = "".join(f"{subword} 1\n" for subword in subwords)
        (folder / f"dict.{lang}.txt").write_text(text, encoding="utf-8")
    return folder


def vocabulary(folder: Path, langs: list[str]) -> Dictionary:
    dictionary = Dictionary.load(str(folder / "dict.en.txt"))
    add_language_tokens(dictionary, len(dictionary), langs)
    return dictionary


def shaken(model: nn.Module) -> nn.Module:
    """All parameters, biases and norms included, away from their start."""
    torch.manual_seed(1)
    with torch.no_grad():
        for name, parameter in model.named_parameters():
            parameter.add_(0.2 * torch.randn_like(parameter))
            if "embed" in name or "shared" in name:
                parameter[1 if parameter.dim() == 2 else slice(0)] = 0
    return model.eval()


def fairseq_model(folder: Path, data: Path, positions: int = POSITIONS) -> tuple[nn.Module, Path]:
    """fairseq's own mBART, and the folder ``model.pt`` and ``dict.txt`` of it, as published."""
    from fairseq.models.bart.model import BARTModel, mbart_large_architecture

    args = Namespace(
        arch="mbart_large", task="multilingual_denoising", langs=MBART25, add_lang_token=True,
        encoder_normalize_before=True, decoder_normalize_before=True, layernorm_embedding=True,
        encoder_embed_dim=DIM, encoder_ffn_embed_dim=FFN, encoder_layers=LAYERS,
        encoder_attention_heads=HEADS, decoder_layers=LAYERS, decoder_attention_heads=HEADS,
        max_source_positions=positions, max_target_positions=positions,
        data="/somewhere/else", dropout=0.1, attention_dropout=0.1, pooler_dropout=0.0,
    )  # fmt: skip
    mbart_large_architecture(args)
    entries = vocabulary(data, LANGS["mbart"])
    task: Any = SimpleNamespace(source_dictionary=entries, target_dictionary=entries)
    model = shaken(BARTModel.build_model(args, task))
    folder.mkdir(parents=True, exist_ok=True)
    state = {
        "args": args,
        "model": model.state_dict(),
        "optimizer_history": [{"num_updates": 5, "criterion_name": "CrossEntropyCriterion"}],
        "extra_state": {"train_iterator": {"epoch": 1}},
        "last_optimizer_state": None,
    }
    torch.save(state, folder / "model.pt")
    (folder / "dict.txt").write_bytes((data / "dict.en.txt").read_bytes())
    return model, folder / "model.pt"


def hugging_face_model(
    kind: str, folder: Path, data: Path, positions: int = POSITIONS
) -> tuple[Any, Path]:
    """Hugging Face's own model and the folder that it has written."""
    from transformers import MBartConfig, MBartForConditionalGeneration

    options: dict[str, Any] = {
        "vocab_size": len(vocabulary(data, LANGS[kind])), "d_model": DIM,
        "encoder_layers": LAYERS, "decoder_layers": LAYERS,
        "encoder_ffn_dim": FFN, "decoder_ffn_dim": FFN,
        "encoder_attention_heads": HEADS, "decoder_attention_heads": HEADS,
        "max_position_embeddings": positions, "scale_embedding": True,
    }  # fmt: skip
    if kind == "mbart50":
        options.update(decoder_start_token_id=2, tokenizer_class="MBart50Tokenizer")
    model = shaken(MBartForConditionalGeneration(MBartConfig(**options)))
    model.save_pretrained(folder)
    return model, folder


def frame_of(kind: str, data: Path, words: list[list[int]]) -> tuple[list[int], list[int]]:
    """Source and decoder input of one sentence pair, as the model of that kind has them."""
    entries = vocabulary(data, LANGS[kind])
    src, tgt = entries.index("[en_XX]"), entries.index("[de_DE]")
    source, target = words
    if kind == "mbart":
        return [*source, 2, src], [tgt, *target]
    return [src, *source, 2], [2, tgt, *target]
