"""The exception for mistakes that a user can correct, and how it is told from others."""

from __future__ import annotations

from gtrans.messages import printable


class GtransError(ValueError):
    """A user's mistake, described in one line.

    The message names the file and line, or the flag and its value, and says what to do. The
    ``gtrans`` commands print it as ``gtrans: error: MESSAGE`` without a stack trace and exit
    with status 1. Control characters in names and values are escaped.
    """

    def __init__(self, message: str) -> None:
        super().__init__(printable(message))


def mistake_in(error: BaseException) -> str | None:
    """The user's mistake that ``error`` is about; None if it is about something else.

    A worker that fairseq has started on another device cannot raise its exception here: torch
    raises a ``ProcessRaisedException`` whose text ends with the worker's exception.
    """
    if isinstance(error, GtransError):
        return str(error)
    kind = f"{GtransError.__module__}.{GtransError.__name__}: "
    if type(error).__name__ == "ProcessRaisedException":
        _, _, last = str(error).rstrip().rpartition("\n")
        return last.removeprefix(kind) if last.startswith(kind) else None
    return None
