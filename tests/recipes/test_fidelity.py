"""docs/fidelity.md says what the run scripts do: its tables against their dry runs and configs/."""

from __future__ import annotations

import re
import shlex
from pathlib import Path
from typing import NamedTuple

import pytest
from support.recipes import PLACE, commands, has_options, options_of

PAGE = (Path(__file__).parents[2] / "docs" / "fidelity.md").read_text(encoding="utf-8")
HEADER = ["setting", "ours", "the same"]


class Option(NamedTuple):
    """An option of the page; ``folder`` is that of the model it is said of, or empty."""

    folder: str
    words: str


class Table(NamedTuple):
    """A table under a heading with a recipe."""

    command: str
    options: list[Option]


def said_in(cell: str) -> list[Option]:
    """The options in a cell of the column "ours".

    In each of its parts, which semicolons divide, those behind the name of a model's folder belong
    to that model. What stands in a part behind the first and names no folder is another choice.
    """
    found = []
    for number, part in enumerate(cell.split(";")):
        folder = re.match(r" ?`(out/[\w-]+)`: ", part)
        if folder or number == 0:
            found += [
                Option(folder[1] if folder else "", words)
                for words in re.findall(r"`(--\w[^`]*)`", part)
            ]
    return found


def sections() -> list[tuple[str, list[list[str]]]]:
    """Every heading of the page with the rows of four columns under it."""
    found = []
    for part in re.split(r"^#+ ", PAGE, flags=re.MULTILINE):
        heading, *lines = part.split("\n")
        rows = [line.strip("| ").split(" | ") for line in lines if line.startswith("| ")]
        found.append((heading, [row for row in rows if len(row) == 4]))
    return found


def tables() -> list[Table]:
    found = []
    for heading, rows in sections():
        command = re.search(r"`(run-[\w-]+\.sh[^`]*)`", heading)
        if command and rows:
            found.append(Table(command[1], [one for row in rows for one in said_in(row[2])]))
    return found


@pytest.mark.parametrize("table", tables(), ids=lambda table: table.command)
def test_the_recipe_has_what_the_page_says(table, script):
    name, *arguments = shlex.split(table.command)
    before, after = arguments, []
    if "--" in arguments:
        before, after = arguments[: arguments.index("--")], arguments[arguments.index("--") :]
    done = script(name.removesuffix(".sh"), *PLACE, *before, "--dry-run", *after)
    printed = commands(done)
    for option in table.options:
        candidates = printed
        if option.folder:
            candidates = [x for x in printed if has_options({"--save-dir": option.folder}, x)]
            assert len(candidates) == 1, option
        wanted = options_of(option.words)
        assert any(has_options(wanted, command) for command in candidates), option


def test_every_table_names_its_recipe_and_an_option_of_it():
    """Otherwise nothing compares it with a dry run."""
    for heading, rows in sections():
        if rows:
            assert re.search(r"`run-[\w-]+\.sh[^`]*`$", heading), heading
            assert [rows[0][0], *rows[0][2:]] == HEADER, heading
    assert all(table.options for table in tables())


def test_every_paper_has_tables():
    for paper in re.split(r"^## ", PAGE, flags=re.MULTILINE)[1:]:
        assert re.search(r"^### .*`run-", paper, flags=re.MULTILINE), paper.split("\n")[0]


def test_options_belong_to_the_model_whose_folder_stands_before_them():
    assert said_in("`out/a`: `--lr 1` and `--beam 2`; `out/b`: `--lr 3`; `-- --lr 4`") == [
        Option("out/a", "--lr 1"),
        Option("out/a", "--beam 2"),
        Option("out/b", "--lr 3"),
    ]
    assert said_in("`--lr 1`; `--lr 2` for theirs") == [Option("", "--lr 1")]
