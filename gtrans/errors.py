"""The one exception for mistakes that a user can mend."""

from __future__ import annotations


class GtransError(ValueError):
    """A user's mistake, told in one line.

    The message names the file and line, or the flag and its value, and the way
    out. ``gtrans`` commands print it as ``gtrans: error: MESSAGE`` and exit with
    status 1; no stack trace is shown.
    """
