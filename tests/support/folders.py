"""Where the project is, and where the real corpora are."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

REPO = Path(__file__).resolve().parents[2]
SCRIPTS = REPO / "scripts"


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
