"""The feature cache: what it keeps, and that a disk that fails is a warning and nothing more."""

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


def test_what_is_kept_is_found_by_another_process(tmp_path: Path) -> None:
    first, second = (FeatureCache(tmp_path, "a" * 64) for _ in range(2))
    key, features = entry(1)
    assert second.get([key]) == [None]
    first.put({key: features})
    assert torch.equal(first.get([key])[0], features)  # type: ignore[arg-type]
    assert second.get([key]) == [None]
    first.flush()
    assert torch.equal(second.get([key])[0], features)  # type: ignore[arg-type]
    # Another model has other features.
    assert FeatureCache(tmp_path, "b" * 64).get([key]) == [None]


def test_nothing_half_written_is_read(tmp_path: Path) -> None:
    cache = FeatureCache(tmp_path, "a" * 64)
    key, features = entry(1)
    cache.put({key: features})
    cache.flush()
    (shard,) = (tmp_path / ("a" * 32)).glob("*.safetensors")
    # An interruption leaves a temporary file, which is never looked at.
    (shard.parent / f".{shard.name}.tmp").write_bytes(b"half")
    assert FeatureCache(tmp_path, "a" * 64).get([key])[0] is not None
    # A damaged disk is worse: the shard is left out and its entries are computed anew.
    shard.write_bytes(shard.read_bytes()[:-5])
    again = FeatureCache(tmp_path, "a" * 64)
    assert again.get([key]) == [None]
    again.put({key: features})
    again.flush()
    assert again.get([key])[0] is not None


@pytest.mark.parametrize("number", [errno.ENOSPC, errno.EROFS])
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

    kept = FeatureCache(tmp_path, "a" * 64)
    with monkeypatch.context() as patch, caplog.at_level(logging.WARNING):
        patch.setattr(os, call, fail)
        for one in range(3):
            kept.put(dict([entry(one)]))
            kept.flush()
    assert len(caplog.records) == 1
    assert "other features are computed every time" in caplog.text
    assert not [path for path in tmp_path.rglob("*") if path.is_file()]
    assert kept.get([entry(0)[0]]) == [None]
