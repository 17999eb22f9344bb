"""Items of contrastive sets, and the reader of their JSON lines."""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import Any, NamedTuple, TypeVar

from gtrans.data.documents import iterate_raw_lines
from gtrans.errors import GtransError
from gtrans.files import digest_of_values, parse_json

_Value = TypeVar("_Value")
_Check = Callable[[Any], bool]
TextFunction = Callable[[str], str]
Sentences = tuple[str, ...]
FORMS = ("text", "tokenised", "truecased")
"""Plain text; tokens between spaces; plain text whose sentences begin in lower case."""


@dataclass(frozen=True)
class Item:
    """A document, its right translation and wrong ones, each of K sentences.

    Attributes:
        distance: sentences from the cue to the sentence that needs it; None: unknown.
        cue: its side: ``source``, or ``target`` if the source lacks it.
        right_index: index of the right candidate in the published file.
        groups: groups of the authors' tables, such as ``f`` of ``gender``.
        block: as in the sets of Bawden et al.
        document: such as a film; empty: unknown.
    """

    id: str
    phenomenon: str
    distance: int | None
    cue: str
    source: Sentences
    target: Sentences
    contrastive: tuple[Sentences, ...]
    form: str = "text"
    right_index: int = 0
    groups: Mapping[str, str] = field(default_factory=dict, hash=False)
    block: str = ""
    document: str = ""

    @property
    def candidates(self) -> tuple[Sentences, ...]:
        """All translations, the right one first."""
        return (self.target, *self.contrastive)

    @cached_property
    def texts_digest(self) -> str:
        """Digest of the last sentences, which ``--context`` does not change."""
        last_sentences = [candidate[-1] for candidate in self.candidates]
        return digest_of_values(self.source[-1], *last_sentences)[:16]

    @property
    def rivals(self) -> list[int]:
        """Indices of the wrong candidates, without copies of the right one."""
        rivals = []
        for index, candidate in enumerate(self.contrastive, start=1):
            if candidate != self.target:
                rivals.append(index)
        return rivals

    def in_file_order(self, values: Sequence[_Value]) -> list[_Value]:
        """Put values, the right candidate's first, in the order of the published file."""
        ordered = list(values[1:])
        ordered.insert(self.right_index, values[0])
        return ordered

    def right_first(self, values: Sequence[_Value]) -> list[_Value]:
        """Reverse :meth:`in_file_order`."""
        ordered = list(values)
        right = ordered.pop(self.right_index)
        return [right, *ordered]

    @property
    def context(self) -> int:
        """Number of sentences before the first one in which candidates differ."""
        by_sentence = zip(*self.candidates, strict=True)
        for number, alternatives in enumerate(by_sentence):
            if len(set(alternatives)) > 1:
                return number
        return len(self.target) - 1

    def as_text(self, detokenise_source: TextFunction, detokenise_target: TextFunction) -> Item:
        """Return the item as plain text."""
        if self.form == "text":
            return self
        if self.form == "truecased":
            return self._map_sentences(_with_capital, _with_capital)
        return self._map_sentences(detokenise_source, detokenise_target)

    def _map_sentences(self, change_source: TextFunction, change_target: TextFunction) -> Item:
        contrastive = []
        for candidate in self.contrastive:
            contrastive.append(tuple(map(change_target, candidate)))
        return replace(
            self,
            source=tuple(map(change_source, self.source)),
            target=tuple(map(change_target, self.target)),
            contrastive=tuple(contrastive),
            form="text",
        )


def _with_capital(sentence: str) -> str:
    return sentence[:1].upper() + sentence[1:]


@dataclass(frozen=True)
class ReadOptions:
    """Options of the readers.

    Attributes:
        documents: folder with the contexts of a JSON file.
        context: most sentences of context, for sets that do not define it.
    """

    documents: Path | None = None
    context: int = 1


# --- the general format, also of the synthetic corpus: one JSON object per line ------------------


def read_jsonl(path: str | os.PathLike[str], options: ReadOptions) -> list[Item]:
    """Read JSON lines, as ``gtrans make-corpus`` writes them.

    Keys are the fields of :class:`Item`; ``form``, ``groups``, ``block`` and ``document`` are
    optional. Other keys and empty lines are ignored.
    """
    if os.path.isdir(path):
        raise GtransError(
            f"'{path}' is a folder; name its files (`--set {path}/*.jsonl`), or the `--format` of "
            "a published set that is a folder."
        )
    items: dict[str, Item] = {}
    for number, line in enumerate(iterate_raw_lines(path), start=1):
        if not line:
            continue
        place = f"{path}:{number}"
        entry = parse_json(line, place)
        try:
            item = _item(entry)
        except ValueError as error:
            raise GtransError(f"{place}: {error}") from None
        if item.id in items:
            raise GtransError(f"{place}: the id {item.id!r} is also that of another line")
        items[item.id] = item
    return list(items.values())


def _is_text(value: Any) -> bool:
    return isinstance(value, str) and bool(value.strip())


def _are_sentences(value: Any) -> bool:
    return _is_list_of(_is_text, value)


def _are_candidates(value: Any) -> bool:
    return _is_list_of(_are_sentences, value)


def _is_list_of(is_valid: _Check, value: Any) -> bool:
    if not isinstance(value, list) or not value:
        return False
    return all(map(is_valid, value))


def _are_groups(value: Any) -> bool:
    if not isinstance(value, dict):
        return False
    return all(map(_is_text, value.values()))


def _is_distance(value: Any) -> bool:
    return type(value) is int and value >= 0


def _is_string(value: Any) -> bool:
    return isinstance(value, str)


class _Field(NamedTuple):
    is_valid: _Check
    description: str  # of right values
    default: Any = None


_TEXT = _Field(_is_text, "a text that is not empty")
_SENTENCES = _Field(_are_sentences, "a list of sentences that are not empty")
_CANDIDATES = _Field(
    _are_candidates,
    "a list of at least one wrong translation, each a list of sentences that are not empty",
)
_FIELDS = {
    "id": _TEXT,
    "phenomenon": _TEXT,
    "cue": _TEXT,
    "source": _SENTENCES,
    "target": _SENTENCES,
    "distance": _Field(_is_distance, "a number from 0"),
    "contrastive": _CANDIDATES,
    "form": _Field(FORMS.__contains__, f"one of {', '.join(FORMS)}", default=FORMS[0]),
    "groups": _Field(_are_groups, "a JSON object whose values are texts", default={}),
    "block": _Field(_is_string, "a text", default=""),
    "document": _Field(_is_string, "a text", default=""),
}


def _item(entry: Any) -> Item:
    if not isinstance(entry, dict):
        raise ValueError("an item must be a JSON object")
    values: dict[str, Any] = {}
    for name, field_of_item in _FIELDS.items():
        value = entry.get(name, field_of_item.default)
        if not field_of_item.is_valid(value):
            shown = json.dumps(value)[:60]
            raise ValueError(f"{name!r} must be {field_of_item.description}, but is {shown}")
        values[name] = value
    source = values["source"]
    target = values["target"]
    contrastive = values["contrastive"]
    for candidate in [target, *contrastive]:
        if len(candidate) != len(source):
            raise ValueError(
                "'source', 'target' and 'contrastive' have different numbers of sentences"
            )
    # White space makes no difference to a model.
    if _words(target) in map(_words, contrastive):
        raise ValueError("a wrong translation in 'contrastive' equals 'target'")
    values["source"] = tuple(source)
    values["target"] = tuple(target)
    values["contrastive"] = tuple(map(tuple, contrastive))
    return Item(**values)


def _words(sentences: Sequence[str]) -> list[list[str]]:
    return [sentence.split() for sentence in sentences]
