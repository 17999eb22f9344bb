"""Kills of commands: what resumes passes; what does not, or leaves a child behind, is found."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from support.folders import REPO, SCRIPTS

RELIABILITY = SCRIPTS / "reliability"
# Each computes for a second or so and writes ten lines.
LINES = """
import os, pathlib, time
def compute():
    end = time.process_time() + 0.1
    while time.process_time() < end: pass
file = pathlib.Path("out.txt")
"""
RESUMES = f"""{LINES}
written = file.read_text() if file.exists() else ""
for number in range(len(written) // 2, 10):
    compute()
    with open("new.txt", "w") as new:
        written += str(number) + "\\n"
        new.write(written)
        compute()
    os.replace("new.txt", file)
"""
BEGINS_ANEW_AND_APPENDS = f"""{LINES}
for number in range(10):
    compute()
    with open(file, "a") as opened: opened.write(str(number) + "\\n")
"""
LEAVES_A_CHILD = f"""{LINES}
import subprocess
child = subprocess.Popen(["sleep", "60"])
for number in range(10): compute()
file.write_text("done")
child.kill()
"""
FAILS_IN_THE_SECOND_RUN = f"""{LINES}
if pathlib.Path("begun").exists(): raise SystemExit("begun before")
pathlib.Path("begun").touch()
for number in range(10): compute()
"""


@pytest.fixture
def importable(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(str(RELIABILITY))


@pytest.fixture
def killed(importable: None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Any:
    """Kill a Python program four times; the sums, and the folder of the trials."""
    import kills
    import trials
    from cases import Case

    monkeypatch.setattr(trials.Watched.end_orphans, "__defaults__", (2.0,))

    def examine(program: str, **fields: Any) -> tuple[dict[str, Any], Path]:
        case = Case("one", "a program", ("python", "-c", program), ("out.txt",), **fields)
        rows, complete = kills.run(trials.Workplace(tmp_path, {"one": case}, 1), 4, [case], 1)
        assert complete and rows[0]["kills"] == 4
        return rows[0], tmp_path / "trials"

    return examine


def records(folder: Path) -> list[dict[str, Any]]:
    lines = (folder.parent / "trials.jsonl").read_text("utf-8").splitlines()
    return [json.loads(line) for line in lines]


@pytest.mark.long
def test_a_program_that_resumes_is_faultless(killed: Any) -> None:
    row, folder = killed(RESUMES)
    assert row["identical"] == row["trials"] > 0 and row["orphans"] == 0
    assert not list(folder.iterdir())  # nothing is kept
    kills = [kill for record in records(folder) for kill in record["kills"]]
    assert all(0 <= kill["share"] < 1.5 and kill["seconds"] > 0 for kill in kills)
    assert all(kill["writing"] == ["new.txt"] for kill in kills if kill["aimed"])
    assert row["while_writing"] >= sum(kill["aimed"] for kill in kills) > 0


@pytest.mark.long
def test_a_difference_is_found_and_kept(killed: Any) -> None:
    row, folder = killed(BEGINS_ANEW_AND_APPENDS)
    assert row["identical"] < row["trials"]
    different = [record for record in records(folder) if record["differences"]]
    assert different[0]["differences"] == ["out.txt: other bytes"]
    kept = folder / f"one.{different[0]['trial']}" / "out.txt"
    assert len(kept.read_text().splitlines()) > 10


@pytest.mark.long
def test_a_failure_is_a_difference(killed: Any) -> None:
    row, folder = killed(FAILS_IN_THE_SECOND_RUN)
    assert row["identical"] < row["trials"]
    assert ["status 1: begun before"] in [record["differences"] for record in records(folder)]


@pytest.mark.long
@pytest.mark.parametrize(("whole", "left"), [(False, True), (True, False)])
def test_a_child_that_lives_on_is_found(killed: Any, whole: bool, left: bool) -> None:
    import kills

    row, folder = killed(LEAVES_A_CHILD, whole=whole)
    assert row["identical"] == row["trials"]
    assert bool(row["orphans"]) == left == (not kills.faultless([row]))
    commands = {
        name for record in records(folder) for kill in record["kills"] for name in kill["orphans"]
    }
    assert commands == ({"sleep 60"} if left else set())


def test_every_case_builds_on_earlier_ones(importable: None) -> None:
    from cases import CASES

    names = list(CASES)
    for case in CASES.values():
        assert all(names.index(other) < names.index(case.name) for other in case.others)
        assert not any("{" in word for word in case.words(Path("expected")))


def test_kills_are_shared_by_weight(importable: None) -> None:
    from cases import CASES
    from kills import shares

    for total in (1, 50, 200):
        assert sum(shares(total, list(CASES.values())).values()) == total
    found = shares(200, list(CASES.values()))
    assert found["bert"] == 0 and found["train-sentence"] > found["average"] > 0


def test_checkpoints_are_compared_by_contents(importable: None, tmp_path: Path) -> None:
    """Tensors, updates and position count; times and older entries of the history do not."""
    import torch
    from comparing import differences

    def save(name: str, weight: float, updates: int, seconds: float, starts: int) -> Path:
        folder = tmp_path / name
        folder.mkdir()
        state = {
            "model": {"weight": torch.tensor([weight])},
            "optimizer_history": [{"num_updates": n} for n in (*range(starts), updates)],
            "extra_state": {"previous_training_time": seconds, "best": 1.0},
        }
        torch.save(state, folder / "checkpoint.pt")
        (folder / "train.log").write_text(name)
        return folder

    one = save("one", 1.0, 5, 3.0, 0)
    assert differences(one, save("same", 1.0, 5, 9.0, 2), ["*"]) == []
    found = differences(one, save("weight", 2.0, 5, 3.0, 0), ["*"])
    assert found == ["checkpoint.pt: model.weight differs"]
    found = differences(one, save("updates", 1.0, 6, 3.0, 0), ["*"])
    assert found == ["checkpoint.pt: optimizer_history.0.num_updates is 6 instead of 5"]
    (tmp_path / "same" / "more.txt").touch()
    assert differences(one, tmp_path / "same", ["*"]) == ["more.txt: not in an uninterrupted run"]


def test_the_table_goes_between_its_marks(importable: None, tmp_path: Path) -> None:
    from kills import COLUMNS
    from tables import markdown, write

    row = {"case": "one", "title": "`one`", "kills": 3, "while_writing": 1, "trials": 2,
           "identical": 2, "orphans": 0, "left_over": 0}  # fmt: skip
    page = tmp_path / "reliability.md"
    shutil.copy(REPO / "docs" / "reliability.md", page)
    for rows in (
        [{**row, "kills": 1}],
        [row],
        [{**row, "case": "two", "title": "`two`"}],  # the other row stays
    ):
        write("kills", rows, COLUMNS, ["one"], tmp_path)
    text = page.read_text("utf-8")
    assert text.count("| `one` | 3 | 1 | 2 | 2 | 0 | 0 |") == 1
    assert text.count("| `two` | 3 | 1 | 2 | 2 | 0 | 0 |") == 1
    sums = "| **all** | **6** | **2** | **4** | **4** | **0** | **0** |"
    assert sums in markdown([row, row], COLUMNS)


def test_the_page_in_docs_is_made_from_its_numbers(importable: None) -> None:
    import fuzz_lines
    import hostile_files
    import kills
    from tables import markdown

    known = json.loads((REPO / "docs" / "reliability.json").read_text("utf-8"))
    page = (REPO / "docs" / "reliability.md").read_text("utf-8")
    for name, program in (("kills", kills), ("lines", fuzz_lines), ("files", hostile_files)):
        assert markdown(known[name], program.COLUMNS) in page


# ---- the program ---------------------------------------------------------------------------------


def program(*arguments: str | Path) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, RELIABILITY / "kills.py", *arguments]
    return subprocess.run(command, capture_output=True, text=True, cwd=REPO)


@pytest.mark.long
def test_a_command_of_the_project(tmp_path: Path) -> None:
    """`gtrans make-corpus`; run again, nothing is left to do."""
    arguments = ("--out", tmp_path, "--kills", "2", "--cases", "corpus", "--json")
    done = program(*arguments)
    assert done.returncode == 0, done.stderr
    (row,) = json.loads(done.stdout)
    assert row["kills"] == 2 and row["identical"] == row["trials"] > 0
    again = program(*arguments)
    assert again.stdout == done.stdout and "killed at" not in again.stderr


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("--kills", "0"), "`--kills` must be at least 1, but is 0."),
        (("--cases", "nothing"), "invalid choice: 'nothing'"),
    ],
)
def test_mistakes(arguments: tuple[str, ...], message: str, tmp_path: Path) -> None:
    done = program("--out", tmp_path, *arguments)
    assert done.returncode == 2
    assert message in done.stderr.splitlines()[-1]
