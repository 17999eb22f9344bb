"""DOCX, the format of Microsoft Word (Office Open XML, ECMA-376).

Only the text of paragraphs (``w:t``) is replaced. Every other part of the file stays as it is.
"""

from __future__ import annotations

import io
import re
import struct
import zipfile
import zlib
from collections.abc import Iterator, Sequence
from itertools import chain
from typing import Any

from gtrans.errors import GtransError
from gtrans.formats.document_file import MOVED, DocumentFile
from gtrans.formats.inline import Block, Mark, Splitter, with_addresses_marked

_W = "{http://schemas.openxmlformats.org/wordprocessingml/2006/main}"
_MAIN = "word/document.xml"
# The parts that have text, in the order in which they are read.
_PARTS = re.compile(r"word/(document|header\d*|footer\d*|footnotes|endnotes)\.xml")
_CODE = re.compile(r"code|preformatted|verbatim", re.IGNORECASE)
_BREAKS = {f"{_W}{name}" for name in ("br", "cr", "ptab", "tab")}
_PROPERTIES = {f"{_W}{name}" for name in ("pPr", "rPr", "sdtPr", "sdtEndPr", "smartTagPr")}
# What has runs of its own.
_AROUND_RUNS = {
    f"{_W}{name}"
    for name in (
        *("bdo", "customXml", "dir", "fldSimple", "hyperlink", "ins", "moveTo", "sdt"),
        *("sdtContent", "smartTag"),
    )
}
# What readers do not see: it takes no place between two words.
_HIDDEN = {
    f"{_W}{name}"
    for name in (
        *("annotationRef", "bookmarkEnd", "bookmarkStart", "commentRangeEnd", "commentRangeStart"),
        *("commentReference", "customXmlDelRangeEnd", "customXmlDelRangeStart", "del", "delText"),
        *("delInstrText", "fldChar", "instrText", "lastRenderedPageBreak", "moveFrom"),
        *("moveFromRangeEnd", "moveFromRangeStart", "moveToRangeEnd", "moveToRangeStart"),
        *("permEnd", "permStart", "proofErr", "softHyphen"),
    )
}
_COMPATIBLE = "{http://schemas.openxmlformats.org/markup-compatibility/2006}"
_SPACE = "{http://www.w3.org/XML/1998/namespace}space"
_LARGEST = 1 << 30  # bytes, unpacked
# What zipfile raises for bytes that are no archive.
_DAMAGE = (
    zipfile.BadZipFile, zlib.error, EOFError, NotImplementedError, RuntimeError, ValueError,
    struct.error,
)  # fmt: skip


class Docx(DocumentFile):
    """A document of Word: its text, then headers, footers and notes."""

    libraries = ("lxml",)

    @classmethod
    def read(cls, path: str, split: Splitter) -> Docx:
        """See :meth:`DocumentFile.read`."""
        from lxml import etree

        found = cls(path)
        try:
            with zipfile.ZipFile(path) as archive:
                if sum(member.file_size for member in archive.infolist()) > _LARGEST:
                    raise GtransError(f"'{path}' unpacks to more than 1 GiB; give a smaller file")
                found.members = [(one, archive.read(one)) for one in archive.infolist()]
            names = {member.filename: contents for member, contents in found.members}
            if _MAIN not in names:
                raise GtransError(f"'{path}' is no DOCX file: it has no {_MAIN}")
            for name in sorted(filter(_PARTS.fullmatch, names), key=lambda name: name != _MAIN):
                parser = etree.XMLParser(resolve_entities=False, no_network=True)
                found.parts[name] = etree.fromstring(names[name], parser)
                if not found.parts[name].tag.startswith(_W):
                    raise GtransError(
                        f"'{path}' is not in the usual form of DOCX ({name}; Strict Open XML is "
                        "another); save it as 'Word document (.docx)' first"
                    )
        except GtransError:
            raise
        except FileNotFoundError:
            raise GtransError(f"there is no file '{path}'; check the path") from None
        except _DAMAGE as error:
            raise GtransError(f"'{path}' is no DOCX file, or damaged ({error})") from None
        except etree.XMLSyntaxError as error:
            raise GtransError(f"'{path}' is damaged ({error})") from None
        except OSError as error:
            raise GtransError(f"cannot read '{path}': {error.strerror or error}") from None
        blocks: list[Block] = []
        for root in found.parts.values():
            repeated = _repeated(root)
            found.twins += chain.from_iterable(repeated.values())
            for paragraph in root.iter(f"{_W}p"):
                if any(element in repeated for element in paragraph.iterancestors()):
                    continue
                block = Block(list(_content(paragraph)), split)
                if block.sentences:
                    blocks.append(block)
        found.documents = [blocks]
        return found

    def __init__(self, path: str) -> None:
        super().__init__(path)
        self.members: list[tuple[zipfile.ZipInfo, bytes]] = []
        self.parts: dict[str, Any] = {}
        self.twins: list[tuple[Any, Any]] = []  # elements, and those whose text they have

    def translated(self, translations: Sequence[Sequence[str]], joint: str) -> bytes:
        """See :meth:`DocumentFile.translated`."""
        from lxml import etree

        self.lost = []
        for block, found in self.by_block(translations):
            _write(block.translated(found, joint))
            if block.moved:
                self.lost.append(f"{self.path}: '{block.text[:40]}': {MOVED}")
        for element, original in self.twins:
            element.text = original.text
            element.set(_SPACE, "preserve")
        written = io.BytesIO()
        with zipfile.ZipFile(written, "w") as copy:
            for member, contents in self.members:
                if member.filename in self.parts:
                    contents = etree.tostring(
                        self.parts[member.filename],
                        xml_declaration=True,
                        encoding="UTF-8",
                        standalone=True,
                    )
                copy.writestr(member, contents)
        return written.getvalue()


def _repeated(root: Any) -> dict[Any, list[tuple[Any, Any]]]:
    """What repeats a text box for older programs: its texts, each with the one that it repeats."""
    found: dict[Any, list[tuple[Any, Any]]] = {}
    for both in root.iter(f"{_COMPATIBLE}AlternateContent"):
        new, old = (both.find(f"{_COMPATIBLE}{name}") for name in ("Choice", "Fallback"))
        if new is None or old is None:
            continue
        texts = [list(one.iter(f"{_W}t")) for one in (old, new)]
        if [one.text for one in texts[0]] == [one.text for one in texts[1]]:
            found[old] = list(zip(*texts, strict=True))
    return found


def _content(paragraph: Any) -> Iterator[str | Mark]:
    """The text of a paragraph: a mark for each change of format, points for what is no text.

    The mark that opens a text is the list of its elements ``w:t``, those of one look with nothing
    between them.
    """
    if _CODE.search(_style(paragraph, "pPr", "pStyle")):
        return
    texts: list[Any] = []
    look: Any = None
    for element in _elements(paragraph):
        run = element.getparent()
        is_text = element.tag == f"{_W}t" and not _CODE.search(_style(run, "rPr", "rStyle"))
        now = (run.getparent(), _look(run)) if is_text else None
        if texts and (now is None or now != look):
            yield from _marked(texts)
            texts = []
        if is_text:
            texts.append(element)
            look = now
        elif element.tag not in _AROUND_RUNS:
            yield Mark(
                "point", None, breaks=element.tag in _BREAKS, hidden=element.tag in _HIDDEN
            )
    if texts:
        yield from _marked(texts)


def _elements(parent: Any) -> Iterator[Any]:
    """What stands in a paragraph, in order: in its runs, and between and around them.

    An element around runs comes before what it holds. That its end ends a text, too, is known by
    the parent of the runs.
    """
    for element in parent:
        if not isinstance(element.tag, str) or element.tag in _PROPERTIES:
            continue
        if element.tag == f"{_W}r":
            yield from (
                one
                for one in element
                if isinstance(one.tag, str) and one.tag not in _PROPERTIES
            )
            continue
        yield element
        if element.tag in _AROUND_RUNS:
            yield from _elements(element)


def _marked(texts: list[Any]) -> Iterator[str | Mark]:
    place = texts[0].getparent().find(f"{_W}rPr/{_W}vertAlign")
    script = place is not None and place.get(f"{_W}val") in ("subscript", "superscript")
    yield Mark("open", texts, script=script)
    yield from with_addresses_marked("".join(element.text or "" for element in texts))
    yield Mark("close", None)


def _style(element: Any, properties: str, name: str) -> str:
    found = element.find(f"{_W}{properties}/{_W}{name}")
    return "" if found is None else str(found.get(f"{_W}val", ""))


def _look(run: Any) -> bytes:
    """The format of a run."""
    from lxml import etree

    properties = run.find(f"{_W}rPr")
    return b"" if properties is None else bytes(etree.tostring(properties))


def _write(items: Sequence[str | Mark]) -> None:
    """Put the text between two changes of format into the elements before it.

    Behind what is no text, it belongs to the elements that follow.
    """
    waiting = ""
    last: Any = None
    attached = False  # to the last element
    for item in items:
        if isinstance(item, Mark) and item.kind == "open":
            last, *others = item.what
            last.text, waiting, attached = waiting, "", True
            last.set(_SPACE, "preserve")
            for element in others:
                element.text = ""
        elif not isinstance(item, Mark) or isinstance(item.what, str):
            words = item if isinstance(item, str) else item.what
            if attached:
                last.text += words
            else:
                waiting += words
        elif item.kind == "point":
            attached = False
    if waiting and last is not None:
        last.text += waiting
