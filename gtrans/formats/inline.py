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
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from copy import copy
from dataclasses import dataclass
from difflib import SequenceMatcher
from itertools import pairwise
from typing import Any, Literal, NamedTuple


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
    """What a point consists of that was text: a placeholder, an address, a sub- or superscript."""


# ---- words and symbols -------------------------------------------------------------------------


_IDEOGRAPHS = "\u2e80-\u312f\u31a0-\u9fff\uf900-\ufaff"
# Ideographs and kana are words of their own; a word may have joined parts; other symbols stand
# alone.
_UNIT = re.compile(
    f"[{_IDEOGRAPHS}]|[^\\W{_IDEOGRAPHS}]+(?:['’\u2011-][^\\W{_IDEOGRAPHS}]+)*|[^\\w\\s]"
)
_LETTER = re.compile(f"[^\\W{_IDEOGRAPHS}]")


def is_part_of_word(letter: str) -> bool:
    """Whether a character is one of a word that white space ends."""
    return _LETTER.fullmatch(letter) is not None


def as_read(text: str) -> str:
    """A text as a model reads it: all its white space and hyphens are ordinary ones."""
    return re.sub(r"\s", " ", text).replace("\u2011", "-")


class Units:
    """The words and symbols of texts that stand one after the other.

    Args:
        texts: the texts.
        joint: what stands between two of them.

    Attributes:
        text: the whole text.
        places: where each unit begins and ends in it.
        counts: how many units each of the texts has.
    """

    def __init__(self, texts: Iterable[str], joint: str = "") -> None:
        self.text = ""
        self.places: list[tuple[int, int]] = []
        self.counts: list[int] = []
        for number, text in enumerate(texts):
            self.text += joint if number else ""
            begin = len(self.text)
            found = [(begin + one.start(), begin + one.end()) for one in _UNIT.finditer(text)]
            self.places += found
            self.counts.append(len(found))
            self.text += text
        self._begins = [begin for begin, _ in self.places]
        self._ends = [end for _, end in self.places]

    def __len__(self) -> int:
        return len(self.places)

    def words(self, begin: int, end: int) -> list[str]:
        """Some of the units, as a model reads them."""
        return [as_read(self.text[slice(*place)]) for place in self.places[begin:end]]

    def before(self, offset: int) -> int:
        """How many end at or before an offset."""
        return bisect_right(self._ends, offset)

    def begun(self, offset: int) -> int:
        """How many begin before an offset."""
        return bisect_left(self._begins, offset)

    def inside(self, offset: int) -> int | None:
        """The unit that goes on at an offset, if there is one."""
        number = self.before(offset)
        return number if self.begun(offset) > number else None

    def is_symbol(self, number: int) -> bool:
        """Whether a unit is neither a word nor a number."""
        return not self.text[self.places[number][0]].isalnum()

    def gap(self, number: int) -> str:
        """What stands between a unit and the one before it."""
        if not 0 < number < len(self):
            return ""
        return self.text[self.places[number - 1][1] : self.places[number][0]]

    def with_letters_of(self, source: Units, same: Mapping[int, int]) -> Units:
        """A copy with the hyphens of another text in units that stand in both, and its white space
        between those that are neighbours in both.

        Args:
            source: the other text.
            same: its units that stand here, too, and their numbers here.
        """
        letters = list(self.text)
        for there, here in same.items():
            letters[slice(*self.places[here])] = source.text[slice(*source.places[there])]
            if here and same.get(there - 1) == here - 1 and self.gap(here) == " ":
                gap = source.gap(there)
                letters[self.places[here][0] - 1] = gap if len(gap) == 1 and gap.isspace() else " "
        found = copy(self)
        found.text = "".join(letters)
        return found


# ---- white space beside marks ------------------------------------------------------------------


_ENDING = re.compile(r"[^\W\d_]{1,2}\b")
_ORDINARY = " \t\r\n\f"


@dataclass
class Placed:
    """A mark and its place.

    Attributes:
        mark: the mark.
        offset: characters of the text before it.
        before, after: the white space beside it, as it was read.
    """

    mark: Mark
    offset: int
    before: str
    after: str = ""


def one_space(white: str) -> str:
    """White space as one character: the first that is no ordinary space, or a space."""
    return next((one for one in white if one not in _ORDINARY), " ") if white else ""


def single_spaced(text: str) -> str:
    """A text with one character for each stretch of white space."""
    return re.sub(r"\s+", lambda found: one_space(found[0]), text)


def spaced(source: Units, target: Units, number: int, marks: Sequence[Placed]) -> list[str | Mark]:
    """The marks before a unit of the translation, with white space.

    Args:
        source, target: the text and its translation.
        number: of the unit; the number of all units for what stands at the end.
        marks: at least one.
    """
    spaces = _spaces(source, target, number, marks)
    found: list[str | Mark] = []
    for space, one in zip(spaces, marks, strict=False):
        found += [space, one.mark]
    return [*found, spaces[-1]]


def _spaces(source: Units, target: Units, number: int, marks: Sequence[Placed]) -> list[str]:
    """The white space before each mark, and behind the last one."""
    spaces = [marks[0].before]
    spaces += [
        one.before if one.offset == last.offset else last.after or one.before
        for last, one in pairwise(marks)
    ]
    spaces.append(marks[-1].after)
    offsets = {one.offset for one in marks}
    if number == 0:
        spaces[0] = ""
        if offsets == {0}:
            return spaces if len(target) else [*spaces[:-1], ""]
    if number == len(target):
        spaces[-1] = ""
        if offsets == {len(source.text)}:
            return spaces
    spaces = [one_space(white) for white in spaces]
    seen = [place for place, one in enumerate(marks) if one.mark.is_seen]
    gap = target.gap(number)
    if seen:
        return _beside_seen(source, target, number, marks, spaces, seen)
    if not gap or not any(spaces):
        spaces = [""] * len(spaces)
        spaces[_slot(marks, 0)] = gap
    elif len(offsets) > 1:  # they have come together: one of their spaces is enough
        first = next(place for place, white in enumerate(spaces) if white)
        spaces = [white if place == first else "" for place, white in enumerate(spaces)]
    return spaces


def _beside_seen(
    source: Units,
    target: Units,
    number: int,
    marks: Sequence[Placed],
    spaces: list[str],
    seen: Sequence[int],
) -> list[str]:
    """White space where some of the marks are seen: ``seen`` has their numbers."""
    gap, first, last = target.gap(number), seen[0], seen[-1]
    breaks = any(marks[place].mark.breaks for place in seen)
    for one, other in pairwise(seen):  # text between two of them was a space, too
        apart = marks[one].offset != marks[other].offset
        if apart and not any(spaces[one + 1 : other + 1]) and not breaks:
            spaces[other] = " "
    held_before = is_part_of_word(source.text[: marks[first].offset][-1:])
    behind_it = source.text[marks[last].offset :].lstrip()
    held_after = is_part_of_word(behind_it[:1])
    if _ENDING.match(behind_it):  # that of "{0}s" is no word to hold to; but it may be there again
        following = source.begun(marks[last].offset)
        held_after = source.words(following, following + 1) == target.words(number, number + 1)
    if number == 0:
        spaces[: first + 1] = [""] * (first + 1)
    elif any(spaces[: first + 1]) or breaks or held_before or target.is_symbol(number - 1):
        pass
    else:
        spaces[_slot(marks[: first + 1], 0)] = gap
    behind = _slot(marks, last + 1)
    if number == len(target) or (not gap and target.is_symbol(number)):
        spaces[last + 1 :] = [""] * (len(marks) - last)
    elif any(spaces[last + 1 :]) or breaks or held_after or target.is_symbol(number):
        pass
    else:
        spaces[behind] = gap
    if gap and not any(spaces) and not breaks and not (held_before and held_after):
        spaces[behind if held_before else _slot(marks[: first + 1], 0)] = gap
    return spaces


def _slot(marks: Sequence[Placed], begin: int) -> int:
    """Where white space stands: before the first mark that is no end of marked text."""
    places = range(begin, len(marks))
    return next((place for place in places if marks[place].mark.kind != "close"), len(marks))


# ---- places of marks ---------------------------------------------------------------------------


_LONG = 500  # words and symbols of a sentence


class _Place(NamedTuple):
    """Before a unit of the translation, or ``inner`` characters behind its begin."""

    unit: int
    inner: int = 0


class _Anchors:
    """Places of the text, in units, and where they are in the translation."""

    def __init__(self) -> None:
        self.here = [0]
        self.there = [0]
        self.same: dict[int, int] = {}

    def add(self, here: int, there: int) -> None:
        self.here.append(here)
        self.there.append(there)

    def share(self, place: int, late: bool) -> int:
        """Where a place is; ``late``: at the end of what has been inserted there."""
        begin = bisect_left(self.here, place)
        if self.here[begin] == place:
            late |= not place  # what stands at the begin stays with its first word
            return self.there[bisect_right(self.here, place) - 1 if late else begin]
        share = (place - self.here[begin - 1]) / (self.here[begin] - self.here[begin - 1])
        width = self.there[begin] - self.there[begin - 1]
        return self.there[begin - 1] + round(share * width)


def place(
    text: str,
    marks: Sequence[Placed],
    sentences: Sequence[tuple[tuple[int, int], str]],
    joint: str,
) -> tuple[list[str | Mark], bool]:
    """The translation of a text with its marks.

    Args:
        text: the text.
        marks: its marks, in order.
        sentences: the range of each sentence in the text, and its translation.
        joint: what stands between two sentences of the translation.

    Returns:
        Text and marks; whether markup inside a word had to go beside it or around the whole word.
    """
    source = Units([text])
    target = Units([translation for _, translation in sentences], joint)
    anchors, ends = _Anchors(), 0
    edges: dict[int, int] = {}  # where sentences begin and end, here and there
    for ((begin, end), _), count in zip(sentences, target.counts, strict=True):
        first, last = source.begun(begin), source.begun(end)
        begins, ends = ends, ends + count
        matcher = SequenceMatcher(
            None,
            source.words(first, last),
            target.words(begins, ends),
            autojunk=max(last - first, count) > _LONG,  # or the same word over and over takes hours
        )
        for i, j, size in matcher.get_matching_blocks():
            anchors.add(first + i, begins + j)
            anchors.add(first + i + size, begins + j + size)
            anchors.same |= {first + i + n: begins + j + n for n in range(size)}
        anchors.add(last, ends)
        edges |= {first: begins, last: ends}
    anchors.add(len(source), len(target))
    places, moved = _places(source, target, marks, anchors, edges)
    return _written(source, target.with_letters_of(source, anchors.same), marks, places), moved


def _places(
    source: Units,
    target: Units,
    marks: Sequence[Placed],
    anchors: _Anchors,
    edges: Mapping[int, int],
) -> tuple[list[_Place], bool]:
    """The place of each mark in the translation; see :func:`place`."""
    inside = [source.inside(one.offset) for one in marks]
    pairs = _pairs(marks)
    here, filled = _beside_words(source, marks, inside, pairs, anchors)
    # What marks whole sentences marks their whole translations.
    whole = {
        number
        for both in pairs.items()
        if here[both[0]] < here[both[1]]
        and all(inside[number] is None and here[number] in edges for number in both)
        for number in both
    }
    wanted = [
        _Place(edges[place])
        if (leads and place in edges) or number in whole
        else _Place(anchors.same[unit], one.offset - source.places[unit][0])
        if unit in anchors.same
        else _Place(_near(source, target, one, place, anchors))
        for number, (one, unit, place, leads) in enumerate(
            zip(marks, inside, here, _leading(marks), strict=True)
        )
    ]
    begins = {end: begin for begin, end in filled.items()}
    least = _Place(0)
    for number, at in enumerate(wanted):
        if number in begins and at <= wanted[begins[number]]:
            least = max(least, _Place(wanted[begins[number]].unit + 1))
        wanted[number] = least = max(least, at)
    most = _Place(len(target))
    for number in reversed(range(len(wanted))):
        most = min(most, wanted[number])
        if number in filled and most >= wanted[filled[number]]:
            unit, inner = wanted[filled[number]]
            most = _Place(unit if inner else max(unit - 1, 0))
        wanted[number] = most
    moved = any(
        unit is not None and unit not in anchors.same and not one.mark.hidden
        for one, unit in zip(marks, inside, strict=True)
    )
    return wanted, moved


def _leading(marks: Sequence[Placed]) -> list[bool]:
    """Which marks are breaks of lines, or begin a line and stay there with all before them."""
    found, begin = [], 0
    for one in marks:
        at_begin = one.offset == begin
        begin = one.offset if one.mark.breaks else begin
        # The end of what begins and ends before the first word stays with its begin.
        stays = one.mark.breaks or (at_begin and (one.mark.leads or one.mark.kind == "close"))
        found.append((at_begin, stays))
    leading, later = [], False
    for at_begin, stays in reversed(found):
        later = stays or (later and at_begin)
        leading.append(later)
    return leading[::-1]


def _pairs(marks: Sequence[Placed]) -> dict[int, int]:
    """The numbers of the begins and ends of marked text."""
    found, opened = {}, []
    for number, one in enumerate(marks):
        if one.mark.kind == "open":
            opened.append(number)
        elif one.mark.kind == "close" and opened:
            found[opened.pop()] = number
    return found


def _beside_words(
    source: Units,
    marks: Sequence[Placed],
    inside: Sequence[int | None],
    pairs: dict[int, int],
    anchors: _Anchors,
) -> tuple[list[int], dict[int, int]]:
    """The place of each mark in the text, in units, and the pairs that mark some of them.

    Of a word that is not the same in the translation a mark inside it cannot keep its place. Marked
    text that has other words too loses that word, and marked text within it gets the whole word. If
    there are several within one word, the longest gets it.
    """
    here = [
        source.before(one.offset) + (unit is not None and one.mark.kind != "open")
        for one, unit in zip(marks, inside, strict=True)
    ]
    filled = {b: e for b, e in pairs.items() if marks[b].offset < marks[e].offset}
    within: dict[int, list[tuple[int, int]]] = {}
    for begin, end in filled.items():
        whole = here[begin], here[end]
        for unit in {inside[begin], inside[end]}:
            if unit is None or unit in anchors.same:
                continue
            first, last = source.places[unit]
            if marks[begin].offset < first:
                here[end] = unit
            elif marks[end].offset > last:
                here[begin] = unit + 1
            else:
                within.setdefault(unit, []).append((begin, end))
        if here[begin] >= here[end]:
            here[begin], here[end] = whole
    for unit, found in within.items():
        most = max(found, key=lambda pair: marks[pair[1]].offset - marks[pair[0]].offset)
        for begin, end in found:
            if end < most[0] or begin > most[1]:
                here[begin] = here[end] = unit + (begin > most[1])
                del filled[begin]
    return here, filled


def _near(source: Units, target: Units, one: Placed, place: int, anchors: _Anchors) -> int:
    """The unit of the translation before which a mark stands."""
    kind = one.mark.kind
    late = kind == "open"
    if kind == "point" and one.before and not one.after:  # it may hold to the word behind it
        late = is_part_of_word(source.text[one.offset :].lstrip()[:1])
    there = anchors.share(place, late)
    if kind == "open" and place < len(source) and not source.is_symbol(place):
        while there < len(target) - 1 and target.is_symbol(there):
            there += 1
    if kind == "close" and place > 0 and not source.is_symbol(place - 1):
        while there > 1 and target.is_symbol(there - 1):
            there -= 1
    if kind == "point" and place and len(target):
        # What did not begin the text does not begin it: there a comment would be a block.
        return max(there, 1)
    return there


def _written(
    source: Units, target: Units, marks: Sequence[Placed], places: Sequence[_Place]
) -> list[str | Mark]:
    """The translation with its marks, and white space where it belongs."""
    by_unit: dict[int, dict[int, list[Placed]]] = {}
    for one, at in zip(marks, places, strict=True):
        by_unit.setdefault(at.unit, {}).setdefault(at.inner, []).append(one)
    written: list[str | Mark] = []
    for number in range(len(target) + 1):
        inner = by_unit.get(number, {})
        before = inner.pop(0, [])
        written += spaced(source, target, number, before) if before else [target.gap(number)]
        if number == len(target):
            break
        begin, end = target.places[number]
        for offset, found in inner.items():
            written += [target.text[begin : target.places[number][0] + offset]]
            written += [one.mark for one in found]
            begin = target.places[number][0] + offset
        written.append(target.text[begin:end])
    return joined(written)


def joined(written: Sequence[str | Mark]) -> list[str | Mark]:
    """Neighbouring texts as one."""
    found: list[str | Mark] = []
    for item in written:
        if isinstance(item, str) and found and isinstance(found[-1], str):
            found[-1] += item
        elif item != "":
            found.append(item)
    return found


# ---- blocks ------------------------------------------------------------------------------------


Splitter = Callable[[str], list[str]]
"""Turns running text into its sentences, without white space at their ends."""

_ADDRESS = re.compile(r"(?:https?://|ftp://|www\.|mailto:)[^\s<>\"]+|[\w.+-]+@[\w-]+(?:\.[\w-]+)+")
# What programs put in the place of names and numbers: {{ x }}, {% if %}, {0}, ${x}, <%= x %>, %1$s,
# %NAME%, {n, plural, one {..}}; a character \0 stands for a point between texts.
_IN_BRACES = r"(?:[^{}\0]|\{(?:[^{}\0]|\{[^{}\0]*\})*\}){0,999}"
PLACEHOLDER = re.compile(
    r"\{\{\{[^\0]{0,400}?\}\}\}|\{\{[^\0]{0,400}?\}\}|\{%[^\0]{0,400}?%\}|\{#[^\0]{0,400}?#\}"
    r"|<%[^\0]{0,400}?%>|<\?\w[^\0]{0,400}?\?>"
    rf"|[$#]\{{{_IN_BRACES}\}}|\{{\s*[\w.]+\s*,{_IN_BRACES}\}}"
    r"|\{[\w.$\[\]-]*(?:![rsa])?(?::[^{}\s\0]*)?\}"
    r"|(?<![\w%])%(?:\d+\$|\(\w+\))?[-+#0]*\d*(?:\.\d+)?(?:hh?|ll?|[qjzt])?[diouxXeEfgGcs@](?!\w)"
    r"|%[A-Za-z_]\w*%|%%"
)
_NOWHERE = (1 << 62, 1 << 62)
_AFTER_ADDRESS = ".,;:!?)]}'\"*_"
_BRACKETS = {")": "(", "]": "[", "}": "{"}


def with_addresses_marked(text: str) -> Iterator[str | Mark]:
    """A text in which web and mail addresses are points, because they are not translated."""
    done = 0
    for found in _ADDRESS.finditer(text):
        end = found.start() + len(_address(found[0]))
        yield text[done : found.start()]
        yield Mark("point", text[found.start() : end])
        done = end
    yield text[done:]


def _address(text: str) -> str:
    """An address without what follows it; a bracket that it opens itself belongs to it."""
    left = Counter(text)
    end = len(text)
    while end and text[end - 1] in _AFTER_ADDRESS:
        last = text[end - 1]
        if last in _BRACKETS and left[_BRACKETS[last]] >= left[last]:
            break
        left[last] -= 1
        end -= 1
    return text[:end]


def with_addresses_kept(content: Content) -> Iterator[str | Mark]:
    """A text in which web and mail addresses are points of their own text."""
    for item in content:
        if isinstance(item, Mark):
            yield item
            continue
        for part in with_addresses_marked(item):
            yield Mark("point", Verbatim([part.what])) if isinstance(part, Mark) else part


def with_placeholders_kept(content: Content) -> Iterator[str | Mark]:
    """A text in which placeholders are points; they may have marks inside, as Word makes them."""
    pieces = [item if isinstance(item, str) else "\0" if item.is_seen else "" for item in content]
    spans = (found.span() for found in PLACEHOLDER.finditer("".join(pieces)))
    begin, end = next(spans, _NOWHERE)
    offset, held = 0, list[str | Mark]()
    for item, piece in zip(content, pieces, strict=True):
        if isinstance(item, Mark):
            if begin < offset < end:
                held.append(item)
            else:
                yield item
            offset += len(piece)
            continue
        while item:
            cut = (begin if offset < begin else end) - offset
            part, item = item[:cut], item[cut:]
            if offset < begin:
                yield part
            else:
                held.append(part)
            offset += len(part)
            if offset == end:
                yield Mark("point", Verbatim(held))
                held, (begin, end) = [], next(spans, _NOWHERE)


def with_scripts_as_points(content: Content) -> Iterator[str | Mark]:
    """A text in which sub- and superscripts that are attached to a word are points.

    As text they would change it: 10<sup>6</sup> is not 106, and the number of a note no word.
    """
    ends, opened, spaces = dict[int, int](), list[int](), [0]  # texts with white space
    for number, item in enumerate(content):
        spaces.append(spaces[-1] + (isinstance(item, str) and bool(re.search(r"\s", item))))
        if isinstance(item, Mark) and item.kind == "open":
            opened.append(number)
        elif isinstance(item, Mark) and item.kind == "close" and opened:
            ends[opened.pop()] = number
    attached, behind = False, 0
    for number, item in enumerate(content):
        if number < behind:
            continue
        if isinstance(item, str):
            attached = not item[-1:].isspace() if item else attached
        elif item.script and attached and number in ends:
            if spaces[number] == spaces[ends[number]]:
                behind = ends[number] + 1
                yield Mark("point", Verbatim(content[number:behind]), script=True)
                continue
        elif item.is_seen:
            attached = False
        yield item


class Block:
    """Running text with marks.

    Args:
        content: text and marks.
        split: finds the sentences of a text.
        addresses: they are not translated.
        placeholders: they are not translated; without it, ``content`` has marks for them already.

    Attributes:
        text: the text without marks, with single spaces.
        sentences: its sentences; those without a letter are left out.
        moved: after :meth:`translated`, whether markup inside a word could not stay there.
    """

    def __init__(
        self,
        content: Content,
        split: Splitter,
        addresses: bool = True,
        placeholders: bool = True,
    ) -> None:
        self._text = ""  # with the kinds of its spaces
        self._marks: list[Placed] = []
        self._breaks: list[int] = []
        self.moved = False
        if placeholders:
            content = list(with_placeholders_kept(content))
        if addresses:
            content = list(with_addresses_kept(content))
        self._read(content)
        self.text = as_read(self._text)
        self._spans = self._split(split)
        self.sentences = [self.text[slice(*span)] for span in self._spans if self._counts(span)]

    def _read(self, content: Content) -> None:
        seen: list[Mark] = []  # those that are seen, since the last text
        gap = ["", ""]  # white space since the last text: before and behind those
        white = ""  # since the last text or mark
        for item in with_scripts_as_points(content):
            if isinstance(item, str):
                words = item.strip()
                white += item[: len(item) - len(item.lstrip())]
                if not words:
                    continue
                self._put_behind(white)
                gap[bool(seen)] += white
                self._add(single_spaced(words), seen, gap)
                seen, gap, white = [], ["", ""], item[len(item.rstrip()) :]
                continue
            self._put_behind(white)
            gap[bool(seen)] += white
            self._marks.append(Placed(item, len(self._text), white))
            white = ""
            if item.is_seen:
                seen.append(item)
                gap[1] = ""
                if item.breaks:
                    self._breaks.append(len(self._text))
        self._put_behind(white)

    def _put_behind(self, white: str) -> None:
        """Let the last mark know the white space behind it, if no text has come since."""
        if self._marks and self._marks[-1].offset == len(self._text):
            self._marks[-1].after = white

    def _add(self, words: str, seen: Sequence[Mark], gap: Sequence[str]) -> None:
        """Go on with a text; ``gap``: the white space before and behind the marks ``seen``."""
        before, behind = gap
        if seen and not behind:
            # Without its point, "the <code>x</code>, then" is "the, then", and "a<img>b" "a b".
            wanted = bool(before and words[0].isalnum()) or any(one.breaks for one in seen)
            apart = is_part_of_word(self._text[-1:]) and is_part_of_word(words[0])
            wanted |= apart and not all(one.script for one in seen)
            before = (before or " ") if wanted else ""
        if self._text:
            self._text += one_space(behind or before)
        self._text += words

    def _split(self, split: Splitter) -> list[tuple[int, int]]:
        """The spans of the sentences; what no space divides is one, but for full-width stops."""
        found: list[tuple[int, int]] = []
        begin = 0
        for end in [*self._breaks, len(self.text)]:
            first = len(found)
            for sentence in split(self.text[begin:end]):
                place = self.text.index(sentence, begin)
                begin = place + len(sentence)
                if len(found) > first and found[-1][1] == place and self.text[place - 1].isascii():
                    place, _ = found.pop()
                found.append((place, begin))
            begin = end
        return found

    def _counts(self, span: tuple[int, int]) -> bool:
        return any(letter.isalpha() for letter in self.text[slice(*span)])

    def translated(self, translations: Iterable[str], joint: str) -> list[str | Mark]:
        """The content with translated text.

        Args:
            translations: of ``sentences``.
            joint: what stands between two sentences of the translation.
        """
        following = iter(translations)
        pairs = [
            (span, next(following) if self._counts(span) else self.text[slice(*span)])
            for span in self._spans
        ]
        items, self.moved = place(self._text, self._marks, pairs, joint)
        written: list[str | Mark] = []
        for item in items:
            if isinstance(item, Mark) and isinstance(item.what, Verbatim):
                written += item.what
            else:
                written.append(item)
        return written
