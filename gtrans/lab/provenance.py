"""The provenance of numbers: the commit, the day, and the versions of the libraries.

python -m gtrans.lab.provenance     # as JSON
"""

from __future__ import annotations

import json
import platform
import subprocess
from datetime import date
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

from gtrans.version import __version__

_DISTRIBUTIONS = {"torch": "torch", "fairseq": "fairseq-fixed", "sacrebleu": "sacrebleu"}


def provenance() -> dict[str, str]:
    """Return the day, the commit, and versions."""
    record = {
        "date": date.today().isoformat(),
        "commit": commit(),
        "gtrans": __version__,
        "python": platform.python_version(),
    }
    for name, distribution in _DISTRIBUTIONS.items():
        try:
            record[name] = version(distribution)
        except PackageNotFoundError:
            record[name] = "not installed"
    return record


def commit() -> str:
    """Return the commit, ``-dirty`` if tracked files differ; ``none`` outside a checkout."""
    root = Path(__file__).resolve().parents[2]
    try:
        top = _git(root, "rev-parse", "--show-toplevel")
        name = _git(root, "describe", "--always", "--dirty")
    except (OSError, subprocess.CalledProcessError):
        return "none"
    # An installed package may lie inside a checkout of something else.
    return name if Path(top) == root else "none"


def _git(folder: Path, *words: str) -> str:
    command = ["git", "-C", str(folder), *words]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    return done.stdout.strip()


if __name__ == "__main__":
    print(json.dumps(provenance()))
