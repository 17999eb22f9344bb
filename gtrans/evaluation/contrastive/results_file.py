"""Files with the scores of the candidates of each item.

``gtrans contrast`` reads its own ``--output`` and plain files: a score a line, in the order of the
published file, as for the scripts of ContraPro and Voita et al.
"""

from __future__ import annotations

import json
import math
import os
from collections.abc import Iterator, Sequence
from itertools import islice
from pathlib import Path
from typing import Any, NamedTuple

from gtrans.data.documents import iterate_raw_lines
from gtrans.errors import GtransError
from gtrans.evaluation.contrastive.accuracy import is_right
from gtrans.evaluation.contrastive.items import Item
from gtrans.files import parse_json

_LONGEST_LINE = 1 << 20
HIGHER, LOWER = "--higher-is-better", "--lower-is-better"
AnyPath = str | os.PathLike[str]


class _NumberedLine(NamedTuple):
    number: int
    text: str


def is_results_file(path: Path) -> bool:
    """Return whether a file begins like a line of :func:`scores_line`."""
    with open(path, encoding="utf-8", errors="replace") as file:
        first = file.readline(_LONGEST_LINE)
    return first.startswith('{"id": ') and '"texts": ' in first


def scores_line(item: Item, scores: Sequence[float]) -> str:
    """Return the JSON line of an item; ``scores``: the right candidate's first."""
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
    """Return the scores of each item, the right candidate's first; higher is better.

    Args:
        path: JSON lines if the first one begins with ``{``, else plain lines.
        better: :data:`HIGHER` or :data:`LOWER`; None: log-probabilities.
        is_named: the option ``better`` names this system.
    """
    lines = []
    for number, text in enumerate(iterate_raw_lines(path), 1):
        if text:
            lines.append(_NumberedLine(number, text))
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
    ordered = []
    for item, scores in zip(items, results, strict=True):
        signed = [sign * score for score in scores]
        ordered.append(item.right_first(signed))
    return ordered


def _scores_of_entries(
    path: AnyPath,
    lines: Sequence[_NumberedLine],
    items: Sequence[Item],
) -> list[list[float]]:
    results = []
    entries = _entries(path, lines, items)
    for (place, entry), item in zip(entries, items, strict=True):
        scores = entry.get("scores")
        if not isinstance(scores, list) or not all(map(_is_number, scores)):
            raise GtransError(f"{place}: 'scores' must be a list of numbers.")
        if len(scores) != len(item.candidates):
            raise GtransError(
                f"{place}: 'scores' has {len(scores)} numbers, but the item has "
                f"{len(item.candidates)} candidates."
            )
        results.append(list(map(float, scores)))
    return results


def _is_number(value: object) -> bool:
    return type(value) in (int, float)


def _scores_of_lines(
    path: AnyPath,
    lines: Sequence[_NumberedLine],
    items: Sequence[Item],
) -> list[list[float]]:
    values = []
    for line in lines:
        values.append(_number(line.text, f"{path}:{line.number}"))
    wanted = sum(len(item.candidates) for item in items)
    if len(lines) != wanted:
        raise GtransError(
            f"`--scores` {path}: has {len(lines)} scores, but the sets have {wanted} candidates "
            f"({len(items)} items); give one score a line for each, in the order of the sets."
        )
    remaining = iter(values)
    return [list(islice(remaining, len(item.candidates))) for item in items]


def _number(text: str, place: str) -> float:
    try:
        value = float(text)
    except ValueError:
        value = math.nan
    if not math.isfinite(value):
        raise GtransError(f"{place}: '{text[:40]}' is not a finite number.")
    return value


def _is_json(lines: Sequence[_NumberedLine]) -> bool:
    return bool(lines) and lines[0].text.startswith("{")


def _entries(
    path: AnyPath,
    lines: Sequence[_NumberedLine],
    items: Sequence[Item],
) -> Iterator[tuple[str, dict[str, Any]]]:
    pairs = zip(lines, items, strict=False)
    for item_number, (line, item) in enumerate(pairs, 1):
        place = f"{path}:{line.number}"
        entry = parse_json(line.text, place)
        if not isinstance(entry, dict):
            raise GtransError(f"{place}: must be a JSON object.")
        if entry.get("id") != item.id:
            raise GtransError(
                f"{place}: 'id' is {json.dumps(entry.get('id'))[:80]}, but item "
                f"{item_number} of the sets is '{item.id}'; give the sets in the same order."
            )
        if entry.get("texts", item.texts_digest) != item.texts_digest:
            raise GtransError(
                f"{place}: '{item.id}' has other texts in the sets; give those that it was made "
                "from."
            )
        yield place, entry
    if len(lines) != len(items):
        raise GtransError(f"{path}: has {len(lines)} items, but the sets have {len(items)}.")
