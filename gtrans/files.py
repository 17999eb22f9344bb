"""Files: writing, locking, comparing, and JSON.

A file is written under a hidden name and renamed, so its name stands for a complete file.
Meanwhile ``.NAME.lock`` (``.gtrans.lock`` in a folder) is locked. The next writer removes what a
killed process left.
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
    """Return the SHA-256 of JSON values."""
    return hashlib.sha256(json.dumps(parts, sort_keys=True).encode()).hexdigest()


def digest(path: Path) -> str:
    """Return the SHA-256 of a file."""
    hashed = hashlib.sha256()
    with open(path, "rb") as file:
        block = file.read(_BLOCK)
        while block:
            hashed.update(block)
            block = file.read(_BLOCK)
    return hashed.hexdigest()


def digest_of_bytes(contents: bytes) -> str:
    """Return the SHA-256 of bytes."""
    return hashlib.sha256(contents).hexdigest()


# ---- JSON ----------------------------------------------------------------------------------------


def parse_json(text: str | bytes, place: str, way_out: str = "") -> Any:
    """Return the JSON value of a text; raise GtransError for any other text.

    ``place`` (file and line) begins error messages, ``way_out`` ends them.
    """
    try:
        content = text if isinstance(text, str) else text.decode("utf-8-sig")
        value = json.loads(content, parse_constant=_no_number)
        if "\\ud" in content.lower():
            _check_surrogates(value)
        return value
    except (ValueError, RecursionError) as error:
        reason = "not UTF-8" if isinstance(error, UnicodeDecodeError) else str(error)
        raise GtransError(f"{place}: not JSON ({reason}){way_out}") from None


def _check_surrogates(value: Any) -> None:
    r"""Reject half of a character, such as ``\ud83d``, which no file can hold."""
    try:
        json.dumps(value, ensure_ascii=False).encode()
    except UnicodeEncodeError as error:
        half = error.object[error.start]
        raise ValueError(f"\\u{ord(half):04x} is half of a character, a lone surrogate") from None


def _no_number(name: str) -> Any:
    raise ValueError(f"{name} is no number")


def read_object(path: Path, way_out: str = "") -> dict[str, Any]:
    """Return the JSON object of a file; see :func:`parse_json`."""
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
    """Return the error for a file that cannot be written; ``what``: the file, or flag and file."""
    reason = _REASONS.get(error.errno or 0) or os.strerror(error.errno or 0)
    return GtransError(
        f"{os.fspath(what)}: cannot be written ({reason}); name another file, or make room."
    )


@contextmanager
def replacing(*paths: Path, inputs: Iterable[StrPath] = ()) -> Iterator[list[Path]]:
    """Yield temporary names of files that are written together.

    At the end each replaces its path in ``paths`` (the target of a link); after an exception the
    old files are unchanged. ``inputs``: files that are being read, which must not be overwritten.
    """
    input_paths = [Path(name) for name in inputs]
    targets = [_target(path, str(path), input_paths) for path in paths]
    with ExitStack() as stack:
        for target in targets:
            if is_file(target):
                stack.enter_context(locked(target))
        temporary = [_temporary(target, input_paths, stack) for target in targets]
        try:
            yield temporary
            for temporary_path in temporary:
                with open(temporary_path, "rb") as file:
                    os.fsync(file.fileno())
            for temporary_path, target in zip(temporary, targets, strict=True):
                _deliver(temporary_path, target)
        except OSError as error:
            for names in zip(paths, targets, temporary, strict=True):
                if _concerns(error, names):
                    raise unwritable(names[0], error) from error
            raise
        finally:
            for temporary_path in temporary:
                with suppress(OSError):
                    temporary_path.unlink(missing_ok=True)


@contextmanager
def atomic_writer(path: StrPath, inputs: Iterable[StrPath] = ()) -> Iterator[TextIO]:
    """Yield a UTF-8 text file that gets its name when it is complete (:func:`replacing`)."""
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
    """Copy the contents of a file (:func:`replacing`)."""
    with replacing(target, inputs=[source]) as (temporary,):
        shutil.copyfile(source, temporary)


def check_output(flag: str, path: StrPath, inputs: Iterable[StrPath] = ()) -> None:
    """Raise GtransError for a file that cannot be written or is one of ``inputs``."""
    _target(Path(path), f"`{flag}` '{os.fspath(path)}'", [Path(name) for name in inputs])


def check_output_folder(flag: str, path: StrPath, inputs: Iterable[StrPath] = ()) -> None:
    """Raise GtransError for a folder that cannot be written or is one of ``inputs``."""
    folder = Path(path)
    what = f"`{flag}` '{os.fspath(path)}'"
    _refuse_inputs(folder, what, [Path(name) for name in inputs], "folder")
    existing = folder
    while not existing.exists():
        existing = existing.absolute().parent
    if not existing.is_dir():
        raise GtransError(f"`{flag}` must be a folder, but '{existing}' is a file.")
    try:
        _check_access(existing)
    except OSError as error:
        raise unwritable(what, error) from None


def check_replaceable(
    flag: str, path: StrPath, is_own: Callable[[Path], bool], force: bool = False
) -> None:
    """Raise GtransError for a file that this program did not write; empty ones do not count.

    ``is_own``: whether this program wrote it; see :func:`begins_with`.
    """
    place = Path(path)
    if force or not is_file(place) or not place.exists():
        return
    try:
        if place.is_dir():
            is_empty = not any(place.iterdir())
        else:
            is_empty = place.stat().st_size == 0
        if is_empty or is_own(place):
            return
    except (OSError, GtransError):
        pass  # what cannot be read is not known to be this program's
    raise GtransError(
        f"`{flag}` '{os.fspath(path)}' exists, and this command did not write it; name another "
        "place, or replace it with --force."
    )


def begins_with(path: Path, *starts: str) -> bool:
    """Return whether a file begins with one of these texts."""
    encoded = tuple(start.encode() for start in starts)
    with open(path, "rb") as file:
        return file.read(max(map(len, encoded))).startswith(encoded)


def is_file(path: StrPath) -> bool:
    """Return whether ``path`` gets a file, and is no device, FIFO or open stream."""
    place = Path(os.path.abspath(path))
    is_special = place.parts[1:2] in (("dev",), ("proc",))
    if is_special and place.parts[1:3] != ("dev", "shm"):
        return False
    try:
        return not place.exists() or place.is_file() or place.is_dir()
    except OSError:
        return True  # the writer will say what is wrong


@contextmanager
def locked(path: StrPath) -> Iterator[None]:
    """Keep other processes and threads from writing a file or into a folder.

    The thread that holds the lock may lock it again. The lock ends with the process. GtransError
    says that another holds it.
    """
    file = Path(os.path.realpath(path))
    name = file.with_name(f".{file.name}.lock")
    if file.is_dir():
        name = file / ".gtrans.lock"
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
    """Return whether two names lead to one file; a terminal does not count."""
    try:
        return left.samefile(other) and not left.is_char_device()
    except OSError:  # there is none yet
        return os.path.realpath(left) == os.path.realpath(other)


def _temporary(target: Path, inputs: list[Path], stack: ExitStack) -> Path:
    """Return a new name beside the target; for a device, in a temporary folder."""
    if not is_file(target):
        return Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="gtrans-")), "output")
    digits = "[0-9a-f]" * 8
    for leftover in target.parent.glob(f".{glob.escape(target.name)}.{digits}.tmp"):
        if not any(_same(leftover, path) for path in inputs):
            leftover.unlink(missing_ok=True)
    return _temporary_name(target)


def _temporary_name(target: Path) -> Path:
    return target.with_name(f".{target.name}.{secrets.token_hex(4)}.tmp")


def _deliver(temporary: Path, target: Path) -> None:
    if not is_file(target):
        # Appended, because the standard output may be a file that already holds something.
        with open(temporary, "rb") as source, open(target, "ab", buffering=0) as sink:
            shutil.copyfileobj(source, sink, _BLOCK)
        return
    if target.exists():
        shutil.copymode(target, temporary)
    os.replace(temporary, target)


def _check_access(path: Path) -> None:
    """Raise OSError for a file or folder that cannot be written."""
    if not os.access(path, os.W_OK):
        read_only = os.statvfs(path).f_flag & os.ST_RDONLY
        raise OSError(errno.EROFS if read_only else errno.EACCES, "")


def _concerns(error: OSError, files: tuple[Path, ...]) -> bool:
    named = False
    for name in (error.filename, error.filename2):  # an error of a copy names both files
        if isinstance(name, str | bytes):
            named = True
            if Path(os.fsdecode(name)) in files:
                return True
    return not named and error.errno is not None and not isinstance(error, _OF_STREAMS)
