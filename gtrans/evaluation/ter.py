"""sacreBLEU's TER, with an edit distance that is computed faster.

Tercom moves words of the translation as long as that lowers the edit distance to the reference
(Snover et al. 2006). Which moves are tried, and in which order, is decided by sacreBLEU's own
function; it asks for the edit distance of every candidate, which is nearly all of the work.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Any

from sacrebleu.metrics import lib_ter
from sacrebleu.metrics.ter import TER

_BEAM = 25  # words to both sides of the diagonal, as in Tercom
_FAR = 10**9  # a cost outside of the beam
_MOST_ROWS = 10_000  # that are kept, of some 50 costs each; about 20 MB

_Row = tuple[int, list[int]]  # of the table: where its beam begins, and the costs in it


class FastTER(TER):
    """TER with the statistics of sacreBLEU's, to the last digit."""

    def _compute_segment_statistics(
        self, hypothesis: str, ref_kwargs: dict[str, list[list[str]]]
    ) -> list[float]:
        words, references = hypothesis.split(), ref_kwargs["ref_words"]
        edits = min(edits_with_shifts(words, reference) for reference in references)
        return [edits, sum(map(len, references)) / len(references)]


def edits_with_shifts(words: list[str], reference: list[str]) -> int:
    """The number of edits and shifts that turn ``words`` into ``reference``, as Tercom finds it."""
    if words == reference:
        return 0
    if not reference:
        return len(words)
    distance = EditDistance(reference)
    shifts = tried = 0
    while True:
        gain, shifted, tried = lib_ter._shift(words, reference, distance, tried)
        if tried >= lib_ter._MAX_SHIFT_CANDIDATES or gain <= 0:
            return shifts + int(distance(words)[0])
        shifts += 1
        words = shifted


class EditDistance:
    """Edit distances of several orders of the same words to a reference.

    The table is computed in a beam around its diagonal. A row depends only on the words before it,
    so the rows of orders that begin alike are computed once, as long as memory for them lasts.

    Args:
        reference: at least one word.
    """

    def __init__(self, reference: list[str]) -> None:
        self.reference = reference
        self._first: _Row = (0, list(range(len(reference) + 1)))
        self._known: dict[str, Any] = {}  # by the next word: its row, and what may follow
        self._rows = 0

    def __call__(self, words: list[str]) -> Distance:
        """The distance, and the edits."""
        size = len(self.reference)
        ratio = size / len(words) if words else 1.0
        beam = math.ceil(ratio / 2 + _BEAM) if ratio / 2 > _BEAM else _BEAM
        if self._rows > _MOST_ROWS:
            self._known, self._rows = {}, 0
        table, known = [self._first], self._known
        for number, word in enumerate(words, start=1):
            if word not in known:
                diagonal = math.floor(number * ratio)
                end = size + 1 if number == len(words) else min(size + 1, diagonal + beam)
                row = self._row(word, table[-1], max(0, diagonal - beam), end)
                known[word] = row, {}
                self._rows += 1
            row, known = known[word]
            table.append(row)
        return Distance(self.reference, words, table)

    def _row(self, word: str, above: _Row, begin: int, end: int) -> _Row:
        """The row of ``word``, from the one above it."""
        costs: list[int] = []
        left = _FAR
        first = begin
        if begin == 0:
            left = above[1][0] + 1
            costs.append(left)
            first = 1
        # Beams move to the right only.
        up = [_FAR] * (above[0] - first + 1) + above[1][max(first - 1 - above[0], 0) :]
        up += [_FAR] * (end - first + 1 - len(up))
        diagonal = up[0]
        for other, here in zip(self.reference[first - 1 : end - 1], up[1:], strict=False):
            cost = diagonal if word == other else diagonal + 1
            diagonal = here
            if here + 1 < cost:
                cost = here + 1
            if left + 1 < cost:
                cost = left + 1
            costs.append(cost)
            left = cost
        return begin, costs


class Distance:
    """What sacreBLEU takes for a pair: the distance, and the edits as letters.

    ``" "`` is none, ``s``, ``i`` of a word of the reference, ``d``. They are found only where they
    are asked for; of an order that is only tried, the distance is enough.
    """

    def __init__(self, reference: list[str], words: list[str], table: list[_Row]) -> None:
        self._reference, self._words, self._table = reference, words, table

    def __iter__(self) -> Iterator[Any]:
        yield self[0]
        yield self._edits()

    def __getitem__(self, number: int) -> Any:
        if number == 0:
            return self._cost(len(self._words), len(self._reference))
        return list(self)[number]

    def _cost(self, row: int, place: int) -> int:
        begin, costs = self._table[row]
        return costs[place - begin] if 0 <= place - begin < len(costs) else _FAR

    def _edits(self) -> str:
        """Of edits that cost the same, replacing comes first, then ``d``."""
        row, place = len(self._words), len(self._reference)
        edits = []
        while row or place:
            cost = self._cost(row, place)
            if row and place:
                same = self._words[row - 1] == self._reference[place - 1]
                if self._cost(row - 1, place - 1) + (not same) == cost:
                    edit = " " if same else "s"
                else:
                    edit = "d" if self._cost(row - 1, place) + 1 == cost else "i"
            else:
                edit = "d" if row else "i"
            edits.append(edit)
            row -= edit != "i"
            place -= edit != "d"
        return "".join(reversed(edits))
