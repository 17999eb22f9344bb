"""The one look-up of the annexes, which nothing else imports."""

from __future__ import annotations

import importlib
from functools import cache
from importlib.util import find_spec
from typing import Any

LAB = "gtrans.lab"
FORMATS = "gtrans.formats.catalogue"


def lab() -> Any:
    """Return the package ``gtrans.lab``, or None."""
    return importlib.import_module(LAB) if find_spec(LAB) is not None else None


def formats() -> Any:
    """Return the module ``gtrans.formats.catalogue``."""
    return importlib.import_module(FORMATS)


@cache
def add_lab_texts() -> None:
    """Let :mod:`gtrans.text.reader` read published test sets."""
    module = lab()
    if module is not None:
        module.add_texts()


def lab_commands() -> dict[str, str]:
    """Return the help of each command of ``gtrans.lab``."""
    return dict(getattr(lab(), "COMMANDS", {}))


def add_lab_readers() -> None:
    """Let :mod:`gtrans.evaluation.contrastive` read published sets."""
    module = lab()
    if module is not None:
        module.add_readers()


def add_lab_columns() -> None:
    """Add the scores of ``gtrans.lab`` to :mod:`gtrans.evaluation.other_scores`."""
    module = lab()
    if module is not None:
        module.add_columns()
