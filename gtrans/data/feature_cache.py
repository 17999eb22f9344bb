"""A cache of features of texts on disk.

Each model has a subfolder, named by its fingerprint, with shards in the safetensors format. Shards
are renamed when complete and never changed, so any number of processes can read and write. A full
disk or a damaged shard is a warning.
"""

from __future__ import annotations

import hashlib
import logging
import os
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from torch import Tensor

from gtrans.errors import GtransError
from gtrans.files import replacing

logger = logging.getLogger(__name__)

_SHARD_BYTES = 32 << 20
_SUFFIX = ".safetensors"


class FeatureCache:
    """The features of one model."""

    def __init__(self, folder: Path, model: str) -> None:
        """``model``: its fingerprint."""
        self._folder = folder / model[:32]
        self._shards: dict[str, Any] = {}
        self._shard_of_key: dict[str, Any] = {}
        self._pending: dict[str, Tensor] = {}
        self._pending_bytes = 0
        self._seen: int | None = None
        self._failed = False

    @staticmethod
    def key(row: Tensor) -> str:
        """Return the key of a row ``(length,)`` of ids."""
        return hashlib.sha256(row.numpy().tobytes()).hexdigest()[:32]

    def get(self, keys: Sequence[str]) -> list[Tensor | None]:
        """Return the features of ``keys``; None if not in the cache."""
        features = [self._entry(key) for key in keys]
        if any(entry is None for entry in features) and self._discover():
            features = [self._entry(key) for key in keys]
        return features

    def _entry(self, key: str) -> Tensor | None:
        shard = self._shard_of_key.get(key)
        if shard is None:
            return self._pending.get(key)
        tensor: Tensor = shard.get_tensor(key)
        return tensor

    def put(self, entries: Mapping[str, Tensor]) -> None:
        """Add entries, which are written when there are many, or by :meth:`flush`.

        Entries of one call are in one shard, so a resumed run computes the same batches.
        """
        if self._failed:
            return
        for key, features in entries.items():
            if key not in self._pending:
                self._pending[key] = features
                self._pending_bytes += features.nbytes
        if self._pending_bytes >= _SHARD_BYTES:
            self.flush()

    def flush(self) -> None:
        """Write the entries that are not on disk yet."""
        if not self._pending:
            return
        from safetensors import SafetensorError
        from safetensors.torch import save_file

        pending, self._pending, self._pending_bytes = self._pending, {}, 0
        path = self._folder / f"{os.getpid()}-{time.time_ns()}{_SUFFIX}"
        try:
            self._folder.mkdir(parents=True, exist_ok=True)
            with replacing(path) as (temporary,):
                save_file(pending, temporary)
            self._open(path)
        except (GtransError, OSError, SafetensorError) as error:  # a full disk, no permission, ..
            self._failed = True
            logger.warning(
                "nothing more goes into the feature cache %s, other features are computed every "
                "time: %s",
                self._folder.parent,
                error,
            )

    def _discover(self) -> bool:
        """Open new shards; return whether there are any."""
        changed = self._folder.stat().st_mtime_ns if self._folder.is_dir() else None
        if changed == self._seen:
            return False
        self._seen = changed
        paths = sorted(self._folder.glob(f"[!.]*{_SUFFIX}"))
        opened = [self._open(path) for path in paths if path.name not in self._shards]
        return any(opened)

    def _open(self, path: Path) -> bool:
        from safetensors import SafetensorError, safe_open

        try:
            shard: Any = safe_open(path, framework="pt")
            keys = list(shard.keys())
        except SafetensorError as error:  # its contents are damaged
            logger.warning("%s is left out of the feature cache: %s", path, error)
            shard, keys = None, []
        except OSError as error:  # too many open files, no permission
            raise GtransError(
                f"{path}: the feature cache cannot be read ({error}); raise the limit (ulimit), "
                "give rights, or choose another --bert-cache."
            ) from error
        self._shards[path.name] = shard
        self._shard_of_key.update(dict.fromkeys(keys, shard))
        return bool(keys)
