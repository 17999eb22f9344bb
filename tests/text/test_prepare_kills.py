"""``gtrans prepare`` that is killed, or meets another one: nothing mixed, nothing left running."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
import time
import uuid
from collections.abc import Callable
from pathlib import Path

import pytest

from gtrans.cli import main
from gtrans.errors import GtransError
from gtrans.files import locked
from gtrans.text.preparation import StepRecord
from gtrans.text.prepared_folder import Preparation

SENTENCES = ("The new release is here.", "It is a good release, and the tests pass.")


@pytest.fixture
def corpus(tmp_path: Path) -> Path:
    folder = tmp_path / "corpus"
    folder.mkdir()
    for lang in ("en", "de"):
        (folder / f"train.{lang}").write_text("\n".join(SENTENCES * 1000) + "\n")
        (folder / f"test.{lang}").write_text("\n".join(SENTENCES) + "\n")
    return folder


def command(corpus: Path, out: Path, *more: str) -> list[str]:
    return [
        *("prepare", "--source-lang", "en", "--target-lang", "de", "--bpe-merges", "20"),
        *("--train", str(corpus / "train"), "--test", str(corpus / "test"), "--out", str(out)),
        *more,
    ]


def contents(folder: Path) -> dict[str, bytes]:
    """All files but fairseq's log, which has the number of workers."""
    return {
        str(path.relative_to(folder)): path.read_bytes()
        for path in sorted(folder.rglob("*"))
        if path.is_file()
    }


def processes(mark: str) -> dict[int, str]:
    """The command lines of all processes with ``mark`` in their environment."""
    found = {}
    for folder in Path("/proc").glob("[0-9]*"):
        try:
            alive = "State:\tZ" not in (folder / "status").read_text()
            if alive and mark.encode() in (folder / "environ").read_bytes():
                line = (folder / "cmdline").read_bytes().decode(errors="replace")
                found[int(folder.name)] = line.replace("\0", " ")
        except OSError:  # it has just ended
            continue
    return found


def until(condition: Callable[[], bool], what: str) -> None:
    end = time.monotonic() + 60
    while not condition():
        assert time.monotonic() < end, what
        time.sleep(0.02)


@pytest.mark.long
def test_the_children_end_with_it(corpus: Path, tmp_path: Path):
    """Killed by SIGKILL, it leaves no process, and goes on when it is run again."""
    out, mark = tmp_path / "out", uuid.uuid4().hex
    argv = command(corpus, out, "--workers", "2")
    running = subprocess.Popen(
        [sys.executable, "-m", "gtrans", *argv],
        env={**os.environ, "TEST_MARK": mark}, stderr=subprocess.DEVNULL,
    )  # fmt: skip

    until(lambda: len(processes(mark)) >= 3, "no child")
    running.send_signal(signal.SIGKILL)
    running.wait()
    until(lambda: not processes(mark), f"left running: {processes(mark)}")
    assert main(argv) == 0
    assert main(command(corpus, tmp_path / "whole")) == 0
    assert contents(out) == contents(tmp_path / "whole")


@pytest.mark.long
def test_two_at_once(corpus: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]):
    """The second one is refused."""
    out = tmp_path / "out"
    out.mkdir()
    refused: list[int] = []
    with locked(out):
        second = threading.Thread(target=lambda: refused.append(main(command(corpus, out))))
        second.start()
        second.join()
    assert refused == [1]
    assert "another process is writing it" in capsys.readouterr().err.splitlines()[-1]
    assert main(command(corpus, out)) == 0
    assert not list(out.glob(".*"))


@pytest.mark.long
def test_killed_after_a_change_of_options(
    corpus: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
):
    """The folder does not pass for one that was made with the new options."""

    class Killed(BaseException):
        pass

    def kill(*_: object) -> None:
        raise Killed

    out = tmp_path / "out"
    assert main(command(corpus, out)) == 0
    before = contents(out)
    with monkeypatch.context() as patch:
        patch.setattr(StepRecord, "step", kill)
        with pytest.raises(Killed):
            main(command(corpus, out, "--no-truecase"))
    assert main(["show", str(out)]) == 0
    assert "not finished" in capsys.readouterr().out
    with pytest.raises(GtransError, match="is not prepared to its end"):
        Preparation.read(out)
    assert main(command(corpus, out)) == 0
    assert capsys.readouterr().err.count("started") == 1, "only the last step"
    assert contents(out) == before
