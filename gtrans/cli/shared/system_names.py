"""Names of the systems whose files are compared."""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path

from gtrans.errors import GtransError


def system_names(arguments: Sequence[str], flag: str = "--hyp") -> dict[str, str]:
    """Return files by the names of systems: NAME of NAME=FILE, or the file's name."""
    names: dict[str, str] = {}
    for argument in arguments:
        name, equals, path = argument.partition("=")
        if not equals or Path(argument).exists():
            name, path = Path(argument).name, argument
        name = re.sub(r"\.gz$", "", name)
        if name in names:
            raise GtransError(
                f"{flag} {names[name]} and {path} have the same name '{name}'; give another one "
                f"with {flag} NAME={path}"
            )
        if not re.fullmatch(r"[\w.+/-]+", name):
            raise GtransError(
                f"{flag} {argument}: '{name}' cannot name a system; take letters, digits, "
                "'.', '+', '-', '/' and '_'"
            )
        names[name] = path
    return names
