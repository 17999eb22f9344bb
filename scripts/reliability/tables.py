"""The results of all trials: sums by case, as JSON and as the table of docs/reliability.md."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from cases import CASES, Case

_BETWEEN = re.compile(r"(?s)(<!-- kills: [^>]*-->\n).*?(<!-- end of kills -->)")
HEADS = ("command", "kills", "while it wrote", "trials", "identical", "children left", "files left")
Row = dict[str, Any]


def row(case: Case, records: Sequence[Mapping[str, Any]]) -> Row:
    """The sums of a case.

    ``kills`` and, of them, ``while_writing``: with a file open for writing that the case aims at;
    ``trials``, of which ``identical`` have come to the files of an uninterrupted run;
    ``orphans``: kills that a child process has survived; ``left_over``: trials with files at the
    end for which an uninterrupted run has none.
    """
    kills = [kill for record in records for kill in record["kills"]]
    return {
        "case": case.name,
        "title": case.title,
        "kills": len(kills),
        "while_writing": sum(kill["hit"] for kill in kills),
        "trials": len(records),
        "identical": sum(not record["differences"] for record in records),
        "orphans": sum(bool(kill["orphans"]) for kill in kills),
        "left_over": sum(bool(record["left_over"]) for record in records),
    }


def faultless(rows: Sequence[Row]) -> bool:
    """Whether all trials have come to the right files and no child has outlived a command."""
    return all(one["identical"] == one["trials"] and not one["orphans"] for one in rows)


def markdown(rows: Sequence[Row]) -> str:
    """The table, with a line of sums."""
    keys = ("kills", "while_writing", "trials", "identical", "orphans", "left_over")
    total = {key: sum(one[key] for one in rows) for key in keys}
    lines = [HEADS, ("---", *["---:"] * len(keys))]
    lines += [(one["title"], *(str(one[key]) for key in keys)) for one in rows]
    lines.append(("**all**", *(f"**{total[key]}**" for key in keys)))
    return "".join(f"| {' | '.join(line)} |\n" for line in lines)


def write(folder: Path, rows: Sequence[Row]) -> None:
    """Write ``reliability.json`` and, from it, the table in ``reliability.md`` of a folder.

    Rows of cases that are not among ``rows`` stay as they are.
    """
    numbers = folder / "reliability.json"
    known = json.loads(numbers.read_text("utf-8")) if numbers.is_file() else []
    merged = {one["case"]: one for one in (*known, *rows)}
    order = [*CASES, *merged]
    rows = sorted(merged.values(), key=lambda one: order.index(one["case"]))
    numbers.write_text(json.dumps(rows, indent=1) + "\n", "utf-8")
    page = folder / "reliability.md"
    text, found = _BETWEEN.subn(
        lambda place: place[1] + markdown(rows) + place[2], page.read_text("utf-8")
    )
    if found != 1:
        raise SystemExit(f"kills: error: {page} has no place for the table (<!-- kills: .. -->).")
    page.write_text(text, "utf-8")
