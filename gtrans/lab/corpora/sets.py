"""Test sets of IWSLT (XML), WMT and NIST (SGM): ``<doc>`` with ``<seg id="1">`` inside.

Source and reference are two files. Sentences are matched by document and by ``id``, in the order of
the source, because ids need not be in order; a sentence that only one side has is a pair that is
empty on the other.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

from gtrans.errors import GtransError
from gtrans.lab.corpora.markup import Markup
from gtrans.lab.corpora.pairs import Pair, Pairs

_OUTER = ("srcset", "refset", "tstset", "mteval")


@dataclass
class Document:
    """One document on one side.

    Attributes:
        name: its ``docid``, by which the sides are matched.
        system: whose it is; NIST's files have several references in turn.
        line: where it begins in its file, from 1.
        sentences: with the lines where they begin, by ``id``; without ids, by their place from 1.
    """

    name: str
    system: str
    line: int
    sentences: dict[str, tuple[str, int]] = field(default_factory=dict)


class _Sets(Markup[Document]):
    """The documents of a file; ``<hl>`` and ``<p>`` are parts of a text, not text."""

    tags = frozenset({*_OUTER, "doc", "seg", "p", "hl"})

    def __init__(self, path: Path) -> None:
        super().__init__(path)
        self._document: Document | None = None
        self._id = ""
        self._system = ""

    def open_tag(self, tag: str, attributes: dict[str, str]) -> None:
        """A set, a document or a sentence begins, and what is open ends."""
        self._end_sentence()
        if tag in _OUTER:
            self._end_document()
            self._system = attributes.get("refid") or attributes.get("sysid") or ""
        elif tag == "doc":
            self._end_document()
            system = attributes.get("sysid") or self._system
            name = (attributes.get("docid") or attributes.get("id") or "").strip()
            self._document = Document(name, system, self._line)
        elif tag == "seg":
            if self._document is None:
                raise GtransError(f"{self.path}:{self._line}: a <seg> outside of a <doc>")
            self._id = attributes.get("id", "").strip() or str(len(self._document.sentences) + 1)
            self.begin_text()

    def close_tag(self, tag: str) -> None:
        """The same, at an end tag."""
        if tag in ("p", "hl") and self._text is not None:
            return
        self._end_sentence()
        if tag == "doc" or tag in _OUTER:
            self._end_document()

    def finish(self) -> None:
        """The last document may have no end tag."""
        self._end_sentence()
        self._end_document()

    def _end_sentence(self) -> None:
        text = self.end_text()
        if text is None or self._document is None:
            return
        if self._id in self._document.sentences:
            raise GtransError(
                f"{self.path}:{self._begin}: the id {self._id} occurs twice in the document "
                f"'{self._document.name}'"
            )
        self._document.sentences[self._id] = (text, self._begin)

    def _end_document(self) -> None:
        if self._document is not None:
            self.found.append(self._document)
        self._document = None


def read_set(source: Path, target: Path, reference: int = 0) -> Pairs:
    """The pairs of a test set.

    Args:
        source: the file of the source language.
        target: the file of the references.
        reference: which of several references, from 0.

    Raises:
        GtransError: the files do not have the same documents, there is no such reference, or a
            file cannot be read.
    """
    systems = references_of(target)
    if reference >= len(systems):
        raise GtransError(f"{target} has {len(systems)} references, and no number {reference + 1}")
    wanted = systems[reference]
    right = iter([found for found in _Sets(target).items() if found.system == wanted])
    count = 0
    for count, left in enumerate(_Sets(source).items(), start=1):
        other = next(right, None)
        if other is None or other.name != left.name:
            found = "has no more" if other is None else f"has '{other.name}' in line {other.line}"
            raise GtransError(
                f"document {count} is '{left.name}' in {source}:{left.line}, but {target} {found}; "
                "the two files do not belong together"
            )
        if count > 1:
            yield None
        yield from _match((source, left), (target, other))
    if not count:
        raise GtransError(f"{source}: no <doc> with a <seg>; it is no test set in XML or SGM")
    if (rest := next(right, None)) is not None:
        raise GtransError(
            f"{source} has {count} documents, but {target} has more ('{rest.name}', line "
            f"{rest.line}); the two files do not belong together"
        )


def references_of(path: Path) -> list[str]:
    """The systems of a file of references, in its order."""
    return list(dict.fromkeys(document.system for document in _Sets(path).items())) or [""]


def _match(source: tuple[Path, Document], target: tuple[Path, Document]) -> Iterator[Pair]:
    """The pairs of a document: those of the source in its order, then what only the target has.

    A sentence that a side lacks has the place of its document there.
    """
    for name in dict.fromkeys([*source[1].sentences, *target[1].sentences]):
        (left, here), (right, there) = (
            document.sentences.get(name, ("", document.line)) for _, document in (source, target)
        )
        yield Pair(left, right, ((source[0], here), (target[0], there)))
