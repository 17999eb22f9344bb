"""The exception for mistakes that a user can correct."""

from __future__ import annotations


class GtransError(ValueError):
    """A user's mistake, described in one line.

    The message names the file and line, or the flag and its value, and says what to do. The
    ``gtrans`` commands print it as ``gtrans: error: MESSAGE`` without a stack trace and exit
    with status 1.
    """
