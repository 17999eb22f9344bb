"""The changes of all rows at a glance, in docs/results.md (scripts/results.py)."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from gtrans.messages import change_interval, in_digits

_BASELINE = "sentence, trained on"
_GLANCE = ("s-BLEU", "d-BLEU", "chrF2", "lexical consistency", "ContraPro")
# Long, of models that other tables have, and read in other ways.
_NOT_AT_A_GLANCE = {"results-limits"}
_OVER = "log-probability above the baseline in nats"


def where(table: dict[str, Any]) -> str:
    """Corpus, updates and scale."""
    settings = table["settings"]
    updates = ""
    if {"first-updates", "further-updates"} <= settings.keys():
        updates = (
            f"{settings['first-updates']} updates of the sentence model and "
            f"{settings['further-updates']} further ones, "
        )
    return f"{', '.join(table['corpora'])}, {updates}scale {table['scale']}"


def remarks(table: dict[str, Any]) -> list[str]:
    """What was written by hand into rows."""
    return [f"- row {it['label']}: {it['remark']}" for it in table["rows"] if "remark" in it]


def at_a_glance(found: list[dict[str, Any]]) -> Iterator[str]:
    """The changes of all rows that are tested against another, beside those of the papers."""
    scored = [table for table in found if _GLANCE[0] in table["columns"]]
    scored = [table for table in scored if table["experiment"] not in _NOT_AT_A_GLANCE]
    if not scored:
        return
    yield "\n## Changes at a glance\n"
    yield (
        "From the baseline of the same seed, which is *sentence, trained on* unless a row names"
        " another: mean over seeds; in brackets the 95% interval and the p of every seed (-: of"
        " this one not known). *Log-probability*: that of a sentence of the reference, in nats,"
        " less that of the baseline, of every seed with its 95% interval. The last column is "
        "the change of s-BLEU that the paper of the system prints, from its own sentence model,"
        " on its own corpora."
    )
    notes = {it["printed"]["note"]: None for it in scored if it["printed"].get("note")}
    yield from (f"\n*Its paper*: {note}" for note in notes)
    for table in scored:
        yield f"\n{table['experiment']}: {where(table)}:\n"
        yield from (f"{it}\n" for it in remarks(table))
        yield "| " + " | ".join(["row", *_GLANCE, "log-probability", "its paper: s-BLEU"]) + " |"
        yield "| --- " + "| ---: " * (len(_GLANCE) + 2) + "|"
        for row in table["rows"]:
            digits = table["columns"]
            cells = [_change(row["cells"].get(it), digits.get(it, 0)) for it in _GLANCE]
            seeds = [run["seed"] for run in row["runs"]]
            cells.append(_above(row["cells"].get(_OVER), digits.get(_OVER, 0), seeds))
            if any(cells):
                name = row["label"]
                name += f" ({row['corpus']})" if len(table["corpora"]) > 1 else ""
                name += "" if row["baseline"] == _BASELINE else f", against {row['baseline']}"
                paper = "; ".join(str(it) for it in row["paper"])
                yield "| " + " | ".join([name, *cells, paper]) + " |"


def _change(cell: dict[str, Any] | None, digits: int) -> str:
    if not cell or not cell.get("difference"):
        return ""
    seeds = cell["seeds"]
    inside = []
    if any("change" in it for it in seeds):
        ends = (change_interval(it["change"], digits) if "change" in it else "-" for it in seeds)
        inside.append(", ".join(ends))
    if any("p" in it for it in seeds):
        each = (f"{it['p']:.2g}" if "p" in it else "-" for it in seeds)
        inside.append(f"p = {', '.join(each)}")
    mean = in_digits(cell["difference"]["mean"], digits, "+")
    return f"{mean} ({'; '.join(inside)})" if inside else mean


def _above(cell: dict[str, Any] | None, digits: int, seeds: Sequence[int]) -> str:
    """A number that is a change itself, of every seed."""
    if cell is None:
        return ""
    known = {
        it["seed"]: f"{in_digits(it['value'], digits, '+')} "
        f"({change_interval(it['interval'], digits)})"
        for it in cell["seeds"]
    }
    return ", ".join(known.get(seed, "-") for seed in seeds)
