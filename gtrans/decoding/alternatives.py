"""The n best translations of a sentence with their scores, and JSON lines of them."""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from typing import NamedTuple


class Alternative(NamedTuple):
    """A translation of a sentence.

    Attributes:
        text: the translation.
        score: :meth:`gtrans.decoding.search_options.SearchOptions.score`: the sum of the
            log-probabilities of its tokens, divided by their number to the power of ``lenpen``.
    """

    text: str
    score: float


def packed(alternatives: Iterable[Alternative]) -> str:
    """Alternatives as one text, the form in which finished translations are kept."""
    return json.dumps(list(alternatives), ensure_ascii=False)


def unpacked(text: str) -> list[Alternative]:
    """The alternatives of :func:`packed`."""
    return [Alternative(*one) for one in json.loads(text)]


def json_lines(
    names: Iterable[tuple[str, Sequence[str]]],
    sources: Sequence[Sequence[str]] | None,
    translations: Iterable[Sequence[str]],
) -> list[str]:
    """A JSON object for each sentence, with the names that ``gtrans score`` knows.

    Args:
        names: the id of each document and those of its sentences.
        sources: for each document its sentences, if they are known.
        translations: for each document of each sentence the :func:`packed` alternatives.
    """
    lines = []
    for number, ((document, ids), of_document) in enumerate(
        zip(names, translations, strict=True)
    ):
        for place, (name, text) in enumerate(zip(ids, of_document, strict=True)):
            best, *others = unpacked(text)
            entry: dict[str, object] = {"doc_id": document, "seg_id": name}
            if sources is not None:
                entry["source"] = sources[number][place]
            entry |= _entry(best)
            if others:
                entry["nbest"] = [_entry(one) for one in (best, *others)]
            lines.append(json.dumps(entry, ensure_ascii=False))
    return lines


def _entry(one: Alternative) -> dict[str, object]:
    return {"hypothesis": one.text, "score": round(one.score, 6)}
