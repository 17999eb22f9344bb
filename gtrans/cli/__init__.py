"""The ``gtrans`` command: one entry point, one module per subcommand.

A subcommand is a module ``gtrans.cli.NAME``, imported when it is chosen, with

* its help as docstring, and ``EXAMPLE``, a command line for the help;
* ``NEEDS``, libraries that it needs (:mod:`gtrans.environment`);
* ``add_arguments(parser)`` and ``run(args)``, or ``hand_over(argv)`` if it reads its own options;
* ``PASSES_ON`` if the words behind ``--`` become ``args.passed_on``;
* ``PARTS`` and ``PARTS_IN``: modules of its parts, and their package.
"""

from __future__ import annotations

import errno
import os
import sys
from collections.abc import Sequence

from gtrans.cli.shared import VERBOSE

_INTERRUPTED = 128 + 2  # as a shell reports SIGINT
_BROKEN_PIPE = 128 + 13  # as a shell reports SIGPIPE
_KEEPS_WORK = ("prepare", "train", "adapt", "reproduce")
# Errors of a disk that ``> FILE`` has put behind the standard output.
_FULL = {errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EIO}


def main(argv: Sequence[str] | None = None) -> int:
    """Run ``gtrans ARGV``; return the exit status."""
    words = list(sys.argv[1:] if argv is None else argv)
    try:
        from gtrans.cli.shared.dispatch import dispatch

        try:
            dispatch(words)
        finally:
            if sys.stdout is not None:
                sys.stdout.flush()
    except KeyboardInterrupt:
        print(f"gtrans: interrupted{_way_on(words)}", file=sys.stderr)
        return _INTERRUPTED
    except BrokenPipeError:
        _discard_output()
        return _BROKEN_PIPE
    except Exception as error:
        print(f"gtrans: error: {_message(error, words)}", file=sys.stderr)
        return 1
    return 0


def _way_on(words: Sequence[str]) -> str:
    command = next((word for word in words if not word.startswith("-")), "")
    keeps = command in _KEEPS_WORK
    if command == "translate":  # it prints where no file is named
        keeps = any(word.startswith("--output") for word in words)
    return "; the same command goes on with what is done" if keeps else ""


def _message(error: Exception, words: Sequence[str]) -> str:
    """Return the error that ended a command, in one line."""
    from gtrans.environment import missing_library
    from gtrans.errors import mistake_in, one_line

    mistake = mistake_in(error)
    if isinstance(error, OSError) and error.errno in _FULL and error.filename is None:
        from gtrans.files import unwritable

        _discard_output()
        mistake = str(unwritable("the standard output", error))
    elif mistake is None and isinstance(error, ModuleNotFoundError):
        mistake = missing_library(error)
    if mistake is not None:
        return mistake
    line = one_line(error, " ".join(["gtrans", *words[:1]]))
    if VERBOSE not in words:
        return f"{line} ({VERBOSE} shows where)"
    import traceback

    traceback.print_exception(error)
    return line


def _discard_output() -> None:
    """Keep Python from writing the rest of the output at exit, which would fail."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
