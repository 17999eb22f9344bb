"""The exception for mistakes that a user can correct, and the one line that any error becomes."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from difflib import get_close_matches

from gtrans.messages import printable

_WORKER = "ProcessRaisedException"  # torch's, for an exception of a process that fairseq started
_CHOICE = re.compile(r"invalid choice: '(.*)' \(choose from (.*)\)", re.DOTALL)
_LONGEST = 300


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
    if type(error).__name__ == _WORKER:
        last = str(error).rstrip().rpartition("\n")[2]
        return last.removeprefix(kind) if last.startswith(kind) else None
    return None


@contextmanager
def working_on(what: object) -> Iterator[None]:
    """Add the file or option at hand to an unexpected error."""
    try:
        yield
    except Exception as error:
        if not isinstance(error, GtransError):
            error.add_note(str(what))
        raise


def one_line(error: BaseException, otherwise: str = "") -> str:
    """Describe an unexpected error in one line: the file that was read, then the error.

    Args:
        error: the error.
        otherwise: what was read, if the error does not say.
    """
    places = getattr(error, "__notes__", [])
    if isinstance(error, OSError) and error.strerror:
        named = [str(name) for name in (error.filename, error.filename2) if name is not None]
        what = error.strerror
        places = [*places, *(name for name in named if name not in places)]
    elif type(error).__name__ == _WORKER:
        what = str(error).rstrip().rpartition("\n")[2]
    else:
        text = next((line for line in map(str.strip, str(error).splitlines()) if line), "")
        what = f"{type(error).__name__}: {text}" if text else type(error).__name__
    places = places or [otherwise] * bool(otherwise)
    return printable(": ".join([*places, what])[:_LONGEST].rstrip("."))


def did_you_mean(word: str, known: Iterable[str]) -> str:
    """A question for the end of a message about a misspelt word; empty if nothing is like it."""
    close = get_close_matches(word, list(known), 1)
    return f"; did you mean {close[0]}?" if close else ""


def with_suggestion(message: str) -> str:
    """argparse's message about a value that is not among the choices: with the nearest, or all."""
    choice = _CHOICE.search(message)
    hint = "" if choice is None else did_you_mean(choice[1], re.findall(r"'(.*?)'", choice[2]))
    if choice is None or not hint:
        return message
    return f"{message[: choice.start()]}invalid choice: '{choice[1]}'{hint}"
