"""Contrastive sets in the document reader: what the systems make of every item.

``gtrans contrast --output`` writes a line of JSON for each item. The texts are in the set.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from gtrans.data.documents import iterate_raw_lines
from gtrans.errors import GtransError
from gtrans.evaluation.contrastive import Item
from gtrans.evaluation.contrastive.accuracy import wilson_interval
from gtrans.evaluation.contrastive.generated import Outcome
from gtrans.identity.json_files import parse_json
from gtrans.lab.page.differences import differences


@dataclass(frozen=True)
class Accuracy:
    """How many items of a phenomenon a system gets right; ``interval``: 95%, from 0 to 1."""

    right: int
    items: int
    interval: tuple[float, float]

    @property
    def share(self) -> float:
        """The accuracy, from 0 to 1."""
        return self.right / self.items


@dataclass(frozen=True)
class Judged:
    """What a system makes of an item.

    Attributes:
        right: whether it gets the item right; None: the item has no right candidate.
        scores: of the candidates, that of the right one first.
        translation: what it translates, where it was asked for that.
    """

    right: bool | None
    scores: Sequence[float]
    translation: str


def read_judgements(path: Path, items: Sequence[Item]) -> list[Judged]:
    """What ``gtrans contrast --output`` wrote of a set.

    Raises:
        GtransError: it is not such a file, or of another set.
    """
    lines = [(number, line) for number, line in enumerate(iterate_raw_lines(path), 1) if line]
    if len(lines) != len(items):
        raise GtransError(
            f"`--items` {path}: it has {len(lines)} items, but the sets have {len(items)}; give "
            "`--set` the sets that it was made from, in the same order."
        )
    found = []
    for (number, line), item in zip(lines, items, strict=True):
        place = f"{path}:{number}"
        entry = parse_json(line, place)
        other = not isinstance(entry, dict) or entry.get("id") != item.id
        if other or entry.get("texts", item.texts_digest) != item.texts_digest:
            raise GtransError(
                f"{place}: it is not the item '{item.id}' of the sets; give `--set` the sets that "
                "it was made from, in the same order."
            )
        found.append(_judged(entry, item, place))
    return found


def _judged(entry: Mapping[str, Any], item: Item, place: str) -> Judged:
    translation, scores = entry.get("translation"), entry.get("scores")
    if isinstance(translation, str):
        outcome = entry.get("outcome")
        return Judged(None if outcome is None else outcome == Outcome.RIGHT, [], translation)
    right = entry.get("correct")
    try:
        numbers = [float(score) for score in scores or ()]
    except (TypeError, ValueError):
        numbers = []
    if len(numbers) != len(item.candidates) or right not in (True, False, None):
        raise GtransError(
            f"{place}: it has neither 'translation' nor 'scores' of {len(item.candidates)} "
            "candidates; give what `gtrans contrast --output` wrote."
        )
    return Judged(right, item.right_first(numbers), "")


def accuracies(
    items: Sequence[Item], judged: Mapping[str, Sequence[Judged]]
) -> dict[str, dict[str, Accuracy]]:
    """Accuracy by phenomenon and system; items without a right candidate do not count."""
    found: dict[str, dict[str, Accuracy]] = {}
    for phenomenon in dict.fromkeys(item.phenomenon for item in items):
        for system, every in judged.items():
            right = [
                one.right
                for item, one in zip(items, every, strict=True)
                if item.phenomenon == phenomenon and one.right is not None
            ]
            if right:
                interval = wilson_interval(sum(right), len(right))
                cell = Accuracy(sum(right), len(right), interval)
                found.setdefault(phenomenon, {})[system] = cell
    return found


def for_reader(
    title: str,
    items: Sequence[Item],
    judged: Mapping[str, Sequence[Judged]],
    languages: tuple[str, str],
) -> dict[str, Any]:
    """What the page's reader is given: an item is a document, its candidates are its columns.

    Keys as in :func:`gtrans.lab.page.texts.for_reader`, with ``"h"`` for the wrong candidates and
    the translations of the systems, ``"d"`` for their differences to the right one; a document has
    also ``"name"`` and ``"v"``: ``[right or null, [score of each candidate, ..]]`` of each system.
    """
    wrong = max((len(item.contrastive) for item in items), default=0)
    translating = [name for name, every in judged.items() if any(one.translation for one in every)]
    columns = [f"wrong {number}" if wrong > 1 else "wrong" for number in range(1, wrong + 1)]
    documents = []
    for place, item in enumerate(items):
        of_item = {name: every[place] for name, every in judged.items()}
        documents.append(_document(item, of_item, wrong, translating))
    return {
        "title": title,
        "lang": languages,
        "systems": [*columns, *translating],
        "baseline": -1,
        "whole": [],
        "judged": list(judged),
        "documents": documents,
    }


def _document(
    item: Item, judged: Mapping[str, Judged], wrong: int, translating: Sequence[str]
) -> dict[str, Any]:
    distance = "" if item.distance is None else f", distance {item.distance}"
    entry: dict[str, Any] = {
        "name": f"{item.id} ({item.phenomenon}{distance})",
        "s": list(item.source), "r": list(item.target), "h": [], "c": [], "d": [], "b": [], "w": [],
        "v": [[one.right, [round(score, 3) for score in one.scores]] for one in judged.values()],
    }  # fmt: skip
    for index, right in enumerate(item.target):
        texts: list[str | None] = [candidate[index] for candidate in item.contrastive]
        texts += [None] * (wrong - len(texts))
        last = index == len(item.target) - 1
        texts += [judged[name].translation if last else None for name in translating]
        entry["h"].append(texts)
        entry["d"].append([[] if text is None else differences(text, right) for text in texts])
    return entry
