"""ctxpro: is the word that the context asks for in the translation?

Wicks and Post, "Identifying Context-Dependent Translations for Evaluation Set Production", WMT
2023. A translation is right if its last sentence (here: its last line) has the expected form as a
word or several, whatever case and ASCII punctuation.
"""

from __future__ import annotations

import os
import re
import string
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from gtrans.errors import GtransError
from gtrans.evaluation.metrics import Measurement
from gtrans.evaluation.other_scores import OtherScore, ScoreInput, ScoreResult
from gtrans.lab.contrapro import read_entries
from gtrans.messages import aligned
from gtrans.text.reader import plain_lines, read_documents, read_documents_with_ids

Array = np.ndarray[Any, np.dtype[Any]]
KEY = "ctxpro"
SEPARATOR = "<eos>"
SIGNATURE = "match:word|case:lc|punct:no ASCII|apostrophe:no,split|sentence:last line|unit:example"
_APOSTROPHE = re.compile("['’]")
_NO_PUNCTUATION = str.maketrans("", "", string.punctuation)


@dataclass(frozen=True)
class Example:
    """An example of a set, found by ``rule``; ``document`` is its film, if the set says it."""

    rule: str
    expected: str
    document: str = ""


def read_examples(path: str | os.PathLike[str]) -> list[Example]:
    """Return the examples of a set, in order; the file may be gzipped."""
    examples = []
    for entry in read_entries(path):
        example = Example(
            rule=entry.text("rule"),
            expected=entry.text("expected"),
            document=str(entry.value.get("document id") or ""),
        )
        examples.append(example)
    if not examples:
        raise GtransError(f"{path} has no examples; give a file of ctxpro's evalsets")
    return examples


def is_right(sentence: str, expected: str) -> bool:
    """Return whether the translated sentence has the expected form.

    The authors' code deletes apostrophes in the translation alone, and so never finds forms such as
    French "l'" or "qu'il". Here they are also tried as ends of words.
    """
    sentence, expected = sentence.lower(), expected.lower()
    words = sentence.translate(_NO_PUNCTUATION)
    if f" {expected} " in f" {words} ":
        return True
    split_expected = _split_apostrophes(expected)
    split_sentence = _split_apostrophes(sentence)
    return bool(split_expected) and f" {split_expected} " in f" {split_sentence} "


def _split_apostrophes(text: str) -> str:
    words = _APOSTROPHE.sub(" ", text).translate(_NO_PUNCTUATION).split()
    return " ".join(words)


def read_translations(
    path: str | os.PathLike[str], examples: int, evalset: str | os.PathLike[str]
) -> list[str]:
    """Return the last translated sentence of every example.

    The file has documents, with or without ids (:mod:`gtrans.text.reader`), or a line for each
    example with ``<eos>`` between sentences, in the order of the set.
    """
    identified = read_documents_with_ids(os.fspath(path), "translation")
    lines = [] if identified else list(plain_lines(path))
    if identified is None and len(lines) == examples:
        return [line.rpartition(SEPARATOR)[2].strip() for line in lines]
    documents = read_documents(path) if identified is None else identified.texts()
    if len(documents) != examples:
        raise GtransError(
            f"{path} has {len(documents)} documents and {len(lines)} lines, but {evalset} has "
            f"{examples} examples; each of them is a document, or one line with {SEPARATOR} "
            "between its sentences"
        )
    return [document[-1] if document else "" for document in documents]


def score_systems(score_input: ScoreInput) -> ScoreResult:
    """Return the percentage of right translations, of all examples and by rule."""
    evalset = score_input.args.ctxpro
    examples = read_examples(evalset)
    right_by_system = {}
    for name, path in score_input.files.items():
        sentences = read_translations(path, len(examples), evalset)
        right = []
        for sentence, example in zip(sentences, examples, strict=True):
            right.append(is_right(sentence, example.expected))
        right_by_system[name] = np.array(right, float)
    notes = []
    if not any(example.document for example in examples):
        notes.append(
            "ctxpro: the set names no documents, so examples count as independent; if several are "
            "of one film, intervals are too narrow and p-values too small"
        )
    rules = _score_rules(examples, right_by_system)
    details = {name: {"rules": scores} for name, scores in rules.items()}
    table = aligned(_rule_rows(rules), [0])
    return ScoreResult([_measurement(examples, right_by_system)], notes, details, table)


def _measurement(examples: Sequence[Example], right_by_system: Mapping[str, Array]) -> Measurement:
    # Examples of one film are not independent; one without a name is a film of its own.
    films: dict[str | int, int] = {}
    ids = []
    for number, example in enumerate(examples):
        ids.append(films.setdefault(example.document or number, len(films)))
    order = np.argsort(ids, kind="stable")
    statistics = {}
    for name, right in right_by_system.items():
        counts = np.stack([right, np.ones_like(right)], 1)
        statistics[name] = counts[order]
    return Measurement(
        key=KEY,
        label="ctxpro",
        unit="sentence",
        higher_is_better=True,
        signature=SIGNATURE,
        statistics=statistics,
        documents=np.array(ids)[order],
        compute=lambda sums: 100 * sums[..., 0] / sums[..., 1],
    )


_Scores = dict[str, dict[str, Any]]
"""Score and numbers by rule."""


def _score_rules(
    examples: Sequence[Example], right_by_system: Mapping[str, Array]
) -> dict[str, _Scores]:
    numbers: dict[str, list[int]] = {}
    for number, example in enumerate(examples):
        numbers.setdefault(example.rule, []).append(number)
    rules: dict[str, _Scores] = {}
    for name, right in right_by_system.items():
        rules[name] = {}
        for rule, chosen in numbers.items():
            chosen_right = right[chosen]
            rules[name][rule] = {
                "score": 100 * chosen_right.mean(),
                "right": int(chosen_right.sum()),
                "examples": len(chosen),
            }
    return rules


def _rule_rows(rules: Mapping[str, _Scores]) -> list[tuple[str, ...]]:
    systems = [f"ctxpro: {name}" for name in rules]
    rows: list[tuple[str, ...]] = [("rule", "examples", *systems)]
    first = next(iter(rules.values()))
    for rule, entry in first.items():
        scores = [by_rule[rule]["score"] for by_rule in rules.values()]
        cells = [f"{score:.2f}" for score in scores]
        rows.append((rule, str(entry["examples"]), *cells))
    return rows


SCORE = OtherScore(
    settings={
        "metavar": "EVALSET",
        "help": "look for the expected words of this set of ctxpro's (the JSON file of its "
        "evalsets, gzipped or not); each translated document is one example of the set",
    },
    measure=score_systems,
    file=True,
)
