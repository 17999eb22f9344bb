"""What the user is told while the work goes on."""

from __future__ import annotations

import sys


def say(text: str) -> None:
    """Tell the user how the work goes."""
    print(text, file=sys.stderr, flush=True)
