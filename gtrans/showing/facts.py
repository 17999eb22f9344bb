"""What is known of a file or a folder."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

_UNKNOWN = "identity unknown: it does not say what it was made from"


@dataclass
class Facts:
    """What is known of a file or a folder.

    Attributes:
        path: as the user named it.
        kind: what it is: ``checkpoint``, ``prepared folder``, ``run folder``, ``translation``.
        facts: by short names; values are text, numbers, None (unknown), lists, or such by names.
        notes: warnings.
    """

    path: str
    kind: str
    facts: dict[str, Any] = field(default_factory=dict)
    notes: list[str] = field(default_factory=list)

    def note_unknown(self) -> None:
        """Note that it does not say what it was made from."""
        self.notes.append(_UNKNOWN)

    def as_json(self) -> dict[str, Any]:
        """All of it as an object for JSON."""
        return {"path": self.path, "kind": self.kind, **self.facts, "notes": self.notes}

    def lines(self) -> list[str]:
        """All of it as text."""
        rows = list(_rows(self.facts))
        width = max((len(name) for name, _ in rows), default=0)
        return [
            f"{self.path}: {self.kind}",
            *(f"  {name.ljust(width)}  {value}" for name, value in rows),
            *(f"  note: {note}" for note in self.notes),
        ]


def _rows(facts: dict[str, Any], before: str = "") -> list[tuple[str, str]]:
    rows = []
    for name, value in facts.items():
        if isinstance(value, dict):
            rows += _rows(value, f"{before}{name} ")
        else:
            rows.append((f"{before}{name}", text_of(value)))
    return rows


def text_of(value: Any) -> str:
    """A value as a reader expects it."""
    if value is None:
        return "unknown"
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, int):
        return f"{value:,}"
    if isinstance(value, float):
        return f"{value:.4g}"
    if isinstance(value, (list, tuple)):
        return ", ".join(map(text_of, value)) or "none"
    return str(value)
