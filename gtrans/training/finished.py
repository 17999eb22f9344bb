"""Whether the training in a folder is at its end: ``python -m gtrans.training.finished FOLDER``.

The recipes ask this about a model that they share; the status is 0 if it is, else 1.
"""

from __future__ import annotations

import sys
from pathlib import Path

from omegaconf import OmegaConf

from gtrans.checkpoints import register_safe_globals
from gtrans.errors import GtransError
from gtrans.training.folder import RunFolder
from gtrans.training.run import why_finished


def finished(folder: Path) -> str | None:
    """Why the run in ``folder`` is at its end, by its own settings; None if it is not.

    Raises:
        GtransError: none of its checkpoints is whole.
    """
    register_safe_globals()
    found, _ = RunFolder(folder).newest()
    return None if found is None else why_finished(found, OmegaConf.create(found.options))


def main(folder: str) -> int:
    """The exit status."""
    try:
        return int(finished(Path(folder)) is None)
    except GtransError as error:
        print(f"gtrans: error: {error}", file=sys.stderr)
        return 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1]))
