"""The writer of files: complete or unchanged, one at a time, never onto what is read."""

from __future__ import annotations

import errno
import os
import stat
import subprocess
import sys
import threading
from functools import partial
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from support.writing import NEW, names, refused, write

from gtrans.files import (
    atomic_writer,
    begins_with,
    binary_writer,
    check_output,
    check_output_folder,
    check_replaceable,
    copy_file,
    is_file,
    replacing,
)


class Broken(Exception):
    """What interrupts the writing."""


# ---- complete or unchanged -----------------------------------------------------------------------


def test_a_file_appears_when_it_is_complete(tmp_path: Path):
    target = tmp_path / "out"
    with atomic_writer(target) as file:
        file.write("ü\n")
        file.flush()
        assert not target.exists()
        assert all(name.startswith(".out.") for name in names(tmp_path))
    assert target.read_bytes() == "ü\n".encode()
    with binary_writer(target) as bytes_file:
        bytes_file.write(b"\r\n")
    assert target.read_bytes() == b"\r\n"
    assert names(tmp_path) == ["out"]


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    st.lists(st.sampled_from("abcdef"), min_size=1, max_size=4, unique=True),
    st.data(),
)
def test_files_written_together(tmp_path: Path, chosen: list[str], data: st.DataObject):
    """After an interruption at any place all of them are as they were."""
    folder = tmp_path / f"{len(list(tmp_path.iterdir()))}"
    folder.mkdir()
    paths = [folder / name for name in chosen]
    old = {path: path.name for path in paths if data.draw(st.booleans())}
    for path, text in old.items():
        path.write_text(text)
    stop = data.draw(st.integers(0, len(paths)))

    def work() -> None:
        with replacing(*paths) as temporary:
            for number, path in enumerate(temporary):
                if number == stop:
                    raise Broken
                path.write_text(NEW)

    if stop < len(paths):
        with pytest.raises(Broken):
            work()
        assert {path: path.read_text() for path in folder.iterdir()} == old
    else:
        work()
        assert {path: path.read_text() for path in folder.iterdir()} == dict.fromkeys(paths, NEW)


def test_the_bytes_are_on_the_disk_before_the_name(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    events = []
    sync, rename = os.fsync, os.replace
    monkeypatch.setattr(os, "fsync", lambda fd: (events.append("fsync"), sync(fd)))
    monkeypatch.setattr(os, "replace", lambda a, b: (events.append("rename"), rename(a, b)))
    write(tmp_path / "out")
    assert events == ["fsync", "rename"]


def test_the_mode_of_an_older_file_stays(tmp_path: Path):
    target = tmp_path / "run.sh"
    target.write_text("old")
    target.chmod(0o750)
    write(target)
    assert stat.S_IMODE(target.stat().st_mode) == 0o750


@pytest.mark.parametrize("number", [errno.ENOSPC, errno.EIO, errno.EDQUOT, errno.ESTALE])
def test_a_disk_that_fails_at_the_end(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, number: int):
    target = tmp_path / "out"
    target.write_text("old")

    def fail(_: int) -> None:
        raise OSError(number, os.strerror(number))

    monkeypatch.setattr(os, "fsync", fail)
    refused(lambda: write(target), f"{target}: cannot be written (", "name ")
    assert target.read_text() == "old"
    assert names(tmp_path) == ["out"]


def test_a_full_disk(tmp_path: Path):
    mounted = subprocess.run(
        ["mount", "-t", "tmpfs", "-o", "size=64k", "none", tmp_path], check=False
    )
    if mounted.returncode:
        pytest.skip("only root can mount a small disk")
    try:
        target = tmp_path / "out"
        target.write_text("old")
        refused(lambda: write(target, "x" * 100_000), f"{target}: cannot be written (the disk is")
        large = tmp_path.parent / "large"
        large.write_text("x" * 100_000)
        refused(lambda: copy_file(large, target), f"{target}: cannot be written (the disk is")
        assert target.read_text() == "old"
        assert names(tmp_path) == ["out"]
        subprocess.run(["mount", "-o", "remount,ro", tmp_path], check=True)
        refused(lambda: write(target), "Read-only")
        refused(lambda: check_output("--output", target), "`--output`", "Read-only")
        refused(lambda: check_output_folder("--out", tmp_path / "new"), "`--out`", "Read-only")
    finally:
        subprocess.run(["umount", tmp_path], check=True)


def test_other_errors_are_not_renamed(tmp_path: Path):
    """An input that cannot be read is no fault of the output."""
    with pytest.raises(FileNotFoundError) as caught, atomic_writer(tmp_path / "out"):
        (tmp_path / "missing").read_text()
    assert caught.value.filename == str(tmp_path / "missing")
    with pytest.raises(ConnectionResetError), atomic_writer(tmp_path / "out"):
        raise ConnectionResetError(errno.ECONNRESET, "a download")
    assert names(tmp_path) == []


@pytest.mark.parametrize(
    ("name", "reason"),
    [
        ("no/folder/out", "there is no folder"),
        ("file/out", "Not a directory"),
        ("folder", "this is a folder"),
        ("x" * 300, "too long"),
        ("x" * 250, "too long"),  # with its temporary name
        ("loop", "symbolic links"),
    ],
)
def test_impossible_names(tmp_path: Path, name: str, reason: str):
    (tmp_path / "folder").mkdir()
    (tmp_path / "file").touch()
    (tmp_path / "loop").symlink_to("loop")
    before = names(tmp_path)
    refused(lambda: write(tmp_path / name), reason)
    refused(lambda: check_output("--output", tmp_path / name), "`--output`", reason)
    assert names(tmp_path) == before


@pytest.mark.skipif(os.geteuid() == 0, reason="root may write everywhere")
def test_without_permission(tmp_path: Path):
    target = tmp_path / "out"
    target.write_text("old")
    target.chmod(0o400)
    refused(lambda: write(target), "no permission")
    tmp_path.chmod(0o500)
    try:
        refused(lambda: write(tmp_path / "new"), "no permission")
    finally:
        tmp_path.chmod(0o700)
    assert target.read_text() == "old"


# ---- never onto an input -------------------------------------------------------------------------


@pytest.mark.parametrize("kind", ["same", "symbolic link", "hard link", "other spelling"])
def test_an_input_is_never_replaced(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, kind: str):
    source, target = tmp_path / "in", tmp_path / "out"
    source.write_text("precious")
    if kind == "same":
        target = source
    elif kind == "symbolic link":
        target.symlink_to(source)
    elif kind == "hard link":
        target.hardlink_to(source)
    else:
        monkeypatch.chdir(tmp_path)
        target = Path("in")
    refused(lambda: write(target, inputs=(source,)), "is the input", "name another")
    refused(lambda: check_output("--output", target, [source]), "`--output`", "is the input")
    refused(lambda: copy_file(source, target), "is the input")
    assert source.read_text() == "precious"
    write(tmp_path / "other", inputs=(source,))


def test_a_folder_that_is_read(tmp_path: Path):
    (tmp_path / "link").symlink_to(tmp_path)
    refused(lambda: check_output_folder("--out", tmp_path / "link", [tmp_path]), "is the input")
    (tmp_path / "file").touch()
    refused(lambda: check_output_folder("--out", tmp_path / "file" / "x"), "is a file")
    check_output_folder("--out", tmp_path / "new" / "one", [tmp_path])


def test_files_of_others_with_such_names_stay(tmp_path: Path):
    """Only what a killed writer left is removed."""
    strangers = [tmp_path / name for name in (".out.tmp", ".out.old.tmp", ".out.0123456g.tmp")]
    for path in strangers:
        path.write_text("precious")
    left = tmp_path / ".out.01234567.tmp"
    left.touch()
    write(tmp_path / "out")
    assert not left.exists()
    assert {path.read_text() for path in strangers} == {"precious"}
    assert (tmp_path / "out").read_text() == NEW


# ---- links, devices, FIFOs -----------------------------------------------------------------------


def test_a_link_stays(tmp_path: Path):
    folder = tmp_path / "folder"
    folder.mkdir()
    for name, target in (("link", folder / "file"), ("dangling", folder / "new")):
        (tmp_path / name).symlink_to(target)
    (folder / "file").write_text("old")
    for name in ("link", "dangling"):
        write(tmp_path / name)
        assert (tmp_path / name).is_symlink()
        assert (tmp_path / name).resolve().read_text() == NEW
    assert names(folder) == ["file", "new"]
    (tmp_path / "nowhere").symlink_to(tmp_path / "no" / "folder")
    refused(lambda: write(tmp_path / "nowhere"), "there is no folder")


def test_devices_and_fifos_are_written_through(tmp_path: Path):
    write(Path("/dev/null"))
    assert stat.S_ISCHR(os.stat("/dev/null").st_mode)
    fifo = tmp_path / "fifo"
    os.mkfifo(fifo)
    read: list[str] = []
    reader = threading.Thread(target=lambda: read.append(fifo.read_text()))
    reader.start()
    write(fifo)
    reader.join()
    assert read == [NEW]
    assert stat.S_ISFIFO(fifo.stat().st_mode)
    refused(lambda: write(Path("/dev/full")), "/dev/full: cannot be written (the disk is full)")
    assert stat.S_ISCHR(os.stat("/dev/full").st_mode)
    assert names(tmp_path) == ["fifo"]
    assert not is_file(fifo) and is_file(tmp_path / "new")


def test_a_device_outside_dev_stays(tmp_path: Path):
    link = tmp_path / "link"
    link.symlink_to("/dev/null")
    write(link)
    assert link.is_symlink() and not is_file(link)
    device = tmp_path / "null"
    try:
        os.mknod(device, 0o666 | stat.S_IFCHR, os.makedev(1, 3))
    except PermissionError:
        pytest.skip("only root makes devices")
    write(device)
    assert stat.S_ISCHR(device.stat().st_mode)
    assert is_file("/dev/shm/new"), "files in memory are files"


# ---- what others wrote ---------------------------------------------------------------------------


def test_what_others_wrote_stays(tmp_path: Path):
    own, other, empty = tmp_path / "own", tmp_path / "other", tmp_path / "empty"
    own.write_text("head,line\n1,2\n")
    other.write_bytes(b"\xff work of days")
    empty.touch()
    folder, unread = tmp_path / "folder", tmp_path / "folder" / "file"
    folder.mkdir()

    def check(path: Path, force: bool = False) -> None:
        check_replaceable("--csv", path, lambda path: begins_with(path, "head,line"), force)

    for path in (own, empty, folder, tmp_path / "new", Path("/dev/null")):
        check(path)
    unread.write_text("work")
    for path in (other, folder):
        refused(partial(check, path), f"`--csv` '{path}' exists", "--force")
        check(path, force=True)


def test_the_standard_output_is_never_replaced(tmp_path: Path):
    """As a pipe, as a file, and as a file that grows."""
    code = (
        "from gtrans.files import atomic_writer\n"
        "with atomic_writer('/dev/stdout') as file: file.write('complete\\n')"
    )
    command = [sys.executable, "-c", code]
    before = os.readlink("/dev/stdout")
    piped = subprocess.run(command, capture_output=True, text=True, check=True)
    assert piped.stdout == NEW
    output = tmp_path / "out"
    for mode, expected in (("w", NEW), ("a", 2 * NEW)):
        with open(output, mode) as stream:
            subprocess.run(command, stdout=stream, check=True)
        assert output.read_text() == expected
    assert os.readlink("/dev/stdout") == before
    assert names(tmp_path) == ["out"]
