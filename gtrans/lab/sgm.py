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
    only_system,
    sentence_of,
)

_ENTITY = re.compile(r"&(?:amp|lt|gt|quot|apos|#[0-9]{1,7}|#[xX][0-9A-Fa-f]{1,6});")
_ATTRIBUTE = re.compile(r"""([\w:.-]+)\s*=\s*(?:"([^"]*)"|'([^']*)'|([^\s"']+))""")
_SETS: dict[str, Role | None] = {
    "srcset": "source",
    "refset": "reference",
    "tstset": "translation",
    "mteval": None,
}
_SIDES: dict[str, Role] = {"src": "source", "ref": "reference", "hyp": "translation"}
_PARTS = re.compile(r"</?(?:p|hl)\b[^<>]*>", re.IGNORECASE)


class _Version(NamedTuple):
    role: Role | None  # None: the file does not say
    name: str


class _SetSentence(NamedTuple):
    text: str
    line: int


@dataclass
class _SetDocument:
    """A document with all its texts: sentences by id."""

    name: str
    line: int
    is_testsuite: bool
    sentences: dict[_Version, dict[str, _SetSentence]] = field(default_factory=dict)


class _Tag(NamedTuple):
    name: str
    attributes: dict[str, str]
    line: int


class _SetParser:
    """Reads the documents of a test set, which calls itself XML or SGML and is neither.

    Published sets have unescaped ``&``, missing end tags, and tags in either case. So only the tags
    of the format are tags, and with ``with_sides`` ``<src>``, ``<ref>`` and ``<hyp>``; any other
    ``<`` is text. Entities of the file's own are not expanded.
    """

    def __init__(self, path: str, with_sides: bool) -> None:
        names = [*_SETS, "doc", "seg"]
        if with_sides:
            names += [*_SIDES, "dataset", "collection"]
        self._names = "|".join(names)
        self._path = path
        self._documents: dict[tuple[str, int], _SetDocument] = {}
        self._seen = Counter[tuple[_Version, str]]()
        self._set_version = _Version(None, "")
        self._version = self._set_version
        self._document: _SetDocument | None = None
        self._seg_id = ""  # id of the sentence that is open

    def parse(self, text: str) -> list[_SetDocument]:
        """Return the documents."""
        line, position = 1, 0
        for match in re.finditer(rf"<(/?)({self._names})\b([^<>]*)>", text, re.IGNORECASE):
            between = text[position : match.start()]
            self._end_sentence(between, line)
            line += (between + match[0]).count("\n")
            position = match.end()
            name = match[2].lower()
            if match[1]:
                if name == "doc" or name in _SETS:
                    self._document = None
            else:
                self._begin(_Tag(name, _attributes(match[3]), line))
        self._end_sentence(text[position:], line)
        if re.search(rf"<(?:{self._names})\b[^<>]*\Z", text, re.IGNORECASE):
            raise GtransError(f"{self._path}:{line}: a tag before this line has no end")
        return list(self._documents.values())

    def _end_sentence(self, text: str, line: int) -> None:
        if self._seg_id and self._document is not None:
            sentences = self._document.sentences[self._version]
            if self._seg_id in sentences:
                raise GtransError(
                    f"{self._path}:{line}: the id {self._seg_id} occurs twice in the document "
                    f"'{self._document.name}'"
                )
            content = _plain(_PARTS.sub("", text))
            sentence = sentence_of(content, self._path, line)
            sentences[self._seg_id] = _SetSentence(sentence, line)
        self._seg_id = ""

    def _begin(self, tag: _Tag) -> None:
        if tag.name in _SETS:
            name = tag.attributes.get("refid") or tag.attributes.get("sysid") or ""
            role = _SETS[tag.name] or self._set_version.role
            self._set_version = _Version(role, name)
            self._version = self._set_version
            self._document = None
        elif tag.name == "doc":
            self._begin_document(tag)
        elif tag.name in _SIDES or tag.name == "seg":
            self._begin_text(tag)

    def _begin_document(self, tag: _Tag) -> None:
        name = tag.attributes.get("sysid") or self._set_version.name
        self._version = self._set_version._replace(name=name)
        title = tag.attributes.get("docid") or tag.attributes.get("id") or ""
        title = title.strip()
        # Some sets have several documents of one name, or none of them has one.
        key = title, self._seen[self._version, title]
        self._seen[self._version, title] += 1
        if key not in self._documents:
            is_testsuite = "testsuite" in tag.attributes
            self._documents[key] = _SetDocument(title, tag.line, is_testsuite)
        self._document = self._documents[key]

    def _begin_text(self, tag: _Tag) -> None:
        if self._document is None:
            raise GtransError(f"{self._path}:{tag.line}: a <{tag.name}> outside of a <doc>")
        if tag.name in _SIDES:
            name = ""
            if tag.name != "src":
                key = "translator" if tag.name == "ref" else "system"
                name = tag.attributes.get(key, "")
            self._version = _Version(_SIDES[tag.name], name)
        sentences = self._document.sentences.setdefault(self._version, {})
        if tag.name == "seg":
            own_id = tag.attributes.get("id", "").strip()
            self._seg_id = own_id or str(len(sentences) + 1)


def _attributes(text: str) -> dict[str, str]:
    attributes = {}
    for match in _ATTRIBUTE.finditer(text):
        name, *values = match.groups("")
        attributes[name.lower()] = _plain("".join(values))  # at most one of them matched
    return attributes


def _plain(text: str) -> str:
    return _ENTITY.sub(lambda match: html.unescape(match[0]), text)


class TestSet(Reader):
    """SGM of NIST, WMT and IWSLT, and the XML of WMT from 2021 on.

    Test suites, and sentences without a reference, are left out of references, as in sacreBLEU.
    """

    __test__ = False  # it is no test of pytest's
    title = "a test set in SGM or XML"
    beginning = "<"

    @classmethod
    def recognises(cls, head: Head) -> bool:
        """See :meth:`Reader.recognises`."""
        if not head.first.startswith("<"):
            return False
        tagged = [line for line in head.lines[:20] if line[0] == "<"]
        if _has(r"<\s*(dataset|srcset|refset|tstset|mteval)\b", "\n".join(tagged)):
            return True
        text = "\n".join(head.lines)
        return _has(r"<doc\b", text) and _has(r"<seg\b", text)

    def __iter__(self) -> Iterator[Document]:
        """See :meth:`Reader.__iter__`."""
        documents = self.versions()
        chosen = self._choose(documents)
        self.column = f"{chosen[0].role or 'text'} {chosen[0].name}".strip()
        for document in documents:
            segments = list(self._segments(document, chosen))
            if segments:
                yield Document(document.name, document.line, segments)

    def _choose(self, documents: Sequence[_SetDocument]) -> list[_Version]:
        versions: dict[_Version, None] = {}
        for document in documents:
            versions |= dict.fromkeys(document.sentences)
        roles = dict.fromkeys(version.role or "" for version in versions)
        candidates = [version for version in versions if version.role == self.role]
        if not candidates and (self.role == "translation" or "source" not in roles):
            # The file says that its texts are something else.
            candidates = [version for version in versions if version.role != "source"]
        if not candidates:
            raise GtransError(f"{self.path} has no {self.role}, only {' and '.join(roles)}")
        names = [version.name for version in candidates]
        if self.role != "reference":
            name = only_system(self.path, names, self.selection.system)
            return [candidates[names.index(name)]]
        self.references = chosen_references(self.path, names, self.selection.references)
        chosen = []
        for name in self.references:
            chosen += [version for version in candidates if version.name == name]
        return chosen

    def versions(self) -> list[_SetDocument]:
        """Return all documents."""
        text = "\n".join(line for _, line in self.lines)
        with_sides = _has(r"<dataset\b", "\n".join(self.head.lines))
        documents = _SetParser(self.path, with_sides).parse(text)
        if not any(document.sentences for document in documents):
            raise GtransError(
                f"{self.path}: no <doc> with a <seg>; it is no test set in XML or SGM"
            )
        return documents

    def _segments(self, document: _SetDocument, wanted: Sequence[_Version]) -> Iterator[Segment]:
        versions = [document.sentences.get(version, {}) for version in wanted]
        is_reference = self.role == "reference"
        # A sentence without a reference is left out, with the reason.
        source = {}
        if is_reference:
            source = document.sentences.get(_Version("source", ""), {})
        for name in dict.fromkeys(chain(source, *versions)):
            sentences = [version[name] for version in versions if name in version]
            line = sentences[0].line if sentences else document.line
            default = next((sentence.text for sentence in sentences if sentence.text), "")
            texts = []
            for version in versions:
                text = version[name].text if name in version else ""
                texts.append(text or default)
            reason = ""
            if is_reference and document.is_testsuite:
                reason = "of test suites"
            elif is_reference and not default:
                reason = NO_REFERENCE
            yield Segment(line, texts, name, reason)


def _has(pattern: str, text: str) -> bool:
    return re.search(pattern, text, re.IGNORECASE) is not None
