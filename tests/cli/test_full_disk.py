"""A disk that gets full is one line, and leaves nothing half-written."""

from __future__ import annotations

import resource
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from support.suites import others_long
from support.translating import FAST

from gtrans.cli import main

if TYPE_CHECKING:
    from support.tiny_models import TinyWorld


@contextmanager
def largest_file(size: int) -> Iterator[None]:
    """No file may have more bytes, as after ``ulimit -f``."""
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, before[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)


def files(folder: Path) -> set[str]:
    return {str(path.relative_to(folder)) for path in folder.rglob("*") if path.is_file()}


# Larger than a lock, smaller than what is written.
@pytest.mark.parametrize(
    ("command", "size"),
    [
        (("average", "{model}", "--output", "out.pt"), 4096),
        (("translate", "--path", "{model}", "--input", "{text}.en", "--output", "out", *FAST), 600),
        (("cxmi", "--path", "{model}", "--src", "{text}.en", "--ref", "{text}.de",
          "--output", "out", "--cpu"), 400),
        (("score", "--hyp", "{text}.de", "--ref", "{text}.de", "--src", "{text}.en",
          "--metrics", "s_bleu", "--json", "out"), 400),
        (("contrast", "--path", "{model}", "--set", "{sets}", "--output", "out", "--cpu"), 400),
    ],
    ids=lambda value: f"{value[0]}-{value[-1]}" if isinstance(value, tuple) else "",
)  # fmt: skip
def test_a_file_that_is_too_large_for_the_disk(
    command: tuple[str, ...],
    size: int,
    tiny: TinyWorld,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    places = {
        "model": tiny.checkpoints["document"], "data": tiny.data, "text": tiny.text / "test",
        "sets": tiny.text / "contrastive" / "pronoun.jsonl",
    }  # fmt: skip
    monkeypatch.chdir(tmp_path)
    with largest_file(size):
        assert main([word.format(**places) for word in command]) == 1
    line = capsys.readouterr().err.splitlines()[-1]
    assert line.startswith("gtrans: error: ")
    assert "cannot be written (the file is too large for the disk or its limit)" in line
    if command[0] == "translate":  # finished batches are kept for the next run
        assert {name.rpartition(".")[2] for name in files(tmp_path)} <= {"partial"}
    else:
        assert not files(tmp_path)


@pytest.mark.parametrize("form", others_long([(), ("--json",), ("--details",)], [("--json",)]))
def test_the_standard_output_on_a_full_disk(tiny: TinyWorld, form: tuple[str, ...]) -> None:
    text = str(tiny.text / "test.de")
    scores = ("--metrics", "s_bleu", "--resample", "none", *form)
    with open("/dev/full", "w") as full:
        done = subprocess.run(
            [sys.executable, "-m", "gtrans", "score", "--hyp", text, "--ref", text, *scores],
            stdout=full, stderr=subprocess.PIPE, text=True, timeout=120,
        )  # fmt: skip
    assert done.returncode == 1
    assert done.stderr == (
        "gtrans: error: the standard output: cannot be written (the disk is full); name another "
        "file, or make room.\n"
    )


@pytest.mark.long
def test_a_preparation_goes_on_when_there_is_room(
    tiny: TinyWorld, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    command = [
        *("prepare", "--source-lang", "en", "--target-lang", "de", "--bpe-merges", "50"),
        *("--train", str(tiny.text / "test"), "--out", str(tmp_path / "data")),
    ]
    for size in (300, 1000):
        with largest_file(size):
            assert main(command) == 1
        line = capsys.readouterr().err.splitlines()[-1]
        assert line.startswith("gtrans: error: ") and "File too large" in line.replace(
            "the file is too large", "File too large"
        )
        assert not [name for name in files(tmp_path) if name.endswith(".tmp")]
    assert main(command) == 0
