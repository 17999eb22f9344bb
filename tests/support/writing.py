"""What tests of written files share."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from gtrans.errors import GtransError
from gtrans.files import atomic_writer

NEW = "complete\n"


def write(path: Path, text: str = NEW, inputs: tuple[Path, ...] = ()) -> None:
    with atomic_writer(path, inputs=inputs) as file:
        file.write(text)


def names(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir())


def refused(work: Callable[[], object], *parts: str) -> None:
    """``work`` ends with one line that has ``parts``."""
    with pytest.raises(GtransError) as caught:
        work()
    message = str(caught.value)
    assert "\n" not in message
    for part in parts:
        assert part in message
