"""Warnings of libraries that say nothing about what a user does, and that are not shown.

Each is named by its category and text, and by the module that it is about where torch or fairseq
warn. All others are shown. A filter of the user's own (``python -W``, ``PYTHONWARNINGS``) comes
first.
"""

from __future__ import annotations

import logging
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from typing import NamedTuple


class KnownWarning(NamedTuple):
    """A warning that is not shown.

    Attributes:
        category: its class.
        message: regular expression of its text, from the beginning.
        module: regular expression of the module that it is about; empty: any.
        reason: why users need not read it.
    """

    category: type[Warning]
    message: str
    module: str
    reason: str


_OLD_HYDRA = "fairseq calls hydra as its version 1.0 wanted it; hydra still does what it should"
_OLD_TORCH = "fairseq calls torch as its earlier versions wanted it; torch still does the same"

KNOWN = (
    KnownWarning(
        UserWarning, r"hydra\.experimental\.\w+\(\) is no longer experimental", "", _OLD_HYDRA
    ),
    KnownWarning(UserWarning, r"\nThe version_base parameter is not specified", "", _OLD_HYDRA),
    KnownWarning(
        UserWarning, r"In '.*': Usage of deprecated keyword in package header", "", _OLD_HYDRA
    ),
    KnownWarning(
        UserWarning, r"\n?'\w+' is validated against ConfigStore schema with", "", _OLD_HYDRA
    ),
    KnownWarning(
        UserWarning, r"\nThe strict flag in the compose API is deprecated", "", _OLD_HYDRA
    ),
    KnownWarning(
        UserWarning, r"'pin_memory' argument is set as true but no accelerator is found",
        r"torch\.utils\.data", "fairseq always sets it; without a GPU it does nothing",
    ),
    KnownWarning(
        FutureWarning, r"`torch\.cuda\.amp\.\w+\(args\.\.\.\)` is deprecated", r"fairseq\.",
        _OLD_TORCH,
    ),
    KnownWarning(
        UserWarning, r"(User provided device_type of 'cuda', but )?CUDA is not available", "",
        "under --amp fairseq asks for half precision on CUDA, on a CPU this plugin for bf16",
    ),
    KnownWarning(
        SyntaxWarning, r"invalid escape sequence", r".*[/\\](fairseq|fairseq_cli|sacremoses)[/\\]",
        "text constants that Python 3.12 wants to be written in another way",
    ),
)  # fmt: skip

# Loggers, each with the beginning of a line that says nothing either: what a task that nobody uses
# would need, and that `gtrans train` and `gtrans generate` have imported the plugin themselves.
_LINES = {
    "fairseq.tasks.text_to_speech": "Please install tensorboardX",
    "fairseq.utils": "--user-dir=",
}


def hide_known_warnings() -> None:
    """Hide them in this process and in those that it forks."""
    for known in KNOWN:
        warnings.filterwarnings("ignore", known.message, known.category, known.module, append=True)
    for name in _LINES:
        logging.getLogger(name).addFilter(_is_new)


def log_warnings_only() -> None:
    """Show of what libraries log the warnings and errors, in a process of this project.

    To be called before fairseq is imported: one of its modules makes every library show all that it
    logs, unless logging has been set up before.
    """
    logging.basicConfig(level=logging.WARNING)


@contextmanager
def logging_as_it_is() -> Iterator[None]:
    """Take back how an import of fairseq sets up logging, in a process of somebody else."""
    root = logging.getLogger()
    level, handlers = root.level, list(root.handlers)
    try:
        yield
    finally:
        root.setLevel(level)
        root.handlers[:] = handlers


def _is_new(record: logging.LogRecord) -> bool:
    return not str(record.msg).startswith(_LINES[record.name])
