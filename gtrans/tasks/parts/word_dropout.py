"""Word dropout on both inputs in training (G-Transformer, App. C.1)."""

from __future__ import annotations

import zlib
from collections.abc import Sequence
from typing import Any

import torch
from fairseq.data import Dictionary
from torch import Tensor

from gtrans.data.vocabulary import MASK
from gtrans.modules.group_attention import to_device
from gtrans.tasks.parts import Batch, TaskPart


class WordDropout(TaskPart):
    """Replaces words of source and decoder input by ``<mask>``."""

    def __init__(
        self, cfg: Any, source: Dictionary, target: Dictionary, special_tokens: Sequence[int]
    ) -> None:
        self._ratio = float(cfg.word_dropout)
        self._epochs = int(cfg.word_dropout_epochs)
        # The seed is read later: it is an option of training, and decoding may have none.
        self._cfg = cfg
        self._inputs = (("src_tokens", source), ("prev_output_tokens", target))
        self._special_tokens = tuple(special_tokens)
        self._epoch = 1

    def begin_epoch(self, epoch: int, model: Any, dataset: Any) -> None:
        """Remember the epoch."""
        self._epoch = epoch

    def before_batch(self, batch: Batch) -> Batch:
        """Return the batch with masked words, in training."""
        over = self._epochs and self._epoch > self._epochs
        if batch.phase != "train" or self._ratio == 0 or over:
            return batch
        ids = batch.sample["numbers"]
        net_input = batch.sample["net_input"]
        seed = int(self._cfg.seed)
        dropped = {}
        for number, (name, dictionary) in enumerate(self._inputs):
            dropped[name] = word_dropout(
                net_input[name],
                self._ratio,
                mask=dictionary.index(MASK),
                keep=self._special_tokens,
                key=(seed, self._epoch, number, *ids),
            )
        return batch.with_input(**dropped)


def word_dropout(
    tokens: Tensor, ratio: float, mask: int, keep: Sequence[int], key: Sequence[int]
) -> Tensor:
    """Return ``tokens``, of any shape, with random words replaced by ``mask``.

    Args:
        ratio: probability of replacing a word.
        keep: ids that are never replaced (special tokens, padding).
        key: replaces the same words on every device.
    """
    generator = torch.Generator()
    seed = zlib.crc32(repr(tuple(key)).encode())
    generator.manual_seed(seed)
    random = torch.rand(tokens.shape, generator=generator)
    drop = to_device(random, tokens.device) < ratio
    for token in keep:
        drop &= tokens.ne(token)
    return tokens.masked_fill(drop, mask)
