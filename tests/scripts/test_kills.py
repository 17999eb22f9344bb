"""Kills of commands: what resumes passes; what does not, or leaves a child behind, is found."""

from __future__ import annotations

import importlib
import sys
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
import torch
from support.folders import SCRIPTS

# Each computes for a second or so and writes ten lines.
LINES = """
import os, pathlib, subprocess, time
file = pathlib.Path("out.txt")
"""
RESUMES = f"""{LINES}
written = file.read_text() if file.exists() else ""
for number in range(len(written) // 2, 10):
    with open("new.txt", "w") as new:
        written += str(number) + "\\n"
        new.write(written)
        time.sleep(0.1)
    os.replace("new.txt", file)
"""
APPENDS = f"""{LINES}
for number in range(10):
    with open(file, "a") as opened: opened.write(str(number) + "\\n")
    time.sleep(0.1)
"""
LEAVES_A_CHILD = f"""{LINES}
child = subprocess.Popen(["sleep", "60"])
time.sleep(1)
file.write_text("done")
child.kill()
"""


@pytest.fixture
def kills(monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    """``scripts/kills.py``, with less patience."""
    monkeypatch.syspath_prepend(str(SCRIPTS))
    module = importlib.import_module("kills")
    monkeypatch.setattr(module, "GRACE", 0.5)
    return module


@pytest.mark.long
@pytest.mark.parametrize(
    ("program", "whole", "problems", "outlived"),
    [
        (RESUMES, False, [], False),
        (APPENDS, False, ["out.txt: other bytes"], False),
        (LEAVES_A_CHILD, False, [], True),
        (LEAVES_A_CHILD, True, [], False),
    ],
    ids=["resumes", "appends", "leaves a child", "all killed"],
)
def test_trials(
    kills: ModuleType, tmp_path: Path, program: str, whole: bool, problems: list[str],
    outlived: bool,
) -> None:  # fmt: skip
    (tmp_path / "program.py").write_text(program)
    command = f"{sys.executable} {tmp_path}/program.py"
    (tmp_path / "program.sh").write_text(command)
    kills.CASES["one"] = f"bash {tmp_path}/program.sh" if whole else command, "out.txt"
    records = [kills.trial(tmp_path, "one", number, 1) for number in range(1, 7)]
    assert sum(len(record["kills"]) for record in records) >= 3
    found: list[Any] = [record["differences"] for record in records if record["kills"]]
    assert (problems in found) and (problems or not any(found))
    assert any(record["outlived"] for record in records) == outlived
    assert "| **all** |" in kills.table(records)


def test_checkpoints_are_compared_but_for_times(kills: ModuleType, tmp_path: Path) -> None:
    state = {"model": {"a": torch.ones(2)}, "extra_state": {"previous_training_time": 1.0}}
    for folder, change in (("as", 0.0), ("same", 0.0), ("other", 1.0)):
        (tmp_path / folder).mkdir()
        state["model"]["a"] = torch.ones(2) + change
        state["extra_state"]["previous_training_time"] += 1
        torch.save(state, tmp_path / folder / "m.pt")
    assert kills.differences(tmp_path / "as", tmp_path / "same", ("*.pt",)) == []
    assert kills.differences(tmp_path / "as", tmp_path / "other", ("*.pt",)) == [
        "m.pt: model.a differs"
    ]
