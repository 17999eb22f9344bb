"""BlonDe (Jiang et al., 2022) of English translations, with intervals and tests.

BlonDe compares, over the whole corpus, how often words of some categories (tenses, pronouns, names,
discourse markers) and n-grams occur in translation and reference. Its counts are sums over
documents. So the program that runs where BlonDe is installed writes the counts of every document,
and the corpus score of any documents follows from their sums.
"""

from __future__ import annotations

import json
import math
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from gtrans.errors import GtransError
from gtrans.evaluation.external import (
    AGAIN,
    RESULT,
    Instructions,
    ToolTexts,
    matrix,
    result_of,
    write_texts,
)
from gtrans.evaluation.scores import Measurement, Statistics

_ORDERS = 4
_CATEGORIES = ("tense", "pronoun", "entity", "dm")
_KEYS = _ORDERS + len(_CATEGORIES)
_TOLERANCE = 1e-6
_FLOOR = 1e-5  # BlonDe takes the logarithm of no smaller number
_PROGRAM_NAME = "blonde_scores.py"
_TEXTS = "documents.json"
_PROGRAM = '''\
"""Counts documents.json with BlonDe: run it where blonde is installed."""
import hashlib, json, pathlib
from importlib.metadata import version
from blonde import BLONDE
from blonde.dBlonDe import sim

KEYS = (1, 2, 3, 4, "tense", "pronoun", "entity", "dm")
folder = pathlib.Path(__file__).parent
text = (folder / "documents.json").read_bytes()
documents = json.loads(text)
blonde = BLONDE(references=[documents["references"]])
systems = {}
for name, system in documents["systems"].items():
    found, expected = blonde._extract_corpus_statistics(system, None)
    score = float(blonde._aggregate_and_compute((found, expected)).F1)
    systems[name] = {"score": score, "documents": []}
    for sentences in zip(found, expected):
        counts = [0.0] * (3 * len(KEYS))
        for one, other in zip(*sentences):
            _, *kinds = sim(one, other, blonde.weights, blonde.categories)
            for kind, values in enumerate(kinds):
                for place, key in enumerate(KEYS):
                    counts[kind * len(KEYS) + place] += values.get(key, 0.0)
        systems[name]["documents"].append(counts)
checked = hashlib.sha256(text).hexdigest()
versions = ",".join(name + "-" + version(name) for name in ("blonde", "spacy"))
(folder / "scores.json").write_text(
    json.dumps({"texts": checked, "versions": versions, "systems": systems})
)
'''


def blonde(
    folder: Path, texts: ToolTexts, target_lang: str
) -> tuple[Instructions, Measurement | None]:
    """BlonDe of every system: F1, times 100.

    Raises:
        GtransError: the target language is not English, there is no reference, or the scores
            belong to other texts.
    """
    if target_lang not in ("", "en"):
        raise GtransError(f"BlonDe supports English only, but --target-lang is {target_lang}")
    if texts.references is None:
        raise GtransError("--blonde needs the reference; give it with --ref")
    documents = json.dumps(
        {
            "references": [list(document) for document in texts.references],
            "systems": {
                name: [list(document) for document in system]
                for name, system in texts.systems.items()
            },
        },
        ensure_ascii=False,
    )
    write_texts(folder, {_TEXTS: documents, _PROGRAM_NAME: _PROGRAM}, texts.files)
    instructions = Instructions(
        "BlonDe",
        folder,
        (
            "python3 -m venv blonde-env && . blonde-env/bin/activate",
            "pip install git+https://github.com/EleanorJiang/BlonDe",
            "python -m spacy download en_core_web_sm",
        ),
        (f"python {_PROGRAM_NAME}",),
    )
    result = result_of(folder / RESULT, documents, _PROGRAM_NAME)
    if result is None:
        return instructions, None
    return instructions, Measurement(
        key="blonde",
        label="BlonDe",
        unit="document",
        higher_is_better=True,
        signature="categories:all|average:geometric|smooth:exp"
        f"|version:{result.get('versions')}|unit:document",
        statistics={
            name: _counts(result["systems"].get(name), folder / RESULT, len(texts.references))
            for name in texts.systems
        },
        documents=np.arange(len(texts.references)),
        compute=f1,
    )


def _counts(found: Any, path: Path, documents: int) -> Statistics:
    """The counts of every document, (documents, 24).

    Raises:
        GtransError: the file is damaged, or the score that follows from its counts is not BlonDe's.
    """
    if not isinstance(found, dict):
        raise GtransError(f"{path} lacks a system; {AGAIN}")
    counts = matrix(found.get("documents"), (documents, 3 * _KEYS), str(path))
    score, of_tool = f1(counts.sum(0).tolist()), found.get("score")
    if not isinstance(of_tool, float) or abs(score - 100 * of_tool) > _TOLERANCE:
        raise GtransError(
            f"{path}: the counts give {score:.4f}, but this version of BlonDe 100 x {of_tool}; "
            "they can be read of version 0.1.4"
        )
    return counts


def f1(sums: Sequence[float]) -> float:
    """BlonDe's F1, times 100, from sums of its counts.

    Args:
        sums: matches, then counts of the reference, then counts of the translation; each of 1- to
            4-grams, tenses, pronouns, names and discourse markers.
    """
    matches, reference, system = (sums[_KEYS * kind :][:_KEYS] for kind in range(3))
    recall, precision = _average(matches, reference), _average(matches, system)
    return 100 * 2 * recall * precision / (recall + precision)


def _average(matches: Sequence[float], totals: Sequence[float]) -> float:
    """Geometric mean of the shares of matches; a category that does not occur is left out."""
    shares: list[float] = []
    halved = 1.0
    for order in range(_ORDERS):
        if totals[order] == 0:  # longer n-grams do not occur either
            shares += [0.0] * (_ORDERS - order)
            break
        if matches[order] == 0:
            halved *= 2
            shares.append(1 / (halved * totals[order]))
        else:
            shares.append(matches[order] / totals[order])
    shares += [
        match / total
        for match, total in zip(matches[_ORDERS:], totals[_ORDERS:], strict=True)
        if total
    ]
    return math.exp(sum(math.log(max(share, _FLOOR)) for share in shares) / len(shares))
