"""Checkpoints: what real runs write is read, by every command; what could run code is not."""

from __future__ import annotations

import argparse
import io
import os
import pickle
import re
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
import torch
from fairseq import checkpoint_utils
from fairseq.distributed.utils import _split_tensors_from_obj
from fairseq.logging import metrics
from support.runs import log_of, train, updates

from gtrans.checkpoints.reading import read_checkpoint, register_safe_globals
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


@pytest.fixture
def safe_globals() -> Any:
    """No class is allowed at first; what other tests have allowed is restored."""
    allowed = torch.serialization.get_safe_globals()
    torch.serialization.clear_safe_globals()
    yield
    torch.serialization.clear_safe_globals()
    torch.serialization.add_safe_globals(allowed)


def bleu_meters() -> dict[str, Any]:
    """What stock validation with ``--eval-bleu`` leaves in a checkpoint."""
    metrics.reset()
    with metrics.aggregate("valid"):
        metrics.log_scalar("_bleu_counts", np.array([9, 5, 3, 1]))
        metrics.log_scalar("_bleu_sys_len", np.int64(12))
        metrics.log_scalar("loss", np.float32(1.5), np.float64(2.0))
    state = dict(metrics.state_dict())
    metrics.reset()
    return state


@pytest.mark.usefixtures("safe_globals")
def test_each_safe_class_is_needed(trained: Path, tmp_path: Path) -> None:
    """Nothing is allowed that neither older nor stock checkpoints nor resuming needs."""
    last = trained / "checkpoint_last.pt"
    in_flight = _split_tensors_from_obj(checkpoint_utils.load_checkpoint_to_cpu(last), [])
    torch.serialization.clear_safe_globals()  # reading has allowed them
    files = []
    for value in (in_flight, bleu_meters(), {"args": argparse.Namespace(arch="transformer")}):
        files.append(tmp_path / f"{len(files)}.pt")
        torch.save(value, files[-1])
        with pytest.raises(pickle.UnpicklingError):
            torch.load(files[-1])
    unsafe = torch.serialization.get_unsafe_globals_in_checkpoint
    found = {name for file in files for name in unsafe(file)}
    register_safe_globals()
    for file in files:
        assert unsafe(file) == []
        torch.load(file)
    allowed = {
        entry[1] if isinstance(entry, tuple) else f"{entry.__module__}.{entry.__qualname__}"
        for entry in torch.serialization.get_safe_globals()
    }
    extra = {name for name in allowed - found if not name.startswith("numpy.dtypes.")}
    assert found <= allowed
    assert extra == {f"numpy.core.multiarray.{name}" for name in ("scalar", "_reconstruct")}


@pytest.mark.usefixtures("safe_globals")
def test_numbers_of_numpy_one() -> None:
    """Numpy 1 wrote other names for the same functions."""
    value = {"best_loss": np.float64(1.5), "n": np.int64(3), "counts": np.array([1.0, 2.0])}
    buffer = io.BytesIO()
    torch.save(value, buffer, _use_new_zipfile_serialization=False)
    old = buffer.getvalue().replace(b"numpy._core.multiarray", b"numpy.core.multiarray")
    assert old != buffer.getvalue()
    register_safe_globals()
    loaded = torch.load(io.BytesIO(old))
    assert loaded["best_loss"] == 1.5 and loaded["n"] == 3
    assert loaded["counts"].tolist() == [1.0, 2.0]


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
