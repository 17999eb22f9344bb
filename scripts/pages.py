"""Write the generated parts of docs/: differences from papers, status of tables, costs.

    python scripts/pages.py            write the pages
    python scripts/pages.py --check    fail if a page is not what would be written

A page has a line `<!-- generated: WHAT ARGUMENT.. -->`; all up to `<!-- end -->` is replaced.
"""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from pathlib import Path

import yaml

from gtrans.lab.corpora import name_of
from gtrans.lab.experiments import read_catalogue
from results import write

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

STOCK, SENTENCES = "stock sentence Transformer", "gtrans sentence Transformer"
TRAINED = (STOCK, SENTENCES, "G-Transformer, varlen", "document Transformer")


def differences(names: Sequence[str]) -> list[str]:
    """Tables of the settings in which run scripts differ from their papers."""
    lines: list[str] = []
    for name in names:
        data = yaml.safe_load((FIDELITY / f"{name}.yaml").read_text(encoding="utf-8"))
        rows = [row for row in data["settings"] if row["same"] != "yes"]
        total = len(data["settings"])
        if rows:
            lines += [
                "",
                f"**{data['title']}** (`{data['script']}`): {total - len(rows)} of {total} "
                "settings are those of the paper or of its code. These differ or are open:",
                "",
                "| setting | paper or code | here | why |",
                "| --- | --- | --- | --- |",
            ]
        for row in rows:
            cells = (row[key] for key in ("setting", "theirs", "ours", "note"))
            lines.append(f"| {' | '.join(cells)} |")
    return lines[1:]


def status(_: Sequence[str]) -> list[str]:
    """The papers' tables and figures: those that have been run, and the needs of a full run."""
    lines = ["| paper | table or figure | shows | tiny run | full run needs |"]
    lines.append("| --- | --- | --- | --- | --- |")
    for name, table in read_catalogue().items():
        paper = NAMES.get(table.paper["name"])
        if paper is not None:
            need = ", ".join(f"`{name_of(corpus)}`" for corpus in table.corpora) or "trained models"
            title = table.title[0].upper() + table.title[1:]
            tiny = "yes" if any((ROOT / "results/reproduced").glob(f"{name}.*json")) else ""
            lines.append(f"| {paper} | `{name}` | {title} | {tiny} | {need} |")
    return lines


def costs(_: Sequence[str]) -> list[str]:
    """The cost of training on a GPU, next to stock fairseq's sentence Transformer."""
    text = (ROOT / "results" / "benchmarks.json").read_text(encoding="utf-8")
    rows = [row for row in json.loads(text)["gpu"]["rows"] if row["part"] == "training"]
    speeds = {(row["system"], row["batch"], row["words"]): row["words_per_second"] for row in rows}
    lines = [
        "| model | words of a document | words of a batch | GiB | words a second | of stock's "
        "| of our sentence model's | hours |",
        "| --- | ---: | ---: | ---: | ---: | ---: | ---: | ---: |",
    ]
    for row in sorted(rows, key=lambda row: (row["batch"], row["words"])):
        name, batch, words = row["system"], row["batch"], row["words"]
        if name in TRAINED:
            speed = row["words_per_second"]
            of_stock = speed / speeds[STOCK, batch, words]
            of_ours = speed / speeds[SENTENCES, batch, words]
            hours = 100_000 * 16_384 / speed / 3600
            lines.append(
                f"| {name} | {words:,} | {batch:,} | {row['gigabytes']:.1f} | {speed:,.0f} | "
                f"{of_stock:.2f} | {of_ours:.2f} | {hours:.1f} |"
            )
    return lines


WRITERS = {"differences": differences, "status": status, "costs": costs}


def made(match: re.Match[str]) -> str:
    """The up-to-date text of a generated part."""
    name, *arguments = match[2].split()
    lines = WRITERS[name](arguments)
    return "\n".join([match[1], *lines, "", match[3]])


if __name__ == "__main__":
    pages = {path: path.read_text(encoding="utf-8") for path in (ROOT / "docs").rglob("*.md")}
    write(__doc__, [(path, PLACE.sub(made, text)) for path, text in sorted(pages.items())])
