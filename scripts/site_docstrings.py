"""Shows this project's docstrings to mkdocstrings as Markdown (``mkdocs.yml`` names this file).

It converts ``literals``, references such as ``:class:`a.B``` and simple tables, in which a row with
an empty first cell continues the row above it.
"""

import re
from collections.abc import Iterator, Sequence
from typing import Any

import griffe

_REFERENCE = re.compile(r":(mod|class|func|meth|attr|data|exc):`~?([\w.]+)`")
_EDGE = re.compile(r"(=+)(?:  +=+)+")


def as_markdown(text: str) -> str:
    """A docstring with its tables, references and literals in Markdown."""
    return inline("\n".join(_with_tables(text.split("\n"))))


def inline(text: str) -> str:
    """References and literals of a text as Markdown's."""
    return re.sub(r"``(.+?)``", r"`\1`", _REFERENCE.sub(_referred, text))


def _referred(match: re.Match[str]) -> str:
    """A reference to a module as its file, to anything else in one as its name and the file."""
    kind, path = match.groups()
    if not path.startswith("gtrans."):
        return f"`{path}`"
    if kind == "mod":
        return f"`{path.replace('.', '/')}.py`"
    module, _, name = path.rpartition(".")
    return f"`{name}` in `{module.replace('.', '/')}.py`"


def _with_tables(lines: Sequence[str]) -> Iterator[str]:
    rest = iter(lines)
    for line in rest:
        if _EDGE.fullmatch(line.strip()):
            yield ""
            yield from _table(line, rest)
            yield ""
        else:
            yield line


def _table(edge: str, lines: Iterator[str]) -> Iterator[str]:
    """The rows of a simple table up to its last edge; ``edge`` is the first one."""
    begins = [match.start() for match in re.finditer("=+", edge)]
    ends = [*begins[1:], None]
    rows: list[list[str]] = []
    for line in lines:
        if _EDGE.fullmatch(line.strip()):
            break
        cells = [line[begin:end].strip() for begin, end in zip(begins, ends, strict=True)]
        if cells[0] or not rows:
            rows.append(cells)
        else:
            rows[-1] = [f"{a} {b}".strip() for a, b in zip(rows[-1], cells, strict=True)]
    yield f"|{' |' * len(begins)}"
    yield f"|{' --- |' * len(begins)}"
    for row in rows:
        yield f"| {' | '.join(cell.replace('|', chr(92) + '|') for cell in row)} |"


class Markdown(griffe.Extension):
    """Rewrites every docstring that is read."""

    def on_object(self, *, obj: griffe.Object, **kwargs: Any) -> None:
        """Called for every module, class, function and attribute."""
        if obj.docstring is not None:
            obj.docstring.value = as_markdown(obj.docstring.value)
