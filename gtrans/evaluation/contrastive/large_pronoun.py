"""The large English-French pronoun sets (Lopes, Farajian, Bawden, Zhang and Martins 2020).

"Document-level Neural MT: A Systematic Comparison", EAMT 2020; their repository
``Large-contrastive-pronoun-testset-EN-FR``. Two forms are published:

* the JSON file with its documents (``--documents``); see :mod:`.pronoun_json`. Segments
  count from 0.
* the extracted text: ``NAME.current.src`` and ``.trg``, in which every right line is followed by
  a wrong one, and ``NAME.cN.context.src`` and ``.trg`` with N lines of context for each line.
"""

from __future__ import annotations

import os
import re
from pathlib import Path

from gtrans.data.documents import iterate_raw_lines, resolve
from gtrans.errors import GtransError
from gtrans.evaluation.contrastive.items import Item, ReadOptions
from gtrans.evaluation.contrastive.pronoun_json import PronounSet, read_pronoun_json

_JSON = PronounSet(source="en", target="fr", first_segment=0)
_CURRENT = ".current.src"
_PRONOUNS = {"il": "it", "elle": "it", "ils": "they", "elles": "they"}
_WORD = re.compile(r"\w+")


def read_large_pronoun(path: str | os.PathLike[str], options: ReadOptions) -> list[Item]:
    """All examples of the JSON file, or of a folder or ``NAME.current.src`` with the text.

    Phenomena are pairs of pronouns, ``they:elles``. In the text form they are taken from the
    first pronoun that differs, and the distance is unknown.

    Raises:
        GtransError: a file is missing or has another form; the message names the line.
    """
    path = Path(path)
    if path.is_dir():
        found = sorted(
            file for file in path.iterdir() if file.name.removesuffix(".gz").endswith(_CURRENT)
        )
        if len(found) != 1:
            raise GtransError(f"{path}: must hold one file *{_CURRENT}, but holds {len(found)}.")
        path = found[0]
    name = str(path).removesuffix(".gz")
    if not name.endswith(_CURRENT):
        return read_pronoun_json(path, _JSON, options)
    prefix = name.removesuffix(_CURRENT)
    current = _sides(f"{prefix}.current", 1)
    count = len(current[0])
    context: tuple[list[list[str]], ...] = ([[]] * count, [[]] * count)
    if options.context:
        context = _sides(f"{prefix}.c{options.context}.context", options.context)
        if len(context[0]) != count:
            raise GtransError(
                f"{prefix}.c{options.context}.context.src: has contexts for {len(context[0])} "
                f"lines, but {path} has {count}."
            )
    if count % 2:
        raise GtransError(f"{path}:{count}: a right line without its wrong one.")
    for number in range(0, count, 2):
        for side, lang in ((0, "src"), (1, "trg")):
            if context[side][number] != context[side][number + 1]:
                raise GtransError(
                    f"{prefix}.c{options.context}.context.{lang}: lines {number + 1} and "
                    f"{number + 2} of the set have different contexts."
                )
        if current[0][number] != current[0][number + 1]:
            raise GtransError(
                f"{path}:{number + 1}: must be equal to the next line, the source of the wrong "
                "translation."
            )
    return [
        _item(number, current, [side[number] for side in context]) for number in range(0, count, 2)
    ]


def _sides(prefix: str, size: int) -> tuple[list[list[str]], ...]:
    """Both sides of ``prefix``, in runs of ``size`` lines."""
    files = [resolve(prefix, side) for side in ("src", "trg")]
    sides = [list(iterate_raw_lines(file)) for file in files]
    if len(sides[0]) != len(sides[1]) or len(sides[0]) % size:
        raise GtransError(
            f"'{files[0]}' has {len(sides[0])} lines and '{files[1]}' {len(sides[1])}; both must "
            f"have the same number, a multiple of {size}."
        )
    return tuple(
        [side[begin : begin + size] for begin in range(0, len(side), size)] for side in sides
    )


def _item(number: int, current: tuple[list[list[str]], ...], context: list[list[str]]) -> Item:
    # Examples near the beginning of a film have empty lines as context.
    pairs = [pair for pair in zip(*context, strict=True) if all(pair)]
    before = tuple(target for _, target in pairs)
    right, wrong = current[1][number][0], current[1][number + 1][0]
    return Item(
        id=str(number + 1),
        phenomenon=_pronouns(right, wrong),
        distance=None,
        cue="target",
        source=(*(source for source, _ in pairs), current[0][number][0]),
        target=(*before, right),
        contrastive=((*before, wrong),),
    )


def _pronouns(right: str, wrong: str) -> str:
    words = (_WORD.findall(text.lower()) for text in (right, wrong))
    for one, other in zip(*words, strict=False):
        if one != other and one in _PRONOUNS:
            return f"{_PRONOUNS[one]}:{one}"
    return "other"
