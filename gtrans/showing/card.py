"""Model cards: what a reader of a published checkpoint needs, in Markdown."""

from __future__ import annotations

from typing import Any

from gtrans.showing.facts import Facts, text_of

_SECTIONS = (
    ("Model", ("architecture", "parameters", "languages", "symbols", "unit", "options of units")),
    ("Text", ("preparation",)),
    ("Training", ("training", "made from")),
    ("Identity", ("written by", "identity of the dictionaries", "identity", "sha256")),
)


def model_card(found: Facts) -> str:
    """The model card of a checkpoint or of a run folder."""
    name, languages = found.facts.get("architecture"), found.facts.get("languages")
    lines = [f"# {text_of(name)}, {text_of(languages)}", ""]
    lines += [
        "A model for document-level machine translation, trained with gtrans. It carries its "
        "vocabulary and its preparation" + (", except that:" if found.notes else ".")
    ]
    lines += [f"- {note}" for note in found.notes]
    for title, names in _SECTIONS:
        lines += ["", f"## {title}", "", "| | |", "|---|---|"]
        for entry in names:
            lines += _rows(entry, found.facts.get(entry))
    lines += [
        "",
        "## Use",
        "",
        "```",
        f"gtrans translate --path {found.path} --input doc.txt --output out.txt",
        "```",
        "",
        "The input has one sentence per line and an empty line between documents. What the model "
        "was not evaluated on is not said here: texts of other domains than its training data may "
        "be translated badly, and it repeats what is wrong in that data.",
    ]
    return "\n".join(lines)


def _rows(name: str, value: Any) -> list[str]:
    if isinstance(value, dict):
        return [row for key, part in value.items() for row in _rows(f"{name}: {key}", part)]
    return [f"| {name} | {text_of(value)} |"]
