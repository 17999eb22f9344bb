"""The large English-French pronoun sets (Lopes, Farajian, Bawden, Zhang and Martins 2020).

"Document-level Neural MT: A Systematic Comparison", EAMT 2020; their repository
``Large-contrastive-pronoun-testset-EN-FR``. Two forms are published:

* the JSON file with its documents (``--documents``); see :mod:`.pronoun_json`. Segments
  count from 0.
* the extracted text: ``NAME.current.src`` and ``.trg``, in which every right line is followed by
  a wrong one, and ``NAME.cN.context.src`` and ``.trg`` with N lines of context for each line.
  (Their script itself writes ``NAME.context.src`` and ``.trg``.)
"""

from __future__ import annotations

import os
from pathlib import Path

from gtrans.data.documents import resolve
from gtrans.errors import GtransError
from gtrans.evaluation.contrastive.items import Item, ReadOptions
from gtrans.evaluation.contrastive.pronoun_json import PronounSet, read_pronoun_json
from gtrans.evaluation.contrastive.text_sides import contexts_of, the_only, two_sides
from gtrans.evaluation.contrastive.words import words_of

_JSON = PronounSet(source="en", target="fr", first_segment=0)
_CURRENT, _SIDES = ".current.src", ("src", "trg")
_PRONOUNS = {"il": "it", "elle": "it", "ils": "they", "elles": "they"}


def read_large_pronoun(path: str | os.PathLike[str], options: ReadOptions) -> list[Item]:
    """All examples of the JSON file, or of a folder or ``NAME.current.src`` with the text.

    Phenomena are pairs of pronouns, ``they:elles``. In the text form they are taken from the
    first pronoun that differs, and the distance is unknown.

    Raises:
        GtransError: a file is missing or has another form; the message names the line.
    """
    path = Path(path)
    if path.is_dir():
        path = the_only(path, _CURRENT)
    name = str(path).removesuffix(".gz")
    if not name.endswith(_CURRENT):
        return read_pronoun_json(path, _JSON, options)
    prefix = name.removesuffix(_CURRENT)
    current = two_sides(*(resolve(f"{prefix}.current", side) for side in _SIDES))
    count = len(current[0])
    if count % 2:
        raise GtransError(f"{path}:{count}: a right line without its wrong one.")
    pairs = _contexts(prefix, count, options.context)
    for number in range(0, count, 2):
        if pairs[number] != pairs[number + 1]:
            raise GtransError(
                f"{path}:{number + 1}: has another context than the next line, the source of the "
                "wrong translation."
            )
        if current[0][number] != current[0][number + 1]:
            raise GtransError(
                f"{path}:{number + 1}: must be equal to the next line, the source of the wrong "
                "translation."
            )
    return [_item(number, current, pairs[number]) for number in range(0, count, 2)]


def _contexts(prefix: str, lines: int, wanted: int) -> list[list[tuple[str, str]]]:
    """Source and target of up to ``wanted`` sentences before each line of the set.

    ``NAME.cN.context`` has empty lines where the document has fewer than N sentences before;
    ``NAME.cM.context`` with the largest M < N has those that are there.
    """
    found: list[list[tuple[str, str]]] = [[] for _ in range(lines)]
    for size in range(wanted, 0, -1):
        name = f"{prefix}.c{size}.context"
        if size == wanted and not _exists(name) and _exists(f"{prefix}.context"):
            name = f"{prefix}.context"
        if size < wanted and not _exists(name):
            continue
        sides = contexts_of(name, _SIDES, lines, size)
        for number, context in enumerate(zip(*sides, strict=True)):
            if not found[number]:
                found[number] = [pair for pair in zip(*context, strict=True) if all(pair)]
    return found


def _exists(prefix: str) -> bool:
    return any(Path(f"{prefix}.src{suffix}").exists() for suffix in ("", ".gz"))


def _item(number: int, current: list[list[str]], context: list[tuple[str, str]]) -> Item:
    before = tuple(target for _, target in context)
    right, wrong = current[1][number : number + 2]
    return Item(
        id=str(number + 1),
        phenomenon=_pronouns(right, wrong),
        distance=None,
        cue="target",
        source=(*(source for source, _ in context), current[0][number]),
        target=(*before, right),
        contrastive=((*before, wrong),),
    )


def _pronouns(right: str, wrong: str) -> str:
    words = (words_of(text) for text in (right, wrong))
    for one, other in zip(*words, strict=False):
        if one != other and one in _PRONOUNS:
            return f"{_PRONOUNS[one]}:{one}"
    return "other"
