"""docs/documents.md: its commands and its Python, typed as they stand."""

from __future__ import annotations

import re
import shlex
import shutil
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from support.mixed_documents import HTML, MARKDOWN, RUNNING, TEXT

from gtrans.cli import main

if TYPE_CHECKING:
    from support.tiny_models import TinyWorld

SHORT = ("--max-len-a", "0", "--max-len-b", "8", "--cpu")  # typed after a command
PAGE = (Path(__file__).parents[2] / "docs" / "documents.md").read_text(encoding="utf-8")


@pytest.mark.long
def test_the_page_runs(
    tiny: TinyWorld, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, repo: Path
) -> None:
    monkeypatch.chdir(tmp_path)
    shutil.copy(tiny.checkpoints["document"], "model.pt")
    Path("website").mkdir()
    for name, text in (
        ("manual.md", MARKDOWN), ("website/index.html", HTML), ("notes.txt", RUNNING),
        ("test.en", TEXT),
    ):  # fmt: skip
        Path(name).write_text(text)
    blocks = re.findall(r"^```sh\n(.*?)^```", PAGE, re.MULTILINE | re.DOTALL)
    commands = [line for block in blocks for line in block.splitlines()]
    assert len(commands) == 5
    for command in commands:
        words = shlex.split(command)
        if words[0] == "gtrans" and "--stream" not in words:
            assert main([*words[1:], *SHORT]) == 0, command
        else:
            module = f"'{sys.executable}' -m gtrans translate {' '.join(SHORT)}"
            typed = command.replace("gtrans translate", module)
            subprocess.run(
                typed, shell=True, check=True, timeout=200,
                env={"PYTHONPATH": str(repo), "OMP_NUM_THREADS": "1"},
            )  # fmt: skip
    assert {path.name for path in Path("translated").iterdir() if path.suffix != ".json"} == {
        "manual.md", "index.html", "notes.txt",
    }  # fmt: skip
    assert len(Path("test.de").read_text().splitlines()) == len(TEXT.splitlines())
    for code in re.findall(r"^```python\n(.*?)^```", PAGE, re.MULTILINE | re.DOTALL):
        exec(compile(code, "docs/documents.md", "exec"), {})
