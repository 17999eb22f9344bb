"""The libraries that a command needs besides those that pip installs with this package.

pip installs neither torch nor fairseq by itself (``setup.py`` says why), and the libraries of the
extras only when they are asked for.
"""

from __future__ import annotations

import sys
from collections.abc import Iterable
from importlib.util import find_spec

from gtrans.errors import GtransError
from gtrans.shipped import shipped
from gtrans.version import __version__

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


def require(names: Iterable[str], user: str) -> None:
    """Raises GtransError for the first of ``names`` that is not installed.

    Nothing is imported.

    Args:
        names: libraries, as they are imported.
        user: what needs them: a command, a flag, a file.
    """
    for name in names:
        if find_spec(name) is None:
            raise GtransError(
                f"{user} needs the library {name}, which is not installed; {_way_to(name)}."
            )


def missing_library(error: ModuleNotFoundError) -> str | None:
    """What to say of an import that failed; None if it is not a library that is missing."""
    name = (error.name or "").partition(".")[0]
    if name in {"", "gtrans", *sys.stdlib_module_names} or find_spec(name) is not None:
        return None
    return f"the library {name} is not installed; {_way_to(name)}."


def _way_to(name: str) -> str:
    """How a library is installed, as commands."""
    if name == "torch":
        return f"install the build that fits this machine, or: pip install {_pinned('torch')}"
    if name == "fairseq":
        return (
            f"{_ours('[build]')} && pip install --no-build-isolation --no-deps "
            f"{_pinned('fairseq-fixed')}"
        )
    return _ours(f"[{_EXTRAS[name]}]" if name in _EXTRAS else "")


def _ours(extra: str) -> str:
    """How this project is installed; never by name: `gtrans` on PyPI is another project."""
    if shipped("setup.py").is_file():
        return f"type, in this project's folder: pip install -e '.{extra}'"
    wheel = f"gtrans-{__version__}-py3-none-any.whl"
    return f"type, in the folder of its wheel: pip install '{wheel}{extra}'"


def _pinned(distribution: str) -> str:
    """A distribution with the version that this project is tested with."""
    for line in shipped("requirements.txt").read_text(encoding="utf-8").splitlines():
        if line.partition("==")[0] == distribution:
            return line
    return distribution
