"""The environment in which commands of this project run."""

from __future__ import annotations

import os

from gtrans.errors import GtransError

_UNSAFE = "TORCH_FORCE_NO_WEIGHTS_ONLY_LOAD"


def check_environment() -> None:
    """Refuse an environment in which torch would run code that is in a checkpoint.

    Raises:
        GtransError: ``TORCH_FORCE_NO_WEIGHTS_ONLY_LOAD`` is set; fairseq's own functions, which
            do not ask torch for ``weights_only=True``, would then load anything.
    """
    value = os.environ.get(_UNSAFE, "0")
    if value.lower() in ("1", "y", "yes", "true"):  # the values that torch knows
        raise GtransError(
            f"the environment has {_UNSAFE}={value}, with which torch runs code that is in a "
            f"checkpoint; unset {_UNSAFE}."
        )
