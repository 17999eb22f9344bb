"""What a user of the wheel has: recipes, configurations, and one line for what is missing."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

from gtrans import __version__

HIDE = """
import os, sys
from importlib.machinery import PathFinder

class Without(PathFinder):
    @classmethod
    def find_spec(cls, name, path=None, target=None):
        hidden = name.partition(".")[0] in os.environ["HIDDEN"].split()
        return None if hidden else super().find_spec(name, path, target)

sys.meta_path[sys.meta_path.index(PathFinder)] = Without
"""
SOURCES = ("gtrans", "configs", "exp_gtransformer", "scripts", "README.md", "requirements.txt",
           "setup.py", "pyproject.toml", "MANIFEST.in")  # fmt: skip
WHEEL = f"gtrans-{__version__}-py3-none-any.whl"
OF_BUILDING = shutil.ignore_patterns("__pycache__", "*.egg-info")


@pytest.fixture(scope="module")
def site(repo: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The wheel's contents, and a module with which HIDDEN names libraries that are missing."""
    folder = tmp_path_factory.mktemp("wheel")
    for name in SOURCES:
        if (repo / name).is_dir():
            shutil.copytree(repo / name, folder / "source" / name, ignore=OF_BUILDING)
        else:
            shutil.copy(repo / name, folder / "source" / name)
    subprocess.run(
        [sys.executable, "-m", "pip", "wheel", "-q", "--no-deps", "--no-build-isolation",
         "--disable-pip-version-check", "-w", folder, folder / "source"],
        check=True, timeout=300,
    )  # fmt: skip
    (wheel,) = folder.glob("*.whl")
    with zipfile.ZipFile(wheel) as archive:
        archive.extractall(folder / "site")
    (folder / "site" / "sitecustomize.py").write_text(HIDE)
    return folder / "site"


def gtrans(site: Path, folder: Path, *words: str, hidden: str = "") -> subprocess.CompletedProcess:
    """``gtrans`` of the wheel, typed in a folder."""
    return subprocess.run(
        [sys.executable, "-m", "gtrans", *words],
        cwd=folder,
        env={**os.environ, "PYTHONPATH": str(site), "HIDDEN": hidden},
        stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=120,
    )  # fmt: skip


@pytest.mark.parametrize(
    ("command", "library", "way"),
    [
        ("prepare --source-lang en --target-lang de --train t --out data", "torch", "torch=="),
        ("prepare --source-lang en --target-lang de --train t --out data", "fairseq",
         "whl[build]' && pip install "
         "--no-build-isolation --no-deps fairseq-fixed=="),
        ("prepare --source-lang en --target-lang de --train t --bert b --out d", "transformers",
         f"type, in the folder of its wheel: pip install '{WHEEL}[bert]'"),
        ("prepare --source-lang en --target-lang de --train t --sentencepiece m --out d",
         "sentencepiece", f"pip install '{WHEEL}[mbart]'"),
        ("train data --arch gtransformer_tiny", "fairseq", "fairseq-fixed=="),
        ("translate --path model.pt --input t.en --output out", "torch", "torch=="),
        ("score --hyp t --ref t", "sacrebleu", f"pip install '{WHEEL}'"),
    ],
)  # fmt: skip
def test_what_is_missing_is_one_line_before_any_work(command, library, way, site, tmp_path):
    done = gtrans(site, tmp_path, *command.split(), hidden=library)
    assert done.returncode == 1
    assert done.stderr.startswith("gtrans: error: ") and done.stderr.count("\n") == 1
    assert f"the library {library}" in done.stderr and way in done.stderr
    assert done.stdout == "" and not list(tmp_path.iterdir())


@pytest.mark.parametrize(
    "words", ["--help", "prepare --help", "translate --help", "score --help", "make-corpus --help"]
)
def test_help_needs_neither_torch_nor_fairseq(words, site, tmp_path):
    done = gtrans(site, tmp_path, *words.split(), hidden="torch fairseq")
    assert done.returncode == 0 and done.stdout.startswith("usage: gtrans")


def test_configurations_and_scripts_are_in_it(repo, site):
    for name in ("exp_gtransformer", "configs"):
        here = {path.relative_to(repo) for path in (repo / name).rglob("*") if path.is_file()}
        there = site / "gtrans" / "project_files"
        found = (path for path in (there / name).rglob("*") if path.is_file())
        assert here == {path.relative_to(there) for path in found}
    page = Path("gtrans", "lab", "report.html")
    assert (site / page).read_bytes() == (repo / page).read_bytes()
