"""Progress messages."""

from __future__ import annotations

import sys


def say(text: str) -> None:
    """Print a progress message to standard error."""
    print(text, file=sys.stderr, flush=True)
