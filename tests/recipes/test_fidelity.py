"""`exp_gtransformer/fidelity` says what the run scripts do: its settings against their dry runs."""

from __future__ import annotations

import re
import shlex
from pathlib import Path
from typing import Any, NamedTuple

import pytest
import yaml
from support.recipes import PLACE, commands, has_options, options_of

FILES = sorted((Path(__file__).parents[2] / "exp_gtransformer" / "fidelity").glob("*.yaml"))
ALL = {path.stem: yaml.safe_load(path.read_text(encoding="utf-8")) for path in FILES}
KEYS = {"setting", "theirs", "ours", "same", "note"}


class Option(NamedTuple):
    """An option of a setting; ``folder`` is that of the model it is said of, or empty."""

    folder: str
    words: str


def said_in(ours: str) -> list[Option]:
    """The options that a setting says its run script has.

    In each of its parts, which semicolons divide, those behind the name of a model's folder belong
    to that model. What stands in a part behind the first and names no folder is another choice.
    """
    found = []
    for number, part in enumerate(ours.split(";")):
        folder = re.match(r" ?`(out/[\w-]+)`: ", part)
        if folder or number == 0:
            found += [
                Option(folder[1] if folder else "", words)
                for words in re.findall(r"`(--\w[^`]*)`", part)
            ]
    return found


@pytest.mark.parametrize("name", ALL)
def test_the_run_script_has_what_its_file_says(name: str, script: Any) -> None:
    words, *arguments = shlex.split(ALL[name]["script"])
    before, after = arguments, []
    if "--" in arguments:
        before, after = arguments[: arguments.index("--")], arguments[arguments.index("--") :]
    done = script(words.removesuffix(".sh"), *PLACE, *before, "--dry-run", *after)
    printed = commands(done)
    options = [one for row in ALL[name]["settings"] for one in said_in(row["ours"])]
    assert options
    for option in options:
        candidates = printed
        if option.folder:
            candidates = [x for x in printed if has_options({"--save-dir": option.folder}, x)]
            assert len(candidates) == 1, option
        wanted = options_of(option.words)
        assert any(has_options(wanted, command) for command in candidates), option


def test_every_file_has_its_form() -> None:
    assert len(ALL) > 20
    for name, of in ALL.items():
        assert set(of) == {"paper", "title", "script", "settings"}, name
        for row in of["settings"]:
            assert set(row) <= KEYS and KEYS - set(row) <= {"note"}, (name, row)
            assert row["same"] in ("yes", "no", "almost", "open"), (name, row)
            why = row.get("note", "")
            assert row["same"] == "yes" or why, f"{name}: {row['setting']} differs without a reason"
            assert "as above" not in f"{row['theirs']} {row['ours']} {why}", (name, row)
    papers = {"gtransformer", "flat", "memory", "bert-context", "fusion", "han"}
    assert {of["paper"] for of in ALL.values()} == papers


def test_every_file_is_on_the_page_of_its_system(repo: Path) -> None:
    pages = "".join(page.read_text("utf-8") for page in (repo / "docs" / "systems").glob("*.md"))
    shown = {
        name
        for names in re.findall(r"<!-- generated: differences ([^>]*) -->", pages)
        for name in names.split()
    }
    assert shown == set(ALL)
