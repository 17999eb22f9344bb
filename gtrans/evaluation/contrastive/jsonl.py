"""The general format, also that of the synthetic corpus: one JSON object per line."""

from __future__ import annotations

import json
import os
from typing import Any

from gtrans.data.documents import iterate_raw_lines
from gtrans.errors import GtransError
from gtrans.evaluation.contrastive.items import FORMS, Item, ReadOptions, Sentences
from gtrans.files import parse_json


def read_jsonl(path: str | os.PathLike[str], options: ReadOptions) -> list[Item]:
    """Items of a file with a JSON object per line, as ``gtrans make-corpus`` writes it.

    Its keys are the fields of :class:`Item`, with lists instead of tuples; ``form``, ``groups``
    and ``block`` may be left out. Other keys and empty lines are ignored.

    Raises:
        GtransError: the file cannot be read or has no item, or a line is not an item; the
            message names the line.
    """
    if os.path.isdir(path):
        raise GtransError(
            f"'{path}' is a folder; name its files (`--set {path}/*.jsonl`), or the `--format` of "
            "a published set that is a folder."
        )
    items: list[Item] = []
    line_of: dict[str, int] = {}
    for number, line in enumerate(iterate_raw_lines(path), start=1):
        if not line:
            continue
        try:
            item = _item(parse_json(line, f"{path}:{number}"))
            if item.id in line_of:
                raise ValueError(f"the id {item.id!r} is also that of line {line_of[item.id]}")
        except GtransError:
            raise
        except ValueError as error:
            raise GtransError(f"{path}:{number}: {error}") from None
        line_of[item.id] = number
        items.append(item)
    if not items:
        raise GtransError(f"'{path}' holds no contrastive item; give a file with one per line")
    return items


def _item(entry: Any) -> Item:
    """The item of a decoded line; raises ValueError that describes the mistake."""
    if not isinstance(entry, dict):
        raise ValueError("an item must be a JSON object")
    wrong = entry.get("contrastive")
    if not isinstance(wrong, list) or not wrong:
        raise ValueError("'contrastive' must be a list of at least one wrong translation")
    distance = entry.get("distance")
    if type(distance) is not int or distance < 0:
        raise ValueError(f"'distance' must be a number from 0, but is {json.dumps(distance)}")
    item = Item(
        id=_text(entry, "id"),
        phenomenon=_text(entry, "phenomenon"),
        distance=distance,
        cue=_text(entry, "cue"),
        source=_sentences(entry.get("source"), "'source'"),
        target=_sentences(entry.get("target"), "'target'"),
        contrastive=tuple(_sentences(candidate, "'contrastive'") for candidate in wrong),
        form=entry.get("form", FORMS[0]),
        groups=_groups(entry.get("groups", {})),
        block=entry.get("block", ""),
    )
    if not isinstance(item.block, str):
        raise ValueError(f"'block' must be a text, but is {json.dumps(item.block)}")
    if item.form not in FORMS:
        raise ValueError(f"'form' must be one of {', '.join(FORMS)}, but is {item.form!r}")
    for name, sentences in [
        ("'target'", item.target),
        *(("'contrastive'", candidate) for candidate in item.contrastive),
    ]:
        if len(sentences) != len(item.source):
            raise ValueError(
                f"{name} has {len(sentences)} sentences, but 'source' has {len(item.source)}"
            )
    # White space makes no difference to a model.
    right = [sentence.split() for sentence in item.target]
    if right in [[sentence.split() for sentence in wrong] for wrong in item.contrastive]:
        raise ValueError("a wrong translation in 'contrastive' equals 'target'")
    return item


def _groups(value: Any) -> dict[str, str]:
    if not isinstance(value, dict) or not all(isinstance(of, str) for of in value.values()):
        raise ValueError("'groups' must be a JSON object whose values are texts")
    return value


def _text(entry: dict[str, Any], key: str) -> str:
    value = entry.get(key)
    if not isinstance(value, str) or not value:
        raise ValueError(f"{key!r} must be a text that is not empty, but is {json.dumps(value)}")
    return value


def _sentences(value: Any, name: str) -> Sentences:
    if not isinstance(value, list) or not value:
        raise ValueError(f"{name} must be a list of sentences")
    if not all(isinstance(sentence, str) and sentence.strip() for sentence in value):
        raise ValueError(f"{name} has a sentence that is empty or not text")
    return tuple(value)
