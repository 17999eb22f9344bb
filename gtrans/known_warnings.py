"""What libraries warn of and log that says nothing about what a user does."""

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
    """Show of what libraries log the warnings and errors, in a process of this project.

    Set up before fairseq is imported, logging stays so; after it, one of fairseq's modules has
    already made every library show all that it logs.
    """
    logging.basicConfig()
    logging.getLogger().setLevel(logging.WARNING)


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
