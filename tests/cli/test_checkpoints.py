"""Checkpoints: what real runs write is read, by every command; what could run code is not."""

from __future__ import annotations

import argparse
import io
import os
import pickle
import re
import shutil
import socket
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from fairseq import checkpoint_utils
from fairseq.distributed.utils import _split_tensors_from_obj
from fairseq.logging import metrics
from support import reference

from gtrans.checkpoints import read_checkpoint, register_safe_globals, write_checkpoint
from gtrans.errors import GtransError

BIN = Path(sys.executable).parent
TRAINING = (
    *("--user-dir", "gtrans", "--task", "document_translation", "--arch", "gtransformer_tiny"),
    *("--encoder-layers", "1", "--decoder-layers", "1", "--encoder-embed-dim", "16"),
    *("--encoder-ffn-embed-dim", "16", "--decoder-ffn-embed-dim", "16"),
    *("--encoder-global-layers", "1", "--decoder-global-layers", "1", "--cross-global-layers", "1"),
    *("--share-all-embeddings", "--langs", "en,de", "--optimizer", "adam", "--lr", "0.001"),
    *("--lr-scheduler", "inverse_sqrt", "--criterion", "label_smoothed_cross_entropy"),
    *("--max-tokens", "99", "--no-epoch-checkpoints"),
    *("--num-workers", "0", "--log-format", "simple", "--cpu"),
)


def train(repo: Path, data: Path, folder: Path, *options: str, processes: int = 1) -> str:
    """Run ``fairseq-train``; returns its log."""
    command = [str(BIN / "fairseq-train"), str(data), *TRAINING, "--save-dir", str(folder)]
    command += options
    if processes > 1:
        with socket.socket() as free:
            free.bind(("localhost", 0))
            port = free.getsockname()[1]
        command += [
            *("--distributed-world-size", str(processes), "--distributed-init-method", "env://"),
            *("--distributed-no-spawn", "--distributed-backend", "gloo", "--device-id", "0"),
            *("--ddp-backend", "legacy_ddp"),
        ]
        command = [
            *(str(BIN / "torchrun"), "--no-python", "--nproc_per_node", str(processes)),
            *("--master-port", str(port), "bash", "-c"),
            " ".join([*command, "--distributed-rank", "$RANK"]),
        ]
    done = subprocess.run(
        command,
        cwd=repo,
        env={**os.environ, "OMP_NUM_THREADS": "1"},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout
    return done.stdout


def updates(folder: Path) -> int:
    state = read_checkpoint(folder / "checkpoint_last.pt")
    return int(state["optimizer_history"][-1]["num_updates"])


@pytest.fixture(scope="module")
def corpus(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return reference.write_corpus(tmp_path_factory.mktemp("corpus"), ["train", "valid"])


@pytest.fixture(scope="module")
def trained(repo: Path, corpus: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of a run of two updates, of two batches each."""
    folder = tmp_path_factory.mktemp("trained")
    train(repo, corpus, folder, "--max-update", "2", "--update-freq", "2")
    return folder


def test_a_run_writes_plain_data_only(trained: Path) -> None:
    for name in ("checkpoint_best.pt", "checkpoint_last.pt"):
        assert torch.serialization.get_unsafe_globals_in_checkpoint(trained / name) == []
    assert updates(trained) == 2


@pytest.mark.long
def test_two_processes_resume_it(repo: Path, corpus: Path, trained: Path, tmp_path: Path) -> None:
    """The second process gets the checkpoint from the first one, as a pickle."""
    last = tmp_path / "checkpoint_last.pt"
    last.write_bytes((trained / "checkpoint_last.pt").read_bytes())
    log = train(repo, corpus, tmp_path, "--max-update", "4", processes=2)
    assert re.search(r"Loaded checkpoint .*checkpoint_last\.pt \(epoch \d+ @ 2 updates\)", log)
    assert updates(tmp_path) == 4
    assert torch.serialization.get_unsafe_globals_in_checkpoint(last) == []


@pytest.mark.long
def test_another_run_starts_from_it(
    repo: Path, corpus: Path, trained: Path, tmp_path: Path
) -> None:
    best = str(trained / "checkpoint_best.pt")
    start = ("--finetune-from-model", best, "--lr", "1e-9")
    log = train(repo, corpus, tmp_path, *start, "--max-update", "1")
    assert f"Loaded checkpoint {best}" in log
    before = read_checkpoint(best)["model"]
    after = read_checkpoint(tmp_path / "checkpoint_last.pt")["model"]
    for name, weights in before.items():
        torch.testing.assert_close(after[name], weights, atol=1e-6, rtol=0)
    train(repo, corpus, tmp_path, *start, "--max-update", "3")  # and is itself resumed
    assert updates(tmp_path) == 3


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


def test_broken_files_are_told_in_one_line(trained: Path, tmp_path: Path) -> None:
    whole = (trained / "checkpoint_last.pt").read_bytes()
    files = {
        "truncated.pt": whole[: len(whole) // 2],
        "empty.pt": b"",
        "text.pt": b"this is no checkpoint\n",
        "binary.pt": bytes(range(256)) * 9,
        "pickle.pt": pickle.dumps({"model": "none"}),
    }
    for name, content in files.items():
        path = tmp_path / name
        path.write_bytes(content)
        with pytest.raises(GtransError, match=f"^{path}: not a .*checkpoint.*\\.$") as raised:
            read_checkpoint(path)
        assert "\n" not in str(raised.value)
        assert "refused" not in str(raised.value)
    with pytest.raises(GtransError, match="there is no such checkpoint"):
        read_checkpoint(tmp_path / "none.pt")
    with pytest.raises(GtransError, match="there is no such checkpoint"):
        read_checkpoint(tmp_path)


@pytest.mark.parametrize("content", [{"weights": 1}, [1, 2], {"model": torch.zeros(1)}])
def test_other_data_is_no_checkpoint(content: Any, tmp_path: Path) -> None:
    torch.save(content, tmp_path / "data.pt")
    with pytest.raises(GtransError, match="not a fairseq checkpoint, it holds no model"):
        read_checkpoint(tmp_path / "data.pt")


def test_who_only_looks_shares_what_was_read_until_the_file_is_another(tiny, tmp_path) -> None:
    path = tmp_path / "checkpoint.pt"
    shutil.copy(tiny.checkpoints["document"], path)
    one = read_checkpoint(path, in_memory=False)
    assert read_checkpoint(path, in_memory=False) is one
    write_checkpoint({**read_checkpoint(path), "criterion": "another"}, path)
    assert read_checkpoint(path, in_memory=False)["criterion"] == "another"
    assert one["criterion"] != "another"
