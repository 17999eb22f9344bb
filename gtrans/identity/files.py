"""The one way in which this project writes files.

A file is written under a new, hidden name in its own folder, flushed to the disk, and renamed. So
its name always stands for a complete file: the new one, or after any failure the old one. While it
is written, ``.NAME.lock`` beside it is locked (for a folder: ``.gtrans.lock`` in it), so a second
writer is refused and not mixed in. What a killed process leaves is removed by the next writer.

A symbolic link stays, and the file that it points to is replaced. A device or a FIFO gets the
complete bytes. A file that is being read is never replaced, by whatever name.
"""

from __future__ import annotations

import errno
import glob
import os
import re
import secrets
import shutil
import socket
import stat
import sys
import tempfile
from collections.abc import Iterable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO, TextIO

from filelock import BaseFileLock, FileLock, Timeout

from gtrans.errors import GtransError
from gtrans.identity.precious import TEXT, refuse_precious

StrPath = str | os.PathLike[str]

_LOCK_TEXT = "locked by "
_LOCK_SECONDS = 0.2  # a writer that is just ending is waited for
_LOCK_POLL = 0.02

# What is wrong and what to do, by the errors that a user can do something about. A folder without
# permission, a full disk, .. are told before or after the work, always in one line.
_REASONS = {
    errno.ENOSPC: ("the disk is full", "free space, or name a file on another disk"),
    errno.EDQUOT: ("your quota of the disk is used up", "free space, or name another disk"),
    errno.EFBIG: ("the file is too large for the disk or its limit", "name a file on another disk"),
    errno.EROFS: ("the file system is read-only", "name a file elsewhere"),
    errno.EACCES: ("no permission", "name a file in a folder of your own"),
    errno.EPERM: ("not permitted", "name a file in a folder of your own"),
    errno.ENOENT: ("there is no folder for it", "make one first"),
    errno.ENOTDIR: ("a part of its path is a file and no folder", "name a file in a folder"),
    errno.EISDIR: ("this is a folder", "name a file"),
    errno.ENAMETOOLONG: ("its name is too long", "give it a shorter one"),
    errno.ELOOP: ("its symbolic links lead in a circle", "name a file"),
    errno.EIO: ("the disk reports an error", "name a file on another disk"),
}


def unwritable(what: StrPath, error: OSError) -> GtransError:
    """The error for a file that cannot be written.

    Args:
        what: the file, or the flag and the file.
        error: why it cannot.
    """
    reason, way_out = _REASONS.get(
        error.errno or 0, (error.strerror or str(error) or "unknown reason", "name another file")
    )
    return GtransError(f"{os.fspath(what)}: cannot be written ({reason}); {way_out}.")


@dataclass(frozen=True)
class _Target:
    """Where a file is written: ``file`` behind all links; ``through``: a device or a FIFO."""

    name: Path
    file: Path
    through: bool


@contextmanager
def replacing(*paths: Path, inputs: Iterable[StrPath] = ()) -> Iterator[list[Path]]:
    """Temporary names for files that are written together.

    At the end each temporary file is renamed to its path in ``paths`` and replaces an older
    file of that name. After an exception the old files are unchanged and the temporary ones are
    deleted.

    Args:
        paths: the files to write.
        inputs: files that are being read, which must not be among ``paths``.

    Raises:
        GtransError: a file cannot be written, another process is writing it, or it is one of
            ``inputs``.
    """
    kept = [Path(name) for name in inputs]
    targets = [_target(path, str(path), kept) for path in paths]
    with ExitStack() as stack:
        for target in targets:
            if not target.through:
                stack.enter_context(locked(target.file))
        temporary = [_temporary(target, kept, stack) for target in targets]
        try:
            yield temporary
            for written in temporary:
                _sync(written)
            for written, target in zip(temporary, targets, strict=True):
                _deliver(written, target)
            for folder in {target.file.parent for target in targets if not target.through}:
                _sync_folder(folder)
        except BaseException as error:
            for written in temporary:
                with suppress(OSError):
                    written.unlink(missing_ok=True)
            if isinstance(error, OSError):
                for written, target in zip(temporary, targets, strict=True):
                    if _concerns(error, (written, target.name, target.file)):
                        raise unwritable(target.name, error) from error
            raise


@contextmanager
def atomic_writer(path: StrPath, inputs: Iterable[StrPath] = ()) -> Iterator[TextIO]:
    """A UTF-8 text file that appears under its name only when it is complete.

    Arguments and errors are those of :func:`replacing`.
    """
    with (
        replacing(Path(path), inputs=inputs) as (temporary,),
        open(temporary, "w", encoding="utf-8", newline="\n") as file,
    ):
        yield file


@contextmanager
def binary_writer(path: StrPath, inputs: Iterable[StrPath] = ()) -> Iterator[BinaryIO]:
    """Like :func:`atomic_writer`, for bytes."""
    with replacing(Path(path), inputs=inputs) as (temporary,), open(temporary, "wb") as file:
        yield file


def copy_file(source: Path, target: Path) -> None:
    """Copy the contents of a file.

    Raises:
        GtransError: see :func:`replacing`.
    """
    with replacing(target, inputs=[source]) as (temporary,):
        shutil.copyfile(source, temporary)


def check_output(
    flag: str, path: StrPath, inputs: Iterable[StrPath] = (), writes: str = TEXT
) -> None:
    """Refuse a file that cannot be written, before anything is computed.

    Args:
        flag: the option that names it, such as ``--output``.
        path: the file.
        inputs: files that the command reads.
        writes: what the command writes, see :mod:`gtrans.identity.precious`.

    Raises:
        GtransError: there is no folder for it or no permission, it is a folder, one of
            ``inputs``, a part of a data folder, or a checkpoint although none is written.
    """
    what = f"`{flag}` '{os.fspath(path)}'"
    target = _target(Path(path), what, [Path(name) for name in inputs])
    if not target.through:
        refuse_precious(target.file, what, writes)


def check_output_folder(flag: str, path: StrPath, inputs: Iterable[StrPath] = ()) -> None:
    """Refuse a folder to write into that is a file, or one of the folders that are read.

    Raises:
        GtransError: as for :func:`check_output`.
    """
    folder, what = Path(path), f"`{flag}` '{os.fspath(path)}'"
    _refuse_inputs(folder, what, [Path(name) for name in inputs], "folder")
    try:
        existing = next(place for place in (folder, *folder.absolute().parents) if place.exists())
        if not existing.is_dir():
            raise GtransError(f"`{flag}` must be a folder, but '{existing}' is a file.")
        _check_access(existing)
    except OSError as error:
        raise unwritable(what, error) from None


def is_file(path: StrPath) -> bool:
    """Whether ``path`` is written as a file under a name: no device, FIFO or open stream."""
    return not _follow(Path(path)).through


@contextmanager
def locked(path: StrPath) -> Iterator[None]:
    """Let no other process, and no other thread, write a file or into a folder.

    The thread that holds the lock may lock the same path again. The lock ends with the process,
    however it ends, and is not inherited by child processes.

    Args:
        path: a file that may or may not exist, or a folder that exists.

    Raises:
        GtransError: another process or thread holds it, or there can be no lock.
    """
    file = Path(os.path.realpath(path))
    name = file / ".gtrans.lock" if file.is_dir() else file.with_name(f".{file.name}.lock")
    lock: BaseFileLock = FileLock(
        name, timeout=_LOCK_SECONDS, poll_interval=_LOCK_POLL, is_singleton=True
    )
    try:
        if not name.parent.is_dir():  # filelock would make it
            raise OSError(errno.ENOENT, "")
        lock.acquire()
    except Timeout:
        raise GtransError(
            f"{os.fspath(path)}: {_holder(name)} is writing it; wait for its end, or name another."
        ) from None
    except OSError as error:
        raise unwritable(path, error) from None
    try:
        # Where the file system has no locks, filelock takes a file of its own kind.
        ours = isinstance(lock, FileLock) and lock.lock_counter == 1
        if ours:
            _sign(name, path)
        try:
            yield
        finally:
            if ours:
                with suppress(OSError):
                    name.unlink()
    finally:
        lock.release()


def _sign(name: Path, path: StrPath) -> None:
    """Write into the lock who holds it; refuse a file that is no lock."""
    who = f"process {os.getpid()} on {socket.gethostname()}, {' '.join(sys.argv)[:200]!r}"
    try:
        with open(name, "r+", encoding="utf-8", errors="replace") as file:
            text = file.read(len(_LOCK_TEXT))
            if text not in ("", _LOCK_TEXT):
                raise GtransError(
                    f"{os.fspath(path)}: '{name}' is in the way of its lock, but is no lock; "
                    "give it another name."
                )
            file.seek(0)
            file.truncate()
            file.write(f"{_LOCK_TEXT}{who}\n")
    except OSError as error:
        with suppress(OSError):
            name.unlink()
        raise unwritable(path, error) from None


def _holder(name: Path) -> str:
    try:
        text = name.read_text(encoding="utf-8", errors="replace")
    except OSError:
        text = ""
    if text.startswith(_LOCK_TEXT) and text.endswith("\n"):
        return text.removeprefix(_LOCK_TEXT).strip()
    return "another process"


def _target(path: Path, what: str, inputs: list[Path]) -> _Target:
    """Where ``path`` leads; refuses what cannot be written or is one of ``inputs``."""
    _refuse_inputs(path, what, inputs, "file")
    try:
        target = _follow(path)
        if target.through:
            _check_access(path)
            return target
        place = target.file.parent
        if not place.is_dir():
            raise OSError(errno.ENOTDIR if place.exists() else errno.ENOENT, "")
        _check_access(place)
        if target.file.exists():
            _check_access(target.file)
        else:
            with suppress(FileNotFoundError):
                os.lstat(_temporary_name(target))  # may be too long
    except OSError as error:
        raise unwritable(what, error) from None
    return target


def _follow(path: Path) -> _Target:
    try:
        mode = path.stat().st_mode
    except FileNotFoundError:  # a new file, or a link to one
        return _Target(path, Path(os.path.realpath(path)), through=False)
    if stat.S_ISDIR(mode):
        raise OSError(errno.EISDIR, "")
    if not any(kind(mode) for kind in (stat.S_ISREG, stat.S_ISCHR, stat.S_ISFIFO)):
        raise OSError(errno.EINVAL, "it is a disk or a socket")
    through = not stat.S_ISREG(mode) or _is_open_stream(path)
    return _Target(path, path if through else Path(os.path.realpath(path)), through)


def _is_open_stream(path: Path) -> bool:
    """Whether a path such as ``/dev/stdout`` leads to a file that a process has open."""
    for _ in range(40):  # the limit of Linux
        folder = os.path.realpath(path.parent)
        if folder == "/dev/fd" or re.fullmatch(r"/proc/.+/fd", folder):
            return True
        if not path.is_symlink():
            return False
        path = Path(folder, os.readlink(path))
    return False


def _refuse_inputs(path: Path, what: str, inputs: list[Path], kind: str) -> None:
    for read in inputs:
        if _same(path, read):
            raise GtransError(
                f"{what} is the input '{read}', which must stay; name another {kind}."
            )


def _same(one: Path, other: Path) -> bool:
    """Whether two names lead to one file; a terminal may be read and written."""
    try:
        return one.samefile(other) and not one.is_char_device()
    except OSError:  # there is none yet
        return os.path.realpath(one) == os.path.realpath(other)


def _temporary(target: _Target, inputs: list[Path], stack: ExitStack) -> Path:
    """A new name; for a device or a FIFO in the system's folder for temporary files."""
    if target.through:
        return Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="gtrans-")), "output")
    folder, name = target.file.parent, target.file.name
    for left in folder.glob(f".{glob.escape(name)}.*.tmp"):
        if re.fullmatch(rf"\.{re.escape(name)}\.[0-9a-f]{{8}}\.tmp", left.name) and not any(
            _same(left, read) for read in inputs
        ):
            left.unlink(missing_ok=True)
    return _temporary_name(target)


def _temporary_name(target: _Target) -> Path:
    return target.file.with_name(f".{target.file.name}.{secrets.token_hex(4)}.tmp")


def _deliver(written: Path, target: _Target) -> None:
    if target.through:
        # Appended, because the standard output may be a file that already holds something.
        descriptor = os.open(target.file, os.O_WRONLY | os.O_APPEND)
        with open(written, "rb") as source, open(descriptor, "wb") as sink:
            shutil.copyfileobj(source, sink, 1 << 20)
        return
    if target.file.exists():
        shutil.copymode(target.file, written)
    os.replace(written, target.file)


def _check_access(path: Path) -> None:
    """Raises OSError if ``path``, a file or a folder that exists, cannot be written."""
    if not os.access(path, os.W_OK):
        flags = os.statvfs(path).f_flag
        raise OSError(errno.EROFS if flags & os.ST_RDONLY else errno.EACCES, "", str(path))


def _sync(path: Path) -> None:
    with open(path, "rb") as file:
        os.fsync(file.fileno())


def _sync_folder(folder: Path) -> None:
    """Make the new names in a folder outlast a loss of power, where the file system can."""
    with suppress(OSError):
        descriptor = os.open(folder, os.O_RDONLY)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)


def _concerns(error: OSError, files: tuple[Path, ...]) -> bool:
    """Whether an error is about writing one of ``files``; without a name, by its kind."""
    if isinstance(error.filename, str | bytes):
        return Path(os.fsdecode(error.filename)) in files
    # Kinds of their own are those of pipes, connections and child processes.
    return error.errno in _REASONS or (type(error) is OSError and error.errno is not None)
