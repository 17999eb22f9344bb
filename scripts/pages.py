"""Write what pages of docs/ take from data: differences from the papers, status of their tables.

    python scripts/pages.py            write the pages
    python scripts/pages.py --check    fail if a page is not what would be written

A page has a line `<!-- generated: WHAT ARGUMENT.. -->`; all up to `<!-- end -->` is replaced.
"""

from __future__ import annotations

import argparse
import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import yaml

from gtrans.lab.corpora import name_of
from gtrans.lab.experiments import read_catalogue

ROOT = Path(__file__).resolve().parent.parent
FIDELITY = ROOT / "exp_gtransformer" / "fidelity"
PLACE = re.compile(r"(<!-- generated: ([^>]*) -->\n).*?(<!-- end -->)", re.DOTALL)
NAMES = {
    "gtransformer": "G-Transformer",
    "memory": "Recurrent memory",
    "fusion": "GTRANS layer fusion",
    "bert-context": "BERT context",
    "flat": "Flat-Transformer",
}


def settings(name: str) -> dict[str, Any]:
    """A file of `exp_gtransformer/fidelity`: paper, title, script, and the list of settings."""
    found: dict[str, Any] = yaml.safe_load((FIDELITY / f"{name}.yaml").read_text(encoding="utf-8"))
    return found


def differences(names: Sequence[str]) -> list[str]:
    """Tables of the settings in which run scripts differ from their papers."""
    lines: list[str] = []
    for name in names:
        of = settings(name)
        rows = [row for row in of["settings"] if row["same"] != "yes"]
        same = len(of["settings"]) - len(rows)
        lines += ["", f"`{of['script']}`: {same} settings as in the paper or the authors' code"]
        if not rows:
            lines[-1] += ", none that differs."
            continue
        lines[-1] += "; these differ or are open:"
        lines += ["", "| setting | paper or code | here | why |", "| --- | --- | --- | --- |"]
        for row in rows:
            why = row.get("note", "not stated there" if row["same"] == "open" else "")
            lines.append(f"| {row['setting']} | {row['theirs']} | {row['ours']} | {why} |")
    return [*lines[1:], ""]


def status(_: Sequence[str]) -> list[str]:
    """The papers' tables and figures: what has been run, and what a full run needs."""
    lines = ["| paper | table or figure | shows | tiny run | full run needs |"]
    lines.append("| --- | --- | --- | --- | --- |")
    for name, table in read_catalogue().items():
        if table.paper["name"] not in NAMES:
            continue
        ran = (ROOT / "results" / "reproduced" / f"{name}.json").is_file()
        ran = ran or any((ROOT / "results" / "reproduced").glob(f"{name}.*.json"))
        needs = ", ".join(f"`{name_of(corpus)}`" for corpus in table.corpora) or "trained models"
        title = table.title[0].upper() + table.title[1:]
        lines.append(
            f"| {NAMES[table.paper['name']]} | `{name}` | {title} "
            f"| {'yes' if ran else ''} | {needs} |"
        )
    return [*lines, ""]


MAKERS = {"differences": differences, "status": status}


def made(text: str) -> str:
    """A page with its generated parts as they should be."""

    def part(found: re.Match[str]) -> str:
        what, *arguments = found[2].split()
        return found[1] + "\n" + "\n".join(MAKERS[what](arguments)) + "\n" + found[3]

    return PLACE.sub(part, text)


def main() -> None:
    """Write or check the pages."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--check", action="store_true", help="compare, and write nothing")
    args = parser.parse_args()
    for path in sorted((ROOT / "docs").rglob("*.md")):
        text = path.read_text(encoding="utf-8")
        wanted = made(text)
        if wanted != text and args.check:
            raise SystemExit(f"pages: error: {path} is not up to date; run scripts/pages.py")
        if wanted != text:
            path.write_text(wanted, encoding="utf-8")


if __name__ == "__main__":
    main()
