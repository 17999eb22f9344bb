"""``gtrans translate``: one writer, no mixed translations, nothing overwritten that is read."""

from __future__ import annotations

import io
import shutil
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from support.translating import FAST, Interrupted, command, error, interrupt_after
from support.writing import names

import gtrans.translating.output
from gtrans import __version__
from gtrans.cli import main
from gtrans.errors import GtransError
from gtrans.files import digest
from gtrans.translating.output import Output, read_record

if TYPE_CHECKING:
    from support.tiny_models import TinyWorld

SMALL = ("--max-tokens", "100", "--max-doc-tokens", "60")
OTHER = ("--lenpen", "0.5")


@pytest.fixture
def argv(tiny: TinyWorld, tmp_path: Path) -> list[str]:
    """A command that translates a text in several batches."""
    return command(
        tiny, "--input", tiny.text / "test.en", "--output", tmp_path / "out", *FAST, *SMALL
    )


def decoded(argv: list[str], monkeypatch: pytest.MonkeyPatch, killed_after: int = -1) -> int:
    """Run a command, or kill it after some batches; how many it has decoded."""
    with monkeypatch.context() as patch:
        batches = interrupt_after(killed_after, patch)
        if killed_after < 0:
            assert main(argv) == 0
        else:
            with pytest.raises(Interrupted):
                main(argv)
        return len(batches)


def elsewhere(argv: list[str], output: str | Path) -> list[str]:
    place = argv.index("--output") + 1
    return [*argv[:place], str(output), *argv[place + 1 :]]


@pytest.fixture
def whole(argv: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    """The translation without interruption."""
    folder = tmp_path / "whole"
    folder.mkdir()
    assert decoded(elsewhere(argv, folder / "out"), monkeypatch) > 4
    yield (folder / "out").read_text()
    shutil.rmtree(folder)


# ---- resuming ------------------------------------------------------------------------------------


def test_an_interrupted_run_goes_on_and_two_are_never_mixed(
    argv: list[str],
    whole: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
):
    other = [*argv, *OTHER]
    total = decoded(elsewhere(other, tmp_path / "other"), monkeypatch)
    decoded(argv, monkeypatch, killed_after=2)
    (partial,) = tmp_path.glob("out.*.partial")
    assert not (tmp_path / "out").exists()
    with open(partial, "ab") as file:  # an interrupted write
        file.write(b'{"batch": 2, "translations": [["te')
    decoded(other, monkeypatch, killed_after=3)
    assert decoded(argv, monkeypatch) == total - 2
    assert "going on from" in capsys.readouterr().err
    assert (tmp_path / "out").read_text() == whole
    # The other one goes on from what it had.
    assert decoded(other, monkeypatch) == total - 3
    assert (tmp_path / "out").read_text() == (tmp_path / "other").read_text()
    assert not list(tmp_path.glob("*.partial*"))


@pytest.mark.parametrize("step", ["write_record", "binary_writer"])
def test_killed_after_the_last_batch(
    argv: list[str], whole: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, step: str
):
    """Before the record is written, or before the output."""

    def kill(*_: object) -> None:
        raise Interrupted

    with monkeypatch.context() as patch:
        patch.setattr(gtrans.translating.output, step, kill)
        with pytest.raises(Interrupted):
            main(argv)
    assert list(tmp_path.glob("out.*.partial"))
    assert decoded(argv, monkeypatch) == 0
    assert (tmp_path / "out").read_text() == whole
    assert names(tmp_path) == ["out", "out.made.json", "whole"]


def test_a_disk_that_is_full_in_between(tmp_path: Path):
    """One line; what was finished is kept."""
    grown = Output(str(tmp_path / "out"), {}, force=False)
    with grown.opened():
        grown.keep_batch(0, [["eins"]])
    with grown.opened():
        grown._file = io.BufferedWriter(io.FileIO("/dev/full", "a"))
        with pytest.raises(GtransError, match="partial: cannot be written .the disk is full"):
            grown.keep_batch(1, [["zwei"]])
    again = Output(str(tmp_path / "out"), {}, force=False)
    with again.opened():
        assert again.batches == {0: [["eins"]]}


def test_a_second_process_is_refused(
    argv: list[str], tmp_path: Path, capsys: pytest.CaptureFixture[str]
):
    code = (
        "import sys, time\n"
        "from gtrans.files import locked\n"
        "with locked(sys.argv[1]):\n"
        "    print('ready', flush=True)\n"
        "    time.sleep(600)\n"
    )
    holder = subprocess.Popen(
        [sys.executable, "-c", code, tmp_path / "out"], stdout=subprocess.PIPE
    )
    try:
        assert holder.stdout is not None
        holder.stdout.readline()
        assert "another process is writing it" in error(argv, capsys)
        assert names(tmp_path) == [".out.lock"]
    finally:
        holder.send_signal(signal.SIGKILL)
        holder.wait()


# ---- the record ----------------------------------------------------------------------------------


def test_the_record_has_the_provenance_of_the_translation(
    tiny: TinyWorld, argv: list[str], tmp_path: Path
):
    assert main(argv) == 0
    record = read_record(tmp_path / "out")
    assert record is not None
    assert record.output_digest == digest(tmp_path / "out")
    provenance = record.provenance
    assert provenance["checkpoints"] == [digest(tiny.checkpoints["document"])]
    assert len(provenance["preparation"]) == 64
    assert provenance["search"]["beam"] == 2
    assert provenance["gtrans"] == __version__
    assert record.names["input"] == str(tiny.text / "test.en")
    assert record.sentences == sum(map(len, tiny.source()))


def test_a_finished_translation_is_not_made_again(
    argv: list[str],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
):
    total = decoded(argv, monkeypatch)
    assert "sentences written to" in capsys.readouterr().err
    text = (tmp_path / "out").read_text()
    times = [path.stat().st_mtime_ns for path in sorted(tmp_path.iterdir())]
    assert decoded(argv, monkeypatch) == 0
    assert "is already this translation" in capsys.readouterr().err
    assert [path.stat().st_mtime_ns for path in sorted(tmp_path.iterdir())] == times
    assert decoded([*argv, "--force"], monkeypatch) == total
    # Neither a changed translation nor that of other options is taken for it.
    (tmp_path / "out").write_text("edited\n")
    assert "out' was changed since it was written and is kept" in error(argv, capsys)
    assert (tmp_path / "out").read_text() == "edited\n"
    assert decoded([*argv, "--force"], monkeypatch) == total
    assert (tmp_path / "out").read_text() == text
    assert decoded([*argv, *OTHER], monkeypatch) == total
    assert decoded(argv, monkeypatch) == total
    assert names(tmp_path) == ["out", "out.made.json"]


# ---- outputs that are something else -------------------------------------------------------------


def test_what_the_command_reads_is_never_overwritten(
    tiny: TinyWorld, argv: list[str], tmp_path: Path, capsys: pytest.CaptureFixture[str]
):
    data = tmp_path / "data"
    shutil.copytree(tiny.data, data)
    model = shutil.copy(tiny.checkpoints["document"], tmp_path / "model.pt")
    source = shutil.copy(tiny.text / "test.en", tmp_path / "in.en")
    renamed = {tiny.data: data, tiny.checkpoints["document"]: model, tiny.text / "test.en": source}
    own = [str(renamed.get(Path(word), word)) for word in argv]
    (tmp_path / "link").symlink_to(model)
    (tmp_path / "hard").hardlink_to(source)
    outputs = [source, model, tmp_path / "link", tmp_path / "hard"]
    outputs += [data / "prepare.json", data / "dict.en.txt", data / "codes.bpe"]
    outputs += [data / "test.en-de.en.bin", data / "text" / "train.bpe.de"]
    before = {path: path.read_bytes() for path in tmp_path.rglob("*") if path.is_file()}
    for output in outputs:
        assert "is the input" in error(elsewhere(own, output), capsys)
    assert {path: path.read_bytes() for path in tmp_path.rglob("*") if path.is_file()} == before
    # A new file in the data folder is the user's.
    assert main(elsewhere(own, data / "test.hyp.de")) == 0
    assert main(elsewhere(own, data / "test.hyp.de")) == 0


def test_a_strangers_file_is_not_taken_for_a_record(
    argv: list[str], tmp_path: Path, capsys: pytest.CaptureFixture[str]
):
    path = tmp_path / "out.made.json"
    for text in ("my notes\n", "{}\n", "[1]\n", ""):
        path.write_text(text)
        assert f"'{path}' is in the way" in error(argv, capsys)
        assert path.read_text() == text
    assert names(tmp_path) == ["out.made.json"]
