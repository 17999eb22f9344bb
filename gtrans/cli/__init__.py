"""The ``gtrans`` command: one entry point, one module per subcommand.

A subcommand is a module ``gtrans.cli.<name>`` (dashes become underscores; what several of them
share is in :mod:`gtrans.cli.shared`) with

* a docstring: the first line is its help, the rest its description;
* ``EXAMPLE``: the command line shown at the end of ``--help``;
* ``NEEDS``: the libraries without which it does nothing (:mod:`gtrans.libraries`);
* ``add_arguments(parser)`` and ``run(args)``.

With a constant ``PASSES_ON``, which says to whom, what follows ``--`` is not read but is
``args.passed_on``.

A front of one of fairseq's commands has ``hand_over(argv)`` in place of ``add_arguments`` and
``run``: fairseq declares the options.

A command that does several things has ``PARTS``, words by which they are chosen, with their help;
each is a module like that of a subcommand, in the package ``PARTS_IN``.

Only the module of the chosen subcommand is imported. Every command has ``--verbose``: whatever ends
it is one line without, and with it the stack trace comes first.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from itertools import pairwise

from gtrans.cli.shared import VERBOSE

_INTERRUPTED = 128 + 2  # as a shell reports SIGINT
_BROKEN_PIPE = 128 + 13  # as a shell reports SIGPIPE


def main(argv: Sequence[str] | None = None) -> int:
    """Run ``gtrans ARGV``; returns the exit status."""
    words = list(sys.argv[1:] if argv is None else argv)
    try:
        from gtrans.cli.shared.dispatch import dispatch

        try:
            dispatch(words)
        finally:
            if sys.stdout is not None:
                sys.stdout.flush()
    except KeyboardInterrupt:
        print("gtrans: interrupted", file=sys.stderr)
        return _INTERRUPTED
    except BrokenPipeError:
        from gtrans.cli.shared.output import discard_output

        discard_output()
        return _BROKEN_PIPE
    except Exception as error:
        return _failed(error, words)
    return 0


def _at_hand(words: Sequence[str]) -> str:
    """The command and the files that it was given, for an error that names none."""
    named = [
        f"{before} {word}" if before.startswith("-") else word
        for before, word in pairwise(words)
        if os.path.exists(word)
    ]
    return " ".join(["gtrans", *words[:1], *named[:3]])


def _failed(error: Exception, words: Sequence[str]) -> int:
    """Say in one line what has ended a command; returns the exit status."""
    from gtrans.errors import mistake_in, one_line
    from gtrans.libraries import missing_library

    mistake = mistake_in(error)
    if mistake is None and isinstance(error, ModuleNotFoundError):
        mistake = missing_library(error)
    if mistake is None:
        if VERBOSE in words:
            import traceback

            traceback.print_exception(error)
        way_out = "" if VERBOSE in words else f" ({VERBOSE} shows where)"
        mistake = f"{one_line(error, _at_hand(words))}{way_out}"
    print(f"gtrans: error: {mistake}", file=sys.stderr)
    return 1
