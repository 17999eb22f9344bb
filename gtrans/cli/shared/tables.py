"""Tables on the terminal."""

from __future__ import annotations

from collections.abc import Collection, Sequence

from gtrans.messages import printable


def aligned(rows: Sequence[Sequence[str]], words: Collection[int]) -> list[str]:
    """The lines of a table; all rows have the same number of cells.

    The columns whose numbers are in ``words`` are flush left, all others flush right.
    Control characters are escaped.
    """
    rows = [[printable(cell) for cell in row] for row in rows]
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    return [
        "  ".join(
            text.ljust(width) if column in words else text.rjust(width)
            for column, (text, width) in enumerate(zip(row, widths, strict=True))
        ).rstrip()
        for row in rows
    ]
