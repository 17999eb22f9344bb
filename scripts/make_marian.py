"""Make a small OPUS-MT model from plain text: SentencePiece models, then training.

For tests and demonstrations where no published model can be had: the folder has the format
of the transformers library. PREFIX.en and PREFIX.de have one sentence per line.
"""

from __future__ import annotations

import json
import random
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import sentencepiece
import torch
from make_bert import learn, options
from torch import Tensor
from torch.nn.utils.rnn import pad_sequence

LONGEST = 100  # subwords of a sentence to train on
Pair = tuple[list[int], list[int]]


def write_tokenizer(prefix: Path, languages: Sequence[str], size: int, folder: Path) -> Any:
    """Train a SentencePiece model of each language; save and return a tokenizer with both."""
    from transformers import MarianTokenizer

    entries = dict.fromkeys(["</s>", "<unk>"])
    for language, side in zip(languages, ("source", "target"), strict=True):
        path = folder / f"{side}.spm"
        with path.open("wb") as model:
            sentencepiece.SentencePieceTrainer.train(
                input=f"{prefix}.{language}",
                model_writer=model,
                vocab_size=size,
                hard_vocab_limit=False,
                minloglevel=2,
            )
        subwords = sentencepiece.SentencePieceProcessor(model_file=str(path))
        entries |= dict.fromkeys(map(subwords.id_to_piece, range(3, subwords.get_piece_size())))
    numbers = {entry: number for number, entry in enumerate([*entries, "<pad>"])}
    vocabulary = folder / "vocab.json"
    vocabulary.write_text(json.dumps(numbers, ensure_ascii=False), "utf-8")
    made: Any = MarianTokenizer
    tokenizer = made(
        str(folder / "source.spm"),
        str(folder / "target.spm"),
        str(vocabulary),
        source_lang=languages[0],
        target_lang=languages[1],
    )
    tokenizer.save_pretrained(folder)
    return tokenizer


def read_pairs(prefix: Path, languages: Sequence[str], tokenizer: Any) -> list[Pair]:
    """The subwords of all pairs of sentences that are not too long."""
    source, target = (
        Path(f"{prefix}.{language}").read_text("utf-8").split("\n") for language in languages
    )
    texts = [pair for pair in zip(source, target, strict=True) if all(pair)]
    encoded = [(tokenizer(x)["input_ids"], tokenizer(text_target=y)["input_ids"]) for x, y in texts]
    return [pair for pair in encoded if max(map(len, pair)) <= LONGEST]


def batches(pairs: list[Pair], tokens: int, draw: random.Random) -> Iterator[list[Pair]]:
    """Batches of pairs of similar length, in random order, without end."""
    while True:
        pairs = sorted(pairs, key=lambda pair: (max(map(len, pair)), draw.random()))
        groups: list[list[Pair]] = [[]]
        for pair in pairs:
            if max(map(len, pair)) * (len(groups[-1]) + 1) > tokens:
                groups.append([])
            groups[-1].append(pair)
        draw.shuffle(groups)
        yield from groups


def loss_of(model: Any, rows: list[Pair]) -> Tensor:
    """Label-smoothed cross-entropy per token."""
    pad = model.config.pad_token_id
    source, target = (
        pad_sequence([torch.tensor(row) for row in side], batch_first=True, padding_value=pad)
        for side in zip(*rows, strict=True)
    )
    states = model.model(
        input_ids=source,
        attention_mask=source.ne(pad),
        decoder_input_ids=torch.cat([torch.full_like(target[:, :1], pad), target[:, :-1]], 1),
    ).last_hidden_state
    written = target.ne(pad)
    logits = model.lm_head(states[written]) + model.final_logits_bias
    return torch.nn.functional.cross_entropy(logits, target[written], label_smoothing=0.1)


def make_marian(
    folder: Path,
    prefix: Path,
    languages: Sequence[str],
    *,
    vocabulary: int,
    layers: int,
    dim: int,
    heads: int,
    updates: int,
    tokens: int,
    rate: float,
    seed: int,
) -> None:
    """Make a model and save it in ``folder``."""
    from transformers import MarianConfig, MarianMTModel

    torch.manual_seed(seed)
    torch.set_num_threads(1)
    folder.mkdir(parents=True, exist_ok=True)
    tokenizer = write_tokenizer(prefix, languages, vocabulary, folder)
    pad = tokenizer.pad_token_id
    config = MarianConfig(
        vocab_size=len(tokenizer),
        d_model=dim,
        encoder_layers=layers,
        decoder_layers=layers,
        encoder_ffn_dim=4 * dim,
        decoder_ffn_dim=4 * dim,
        encoder_attention_heads=heads,
        decoder_attention_heads=heads,
        activation_function="swish",
        scale_embedding=True,
        pad_token_id=pad,
        eos_token_id=0,
        decoder_start_token_id=pad,
        init_std=dim**-0.5,
        max_position_embeddings=512,
    )
    model = MarianMTModel(config).train()
    stream = batches(read_pairs(prefix, languages, tokenizer), tokens, random.Random(seed))
    optimizer = torch.optim.Adam(model.parameters(), lr=rate, betas=(0.9, 0.98))
    learn(model, (loss_of(model, rows) for rows in stream), optimizer, updates)
    model.eval().save_pretrained(folder)


def main() -> None:
    """Parse the options and run."""
    parser = options(
        __doc__,
        vocabulary=4000,
        layers=3,
        dim=256,
        heads=4,
        updates=1000,
        tokens=2048,
        seed=1,
        rate=1e-3,
    )
    parser.add_argument(
        "--text", type=Path, required=True, metavar="PREFIX", help="the text PREFIX.LANG"
    )
    parser.add_argument(
        "--languages",
        nargs=2,
        default=["en", "de"],
        metavar="LANG",
        help="source and target (en de)",
    )
    args = vars(parser.parse_args())
    make_marian(args.pop("out"), args.pop("text"), args.pop("languages"), **args)


if __name__ == "__main__":
    main()
