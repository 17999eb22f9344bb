"""What the tests of experiments share."""

from __future__ import annotations

from pathlib import Path

import pytest
from support.finished_table import make_finished_table

from gtrans.experiments.jobs import Plan
from gtrans.experiments.planned import Planned


@pytest.fixture
def finished_table(tmp_path: Path) -> tuple[Planned, Plan]:
    """Two rows, three seeds, and a row that is not run."""
    return make_finished_table(tmp_path)
