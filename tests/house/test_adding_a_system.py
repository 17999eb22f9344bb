"""docs/adding-a-system.md, followed to the letter in a copy of the project."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

PAGE = Path("docs/adding-a-system.md")
FILE = re.compile(r"^\*\*`([\w/.]+)`\*\*\n\n```\w+\n(.*?)^```$", re.MULTILINE | re.DOTALL)
COMMANDS = re.compile(r"^```sh\n(.*?)^```$", re.MULTILINE | re.DOTALL)
COPIED = ("gtrans", "configs", "docs", "tests", "scripts", "README.md", "pyproject.toml")


def commands_of(page: str) -> Iterator[str]:
    """The commands of the page, one at a time."""
    for block in COMMANDS.findall(page):
        yield from block.replace("\\\n", "").splitlines()


@pytest.fixture(scope="module")
def project(repo: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A copy of the project, with the files of the page."""
    folder = tmp_path_factory.mktemp("project")
    left_out = shutil.ignore_patterns("__pycache__")
    for name in COPIED:
        if (repo / name).is_dir():
            shutil.copytree(repo / name, folder / name, ignore=left_out)
        else:
            shutil.copy(repo / name, folder)
    for name, text in FILE.findall((folder / PAGE).read_text(encoding="utf-8")):
        assert not (folder / name).exists()
        (folder / name).write_text(text, encoding="utf-8")
    return folder


def run(project: Path, command: str) -> str:
    """What a command prints when it is typed in the project folder."""
    path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    settings = {"PATH": path, "PYTHONPATH": str(project), "OMP_NUM_THREADS": "1"}
    done = subprocess.run(
        ["bash", "-c", command],
        cwd=project,
        env={**os.environ, **settings, "CUDA_VISIBLE_DEVICES": ""},
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, f"{command}\n{done.stdout}{done.stderr}"
    return done.stdout


def test_the_page_has_at_most_three_files_and_a_test(repo: Path) -> None:
    files = [name for name, _ in FILE.findall((repo / PAGE).read_text(encoding="utf-8"))]
    assert [Path(name).parts[0] for name in files] == ["gtrans", "gtrans", "configs", "tests"]


@pytest.mark.long
def test_the_page_can_be_followed(project: Path) -> None:
    page = (project / PAGE).read_text(encoding="utf-8")
    printed = {command: run(project, command) for command in commands_of(page)}

    def of(beginning: str) -> str:
        return next(text for command, text in printed.items() if command.startswith(beginning))

    assert "--context-mean-scale" in of("gtrans train --help --arch context_mean_tiny")
    lines, source = (
        (project / name).read_text(encoding="utf-8").splitlines()
        for name in ("test.out.de", "text/test.en")
    )
    assert [line == "" for line in lines] == [line == "" for line in source]
    assert " 4 passed" in of("python -m pytest tests/models")
    assert " 12 passed" in of("python -m pytest tests/contract")


def test_the_code_of_the_page_is_clean(project: Path) -> None:
    if shutil.which("ruff", path=str(Path(sys.executable).parent)):
        run(project, "ruff check gtrans/*/context_mean.py tests/models/test_context_mean.py")
