"""What the tests of the recipes share."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest


@pytest.fixture
def script(repo: Path, tmp_path: Path):
    """Run a script in an empty folder; no GPU is named in the environment."""

    def call(
        name: str, *arguments: str | Path, **environment: str
    ) -> subprocess.CompletedProcess[str]:
        inherited = {k: v for k, v in os.environ.items() if k != "CUDA_VISIBLE_DEVICES"}
        return subprocess.run(
            [repo / "exp_gtransformer" / f"{name}.sh", *map(str, arguments)],
            cwd=tmp_path,
            env={**inherited, "OMP_NUM_THREADS": "1", **environment},
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=300,
        )

    return call
