"""Make a small BERT from plain text: WordPiece vocabulary, then masked language modelling.

For tests and demonstrations where no BERT can be had: the folder has the standard format
of the transformers library. Text has one sentence per line and an empty line between
documents; the model is trained on pairs of neighbours, [CLS] sentence [SEP] sentence [SEP].
"""

from __future__ import annotations

import argparse
import gzip
import random
import sys
from collections import Counter
from collections.abc import Iterator, Sequence
from itertools import chain, islice
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

SPECIAL = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"]
LETTERS = 1000  # the most frequent ones, as subwords of their own
MASKED = 0.15  # share of all subwords
UNMASKED = -100  # the label that the loss leaves out
HELP = {
    "vocabulary": "subwords in the vocabulary",
    "layers": "layers (of each side)",
    "dim": "width of the model",
    "heads": "attention heads",
    "updates": "updates of training",
    "batch": "sentence pairs in a batch",
    "tokens": "tokens in a batch",
    "seed": "random seed",
    "rate": "learning rate",
}


def write_vocabulary(sentences: Sequence[str], size: int, folder: Path) -> Any:
    """Train a WordPiece vocabulary and save its tokenizer; returns the tokenizer.

    The same sentences give the same subwords in the same order.
    """
    from tokenizers import BertWordPieceTokenizer
    from transformers.models.bert import BertTokenizer

    trainer = BertWordPieceTokenizer(lowercase=True)
    # The trainer would number the letters within words in the order of a hash table, another one in
    # every process, and choose by number between equally frequent subwords.
    within = Counter[str]()
    for sentence in sentences:
        for word, _ in trainer.pre_tokenizer.pre_tokenize_str(trainer.normalize(sentence)):
            within.update(word[1:])
    kept = sorted(within, key=lambda letter: (-within[letter], letter))[:LETTERS]
    trainer.train_from_iterator(
        sentences,
        vocab_size=size,
        min_frequency=2,
        limit_alphabet=LETTERS,
        special_tokens=[*SPECIAL, *sorted(f"##{letter}" for letter in kept)],
        show_progress=False,
    )
    tokenizer: Any = BertTokenizer(vocab=trainer.get_vocab(), do_lower_case=True)
    tokenizer.save_pretrained(folder)
    return tokenizer


def batches(
    encoded: Sequence[Sequence[int]], size: int, draw: random.Random
) -> Iterator[list[Sequence[int]]]:
    """Batches of rows of similar length, in random order, without end."""
    while True:
        order = sorted(range(len(encoded)), key=lambda n: (len(encoded[n]), draw.random()))
        groups = [order[begin : begin + size] for begin in range(0, len(order), size)]
        draw.shuffle(groups)
        for group in groups:
            yield [encoded[number] for number in group]


def masked(rows: Sequence[Sequence[int]], tokenizer: Any) -> dict[str, Tensor]:
    """The input of the masked language model: 80% [MASK], 10% a random subword, 10% unchanged."""
    ids = torch.nn.utils.rnn.pad_sequence([torch.tensor(row) for row in rows], batch_first=True)
    ends = ids.eq(tokenizer.sep_token_id).long()
    real = ids.ne(tokenizer.pad_token_id)
    text = torch.isin(ids, torch.tensor(tokenizer.all_special_ids), invert=True)
    chosen = (torch.rand(ids.shape) < MASKED) & text
    chance = torch.rand(ids.shape)
    changed = ids.masked_fill(chosen & (chance < 0.8), tokenizer.mask_token_id)
    random_ids = torch.randint(len(SPECIAL), len(tokenizer), ids.shape)
    return {
        "input_ids": torch.where(chosen & (chance >= 0.9), random_ids, changed),
        "attention_mask": real.long(),
        # 0 up to the first [SEP], 1 behind it
        "token_type_ids": (ends.cumsum(1) - ends).clamp(max=1) * real,
        "labels": ids.masked_fill(~chosen, UNMASKED),
    }


def masked_loss(model: Any, rows: dict[str, Tensor]) -> Any:
    """The model's own loss in half the time: only masked words are predicted."""
    labels = rows["labels"]
    chosen = labels.ne(UNMASKED)
    inputs = {name: tensor for name, tensor in rows.items() if name != "labels"}
    states = model.bert(**inputs).last_hidden_state[chosen]
    return torch.nn.functional.cross_entropy(model.cls(states), labels[chosen])


def learn(
    model: Any, losses: Iterator[Tensor], optimizer: torch.optim.Optimizer, updates: int
) -> None:
    """Update a model by the losses of its batches, and print every hundredth.

    The learning rate rises over a tenth of the updates and falls to 0 at their end.
    """
    warmup = max(updates // 10, 1)
    schedule = torch.optim.lr_scheduler.LambdaLR(
        optimizer, lambda step: min((step + 1) / warmup, (updates - step) / updates)
    )
    for update, loss in enumerate(islice(losses, updates), 1):
        optimizer.zero_grad()
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        schedule.step()
        if update % 100 == 0 or update == updates:
            print(f"update {update}: loss {loss.item():.3f}", file=sys.stderr, flush=True)


def make_bert(
    folder: Path,
    documents: Sequence[Sequence[str]],
    *,
    vocabulary: int = 2000,
    layers: int = 2,
    dim: int = 128,
    heads: int = 4,
    updates: int = 0,
    batch: int = 64,
    rate: float = 1e-3,
    seed: int = 1,
) -> None:
    """Make a BERT and save it in ``folder``."""
    from transformers import BertConfig, BertForMaskedLM

    torch.manual_seed(seed)
    folder.mkdir(parents=True, exist_ok=True)
    sentences = list(chain.from_iterable(documents))
    tokenizer = write_vocabulary(sentences, vocabulary, folder)
    config = BertConfig(
        vocab_size=len(tokenizer),
        hidden_size=dim,
        num_hidden_layers=layers,
        num_attention_heads=heads,
        intermediate_size=4 * dim,
        pad_token_id=tokenizer.pad_token_id,
    )
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    model = BertForMaskedLM(config).train()
    torch.nn.Module.to(model, device)  # the type of its own method takes no device
    if updates:
        firsts: list[str] = []
        seconds: list[str] = []
        for document in documents:
            firsts += document[:-1]
            seconds += document[1:]
        encoded = tokenizer(
            firsts,
            seconds,
            truncation=True,
            verbose=False,
            max_length=config.max_position_embeddings,
        )["input_ids"]
        stream = (masked(rows, tokenizer) for rows in batches(encoded, batch, random.Random(seed)))
        losses = (
            masked_loss(model, {name: tensor.to(device) for name, tensor in rows.items()})
            for rows in stream
        )
        learn(model, losses, torch.optim.AdamW(model.parameters(), lr=rate), updates)
    model.eval().save_pretrained(folder)


def options(description: str | None, **defaults: float) -> argparse.ArgumentParser:
    """A command line with ``--out`` and numbers."""
    parser = argparse.ArgumentParser(description=description)
    parser.add_argument("--out", type=Path, required=True, metavar="DIR", help="folder to write")
    for name, default in defaults.items():
        parser.add_argument(
            f"--{name}", type=type(default), default=default, help=f"{HELP[name]} (%(default)s)"
        )
    return parser


def main() -> None:
    """Parse the options and run."""
    parser = options(
        __doc__,
        vocabulary=2000,
        layers=2,
        dim=128,
        heads=4,
        updates=600,
        batch=64,
        seed=1,
        rate=1e-3,
    )
    parser.add_argument(
        "--text", type=Path, required=True, metavar="FILE", help="documents, gzipped or not"
    )
    args = vars(parser.parse_args())
    path = args.pop("text")
    with (gzip.open if path.suffix == ".gz" else open)(path, "rt", encoding="utf-8") as file:
        documents = [document.split("\n") for document in file.read().strip().split("\n\n")]
    make_bert(args.pop("out"), documents, **args)


if __name__ == "__main__":
    main()
