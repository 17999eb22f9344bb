"""Items of contrastive sets.

An item is a source document, its right translation and one or more wrong ones. A model gives
each candidate a score. The item counts as right if the score of the right candidate is strictly
the highest, so ties gain nothing. This package imports neither torch nor fairseq;
:mod:`gtrans.translating.force_decode` computes the scores.
"""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import Any, TypeVar

from gtrans.data.documents import iterate_raw_lines
from gtrans.errors import GtransError
from gtrans.files import digest_of_values, parse_json

_Value = TypeVar("_Value")
Sentences = tuple[str, ...]
FORMS = ("text", "tokenised", "truecased")
"""Plain text; tokens between spaces; plain text whose sentences begin in lower case."""


@dataclass(frozen=True)
class Item:
    """A source document, its right translation and wrong ones, sentence by sentence.

    Attributes:
        id: name, unique in its file.
        phenomenon: what the item tests.
        distance: how many sentences the cue is before the sentence that needs it; 0 is the
            same sentence. None: unknown.
        cue: the side that has the cue: ``source``, or ``target`` if it is not in the source.
        source: the K source sentences.
        target: the right K target sentences.
        contrastive: wrong candidates of K sentences each.
        form: how the sentences are written, one of :data:`FORMS`.
        right_index: place of the right candidate in the published file, from 0.
        groups: what the item belongs to in the tables of its authors: name of a grouping (such
            as ``gender``) to the value (``f``).
        block: the items of a block belong together, as in the sets of Bawden et al.; or nothing.
        document: what the item was taken from, such as a film; items of one document are not
            independent. Nothing: the set does not say, and the block stands for it.
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
        """Of the last sentences; those before them may be more or fewer, as by ``--context``."""
        candidates = [candidate[-1] for candidate in self.candidates]
        return digest_of_values(self.source[-1], *candidates)[:16]

    @property
    def rivals(self) -> list[int]:
        """Places in :attr:`candidates` of the wrong ones; a copy of the right one is no rival."""
        return [n for n, wrong in enumerate(self.contrastive, 1) if wrong != self.target]

    def in_file_order(self, values: Sequence[_Value]) -> list[_Value]:
        """Values of the candidates, the right one first, in the order of the published file."""
        first, *others = values
        return [*others[: self.right_index], first, *others[self.right_index :]]

    def right_first(self, values: Sequence[_Value]) -> list[_Value]:
        """The reverse of :meth:`in_file_order`."""
        place = self.right_index
        return [values[place], *values[:place], *values[place + 1 :]]

    @property
    def context(self) -> int:
        """Number of sentences before the first one in which candidates differ."""
        for number, column in enumerate(zip(*self.candidates, strict=True)):
            if len(set(column)) > 1:
                return number
        return len(self.target) - 1

    def as_text(self, join: tuple[Callable[[str], str], Callable[[str], str]]) -> Item:
        """The item as plain text, the input of the text pipelines.

        Tokens are joined and truecased sentences begin with a capital again, so that the
        pipeline produces the tokens that the model was trained on.

        Args:
            join: functions that detokenise a sentence of Moses tokens, for source and target.
        """
        if self.form == "text":
            return self
        join_source, join_target = join
        if self.form == "truecased":
            join_source = join_target = _with_capital
        contrastive = []
        for candidate in self.contrastive:
            contrastive.append(tuple(join_target(sentence) for sentence in candidate))
        return replace(
            self,
            source=tuple(join_source(sentence) for sentence in self.source),
            target=tuple(join_target(sentence) for sentence in self.target),
            contrastive=tuple(contrastive),
            form="text",
        )


def _with_capital(sentence: str) -> str:
    return sentence[:1].upper() + sentence[1:]


@dataclass(frozen=True)
class ReadOptions:
    """Options of the readers.

    Attributes:
        documents: folder of the documents that contain the contexts of a JSON file.
        context: the most sentences of context, for sets that do not define it.
    """

    documents: Path | None = None
    context: int = 1


# --- the general format, also of the synthetic corpus: one JSON object per line ------------------


def read_jsonl(path: str | os.PathLike[str], options: ReadOptions) -> list[Item]:
    """Items of a file with a JSON object per line, as ``gtrans make-corpus`` writes it.

    Its keys are the fields of :class:`Item`, with lists instead of tuples; ``form``,
    ``groups``, ``block`` and ``document`` may be left out. Other keys and empty lines are ignored.

    Raises:
        GtransError: the file cannot be read or has no item, or a line is not an item; the
            message names the line.
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
    return isinstance(value, list) and bool(value) and all(map(_is_text, value))


def _are_candidates(value: Any) -> bool:
    return isinstance(value, list) and bool(value) and all(map(_are_sentences, value))


def _are_groups(value: Any) -> bool:
    return isinstance(value, dict) and all(map(_is_text, value.values()))


def _is_distance(value: Any) -> bool:
    return type(value) is int and value >= 0


def _is_string(value: Any) -> bool:
    return isinstance(value, str)


_TEXT = _is_text, "a text that is not empty"
_SENTENCES = _are_sentences, "a list of sentences that are not empty"
_FIELDS: dict[str, tuple[Callable[[Any], bool], str]] = {
    "id": _TEXT,
    "phenomenon": _TEXT,
    "cue": _TEXT,
    "source": _SENTENCES,
    "target": _SENTENCES,
    "distance": (_is_distance, "a number from 0"),
    "contrastive": (
        _are_candidates,
        "a list of at least one wrong translation, each a list of sentences that are not empty",
    ),
    "form": (FORMS.__contains__, f"one of {', '.join(FORMS)}"),
    "groups": (_are_groups, "a JSON object whose values are texts"),
    "block": (_is_string, "a text"),
    "document": (_is_string, "a text"),
}
"""For each key of an item, what fits it, in code and in words."""
_DEFAULTS: dict[str, Any] = {"form": FORMS[0], "groups": {}, "block": "", "document": ""}


def _item(entry: Any) -> Item:
    """The item of a decoded line; raises ValueError that describes the mistake."""
    if not isinstance(entry, dict):
        raise ValueError("an item must be a JSON object")
    values: dict[str, Any] = {name: entry.get(name, _DEFAULTS.get(name)) for name in _FIELDS}
    for name, (fits, what) in _FIELDS.items():
        if not fits(values[name]):
            raise ValueError(f"{name!r} must be {what}, but is {json.dumps(values[name])[:60]}")
    right = _words(values["target"])
    for candidate in [values["target"], *values["contrastive"]]:
        if len(candidate) != len(values["source"]):
            raise ValueError(
                "'source', 'target' and 'contrastive' have different numbers of sentences"
            )
    # White space makes no difference to a model.
    if right in [_words(candidate) for candidate in values["contrastive"]]:
        raise ValueError("a wrong translation in 'contrastive' equals 'target'")
    for name in ("source", "target"):
        values[name] = tuple(values[name])
    values["contrastive"] = tuple(tuple(candidate) for candidate in values["contrastive"])
    return Item(**values)


def _words(sentences: Sequence[str]) -> list[list[str]]:
    return [sentence.split() for sentence in sentences]
