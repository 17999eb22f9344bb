"""``scripts/gpu_check.sh``: its steps on the CPU, and what becomes of one that hangs."""

from __future__ import annotations

import importlib
import json
import subprocess
import sys
import zipfile
from importlib import metadata
from pathlib import Path

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name
from support.folders import SCRIPTS


@pytest.fixture
def check(monkeypatch):
    """``scripts/gpu_check.py``."""
    monkeypatch.syspath_prepend(str(SCRIPTS))
    return importlib.import_module("gpu_check")


def test_a_step_that_hangs_costs_only_its_own_time(check, tmp_path, monkeypatch, capsys):
    steps = {
        "hangs": (["-c", "print('begun'); import time; time.sleep(60)"], 2),
        "fails": (["-c", "raise SystemExit(3)"], 20),
        "works": (["-c", "print('end')"], 20),
    }
    monkeypatch.setattr(check, "steps", lambda device, out: steps)
    words = ["gpu_check", "--device", "cpu", "--out", str(tmp_path), "--seconds", "60"]
    monkeypatch.setattr(sys, "argv", words)
    assert check.main() == 1
    outcomes = json.loads((tmp_path / "outcomes.json").read_text())
    assert [it["status"] for it in outcomes] == ["longer than 2 s", "failed (status 3)", "passed"]
    assert [it["last line"] for it in outcomes] == ["begun", "", "end"]
    assert "| works | passed |" in (tmp_path / "summary.md").read_text()
    del steps["hangs"], steps["fails"]
    assert check.main() == 0
    capsys.readouterr()


def test_mistakes_are_one_line(tmp_path):
    for words, message in (
        ((), "`--out` is missing"),
        (("--out",), "`--out` needs a value."),
        (("--gpu",), "'--gpu' is unknown"),
        (("--out", tmp_path / "o", "--wheels", tmp_path), "holds no wheel; scripts/make_wheels.sh"),
    ):
        done = subprocess.run(
            ["bash", SCRIPTS / "gpu_check.sh", *words], capture_output=True, text=True, check=False
        )
        (line,) = done.stderr.splitlines()
        assert done.returncode == 1 and message in line


def needed_by(*names: str) -> set[str]:
    """Packages, and all that these need and that is installed here."""
    here = {canonicalize_name(one.metadata["Name"]) for one in metadata.distributions()}
    found: set[str] = set()
    more = list(names)
    while more:
        name = canonicalize_name(more.pop())
        if name in found or name not in here:
            continue
        found.add(name)
        for line in metadata.requires(name) or []:
            needed = Requirement(line)
            if needed.marker is None or needed.marker.evaluate({"extra": ""}):
                more.append(needed.name)
    return found


def test_the_wheels_are_what_a_machine_with_torch_lacks():
    there = needed_by("torch", "transformers", "sacrebleu", "cython")
    tests = ("pytest", "pytest-timeout", "pytest-xdist", "hypothesis")
    needed = needed_by("fairseq-fixed", "gtrans", *tests)
    text = (SCRIPTS / "make_wheels.sh").read_text(encoding="utf-8")
    named = text.partition("NAMES=(fairseq-fixed")[2].partition(")")[0].split()
    assert {"fairseq-fixed", *named} == needed - there - {"gtrans"}


def wheel(folder: Path) -> None:
    """A wheel with one module, ``from_a_wheel``."""
    folder.mkdir()
    name, info = "from_a_wheel", "from_a_wheel-1.0.dist-info"
    with zipfile.ZipFile(folder / f"{name}-1.0-py3-none-any.whl", "w") as file:
        file.writestr(f"{name}.py", "HERE = __file__\n")
        file.writestr(f"{info}/METADATA", f"Metadata-Version: 2.1\nName: {name}\nVersion: 1.0\n")
        file.writestr(
            f"{info}/WHEEL", "Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: py3-none-any\n"
        )
        file.writestr(f"{info}/RECORD", "")


@pytest.mark.long
def test_all_steps_on_the_cpu(tmp_path):
    """In an environment that sees this one and has a wheel besides, as on a bare machine."""
    wheel(tmp_path / "wheels")
    out = tmp_path / "out"
    done = subprocess.run(
        ["bash", SCRIPTS / "gpu_check.sh", "--cpu", "--wheels", tmp_path / "wheels", "--out", out,
         "--python", sys.executable, "--minutes", "60"],
        capture_output=True, text=True, check=False,
    )  # fmt: skip
    page = (out / "summary.md").read_text(encoding="utf-8")
    assert done.returncode == 0, done.stdout + done.stderr + page
    assert all(f"| {name} | passed |" in page for name in ("gpu", "tests"))
    assert "stock sentence Transformer" in (out / "gpu" / "benchmarks.json").read_text("utf-8")
    found = subprocess.run(
        [out / "venv/bin/python", "-c", "import from_a_wheel; print(from_a_wheel.HERE)"],
        capture_output=True, text=True, check=True,
    )  # fmt: skip
    assert found.stdout.startswith(str(out / "venv"))
