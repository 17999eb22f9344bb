"""The ``gtrans`` command: one entry point, one module per subcommand.

A subcommand is a module ``gtrans.cli.<name>`` (dashes become underscores; what several of them
share is in :mod:`gtrans.cli.shared`) with

* a docstring: the first line is its help, the rest its description;
* ``EXAMPLE``: the command line shown at the end of ``--help``;
* ``add_arguments(parser)`` and ``run(args)``.

A front of one of fairseq's commands has ``hand_over(argv)`` in place of the last two: fairseq
declares the options.

Only the module of the chosen subcommand is imported. Nothing else is imported here before
:func:`main` can answer an interruption.
"""

from __future__ import annotations

import sys

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence

_INTERRUPTED = 128 + 2  # as a shell reports SIGINT
_BROKEN_PIPE = 128 + 13  # as a shell reports SIGPIPE


def main(argv: Sequence[str] | None = None) -> int:
    """Run ``gtrans ARGV``; returns the exit status."""
    try:
        try:
            from gtrans.cli.shared.dispatch import dispatch

            return dispatch(list(sys.argv[1:] if argv is None else argv))
        finally:
            if sys.stdout is not None:
                sys.stdout.flush()
    except KeyboardInterrupt:
        print("gtrans: interrupted", file=sys.stderr)
        return _INTERRUPTED
    except BrokenPipeError:
        _discard_output()
        return _BROKEN_PIPE


def _discard_output() -> None:
    """Keep Python from writing the rest of the output when it ends, which would fail again."""
    import os

    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
