"""Running text with inline markup: sentences out, and translations in with the markup placed.

A block is a sequence of text and marks. Its sentences are what a model translates; marks are left
out of them, and set into the translation by this rule: words and symbols that stand in both, in
the same order (names, numbers, punctuation), are fixed points; a mark between two of them keeps its
share of the words between them, and a mark inside one of them stays there. Marks never change their
order, so the tree of the markup is the same, and marked text keeps at least one word as long as
there are enough words. A block without a letter, such as a number in a table, is left as it is.
"""

from __future__ import annotations

import re
from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from difflib import SequenceMatcher
from itertools import groupby, pairwise, zip_longest
from operator import itemgetter
from typing import Any, Literal

from gtrans.text.document_file import Splitter


@dataclass(frozen=True)
class Mark:
    """Inline markup.

    Attributes:
        kind: the begin or the end of marked text, or a point: something that stands between words
            and has no text to translate, such as an image or code.
        what: what the format writes for it.
        breaks: it ends a line, so that no sentence goes on behind it.
        hidden: a point that readers do not see, such as a comment.
        script: the begin of a sub- or superscript.
        leads: where it begins a line it stays there, as a picture or a box to tick does; other
            points (code, a placeholder) are words of a sentence.
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


Content = Sequence[str | Mark]


class Verbatim(tuple[str | Mark, ...]):
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
_NOWHERE = (1 << 62, 1 << 62)


def with_addresses(text: str) -> Iterator[str | Mark]:
    """A text in which web and mail addresses are points, because they are not translated."""
    for number, piece in enumerate(_ADDRESS.split(text)):
        yield Mark("point", piece) if number % 2 else piece


def with_points(content: Content, addresses: bool = True) -> Iterator[str | Mark]:
    """A text in which placeholders and ``addresses`` are points of their own text.

    A placeholder may have marks inside, as Word makes them.
    """
    pieces = []
    for item in content:
        if isinstance(item, str):
            pieces.append(item)
        else:
            pieces.append("\0" if item.is_seen else "")
    spans = iter([match.span() for match in PLACEHOLDER.finditer("".join(pieces))])
    begin, end = next(spans, _NOWHERE)
    offset = 0
    held: list[str | Mark] = []  # of the placeholder that has begun
    for item, piece in zip(content, pieces, strict=True):
        if isinstance(item, Mark):
            if begin < offset < end:
                held.append(item)
            else:
                yield item
            offset += len(piece)
            continue
        rest = item
        while rest:
            border = begin if offset < begin else end
            part = rest[: border - offset]
            rest = rest[border - offset :]
            offset += len(part)
            if offset <= begin:
                yield from _text_with_addresses(part) if addresses else [part]
                continue
            held.append(part)
            if offset == end:
                yield Mark("point", Verbatim(held))
                held = []
                begin, end = next(spans, _NOWHERE)


def _text_with_addresses(text: str) -> Iterator[str | Mark]:
    """A text in which addresses are points of their own text."""
    for item in with_addresses(text):
        yield item if isinstance(item, str) else Mark("point", Verbatim([item.what]))


def _with_scripts_as_points(content: Content) -> Iterator[str | Mark]:
    """A text in which sub- and superscripts that are attached to a word are points.

    As text they would change it: 10<sup>6</sup> is not 106, and the number of a note no word.
    """
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
            if not any(isinstance(inner, str) and re.search(r"\s", inner) for inner in within):
                item = Mark("point", Verbatim(within), script=True)
                following = ends[number] + 1
        yield item
        number = following


def _pairs(content: Content) -> dict[int, int]:
    """The numbers of the begins and ends of marked text."""
    pairs, begins = dict[int, int](), list[int]()
    for number, item in enumerate(content):
        if isinstance(item, Mark) and item.kind == "open":
            begins.append(number)
        elif isinstance(item, Mark) and item.kind == "close" and begins:
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
    """Whether a character belongs to words that white space separates."""
    return _LETTER.fullmatch(character) is not None


def _as_read(text: str) -> str:
    """A text as a model reads it: all its white space and hyphens are ordinary ones."""
    return re.sub(r"\s", " ", text).replace("\u2011", "-")


def _one_space(white: str) -> str:
    """White space as one character: the first that is no ordinary space, or a space."""
    return next((char for char in white if char not in " \t\r\n\f"), " ") if white else ""


def _same_words(here: Sequence[str], there: Sequence[str]) -> Iterator[tuple[int, int, int]]:
    """Yield the stretches of words that are in both: their begins and the number of words."""
    if here == there:
        yield 0, 0, len(here)
        return
    # Otherwise one word over and over takes hours.
    autojunk = max(len(here), len(there)) > _LONG
    yield from SequenceMatcher(None, here, there, autojunk).get_matching_blocks()


class _Units:
    """The words and symbols of a text: their begins, ends, and themselves as a model reads them."""

    def __init__(self) -> None:
        self.begins: list[int] = []
        self.ends: list[int] = []
        self.words: list[str] = []

    def add(self, text: str, begin: int = 0) -> None:
        """Add the units of a text that begins at ``begin``."""
        for match in _UNIT.finditer(text):
            self.begins.append(begin + match.start())
            self.ends.append(begin + match.end())
            self.words.append(_as_read(match[0]))

    def is_symbol(self, number: int) -> bool:
        """Whether a unit is neither a word nor a number."""
        return not self.words[number][0].isalnum()


# ---- lines and blocks --------------------------------------------------------------------------


@dataclass
class _Placed:
    """A mark and its place: characters of the text before it, and the white space beside it."""

    mark: Mark
    offset: int
    before: str
    after: str = ""


class _Line:
    """A part of a block in which nothing ends a line.

    Args:
        content: text and marks.
        split: finds the sentences of a text.

    Attributes:
        text: the text without marks, with single spaces, whose kinds are kept.
        marks: its marks, but for those that stay at its begin.
        head, tail: what stays at its begin and its end.
        spans: where its sentences are, and the text between them.
        units: its words and symbols.
    """

    def __init__(self, content: Content, split: Splitter) -> None:
        self.text = ""
        self.marks: list[_Placed] = []
        self.spans: list[tuple[int, int]] = []
        begin = _leading(content)
        self.head, self.tail = list(content[:begin]), ""
        self._read(content[begin:])
        self.units = _Units()
        self.units.add(self.text)
        text = _as_read(self.text)
        end = 0
        for sentence in split(text):
            begin = text.index(sentence, end)
            # What no space divides is one sentence, but for full-width stops.
            if self.spans and begin == end and text[begin - 1].isascii():
                first, _ = self.spans.pop()
            else:
                first = begin
            end = begin + len(sentence)
            self.spans.append((first, end))

    def _read(self, content: Content) -> None:
        white = ""  # since the last text or mark
        first = 0  # the first mark since the last text
        for item in content:
            words = item.strip() if isinstance(item, str) else ""
            if isinstance(item, str):
                white += item[: len(item) - len(item.lstrip())]
                if not words:
                    continue
            marks = self.marks[first:]
            if marks:
                marks[-1].after = white
            elif not self.text:
                self.head.append(white)
            if isinstance(item, Mark):
                self.marks.append(_Placed(item, len(self.text), white))
                white = ""
            else:
                first = len(self.marks)
                if self.text:
                    self.text += _between(self.text, words, marks, white)
                self.text += re.sub(r"\s+", lambda match: _one_space(match[0]), words)
                white = item[len(item.rstrip()) :]
        self.tail = white

    def sentence(self, span: tuple[int, int]) -> str:
        """The text of a span; empty if it has no letter, and is not translated."""
        text = _as_read(self.text[slice(*span)])
        return text if any(map(str.isalpha, text)) else ""


def _leading(content: Content) -> int:
    """How many items stay at the begin of a line: all up to the last mark that leads it.

    The end of what begins and ends before the first word stays with its begin.
    """
    count = 0
    for number, item in enumerate(content, start=1):
        if isinstance(item, str) and item.strip():
            break
        if isinstance(item, Mark) and (item.leads or item.kind == "close"):
            count = number
    return count


def _between(text: str, words: str, marks: Sequence[_Placed], white: str) -> str:
    """What stands between two texts without the marks between them.

    "the <code>x</code>, then" is "the, then", and "a<img>b" is "a b".

    Args:
        text, words: the texts.
        marks: the marks.
        white: the white space behind the last of them.
    """
    seen = [number for number, placed in enumerate(marks) if placed.mark.is_seen]
    spaces = [*(placed.before for placed in marks), white]
    if not seen:
        return _one_space("".join(spaces))
    before = "".join(spaces[: seen[0] + 1])
    behind = "".join(spaces[seen[-1] + 1 :])
    if behind:
        return _one_space(behind)
    is_script = all(marks[number].mark.script for number in seen)
    apart = _is_letter(text[-1:]) and _is_letter(words[0]) and not is_script
    is_word = words[0].isalnum() or _SUFFIX.match(words) is not None
    if apart or (before and is_word):
        return _one_space(before) or " "
    return ""


class Block:
    """Running text with marks.

    Args:
        content: text and marks.
        split: finds the sentences of a text.
        line: where it begins in its file, from 1; 0: lines say nothing.

    Attributes:
        sentences: its sentences; those without a letter are left out.
        moved: whether markup inside a word could not stay there in the last translation.
    """

    def __init__(self, content: Iterable[str | Mark], split: Splitter, line: int = 0) -> None:
        self.line, self.moved = line, False
        self._lines: list[_Line] = []
        self._breaks: list[Mark] = []
        items: list[str | Mark] = []
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
        """Its text without marks, line by line."""
        return "\n".join(line.text for line in self._lines)

    def unchanged(self) -> list[str | Mark]:
        """The content with every sentence as its own translation."""
        return self.translated(self.sentences, None)

    def translated(self, translations: Iterable[str], joint: str | None) -> list[str | Mark]:
        """The content with translated text.

        Args:
            translations: of ``sentences``.
            joint: what stands between two sentences of the translation; None: what stood there.
        """
        following = iter(translations)
        self.moved = False
        written: list[str | Mark] = []
        for line, end in zip_longest(self._lines, self._breaks):
            translation = _Translation(line, following, joint)
            written += line.head
            written += translation.with_marks()
            written.append(line.tail)
            if end:
                written.append(end)
            self.moved |= translation.moved
        return joined(with_texts(written))


def with_texts(content: Iterable[str | Mark]) -> Iterator[str | Mark]:
    """Text and marks, with what points were made of."""
    for item in content:
        if isinstance(item, Mark) and isinstance(item.what, Verbatim):
            yield from with_texts(item.what)
        else:
            yield item


def joined(written: Iterable[str | Mark]) -> list[str | Mark]:
    """Neighbouring texts as one."""
    items: list[str | Mark] = []
    for item in written:
        if isinstance(item, str) and items and isinstance(items[-1], str):
            items[-1] += item
        elif item != "":
            items.append(item)
    return items


# ---- places of marks ---------------------------------------------------------------------------


class _Translation:
    """The translation of a line.

    A place in it is the number of characters before; one between two units is where the second
    begins.

    Attributes:
        line: the line.
        text: its translation, without marks.
        units: the words and symbols of that.
        same: units of the line that stand in the translation, too, and their numbers there.
        moved: whether markup inside a word has to go behind it or around the whole word.
    """

    def __init__(self, line: _Line, translations: Iterator[str], joint: str | None) -> None:
        self.line = line
        self.text = ""
        self.units = _Units()
        self.same: dict[int, int] = {}
        self.moved = False
        # Places between units of the line, and where they are in the translation.
        self._anchors = [(0, 0)]
        self._edges: dict[int, int] = {}  # of sentences
        end = 0
        for span in line.spans:
            if self.text:
                self.text += line.text[end : span[0]] if joint is None else joint
            begin, end = span
            if line.sentence(span):
                self._add(span, next(translations))
            else:
                self._add(span, line.text[begin:end])

    def _add(self, span: tuple[int, int], sentence: str) -> None:
        """Add the translation of a sentence; ``span``: where that stands in the line."""
        source, target = self.line.units, self.units
        begins = len(target.words)
        first, last = (bisect_left(source.begins, offset) for offset in span)
        target.add(sentence, len(self.text))
        self.text += sentence
        here, there = source.words[first:last], target.words[begins:]
        for i, j, size in _same_words(here, there):
            unit, other = first + i, begins + j
            self._anchors += [(unit, other), (unit + size, other + size)]
            for number in range(size):
                self.same[unit + number] = other + number
            if size:
                self._keep_characters(unit, other, size)
        self._edges |= {first: begins, last: len(target.words)}

    def _keep_characters(self, unit: int, other: int, size: int) -> None:
        """Write words that are the same with the hyphens and spaces of the line.

        Args:
            unit: the first of them in the line.
            other: the first of them in the translation.
            size: how many they are.
        """
        source, target = self.line.units, self.units
        original = self.line.text[source.begins[unit] : source.ends[unit + size - 1]]
        begin, end = target.begins[other], target.ends[other + size - 1]
        if self.text[begin:end] == _as_read(original):
            self.text = self.text[:begin] + original + self.text[end:]

    def with_marks(self) -> Iterator[str | Mark]:
        """The translation with the marks, and white space where it belongs."""
        done = 0
        marked = zip(self._places(), self.line.marks, strict=True)
        for place, group in groupby(marked, key=itemgetter(0)):
            marks = [placed for _, placed in group]
            unit = bisect_left(self.units.begins, place)
            spaces = [""] * (len(marks) + 1)
            end = place
            if place == self._begin(unit):
                end = self.units.ends[unit - 1] if unit else 0
                spaces = self._spaces(unit, marks, self.text[end:place])
            yield self.text[done:end]
            for space, placed in zip(spaces, marks, strict=False):
                yield from (space, placed.mark)
            yield spaces[-1]
            done = place
        yield self.text[done:]

    def _begin(self, unit: int) -> int:
        """Where a unit begins; behind the last one, where it ends."""
        begins = self.units.begins
        return begins[unit] if unit < len(begins) else len(self.text)

    def _places(self) -> list[int]:
        """The place of each mark: in their order, and with words between begins and ends."""
        places: list[int] = []
        fixed: list[bool] = []  # whether it stays inside a word
        units: list[int] = []  # of the line, before which each mark stands
        pairs = _pairs([placed.mark for placed in self.line.marks])
        owners = self._owners(pairs)
        for number, placed in enumerate(self.line.marks):
            unit = bisect_right(self.line.units.ends, placed.offset)
            is_inside = bisect_left(self.line.units.begins, placed.offset) > unit
            fixed.append(is_inside and unit in self.same)
            if fixed[-1]:
                within = placed.offset - self.line.units.begins[unit]
                places.append(self.units.begins[self.same[unit]] + within)
            else:
                if is_inside:  # a word that has changed
                    self.moved |= not placed.mark.hidden
                    _, begin, end = owners.get(unit, (0, -1, -1))
                    unit += number > begin and (placed.mark.kind != "open" or number > end)
                places.append(self._begin(self._near(placed, unit)))
            units.append(max(units[-1], unit) if units else unit)
        ends = {begin: end for begin, end in pairs.items() if units[begin] < units[end]}
        for begin, end in ends.items():
            is_whole = units[begin] in self._edges and units[end] in self._edges
            if is_whole and not (fixed[begin] or fixed[end]):
                # What marks whole sentences marks their whole translations.
                places[begin] = self._begin(self._edges[units[begin]])
                places[end] = self._begin(self._edges[units[end]])
        self._put_in_order(places, ends)
        return places

    def _put_in_order(self, places: list[int], ends: Mapping[int, int]) -> None:
        """Change the places of marks so that they are in order, with words between pairs.

        Args:
            places: of each mark.
            ends: the number of the end for each begin's.
        """
        begins = {end: begin for begin, end in ends.items()}
        lowest = 0
        for number, place in enumerate(places):
            if number in begins and place <= places[begins[number]]:
                place = self._begin(bisect_right(self.units.begins, places[begins[number]]))
            lowest = max(lowest, place)
            places[number] = lowest
        highest = len(self.text)
        for number in reversed(range(len(places))):
            highest = min(highest, places[number])
            if number in ends and highest >= places[ends[number]]:
                unit = bisect_left(self.units.begins, places[ends[number]]) - 1
                highest = self._begin(max(unit, 0))
            places[number] = highest

    def _owners(self, pairs: Mapping[int, int]) -> dict[int, tuple[int, int, int]]:
        """For each word with marked text inside: how much its longest pair marks, and that pair."""
        owners: dict[int, tuple[int, int, int]] = {}
        source, marks = self.line.units, self.line.marks
        for begin, end in pairs.items():
            for mark in (marks[begin], marks[end]):
                unit = bisect_right(source.ends, mark.offset)
                if unit < len(source.words):
                    first = max(marks[begin].offset, source.begins[unit])
                    share = min(marks[end].offset, source.ends[unit]) - first
                    owners[unit] = max(owners.get(unit, (0, -1, -1)), (share, begin, end))
        return owners

    def _near(self, placed: _Placed, unit: int) -> int:
        """The unit before which a mark would stand alone; ``unit``: that in the line."""
        source, target = self.line.units, self.units
        kind = placed.mark.kind
        late = kind == "open" or not unit  # what begins a text stays with its first word
        # A point may hold to the word behind it.
        if kind == "point" and placed.before and not placed.after:
            late |= _is_letter(self.line.text[placed.offset :].lstrip()[:1])
        near = self._share(unit, late)
        last = len(target.words)
        if kind == "open" and unit < len(source.words) and not source.is_symbol(unit):
            while near < last - 1 and target.is_symbol(near):
                near += 1
        if kind == "close" and unit > 0 and not source.is_symbol(unit - 1):
            while near > 1 and target.is_symbol(near - 1):
                near -= 1
        # What did not begin the text does not begin it: there a comment would be a block.
        return max(near, 1) if kind == "point" and unit and last else near

    def _share(self, unit: int, late: bool) -> int:
        """The unit of the translation for one of the line; ``late``: behind what was inserted."""
        anchors = [anchor for anchor, _ in self._anchors]
        first = bisect_left(anchors, unit)
        if first == len(anchors):
            return len(self.units.words)
        begin, start = self._anchors[max(first - 1, 0)]
        end, stop = self._anchors[first]
        if end == unit:
            if late:
                first = bisect_right(anchors, unit) - 1
            return self._anchors[first][1]
        return start + round((unit - begin) / (end - begin) * (stop - start))

    def _spaces(self, unit: int, marks: Sequence[_Placed], gap: str) -> list[str]:
        """Return the white space before each mark, and behind the last one.

        Marks at the begin or the end of both lines keep theirs: ``<b> The lamp`` stays
        ``<b> Die Lampe``.

        Args:
            unit: before which the marks stand.
            marks: at least one.
            gap: the white space before that unit.
        """
        first, last = unit == 0, unit == len(self.units.words)
        spaces = _spaces_of_source(marks)
        if first:
            spaces[0] = ""
        if last:
            spaces[-1] = ""
        offsets = {placed.offset for placed in marks}
        if (first and offsets == {0}) or (last and offsets == {len(self.line.text)}):
            return spaces
        spaces = [_one_space(space) for space in spaces]
        if any(placed.mark.is_seen for placed in marks):
            return self._spaces_of_points(unit, marks, spaces, gap)
        return _spaces_of_tags(marks, spaces, gap)

    def _spaces_of_points(
        self, unit: int, marks: Sequence[_Placed], spaces: list[str], gap: str
    ) -> list[str]:
        """Return the white space where code, pictures or placeholders are among the marks.

        * The words between two points are gone: one space. ``{a} and {b}`` is ``{a} {b}``.
        * Before the first point: the gap of the translation, unless the source shows that the
          point holds to the word or symbol before it. ``see {a}`` is ``siehe {a}``, ``({a}`` is
          ``({a}``, and ``x{a}`` is ``y{a}``.
        * Behind the last point: nothing before a symbol without a gap, ``{a}.`` is ``{a}.``;
          else the gap, unless the point holds to the word behind it. ``{a}more`` is ``{a}mehr``,
          but ``{a}s are`` is ``{a} sind``, since an ending is no word to hold to.
        """
        seen = [number for number, placed in enumerate(marks) if placed.mark.is_seen]
        for before, after in pairwise(seen):
            apart = marks[before].offset != marks[after].offset
            if apart and not any(spaces[before + 1 : after + 1]):
                spaces[after] = " "
        begin, end = seen[0] + 1, seen[-1] + 1
        left, right = spaces[:begin], spaces[end:]
        if unit == 0:
            left = _with_gap("", left, marks)
        elif not (any(left) or self._holds_to_left(unit, marks[begin - 1])):
            left = _with_gap(gap, left, marks)
        is_symbol = unit < len(self.units.words) and self.units.is_symbol(unit)
        if unit == len(self.units.words) or (not gap and is_symbol):
            right = [""] * len(right)
        elif not (any(right) or is_symbol or self._holds_to_right(unit, marks[end - 1])):
            right = _with_gap(gap, right, marks[end:])
        return [*left, *spaces[begin:end], *right]

    def _holds_to_left(self, unit: int, point: _Placed) -> bool:
        """Whether a point holds to the word or symbol before it: ``x{a}``, ``({a}``."""
        before = self.line.text[: point.offset][-1:]
        return _is_letter(before) or self.units.is_symbol(unit - 1)

    def _holds_to_right(self, unit: int, point: _Placed) -> bool:
        """Whether a point holds to the word behind it: ``{a}more``, not the ending of ``{a}s``."""
        behind = self.line.text[point.offset :].lstrip()
        if _is_letter(behind[:1]) and not _ENDING.match(behind):
            return True
        number = bisect_left(self.line.units.begins, point.offset)
        return self.same.get(number) == unit  # the ending itself is there again


def _spaces_of_source(marks: Sequence[_Placed]) -> list[str]:
    """Return the white space of the source before each mark, and behind the last one.

    Between two marks that stood apart it is what was behind the first one, or before the second.
    """
    spaces = [marks[0].before]
    for left, right in pairwise(marks):
        if right.offset == left.offset:
            spaces.append(right.before)
        else:
            spaces.append(left.after or right.before)
    return [*spaces, marks[-1].after]


def _spaces_of_tags(marks: Sequence[_Placed], spaces: list[str], gap: str) -> list[str]:
    """Return the white space where no mark takes a place: begins and ends of marked text.

    * Nothing was beside the tags, or nothing is there: the gap. ``Go<b>ing</b> home`` has none.
    * Else the space stands where it stood: ``the <b>lamp`` is ``die <b>Lampe``, and
      ``the<b> lamp`` is ``die<b> Lampe``.
    * Tags that stood apart and have come together need one: ``<b>a</b> b <i>c`` without ``b`` is
      ``<b>a</b> <i>c``.
    """
    if not gap or not any(spaces):
        return _with_gap(gap, spaces, marks)
    slot = next(number for number, space in enumerate(spaces) if space)
    if len({placed.offset for placed in marks}) > 1:
        spaces[slot + 1 :] = [""] * (len(marks) - slot)
    return spaces


def _with_gap(gap: str, spaces: Sequence[str], marks: Sequence[_Placed]) -> list[str]:
    """White space beside marks: only before the first that is no end of marked text.

    Args:
        gap: the white space.
        spaces: before each mark and behind the last one.
        marks: as many or more.
    """
    begins = (number for number in range(len(spaces) - 1) if marks[number].mark.kind != "close")
    slot = next(begins, len(spaces) - 1)
    return [gap if number == slot else "" for number in range(len(spaces))]
