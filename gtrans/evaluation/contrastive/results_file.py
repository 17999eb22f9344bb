"""Files with the scores of the candidates of each item.

What ``gtrans contrast --output`` writes can be read again, and so can plain files of other
programs: one score a line, for every candidate in the order of the published file, as the
evaluation scripts of ContraPro and of Voita et al. read them.
"""

from __future__ import annotations

import json
import math
import os
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from gtrans.data.documents import iterate_raw_lines
from gtrans.errors import GtransError
from gtrans.evaluation.contrastive.accuracy import is_right
from gtrans.evaluation.contrastive.items import Item
from gtrans.files import parse_json

_LONGEST_LINE = 1 << 20
HIGHER, LOWER = "--higher-is-better", "--lower-is-better"
AnyPath = str | os.PathLike[str]


def is_results_file(path: Path) -> bool:
    """Whether a file begins with what :func:`scores_line` returns."""
    with open(path, encoding="utf-8", errors="replace") as file:
        first = file.readline(_LONGEST_LINE)
    return first.startswith('{"id": ') and '"texts": ' in first


def scores_line(item: Item, scores: Sequence[float]) -> str:
    """The line of an item in the file of scores, as JSON.

    Args:
        item: the item.
        scores: the scores of its candidates, the right one first, as everywhere in the program.
            In the file they have the order of the published file, and ``right`` is the place of
            the right candidate in it, from 0.
    """
    places = item.in_file_order(range(len(scores)))
    line = {
        "id": item.id,
        "texts": item.texts_digest,
        "phenomenon": item.phenomenon,
        "distance": item.distance,
        "scores": item.in_file_order(scores),
        "right": places.index(0),
        "correct": is_right(item, scores),
    }
    return json.dumps(line, ensure_ascii=False)


def read_scores(
    path: AnyPath,
    items: Sequence[Item],
    better: str | None,
    is_named: bool = False,
) -> list[list[float]]:
    """The scores of the candidates of each item, the right one first; higher is better.

    Args:
        path: the file; JSON if its first line begins with ``{``, plain otherwise.
        items: the items, in the order of the file.
        better: :data:`HIGHER` or :data:`LOWER`; None: the scores are log-probabilities.
        is_named: whether the user named this system with the option, and not all systems.

    Raises:
        GtransError: the file cannot be read, does not fit the items, or has a value that is not
            a finite number; log-probabilities are above 0; or no score is above 0 where all
            systems are said to have losses.
    """
    lines = [(number, line) for number, line in enumerate(iterate_raw_lines(path), 1) if line]
    if _is_json(lines):
        results = _scores_of_entries(path, lines, items)
    else:
        results = _scores_of_lines(path, lines, items)
    above = any(score > 0 for scores in results for score in scores)
    if above and better is None:
        raise GtransError(
            f"`--scores` {path}: has scores above 0, so they are no log-probabilities; say "
            f"`{LOWER}` (losses, as other scripts take them) or `{HIGHER}`."
        )
    if better == LOWER and not above and not is_named:
        raise GtransError(
            f"`--scores` {path}: has no score above 0, so they are log-probabilities and no "
            f"losses; name the systems that have losses, `{LOWER}` NAME."
        )
    sign = -1 if better == LOWER else 1
    return [
        item.right_first([sign * score for score in scores])
        for item, scores in zip(items, results, strict=True)
    ]


def _scores_of_entries(
    path: AnyPath, lines: Sequence[tuple[int, str]], items: Sequence[Item]
) -> list[list[float]]:
    """The scores of JSON lines, in the order of the published file."""
    results = []
    for (place, entry), item in zip(_entries(path, lines, items), items, strict=True):
        scores = entry.get("scores")
        if not isinstance(scores, list) or any(type(s) not in (int, float) for s in scores):
            raise GtransError(f"{place}: 'scores' must be a list of numbers.")
        if len(scores) != len(item.candidates):
            raise GtransError(
                f"{place}: 'scores' has {len(scores)} numbers, but the item has "
                f"{len(item.candidates)} candidates."
            )
        results.append([float(score) for score in scores])
    return results


def _scores_of_lines(
    path: AnyPath, lines: Sequence[tuple[int, str]], items: Sequence[Item]
) -> list[list[float]]:
    """The scores of plain lines, in the order of the published file."""
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


def _is_json(lines: Sequence[tuple[int, str]]) -> bool:
    """Whether lines are not plain."""
    return bool(lines) and lines[0][1].startswith("{")


def _entries(
    path: AnyPath,
    lines: Sequence[tuple[int, str]],
    items: Sequence[Item],
) -> Iterator[tuple[str, dict[str, Any]]]:
    """The place and the object of each JSON line, in the order of the items."""
    for place_of_item, ((number, line), item) in enumerate(zip(lines, items, strict=False), 1):
        place = f"{path}:{number}"
        entry = parse_json(line, place)
        if not isinstance(entry, dict):
            raise GtransError(f"{place}: must be a JSON object.")
        if entry.get("id") != item.id:
            raise GtransError(
                f"{place}: 'id' is {json.dumps(entry.get('id'))[:80]}, but item "
                f"{place_of_item} of the sets is '{item.id}'; give the sets in the same order."
            )
        if entry.get("texts", item.texts_digest) != item.texts_digest:
            raise GtransError(
                f"{place}: '{item.id}' has other texts in the sets; give those that it was made "
                "from."
            )
        yield place, entry
    if len(lines) != len(items):
        raise GtransError(f"{path}: has {len(lines)} items, but the sets have {len(items)}.")
