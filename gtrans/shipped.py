"""The files of this project that are not code: scripts, configurations, versions.

In a clone they stand beside the package, in an installed wheel inside it (``setup.py``).
"""

from __future__ import annotations

from pathlib import Path

_PACKAGE = Path(__file__).resolve().parent
_IN_WHEEL = _PACKAGE / "shipped"


def shipped(name: str) -> Path:
    """Where ``name`` is: ``configs``, ``requirements.txt``, ``scripts/make_bert.py``, ..."""
    return (_IN_WHEEL if _IN_WHEEL.is_dir() else _PACKAGE.parent) / name
