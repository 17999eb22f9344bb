"""Tables on the terminal."""

from __future__ import annotations

from collections.abc import Collection, Sequence


def aligned(rows: Sequence[Sequence[str]], words: Collection[int]) -> list[str]:
    """Rows of equally many cells as lines.

    Columns ``words`` begin at the left, all others, numbers, end at the right.
    """
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    return [
        "  ".join(
            text.ljust(width) if column in words else text.rjust(width)
            for column, (text, width) in enumerate(zip(row, widths, strict=True))
        ).rstrip()
        for row in rows
    ]
