"""Files: how they are written, compared, and read as JSON.

A file is written under a new, hidden name in its own folder, flushed to the disk, and renamed. So
its name always stands for a complete file: the new one, or after any failure the old one. While it
is written, ``.NAME.lock`` beside it is locked (for a folder: ``.gtrans.lock`` in it), so a second
writer is refused and not mixed in. What a killed process leaves is removed by the next writer.

A symbolic link stays, and the file that it points to is replaced. A file that is being read is
never replaced, by whatever name. A place that is no file, such as ``/dev/stdout``, gets the
complete bytes.
"""

from __future__ import annotations

import errno
import glob
import hashlib
import json
import os
import secrets
import shutil
import tempfile
from collections.abc import Callable, Iterable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from typing import Any, BinaryIO, TextIO

from filelock import FileLock, Timeout

from gtrans.errors import GtransError

StrPath = str | os.PathLike[str]

_LOCK_SECONDS, _LOCK_POLL = 0.2, 0.02  # a writer that is just ending is waited for
_REASONS = {
    errno.ENOSPC: "the disk is full",
    errno.EFBIG: "the file is too large for the disk or its limit",
    errno.EACCES: "no permission",
    errno.ENOENT: "there is no folder for it",
    errno.EISDIR: "this is a folder",
}
_BLOCK = 1 << 20  # bytes that are read at once
_OF_STREAMS = (BrokenPipeError, ConnectionError, ChildProcessError, TimeoutError)


# ---- digests -------------------------------------------------------------------------------------


def digest_of_values(*parts: object) -> str:
    """SHA-256 of values that JSON can represent."""
    return hashlib.sha256(json.dumps(parts, sort_keys=True).encode()).hexdigest()


def digest(path: Path) -> str:
    """SHA-256 of the contents of a file."""
    hashed = hashlib.sha256()
    with open(path, "rb") as file:
        block = file.read(_BLOCK)
        while block:
            hashed.update(block)
            block = file.read(_BLOCK)
    return hashed.hexdigest()


def digest_of_bytes(contents: bytes) -> str:
    """SHA-256 of bytes."""
    return hashlib.sha256(contents).hexdigest()


# ---- JSON ----------------------------------------------------------------------------------------


def parse_json(text: str | bytes, place: str, way_out: str = "") -> Any:
    """The JSON value of a text.

    Args:
        text: the text; bytes are UTF-8.
        place: the file, or the file and line, with which error messages begin.
        way_out: how error messages go on: what to do.

    Raises:
        GtransError: it is not JSON.
    """
    try:
        content = text if isinstance(text, str) else text.decode("utf-8-sig")
        value = json.loads(content, parse_constant=_no_number)
        if "\\ud" in content.lower():
            _check_surrogates(value)
        return value
    except (ValueError, RecursionError) as error:
        reason = "not UTF-8" if isinstance(error, UnicodeDecodeError) else error
        raise GtransError(f"{place}: not JSON ({reason}){way_out}") from None


def _check_surrogates(value: Any) -> None:
    """Raises ValueError for half of a character, such as ``\\ud83d``, which no file can hold."""
    try:
        json.dumps(value, ensure_ascii=False).encode()
    except UnicodeEncodeError as error:
        half = error.object[error.start]
        raise ValueError(f"\\u{ord(half):04x} is half of a character, a lone surrogate") from None


def _no_number(name: str) -> Any:
    raise ValueError(f"{name} is no number")


def read_object(path: Path, way_out: str = "") -> dict[str, Any]:
    """The JSON object of a file.

    It has the arguments and errors of :func:`parse_json`; also:

    Raises:
        FileNotFoundError: there is no such file.
        GtransError: it cannot be read, or holds another value.
    """
    try:
        value = parse_json(path.read_bytes(), str(path), way_out)
    except FileNotFoundError:
        raise
    except OSError as error:
        raise GtransError(f"{path}: cannot be read ({error.strerror}){way_out}") from None
    if not isinstance(value, dict):
        raise GtransError(f"{path}: not an object of JSON{way_out}")
    return value


# ---- writing -------------------------------------------------------------------------------------


def unwritable(what: StrPath, error: OSError) -> GtransError:
    """The error for a file that cannot be written.

    Args:
        what: the file, or the flag and the file.
        error: why it cannot.
    """
    reason = _REASONS.get(error.errno or 0) or os.strerror(error.errno or 0)
    return GtransError(
        f"{os.fspath(what)}: cannot be written ({reason}); name another file, or make room."
    )


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
        for target in filter(is_file, targets):
            stack.enter_context(locked(target))
        temporary = [_temporary(target, kept, stack) for target in targets]
        try:
            yield temporary
            for written in temporary:
                with open(written, "rb") as file:
                    os.fsync(file.fileno())
            for written, target in zip(temporary, targets, strict=True):
                _deliver(written, target)
        except OSError as error:
            for path, *names in zip(paths, targets, temporary, strict=True):
                if _concerns(error, (path, *names)):
                    raise unwritable(path, error) from error
            raise
        finally:
            for written in temporary:
                with suppress(OSError):
                    written.unlink(missing_ok=True)


@contextmanager
def atomic_writer(path: StrPath, inputs: Iterable[StrPath] = ()) -> Iterator[TextIO]:
    """A UTF-8 text file that appears under its name only when it is complete.

    It has the arguments and errors of :func:`replacing`.
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


def check_output(flag: str, path: StrPath, inputs: Iterable[StrPath] = ()) -> None:
    """Refuse a file that cannot be written, before anything is computed.

    Args:
        flag: the option that names it, such as ``--output``.
        path: the file.
        inputs: files that the command reads.

    Raises:
        GtransError: there is no folder for it or no permission, it is a folder, or one of
            ``inputs``.
    """
    _target(Path(path), f"`{flag}` '{os.fspath(path)}'", [Path(name) for name in inputs])


def check_output_folder(flag: str, path: StrPath, inputs: Iterable[StrPath] = ()) -> None:
    """Refuse a folder to write into that is a file, or one of the folders that are read.

    Raises:
        GtransError: as for :func:`check_output`.
    """
    folder, what = Path(path), f"`{flag}` '{os.fspath(path)}'"
    _refuse_inputs(folder, what, map(Path, inputs), "folder")
    existing = next(place for place in (folder, *folder.absolute().parents) if place.exists())
    if not existing.is_dir():
        raise GtransError(f"`{flag}` must be a folder, but '{existing}' is a file.")
    try:
        _check_access(existing)
    except OSError as error:
        raise unwritable(what, error) from None


def check_replaceable(
    flag: str, path: StrPath, is_own: Callable[[Path], bool], force: bool = False
) -> None:
    """Refuse to replace what this program did not write, before anything is computed.

    Args:
        flag: the option that names it, such as ``--csv``.
        path: the file or folder to write. It may be replaced if there is none, if it is empty,
            or if it is a device or a FIFO, which keep the bytes that they got.
        is_own: whether this program wrote the file or folder; see :func:`begins_with`.
        force: whether the user gave ``--force``, which replaces everything.

    Raises:
        GtransError: something else is there, and the user did not give ``--force``.
    """
    place = Path(path)
    if force or not is_file(place) or not place.exists():
        return
    try:
        is_empty = not any(place.iterdir()) if place.is_dir() else place.stat().st_size == 0
        if is_empty or is_own(place):
            return
    except (OSError, GtransError):
        pass  # what cannot be read is not known to be this program's
    raise GtransError(
        f"`{flag}` '{os.fspath(path)}' exists, and this command did not write it; name another "
        "place, or replace it with --force."
    )


def begins_with(path: Path, *starts: str) -> bool:
    """Whether a file begins with one of these texts, for :func:`check_replaceable`."""
    encoded = tuple(start.encode() for start in starts)
    with open(path, "rb") as file:
        return file.read(max(map(len, encoded))).startswith(encoded)


def is_file(path: StrPath) -> bool:
    """Whether ``path`` is written as a file under a name: no device, FIFO or open stream."""
    place = Path(os.path.abspath(path))
    if place.parts[1:2] in (("dev",), ("proc",)) and place.parts[1:3] != ("dev", "shm"):
        return False
    try:
        return not place.exists() or place.is_file() or place.is_dir()
    except OSError:
        return True  # the writer will say what is wrong


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
    lock = FileLock(name, timeout=_LOCK_SECONDS, poll_interval=_LOCK_POLL, is_singleton=True)
    try:
        if not name.parent.is_dir():  # filelock would make it
            raise OSError(errno.ENOENT, "")
        lock.acquire()
    except Timeout:
        raise GtransError(
            f"{os.fspath(path)}: another process is writing it; wait for its end, or name another."
        ) from None
    except OSError as error:
        raise unwritable(path, error) from None
    try:
        yield
    finally:
        if lock.lock_counter == 1:
            with suppress(OSError):
                name.unlink()
        lock.release()


def _target(path: Path, what: str, inputs: list[Path]) -> Path:
    """The file behind all links; refuses what cannot be written or is one of ``inputs``."""
    _refuse_inputs(path, what, inputs, "file")
    if not is_file(path):
        return path
    target = Path(os.path.realpath(path))
    try:
        if target.is_dir():
            raise OSError(errno.EISDIR, "")
        if not target.parent.is_dir():
            raise OSError(errno.ENOTDIR if target.parent.exists() else errno.ENOENT, "")
        _check_access(target if target.exists() else target.parent)
        for name in (path, _temporary_name(target)):  # a link to itself, a name that is too long
            with suppress(FileNotFoundError):
                os.stat(name)
    except OSError as error:
        raise unwritable(what, error) from None
    return target


def _refuse_inputs(path: Path, what: str, inputs: Iterable[Path], kind: str) -> None:
    for read in inputs:
        if _same(path, read):
            raise GtransError(
                f"{what} is the input '{read}', which must stay; name another {kind}."
            )


def _same(left: Path, other: Path) -> bool:
    """Whether two names lead to one file; a terminal may be read and written."""
    try:
        return left.samefile(other) and not left.is_char_device()
    except OSError:  # there is none yet
        return os.path.realpath(left) == os.path.realpath(other)


def _temporary(target: Path, inputs: list[Path], stack: ExitStack) -> Path:
    """A new name beside the target; for a device, in the system's temporary folder."""
    if not is_file(target):
        return Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="gtrans-")), "output")
    for left in target.parent.glob(f".{glob.escape(target.name)}.{'[0-9a-f]' * 8}.tmp"):
        if not any(_same(left, read) for read in inputs):
            left.unlink(missing_ok=True)
    return _temporary_name(target)


def _temporary_name(target: Path) -> Path:
    return target.with_name(f".{target.name}.{secrets.token_hex(4)}.tmp")


def _deliver(written: Path, target: Path) -> None:
    if not is_file(target):
        # Appended, because the standard output may be a file that already holds something.
        with open(written, "rb") as source, open(target, "ab", buffering=0) as sink:
            shutil.copyfileobj(source, sink, 1 << 20)
        return
    if target.exists():
        shutil.copymode(target, written)
    os.replace(written, target)


def _check_access(path: Path) -> None:
    """Raises OSError if ``path``, a file or a folder that exists, cannot be written."""
    if not os.access(path, os.W_OK):
        read_only = os.statvfs(path).f_flag & os.ST_RDONLY
        raise OSError(errno.EROFS if read_only else errno.EACCES, "")


def _concerns(error: OSError, files: tuple[Path, ...]) -> bool:
    """Whether an error is about writing one of ``files``; one without a name is."""
    names = [name for name in (error.filename, error.filename2) if isinstance(name, str | bytes)]
    if names:  # an error of a copy names both files
        return any(Path(os.fsdecode(name)) in files for name in names)
    return error.errno is not None and not isinstance(error, _OF_STREAMS)
