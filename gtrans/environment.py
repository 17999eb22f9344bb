"""The environment of commands: files of the project, libraries, warnings, plugin.

Importing it imports neither torch nor fairseq.
"""

from __future__ import annotations

import logging
import os
import sys
import warnings
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from functools import cache
from importlib.util import find_spec
from pathlib import Path

from gtrans.errors import GtransError
from gtrans.version import __version__

_PACKAGE = Path(__file__).resolve().parent
_IN_WHEEL = _PACKAGE / "project_files"

_UNSAFE = "TORCH_FORCE_NO_WEIGHTS_ONLY_LOAD"

ENGINE = ("torch", "fairseq")
"""Libraries for all commands that read or make a model or a binarised corpus."""

# Library -> the extra that brings it.
_EXTRAS = {
    "transformers": "bert",
    "sentencepiece": "mbart",
    "safetensors": "mbart",
    "matplotlib": "plots",
    "jieba": "zh",
    "snakemake": "experiments",
    "tensorboardX": "tensorboard",
    "lxml": "documents",
    "markdown_it": "documents",
    "mdit_py_plugins": "documents",
    "sentencex": "documents",
}

# (category, beginning of the text, module): fairseq calls hydra and torch as their earlier versions
# wanted it, always asks for pinned memory, and asks for half precision on CUDA on a CPU, too.
_KNOWN_WARNINGS = (
    (UserWarning, r"\s*(hydra\.experimental|The version_base|The strict flag)", ""),
    (UserWarning, r"\s*'\w+' is validated against ConfigStore", ""),
    (UserWarning, r"In '.*': Usage of deprecated keyword in package header", ""),
    (UserWarning, r"'pin_memory' argument is set|.*CUDA is not available", ""),
    (FutureWarning, r"`torch\.cuda\.amp\.\w+\(args", r"fairseq\."),
    (SyntaxWarning, "invalid escape sequence", r".*[/\\](fairseq|fairseq_cli|sacremoses)[/\\]"),
)

# A task of speech, which fairseq imports with all others, tells everybody to install tensorboardX.
_CHATTY = "fairseq.tasks.text_to_speech"


def project_file(name: str) -> Path:
    """Return the path of a file that is not code, such as ``configs``."""
    return (_IN_WHEEL if _IN_WHEEL.is_dir() else _PACKAGE.parent) / name


# ---- safety --------------------------------------------------------------------------------------


def check_environment() -> None:
    """Raise GtransError if torch would run code in checkpoints.

    Some functions of fairseq do not ask torch for ``weights_only=True``.
    """
    value = os.environ.get(_UNSAFE, "0")
    if value.lower() in ("1", "y", "yes", "true"):  # the values that torch knows
        raise GtransError(
            f"the environment has {_UNSAFE}={value}, with which torch runs code that is in a "
            f"checkpoint; unset {_UNSAFE}."
        )


# ---- libraries -----------------------------------------------------------------------------------


def require(names: Iterable[str], user: str) -> None:
    """Raise GtransError for the first of these libraries that is not installed.

    ``user``: the command, flag or file that needs them.
    """
    for name in names:
        if find_spec(name) is None:
            raise GtransError(
                f"{user} needs the library {name}, which is not installed; {_way_to(name)}."
            )


def missing_library(error: ModuleNotFoundError) -> str | None:
    """Return the message for a failed import; None if no library is missing."""
    name = (error.name or "").partition(".")[0]
    if name in {"", "gtrans", *sys.stdlib_module_names} or find_spec(name) is not None:
        return None
    return f"the library {name} is not installed; {_way_to(name)}."


def _way_to(name: str) -> str:
    if name == "torch":
        return f"install the build that fits this machine, or: pip install {_pinned('torch')}"
    if name == "fairseq":
        return (
            f"{_ours('[build]')} && pip install --no-build-isolation --no-deps "
            f"{_pinned('fairseq-fixed')}"
        )
    return _ours(f"[{_EXTRAS[name]}]" if name in _EXTRAS else "")


def _ours(extra: str) -> str:
    """Return how to install this project; never by name: `gtrans` on PyPI is another project."""
    if project_file("setup.py").is_file():
        return f"type, in this project's folder: pip install -e '.{extra}'"
    wheel = f"gtrans-{__version__}-py3-none-any.whl"
    return f"type, in the folder of its wheel: pip install '{wheel}{extra}'"


def _pinned(distribution: str) -> str:
    for line in project_file("requirements.txt").read_text(encoding="utf-8").splitlines():
        if line.partition("==")[0] == distribution:
            return line
    return distribution


# ---- warnings ------------------------------------------------------------------------------------


def hide_known_warnings() -> None:
    """Hide warnings of libraries that do not concern the user; a user's own filter comes first."""
    logging.getLogger(_CHATTY).setLevel(logging.WARNING)
    for category, text, module in _KNOWN_WARNINGS:
        warnings.filterwarnings("ignore", text, category, module, append=True)


def log_warnings_only() -> None:
    """Show only warnings and errors of libraries.

    Call this before fairseq is imported, which makes every library log everything.
    """
    logging.basicConfig()
    logging.getLogger().setLevel(logging.WARNING)


@contextmanager
def logging_as_it_is() -> Iterator[None]:
    """Restore the logging of another program after fairseq was imported."""
    root = logging.getLogger()
    level, handlers = root.level, list(root.handlers)
    try:
        yield
    finally:
        root.setLevel(level)
        root.handlers[:] = handlers


# ---- the plugin ----------------------------------------------------------------------------------


@cache
def import_plugin() -> None:
    """Register all tasks and models, as ``--user-dir`` does for fairseq's commands."""
    from fairseq.models import import_models
    from fairseq.tasks import import_tasks

    import_tasks(str(_PACKAGE / "tasks"), "gtrans.tasks")
    import_models(str(_PACKAGE / "models"), "gtrans.models")
