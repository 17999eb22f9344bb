"""One writer at a time: locks of files and folders."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
from pathlib import Path

from support.writing import NEW, names, refused, write

from gtrans.errors import GtransError
from gtrans.files import locked

HOLD = """
import sys, time
from gtrans.files import atomic_writer
with atomic_writer(sys.argv[1]) as file:
    file.write("half")
    file.flush()
    print("ready", flush=True)
    time.sleep(600)
"""


def test_a_second_writer_is_refused_until_the_first_is_dead(tmp_path: Path):
    target = tmp_path / "out"
    (tmp_path / "link").symlink_to(target)
    target.write_text("old")
    first = subprocess.Popen(
        [sys.executable, "-c", HOLD, target], stdout=subprocess.PIPE, text=True
    )
    try:
        assert first.stdout is not None
        assert first.stdout.readline() == "ready\n"
        for name in ("out", "link"):
            refused(lambda: write(tmp_path / name), "another process is writing it")  # noqa: B023
        assert target.read_text() == "old"
    finally:
        first.send_signal(signal.SIGKILL)
        first.wait()
    assert len(names(tmp_path)) == 4  # what it left
    write(target)
    assert target.read_text() == NEW
    assert names(tmp_path) == ["link", "out"]


def test_locks_within_a_process(tmp_path: Path):
    """The thread that holds a lock writes under it; another thread may not."""
    outcome: list[str] = []

    def other() -> None:
        try:
            write(tmp_path / "out", "other")
        except GtransError as error:
            outcome.append(str(error))

    with locked(tmp_path / "out"):
        write(tmp_path / "out")
        thread = threading.Thread(target=other)
        thread.start()
        thread.join()
        write(tmp_path / "out")
    assert "is writing it" in outcome[0]
    assert names(tmp_path) == ["out"]
    with locked(tmp_path):
        assert names(tmp_path) == [".gtrans.lock", "out"]
        write(tmp_path / "out")
    assert names(tmp_path) == ["out"]


def test_a_child_does_not_keep_the_lock(tmp_path: Path):
    """The processes that a holder started may outlive it."""
    holder = tmp_path / "holder"
    code = (
        "import os, time, sys\n"
        "from gtrans.files import locked\n"
        "with locked(sys.argv[1]):\n"
        "    child = os.fork()\n"
        "    if child: print(child, flush=True)\n"
        "    time.sleep(600)\n"
    )
    first = subprocess.Popen([sys.executable, "-c", code, holder], stdout=subprocess.PIPE)
    assert first.stdout is not None
    child = int(first.stdout.readline())
    first.kill()
    first.wait()
    try:
        write(holder)
    finally:
        os.kill(child, signal.SIGKILL)
