"""ContraPro: English to German pronouns (Mueller, Rios, Voita and Sennrich 2018).

"A Large-Scale Test Set for the Evaluation of Context-Aware Pronoun Translation in Neural
Machine Translation", WMT 2018. Two forms are published:

* ``contrapro.json`` with the OpenSubtitles documents that ``setup_opensubs.sh`` of its
  repository extracts (``--documents``); see :mod:`.pronoun_json`. Segments count from 1.
* text: ``en.txt`` and ``de.txt`` with lines ``context <SEP> sentence``, truecased, as ContraCAT
  distributes it. The lines of an example follow each other, the right one first.
  ``groups.tsv`` in the same folder says where examples begin (columns ``first_line``,
  ``variants``, ``reference_pronoun``, ``antecedent_distance``, which may be empty).
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import groupby
from pathlib import Path

from gtrans.data.documents import iterate_raw_lines, resolve
from gtrans.errors import GtransError
from gtrans.evaluation.contrastive.items import Item, ReadOptions, Sentences
from gtrans.evaluation.contrastive.pronoun_json import PronounSet, read_pronoun_json

_JSON = PronounSet(source="en", target="de", first_segment=1)
_SEPARATOR = "<SEP>"
_COLUMNS = ["first_line", "variants", "reference_pronoun", "antecedent_distance"]


@dataclass(frozen=True)
class _Group:
    """The lines of an example, its pronoun (empty: unknown) and its antecedent distance."""

    begin: int
    end: int
    pronoun: str
    distance: int | None


def read_contrapro(path: str | os.PathLike[str], options: ReadOptions) -> list[Item]:
    """All examples of ``contrapro.json``, or of a folder with the text form.

    Phenomena are pairs of pronouns, ``it:er``. In the text form without ``groups.tsv``,
    consecutive lines with the same source form an example; pronoun and distance are unknown.

    Raises:
        GtransError: a file is missing or has another form; the message names the line.
    """
    path = Path(path)
    if not path.is_dir() and not path.name.startswith("en.txt"):
        return read_pronoun_json(path, _JSON, options)
    folder = path if path.is_dir() else path.parent
    sources, targets = (_text(folder, lang) for lang in (_JSON.source, _JSON.target))
    if len(sources) != len(targets):
        raise GtransError(
            f"{folder}: en.txt has {len(sources)} lines, but de.txt has {len(targets)}."
        )
    table = folder / "groups.tsv"
    groups = _groups(table, len(sources)) if table.is_file() else _runs(sources)
    return [_item(group, sources, targets, folder, options.context) for group in groups]


def _text(folder: Path, lang: str) -> list[Sentences]:
    file = folder / f"{lang}.txt"
    lines = list(iterate_raw_lines(resolve(str(folder / lang), "txt")))
    for number, line in enumerate(lines, start=1):
        if _SEPARATOR not in line:
            raise GtransError(f"{file}:{number}: has no {_SEPARATOR} between context and sentence.")
    return [tuple(part.strip() for part in line.split(_SEPARATOR)) for line in lines]


def _runs(sources: list[Sentences]) -> Iterator[_Group]:
    for _, run in groupby(range(len(sources)), key=lambda number: sources[number]):
        numbers = list(run)
        yield _Group(numbers[0], numbers[-1] + 1, "", None)


def _groups(table: Path, lines: int) -> Iterator[_Group]:
    end = 0
    for number, row in enumerate(iterate_raw_lines(table), start=1):
        cells = row.split("\t")
        if number == 1:
            if cells != _COLUMNS:
                raise GtransError(f"{table}:1: must name the columns {', '.join(_COLUMNS)}.")
            continue
        # Lines are stripped, so an empty last column is missing.
        first, variants, pronoun, distance = (*cells, "", "", "", "")[:4]
        if not (first.isdecimal() and variants.isdecimal() and (distance or "0").isdecimal()):
            raise GtransError(f"{table}:{number}: line, variants and distance must be numbers.")
        begin = int(first) - 1
        if begin != end or int(variants) < 2:
            raise GtransError(
                f"{table}:{number}: an example must begin at line {end + 1} and have at least "
                f"2 lines, but begins at line {first} and has {variants}."
            )
        end = begin + int(variants)
        yield _Group(begin, end, pronoun, int(distance) if distance else None)
    if end != lines:
        raise GtransError(f"{table}: ends at line {end} of the texts, which have {lines}.")


def _item(
    group: _Group,
    sources: list[Sentences],
    targets: list[Sentences],
    folder: Path,
    context: int,
) -> Item:
    begin, place = group.begin, f"{folder}/de.txt:{group.begin + 1}"
    candidates = targets[begin : group.end]
    if any(source != sources[begin] for source in sources[begin : group.end]):
        raise GtransError(f"{folder}/en.txt:{begin + 1}: the lines of an example must be equal.")
    if len(candidates) < 2:
        raise GtransError(f"{place}: an example needs at least one wrong translation.")
    if any(len(candidate) != len(sources[begin]) for candidate in candidates):
        raise GtransError(f"{place}: must have the same number of {_SEPARATOR} as en.txt.")
    # An example at the beginning of a film has an empty context.
    real = [
        number
        for number in range(len(sources[begin]))
        if sources[begin][number] and all(candidate[number] for candidate in candidates)
    ][-(context + 1) :]
    if not real or real[-1] != len(sources[begin]) - 1:
        raise GtransError(f"{place}: the sentence after {_SEPARATOR} is empty.")
    target, *contrastive = (tuple(c[number] for number in real) for c in candidates)
    return Item(
        id=str(begin + 1),
        phenomenon=f"it:{group.pronoun}" if group.pronoun else "it",
        distance=group.distance,
        cue="target",
        source=tuple(sources[begin][number] for number in real),
        target=target,
        contrastive=tuple(contrastive),
        form="truecased",
    )
