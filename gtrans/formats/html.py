"""HTML.

The file is taken apart into tags and text, and put together again with other text: tags,
attributes, comments, scripts, and white space between blocks stay byte for byte.
"""

from __future__ import annotations

import codecs
import html
import re
from collections.abc import Iterator, Sequence
from contextlib import suppress

from gtrans.data.documents import read_bytes, read_text
from gtrans.errors import GtransError
from gtrans.formats.blocks import Block, Splitter, with_addresses_marked
from gtrans.formats.document_file import DocumentFile
from gtrans.formats.html_parts import INLINE, VOID, Part, Parts
from gtrans.formats.marks import Mark

_CHARSET = re.compile(
    rb"<meta\b[^>]*?\bcharset\s*=\s*[\"']?\s*([\w.:-]+)|<\?xml\b[^>]*?\bencoding\s*=\s*[\"']([\w.:-]+)",
    re.IGNORECASE,
)
_LOOKED_AT = 1024  # bytes in which HTML has its charset
# The charsets of the web (Encoding Standard, "Names and labels"), and what browsers read some as.
_CHARSETS = {
    *("utf-8", "cp866", "koi8-r", "koi8-u", "mac-roman", "mac-cyrillic", "cp874", "gbk", "gb18030"),
    *("big5", "big5hkscs", "euc_jp", "iso2022_jp", "shift_jis", "euc_kr"),
    *(f"iso8859-{number}" for number in (2, 3, 4, 5, 6, 7, 8, 10, 13, 14, 15, 16)),
    *(f"cp{number}" for number in range(1250, 1259)),
}
_READ_AS = {
    "iso8859-1": "cp1252", "ascii": "cp1252", "iso8859-9": "cp1254", "iso8859-11": "cp874",
    "tis-620": "cp874", "gb2312": "gbk",
}  # fmt: skip
# The codec of what follows each.
_BYTE_ORDER_MARKS = {
    codecs.BOM_UTF8: "utf-8", codecs.BOM_UTF16_LE: "utf-16-le", codecs.BOM_UTF16_BE: "utf-16-be",
}  # fmt: skip


class HtmlText:
    """HTML as what stays and what is translated, in order.

    Args:
        text: the HTML.
        split: turns running text into sentences.

    Attributes:
        pieces: together they are the HTML.
        lines: the line of each block among them, from 0.
        unended: a message for each element that is left alone and has no end, with its line.

    Raises:
        GtransError: it is none.
    """

    def __init__(self, text: str, split: Splitter) -> None:
        try:
            parts = Parts(text)
        except AssertionError as error:  # so the parser tells of a declaration it cannot read
            raise GtransError(f"it is no HTML ({error})") from None
        self.pieces: list[str | Block] = []
        self.lines: list[int] = []
        self.unended = [
            (line, f"<{name}> has no end, so what it holds is not translated")
            for line, name in parts.unended
        ]
        self._split = split
        self._line = 0
        run: list[Part] = []
        for part in parts.parts:
            if part.kind in ("text", "other") or part.name in INLINE:
                run.append(part)
                continue
            self._add(run)
            run = []
            self._keep(part.raw)
        self._add(run)

    @property
    def blocks(self) -> list[Block]:
        """What is translated."""
        return [piece for piece in self.pieces if isinstance(piece, Block)]

    def translated(self, translations: Iterator[Sequence[str]], joint: str) -> str:
        """The HTML with other sentences; ``translations`` has those of each block."""
        return "".join(
            _written(piece, next(translations), joint) if isinstance(piece, Block) else piece
            for piece in self.pieces
        )

    def _keep(self, raw: str) -> None:
        if raw:
            self.pieces.append(raw)
            self._line += raw.count("\n")

    def _add(self, run: Sequence[Part]) -> None:
        """The parts between two tags of blocks; white space around them stays."""
        raw = "".join(part.raw for part in run)
        block = Block([item for part in run for item in _content(part)], self._split)
        if not block.sentences:
            self._keep(raw)
            return
        words = raw.strip()
        before, _, behind = raw.partition(words)
        self._keep(before)
        self.lines.append(self._line)
        self.pieces.append(block)
        self._line += words.count("\n")
        self._keep(behind)


def _content(part: Part) -> Iterator[str | Mark]:
    if part.kind == "text":
        for item in with_addresses_marked(html.unescape(part.raw)):
            # One that is escaped is a point as well, so it is written as it was.
            if isinstance(item, Mark):
                item = Mark("point", html.escape(item.what, quote=False))
            yield item
    elif part.kind in ("begin", "end") and part.name not in VOID:
        kind = "open" if part.kind == "begin" else "close"
        script = kind == "open" and part.name in ("sub", "sup")
        yield Mark(kind, part.raw, script=script)  # type: ignore[arg-type]
    else:
        hidden = part.kind == "other" or part.name == "wbr"
        yield Mark("point", part.raw, part.name == "br", hidden)


def _written(block: Block, translations: Sequence[str], joint: str) -> str:
    return "".join(
        html.escape(item, quote=False) if isinstance(item, str) else item.what
        for item in block.translated(translations, joint)
    )


class Html(DocumentFile):
    """HTML, in the charset that it declares."""

    @classmethod
    def read(cls, path: str, split: Splitter) -> Html:
        """See :meth:`DocumentFile.read`."""
        contents = read_bytes(path)
        mark, charset = _charset(contents)
        if charset == "utf-8" and not mark:
            text = read_text(path)
        else:
            try:
                text = contents[len(mark) :].decode(charset)
            except UnicodeDecodeError as error:
                line = contents.count(10, 0, len(mark) + error.start) + 1
                raise GtransError(
                    f"{path}:{line}: not {charset}, as which its charset is read; mend the "
                    "declaration, or convert the file"
                ) from None
        try:
            found = cls(path, HtmlText(text, split), charset, mark)
        except GtransError as error:
            raise GtransError(f"'{path}': {error}; mend it, or translate its text") from None
        found.documents = [found.html.blocks]
        return found

    def __init__(self, path: str, text: HtmlText, charset: str, mark: bytes) -> None:
        super().__init__(path)
        self.html = text
        self.charset, self.mark = charset, mark

    def lines_of_sentences(self) -> list[int]:
        """See :meth:`DocumentFile.lines_of_sentences`."""
        both = zip(self.html.lines, self.html.blocks, strict=True)
        return [line + 1 for line, block in both for _ in block.sentences]

    def translated(self, translations: Sequence[Sequence[str]], joint: str) -> bytes:
        """See :meth:`DocumentFile.translated`."""
        found = self.html.translated((one for _, one in self.by_block(translations)), joint)
        self.lost = [f"{self.path}:{line + 1}: {told}" for line, told in self.html.unended]
        self.lost += self.moved(zip(self.html.lines, self.html.blocks, strict=True))
        return self.mark + found.encode(self.charset, "xmlcharrefreplace")


def _charset(contents: bytes) -> tuple[bytes, str]:
    """The byte order mark of HTML, and the codec that this or a declaration says, else ``utf-8``.

    What is declared as UTF-16 without a mark was read as text here, so it is UTF-8.
    """
    for mark, codec in _BYTE_ORDER_MARKS.items():
        if contents.startswith(mark):
            return mark, codec
    declared = _CHARSET.search(contents[:_LOOKED_AT])
    if declared:
        with suppress(LookupError):  # a name that nobody knows says nothing
            name = codecs.lookup((declared[1] or declared[2]).decode("ascii")).name
            name = _READ_AS.get(name, name)
            if name in _CHARSETS:
                return b"", name
    return b"", "utf-8"
