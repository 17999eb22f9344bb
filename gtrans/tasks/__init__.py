"""fairseq tasks.

Importing this package also prepares fairseq's commands for the project: checkpoints load with
torch's ``weights_only=True``, a training run knows its folder and is resumed exactly, known
warnings of libraries are not shown, and a user's mistake is reported in one line.
"""

from __future__ import annotations

import sys
from types import TracebackType

# fairseq imports the tasks and models of --user-dir, and nothing else.
import gtrans.criterions.chunked_cross_entropy  # noqa: F401
from gtrans.checkpoints.reading import register_safe_globals
from gtrans.environment import check_environment, choose_kernels
from gtrans.errors import mistake_in
from gtrans.known_warnings import hide_known_warnings
from gtrans.tasks import checkpoint_loading
from gtrans.tasks.hydra import prepare_hydra
from gtrans.training.install import install

_previous_hook = sys.excepthook


def _one_line(kind: type[BaseException], error: BaseException, trace: TracebackType | None) -> None:
    """Print a user's mistake as one line; leave every other exception as it is."""
    mistake = mistake_in(error)
    if mistake is None:
        _previous_hook(kind, error, trace)
    else:
        print(f"gtrans: error: {mistake}", file=sys.stderr)


# fairseq's commands do not handle user errors themselves.
sys.excepthook = _one_line

hide_known_warnings()
prepare_hydra()
check_environment()
choose_kernels()
register_safe_globals()
checkpoint_loading.install()
install()
