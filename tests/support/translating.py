"""What tests of ``gtrans translate`` share."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from gtrans.cli import main
from gtrans.translating import translation, translator

if TYPE_CHECKING:
    from support.tiny_models import TinyWorld


FAST = ("--beam", "2", "--max-len-a", "0", "--max-len-b", "8", "--cpu")


def command(tiny: TinyWorld, *options: str | Path, model: str = "document") -> list[str]:
    path = ":".join(str(tiny.checkpoints[name]) for name in model.split(":"))
    return ["translate", "--path", path, "--data", str(tiny.data), *map(str, options)]


def error(argv: list[str], capsys: pytest.CaptureFixture[str]) -> str:
    """The one line that a command ends with."""
    capsys.readouterr()
    assert main(argv) == 1
    lines = capsys.readouterr().err.strip().split("\n")
    assert lines[-1].startswith("gtrans: error: ")
    return lines[-1]


class Interrupted(BaseException):
    """What ends a run in the tests."""


def interrupt_after(batches: int, monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """Let decoding fail after some batches; the list grows with every batch decoded."""
    decode = translator.Translator.decode
    decoded: list[int] = []

    def stub(self: Any, batch: Any, finished: Any) -> Any:
        if len(decoded) == batches:
            raise Interrupted
        decoded.append(len(batch))
        return decode(self, batch, finished)

    monkeypatch.setattr(translator.Translator, "decode", stub)
    return decoded


def translated_parts(
    argv: list[str], monkeypatch: pytest.MonkeyPatch, most: int | None = None
) -> int:
    """How many parts of documents a command translates; behind ``most`` of them it is ended."""
    add = translation.Translation.add_part
    parts = 0

    def counted(self: Any, *arguments: Any) -> None:
        nonlocal parts
        if parts == most:
            raise Interrupted
        parts += 1
        add(self, *arguments)

    with monkeypatch.context() as patch:
        patch.setattr(translation.Translation, "add_part", counted)
        assert main(argv) == 0
    return parts
