"""What the tests of exp_gtransformer/ share: settings, and reading what a script has printed."""

from __future__ import annotations

import os
import re
import subprocess
from pathlib import Path

CORPORA = ("iwslt17", "nc2016", "europarl7")
PLACE = ("--data", "texts", "--corpus", "europarl7", "--out", "out")
# the paper's settings that most recipes have in common
EVERYWHERE = (
    "--arch gtransformer_base",
    "--share-all-embeddings",
    "--optimizer adam --adam-betas '(0.9, 0.98)' --lr 5e-4",
    "--lr-scheduler inverse_sqrt --warmup-updates 4000",
    "--criterion chunked_cross_entropy --label-smoothing 0.1",
    "--dropout 0.3",
    "--max-tokens 4096 --update-freq 1",
    "--best-checkpoint-metric loss --patience 10",
)


def run_script(
    repo: Path, folder: Path, name: str, *arguments: str | Path, **environment: str
) -> subprocess.CompletedProcess[str]:
    """Run a script of exp_gtransformer/ in a folder; no GPU is named in the environment."""
    inherited = {k: v for k, v in os.environ.items() if k != "CUDA_VISIBLE_DEVICES"}
    return subprocess.run(
        [repo / "exp_gtransformer" / f"{name}.sh", *map(str, arguments)],
        cwd=folder,
        env={**inherited, "OMP_NUM_THREADS": "1", **environment},
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=300,
    )


def commands(done: subprocess.CompletedProcess[str]) -> list[str]:
    """The commands that a dry run prints, without the folder of the programs."""
    assert done.returncode == 0, done.stderr
    found = [line[2:] for line in done.stdout.splitlines() if line.startswith("$ ")]
    return [re.sub(r"^\S*/(?=[a-z-]+ )", "", command) for command in found]


def the_error(done: subprocess.CompletedProcess[str]) -> str:
    """The one line with which a script has refused."""
    assert done.returncode != 0
    (line,) = done.stderr.splitlines()
    return line
