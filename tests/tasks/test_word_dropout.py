"""Word dropout: what is masked, and in which epochs."""

from __future__ import annotations

from types import SimpleNamespace

import torch
from support.untrained import task_for

from gtrans.data.vocabulary import MASK
from gtrans.tasks.parts import Batch
from gtrans.tasks.parts.word_dropout import WordDropout, word_dropout


def test_words_are_masked_and_special_tokens_are_not() -> None:
    tokens = torch.randint(4, 50, (40, 60))
    tokens[:, ::7], tokens[:, 1::11], tokens[0, 5:] = 0, 2, 1
    special_tokens = tokens.le(2)
    dropped = word_dropout(tokens, 0.3, 99, (0, 2, 1), (1, 2, 3))
    assert torch.equal(dropped[special_tokens], tokens[special_tokens])
    changed = dropped.ne(tokens)
    assert dropped[changed].eq(99).all()
    assert abs(changed[~special_tokens].float().mean().item() - 0.3) < 0.03
    again = word_dropout(tokens, 0.3, 99, (0, 2, 1), (1, 2, 3))
    assert torch.equal(dropped, again)
    assert not torch.equal(dropped, word_dropout(tokens, 0.3, 99, (0, 2, 1), (1, 2, 4)))
    assert torch.equal(word_dropout(tokens, 0.0, 99, (), (1,)), tokens)


def masked(epochs: int, epoch: int, phase: str = "train") -> bool:
    """Whether words of both sides are masked in an epoch, as ``--word-dropout-epochs`` says."""
    task = task_for("document")
    dictionary = task.source_dictionary
    cfg = SimpleNamespace(word_dropout=0.5, word_dropout_epochs=epochs, seed=1)
    part = WordDropout(cfg, dictionary, dictionary, task.frame.special_ids)
    part.begin_epoch(epoch, None, None)
    sides = ("src_tokens", "prev_output_tokens")
    net_input = dict.fromkeys(sides, torch.full((4, 50), dictionary.index("a")))
    sample = {"numbers": [0, 1, 2, 3], "net_input": net_input}
    read = part.before_batch(Batch(sample, None, phase)).sample["net_input"]
    found = {bool(read[side].eq(dictionary.index(MASK)).any()) for side in read}
    assert len(found) == 1
    return found.pop()


def test_the_first_epochs_have_it_and_validation_never():
    assert [masked(2, epoch) for epoch in (1, 2, 3, 4)] == [True, True, False, False]
    assert masked(0, 1) and masked(0, 100)
    assert not masked(0, 1, "valid")
