"""The fixture ``gtransformer_reference.npz``: numbers from the authors' own G-Transformer.

Its README stands with the fixture's original in the shared folder of the project. This
module turns it into what the tests need: arrays, dictionary, weights, a corpus.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import torch
from fairseq.data import Dictionary, indexed_dataset
from torch import Tensor

LANGS = ("en", "de")
LIMITS = {"max_len_a": 1.2, "max_len_b": 10.0}


@cache
def arrays() -> dict[str, Any]:
    with np.load(Path(__file__).with_name("gtransformer_reference.npz"), allow_pickle=False) as z:
        return dict(z)


def tensor(name: str) -> Tensor:
    return torch.from_numpy(arrays()[name])


def authors_weights() -> dict[str, Tensor]:
    """The state dict under the authors' names."""
    return {n[len("param/") :]: tensor(n).clone() for n in arrays() if n.startswith("param/")}


def our_name(name: str) -> str:
    """The name here of a tensor of the authors' program."""
    name = re.sub(r"_attn_local\.", "_attn.", name)
    name = re.sub(r"_attn_global\.", "_attn.global_attn.", name)
    return re.sub(r"_attn_gate\.0\.", "_attn.gate.proj.", name)


def words_only() -> Dictionary:
    """The dictionary as fairseq-preprocess writes it, without the entries after them."""
    dictionary = Dictionary()
    for number in range(4, 57):
        dictionary.add_symbol(f"w{number}")
    return dictionary


def dictionary() -> Dictionary:
    whole = words_only()
    for entry in (*(f"[{lang}]" for lang in LANGS), "<mask>"):
        whole.add_symbol(entry)
    return whole


def sentences(document: Sequence[int]) -> list[list[int]]:
    """``<s> a b </s> <s> c </s> -> [[a, b, </s>], [c, </s>]]``."""
    found: list[list[int]] = [[]]
    for token in document:
        if token > 2:
            found[-1].append(token)
        elif token == 2:
            found[-1].append(token)
            found.append([])
    return found[:-1]


def documents(side: str) -> list[list[list[int]]]:
    """The sentences of the three documents, in the order of their numbers."""
    return [sentences(arrays()[f"doc{number}/{side}"].tolist()) for number in range(3)]


def write_corpus(folder: Path, splits: Iterable[str], words: Dictionary | None = None) -> Path:
    """The documents as fairseq-preprocess would binarise them, with dictionaries."""
    words = words or words_only()
    folder.mkdir(exist_ok=True)
    for lang, side in zip(LANGS, ("source", "target"), strict=True):
        words.save(str(folder / f"dict.{lang}.txt"))
        for split in splits:
            name = str(folder / f"{split}.en-de.{lang}")
            builder = indexed_dataset.make_builder(f"{name}.bin", "mmap", len(words))
            for number, document in enumerate(documents(side)):
                for line in ([[words.eos()]] if number else []) + document:
                    builder.add_item(torch.tensor(line))
            builder.finalize(f"{name}.idx")
    return folder


def hypotheses(search: str, row: int) -> list[list[int]]:
    """All hypotheses of a row of the batch, best first, without ``[de]``."""
    found = []
    for tokens in arrays()[f"decode/{search}/tokens"][row].tolist():
        tokens = [token for token in tokens if token >= 0]
        assert tokens[-1] == int(arrays()["id_of/[de]"])
        found.append(tokens[:-1])
    return found
