"""Write at the end of each run script the commands that it runs, as a comment.

    .venv/bin/python scripts/show_commands.py

``--dry-run`` prints the commands on the corpus of exp_gtransformer/README.md, with the options
below where a script needs more.
"""

from __future__ import annotations

import subprocess
import textwrap
from pathlib import Path

REPO = Path(__file__).resolve().parents[1]
FOLDER = REPO / "exp_gtransformer"
HEADING = "# ---- What it runs: the commands of\n"
CORPUS = "--data corpus --corpus europarl7 --out out"
OPTIONS = {
    "prepare-mbart": f"--mbart mbart.cc25 {CORPUS}",
    "prepare-multilingual": "--langs en,de --data corpus --corpus iwslt17-multi --out out",
    "run-all": f"--corpus europarl7 {CORPUS.replace('--corpus europarl7 ', '')}",
    "run-fusion": "--data corpus --corpus iwslt14 --out out",
    "run-mbart": f"--mbart mbart.cc25 {CORPUS}",
    "run-multilingual": "--langs en,de --data corpus --corpus iwslt17-multi --out out",
}
WITHOUT_DRY_RUN = ("lib", "options", "discourse", "tokenised-bleu")
WIDTH = 118


def scripts() -> list[Path]:
    """The scripts that have ``--dry-run``."""
    return sorted(path for path in FOLDER.glob("*.sh") if path.stem not in WITHOUT_DRY_RUN)


def body(path: Path) -> str:
    """A script without the comment."""
    return path.read_text(encoding="utf-8").partition(f"\n{HEADING}")[0]


def comment(path: Path) -> str:
    """The comment that belongs at the end of a script."""
    words = [*OPTIONS.get(path.stem, CORPUS).split(), "--dry-run"]
    done = subprocess.run(
        [path, *words], cwd=FOLDER.parent, capture_output=True, text=True, check=True
    )
    lines = []
    for command in done.stdout.replace(f"{REPO}/", "").replace(".venv/bin/", "").splitlines():
        wrapped = textwrap.wrap(
            command.removeprefix("$ ").strip(),
            WIDTH - 4,
            subsequent_indent="    ",
            break_long_words=False,
            break_on_hyphens=False,
        )
        lines += [f"#   {line}" for line in wrapped]
    return f"\n{HEADING}#   {path.name} {' '.join(words)}\n#\n" + "\n".join(lines) + "\n"


def main() -> None:
    """Write all comments."""
    for path in scripts():
        path.write_text(body(path) + comment(path), encoding="utf-8")


if __name__ == "__main__":
    main()
