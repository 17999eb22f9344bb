"""Running text with inline markup: sentences out, and translations in with the markup placed.

Sentences have no marks. Words and symbols that source and translation share in order (names,
numbers, punctuation) are fixed points: a mark between two of them keeps its share of the words
between them, and a mark inside one stays there. Marks never change their order, so the tree of the
markup is the same. Marked text keeps at least one word as long as there are enough.
"""

from __future__ import annotations

import re
from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from difflib import SequenceMatcher
from itertools import accumulate, groupby, pairwise, zip_longest
from operator import itemgetter
from typing import Any, Literal, NamedTuple

from gtrans.text.document_file import Splitter


@dataclass(frozen=True)
class Mark:
    """Inline markup.

    Attributes:
        kind: the begin or end of marked text, or a point without text to translate, such as an
            image or code.
        what: what the format writes for it.
        breaks: ends a line, and so a sentence.
        hidden: readers do not see it, such as a comment.
        script: begins a sub- or superscript.
        leads: stays at the begin of a line, such as a picture or a box to tick.
    """

    kind: Literal["open", "close", "point"]
    what: Any
    breaks: bool = False
    hidden: bool = False
    script: bool = False
    leads: bool = False

    @property
    def is_seen(self) -> bool:
        """Whether it takes a place of its own between words."""
        return self.kind == "point" and not self.hidden


Item = str | Mark
Content = Sequence[Item]


class Verbatim(tuple[Item, ...]):
    """The content of a point that was text: a placeholder, an address, a sub- or superscript."""


# ---- what is not translated --------------------------------------------------------------------

_BRACKETED = r"\([^\s<>\"()]*\)|\[[^\s<>\"\[\]]*\]|\{[^\s<>\"{}]*\}"
# A bracket that an address opens itself belongs to it, and what follows it does not.
_ADDRESS = re.compile(
    rf"((?:https?://|ftp://|www\.|mailto:)(?:[^\s<>\"()\[\]{{}}]|{_BRACKETED})*"
    rf"(?:[^\s<>\"()\[\]{{}}.,;:!?'*_]|{_BRACKETED})|[\w.+-]+@[\w-]+(?:\.[\w-]+)+)"
)
# What programs put in the place of names and numbers: {{ x }}, {% if %}, {0}, ${x}, <%= x %>, %1$s,
# %NAME%, {n, plural, one {..}}; and what they replace: {/* a comment */}, [[a page]], <<x>>, $NAME,
# :smile:, ++ctrl+c++. A character \0 stands for a point between texts.
_IN_BRACES = r"(?:[^{}\0]|\{(?:[^{}\0]|\{[^{}\0]*\})*\}){0,999}"
_INSIDE = r"[^\0]{0,2000}?"
TEMPLATE = (
    rf"\{{\{{\{{{_INSIDE}\}}\}}\}}|\$?\{{\{{{_INSIDE}\}}\}}|\{{%{_INSIDE}%\}}|\{{#{_INSIDE}#\}}"
    rf"|\{{/\*{_INSIDE}\*/\}}|<%{_INSIDE}%>|<\?\w{_INSIDE}\?>"
)
_NAMED = (
    rf"[$#]\{{{_IN_BRACES}\}}|\{{\s*[\w.]+\s*,{_IN_BRACES}\}}"
    r"|\{[\w.$\[\]-]*(?:![rsa])?(?::[^{}\s\0]*)?\}"
    r"|(?<![\w%])%(?:\d+\$|\(\w+\))?[-+#0]*\d*(?:\.\d+)?(?:hh?|ll?|[qjzt])?[diouxXeEfgGcs@](?!\w)"
    r"|%[A-Za-z_]\w*%|%%"
    r"|\[\[[^\[\]\n\0]{1,200}\]\]|<<[\w.@/-]+>>|(?<![\w:]):[a-z][a-z0-9_+-]*:(?![\w:])"
    r"|\+\+[\w\"-]+(?:\+[\w\"-]+)*\+\+"
)
_VARIABLE = r"(?<![\w$])\$[A-Za-z_]\w*(?![\w$])"
PLACEHOLDER = re.compile(f"{TEMPLATE}|{_NAMED}|{_VARIABLE}")
PLACEHOLDER_OR_MATH = re.compile(f"{TEMPLATE}|{_NAMED}")
"""Placeholders where ``$x$`` is a formula, so that ``$x`` alone says nothing."""


class _Span(NamedTuple):
    begin: int
    end: int


_NOWHERE = _Span(1 << 62, 1 << 62)


def with_addresses(text: str) -> Iterator[Item]:
    """Yield text, with web and mail addresses as points."""
    for number, part in enumerate(_ADDRESS.split(text)):
        is_address = number % 2 == 1
        yield Mark("point", part) if is_address else part


def with_points(content: Content, addresses: bool = True) -> Iterator[Item]:
    """Yield text and marks, with placeholders and ``addresses`` as points.

    A placeholder may have marks inside, as Word makes them.
    """
    texts = []
    for item in content:
        if isinstance(item, str):
            texts.append(item)
        else:
            texts.append("\0" if item.is_seen else "")
    placeholders = []
    for match in PLACEHOLDER.finditer("".join(texts)):
        placeholders.append(_Span(*match.span()))
    placeholders.append(_NOWHERE)
    current = 0  # the placeholder that has begun, or the next one
    held: list[Item] = []  # what has been read of it
    offset = 0
    for item, text in zip(content, texts, strict=True):
        if isinstance(item, Mark):
            span = placeholders[current]
            is_inside = span.begin < offset < span.end
            if is_inside:
                held.append(item)
            else:
                yield item
            offset += len(text)
            continue
        done = 0
        while done < len(item):
            span = placeholders[current]
            is_text = offset < span.begin
            border = span.begin if is_text else span.end
            part = item[done : done + border - offset]
            done += len(part)
            offset += len(part)
            if not is_text:
                held.append(part)
            elif addresses:
                yield from _text_with_addresses(part)
            else:
                yield part
            if offset == span.end:
                yield Mark("point", Verbatim(held))
                held = []
                current += 1


def _text_with_addresses(text: str) -> Iterator[Item]:
    for item in with_addresses(text):
        if isinstance(item, Mark):
            yield Mark("point", Verbatim([item.what]))
        else:
            yield item


def _with_scripts_as_points(content: Content) -> Iterator[Item]:
    """Make scripts at a word points, since 10<sup>6</sup> is not 106."""
    ends = _pairs(content)
    last = " "  # the character before
    number = 0
    while number < len(content):
        item = content[number]
        following = number + 1
        if isinstance(item, str):
            last = item[-1:] or last
        elif item.is_seen:
            last = " "
        elif item.script and number in ends and not last.isspace():
            within = content[number : ends[number] + 1]
            if not _has_white_space(within):
                item = Mark("point", Verbatim(within), script=True)
                following = ends[number] + 1
        yield item
        number = following


def _has_white_space(content: Content) -> bool:
    return any(isinstance(item, str) and re.search(r"\s", item) for item in content)


def _pairs(content: Content) -> dict[int, int]:
    pairs: dict[int, int] = {}
    begins: list[int] = []
    for number, item in enumerate(content):
        if isinstance(item, str):
            continue
        if item.kind == "open":
            begins.append(number)
        elif item.kind == "close" and begins:
            pairs[begins.pop()] = number
    return pairs


# ---- words and symbols -------------------------------------------------------------------------

_IDEOGRAPHS = "\u2e80-\u312f\u31a0-\u9fff\uf900-\ufaff"
# Ideographs and kana are words of their own; a word may have joined parts; other symbols stand
# alone.
_UNIT = re.compile(
    f"[{_IDEOGRAPHS}]|[^\\W{_IDEOGRAPHS}]+(?:['’\u2011-][^\\W{_IDEOGRAPHS}]+)*|[^\\w\\s]"
)
_LETTER = re.compile(f"[^\\W{_IDEOGRAPHS}]")
_SUFFIX = re.compile(r"['’‐‑-]\w")  # `x`'s, `x`-like
_ENDING = re.compile(r"[^\W\d_]{1,2}\b")
_LONG = 500  # words and symbols of a sentence


def _is_letter(character: str) -> bool:
    """Return whether a character belongs to words that white space separates."""
    return _LETTER.fullmatch(character) is not None


def _as_read(text: str) -> str:
    """Return a text as a model reads it: with ordinary spaces and hyphens."""
    return re.sub(r"\s", " ", text).replace("\u2011", "-")


def _one_space(white: str) -> str:
    """Return the first special space of white space, or a space."""
    for character in white:
        if character not in " \t\r\n\f":
            return character
    return " " if white else ""


def _one_space_each(text: str) -> str:
    def space_of(white: re.Match[str]) -> str:
        return _one_space(white[0])

    return re.sub(r"\s+", space_of, text)


class _CommonWords(NamedTuple):
    """Where words begin that two sentences share in order."""

    here: int
    there: int
    size: int


def _common_words(here: Sequence[str], there: Sequence[str]) -> Iterator[_CommonWords]:
    if here == there:
        yield _CommonWords(0, 0, len(here))
        return
    # Otherwise one word over and over takes hours.
    length = max(len(here), len(there))
    autojunk = length > _LONG
    matcher = SequenceMatcher(None, here, there, autojunk)
    for match in matcher.get_matching_blocks():
        yield _CommonWords(match.a, match.b, match.size)


class _Units:
    """Words and symbols, as a model reads them."""

    def __init__(self) -> None:
        self.begins: list[int] = []
        self.ends: list[int] = []
        self.words: list[str] = []

    def add(self, text: str, begin: int = 0) -> None:
        for match in _UNIT.finditer(text):
            self.begins.append(begin + match.start())
            self.ends.append(begin + match.end())
            self.words.append(_as_read(match[0]))

    def is_symbol(self, number: int) -> bool:
        return not self.words[number][0].isalnum()


# ---- lines and blocks --------------------------------------------------------------------------


@dataclass
class _Placed:
    mark: Mark
    offset: int
    before: str
    after: str = ""


class _Line:
    """A part of a block in which nothing ends a line.

    Attributes:
        text: without marks, each white space as one character.
        marks: all but those in ``head``.
        head, tail: content that stays at its begin and its end.
    """

    def __init__(self, content: Content, split: Splitter) -> None:
        self.text = ""
        self.marks: list[_Placed] = []
        self.spans: list[_Span] = []  # of sentences
        leading = _leading(content)
        self.head = list(content[:leading])
        self.tail = ""
        self._read(content[leading:])
        self.units = _Units()
        self.units.add(self.text)
        self._find_sentences(split)

    def _read(self, content: Content) -> None:
        white = ""  # since the last text or mark
        first = 0  # the first mark since the last text
        for item in content:
            words = item.strip() if isinstance(item, str) else ""
            if isinstance(item, str):
                length = len(item) - len(item.lstrip())
                white += item[:length]
                if not words:
                    continue
            if len(self.marks) > first:
                self.marks[-1].after = white
            elif not self.text:
                self.head.append(white)
            if isinstance(item, Mark):
                self.marks.append(_Placed(item, len(self.text), white))
                white = ""
            else:
                if self.text:
                    marks = self.marks[first:]
                    self.text += _between(self.text, words, marks, white)
                first = len(self.marks)
                self.text += _one_space_each(words)
                white = item[len(item.rstrip()) :]
        self.tail = white

    def _find_sentences(self, split: Splitter) -> None:
        text = _as_read(self.text)
        end = 0
        for sentence in split(text):
            begin = text.index(sentence, end)
            first = begin
            # What no space divides is one sentence, but for full-width stops.
            follows_at_once = self.spans and begin == end
            if follows_at_once and text[begin - 1].isascii():
                first = self.spans.pop().begin
            end = begin + len(sentence)
            self.spans.append(_Span(first, end))

    def sentence(self, span: _Span) -> str:
        """Return the text of a span; empty if it has no letter, and is not translated."""
        text = _as_read(self.text[span.begin : span.end])
        has_letter = any(character.isalpha() for character in text)
        return text if has_letter else ""


def _leading(content: Content) -> int:
    """Count the items that stay at the begin of a line."""
    count = 0
    for number, item in enumerate(content, start=1):
        if isinstance(item, str):
            if item.strip():
                break
        elif item.leads or item.kind == "close":
            count = number
    return count


def _between(text: str, words: str, marks: Sequence[_Placed], white: str) -> str:
    """Return the white space between two texts, without their marks."""
    seen = _seen_marks(marks)
    spaces = [placed.before for placed in marks]
    spaces.append(white)
    if not seen:
        return _one_space("".join(spaces))
    before = "".join(spaces[: seen[0] + 1])
    behind = "".join(spaces[seen[-1] + 1 :])
    if behind:
        return _one_space(behind)
    # "a<img>b" is "a b", but "10<sup>6</sup>x" is one word.
    are_scripts = all(marks[number].mark.script for number in seen)
    are_two_words = _is_letter(text[-1:]) and _is_letter(words[0])
    if are_two_words and not are_scripts:
        return _one_space(before) or " "
    # "the <code>x</code>, then" is "the, then", but "the <code>x</code>'s" is "the 's".
    is_word = words[0].isalnum() or _SUFFIX.match(words) is not None
    return _one_space(before) if is_word else ""


def _seen_marks(marks: Sequence[_Placed]) -> list[int]:
    return [number for number, placed in enumerate(marks) if placed.mark.is_seen]


class Block:
    """Running text with marks; see :class:`TextBlock` for its attributes."""

    def __init__(self, content: Iterable[Item], split: Splitter, line: int = 0) -> None:
        self.line = line
        self.moved = False
        self._lines: list[_Line] = []
        self._breaks: list[Mark] = []
        items: list[Item] = []
        for item in _with_scripts_as_points(list(content)):
            if isinstance(item, Mark) and item.breaks:
                self._breaks.append(item)
                self._lines.append(_Line(items, split))
                items = []
            else:
                items.append(item)
        self._lines.append(_Line(items, split))
        self.sentences: list[str] = []
        for line_of_text in self._lines:
            for span in line_of_text.spans:
                sentence = line_of_text.sentence(span)
                if sentence:
                    self.sentences.append(sentence)

    @property
    def words(self) -> str:
        """The text without marks."""
        return "\n".join(line.text for line in self._lines)

    def unchanged(self) -> list[Item]:
        """Return the content with every sentence as its own translation."""
        return self.translated(self.sentences, None)

    def translated(self, translations: Iterable[str], joint: str | None) -> list[Item]:
        """Return the content with translated ``sentences``.

        ``joint`` is the text between two of them; None: as in the source.
        """
        following = iter(translations)
        self.moved = False
        items: list[Item] = []
        for line, end in zip_longest(self._lines, self._breaks):
            translation = _Translation(line, following, joint)
            items += line.head
            items += translation.with_marks()
            items.append(line.tail)
            if end:
                items.append(end)
            self.moved |= translation.moved
        return joined(with_texts(items))


def with_texts(content: Iterable[Item]) -> Iterator[Item]:
    """Yield text and marks, with the content of points that were text."""
    for item in content:
        if isinstance(item, Mark) and isinstance(item.what, Verbatim):
            yield from with_texts(item.what)
        else:
            yield item


def joined(content: Iterable[Item]) -> list[Item]:
    """Return text and marks with neighbouring texts as one."""
    items: list[Item] = []
    for item in content:
        if isinstance(item, str) and items and isinstance(items[-1], str):
            items[-1] += item
        elif item != "":
            items.append(item)
    return items


# ---- places of marks ---------------------------------------------------------------------------


class _MarkedPart(NamedTuple):
    """Marked text inside a word, and the numbers of its two marks."""

    length: int
    begin: int
    end: int


_NOTHING_MARKED = _MarkedPart(0, -1, -1)


class _Neighbour(NamedTuple):
    """The unit of the line before which a mark stands.

    Attributes:
        is_same: the mark stands inside it, and the translation has the same word.
    """

    unit: int
    is_same: bool


class _Anchor(NamedTuple):
    """A unit of the line, and its counterpart in the translation."""

    unit: int
    other: int


class _Translation:
    """The translation of a line.

    A place is the number of characters before it; between two units, the second's begin.

    Attributes:
        same: units of the line that are also in the translation, and their numbers there.
        moved: markup inside a word has to go behind it or around the whole word.
    """

    def __init__(self, line: _Line, translations: Iterator[str], joint: str | None) -> None:
        self.line = line
        self.text = ""
        self.units = _Units()
        self.same: dict[int, int] = {}
        self.moved = False
        self._anchors = [_Anchor(0, 0)]
        self._edges: dict[int, int] = {}  # of sentences
        done = 0
        for span in line.spans:
            if self.text:
                self.text += line.text[done : span.begin] if joint is None else joint
            if line.sentence(span):
                self._add(span, next(translations))
            else:
                self._add(span, line.text[span.begin : span.end])
            done = span.end

    def _add(self, span: _Span, sentence: str) -> None:
        source = self.line.units
        target = self.units
        first = bisect_left(source.begins, span.begin)
        last = bisect_left(source.begins, span.end)
        first_target = len(target.words)
        target.add(sentence, len(self.text))
        self.text += sentence
        here = source.words[first:last]
        there = target.words[first_target:]
        for common in _common_words(here, there):
            unit = first + common.here
            other = first_target + common.there
            self._anchors.append(_Anchor(unit, other))
            self._anchors.append(_Anchor(unit + common.size, other + common.size))
            for number in range(common.size):
                self.same[unit + number] = other + number
            if common.size:
                self._keep_characters(unit, other, common.size)
        self._edges[first] = first_target
        self._edges[last] = len(target.words)

    def _keep_characters(self, unit: int, other: int, count: int) -> None:
        """Give ``count`` equal words the hyphens and spaces of the line."""
        source, target = self.line.units, self.units
        original_begin = source.begins[unit]
        original_end = source.ends[unit + count - 1]
        original = self.line.text[original_begin:original_end]
        begin = target.begins[other]
        end = target.ends[other + count - 1]
        if self.text[begin:end] == _as_read(original):
            self.text = self.text[:begin] + original + self.text[end:]

    def with_marks(self) -> Iterator[Item]:
        done = 0
        marked = zip(self._places(), self.line.marks, strict=True)
        for place, group in groupby(marked, key=itemgetter(0)):
            marks = [placed for _, placed in group]
            unit = bisect_left(self.units.begins, place)
            spaces = [""] * (len(marks) + 1)
            end = place
            is_between_units = place == self._begin(unit)
            if is_between_units:
                end = self.units.ends[unit - 1] if unit else 0
                spaces = self._spaces(unit, marks, self.text[end:place])
            yield self.text[done:end]
            for space, placed in zip(spaces, marks, strict=False):
                yield space
                yield placed.mark
            yield spaces[-1]
            done = place
        yield self.text[done:]

    def _begin(self, unit: int) -> int:
        begins = self.units.begins
        return begins[unit] if unit < len(begins) else len(self.text)

    # ---- where marks stand ----

    def _places(self) -> list[int]:
        marks = self.line.marks
        pairs = _pairs([placed.mark for placed in marks])
        neighbours = self._neighbours(pairs)
        places: list[int] = []
        for placed, (unit, is_same) in zip(marks, neighbours, strict=True):
            if is_same:
                within = placed.offset - self.line.units.begins[unit]
                places.append(self.units.begins[self.same[unit]] + within)
            else:
                places.append(self._begin(self._near(placed, unit)))
        # No mark stands before an earlier one.
        units = list(accumulate((neighbour.unit for neighbour in neighbours), max))

        ends: dict[int, int] = {}
        for begin, end in pairs.items():
            if units[begin] == units[end]:
                continue
            ends[begin] = end
            marks_sentences = units[begin] in self._edges and units[end] in self._edges
            is_inside_word = neighbours[begin].is_same or neighbours[end].is_same
            if marks_sentences and not is_inside_word:
                # What marks whole sentences marks their whole translations.
                places[begin] = self._begin(self._edges[units[begin]])
                places[end] = self._begin(self._edges[units[end]])
        self._put_in_order(places, ends)
        return places

    def _neighbours(self, pairs: Mapping[int, int]) -> list[_Neighbour]:
        source = self.line.units
        marked_parts = self._marked_parts(pairs)
        neighbours = []
        for number, placed in enumerate(self.line.marks):
            unit = bisect_right(source.ends, placed.offset)
            is_inside = bisect_left(source.begins, placed.offset) > unit
            is_same = is_inside and unit in self.same
            if is_inside and not is_same:  # a word that has changed
                self.moved |= not placed.mark.hidden
                part = marked_parts.get(unit, _NOTHING_MARKED)
                is_behind = number > part.end
                ends_inside = number > part.begin and placed.mark.kind != "open"
                if is_behind or ends_inside:
                    unit += 1
            neighbours.append(_Neighbour(unit, is_same))
        return neighbours

    def _put_in_order(self, places: list[int], ends: Mapping[int, int]) -> None:
        """Make places ascend, with words between the begins and ends of ``ends``."""
        begins = {end: begin for begin, end in ends.items()}
        lowest = 0
        for number, place in enumerate(places):
            if number in begins:
                begin = places[begins[number]]
                if place <= begin:
                    place = self._begin(bisect_right(self.units.begins, begin))
            lowest = max(lowest, place)
            places[number] = lowest
        highest = len(self.text)
        for number in reversed(range(len(places))):
            highest = min(highest, places[number])
            if number in ends:
                end = places[ends[number]]
                if highest >= end:
                    unit = bisect_left(self.units.begins, end) - 1
                    highest = self._begin(max(unit, 0))
            places[number] = highest

    def _marked_parts(self, pairs: Mapping[int, int]) -> dict[int, _MarkedPart]:
        """Return the longest marked text inside each word."""
        parts: dict[int, _MarkedPart] = {}
        source, marks = self.line.units, self.line.marks
        for begin, end in pairs.items():
            first_offset = marks[begin].offset
            last_offset = marks[end].offset
            for offset in (first_offset, last_offset):
                unit = bisect_right(source.ends, offset)
                if unit == len(source.words):
                    continue
                first = max(first_offset, source.begins[unit])
                last = min(last_offset, source.ends[unit])
                part = _MarkedPart(last - first, begin, end)
                parts[unit] = max(parts.get(unit, _NOTHING_MARKED), part)
        return parts

    def _near(self, placed: _Placed, unit: int) -> int:
        """Return the unit before which a mark would stand alone; in the line, it is ``unit``."""
        source = self.line.units
        target = self.units
        kind = placed.mark.kind
        late = kind == "open" or unit == 0  # what begins a text stays with its first word
        if kind == "point" and placed.before and not placed.after:
            # The point may hold to the word behind it.
            behind = self.line.text[placed.offset :].lstrip()
            late = late or _is_letter(behind[:1])
        near = self._share(unit, late)
        last = len(target.words)
        begins_at_word = unit < len(source.words) and not source.is_symbol(unit)
        if kind == "open" and begins_at_word:
            while near < last - 1 and target.is_symbol(near):
                near += 1
        ends_at_word = unit > 0 and not source.is_symbol(unit - 1)
        if kind == "close" and ends_at_word:
            while near > 1 and target.is_symbol(near - 1):
                near -= 1
        if kind == "point" and unit and last:
            # A point that did not begin the text does not begin it: a comment would be a block.
            return max(near, 1)
        return near

    def _share(self, unit: int, late: bool) -> int:
        """Map a unit of the line to the translation; ``late``: behind insertions."""
        anchored = [anchor.unit for anchor in self._anchors]
        following = bisect_left(anchored, unit)
        if following == len(anchored):
            return len(self.units.words)
        end = self._anchors[following]
        if end.unit == unit:
            if late:
                end = self._anchors[bisect_right(anchored, unit) - 1]
            return end.other
        begin = self._anchors[max(following - 1, 0)]
        share = (unit - begin.unit) / (end.unit - begin.unit)
        return begin.other + round(share * (end.other - begin.other))

    # ---- white space beside marks ----

    def _spaces(self, unit: int, marks: Sequence[_Placed], gap: str) -> list[str]:
        """Return the white space before each mark, and behind the last one.

        ``gap`` is the white space before ``unit``, where the marks are put.
        """
        at_begin = unit == 0
        at_end = unit == len(self.units.words)
        spaces = _spaces_of_source(marks)
        if at_begin:
            spaces[0] = ""
        if at_end:
            spaces[-1] = ""
        # Marks at the begin or the end of both lines keep their space: `<b> The lamp` stays
        # `<b> Die Lampe`.
        offsets = {placed.offset for placed in marks}
        if at_begin and offsets == {0}:
            return spaces
        if at_end and offsets == {len(self.line.text)}:
            return spaces
        spaces = [_one_space(space) for space in spaces]
        if any(placed.mark.is_seen for placed in marks):
            return self._spaces_of_points(unit, marks, spaces, gap)
        return _spaces_of_tags(marks, spaces, gap)

    def _spaces_of_points(
        self, unit: int, marks: Sequence[_Placed], spaces: list[str], gap: str
    ) -> list[str]:
        seen = _seen_marks(marks)
        # The words between two points are gone: one space. `{a} and {b}` is `{a} {b}`.
        for point, next_point in pairwise(seen):
            stood_apart = marks[point].offset != marks[next_point].offset
            if stood_apart and not any(spaces[point + 1 : next_point + 1]):
                spaces[next_point] = " "

        # Before the first point: the gap of the translation, `see {a}` is `siehe {a}`, unless the
        # point holds to the word or symbol before it: `x{a}` is `y{a}`, and `({a}` is `({a}`.
        behind_first = seen[0] + 1
        left = spaces[:behind_first]
        if unit == 0:
            left = _with_gap("", left, marks)
        elif not any(left):
            holds_to_left = self._holds_to_left(unit, marks[seen[0]])
            if not holds_to_left:
                left = _with_gap(gap, left, marks)

        # Behind the last point: nothing before a symbol without a gap, `{a}.` is `{a}.`; else the
        # gap, unless the point holds to the word behind it. `{a}more` is `{a}mehr`, but `{a}s are`
        # is `{a} sind`, since an ending is no word to hold to.
        behind_last = seen[-1] + 1
        right = spaces[behind_last:]
        at_end = unit == len(self.units.words)
        before_symbol = not at_end and self.units.is_symbol(unit)
        stands_apart = before_symbol or any(right)
        if at_end or (before_symbol and not gap):
            right = [""] * len(right)
        elif not stands_apart:
            holds_to_right = self._holds_to_right(unit, marks[seen[-1]])
            if not holds_to_right:
                right = _with_gap(gap, right, marks[behind_last:])
        return left + spaces[behind_first:behind_last] + right

    def _holds_to_left(self, unit: int, point: _Placed) -> bool:
        before = self.line.text[: point.offset]
        if _is_letter(before[-1:]):
            return True
        return self.units.is_symbol(unit - 1)

    def _holds_to_right(self, unit: int, point: _Placed) -> bool:
        behind = self.line.text[point.offset :].lstrip()
        is_ending = _ENDING.match(behind) is not None
        if _is_letter(behind[:1]) and not is_ending:
            return True
        number = bisect_left(self.line.units.begins, point.offset)
        return self.same.get(number) == unit  # the ending itself is there again


def _spaces_of_source(marks: Sequence[_Placed]) -> list[str]:
    spaces = [marks[0].before]
    for left, right in pairwise(marks):
        stood_apart = right.offset != left.offset
        if stood_apart and left.after:
            spaces.append(left.after)
        else:
            spaces.append(right.before)
    spaces.append(marks[-1].after)
    return spaces


def _spaces_of_tags(marks: Sequence[_Placed], spaces: list[str], gap: str) -> list[str]:
    # No space was beside the tags, or none is there: `Go<b>ing</b> home` has none.
    if not gap or not any(spaces):
        return _with_gap(gap, spaces, marks)
    # Otherwise the space stands where it stood: `the <b>lamp` is `die <b>Lampe`, and
    # `the<b> lamp` is `die<b> Lampe`.
    offsets = {placed.offset for placed in marks}
    if len(offsets) == 1:
        return spaces
    # Tags that stood apart and have come together need one space: `<b>a</b> b <i>c` without `b` is
    # `<b>a</b> <i>c`.
    first = 0
    while not spaces[first]:
        first += 1
    others = [""] * (len(marks) - first)
    return spaces[: first + 1] + others


def _with_gap(gap: str, spaces: Sequence[str], marks: Sequence[_Placed]) -> list[str]:
    """Return ``gap`` before the first mark that ends no marked text, and no other space."""
    beside = [""] * len(spaces)
    slot = 0
    while slot < len(spaces) - 1 and marks[slot].mark.kind == "close":
        slot += 1
    beside[slot] = gap
    return beside
