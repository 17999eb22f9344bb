"""Inline markup."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal


@dataclass(frozen=True)
class Mark:
    """Inline markup.

    Attributes:
        kind: the begin or the end of marked text, or a point: something that stands between words
            and has no text to translate, such as an image or code.
        what: what the format writes for it.
        breaks: it ends a line, so that no sentence goes on behind it.
        hidden: a point that readers do not see, such as a comment.
        script: the begin of a sub- or superscript.
    """

    kind: Literal["open", "close", "point"]
    what: Any
    breaks: bool = False
    hidden: bool = False
    script: bool = False

    @property
    def is_seen(self) -> bool:
        """Whether it takes a place of its own between words."""
        return self.kind == "point" and not self.hidden


Content = Sequence[str | Mark]


class Scripts(tuple[str | Mark, ...]):
    """What a sub- or superscript consists of that is a point."""
