"""The Chinese-English discourse test suite of Cai and Xiong (2020).

"A Test Suite for Evaluating Discourse Phenomena in Document-level Neural Machine Translation",
WDLF 2020; their repository ``Discourse-Phenomena-in-Document-level-Neural-Machine-Translation``:
``pron``, ``conj`` and ``ellip`` with ``.zh`` and ``.en``, a line for each item, sentences joined
by ``_eos``. It has no wrong translations: the last sentence is translated and compared with the
reference (``--generate``). Where one side lacks ``_eos``, as in line 52 of ``pron.zh``, the item
is one sentence.
"""

from __future__ import annotations

import os
from pathlib import Path

from gtrans.data.documents import resolve
from gtrans.errors import GtransError
from gtrans.evaluation.contrastive.items import Item, ReadOptions, Sentences
from gtrans.evaluation.contrastive.text_sides import joined_by_eos, two_sides

_SIDES = ("zh", "en")
_PHENOMENA = {"pron": "pronoun", "conj": "connective", "ellip": "ellipsis"}


def read_discourse_zhen(path: str | os.PathLike[str], options: ReadOptions) -> list[Item]:
    """The items of one file, ``pron.zh``, or of the three in a folder.

    Raises:
        GtransError: a file is missing, or a line has another form; the message names it.
    """
    path = Path(path)
    if path.is_dir():
        return [item for name in _PHENOMENA for item in _file(path / name)]
    plain = str(path).removesuffix(".gz")
    if not plain.endswith((".zh", ".en")):
        raise GtransError(f"{path}: must be a folder, or a file such as pron.zh next to pron.en.")
    return _file(Path(plain[:-3]))


def _file(prefix: Path) -> list[Item]:
    files = [resolve(str(prefix), side) for side in _SIDES]
    phenomenon = _PHENOMENA.get(prefix.name, prefix.name)
    return [
        _item(number, phenomenon, files, lines)
        for number, lines in enumerate(zip(*two_sides(*files), strict=True), start=1)
    ]


def _item(number: int, phenomenon: str, files: list[Path], lines: tuple[str, ...]) -> Item:
    sides: list[Sentences] = []
    for file, line in zip(files, lines, strict=True):
        sentences = joined_by_eos(line)
        if not sentences:
            raise GtransError(f"{file}:{number}: has a sentence that is empty.")
        sides.append(sentences)
    source, target = sides
    if len(source) != len(target):
        source, target = (" ".join(source),), (" ".join(target),)
    return Item(
        id=f"{phenomenon}-{number}",
        phenomenon=phenomenon,
        distance=1,
        cue="source",
        source=source,
        target=target,
        contrastive=(),
    )
