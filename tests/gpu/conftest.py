"""What the tests on a GPU share: the device, and a small corpus.

GTRANS_TEST_DEVICE=cpu runs the same tests without a GPU, so that they are known to work.
"""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator
from pathlib import Path

import pytest
import torch
from support.synthetic_corpus import prepare, write_corpus
from support.tiny_bert import write_bert


@pytest.fixture(scope="session")
def device() -> str:
    """``cuda``, or ``cpu`` where GTRANS_TEST_DEVICE says so; else a skip."""
    name = os.environ.get("GTRANS_TEST_DEVICE", "cuda")
    assert name in ("cpu", "cuda"), name
    if name == "cuda" and not torch.cuda.is_available():
        pytest.skip("no CUDA device (GTRANS_TEST_DEVICE=cpu runs these tests on the CPU)")
    return name


@pytest.fixture(scope="session")
def corpus(device: str, repo: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A data folder with the subwords of a tiny BERT."""
    folder = tmp_path_factory.mktemp("gpu")
    write_corpus(folder / "text")
    bert = write_bert(repo, folder / "bert")
    options = ("--bpe-merges", "300", "--bert", bert)
    assert prepare(folder / "text", folder / "data", *options, splits=("train", "valid")) == 0
    return folder / "data"


@pytest.fixture(autouse=True)
def signals_as_before() -> Iterator[None]:
    """A training in this process listens to signals."""
    before = {number: signal.getsignal(number) for number in (signal.SIGTERM, signal.SIGUSR1)}
    yield
    signal.set_wakeup_fd(-1)
    for number, handler in before.items():
        signal.signal(number, handler)
