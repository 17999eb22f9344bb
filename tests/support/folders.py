"""Where the project is, and where the real corpora are."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest

from gtrans.files import digest
from gtrans.text.prepared_folder import STATE_FILE

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


def binarised_again(data: Path) -> None:
    """Record the files of a prepared folder as they are now, as if it had been prepared so."""
    path = data / STATE_FILE
    state = json.loads(path.read_text(encoding="utf-8"))
    for step in state["finished"].values():
        step["outputs"] = {name: (data / name).stat().st_size for name in step["outputs"]}
        step["digests"] = {name: digest(data / name) for name in step.get("digests", {})}
    path.write_text(json.dumps(state), encoding="utf-8")
