"""``scripts/install.sh``: what it refuses, what it installs, and what it does not do again."""

from __future__ import annotations

import os
import shutil
import subprocess
from importlib import metadata
from pathlib import Path

import pytest
from packaging.specifiers import SpecifierSet


def install(repo: Path, *words: str, **environment: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        ["bash", repo / "scripts" / "install.sh", *words],
        cwd=repo,
        env={**os.environ, "TORCH": "", **environment},
        capture_output=True,
        text=True,
        timeout=60,
    )


@pytest.mark.parametrize(
    ("lines", "said"),
    [
        ((), "does not run ("),
        (
            ("echo no libpython3.12.so.1.0 >&2", "exit 127"),
            "does not run (no libpython3.12.so.1.0)",
        ),
        (("echo 3.9.18",), "is Python 3.9.18; 3.11, 3.12 or 3.13 is needed"),
    ],
)
def test_install_refuses_what_is_no_python(lines, said, repo, tmp_path):
    python = tmp_path / "python3"
    if lines:
        executable(python, *lines)
    done = install(repo, PYTHON=str(python))
    assert (done.returncode, done.stdout, done.stderr.count("\n")) == (1, "", 1)
    assert done.stderr.startswith(f"install: error: PYTHON={python} {said}")
    assert "3.11, 3.12 or 3.13" in done.stderr


@pytest.mark.parametrize("python", ["3.11.0", "3.12.0", "3.13.0"])
def test_every_pin_allows_the_pythons_of_the_readme(repo, python):
    """What one of them refuses would end the installation there, though it works here."""
    refused, looked_at = [], 0
    for line in (repo / "requirements.txt").read_text(encoding="utf-8").splitlines():
        name, found, version = line.split("#")[0].partition(";")[0].strip().partition("==")
        if not found:
            continue
        try:
            described = metadata.metadata(name.partition("[")[0])
        except metadata.PackageNotFoundError:
            continue  # of a section that is not installed
        if described["Version"] == version:
            looked_at += 1
            if not SpecifierSet(described["Requires-Python"] or "").contains(python):
                refused.append(f"{name} {version}: {described['Requires-Python']}")
    assert refused == []
    assert looked_at > 20


@pytest.fixture
def project(repo, tmp_path):
    """A project folder of its own, to run scripts/install.sh in."""
    (tmp_path / "scripts").mkdir()
    for name in ("scripts/install.sh", "requirements.txt", "setup.py"):
        (tmp_path / name).write_text((repo / name).read_text())
    return tmp_path


def executable(path: Path, *lines: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("\n".join(["#!/bin/sh", *lines, ""]))
    path.chmod(0o755)


def test_install_says_what_is_missing(project):
    """A machine without any Python, then one with Python and no compiler."""
    tools = project / "bin"
    tools.mkdir()
    for name in ("bash", "cat", "dirname", "mkdir", "sed", "uname", "sha256sum"):
        (tools / name).symlink_to(str(shutil.which(name)))
    environment = {"PATH": str(tools), "PYTHON": "", "CXX": ""}
    done = install(project, **environment)
    assert done.returncode == 1
    assert done.stderr.startswith("install: error: no Python 3.11, 3.12 or 3.13 found on PATH")
    assert done.stderr.count("\n") == 1

    executable(tools / "python3", "echo 3.11.7")
    done = install(project, **environment)
    assert done.returncode == 1
    assert done.stderr.startswith("install: error: no C++ compiler (c++) found")
    assert done.stderr.count("\n") == 1
    assert not list((project / ".venv").glob(".gtrans-stamp*"))


@pytest.fixture
def recorded(project):
    """The project with a Python that only writes down what it was asked for, to ``calls``."""
    executable(
        project / ".venv" / "bin" / "python",
        'case "$*" in *platform.python_version*) echo 3.12.1; exit ;;',
        f"*purelib*) echo {project}; exit ;; *import*torch*) echo /site; exit ;; esac",
        f'echo "$*" >>{project}/calls',
        f'case "$*" in *" -r "*) cat .venv/.requirements >>{project}/libraries ;; esac',
        f'case "$*" in *--no-deps*) [ ! -e {project}/broken ] || {{',
        'echo "ERROR: Could not find a version (from 1)"; echo "ERROR: No matching x"; exit 1',
        "} ;; esac",
    )
    executable(project / ".venv" / "bin" / "gtrans")
    executable(project / ".venv" / "bin" / "fairseq-train")
    return project


PIP = "-m pip install -c .venv/.constraints"
REQUIREMENTS = "-r .venv/.requirements"
NO_ISOLATION = f"{PIP} --no-build-isolation"


def asked(project: Path) -> list[str]:
    """The calls of pip since the last time."""
    calls = project / "calls"
    lines = calls.read_text().splitlines() if calls.exists() else []
    calls.unlink(missing_ok=True)
    return [line for line in lines if line.startswith("-m pip install")]


def test_install_runs_its_steps_once_and_again_when_something_changed(recorded):
    stamp = recorded / ".venv" / ".gtrans-stamp"
    (recorded / "broken").touch()
    done = install(recorded, PYTHON="")
    assert done.returncode == 1
    assert done.stderr.startswith("install: error: fairseq")
    assert done.stderr.endswith(": No matching x (all of it in .venv/install.log)\n")
    assert not stamp.exists()
    (recorded / "broken").unlink()
    asked(recorded)

    done = install(recorded, PYTHON="")
    assert (done.returncode, done.stderr) == (0, "")
    assert "to download: torch (2.7 GB with CUDA" in done.stdout
    assert asked(recorded) == [
        f"{NO_ISOLATION} {REQUIREMENTS}",
        f"{NO_ISOLATION} {REQUIREMENTS}",
        f"{NO_ISOLATION} --no-deps {REQUIREMENTS}",
        f"{NO_ISOLATION} {REQUIREMENTS}",
        f"{NO_ISOLATION} --no-deps -e .",
    ]
    assert stamp.exists()

    done = install(recorded, PYTHON="")
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")
    assert not asked(recorded)

    with (recorded / "requirements.txt").open("a") as file:
        file.write("# changed\n")
    assert install(recorded, PYTHON="").returncode == 0
    assert asked(recorded)


@pytest.mark.long
def test_what_the_tests_need_is_installed_when_asked_for_and_stays(recorded):
    def installed(*words: str) -> str:
        """The requirements that were installed by a run."""
        (recorded / "libraries").write_text("")
        done = install(recorded, *words, PYTHON="")
        assert done.returncode == 0, done.stderr
        return (recorded / "libraries").read_text()

    user = installed()
    assert "sacrebleu" in user
    assert not any(tool in user for tool in ("pytest", "mypy", "ruff", "hypothesis"))
    tests = installed("tests")
    assert "sacrebleu" in tests and "pytest" in tests and "hypothesis" in tests
    assert installed() == installed("tests") == ""
    (recorded / "setup.py").write_text("# changed\n")
    assert installed() == tests


@pytest.mark.long
def test_a_torch_that_is_there_is_taken(recorded):
    wheel = recorded / "torch-9.whl"
    wheel.touch()
    for choice, pip in (
        (str(wheel), [f"{PIP} {wheel}"]),
        ("2.12.1", [f"{PIP} torch==2.12.1"]),
        ("system", []),
    ):
        for word in (choice, ""):  # the choice stays
            (recorded / ".venv" / ".gtrans-stamp").unlink(missing_ok=True)
            python = str(recorded / ".venv" / "bin" / "python")
            done = install(recorded, TORCH=word, PYTHON=python)
            assert done.returncode == 0, done.stderr
            assert asked(recorded)[:-4] == pip
            assert "torch==" not in (recorded / ".venv" / ".constraints").read_text()
        wheel.unlink(missing_ok=True)  # is not needed any more
        assert install(recorded, PYTHON="").returncode == 0
    assert (recorded / "gtrans-torch.pth").read_text() == "/site\n"


@pytest.mark.parametrize(
    ("choice", "said"),
    [
        ("torch-9.whl", "torch-9.whl: there is no such file"),
        ("newest", "TORCH=newest: give the file of a wheel (torch-....whl), a version (2.13.0)"),
        ("system", "TORCH=system: {python} has no torch (ModuleNotFoundError: no torch)"),
    ],
)
def test_a_torch_that_is_not_there_is_refused(choice, said, project):
    python = project / "python3"
    executable(
        python,
        'case "$*" in *torch*) echo ModuleNotFoundError: no torch >&2; exit 1 ;; esac',
        'case "$*" in *version*) echo 3.12.1 ;; *include*) exit 0 ;; esac',
    )
    done = install(project, TORCH=choice, PYTHON=str(python))
    assert done.returncode == 1
    assert said.format(python=python) in done.stderr and done.stderr.count("\n") == 1
