"""Errors of a start that have another reason than the checkpoint do not blame it."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace

import pytest

from gtrans.errors import GtransError
from gtrans.training.state import resuming


class Trainer:
    """One whose model, or whose checkpoint, cannot be had."""

    def __init__(self, model: str | None = None, checkpoint: str = "") -> None:
        self.optimizer, self._model, self._checkpoint = object(), model, checkpoint

    @property
    def model(self) -> None:
        if self._model is not None:
            raise ValueError(self._model)

    def load_checkpoint(self, *_: object) -> None:
        self.model  # noqa: B018 - as fairseq's own does
        raise ValueError(self._checkpoint)


def load(trainer: Trainer, path: Path) -> None:
    with resuming(trainer, SimpleNamespace()):
        trainer.load_checkpoint(str(path))


def test_a_model_that_cannot_be_built(tmp_path):
    path = tmp_path / "checkpoint_last.pt"
    for exists in (False, True):
        with pytest.raises(ValueError, match="^device_ids: no GPU$") as raised:
            load(Trainer(model="device_ids: no GPU"), path)
        assert not isinstance(raised.value, GtransError), exists
        path.touch()
    with pytest.raises(GtransError, match=r"checkpoint_last.pt: the state of its training is dam"):
        load(Trainer(checkpoint="no such key"), path)
