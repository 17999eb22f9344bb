"""DOCX, the format of Microsoft Word (Office Open XML, ECMA-376).

Only the text of paragraphs (``w:t``) is replaced.
"""

from __future__ import annotations

import io
import re
import zipfile
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import groupby
from typing import Any, NamedTuple

from gtrans.data.documents import read_bytes
from gtrans.errors import GtransError
from gtrans.formats.checks import BlockCheck
from gtrans.formats.inline import Block, Content, Item, Mark, joined, with_points, with_texts
from gtrans.languages import is_right_to_left
from gtrans.text.document_file import KEPT, MOVED, DocumentFile, Note, Splitter
from gtrans.text.reader import ALL_TEXT, TextSelection

_W = "{http://schemas.openxmlformats.org/wordprocessingml/2006/main}"
_COMPATIBLE = "{http://schemas.openxmlformats.org/markup-compatibility/2006}"
_SPACE = "{http://www.w3.org/XML/1998/namespace}space"
_TYPES = "[Content_Types].xml"
_USUAL = "word/document.xml"
# The parts with text that is translated, besides the main part, by the end of their types
# (ECMA-376, 11.3).
_TRANSLATED = ("header", "footer", "footnotes", "endnotes")
# Text of other parts, which stays.
_TEXT = re.compile(rb"<(?:\w+:)?[tv](?: [^>]*)?>[^<]*[A-Za-z\x80-\xff]")
# Names of styles: SourceCode, VerbatimChar, "Code Block"; not CodeofConduct.
_CODE = re.compile(
    r"(?:source|html|inline|program|macro)?[\s_-]*(?:code|preformatted|verbatim)"
    r"(?:[\s_-]*(?:block|char|text|example|inline|listing|snippet|zchn|\d+))*",
    re.IGNORECASE,
)
_LARGEST = 100 << 20  # bytes of a part, unpacked
_NO_XML = re.compile("[^\t\n\r\x20-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")


def _names(names: str) -> frozenset[str]:
    return frozenset(f"{_W}{name}" for name in names.split())


_BREAKS = _names("br cr ptab tab")
_PROPERTIES = _names("pPr rPr sdtPr sdtEndPr smartTagPr")
_READINGS = _names("rubyPr rt")  # how the characters of a ruby are read
_REFERENCES = _names("footnoteReference endnoteReference")
# What has runs of its own.
_AROUND_RUNS = _names(
    "bdo customXml dir fldSimple hyperlink ins moveTo ruby rubyBase sdt sdtContent smartTag"
)
# What readers do not see: it takes no place between two words.
_HIDDEN = _names(
    "annotationRef bookmarkEnd bookmarkStart commentRangeEnd commentRangeStart commentReference "
    "customXmlDelRangeEnd customXmlDelRangeStart del delText delInstrText fldChar instrText "
    "lastRenderedPageBreak moveFrom moveFromRangeEnd moveFromRangeStart moveToRangeEnd "
    "moveToRangeStart permEnd permStart proofErr softHyphen"
)


class _Copy(NamedTuple):
    """A text element that repeats another one for older programs."""

    element: Any
    original: Any


class Docx(DocumentFile):
    """A document of Word: its text, then headers, footers and notes."""

    libraries = ("lxml",)

    def __init__(
        self, path: str, split: Splitter | None, selection: TextSelection = ALL_TEXT
    ) -> None:
        super().__init__(path)
        assert split is not None
        self.check = BlockCheck()
        self.contents = read_bytes(path)
        self.parts: dict[str, Any] = {}
        self.copies: list[_Copy] = []
        self.staying: list[str] = []  # parts whose text is not translated
        self.paragraphs: list[Any] = []
        try:
            self._unpack()
        except GtransError:
            raise
        except Exception as error:  # whatever the libraries say of bytes that are no DOCX
            raise GtransError(f"'{path}' is no DOCX file, or damaged ({error})") from error
        blocks: list[Block] = []
        for root in self.parts.values():
            blocks += self._read_part(root, split)
        self.documents = [blocks]
        self.check.check_file(path)

    def _read_part(self, root: Any, split: Splitter) -> Iterator[Block]:
        repeated = _repeated(root)
        for copies in repeated.values():
            self.copies += copies
        for paragraph in root.iter(f"{_W}p"):
            is_repeated = any(element in repeated for element in paragraph.iterancestors())
            if is_repeated:
                continue
            content = list(with_points(list(_content(paragraph))))
            block = Block(content, split)
            if self.check.takes(block, _comparable(content), _comparable):
                self.paragraphs.append(paragraph)
                yield block

    def _unpack(self) -> None:
        from lxml import etree

        archive = zipfile.ZipFile(io.BytesIO(self.contents))
        files: dict[str, bytes] = {}
        for member in archive.infolist():
            if member.filename.endswith((".xml", ".rels")):
                files[member.filename] = self._read(archive, member)
        parser = etree.XMLParser(no_network=True, remove_comments=True, remove_pis=True)
        types = etree.fromstring(files[_TYPES], parser)
        for name in self._translated_parts(_names_by_type(types, files)):
            root = etree.fromstring(files[name], parser)
            self.parts[name] = root
            if not root.tag.startswith(_W):
                raise GtransError(
                    f"'{self.path}' is not in the usual form of DOCX ({name}; Strict Open XML is "
                    "another); save it as 'Word document (.docx)' first"
                )
            for hyphen in root.iter(f"{_W}noBreakHyphen"):  # a letter of a word, as text too
                hyphen.tag = f"{_W}t"
                hyphen.text = "\u2011"
        for name, data in sorted(files.items()):
            if name.endswith(".xml") and name not in self.parts and _TEXT.search(data):
                self.staying.append(name)

    def _translated_parts(self, names: Mapping[str, Sequence[str]]) -> list[str]:
        main = names.get("main+xml", [])
        if not main:
            raise GtransError(f"'{self.path}' is no DOCX file: it has no main document")
        if _USUAL in main:
            main = [_USUAL]
        # A glossary of building blocks is a document of its own, with its own notes.
        glossary = {_folder(name) for name in names.get("glossary+xml", ())}
        others = []
        for kind in _TRANSLATED:
            for name in names.get(f"{kind}+xml", ()):
                if _folder(name) not in glossary:
                    others.append(name)
        return [*main, *sorted(others)]

    def _read(self, archive: zipfile.ZipFile, member: zipfile.ZipInfo) -> bytes:
        """Return an unpacked file of the archive; GtransError beyond its stated size."""
        if member.file_size > _LARGEST:
            raise GtransError(
                f"'{self.path}': {member.filename} unpacks to {member.file_size >> 20} MiB, more "
                f"than {_LARGEST >> 20}; cut the document into several"
            )
        # Other methods are none of DOCX (ECMA-376 part 2, C.3), and unpack without a limit.
        if member.compress_type not in (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED):
            raise zipfile.BadZipFile(f"'{member.filename}' is packed in an unknown way")
        with archive.open(member) as file:
            data = file.read(member.file_size)
            file.read(1)  # compares the checksum
        return data

    def translated(self, translations: Sequence[Sequence[str]], joint: str) -> bytes:
        """See :meth:`DocumentFile.translated`."""
        self.notes = []
        if self.staying:
            self.notes = [Note(self.path, KEPT, f": {', '.join(self.staying)}")]
        self.notes += self.check.notes(self.path)
        right_to_left = self._new_direction()
        texts = self.by_block(translations)
        for paragraph, (block, sentences) in zip(self.paragraphs, texts, strict=True):
            items = block.translated(sentences, joint)
            _write(items)
            if right_to_left is not None:
                _turn(paragraph, items, right_to_left)
            if block.moved:
                begin = " ".join(block.sentences)[:40]
                where = f"{self.path}: '{begin}'"
                self.notes.append(Note(where, MOVED, " to the end of a word"))
        for copy in self.copies:
            copy.element.text = copy.original.text
            copy.element.set(_SPACE, "preserve")
        return self._packed()

    def _packed(self) -> bytes:
        from lxml import etree

        written = io.BytesIO()
        with (
            zipfile.ZipFile(io.BytesIO(self.contents)) as archive,
            zipfile.ZipFile(written, "w") as copy,
        ):
            for member in archive.infolist():
                root = self.parts.get(member.filename)
                if root is None:
                    copy.writestr(member, self._read(archive, member))
                else:
                    copy.writestr(member, etree.tostring(root, encoding="UTF-8", standalone=True))
        return written.getvalue()

    def _new_direction(self) -> bool | None:
        """Return whether the text runs from right to left now; None: as before."""
        if self.languages is None:
            return None
        source, target = self.languages
        before = is_right_to_left(source)
        now = is_right_to_left(target)
        return None if now == before else now


def _names_by_type(types: Any, files: Iterable[str]) -> dict[str, list[str]]:
    """Return the names of files by the last part of their content types."""
    by_name: dict[str, str] = {}
    for entry in types.iter("{*}Override", "{*}Default"):
        suffix = str(entry.get("Extension")).lower()
        key = entry.get("PartName") or f".{suffix}"
        by_name[key] = str(entry.get("ContentType")).rpartition(".")[2]
    names: dict[str, list[str]] = {}
    for name in files:
        suffix = name.rpartition(".")[2].lower()
        kind_of_suffix = by_name.get(f".{suffix}", "")
        kind = by_name.get(f"/{name}", kind_of_suffix)
        names.setdefault(kind, []).append(name)
    return names


def _folder(name: str) -> str:
    return name.rpartition("/")[0]


# What follows w:bidi and w:rtl in their properties (ECMA-376, 17.3.1.26 and 17.3.2.28).
_BEHIND_BIDI = _names(
    "adjustRightInd snapToGrid spacing ind contextualSpacing mirrorIndents suppressOverlap jc "
    "textDirection textAlignment textboxTightWrap outlineLvl divId cnfStyle rPr sectPr pPrChange"
)
_BEHIND_RTL = _names("cs em lang eastAsianLayout specVanish oMath rPrChange")


def _turn(paragraph: Any, items: Content, right_to_left: bool) -> None:
    _set_property(paragraph, "pPr", "bidi", _BEHIND_BIDI, right_to_left)
    for item in items:
        if isinstance(item, Mark) and item.kind == "open":
            for element in item.what:
                _set_property(element.getparent(), "rPr", "rtl", _BEHIND_RTL, right_to_left)


def _set_property(
    element: Any, properties: str, name: str, behind: frozenset[str], value: bool
) -> None:
    parent = element.find(f"{_W}{properties}")
    if parent is None:
        parent = element.makeelement(f"{_W}{properties}")
        element.insert(0, parent)
    child = parent.find(f"{_W}{name}")
    if child is None:
        child = parent.makeelement(f"{_W}{name}")
        place = 0
        while place < len(parent) and parent[place].tag not in behind:
            place += 1
        parent.insert(place, child)
    child.attrib.clear()
    if not value:  # a style may switch it on
        child.set(f"{_W}val", "0")


def _repeated(root: Any) -> dict[Any, list[_Copy]]:
    """Return the copies of text elements, by the elements around them."""
    repeated: dict[Any, list[_Copy]] = {}
    for element in root.iter(f"{_COMPATIBLE}AlternateContent"):
        new = element.find(f"{_COMPATIBLE}Choice")
        old = element.find(f"{_COMPATIBLE}Fallback")
        if new is None or old is None:
            continue
        copies = list(old.iter(f"{_W}t"))
        originals = list(new.iter(f"{_W}t"))
        old_texts = [copy.text for copy in copies]
        new_texts = [original.text for original in originals]
        if old_texts == new_texts:
            repeated[old] = list(map(_Copy, copies, originals))
    return repeated


def _content(paragraph: Any) -> Iterator[Item]:
    """Yield the text of a paragraph: a mark for each change of format, points for anything else.

    The mark that opens a text holds its elements ``w:t``.
    """
    if _CODE.fullmatch(_value(paragraph, "pPr/w:pStyle")):
        return
    for look, group in groupby(_elements(paragraph), key=_look):
        elements = list(group)
        if look is not None:
            script = _value(elements[0].getparent(), "rPr/w:vertAlign")
            is_script = script in ("subscript", "superscript")
            yield Mark("open", elements, script=is_script)
            yield "".join(element.text or "" for element in elements)
            yield Mark("close", None)
            continue
        for element in elements:
            if element.tag in _AROUND_RUNS:
                continue
            hidden = element.tag in _HIDDEN or _is_hidden(element.getparent())
            leads = not hidden and element.tag not in _REFERENCES
            breaks = element.tag in _BREAKS
            yield Mark("point", None, breaks=breaks, hidden=hidden, leads=leads)


def _elements(parent: Any) -> Iterator[Any]:
    """Yield the elements in and around runs in order; an element around runs comes first."""
    for element in parent:
        is_element = isinstance(element.tag, str)
        if not is_element or element.tag in _PROPERTIES or element.tag in _READINGS:
            continue
        is_run = element.tag == f"{_W}r"
        if not is_run:
            yield element
        if is_run or element.tag in _AROUND_RUNS:
            yield from _elements(element)


def _look(element: Any) -> tuple[Any, bytes] | None:
    """Return the parent and the format of a text's run; None: it is no text, or code."""
    from lxml import etree

    run = element.getparent()
    is_code = _CODE.fullmatch(_value(run, "rPr/w:rStyle"))
    if element.tag != f"{_W}t" or is_code or _is_hidden(run):
        return None
    properties = run.find(f"{_W}rPr")
    look = b"" if properties is None else etree.tostring(properties)
    return run.getparent(), look


def _is_hidden(run: Any) -> bool:
    hidden = run.find(f"{_W}rPr/{_W}vanish")
    if hidden is None:
        return False
    return hidden.get(f"{_W}val", "1") not in ("0", "false", "off")


def _value(element: Any, path: str) -> str:
    child = element.find(f"w:{path}", {"w": _W[1:-1]})
    if child is None:
        return ""
    return str(child.get(f"{_W}val", ""))


def _comparable(content: Content) -> list[object]:
    compared: list[object] = []
    for item in joined(with_texts(content)):
        if isinstance(item, Mark):
            compared.append(id(item.what))
        else:
            compared.append(_one_space(item))
    return compared


def _write(items: Content) -> None:
    """Put the text between two changes of format into the elements before it.

    Text behind a point belongs to the elements that follow.
    """
    groups: list[list[Any]] = []  # elements of one look
    texts: list[str] = []  # of each group
    waiting = ""
    attached = False  # to the last group
    for item in items:
        if isinstance(item, str):
            words = _NO_XML.sub("\ufffd", item)
            if attached:
                texts[-1] += words
            else:
                waiting += words
        elif item.kind == "open":
            groups.append(item.what)
            texts.append(waiting)
            waiting = ""
            attached = True
        elif item.kind == "point":
            attached = False
    if texts:
        texts[-1] += waiting
    for elements, text in zip(groups, texts, strict=True):
        before = "".join(element.text or "" for element in elements)
        if _one_space(text) == _one_space(before):
            continue  # its cuts stay
        for element in elements:
            element.text = ""
        elements[0].text = text
        elements[0].set(_SPACE, "preserve")


def _one_space(text: str) -> str:
    return re.sub(r"\s+", " ", text)
