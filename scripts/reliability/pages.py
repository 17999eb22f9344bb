"""Writes sentences of a text as a folder of pages in three formats: what `kills.py` has translated.

python scripts/reliability/pages.py TEXT FOLDER
"""

from __future__ import annotations

import html
import json
import sys
from pathlib import Path

SENTENCES = 9  # of a page
PAGES = 4  # of each format


def main(text: Path, folder: Path) -> None:
    """Four Markdown files, four HTML files in a folder of their own, four documents as rows."""
    lines = [line for line in text.read_text("utf-8").splitlines() if line]
    pages = [lines[SENTENCES * page : SENTENCES * (page + 1)] for page in range(3 * PAGES)]
    (folder / "more").mkdir(parents=True)
    for number, (title, *others) in enumerate(pages[:PAGES]):
        markdown = f"# {title}\n\n" + "".join(f"* {line}\n" for line in others)
        (folder / f"{number}.md").write_text(markdown, "utf-8")
    for number, page in enumerate(pages[PAGES : 2 * PAGES]):
        paragraphs = "".join(f"<p>{html.escape(line)}</p>\n" for line in page)
        (folder / "more" / f"{number}.html").write_text(paragraphs, "utf-8")
    rows = [
        json.dumps({"doc_id": str(number), "text": line})
        for number, page in enumerate(pages[2 * PAGES :])
        for line in page
    ]
    (folder / "rows.jsonl").write_text("\n".join(rows) + "\n", "utf-8")


if __name__ == "__main__":
    main(*map(Path, sys.argv[1:]))
