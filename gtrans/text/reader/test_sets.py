"""Test sets in SGM and XML."""

from __future__ import annotations

import html
import re
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from itertools import chain
from typing import NamedTuple

from gtrans.errors import GtransError
from gtrans.text.reader.base import (
    NO_REFERENCE,
    Document,
    Head,
    Reader,
    Role,
    Segment,
    chosen_references,
    sentence_of,
    the_only_system,
)

_ENTITY = re.compile(r"&(?:amp|lt|gt|quot|apos|#[0-9]{1,7}|#[xX][0-9A-Fa-f]{1,6});")
_ATTRIBUTE = re.compile(r"""([\w:.-]+)\s*=\s*(?:"([^"]*)"|'([^']*)'|([^\s"']+))""")
_LONGEST_TAG = 2_000  # characters


class _Version(NamedTuple):
    """A text of a document in a test set: its source, a reference, or a system's translation."""

    role: Role | None  # None: the file does not say
    name: str


@dataclass
class _Versions:
    """A document of a test set with all its texts: sentences and their lines by the ids."""

    name: str
    line: int
    is_testsuite: bool
    sentences: dict[_Version, dict[str, tuple[str, int]]] = field(default_factory=dict)


_SETS: dict[str, Role | None] = {
    "srcset": "source", "refset": "reference", "tstset": "translation", "mteval": None
}  # fmt: skip
_SIDES: dict[str, Role] = {"src": "source", "ref": "reference", "hyp": "translation"}


class _Parser:
    """Reads what calls itself XML or SGML and is neither.

    Published test sets have unescaped ``&``, missing end tags, and tags in either case, on which
    XML parsers fail or lose text. Only the tags of the format are tags, any other ``<`` is text;
    ``<hl>`` and ``<p>`` are parts of a text. There are no entities of the file's own, so nothing
    expands and nothing is fetched.
    """

    def __init__(self, path: str, with_sides: bool) -> None:
        sides = {*_SIDES, "dataset", "collection"} if with_sides else set[str]()
        names = "|".join({*_SETS, "doc", "seg", "p", "hl", *sides})
        self._tag = re.compile(rf"<(/?)({names})\b([^<>]*)(>?)", re.IGNORECASE)
        self.path = path
        self.documents: dict[tuple[str, int], _Versions] = {}
        self._seen = Counter[tuple[_Version, str]]()
        self._attributes: dict[str, str] = {}
        self._document: _Versions | None = None
        self._version = self._outer = _Version(None, "")
        self._id = ""
        self._text: list[str] | None = None  # of the sentence that is open
        self._line = self._begin = 1

    def read(self, text: str) -> list[_Versions]:
        """All documents.

        Raises:
            GtransError: a tag has no end, or a sentence stands outside of a document.
        """
        position = 0
        for found in self._tag.finditer(text):
            self._data(text[position : found.start()])
            position = found.end()
            name = found[2].lower()
            if not found[4]:
                if len(found[0]) > _LONGEST_TAG:
                    line = self._line + found[0].count("\n")
                    raise GtransError(f"{self.path}:{line}: a tag before this line has no end")
                self._data(found[0])
                continue
            if not found[1]:
                self._open(name, found[3])
            if found[1] or found[3].endswith("/"):
                self._close(name)
            self._line += found[0].count("\n")
        self._data(text[position:])
        self._end_sentence()
        return list(self.documents.values())

    def _data(self, text: str) -> None:
        """A part of a sentence, or between sentences, where it counts for nothing."""
        self._line += text.count("\n")
        if self._text is not None:
            self._text.append(text)

    def _open(self, tag: str, rest: str) -> None:
        """A set, a document or a sentence begins, and what is open ends."""
        self._end_sentence()
        attributes = {
            found[1].lower(): _plain(found[2] or found[3] or found[4] or "")
            for found in _ATTRIBUTE.finditer(rest)
        }
        if tag in _SETS:
            name = attributes.get("refid") or attributes.get("sysid") or ""
            self._outer = _Version(_SETS[tag] or self._outer.role, name)
            self._version, self._document = self._outer, None
        elif tag == "doc":
            self._attributes, self._document = attributes | {"": str(self._line)}, None
            self._version = self._outer._replace(name=attributes.get("sysid") or self._outer.name)
        elif tag in _SIDES:
            name = attributes.get("translator" if tag == "ref" else "system", "")
            self._version = _Version(_SIDES[tag], "" if tag == "src" else name)
            self._sentences()  # a text without a sentence is there, too
        elif tag == "seg":
            self._id = attributes.get("id", "").strip() or str(len(self._sentences()) + 1)
            self._text, self._begin = [], self._line

    def _close(self, tag: str) -> None:
        """The same, at an end tag."""
        if tag in ("p", "hl") and self._text is not None:
            return
        self._end_sentence()
        if tag == "doc" or tag in _SETS:
            self._attributes, self._document = {}, None

    def _sentences(self) -> dict[str, tuple[str, int]]:
        """The sentences of the text that is open."""
        if not self._attributes:
            raise GtransError(f"{self.path}:{self._line}: a <seg> outside of a <doc>")
        if self._document is None or self._version not in self._document.sentences:
            given = self._attributes
            name = (given.get("docid") or given.get("id") or "").strip()
            if self._document is None:
                # Some sets have several documents of one name, or none of them has one.
                key = name, self._seen[self._version, name]
                self._seen[self._version, name] += 1
                new = _Versions(name, int(given[""]), "testsuite" in given)
                self._document = self.documents.setdefault(key, new)
            self._document.sentences.setdefault(self._version, {})
        return self._document.sentences[self._version]

    def _end_sentence(self) -> None:
        if self._text is None:
            return
        text, self._text = sentence_of(_plain("".join(self._text)), self.path, self._begin), None
        sentences = self._sentences()
        if self._id in sentences:
            name = self._document.name if self._document else ""
            raise GtransError(
                f"{self.path}:{self._begin}: the id {self._id} occurs twice in the document "
                f"'{name}'"
            )
        sentences[self._id] = (text, self._begin)


def _plain(text: str) -> str:
    return _ENTITY.sub(lambda found: html.unescape(found[0]), text)


class TestSet(Reader):
    """SGM of NIST, WMT and IWSLT, and the XML of WMT from 2021 on.

    Of a file with several references all are read, or those that are chosen. A sentence that has
    none, and the test suites of WMT, are left out where references are read, as in sacreBLEU.
    """

    __test__ = False  # it is no test of pytest's
    title = "a test set in SGM or XML"
    _ROOT = re.compile(r"<\s*(dataset|srcset|refset|tstset|mteval)\b", re.IGNORECASE)

    @classmethod
    def recognises(cls, head: Head) -> bool:
        """See :meth:`Reader.recognises`."""
        if not head.first.startswith("<"):
            return False
        if any(cls._ROOT.search(line) for line in head.lines[:20] if line[0] == "<"):
            return True
        tags = [re.compile(rf"<{tag}\b", re.IGNORECASE) for tag in ("doc", "seg")]
        return all(any(map(tag.search, head.lines)) for tag in tags)

    def __iter__(self) -> Iterator[Document]:
        """See :meth:`Reader.__iter__`."""
        documents = self.versions()
        known = list(dict.fromkeys(v for one in documents for v in one.sentences))
        of_role = [v for v in known if v.role == self.role]
        if not of_role and self.role == "translation":
            of_role = [v for v in known if v.role != "source"]
        if not of_role and not any(v.role == "source" for v in known):
            of_role = known  # one that says of itself something else, or nothing
        known_roles = [v.role or "" for v in known]
        if not of_role:
            raise GtransError(
                f"{self.path} has no {self.role}, only {' and '.join(dict.fromkeys(known_roles))}"
            )
        names = [v.name for v in of_role]
        if self.role == "reference":
            self.references = chosen_references(self.path, names, self.choice.references)
            wanted = [v for name in self.references for v in of_role if v.name == name]
        else:
            name = the_only_system(self.path, names, self.choice.system)
            wanted = [v for v in of_role if v.name == name][:1]
        self.column = f"{wanted[0].role or 'text'} {wanted[0].name}".strip()
        for document in documents:
            segments = list(self._segments(document, wanted))
            if segments:
                yield Document(document.name, document.line, segments)

    def versions(self) -> list[_Versions]:
        """All documents.

        Raises:
            GtransError: there is none.
        """
        text = "\n".join(line for _, line in self.lines)
        found = _Parser(self.path, with_sides=self.head.has(r".*<dataset\b")).read(text)
        if not any(one.sentences for one in found):
            raise GtransError(
                f"{self.path}: no <doc> with a <seg>; it is no test set in XML or SGM"
            )
        return found

    def _segments(self, document: _Versions, wanted: Sequence[_Version]) -> Iterator[Segment]:
        texts = [document.sentences.get(version, {}) for version in wanted]
        ids = dict.fromkeys(chain(*texts))
        if self.role == "reference":
            # What has no reference is left out, and named.
            source = _Version("source", "")
            ids = dict.fromkeys([*document.sentences.get(source, {}), *ids])
        for name in ids:
            found = [of[name] for of in texts if name in of]
            line = found[0][1] if found else document.line
            if self.role != "reference":
                yield Segment(line, [found[0][0]], name)
                continue
            filled = [text for text, _ in found if text]
            reason = "" if filled else NO_REFERENCE
            if document.is_testsuite:
                reason = "of test suites"
            known = [of.get(name, ("", 0))[0] or next(iter(filled), "") for of in texts]
            yield Segment(line, known, name, reason)
