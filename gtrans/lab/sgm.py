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


def _documents_in(path: str, text: str, with_sides: bool) -> list[_Versions]:
    """The documents of a test set, which calls itself XML or SGML and is neither.

    Published test sets have unescaped ``&``, missing end tags, and tags in either case, on which
    XML parsers fail or lose text. Only the tags of the format are tags, any other ``<`` is text;
    ``<hl>`` and ``<p>`` are parts of a text. There are no entities of the file's own, so nothing
    expands and nothing is fetched.

    Raises:
        GtransError: a sentence stands outside of a document, or an id occurs twice in one.
    """
    names = "|".join([*_SETS, "doc", "seg", *(_SIDES if with_sides else ())])
    names += "|dataset|collection" * with_sides
    documents: dict[tuple[str, int], _Versions] = {}
    seen = Counter[tuple[_Version, str]]()
    outer = version = _Version(None, "")
    document: _Versions | None = None
    line, position = 1, 0
    seg_id = ""  # id of the sentence that is open
    tags = re.finditer(rf"<(/?)({names})\b([^<>]*)>", text, re.IGNORECASE)
    for tag in chain(tags, [None]):
        between = text[position : len(text) if tag is None else tag.start()]
        if seg_id and document is not None:
            sentences = document.sentences[version]
            if seg_id in sentences:
                raise GtransError(
                    f"{path}:{line}: the id {seg_id} occurs twice in the document '{document.name}'"
                )
            sentences[seg_id] = sentence_of(_plain(_PARTS.sub("", between)), path, line), line
        seg_id = ""
        if tag is None:
            break
        line, position = line + (between + tag[0]).count("\n"), tag.end()
        name, is_end = tag[2].lower(), bool(tag[1])
        if is_end:
            document = None if name == "doc" or name in _SETS else document
            continue
        attributes = {
            match[1].lower(): _plain(match[2] or match[3] or match[4] or "")
            for match in _ATTRIBUTE.finditer(tag[3])
        }
        if name in _SETS:
            version_name = attributes.get("refid") or attributes.get("sysid") or ""
            version = outer = _Version(_SETS[name] or outer.role, version_name)
            document = None
        elif name == "doc":
            version = outer._replace(name=attributes.get("sysid") or outer.name)
            title = (attributes.get("docid") or attributes.get("id") or "").strip()
            # Some sets have several documents of one name, or none of them has one.
            key = title, seen[version, title]
            seen[version, title] += 1
            document = documents.setdefault(key, _Versions(title, line, "testsuite" in attributes))
        elif name in _SIDES or name == "seg":
            if document is None:
                raise GtransError(f"{path}:{line}: a <{name}> outside of a <doc>")
            if name in _SIDES:
                version_name = attributes.get("translator" if name == "ref" else "system", "")
                version = _Version(_SIDES[name], "" if name == "src" else version_name)
            sentences = document.sentences.setdefault(version, {})
            if name == "seg":
                seg_id = attributes.get("id", "").strip() or str(len(sentences) + 1)
    if re.search(rf"<(?:{names})\b[^<>]*\Z", text, re.IGNORECASE):
        raise GtransError(f"{path}:{line}: a tag before this line has no end")
    return list(documents.values())


def _plain(text: str) -> str:
    return _ENTITY.sub(lambda match: html.unescape(match[0]), text)


class TestSet(Reader):
    """SGM of NIST, WMT and IWSLT, and the XML of WMT from 2021 on.

    Of a file with several references all are read, or those that are chosen. A sentence that has
    none, and the test suites of WMT, are left out where references are read, as in sacreBLEU.
    """

    __test__ = False  # it is no test of pytest's
    title = "a test set in SGM or XML"
    beginning = "<"

    @classmethod
    def recognises(cls, head: Head) -> bool:
        """See :meth:`Reader.recognises`."""
        tagged = "\n".join(line for line in head.lines[:20] if line[0] == "<")
        return head.first.startswith("<") and (
            _has(r"<\s*(dataset|srcset|refset|tstset|mteval)\b", tagged)
            or all(_has(rf"<{tag}\b", "\n".join(head.lines)) for tag in ("doc", "seg"))
        )

    def __iter__(self) -> Iterator[Document]:
        """See :meth:`Reader.__iter__`."""
        documents = self.versions()
        texts = list(dict.fromkeys(chain(*(document.sentences for document in documents))))
        roles = [text.role or "" for text in texts]
        candidates = [text for text in texts if text.role == self.role]
        if not candidates and (self.role == "translation" or "source" not in roles):
            # The file says that its texts are something else.
            candidates = [text for text in texts if text.role != "source"]
        if not candidates:
            raise GtransError(
                f"{self.path} has no {self.role}, only {' and '.join(dict.fromkeys(roles))}"
            )
        names = [text.name for text in candidates]
        if self.role == "reference":
            self.references = chosen_references(self.path, names, self.selection.references)
            chosen = []
            for name in self.references:
                chosen += [text for text in candidates if text.name == name]
        else:
            name = only_system(self.path, names, self.selection.system)
            chosen = [text for text in candidates if text.name == name][:1]
        self.column = f"{chosen[0].role or 'text'} {chosen[0].name}".strip()
        for document in documents:
            segments = list(self._segments(document, chosen))
            if segments:
                yield Document(document.name, document.line, segments)

    def versions(self) -> list[_Versions]:
        """All documents.

        Raises:
            GtransError: there is none.
        """
        text = "\n".join(line for _, line in self.lines)
        documents = _documents_in(self.path, text, _has(r"<dataset\b", "\n".join(self.head.lines)))
        if not any(document.sentences for document in documents):
            raise GtransError(
                f"{self.path}: no <doc> with a <seg>; it is no test set in XML or SGM"
            )
        return documents

    def _segments(self, document: _Versions, wanted: Sequence[_Version]) -> Iterator[Segment]:
        versions = [document.sentences.get(version, {}) for version in wanted]
        is_reference = self.role == "reference"
        # A sentence without a reference is left out, with the reason.
        source = document.sentences.get(_Version("source", ""), {}) if is_reference else {}
        for name in dict.fromkeys(chain(source, *versions)):
            sentences = [version[name] for version in versions if name in version]
            line = sentences[0][1] if sentences else document.line
            default = next((text for text, _ in sentences if text), "")
            reason = ""
            if is_reference:
                missing = "" if default else NO_REFERENCE
                reason = "of test suites" if document.is_testsuite else missing
            texts = [version.get(name, ("", 0))[0] or default for version in versions]
            yield Segment(line, texts, name, reason)


def _has(pattern: str, text: str) -> bool:
    return re.search(pattern, text, re.IGNORECASE) is not None
