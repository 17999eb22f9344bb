"""The standard output of a command, when it cannot be written."""

from __future__ import annotations

import errno
import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager

from gtrans.files import unwritable

# Errors of a disk that ``> FILE`` has put behind the standard output.
_OF_DISKS = {errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EIO}


@contextmanager
def standard_output() -> Iterator[None]:
    """Write out what a command prints, and report a full disk in one line.

    Raises:
        GtransError: the standard output cannot be written.
    """
    try:
        yield
        sys.stdout.flush()
    except OSError as error:
        if error.errno not in _OF_DISKS or error.filename is not None:
            raise
        discard_output()
        raise unwritable("the standard output", error) from None


def discard_output() -> None:
    """Keep Python from writing the rest of the output when it ends, which would fail again."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
