"""A page of a system that says it has the settings of a recipe has them."""

from __future__ import annotations

import re
import shlex
from pathlib import Path

import pytest
from support.recipes import commands, options_of, same

SAID = re.compile(r"The settings are those of[^`]* recipe,\s`exp_gtransformer/([^`]*)`")
PAGES = {
    page: " ".join(said[1].split())
    for page in sorted((Path(__file__).parents[2] / "docs" / "systems").glob("*.md"))
    if (said := SAID.search(page.read_text(encoding="utf-8")))
}
# A page names its own folders, and keeps checkpoints for an average, which recipes do not take.
ITS_OWN = {"--save-dir", "--init-from", "--keep-last-epochs"}


def test_pages_name_their_recipe() -> None:
    assert len(PAGES) >= 3


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_the_command_is_the_recipe_s(page, script):
    name, *arguments = shlex.split(PAGES[page])
    place = ("--data", "texts", "--corpus", "iwslt17", "--out", "out")
    done = script(name.removesuffix(".sh"), *place, *arguments, "--dry-run")
    trained = [options_of(line) for line in commands(done) if line.startswith("gtrans train ")]
    text = page.read_text(encoding="utf-8").replace("\\\n", "")
    (typed,) = re.findall(r"^gtrans train .*$", text, re.MULTILINE)
    wanted = options_of(typed)
    wanted = {flag: value for flag, value in wanted.items() if flag not in ITS_OWN}
    assert any(
        all(flag in made and same(value, made[flag]) for flag, value in wanted.items())
        for made in trained
    ), (wanted, trained)
