"""The house rules: one command, light imports, versions in one place, a README that holds."""

from __future__ import annotations

import re
import stat
import subprocess
import sys
from pathlib import Path

import pytest

from gtrans import __version__
from gtrans.cli import main
from gtrans.cli.shared.dispatch import all_commands


def python(code: str, repo: Path) -> str:
    done = subprocess.run(
        [sys.executable, "-c", code], cwd=repo, capture_output=True, text=True, timeout=120
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def help_of(argv: list[str], capsys: pytest.CaptureFixture[str]) -> str:
    with pytest.raises(SystemExit) as end:
        main([*argv, "--help"])
    assert end.value.code == 0
    return capsys.readouterr().out


# ---- one command ---------------------------------------------------------------------------------


def test_help_lists_every_command(capsys):
    text = help_of([], capsys)
    for command in all_commands():
        assert re.search(rf"^ {{2,4}}{command}( |$)", text, re.MULTILINE), command


@pytest.mark.parametrize("command", all_commands())
def test_every_command_shows_an_example(command, capsys):
    text = help_of([command], capsys)
    assert re.search(rf"^example:\n +gtrans {command}( |$)", text, re.MULTILINE), text


def test_the_usage_can_be_typed_as_it_stands(capsys):
    """After an option for several words, what needs no option would be one of them."""
    usage, _, _ = help_of(["trim-vocab"], capsys).partition("\n\n")
    usage = " ".join(usage.split())
    assert usage == "usage: gtrans trim-vocab CKPT --data DIR --out DIR [OPTION ...]"


def test_version(capsys):
    with pytest.raises(SystemExit) as end:
        main(["--version"])
    assert end.value.code == 0
    assert capsys.readouterr().out == f"gtrans {__version__}\n"


# ---- light imports -------------------------------------------------------------------------------

LIGHT = [
    "gtrans",
    "gtrans.cli",
    "gtrans.data.documents",
    "gtrans.errors",
    "gtrans.evaluation",
    "gtrans.formats.catalogue",
    "gtrans.text.preparation",
]


@pytest.mark.parametrize("module", LIGHT)
def test_imports_neither_torch_nor_fairseq(module, repo):
    loaded = python(f"import sys, {module}; print(*sys.modules)", repo).split()
    assert module in loaded
    assert not {"torch", "fairseq"} & set(loaded)


# ---- versions in one place -----------------------------------------------------------------------

PIN = re.compile(r"([A-Za-z0-9][\w.-]*)==[\w.]+")


def test_each_version_is_pinned_once_for_every_python(repo):
    names = []
    for line in (repo / "requirements.txt").read_text().splitlines():
        if line and not line.startswith("#"):
            pin = PIN.fullmatch(line)
            assert pin is not None, f"not an exact pin: {line}"
            names.append(pin[1].lower().replace("_", "-"))
    assert len(names) == len(set(names))


def test_no_other_file_names_a_version(repo):
    for name in ("setup.py", "pyproject.toml", "Makefile", "scripts/install.sh", ".ci/run"):
        text = (repo / name).read_text()
        assert not re.search(r"[\w\]]\s*[=~]=\s*\d", text), name


def test_metadata(repo):
    code = (
        "import runpy, setuptools; setuptools.setup = lambda cmdclass, **k: print(k); "
        "runpy.run_path('setup.py')"
    )
    metadata = eval(python(code, repo))
    assert metadata["name"] == "gtrans"
    assert metadata["version"] == __version__
    assert "gtrans.cli" in metadata["packages"]
    assert not any(package.startswith("tests") for package in metadata["packages"])
    extras = metadata["extras_require"]
    assert set(extras) == {
        *("build", "bert", "mbart", "zh", "plots", "tensorboard", "documents"),
        *("experiments", "docs", "dev"),
    }
    required = {line.split("==")[0] for line in metadata["install_requires"]}
    assert {"sacrebleu", "sacremoses", "subword-nmt"} <= required
    assert not required & {"torch", "torchaudio", "fairseq-fixed"}


# ---- README, Makefile, CI ------------------------------------------------------------------------


def test_make_lists_its_targets(repo):
    done = subprocess.run(
        ["make", "-s"], cwd=repo, capture_output=True, text=True, timeout=60, check=True
    )
    for target in ("env", "demo", "test", "test-all", "check", "clean"):
        assert re.search(rf"^  make {target} ", done.stdout, re.MULTILINE), done.stdout


def test_ci_calls_exactly_the_test_command(repo):
    script = repo / ".ci" / "run"
    assert script.stat().st_mode & stat.S_IXUSR
    assert re.findall(r"^.*\bmake\b.*$", script.read_text(), re.MULTILINE) == [
        "exec make test </dev/null"
    ]
