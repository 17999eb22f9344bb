"""The one look-up of :mod:`gtrans.lab`, whose commands, scores and readers are optional."""

from __future__ import annotations

import importlib
from typing import Any

LAB = "gtrans.lab"


def lab() -> Any:
    """The package ``gtrans.lab``; None where it is missing."""
    try:
        return importlib.import_module(LAB)
    except ModuleNotFoundError as error:
        if error.name != LAB:
            raise
        return None


def lab_commands() -> dict[str, str]:
    """The help of each of its commands, whose modules are in it."""
    found = lab()
    return {} if found is None else dict(found.COMMANDS)


def add_lab_readers() -> None:
    """Add its readers of contrastive sets to those of :mod:`gtrans.evaluation.contrastive`."""
    found = lab()
    if found is not None:
        found.add_readers()


def add_lab_columns() -> None:
    """Add its columns of ``gtrans score`` to :mod:`gtrans.evaluation.columns`."""
    found = lab()
    if found is not None:
        found.add_columns()
