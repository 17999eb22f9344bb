"""ContraPro: English to German pronouns (Mueller, Rios, Voita and Sennrich 2018).

"A Large-Scale Test Set for the Evaluation of Context-Aware Pronoun Translation in Neural
Machine Translation", WMT 2018. Three forms are in use:

* ``contrapro.json`` with the OpenSubtitles documents that ``setup_opensubs.sh`` of its
  repository extracts (``--documents``); see :mod:`.pronoun_json`. Segments count from 1.
* the files that its conversion script writes: ``NAME.text.en`` and ``NAME.text.de`` with a line
  for each candidate, ``NAME.context.en`` and ``NAME.context.de`` with N lines of context for each.
* text: ``en.txt`` and ``de.txt`` with lines ``context <SEP> sentence``, truecased, as ContraCAT
  distributes it.

In the last two, the lines of an example follow each other, the right one first.
``groups.tsv`` in the same folder may say where examples begin (columns ``first_line``,
``variants``, ``reference_pronoun``, ``antecedent_distance``, which may be empty).
"""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from gtrans.data.documents import iterate_raw_lines, resolve
from gtrans.errors import GtransError
from gtrans.evaluation.contrastive import german
from gtrans.evaluation.contrastive.contracat import GENDERS, has_genders
from gtrans.evaluation.contrastive.items import Item, ReadOptions, Sentences
from gtrans.evaluation.contrastive.pronoun_json import PronounSet, antecedent, read_pronoun_json
from gtrans.evaluation.contrastive.text_sides import contexts_of, separated, the_only, two_sides
from gtrans.messages import say

_JSON = PronounSet(source="en", target="de", first_segment=1)
_TEXT, _TRANSLATION = ".text.en", ".text.de"
_WRONG = (2, 3)  # wrong lines: three where the other pronoun may be both "er" and "ihn"
_WHOLE = {"it:er": 4000, "it:es": 4000, "it:sie": 4000}
# The most differences between groups.tsv and the text, as a share; the published ones have 0.3%.
_MISTAKEN = 0.01
_COLUMNS = ["first_line", "variants", "reference_pronoun", "antecedent_distance"]


@dataclass(frozen=True)
class _Group:
    """The lines of an example, its pronoun (empty: unknown) and its antecedent distance."""

    begin: int
    end: int
    pronoun: str = ""
    distance: int | None = None


@dataclass(frozen=True)
class _Lines:
    """The lines of a text form, each with its context.

    Attributes:
        file: the file of the translations.
        form: see :class:`Item`.
    """

    sources: Sequence[Sentences]
    targets: Sequence[Sentences]
    file: Path
    form: str


def read_contrapro(path: str | os.PathLike[str], options: ReadOptions) -> list[Item]:
    """All examples of ``contrapro.json``, or of a text form: its folder or its source.

    Phenomena are pairs of pronouns, ``it:er``. In the text forms the pronoun is the one in which
    all candidates differ, and examples are told apart by it (:func:`.german.examples`) if there
    is no ``groups.tsv``; the distance is then unknown.

    Raises:
        GtransError: a file is missing or has another form, or examples cannot be told apart;
            the message names the line.
    """
    path = Path(path)
    if not path.exists():
        raise GtransError(f"{path}: there is no such file or folder.")
    folder = path if path.is_dir() else path.parent
    if has_genders(folder):
        raise GtransError(
            f"{folder}: has {GENDERS}, so it is a template of ContraCAT, whose first line is "
            "not the right one; give `--format contracat`."
        )
    plain = path.name.removesuffix(".gz")
    if plain == "de.txt" or plain.endswith(_TRANSLATION):
        raise GtransError(
            f"{path}: has the translations; give the source next to it, en.txt or NAME{_TEXT}, or "
            "their folder."
        )
    if plain == "en.txt" or (path.is_dir() and not list(path.glob(f"*{_TEXT}*"))):
        lines = _separated(folder)
    elif path.is_dir() or plain.endswith(_TEXT):
        lines = _extracted(path, options.context)
    else:
        return read_pronoun_json(path, _JSON, options)
    table = folder / "groups.tsv"
    groups = list(_groups(table, len(lines.sources))) if table.is_file() else _found_groups(lines)
    items = [_item(group, lines, options.context) for group in groups]
    if table.is_file():
        _compare(table, groups, lines)
    else:
        _count(lines.file, items)
    return items


def _compare(table: Path, groups: Sequence[_Group], lines: _Lines) -> None:
    """Raise GtransError if more pronouns of a table than :data:`_MISTAKEN` are not the right ones.

    That is so if the lines of the text have another order than those of the table.
    """
    wrong: list[tuple[int, str, str]] = []
    for group in groups:
        right, *others = (target[-1] for target in lines.targets[group.begin : group.end])
        found, said = german.pronoun_of(right, others), german.lemma_of(group.pronoun)
        if found and said and found != said:
            wrong.append((group.begin + 1, found, group.pronoun))
    if len(wrong) > _MISTAKEN * len(groups):
        line, found, said = wrong[0]
        raise GtransError(
            f"{lines.file}:{line}: the right candidate has '{found}', but {table.name} says "
            f"'{said}', and {len(wrong)} of {len(groups)} examples differ like this; give the "
            "lines in their published order, the right one of an example first."
        )


def _count(file: Path, items: Sequence[Item]) -> None:
    """Say so if the examples are not those of the whole set: lines may be missing."""
    counts = Counter(item.phenomenon for item in items)
    if counts != _WHOLE:
        found = ", ".join(f"{counts[name]} {name}" for name in sorted(counts))
        say(f"{file}: {len(items)} examples ({found}); the whole set has 12,000, 4,000 of each")


def _separated(folder: Path) -> _Lines:
    sides = two_sides(*(resolve(str(folder / lang), "txt") for lang in ("en", "de")))
    files = [folder / f"{lang}.txt" for lang in ("en", "de")]
    sources, targets = (separated(*side) for side in zip(sides, files, strict=True))
    return _Lines(sources, targets, files[1], "truecased")


def _extracted(path: Path, context: int) -> _Lines:
    if path.is_dir():
        path = the_only(path, _TEXT)
    prefix = str(path).removesuffix(".gz").removesuffix(_TEXT)
    current = two_sides(*(resolve(f"{prefix}.text", lang) for lang in ("en", "de")))
    before = contexts_of(f"{prefix}.context", ("en", "de"), len(current[0]), context)
    sources, targets = (
        [(*sentences, line) for sentences, line in zip(contexts, lines, strict=True)]
        for contexts, lines in zip(before, current, strict=True)
    )
    return _Lines(sources, targets, Path(f"{prefix}.text.de"), "text")


def _found_groups(lines: _Lines) -> list[_Group]:
    texts = [" ".join(sentences) for sentences in lines.targets]
    groups: list[_Group] = []
    for begin, end in german.examples(lines.sources, texts):
        right, *wrong = texts[begin:end]
        if len(wrong) not in _WRONG or not german.is_example(right, wrong):
            raise GtransError(
                f"{lines.file}:{begin + 1}: lines {begin + 1} to {end} are no example of ContraPro "
                "(a right line and 2 or 3 with the other pronouns), so where examples begin is "
                "unclear; say it in a file groups.tsv in the same folder, or give contrapro.json."
            )
        groups.append(_Group(begin, end))
    orders = [german.pronouns_of(texts[group.begin : group.end]) for group in groups]
    if len(orders) > 1 and all(order == list(german.GENDERS) for order in orders):
        raise GtransError(
            f"{lines.file}: every example has er, sie and es in this order, as in the templates of "
            f"ContraCAT, where the first is not the right one; give {GENDERS} and `--format "
            "contracat`, or groups.tsv if these are examples of ContraPro."
        )
    return groups


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


def _item(group: _Group, lines: _Lines, context: int) -> Item:
    begin, place = group.begin, f"{lines.file}:{group.begin + 1}"
    source, candidates = lines.sources[begin], lines.targets[begin : group.end]
    if any(other != source for other in lines.sources[begin : group.end]):
        raise GtransError(f"{place}: the lines of an example must have equal sources.")
    if any(len(candidate) != len(source) for candidate in candidates):
        raise GtransError(f"{place}: must have as many sentences as its source.")
    # An example at the beginning of a film has an empty context.
    real = [
        number
        for number in range(len(source))
        if source[number] and all(candidate[number] for candidate in candidates)
    ][-(context + 1) :]
    if not real or real[-1] != len(source) - 1:
        raise GtransError(f"{place}: the sentence itself is empty, here or in its source.")
    target, *contrastive = (tuple(c[number] for number in real) for c in candidates)
    pronoun = german.pronoun_of(target[-1], [wrong[-1] for wrong in contrastive])
    pronoun = pronoun or group.pronoun
    return Item(
        id=str(begin + 1),
        phenomenon=f"it:{pronoun}" if pronoun else "it",
        distance=group.distance,
        cue="target",
        source=tuple(source[number] for number in real),
        target=target,
        contrastive=tuple(contrastive),
        form=lines.form,
        groups=antecedent(group.distance),
    )
