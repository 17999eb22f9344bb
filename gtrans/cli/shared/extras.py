"""The one look-up of :mod:`gtrans.lab`, whose commands, scores and readers are optional."""

from __future__ import annotations

import importlib
from typing import Any

LAB = "gtrans.lab"


def from_lab(name: str) -> dict[str, Any]:
    """What ``gtrans.lab`` registers under ``name``; nothing where that package is missing."""
    try:
        lab = importlib.import_module(LAB)
    except ModuleNotFoundError as error:
        if error.name != LAB:
            raise
        return {}
    found: dict[str, Any] = getattr(lab, name)
    return found
