"""The ``gtrans`` command: one entry point, one module per subcommand.

A subcommand is a module ``gtrans.cli.<name>`` (dashes become underscores; what several of them
share is in :mod:`gtrans.cli.shared`), or one of the optional :mod:`gtrans.lab`, with

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

Only the module of the chosen subcommand is imported. Nothing else is imported here before
:func:`main` can answer an interruption.
"""

from __future__ import annotations

import os
import sys

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence
    from types import FrameType

_INTERRUPTION = "gtrans: interrupted"
_INTERRUPTED = 128 + 2  # as a shell reports SIGINT
_BROKEN_PIPE = 128 + 13  # as a shell reports SIGPIPE


def main(argv: Sequence[str] | None = None) -> int:
    """Run ``gtrans ARGV``; returns the exit status."""
    try:
        _end_imports_at_once()
        try:
            try:
                from gtrans.cli.shared.dispatch import dispatch
            except ModuleNotFoundError as error:
                from gtrans.libraries import missing_library

                mistake = missing_library(error)
                if mistake is None:
                    raise
                print(f"gtrans: error: {mistake}", file=sys.stderr)
                return 1
            return dispatch(list(sys.argv[1:] if argv is None else argv))
        finally:
            if sys.stdout is not None:
                sys.stdout.flush()
    except KeyboardInterrupt:
        print(_INTERRUPTION, file=sys.stderr)
        return _INTERRUPTED
    except BrokenPipeError:
        from gtrans.cli.shared.output import discard_output

        discard_output()
        return _BROKEN_PIPE


def _end_imports_at_once() -> None:
    """Let an interruption end the process while modules are imported.

    Some libraries take a KeyboardInterrupt for a missing library and go on half imported. Nothing
    is lost that a kill would not lose.
    """
    import signal
    import threading

    in_main_thread = threading.current_thread() is threading.main_thread()
    if in_main_thread and signal.getsignal(signal.SIGINT) is signal.default_int_handler:
        signal.signal(signal.SIGINT, _interrupt)


def _interrupt(signum: int, frame: FrameType | None) -> None:
    while frame is not None:
        if frame.f_code.co_filename == "<frozen importlib._bootstrap>":
            os.write(2, f"{_INTERRUPTION}\n".encode())
            os._exit(_INTERRUPTED)
        frame = frame.f_back
    raise KeyboardInterrupt
