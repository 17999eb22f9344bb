"""The feature cache on a disk that fails: a warning, and everything is computed as without it."""

from __future__ import annotations

import errno
import logging
import os
from pathlib import Path

import pytest
import torch
from torch import Tensor

from gtrans.data.feature_cache import FeatureCache


def entry(number: int) -> tuple[str, Tensor]:
    return FeatureCache.key(torch.tensor([number])), torch.full((4, 8), number).half()


def cache(folder: Path) -> FeatureCache:
    return FeatureCache(folder, "a" * 64, 1 << 20)


@pytest.mark.parametrize("number", [errno.ENOSPC, errno.EROFS, errno.EPERM, errno.EIO])
@pytest.mark.parametrize("call", ["mkdir", "fsync", "replace"])
def test_what_cannot_be_written_is_one_warning(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
    number: int,
    call: str,
):
    def fail(*_: object, **__: object) -> None:
        raise OSError(number, os.strerror(number))

    kept = cache(tmp_path)
    with monkeypatch.context() as patch, caplog.at_level(logging.WARNING):
        patch.setattr(os, call, fail)
        for one in range(3):
            kept.put(dict([entry(one)]))
            kept.flush()
    assert len(caplog.records) == 1
    assert "other features are computed every time" in caplog.text
    assert not [path for path in tmp_path.rglob("*") if path.is_file()]
    assert kept.get([entry(0)[0]]) == [None]


def test_a_cache_that_is_only_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    """What others have computed is used, although it cannot be marked as used."""
    key, features = entry(1)
    writer = cache(tmp_path)
    writer.put({key: features})
    writer.flush()

    def fail(*_: object, **__: object) -> None:
        raise OSError(errno.EROFS, os.strerror(errno.EROFS))

    monkeypatch.setattr(os, "utime", fail)
    (found,) = cache(tmp_path).get([key])
    assert found is not None and torch.equal(found, features)
