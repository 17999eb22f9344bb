"""The results of a program as JSON and as its table in docs/reliability.md.

``docs/reliability.json`` has a list of rows for each program, by its name; the place of its table
is marked in the page by ``<!-- NAME: .. -->`` and ``<!-- end of NAME -->``.
"""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

DOCS = Path(__file__).resolve().parents[2] / "docs"
Row = dict[str, Any]


@dataclass(frozen=True)
class Column:
    """A column of a table: its head, and the key of its number in a row; None is a dash."""

    head: str
    key: str


def records(log: Path) -> list[Row]:
    """The finished work that a program has noted, a line for each piece."""
    if not log.exists():
        return []
    return [json.loads(line) for line in log.read_text("utf-8").splitlines()]


def markdown(rows: Sequence[Row], columns: Sequence[Column]) -> str:
    """The table, with a line of sums; the first column is ``title``."""
    total = {one.key: sum(row[one.key] or 0 for row in rows) for one in columns}
    lines = [("command", *(one.head for one in columns)), ("---", *["---:"] * len(columns))]
    lines += [(row["title"], *(_number(row[one.key]) for one in columns)) for row in rows]
    lines.append(("**all**", *(f"**{_number(total[one.key])}**" for one in columns)))
    return "".join(f"| {' | '.join(line)} |\n" for line in lines)


def _number(value: int | None) -> str:
    return "" if value is None else f"{value:,}"


def write(
    name: str, rows: Sequence[Row], columns: Sequence[Column], order: Sequence[str],
    folder: Path = DOCS,
) -> None:  # fmt: skip
    """Write ``reliability.json`` and, from it, the table of ``name`` in ``reliability.md``.

    Rows of cases that are not among ``rows`` stay as they are. ``order`` names all cases.
    """
    numbers = folder / "reliability.json"
    known = json.loads(numbers.read_text("utf-8")) if numbers.is_file() else {}
    merged = {one["case"]: one for one in (*known.get(name, ()), *rows)}
    order = [*order, *merged]
    known[name] = sorted(merged.values(), key=lambda one: order.index(one["case"]))
    numbers.write_text(json.dumps(known, indent=1) + "\n", "utf-8")
    page = folder / "reliability.md"
    place = re.compile(rf"(?s)(<!-- {name}: [^>]*-->\n).*?(<!-- end of {name} -->)")
    table = markdown(known[name], columns)
    text, found = place.subn(lambda old: old[1] + table + old[2], page.read_text("utf-8"))
    if found != 1:
        raise SystemExit(f"{name}: error: {page} has no place for the table (<!-- {name}: .. -->).")
    page.write_text(text, "utf-8")
