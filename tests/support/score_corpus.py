"""A small corpus for the tests of ``gtrans score``."""

from __future__ import annotations

from pathlib import Path

from gtrans.evaluation.metrics import METRICS, Options
from gtrans.evaluation.scores import Corpus, measure

REFERENCES = [
    ["The cat sat on the mat.", "It was black.", "Then it ran into the old garden."],
    ["A dog saw the cat in the garden.", "It barked at the cat all day long."],
]
HYPOTHESES = [
    ["The cat sat on a mat.", "He was black.", "Then it ran into the garden."],
    ["One dog saw the cat in the garden.", "It barked at a cat the whole day long."],
]
INSTANCES = [[range(2), range(2, 3)], [range(2)]]


def scores(
    hypotheses: list[list[str]] = HYPOTHESES, options: Options | None = None
) -> dict[str, float]:
    found = measure(Corpus(REFERENCES, INSTANCES), {"system": hypotheses}, list(METRICS), options)
    return {key: measurement.score("system") for key, measurement in found.items()}


def text(documents: list[list[str]]) -> str:
    """The documents as a file: one sentence per line, an empty line between documents."""
    return "\n\n".join("\n".join(document) for document in documents) + "\n"


def write(path: Path, content: str) -> str:
    path.write_text(content, encoding="utf-8")
    return str(path)
