"""``gtrans translate --workers``: the same files as with one process, whatever happens."""

from __future__ import annotations

import os
from collections.abc import Sequence
from multiprocessing.process import BaseProcess
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from support.mixed_documents import write_mixed
from support.translating import FAST, Interrupted, command, error

from gtrans.cli import main
from gtrans.translating import translation, translator

if TYPE_CHECKING:
    from support.tiny_models import TinyWorld

TWO = ("--workers", "2")


def contents(folder: Path) -> dict[str, bytes]:
    """All files below a folder, also the records."""
    found = {str(path.relative_to(folder)): path for path in folder.rglob("*") if path.is_file()}
    return {name: path.read_bytes() for name, path in found.items()}


@pytest.fixture
def processes(monkeypatch: pytest.MonkeyPatch) -> list[Any]:
    """All processes that are started."""
    started: list[Any] = []
    start = BaseProcess.start

    def starting(self: BaseProcess) -> None:
        start(self)
        started.append(self)

    monkeypatch.setattr(BaseProcess, "start", starting)
    return started


@pytest.fixture
def small(tiny: TinyWorld) -> Sequence[str | Path]:
    """A text of several batches."""
    return ("--input", tiny.text / "test.en", *FAST, "--max-tokens", "100")


def interrupt(monkeypatch: pytest.MonkeyPatch, after: int) -> list[int]:
    """Let this process fail after some batches; the list grows with every batch."""
    added: list[int] = []
    add = translation.Translation.add

    def stub(self: Any, number: int, translations: Any) -> None:
        if len(added) == after:
            raise Interrupted
        added.append(number)
        add(self, number, translations)

    monkeypatch.setattr(translation.Translation, "add", stub)
    return added


def test_a_folder_is_the_same_to_the_byte(
    tiny: TinyWorld, tmp_path: Path, processes: list[Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Files, records and names; a killed run goes on, with as many processes or with one."""
    source = tmp_path / "in"
    write_mixed(source)
    one, two = tmp_path / "one", tmp_path / "two"
    assert main(command(tiny, source, "--output-dir", one, *FAST)) == 0
    assert not processes
    argv = command(tiny, source, "--output-dir", two, *FAST, *TWO)
    with monkeypatch.context() as patch:
        interrupt(patch, 5)
        with pytest.raises(Interrupted):
            main(argv)
    assert len(processes) == 2 and not any(process.is_alive() for process in processes)
    whole = contents(one)
    for name, found in contents(two).items():  # nothing is half-written
        assert name.endswith(".partial") or whole[name] == found
    with monkeypatch.context() as patch:
        added = interrupt(patch, -1)
        assert main(argv) == 0
    assert 0 < len(added) <= 15
    assert contents(two) == whole


@pytest.mark.parametrize("options", [(), ("--max-doc-tokens", "30", "--overlap", "1")])
def test_a_text_is_the_same_and_goes_on(
    tiny: TinyWorld,
    tmp_path: Path,
    small: Sequence[str | Path],
    options: Sequence[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Also documents whose chunks are kept one by one."""
    one, two = tmp_path / "one", tmp_path / "two"
    assert main(command(tiny, *small, *options, "--output", one)) == 0
    argv = command(tiny, *small, *options, "--output", two, *TWO)
    with monkeypatch.context() as patch:
        interrupt(patch, 1)
        with pytest.raises(Interrupted):
            main(argv)
    assert not two.exists() and len(list(tmp_path.glob("two.*.partial"))) == 1
    assert main([*argv[:-1], "auto"]) == 0
    assert two.read_bytes() == one.read_bytes()
    assert not list(tmp_path.glob("two.*.partial"))


def test_a_process_that_is_killed_is_said(
    tiny: TinyWorld,
    tmp_path: Path,
    small: Sequence[str | Path],
    processes: list[Any],
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    decode = translator.Translator.decode
    here = os.getpid()

    def die(self: Any, *arguments: Any) -> Any:
        if os.getpid() != here and (tmp_path / "die").exists():
            os._exit(9)
        return decode(self, *arguments)

    monkeypatch.setattr(translator.Translator, "decode", die)
    argv = command(tiny, *small, "--output", tmp_path / "out", *TWO)
    (tmp_path / "die").touch()
    assert "`--workers`: a process has ended" in error(argv, capsys)
    assert not (tmp_path / "out").exists()
    (tmp_path / "die").unlink()
    assert main(argv) == 0
    assert not any(process.is_alive() for process in processes)


def test_no_more_processes_than_cores(
    tiny: TinyWorld,
    small: Sequence[str | Path],
    tmp_path: Path,
    processes: list[Any],
    capsys: pytest.CaptureFixture[str],
) -> None:
    cores = len(os.sched_getaffinity(0))
    many = ("--workers", "999999999")
    assert main(command(tiny, *small, "--output", tmp_path / "out", *many)) == 0
    assert len(processes) <= cores
    assert f"there are {cores} cores" in capsys.readouterr().err


@pytest.mark.parametrize("value", ["0", "many"])
def test_no_number_of_processes(
    value: str, tiny: TinyWorld, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit):
        main(command(tiny, "--stream", "--workers", value))
    told = f"must be a number of processes or auto, but is '{value}'"
    assert told in capsys.readouterr().err
