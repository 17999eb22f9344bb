"""Word dropout in the first epochs only."""

from __future__ import annotations

from types import SimpleNamespace

import torch
from support.untrained import task_for

from gtrans.data.symbols import MASK
from gtrans.tasks.parts import Batch
from gtrans.tasks.parts.word_dropout import WordDropout


def masked(epochs: int, epoch: int, phase: str = "train") -> bool:
    """Whether words of both sides are masked in an epoch, as ``--word-dropout-epochs`` says."""
    task = task_for("document")
    dictionary = task.source_dictionary
    cfg = SimpleNamespace(word_dropout=0.5, word_dropout_epochs=epochs, seed=1)
    part = WordDropout(cfg, dictionary, dictionary, task.frame.symbols)
    part.begin_epoch(epoch, None, None)
    sides = ("src_tokens", "prev_output_tokens")
    net_input = dict.fromkeys(sides, torch.full((4, 50), dictionary.index("a")))
    sample = {"numbers": [0, 1, 2, 3], "net_input": net_input}
    read = part.before_batch(Batch(sample, None, phase)).sample["net_input"]
    found = {bool(read[side].eq(dictionary.index(MASK)).any()) for side in read}
    assert len(found) == 1
    return found.pop()


def test_the_first_epochs_have_it():
    assert [masked(2, epoch) for epoch in (1, 2, 3, 4)] == [True, True, False, False]


def test_without_a_number_all_epochs_have_it():
    assert masked(0, 1) and masked(0, 100)


def test_validation_never_has_it():
    assert not masked(0, 1, "valid")
