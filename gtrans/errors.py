"""The exception for users' mistakes, and errors as one line."""

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
    """A user's mistake in one line: the file and line, or the flag and its value, and the way out.

    Commands print it as ``gtrans: error: MESSAGE`` and exit with status 1.
    """

    def __init__(self, message: str) -> None:
        super().__init__(printable(message))


def mistake_in(error: BaseException) -> str | None:
    """Return the message of a user's mistake; None for another error.

    An error of a process that fairseq started is torch's ``ProcessRaisedException``.
    """
    if isinstance(error, GtransError):
        return str(error)
    if type(error).__name__ != _WORKER:
        return None
    kind = f"{GtransError.__module__}.{GtransError.__name__}: "
    last = _last_line(error)
    return last.removeprefix(kind) if last.startswith(kind) else None


def _last_line(error: BaseException) -> str:
    return str(error).rstrip().rpartition("\n")[2]


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
    """Describe an unexpected error in one line: the file, then the error.

    ``otherwise``: the file, if the error does not name it.
    """
    places = list(getattr(error, "__notes__", []))
    if isinstance(error, OSError) and error.strerror:
        reason = error.strerror
        for name in (error.filename, error.filename2):
            if name is not None and str(name) not in places:
                places.append(str(name))
    elif type(error).__name__ == _WORKER:
        reason = _last_line(error)
    else:
        reason = type(error).__name__
        lines = str(error).strip().splitlines()
        if lines:
            reason += f": {lines[0].strip()}"
    if not places and otherwise:
        places.append(otherwise)
    line = ": ".join([*places, reason])
    return printable(line[:_LONGEST].rstrip("."))


def did_you_mean(word: str, words: Iterable[str]) -> str:
    """Return a question for the end of a message about a misspelt word, or ""."""
    close = get_close_matches(word, list(words), 1)
    return f"; did you mean {close[0]}?" if close else ""


def with_suggestion(message: str) -> str:
    """Return argparse's message about an invalid choice with the nearest choice, or all."""
    found = _CHOICE.search(message)
    if found is None:
        return message
    word, choices = found[1], re.findall(r"'(.*?)'", found[2])
    hint = did_you_mean(word, choices)
    if not hint:
        return message
    return f"{message[: found.start()]}invalid choice: '{word}'{hint}"
