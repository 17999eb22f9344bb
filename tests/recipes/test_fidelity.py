"""docs/fidelity.md says what the recipes do: its tables against their dry runs."""

from __future__ import annotations

import re
import shlex
from pathlib import Path

import pytest
from support.recipes import PLACE, commands

PAGE = Path(__file__).parents[2] / "docs" / "fidelity.md"


def tables() -> list[tuple[str, list[str]]]:
    """For every heading with a recipe, its command and the options in the column "ours"."""
    found = []
    for part in re.split(r"^#+ ", PAGE.read_text(encoding="utf-8"), flags=re.MULTILINE):
        heading, *lines = part.split("\n")
        command = re.search(r"`(run-[\w-]+\.sh[^`]*)`", heading)
        rows = [line.split(" | ") for line in lines if line.startswith("| ")]
        options = [
            option
            for row in rows
            if len(row) == 4
            for option in re.findall(r"`(--[^`]+)`", row[2].split(";")[0])
        ]
        if command and options:
            found.append((command[1], options))
    return found


@pytest.mark.parametrize(("command", "options"), tables(), ids=[name for name, _ in tables()])
def test_the_recipe_has_what_the_page_says(command, options, script):
    name, *arguments = shlex.split(command)
    before, after = arguments, []
    if "--" in arguments:
        before, after = arguments[: arguments.index("--")], arguments[arguments.index("--") :]
    done = script(name.removesuffix(".sh"), *PLACE, *before, "--dry-run", *after)
    printed = [line + " " for line in commands(done)]
    for option in options:
        assert any(f" {option} " in line for line in printed), option


def test_every_paper_of_this_page_has_tables():
    assert len(tables()) >= 7
