"""The documentation as a site, and what in it is made from the code."""

from __future__ import annotations

import os
import re
import runpy
import subprocess
import sys
from pathlib import Path

import pytest
import yaml

from gtrans import __version__
from gtrans.lab.experiments import read_catalogue


@pytest.fixture(scope="module")
def site(repo: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The site, built as `make docs` does; a warning is an error."""
    folder = tmp_path_factory.mktemp("site")
    done = subprocess.run(
        [sys.executable, "-m", "mkdocs", "build", "--strict", "-d", folder],
        cwd=repo, env={**os.environ, "NO_MKDOCS_2_WARNING": "1", "PYTHONPATH": str(repo)},
        capture_output=True, text=True, timeout=300,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr[-4000:]
    return folder


def test_every_page_is_there_and_loads_nothing_from_elsewhere(repo: Path, site: Path) -> None:
    pages = sorted(path.relative_to(repo / "docs") for path in (repo / "docs").rglob("*.md"))
    assert len(pages) > 30
    for page in pages:
        name = "index" if page.stem in ("README", "index") else page.name.removesuffix(".md")
        text = (site / page.parent / f"{name}.html").read_text("utf-8")
        loaded = re.findall(r"<(?:script|img|iframe)[^>]* src=[\"']?([^\"' >]+)", text)
        loaded += re.findall(r"<link[^>]* rel=[\"']?stylesheet[^>]* href=[\"']?([^\"' >]+)", text)
        assert not [place for place in loaded if place.startswith(("http", "//"))], page


def test_docstrings_come_as_markdown(site: Path) -> None:
    text = (site / "api" / "modules.html").read_text("utf-8")
    assert "GroupAttention" in text or "segment_attention" in text
    assert ":class:" not in text and ":func:" not in text and "====" not in text


@pytest.mark.long
def test_figures_are_those_of_the_code(repo: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "argv", ["figures", "--check"])
    monkeypatch.syspath_prepend(str(repo / "scripts"))
    runpy.run_path(str(repo / "scripts" / "figures.py"), run_name="__main__")


@pytest.mark.parametrize("name", ["pages", "results"])
def test_pages_and_tables_are_those_of_the_data(
    repo: Path, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    monkeypatch.setattr(sys, "argv", [name, "--check"])
    monkeypatch.syspath_prepend(str(repo / "scripts"))
    runpy.run_path(str(repo / "scripts" / f"{name}.py"), run_name="__main__")


def test_the_citation_names_this_version_and_the_papers(repo: Path) -> None:
    citation = yaml.safe_load((repo / "CITATION.cff").read_text("utf-8"))
    assert citation["version"] == __version__
    assert citation["authors"] == [{"name": "gtrans contributors"}]
    titles = {one["title"].split(":")[0] for one in citation["references"]}
    every = [it.paper for it in read_catalogue().values() if it.paper["name"] != "results"]
    ours = {paper["title"].split(":")[0] for paper in every}
    assert titles == ours and len(ours) == 5


def test_the_changelog_has_this_version_and_its_promise(repo: Path) -> None:
    text = (repo / "CHANGELOG.md").read_text("utf-8")
    assert f"## {__version__}\n" in text
    assert "**The promise on checkpoints.**" in text.split("## ")[0]
