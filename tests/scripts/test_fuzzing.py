"""Fuzzed lines and damaged files: they are what they say, and what is wrong is found."""

from __future__ import annotations

import json
import random
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import torch
from support.folders import REPO, SCRIPTS

RELIABILITY = SCRIPTS / "reliability"
CORPUS = ["The dog sees the red house .", "It was never sad ."]


@pytest.fixture(autouse=True)
def _importable(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(str(RELIABILITY))


def program(name: str, *arguments: str | Path) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, RELIABILITY / name, *arguments]
    return subprocess.run(command, capture_output=True, text=True, cwd=REPO)


# ---- lines ---------------------------------------------------------------------------------------


def test_lines_are_lines_and_follow_from_the_seed() -> None:
    import lines

    source = lines.text(random.Random("1"), CORPUS, 500)
    assert source == lines.text(random.Random("1"), CORPUS, 500)
    assert source != lines.text(random.Random("2"), CORPUS, 500)
    target = lines.other_side(random.Random("1"), CORPUS, source)
    assert len(source) == len(target) == 500
    assert not any("\n" in line for line in (*source, *target))
    boundaries = [lines.is_boundary(line) for line in source]
    assert boundaries == [lines.is_boundary(line) for line in target]
    assert 10 < sum(boundaries) < 100 and not boundaries[0] and not boundaries[-1]
    "".join(source).encode("utf-8")


def test_all_families_are_drawn() -> None:
    import lines

    found = "".join(lines.text(random.Random("1"), CORPUS, 3000))
    for example in ("@-@", "&#91;", "</s>", "\u2581", "[SEP]", "\x1c", "\x00", "\u2028", "\u200d",
                    "\u202e", "\ufeff", "a" * 100):  # fmt: skip
        assert example in found, ascii(example)
    assert {ord(character) >> 16 for character in found} >= {0, 1, 2, 3, 14, 15, 16}


# ---- damage --------------------------------------------------------------------------------------


def written(folder: Path) -> dict[str, Path]:
    """One file of each kind."""
    files = {name: folder / name for name in ("a.pt", "a.json", "a.jsonl", "a.en", "a.idx")}
    state = {"model": {"w": torch.ones(2, 3), "n": torch.ones(2)}, "cfg": {"task": {"unit": "x"}}}
    torch.save(state, files["a.pt"])
    files["a.json"].write_text(json.dumps({"a": [1, {"b": "c"}], "d": None}))
    files["a.jsonl"].write_text('{"a": 1}\n{"a": 2}\n')
    files["a.en"].write_text("one line\n\nanother line 5\n")
    files["a.idx"].write_bytes(b"MMIDIDX" + bytes(60))
    return files


def test_damage_changes_a_file_and_follows_from_the_seed(tmp_path: Path) -> None:
    from mutations import mutate

    files = written(tmp_path)
    before = {name: path.read_bytes() for name, path in files.items()}
    said = set()
    for name, path in files.items():
        for seed in range(60):
            done = []
            for _ in range(2):
                path.write_bytes(before[name])
                text = mutate(random.Random(seed), path, list(files.values()))
                done.append((text, path.read_bytes()))
            assert done[0] == done[1] and done[0][1] != before[name], done[0][0]
            said.add(done[0][0])
        path.write_bytes(before[name])
    assert {"truncated", "bits flipped", "emptied", "zeroed", "doubled"} <= said


# ---- commands and their ends ---------------------------------------------------------------------


@pytest.fixture
def case(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Any:
    """A case whose command reads ``in.en`` and writes ``out.de``."""
    import hostile_files
    from hostile_commands import Command

    words = ("gtrans", "translate", "--input", "in.en", "--output", "out.de")
    command = Command(words, ("in.en", "other.en"), ("in.en",), output="out.de", source="in.en")
    monkeypatch.setattr(hostile_files, "COMMANDS", (command,))
    (tmp_path / "kit").mkdir()
    for name in ("in.en", "other.en"):
        (tmp_path / "kit" / name).write_text("a\n\nb\n")
    made = hostile_files.Case(tmp_path, 1, 0)
    made.order()
    return made


def end(status: int = 0, stderr: str = "", stdout: str = "", hung: bool = False) -> Any:
    from forked import Ended

    return Ended(status, stdout, stderr, 1.0, hung)


REFUSED = "gtrans: error: in.en:1: not UTF-8; convert it\n"


@pytest.mark.parametrize(
    ("ended", "out", "fault"),
    [
        ({"status": 1, "stderr": REFUSED}, None, None),
        ({}, "x\n\ny\n", None),
        ({}, "x\ny\n", "lines are lost"),
        ({}, "x\n\n\ny\n", "lines are lost"),
        ({"stdout": "accuracy NaN"}, "x\n\ny\n", "nan among the numbers"),
        ({"status": 1, "stderr": REFUSED}, "x\n", "out.de is left"),
        ({"status": 1, "stderr": "gtrans: error: it failed\n"}, None, "file not named"),
        ({"status": 1, "stderr": "in.en: it failed\n"}, None, "no message"),
        (
            {"status": 1, "stderr": f"Traceback (most recent call last):\n{REFUSED}"},
            None,
            "traceback",
        ),
        ({"status": -11}, None, "killed by signal 11"),
        ({"status": -24, "hung": True}, None, "it hung"),
    ],
)
def test_what_is_a_fault(case: Any, ended: dict[str, Any], out: str | None, fault: str) -> None:
    case.subject = Path("in.en")
    if out is not None:
        (case.folder / "out.de").write_text(out)
    faults = case.faults(end(**ended))
    assert (faults == []) if fault is None else faults[0].startswith(fault), faults


def test_a_changed_input_is_a_fault(case: Any) -> None:
    (case.folder / "other.en").unlink()
    (case.folder / "other.en").write_text("changed\n")
    (case.folder / "out.de").write_text("x\n\ny\n")
    assert case.faults(end()) == ["other.en has changed"]


def test_every_command_has_what_it_reads() -> None:
    """A folder or file that is damaged is one that the command uses."""
    from hostile_commands import COMMANDS

    for command in COMMANDS:
        assert {subject.split("/")[0] for subject in command.subjects} <= {
            *command.uses, *(use.split(".")[0] + ".*" for use in command.uses)
        }, command  # fmt: skip


@pytest.mark.long
def test_the_programs_find_nothing(tmp_path: Path) -> None:
    """Both on one small world; run again, nothing is left to do."""
    for name, options, total in (
        ("fuzz_lines.py", ("--lines", "500"), "lines"),
        ("hostile_files.py", ("--cases", "70"), "cases"),
    ):
        done = program(name, "--out", tmp_path, *options, "--json")
        assert done.returncode == 0, done.stderr
        assert sum(row[total] for row in json.loads(done.stdout)) >= 70
        again = program(name, "--out", tmp_path, *options, "--json")
        assert again.stdout == done.stdout and "making" not in again.stderr


@pytest.mark.parametrize(
    ("name", "arguments", "message"),
    [
        ("fuzz_lines.py", ("--lines", "0"), "`--lines` must be at least 22, but is 0."),
        ("hostile_files.py", ("--cases", "0"), "`--cases` must be at least 1, but is 0."),
    ],
)
def test_mistakes(name: str, arguments: tuple[str, ...], message: str, tmp_path: Path) -> None:
    done = program(name, "--out", tmp_path, *arguments)
    assert done.returncode == 2
    assert message in done.stderr.splitlines()[-1]
