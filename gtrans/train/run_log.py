"""The log that every training keeps in its folder."""

from __future__ import annotations

import logging
import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from logging.handlers import MemoryHandler
from pathlib import Path

LOG = "train.log"
"""The log in a run folder."""
_NEVER = logging.CRITICAL + 1


@contextmanager
def run_log() -> Iterator[None]:
    """Keep logged lines until :func:`open_run_log` says where it belongs; then write it there."""
    root = logging.getLogger()
    handler = MemoryHandler(capacity=sys.maxsize, flushLevel=_NEVER, flushOnClose=False)
    for printed in root.handlers:
        for chosen in printed.filters:
            handler.addFilter(chosen)
    root.addHandler(handler)
    try:
        yield
    finally:
        root.removeHandler(handler)
        if handler.target is not None:
            handler.target.close()
        handler.close()


def open_run_log(folder: Path | None) -> None:
    """Append the log of this process to ``train.log`` in the folder; None: keep no log.

    Where the standard output is that file, it has all lines already.
    """
    root = logging.getLogger()
    for handler in list(root.handlers):
        if not isinstance(handler, MemoryHandler):
            continue
        if folder is None or _is_output(folder / LOG):
            root.removeHandler(handler)
            continue
        file = logging.FileHandler(folder / LOG, encoding="utf-8")
        file.setFormatter(root.handlers[0].formatter)
        handler.setTarget(file)
        handler.flush()
        handler.capacity = 1


def _is_output(path: Path) -> bool:
    with suppress(OSError, ValueError):
        return os.path.samestat(os.fstat(sys.stdout.fileno()), path.stat())
    return False
