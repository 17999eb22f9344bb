"""The log of a training: what a reader follows by default, all that fairseq logs with --verbose."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from contextlib import contextmanager

# Of fairseq's own lines; those of epochs, updates and validations have loggers of other names.
_SHOWN = (
    "num. shared model params", "training on ", "Loaded checkpoint", "begin training epoch",
    "Saved checkpoint", "Stopping training", "done training",
)  # fmt: skip


@contextmanager
def short_log(verbose: bool) -> Iterator[None]:
    """Leave out lines about fairseq's inside, unless ``verbose``.

    All options and all layers of the model are thousands of characters; a checkpoint has them.
    """
    handlers = [] if verbose else list(logging.getLogger().handlers)
    for handler in handlers:
        handler.addFilter(_is_shown)
    try:
        yield
    finally:
        for handler in handlers:
            handler.removeFilter(_is_shown)


def _is_shown(record: logging.LogRecord) -> bool:
    inside = record.name.startswith("fairseq") and record.levelno <= logging.INFO
    return not inside or str(record.msg).startswith(_SHOWN)
