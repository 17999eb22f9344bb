"""A small corpus, and calls of ``gtrans score``, for the tests of scores of other programs."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from gtrans.cli import main

SOURCE = "One.\nTwo.\nThree.\nFour.\n\nFive.\nSix.\n"
REFERENCE = "Eins.\nZwei.\nDrei.\nVier.\n\nFünf.\nSechs.\n"
SYSTEM = "eins\nzwei\n\nvier\n\nfünf\nsechs\n"
LINES = ["eins", "zwei", "", "vier", "fünf", "sechs"]


def write_files(tmp_path: Path) -> list[str]:
    """Source, reference and two systems, the second perfect; the arguments that name them."""
    for name, content in [("src", SOURCE), ("ref", REFERENCE), ("a", SYSTEM), ("b", REFERENCE)]:
        (tmp_path / name).write_text(content, encoding="utf-8")
    names = ["--hyp", tmp_path / "a", tmp_path / "b", "--ref", tmp_path / "ref"]
    names += ["--metrics", "s_bleu"]
    return [str(name) for name in names]


Capture = pytest.CaptureFixture[str]


def score(capsys: Capture, *arguments: str) -> Any:
    """The report; ``of_one`` is the entry of its first system."""
    capsys.readouterr()
    assert main(["score", *arguments, "--json"]) == 0
    report = json.loads(capsys.readouterr().out)
    return report | {"of_one": report["systems"][report["baseline"]]}


def refusal(capsys: Capture, *arguments: str) -> str:
    """The only line of a mistake."""
    assert main(["score", *arguments]) == 1
    out, error = capsys.readouterr()
    assert (out, error.count("\n")) == ("", 1) and error.startswith("gtrans: error: ")
    return error


def jsonl(path: Path, rows: list[dict[str, Any]]) -> str:
    """A file of JSON lines; its name."""
    lines = (json.dumps(row, ensure_ascii=False) + "\n" for row in rows)
    path.write_text("".join(lines), encoding="utf-8")
    return str(path)
