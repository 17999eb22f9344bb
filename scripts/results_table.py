"""Write the table of results in README from what was measured here and what the papers print.

    python scripts/results_table.py            write it
    python scripts/results_table.py --check    fail if it is not what would be written

What was measured here is the benchmark `changed-defaults` in docs/benchmarks.json; the papers'
numbers are those of exp_gtransformer/experiments.
"""

from __future__ import annotations

import argparse
import json
import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

from gtrans.identity.files import atomic_writer

ROOT = Path(__file__).resolve().parent.parent
README = ROOT / "README.md"
PLACE = re.compile(r"(?s)(<!-- results: [^>]*-->\n).*?(<!-- end of results -->)")


@dataclass(frozen=True)
class Row:
    """A system.

    Attributes:
        system: what it is called.
        change: the row of the benchmark whose first model it is.
        table, label: where the paper prints its BLEU.
        columns: s-BLEU and d-BLEU there; None: not printed.
    """

    system: str
    change: str
    table: str
    label: str
    columns: tuple[str | None, str | None]


BOTH = ("TED s-BLEU", "TED d-BLEU")
ROWS = (
    Row("document Transformer, decoded freely", "decoding of the document Transformer", "000-T2",
        "Transformer on doc", (None, "TED d-BLEU")),
    Row("G-Transformer, from random parameters", "end of word dropout", "000-T2",
        "G-Transformer random initialized", BOTH),
    Row("Flat-Transformer", "size of segment vectors", "004-T2", "Flat-Transformer",
        ("TED BLEU", None)),
    Row("recurrent memory, from a sentence model", "what an update of the memory model reads",
        "001-T1", "Finetune on Sentence", BOTH),
)  # fmt: skip


def printed(name: str) -> dict[str, Any]:
    """What a paper prints in a table."""
    file = ROOT / "exp_gtransformer" / "experiments" / f"{name.partition('-')[0]}.yaml"
    experiments = yaml.safe_load(file.read_text(encoding="utf-8"))["experiments"]
    found: dict[str, Any] = next(one for one in experiments if one["name"] == name)["paper_says"]
    return found


def rows() -> list[str]:
    """The lines of the table."""
    numbers = json.loads((ROOT / "docs" / "benchmarks.json").read_text(encoding="utf-8"))
    measured = {row["change"]: row for row in numbers["changed-defaults"]["rows"]}
    lines = [
        "| system | here: s-BLEU / d-BLEU | here: pronouns | its paper: s-BLEU / d-BLEU |",
        "| --- | ---: | ---: | ---: |",
    ]
    for row in ROWS:
        here = measured[row.change]
        bleu = " / ".join(_first(here, name) for name in ("s_bleu", "d_bleu"))
        lines.append(f"| {row.system} | {bleu} | {here['accuracy'][0]:.0f}% | {_paper(row)} |")
    return lines


def _first(row: Mapping[str, Any], name: str) -> str:
    return f"{row[name][0]:.1f}" if name in row else "–"


def _paper(row: Row) -> str:
    says = printed(row.table)
    (values,) = [one["values"] for one in says["rows"] if one["label"] == row.label]
    by_column = dict(zip(says["columns"], values, strict=True))
    shown = ("–" if column is None else str(by_column[column]) for column in row.columns)
    return f"{' / '.join(shown)} ({row.table})"


def main() -> None:
    """Write or compare."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--check", action="store_true", help="compare, and write nothing")
    args = parser.parse_args()
    text = README.read_text(encoding="utf-8")
    body = "".join(f"{row}\n" for row in rows())
    new, places = PLACE.subn(lambda match: match[1] + body + match[2], text)
    if places != 1:
        raise SystemExit(
            "results_table: error: README.md needs one pair of lines '<!-- results: generated -->' "
            f"and '<!-- end of results -->', and has {places}."
        )
    if args.check:
        if new != text:
            raise SystemExit("results_table: error: README.md is not up to date; run this script")
    else:
        with atomic_writer(README) as file:
            file.write(new)


if __name__ == "__main__":
    main()
