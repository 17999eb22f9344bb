"""Warnings and log lines of libraries that do not concern the user: hide them."""

from __future__ import annotations

import logging
import warnings
from collections.abc import Iterator
from contextlib import contextmanager

# (category, beginning of the text, module): fairseq calls hydra and torch as their earlier versions
# wanted it, always asks for pinned memory, and asks for half precision on CUDA on a CPU, too.
_KNOWN = (
    (UserWarning, r"\s*(hydra\.experimental|The version_base|The strict flag)", ""),
    (UserWarning, r"\s*'\w+' is validated against ConfigStore", ""),
    (UserWarning, r"In '.*': Usage of deprecated keyword in package header", ""),
    (UserWarning, r"'pin_memory' argument is set|.*CUDA is not available", ""),
    (FutureWarning, r"`torch\.cuda\.amp\.\w+\(args", r"fairseq\."),
    (SyntaxWarning, "invalid escape sequence", r".*[/\\](fairseq|fairseq_cli|sacremoses)[/\\]"),
)


# A task of speech, which fairseq imports with all others, tells everybody to install tensorboardX.
_CHATTY = "fairseq.tasks.text_to_speech"


def hide_known_warnings() -> None:
    """Hide them in this process and in those that it forks; a user's own filter comes first."""
    logging.getLogger(_CHATTY).setLevel(logging.WARNING)
    for category, text, module in _KNOWN:
        warnings.filterwarnings("ignore", text, category, module, append=True)


def log_warnings_only() -> None:
    """Show only warnings and errors of libraries, in a process of this project.

    Call this before fairseq is imported: one of its modules makes every library log everything,
    unless logging is set up already.
    """
    logging.basicConfig()
    logging.getLogger().setLevel(logging.WARNING)


@contextmanager
def logging_as_it_is() -> Iterator[None]:
    """Restore the logging of somebody else's process after fairseq was imported."""
    root = logging.getLogger()
    level, handlers = root.level, list(root.handlers)
    try:
        yield
    finally:
        root.setLevel(level)
        root.handlers[:] = handlers
