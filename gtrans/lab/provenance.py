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
    """The day, the commit of the files here, and versions."""
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
    """The commit, with ``-dirty`` if tracked files differ from it; ``none`` outside a checkout."""
    root = Path(__file__).resolve().parents[2]
    try:
        top, name = (
            subprocess.run(
                ["git", "-C", str(root), *words], capture_output=True, text=True, check=True
            ).stdout.strip()
            for words in (("rev-parse", "--show-toplevel"), ("describe", "--always", "--dirty"))
        )
    except (OSError, subprocess.CalledProcessError):
        return "none"
    # An installed package may lie inside a checkout of something else.
    return name if Path(top) == root else "none"


if __name__ == "__main__":
    print(json.dumps(provenance()))
