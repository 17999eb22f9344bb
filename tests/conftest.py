"""What all tests share; nothing here imports torch or fairseq."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from hypothesis import settings

REPO = Path(__file__).resolve().parent.parent

# Machines that run this are often busy: an example may take its time, and is the same every time.
settings.register_profile("gtrans", deadline=None, derandomize=True)
settings.load_profile("gtrans")


@pytest.fixture(scope="session")
def repo() -> Path:
    """The project folder."""
    return REPO


@pytest.fixture(scope="session")
def real_data() -> Path:
    """The folder of real corpora, beside the project or where GTRANS_DATA says; else a skip."""
    folder = Path(os.environ.get("GTRANS_DATA") or REPO.parent / "shared" / "data")
    if not folder.is_dir():
        pytest.skip(f"no real corpora: {folder} does not exist (GTRANS_DATA names another folder)")
    return folder
