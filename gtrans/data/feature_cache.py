"""A cache of features of texts on disk, with a size limit, which several processes may share.

A folder holds a subfolder for each model, named by its fingerprint. In it are files (shards) in
the safetensors format, each with many entries. A shard is written under a temporary name,
renamed when it is complete, and never changed. So an interruption loses only entries that have
not been written, and any number of processes can read and write at the same time.

The limit is that of the whole folder. If a new shard does not fit, shards that nobody has used
since this process began are deleted, the longest unused ones first. If that is not enough, the
new shard is not written: an epoch reads every entry once, so deleting entries of this epoch to
keep others would help nobody. What cannot be written, because the disk is full or read-only, is
computed again; that is a warning and ends no training. A shard that is damaged is deleted. One that
cannot be read for another reason, such as too many open files, is left as it is, and is an error.
"""

from __future__ import annotations

import hashlib
import logging
import os
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

from torch import Tensor

from gtrans.errors import GtransError
from gtrans.files import replacing

logger = logging.getLogger(__name__)

_SHARD_BYTES = 32 << 20
_ENTRY_BYTES = 128  # size of an entry's name and offset in its shard
_SUFFIX = ".safetensors"
# Temporary files and locks that are older than this belong to processes that have ended.
_TEMPORARY_SECONDS = 3600


class FeatureCache:
    """The features of one model in a folder that several models may share."""

    def __init__(self, folder: Path, model: str, limit: int) -> None:
        """``model``: its fingerprint; ``limit``: bytes of the whole folder (0: no cache)."""
        self._root = folder
        self._folder = folder / model[:32]
        self._limit = limit
        self._begin = time.time()
        self._shards: dict[str, Any] = {}
        self._shard_of_key: dict[str, Any] = {}
        self._pending: dict[str, Tensor] = {}
        self._pending_bytes = 0
        self._number = 0
        self._seen: int | None = None
        self._full = False

    @staticmethod
    def key(row: Tensor) -> str:
        """The key of a row ``(length,)`` of ids."""
        return hashlib.sha256(row.numpy().tobytes()).hexdigest()[:32]

    def get(self, keys: Sequence[str]) -> list[Tensor | None]:
        """The features of ``keys``; None for those that are not in the cache."""
        features = [self._entry(key) for key in keys]
        if any(entry is None for entry in features) and self._limit and self._discover():
            features = [self._entry(key) for key in keys]
        return features

    def _entry(self, key: str) -> Tensor | None:
        shard = self._shard_of_key.get(key)
        if shard is None:
            return self._pending.get(key)
        tensor: Tensor = shard.get_tensor(key)
        return tensor

    def put(self, entries: Mapping[str, Tensor]) -> None:
        """Add entries; :meth:`flush` writes them, or a later :meth:`put` when many have come.

        What is put together is written together, so a run that is killed and goes on finds the
        features of all rows of a batch or of none, and computes them in the same batches.
        """
        if not self._limit or self._full:
            return
        for key, features in entries.items():
            if key not in self._pending:
                self._pending[key] = features
                self._pending_bytes += features.numel() * features.element_size() + _ENTRY_BYTES
        if self._pending_bytes >= min(_SHARD_BYTES, self._limit // 8):
            self.flush()

    def flush(self) -> None:
        """Write all entries that are not on disk yet."""
        if not self._pending:
            return
        from safetensors import SafetensorError

        pending, size = self._pending, self._pending_bytes
        self._pending, self._pending_bytes = {}, 0
        try:
            if self._make_room(size):
                self._write(pending)
                return
            reason = f"it is full ({self._limit >> 20} MB)"
        except (GtransError, OSError, SafetensorError) as error:
            reason = str(error)  # a full disk, a folder without permission, ..
        self._full = True
        logger.warning(
            "nothing more goes into the feature cache %s, other features are computed every time: "
            "%s",
            self._root,
            reason,
        )

    def _write(self, entries: dict[str, Tensor]) -> None:
        from safetensors.torch import save_file

        self._folder.mkdir(parents=True, exist_ok=True)
        self._number += 1
        path = self._folder / f"{os.getpid()}-{time.time_ns()}-{self._number}{_SUFFIX}"
        with replacing(path) as (temporary,):
            save_file(entries, temporary)
        self._open(path)

    def _discover(self) -> bool:
        """Open shards that are new in the folder; returns whether there are any."""
        try:
            changed = self._folder.stat().st_mtime_ns
        except OSError:  # there is none, or it cannot be read
            return False
        if changed == self._seen:
            return False
        try:
            found = list(self._folder.glob(f"[!.]*{_SUFFIX}"))
        except OSError as error:
            raise _unreadable(self._folder, error) from error
        fresh = [path for path in found if path.name not in self._shards]
        opened = [self._open(path) for path in sorted(fresh)]
        self._seen = changed
        return any(opened)

    def _open(self, path: Path) -> bool:
        """Open a shard; returns whether there are entries in it.

        Raises:
            GtransError: it is there and cannot be read, but is not damaged.
        """
        from safetensors import SafetensorError, safe_open

        try:
            shard: Any = safe_open(path, framework="pt")
            keys = list(shard.keys())
        except SafetensorError as error:  # its contents are damaged
            logger.warning("%s is left out of the feature cache: %s", path, error)
            with suppress(OSError):
                path.unlink()
            return False
        except Exception as error:
            if not path.exists():  # deleted by another process
                return False
            # safetensors calls every file that it cannot open missing.
            raise _unreadable(path, _obstacle(path) or error) from error
        with suppress(OSError):  # the cache may be read-only
            os.utime(path)  # marks it as used
        self._shards[path.name] = shard
        self._shard_of_key.update(dict.fromkeys(keys, shard))
        return True

    def _make_room(self, size: int) -> bool:
        for path in self._root.glob("*/.*"):
            with suppress(FileNotFoundError):  # another process has just ended
                if path.stat().st_mtime < time.time() - _TEMPORARY_SECONDS:
                    path.unlink()
        shards = []
        for path in self._root.glob(f"*/*{_SUFFIX}"):
            try:
                stat = path.stat()
            except FileNotFoundError:
                continue
            shards.append((stat.st_mtime, stat.st_size, path))
        total = sum(used for _, used, _ in shards) + size
        for last, used, path in sorted(shards):
            if total <= self._limit:
                break
            if last < self._begin and path.name not in self._shards:
                path.unlink(missing_ok=True)
                total -= used
        return total <= self._limit


def _obstacle(path: Path) -> OSError | None:
    """Why a file cannot be opened; None if it can."""
    try:
        path.open("rb").close()
    except OSError as error:
        return error
    return None


def _unreadable(path: Path, reason: Exception) -> GtransError:
    return GtransError(
        f"{path}: the feature cache cannot be read ({reason}); nothing in it is lost: raise the "
        "limit (ulimit) or give rights, or choose another --bert-cache."
    )
