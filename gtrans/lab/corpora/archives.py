"""Find the files of a corpus in a folder: as they are, gzipped, or inside archives.

Nothing of an archive is unpacked by its own names: of each file that is wanted, the bytes are
copied to a name that is given here, so a member cannot reach any other place. Links and devices in
an archive count for nothing.
"""

from __future__ import annotations

import gzip
import hashlib
import lzma
import shutil
import tarfile
import zipfile
import zlib
from collections.abc import Collection, Iterable, Iterator, Sequence
from pathlib import Path, PurePosixPath
from typing import IO

from gtrans.errors import GtransError
from gtrans.identity.files import binary_writer

_TAR = (".tgz", ".tar.gz", ".tar", ".tar.bz2", ".tar.xz")
ARCHIVES = (*_TAR, ".zip")
_DEPTH = 3  # of archives inside archives; WIT3's have one
_DAMAGED = (
    *(tarfile.TarError, zipfile.BadZipFile, EOFError, zlib.error, lzma.LZMAError, OSError),
    RuntimeError,  # a zip file with a password
)


class Finder:
    """Looks for files in a folder and in the archives of it.

    A pattern is the end of a path, such as ``IWSLT2017/train.en``; one that begins with ``./`` is a
    file of the folder itself. A folder can be meant as well, by a pattern that ends in ``/``.
    """

    def __init__(self, folder: Path, unpacked: Path) -> None:
        """Make one.

        Args:
            folder: where to look.
            unpacked: a folder for what is found in archives.

        Raises:
            GtransError: there is no such folder.
        """
        if not folder.is_dir():
            raise GtransError(f"`--from` '{folder}': there is no such folder")
        self._folder = folder
        self._unpacked = unpacked
        self._files = sorted(path for path in folder.rglob("*") if path.is_file())
        self._places = [(str(path.absolute()), path) for path in self._files]
        self._archives = [path for path in self._files if path.name.lower().endswith(ARCHIVES)]
        self._taken: dict[str, Path] = {}
        self._origins: dict[str, str] = {}  # in which archive that was, in words

    def find(
        self, wanted: Iterable[Sequence[str]], homes: Collection[str] = ()
    ) -> dict[Sequence[str], Path]:
        """The files or folders that are wanted; those that are nowhere are left out.

        What is not packed counts first, then the archives of ``homes``, then all others.

        Args:
            wanted: the alternatives for each, the best first.
            homes: names of archives that are known to be those of the corpus.

        Raises:
            GtransError: two different files fit a pattern, or an archive cannot be read.
        """
        groups = list(dict.fromkeys(map(tuple, wanted)))
        for pattern in (pattern for group in groups for pattern in group):
            if pattern not in self._taken:
                self._look(pattern)
        for known in (True, False):
            # All of a kind, so that a second file that fits is seen.
            missing = [pattern for group in self._missing(groups) for pattern in group]
            for path in self._archives if missing else ():
                if (path.name in homes) == known:
                    self._open(path, missing, str(path), _DEPTH)
        taken = {
            group: [self._taken[name] for name in group if name in self._taken] for group in groups
        }
        return {group: paths[0] for group, paths in taken.items() if paths}

    def _missing(self, groups: Iterable[tuple[str, ...]]) -> list[tuple[str, ...]]:
        return [group for group in groups if not self._taken.keys() & set(group)]

    def _look(self, pattern: str) -> None:
        """Look for a file or folder that is not packed."""
        if pattern.endswith("/"):
            fits = sorted(
                {p.parent for p in self._files if _fits(f"{p.parent.absolute()}/", pattern)}
            )
        elif pattern.startswith("./"):
            fits = [p for n in ("", ".gz") if (p := self._folder / f"{pattern}{n}").is_file()][:1]
        else:
            fits = [path for place, path in self._places if _fits(place, pattern)]
        if len(fits) > 1 and (pattern.endswith("/") or len({*map(_contents, fits)}) > 1):
            raise _differ(f"'{fits[0]}'", f"'{fits[1]}'", pattern)
        if fits:
            self._taken[pattern] = fits[0]

    def _open(self, path: Path, wanted: Sequence[str], shown: str, depth: int) -> None:
        """Take what is wanted out of an archive, and out of archives inside it."""
        try:
            for name, stream in _members(path):
                base = PurePosixPath(name).name
                fits = [pattern for pattern in wanted if _inside(name, pattern)]
                if base in ("", ".", ".."):
                    continue
                if fits:
                    self._take(fits[0], shown, PurePosixPath(name), stream)
                elif depth > 1 and base.lower().endswith(ARCHIVES):
                    inner = self._unpacked / f"archive-{depth}" / base
                    self._copy(stream, inner)
                    self._open(inner, wanted, f"{shown}: {name}", depth - 1)
                    inner.unlink()
        except _DAMAGED as error:
            raise GtransError(
                f"{shown}: not readable as an archive ({error}); fetch it anew"
            ) from None

    def _take(
        self, pattern: str, archive: str, member: PurePosixPath, stream: IO[bytes]
    ) -> None:
        """Copy a file that is wanted, or one of a folder that is wanted.

        Args:
            pattern: what it fits.
            archive: where it is, in words.
            member: its name there.
            stream: its contents.
        """
        is_folder, base = pattern.endswith("/"), member.name
        origin = f"{archive}: {member.parent if is_folder else member}"
        if pattern not in self._taken:
            folder = self._unpacked / f"{len(self._taken)}"
            self._taken[pattern] = folder if is_folder else folder / base
            self._origins[pattern] = origin
        elif not is_folder:
            other = self._unpacked / "other" / base
            self._copy(stream, other)
            if _contents(other) != _contents(self._taken[pattern]):
                raise _differ(self._origins[pattern], origin, pattern)
            return
        elif origin != self._origins[pattern]:
            raise _differ(self._origins[pattern], origin, pattern)
        target = self._taken[pattern]
        self._copy(stream, target / base if is_folder else target)

    @staticmethod
    def _copy(stream: IO[bytes], target: Path) -> None:
        target.parent.mkdir(parents=True, exist_ok=True)
        with binary_writer(target) as file:
            shutil.copyfileobj(stream, file, 1 << 20)


def _differ(first: str, second: str, pattern: str) -> GtransError:
    return GtransError(
        f"{first} and {second} differ, and both could be {pattern}; leave one in `--from`"
    )


def _members(path: Path) -> Iterator[tuple[str, IO[bytes]]]:
    """Name and contents of every file in an archive, once through."""
    if path.name.lower().endswith(".zip"):
        with zipfile.ZipFile(path) as packed:
            for entry in packed.infolist():
                if not entry.is_dir():
                    with packed.open(entry) as stream:
                        yield entry.filename, stream
        return
    with tarfile.open(path, "r|*") as archive:
        for member in archive:
            found = archive.extractfile(member) if member.isreg() else None
            if found is not None:
                yield member.name, found


def _fits(path: str, pattern: str) -> bool:
    """Whether a path ends in a pattern, gzipped or not."""
    return path.endswith((f"/{pattern}", f"/{pattern}.gz"))


def _inside(name: str, pattern: str) -> bool:
    """Whether a member of an archive is what a pattern asks for, or in the folder it asks for."""
    if pattern.endswith("/"):
        return _fits(f"/{PurePosixPath(name).parent}/", pattern)
    return not pattern.startswith("./") and _fits(f"/{name}", pattern)


def _contents(path: Path) -> str:
    """Digest of what is in a file, unpacked, to tell whether two are the same."""
    found = hashlib.sha256()
    try:
        with gzip.open(path) if path.name.endswith(".gz") else open(path, "rb") as file:
            while block := file.read(1 << 20):
                found.update(block)
    except _DAMAGED as error:
        raise GtransError(f"{path}: cannot be read ({error}); fetch it anew") from None
    return found.hexdigest()
