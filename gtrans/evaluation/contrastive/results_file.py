"""Files with a result for each item: scores of candidates, or translations.

What ``gtrans contrast --output`` writes can be read again, and so can plain files of other
programs: one score a line, for every candidate in the order of the published file, as the
evaluation scripts of ContraPro and of Voita et al. read them; or one translation a line.
"""

from __future__ import annotations

import json
import math
import os
from collections.abc import Callable, Iterable, Sequence
from typing import Any, TypeVar

from gtrans.data.documents import iterate_raw_lines
from gtrans.errors import GtransError
from gtrans.evaluation.contrastive.accuracy import is_right, preferred
from gtrans.evaluation.contrastive.items import Item
from gtrans.files import parse_json

HIGHER, LOWER = "--higher-is-better", "--lower-is-better"
_Value = TypeVar("_Value")


def scores_line(item: Item, scores: Sequence[float]) -> str:
    """The line of an item in the file of scores, as JSON.

    ``scores`` are those of the candidates, the right one first, as everywhere in the program;
    in the file they have the order of the published file. ``right`` and ``chosen`` are places in
    it from 0; null: no candidate is right, or there is a tie. Further copies of the right candidate
    take no part.
    """
    placed, places = item.in_file_order(scores), item.in_file_order(range(len(scores)))
    different = [0, *item.rivals]
    best = preferred([scores[place] for place in different])
    return json.dumps(
        {
            "id": item.id,
            "texts": item.texts_digest,
            "phenomenon": item.phenomenon,
            "distance": item.distance,
            "scores": placed,
            "right": places.index(0) if item.has_right else None,
            "chosen": None if best is None else places.index(different[best]),
            "correct": is_right(item, scores) if item.has_right else None,
        },
        ensure_ascii=False,
    )


def translation_line(item: Item, translation: str, outcome: str | None) -> str:
    """The line of an item in the file of translations, as JSON."""
    return json.dumps(
        {
            "id": item.id,
            "texts": item.texts_digest,
            "phenomenon": item.phenomenon,
            "distance": item.distance,
            "translation": translation,
            "outcome": outcome,
        },
        ensure_ascii=False,
    )


def read_scores(
    path: str | os.PathLike[str], items: Sequence[Item], better: str | None, named: bool = False
) -> list[list[float]]:
    """The scores of the candidates of each item, that of the right one first; higher is better.

    Scores of which none is above 0 are log-probabilities. Others are losses or probabilities, so
    it must be said which are better.

    Args:
        path: the file; JSON if its first line begins with ``{``, plain otherwise.
        items: the items, in the order of the file.
        better: :data:`HIGHER` or :data:`LOWER`; None: not said.
        named: whether ``better`` was said of this file, and not of all files together.

    Raises:
        GtransError: the file cannot be read, does not fit the items, or has a value that is not
            a finite number; scores are above 0 and ``better`` is None; or none is and they are
            said to be losses like those of all other files.
    """
    lines = [(number, line) for number, line in enumerate(iterate_raw_lines(path), 1) if line]
    if lines and lines[0][1].startswith("{"):
        found = _of_items(path, lines, items, _scores_of)
    else:
        found = _plain_scores(path, lines, items)
    above = any(score > 0 for scores in found for score in scores)
    if above and better is None:
        raise GtransError(
            f"`--scores` {path}: has scores above 0, so they are no log-probabilities; say "
            f"`{LOWER}` (losses, as other scripts take them) or `{HIGHER}`."
        )
    if better == LOWER and not (above or named):
        raise GtransError(
            f"`--scores` {path}: has no score above 0, so they are log-probabilities and no "
            f"losses; name the systems that have losses, `{LOWER}` NAME."
        )
    if better == LOWER:
        found = [[-score for score in scores] for scores in found]
    return [item.right_first(scores) for item, scores in zip(items, found, strict=True)]


def read_translations(path: str | os.PathLike[str], items: Sequence[Item]) -> list[str]:
    """The translation of the last sentence of each item; an empty line is an empty translation.

    Raises:
        GtransError: the file cannot be read or does not fit the items.
    """
    lines = list(enumerate(iterate_raw_lines(path), 1))
    if lines and lines[0][1].startswith("{"):
        filled = [(number, line) for number, line in lines if line]
        return _of_items(path, filled, items, lambda entry, _item: _text(entry))
    if len(lines) != len(items):
        raise GtransError(
            f"`--translations` {path}: has {len(lines)} lines, but the sets have {len(items)} "
            "items; give the translation of the last sentence of each, one a line."
        )
    return [line for _, line in lines]


def _plain_scores(
    path: str | os.PathLike[str], lines: Sequence[tuple[int, str]], items: Sequence[Item]
) -> list[list[float]]:
    values = iter([_number(line, f"{path}:{number}") for number, line in lines])
    wanted = sum(len(item.candidates) for item in items)
    if len(lines) != wanted:
        raise GtransError(
            f"`--scores` {path}: has {len(lines)} scores, but the sets have {wanted} candidates "
            f"({len(items)} items); give one score a line for each, in the order of the sets."
        )
    return [[next(values) for _ in item.candidates] for item in items]


def _number(text: str, place: str) -> float:
    try:
        value = float(text)
    except ValueError:
        value = math.nan
    if not math.isfinite(value):
        raise GtransError(f"{place}: '{text[:40]}' is not a finite number.")
    return value


def _of_items(
    path: str | os.PathLike[str],
    lines: Iterable[tuple[int, str]],
    items: Sequence[Item],
    value: Callable[[dict[str, Any], Item], _Value],
) -> list[_Value]:
    """A value of each JSON line, whose ids are those of the items in their order."""
    found: list[_Value] = []
    for number, line in lines:
        place = f"{path}:{number}"
        entry = parse_json(line, place)
        if not isinstance(entry, dict):
            raise GtransError(f"{place}: must be a JSON object.")
        if len(found) == len(items):
            raise GtransError(f"{place}: the sets have only {len(items)} items; give their file.")
        item = items[len(found)]
        if entry.get("id") != item.id:
            raise GtransError(
                f"{place}: 'id' is {json.dumps(entry.get('id'))[:80]}, but item "
                f"{len(found) + 1} of the sets is '{item.id}'; give the sets in the same order."
            )
        if entry.get("texts", item.texts_digest) != item.texts_digest:
            raise GtransError(
                f"{place}: '{item.id}' has other texts in the sets; give those that it was made "
                "from."
            )
        try:
            found.append(value(entry, item))
        except ValueError as error:
            raise GtransError(f"{place}: {error}") from None
    if len(found) != len(items):
        raise GtransError(f"{path}: has {len(found)} items, but the sets have {len(items)}.")
    return found


def _scores_of(entry: dict[str, Any], item: Item) -> list[float]:
    scores = entry.get("scores")
    if not isinstance(scores, list) or any(type(s) not in (int, float) for s in scores):
        raise ValueError("'scores' must be a list of numbers.")
    if len(scores) != len(item.candidates):
        raise ValueError(
            f"'scores' has {len(scores)} numbers, but the item has {len(item.candidates)} "
            "candidates."
        )
    return [float(score) for score in scores]


def _text(entry: dict[str, Any]) -> str:
    text = entry.get("translation")
    if not isinstance(text, str):
        raise ValueError("'translation' must be a text.")
    return text.strip()
