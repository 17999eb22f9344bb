"""``scripts/gpu_check.sh``: its steps on the CPU, and what becomes of one that hangs."""

from __future__ import annotations

import importlib.util
import json
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest
from support.folders import SCRIPTS


@pytest.fixture(scope="module")
def check():
    """``scripts/gpu_check.py``."""
    spec = importlib.util.spec_from_file_location("gpu_check", SCRIPTS / "gpu_check.py")
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules["gpu_check"] = module
    spec.loader.exec_module(module)
    return module


def test_a_step_that_hangs_costs_only_its_own_time(check, tmp_path, monkeypatch, capsys):
    steps = [
        check.Step("hangs", ["-c", "print('begun'); import time; time.sleep(60)"], 2),
        check.Step("fails", ["-c", "raise SystemExit(3)"], 20),
        check.Step("works", ["-c", "open('count', 'a').write('x'); print('end')"], 20),
    ]
    monkeypatch.setattr(check, "steps", lambda device, out: steps)
    monkeypatch.setattr(check, "ROOT", tmp_path)
    words = ["gpu_check", "--device", "cpu", "--out", str(tmp_path), "--seconds", "60"]
    monkeypatch.setattr(sys, "argv", words)
    assert check.main() == 1
    outcomes = {s.name: json.loads((tmp_path / f"{s.name}.json").read_text()) for s in steps}
    assert outcomes["hangs"]["status"] == "longer than 2 s"
    assert outcomes["hangs"]["last line"] == "begun"
    assert outcomes["fails"]["status"] == "failed (status 3)"
    assert outcomes["works"]["status"] == "passed"
    steps[:2] = []
    assert check.main() == 0
    assert (tmp_path / "count").read_text() == "x"  # what has passed is not run again
    assert "| works | passed |" in (tmp_path / "summary.md").read_text()
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
    for name in ("tests", "waits", "training", "decoding", "memory"):
        assert json.loads((out / f"{name}.json").read_text())["status"] == "passed"
        assert f"| {name} | passed |" in page
    assert "## Training" in page and "stock sentence Transformer" in page
    found = subprocess.run(
        [out / "venv/bin/python", "-c", "import from_a_wheel; print(from_a_wheel.HERE)"],
        capture_output=True, text=True, check=True,
    )  # fmt: skip
    assert found.stdout.startswith(str(out / "venv"))
