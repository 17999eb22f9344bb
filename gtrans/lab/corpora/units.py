"""News Commentary as CASMACAT distributes it: XLIFF, or a file for each article.

The XLIFF file of v11 has 242,770 units ``<trans-unit>`` with ``<source>`` and ``<target>``, some
without end tags, and tells of no articles. ``aligned.tgz`` has the articles as files of the same
name in two folders of a pair.
"""

from __future__ import annotations

from pathlib import Path

from gtrans.errors import GtransError
from gtrans.lab.corpora.lines import read_lines
from gtrans.lab.corpora.markup import Markup
from gtrans.lab.corpora.pairs import Pair, Pairs
from gtrans.languages import language_code


class _Units(Markup[Pair | tuple[str, str]]):
    """Pairs, and at each ``<file>`` its languages."""

    tags = frozenset({"file", "body", "xliff", "trans-unit", "source", "target"})

    def __init__(self, path: Path) -> None:
        super().__init__(path)
        self._side = ""
        self._sides: dict[str, str] = {}

    def open_tag(self, tag: str, attributes: dict[str, str]) -> None:
        """A file, a unit or one side of it begins."""
        self._end_side()
        if tag in ("file", "trans-unit"):
            self.finish()
        if tag == "file":
            names = (attributes.get("source-language"), attributes.get("target-language"))
            self.found.append((names[0] or "", names[1] or ""))
        elif tag in ("source", "target"):
            self._side = tag
            self.begin_text()

    def close_tag(self, tag: str) -> None:
        """The same, at an end tag."""
        self._end_side()
        if tag not in ("source", "target"):
            self.finish()

    def finish(self) -> None:
        """A unit is complete."""
        self._end_side()
        if self._sides:
            sides = (self._sides.get("source", ""), self._sides.get("target", ""))
            self.found.append(Pair(*sides, ((self.path, self._begin),)))
        self._sides = {}

    def _end_side(self) -> None:
        text = self.end_text()
        if text is not None:
            self._sides[self._side] = text


def read_units(path: Path, source_lang: str, target_lang: str) -> Pairs:
    """The pairs of an XLIFF file; every ``<file>`` in it is a document.

    Raises:
        GtransError: it is of other languages, or cannot be read.
    """
    reverse: bool | None = None
    begun = False
    for item in _Units(path).items():
        if not isinstance(item, Pair):
            codes = tuple(map(language_code, item))
            wanted = (language_code(source_lang), language_code(target_lang))
            if codes not in (wanted, wanted[::-1]):
                raise GtransError(f"{path}: its languages are {item[0]} and {item[1]}")
            reverse = codes != wanted
            if begun:
                yield None
        elif reverse is None:
            raise GtransError(f"{path}: a <trans-unit> outside of a <file>; it is no XLIFF")
        else:
            begun = True
            yield Pair(item.target, item.source, item.places) if reverse else item
    if not begun:
        raise GtransError(f"{path}: no <trans-unit>; it is no XLIFF")


def read_articles(source: Path, target: Path) -> Pairs:
    """The pairs of two folders with a file for each article, in the order of their names.

    Raises:
        GtransError: an article is missing on one side, or as :func:`read_lines`.
    """
    names = [sorted(path.name for path in side.iterdir()) for side in (source, target)]
    for name in sorted({*names[0]} ^ {*names[1]}):
        here, there = (source, target) if name in names[0] else (target, source)
        raise GtransError(f"{here / name} has no counterpart in {there}")
    for number, name in enumerate(names[0]):
        if number:
            yield None
        for pair in read_lines(source / name, target / name, "either"):
            if pair is not None:
                yield pair
