"""JSON files of pronoun sets drawn from documents: ContraPro's, and those that follow it.

An array of objects with ``document id`` and ``segment id``, ``src segment`` and ``ref
segment``, ``src pronoun`` and ``ref pronoun``, ``ante distance``, and ``errors``, each with its
``contrastive`` sentence. The contexts are in separate documents with one sentence per line,
``DOCUMENTS/YEAR/NAME.LANG``.
"""

from __future__ import annotations

import json
import os
from dataclasses import dataclass
from difflib import SequenceMatcher
from functools import lru_cache
from pathlib import Path

from gtrans.data.documents import iterate_raw_lines, resolve
from gtrans.errors import GtransError
from gtrans.evaluation.contrastive.items import Item, ReadOptions
from gtrans.evaluation.contrastive.json_file import Entry, read_entries

# Least similarity of a sentence of the set and that of its document; they differ in the
# tokenisation of some editions.
_ALIKE = 0.6


@dataclass(frozen=True)
class PronounSet:
    """The differences between the published sets.

    Attributes:
        source, target: languages, the suffixes of the files of the documents.
        first_segment: ``segment id`` of the first sentence of a document.
    """

    source: str
    target: str
    first_segment: int


def read_pronoun_json(
    path: str | os.PathLike[str], kind: PronounSet, options: ReadOptions
) -> list[Item]:
    """All examples, with up to ``options.context`` sentences of context each.

    Raises:
        GtransError: context is wanted without a folder of documents, a file cannot be read,
            or an example has another form, is not in its document, or occurs twice.
    """
    if options.context and options.documents is None:
        raise GtransError(
            f"{path}: its contexts are in separate documents; give their folder "
            "(`--documents`), or `--context 0`."
        )
    items: list[Item] = []
    known: dict[str, str] = {}
    for entry in read_entries(path):
        items.append(_item(entry, kind, options))
        names = [entry.value.get(key) for key in ("document id", "segment id")]
        if None not in names:
            # Twice in a segment is right only if other words are wrong: it has two pronouns.
            key = json.dumps([*names, items[-1].candidates])
            if key in known:
                raise entry.error(f"is the same example as instance {known[key]}; remove one.")
            known[key] = entry.name
    return items


def _item(entry: Entry, kind: PronounSet, options: ReadOptions) -> Item:
    source, target = [entry.text("src segment")], [entry.text("ref segment")]
    errors = entry.value.get("errors")
    errors = [errors] if isinstance(errors, dict) else errors
    if not isinstance(errors, list) or not errors:
        raise entry.error("'errors' must be a list of at least one wrong translation.")
    wrong = [Entry(entry.place, entry.name, error).text("contrastive") for error in errors]
    distance, within = _distance(entry), entry.value.get("intrasegmental")
    if not isinstance(within, bool | None):
        raise entry.error("'intrasegmental' must be true, false or null.")
    before: tuple[list[str], list[str]] = ([], [])
    if options.context and options.documents is not None:
        sides = _document(entry, kind, options.documents)
        number = entry.number("segment id") - kind.first_segment
        if not 0 <= number < len(sides[0]):
            raise entry.error(
                f"'segment id' is {number + kind.first_segment}, but the document "
                f"{entry.text('document id')} has {len(sides[0])} lines."
            )
        for side, text in zip(sides, (source[0], target[0]), strict=True):
            if not _alike(side[number], text):
                raise entry.error(
                    f"line {number + 1} of the document {entry.text('document id')} is "
                    f"'{side[number]}', not '{text}'; give the documents of the set."
                )
        source, target = [sides[0][number]], [sides[1][number]]
        pairs = [
            pair
            for pair in zip(*(side[max(number - options.context, 0) : number] for side in sides),
                            strict=True)
            if all(pair)
        ]  # fmt: skip
        before = [pair[0] for pair in pairs], [pair[1] for pair in pairs]
    return Item(
        id=entry.name,
        phenomenon=f"{entry.text('src pronoun')}:{entry.text('ref pronoun')}".lower(),
        distance=distance,
        cue="target",
        source=(*before[0], *source),
        target=(*before[1], *target),
        contrastive=tuple((*before[1], sentence) for sentence in wrong),
        groups=antecedent(distance, within),
    )


def antecedent(distance: int | None, within: bool | None = None) -> dict[str, str]:
    """The groups of an example in the tables of Mueller et al. (2018), as far as they are known.

    Antecedents in the sentence itself and before it, and distances, those above 3 together.

    Args:
        distance: that of the antecedent in sentences.
        within: whether it is in the sentence itself, as the set says it; None: it does not, and
            the distance decides.
    """
    groups: dict[str, str] = {}
    if within is None and distance is not None:
        within = distance == 0
    if within is not None:
        groups["antecedent"] = "intrasentential" if within else "intersentential"
    if distance is not None:
        groups["antecedent distance"] = str(distance) if distance <= 3 else ">3"
    return groups


def _distance(entry: Entry) -> int | None:
    """That of the antecedent; null and numbers below 0 mean that it is not known."""
    if "ante distance" in entry.value and entry.value["ante distance"] is None:
        return None
    distance = entry.number("ante distance")
    return distance if distance >= 0 else None


def _document(entry: Entry, kind: PronounSet, folder: Path) -> tuple[list[str], list[str]]:
    name = entry.text("document id")
    stem = name.removesuffix(f".{kind.target}").removesuffix(f".{kind.source}")
    if Path(stem).name != stem:
        raise entry.error(f"'document id' must be the name of a document, but is '{name}'.")
    prefix = folder / stem.split("_")[0] / stem
    try:
        return _lines(str(prefix), kind.source, kind.target)
    except GtransError as error:
        raise entry.error(str(error)) from None


@lru_cache(maxsize=64)
def _lines(prefix: str, source: str, target: str) -> tuple[list[str], list[str]]:
    files = [resolve(prefix, lang) for lang in (source, target)]
    sides = [list(iterate_raw_lines(file)) for file in files]
    if len(sides[0]) != len(sides[1]):
        raise GtransError(
            f"'{files[0]}' has {len(sides[0])} lines, but '{files[1]}' has {len(sides[1])}."
        )
    return sides[0], sides[1]


def _alike(one: str, other: str) -> bool:
    a, b = ("".join(c for c in text.casefold() if c.isalnum()) for text in (one, other))
    return a == b or SequenceMatcher(None, a, b).ratio() >= _ALIKE
