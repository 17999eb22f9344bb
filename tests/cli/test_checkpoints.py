"""Checkpoints: what real runs write is read, by every command; what could run code is not."""

from __future__ import annotations

import os
import pickle
import re
import shutil
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
import torch
from fairseq import checkpoint_utils
from support.runs import log_of, train, updates

from gtrans.checkpoints.reading import read_checkpoint, write_checkpoint
from gtrans.errors import GtransError

if TYPE_CHECKING:
    from support.tiny_models import TinyWorld


@pytest.fixture(scope="module")
def trained(tiny: TinyWorld, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of a run of two updates, of two batches each, and a validation."""
    folder = tmp_path_factory.mktemp("trained")
    options = ("--lr-scheduler", "inverse_sqrt", "--update-freq", "2", "--patience", "9")
    log_of(train(tiny.run, tiny.data, folder, *options, updates=2))
    return folder


def test_a_run_writes_plain_data_only(trained: Path) -> None:
    for name in ("checkpoint_best.pt", "checkpoint_last.pt"):
        assert torch.serialization.get_unsafe_globals_in_checkpoint(trained / name) == []
    assert updates(trained) == 2


# ------------------------------------------------------------------ safe classes


# ---------------------------------------------------------------------- refusals


class Harmful:
    """Runs a command when it is unpickled."""

    def __init__(self, witness: Path) -> None:
        self.witness = witness

    def __reduce__(self) -> tuple[Any, ...]:
        return os.system, (f"touch {self.witness}",)


@pytest.mark.parametrize("zipped", [True, False])
def test_code_is_refused(zipped: bool, tmp_path: Path) -> None:
    path, witness = tmp_path / "harmful.pt", tmp_path / "witness"
    state = {"model": {"w": torch.zeros(1)}, "extra": Harmful(witness)}
    torch.save(state, path, _use_new_zipfile_serialization=zipped)
    message = re.escape(
        f"{path}: refused, because it holds more than tensors and options "
        f"({os.system.__module__}.system) and could run code when loaded."
    )
    with pytest.raises(GtransError, match=f"^{message}$"):
        read_checkpoint(path)
    # Stock commands: the same with the plugin, without it torch's own refusal.
    with pytest.raises((GtransError, pickle.UnpicklingError)):
        checkpoint_utils.load_checkpoint_to_cpu(str(path))
    assert not witness.exists()


def test_who_only_looks_shares_what_was_read_until_the_file_is_another(tiny, tmp_path) -> None:
    path = tmp_path / "checkpoint.pt"
    shutil.copy(tiny.checkpoints["document"], path)
    one = read_checkpoint(path, in_memory=False)
    assert read_checkpoint(path, in_memory=False) is one
    write_checkpoint({**read_checkpoint(path), "criterion": "another"}, path)
    assert read_checkpoint(path, in_memory=False)["criterion"] == "another"
    assert one["criterion"] != "another"
