"""Whether a training is at its end: ``python -m gtrans.training.finished FOLDER [SEED]``.

The recipes ask this about a model that they share. The status is 0 if it is, else 1; 2 if it is the
training of another seed.
"""

from __future__ import annotations

import sys
from pathlib import Path

from omegaconf import OmegaConf

from gtrans.checkpoints.reading import register_safe_globals
from gtrans.errors import GtransError
from gtrans.training.folder import RunFolder
from gtrans.training.run import why_finished

OTHER_SEED = 2


def finished(folder: Path) -> str | None:
    """Why the run in ``folder`` is at its end, by its own settings; None if it is not.

    Raises:
        GtransError: none of its checkpoints is whole.
    """
    register_safe_globals()
    found, _ = RunFolder(folder).newest()
    if found is None:
        return None
    # The options of a task of fairseq's own, such as a multilingual one, are a plain object.
    return why_finished(found, OmegaConf.create(found.options, flags={"allow_objects": True}))


def has_seed(folder: Path, seed: int) -> bool:
    """Whether the newest checkpoint in ``folder``, if there is one, is of this ``--seed``.

    Raises:
        GtransError: none of its checkpoints is whole.
    """
    register_safe_globals()
    found, _ = RunFolder(folder).newest()
    return found is None or bool(found.options["common"]["seed"] == seed)


def main(folder: str, seed: str | None = None) -> int:
    """The exit status."""
    try:
        if seed is not None and not has_seed(Path(folder), int(seed)):
            return OTHER_SEED
        return int(finished(Path(folder)) is None)
    except GtransError as error:
        print(f"gtrans: error: {error}", file=sys.stderr)
        return 1


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
