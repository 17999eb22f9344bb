"""Where inline markup goes in a translation.

The model translates sentences without markup. A mark is set into the translation of its own
sentence by this rule: words and symbols that stand in both, in the same order (names, numbers,
punctuation), are fixed points; a mark between two of them keeps its share of the words between
them, and a mark inside one of them stays there. Marks never change their order, so the tree of the
markup is the same, and marked text keeps at least one word as long as there are enough words.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Sequence
from difflib import SequenceMatcher
from typing import NamedTuple

from gtrans.formats.marks import Mark
from gtrans.formats.spacing import Placed, spaced
from gtrans.formats.units import Units, is_part_of_word


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
    for ((begin, end), _), count in zip(sentences, target.counts, strict=True):
        first, last = source.begun(begin), source.begun(end)
        begins, ends = ends, ends + count
        matcher = SequenceMatcher(
            None, source.words(first, last), target.words(begins, ends), autojunk=False
        )
        for i, j, size in matcher.get_matching_blocks():
            anchors.add(first + i, begins + j)
            anchors.add(first + i + size, begins + j + size)
            anchors.same |= {first + i + n: begins + j + n for n in range(size)}
        anchors.add(last, ends)
    anchors.add(len(source), len(target))
    places, moved = _places(source, target, marks, anchors)
    return _written(source, target.with_spaces_of(source, anchors.same), marks, places), moved


def _places(
    source: Units, target: Units, marks: Sequence[Placed], anchors: _Anchors
) -> tuple[list[_Place], bool]:
    """The place of each mark in the translation; see :func:`place`."""
    inside = [source.inside(one.offset) for one in marks]
    pairs = _pairs(marks)
    here, filled = _beside_words(source, marks, inside, pairs, anchors)
    wanted = [
        _Place(anchors.same[unit], one.offset - source.places[unit][0])
        if unit in anchors.same
        else _Place(_near(source, target, one, place, anchors))
        for one, unit, place in zip(marks, inside, here, strict=True)
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
