"""A small corpus for the tests of ``gtrans score``."""

from __future__ import annotations

from pathlib import Path

from gtrans.evaluation.metrics import METRICS, Corpus, Options, measure

REFERENCES = [
    ["The cat sat on the mat.", "It was black.", "Then it ran into the old garden."],
    ["A dog saw the cat in the garden.", "It barked at the cat all day long."],
]
HYPOTHESES = [
    ["The cat sat on a mat.", "He was black.", "Then it ran into the garden."],
    ["One dog saw the cat in the garden.", "It barked at a cat the whole day long."],
]
CHUNKS = [[range(2), range(2, 3)], [range(2)]]
# Documents, each of whose sentences is translated in other words; a sentence that is in none.
NEWS = [
    ["Parliament votes on new law", "The vote was held on Tuesday evening in the capital.",
     "Opponents of the bill had announced protests.", "Nobody was hurt."],
    ["The team won its third match.", "The coach praised the young goalkeeper Anna Berg.",
     "They play again on Saturday."],
    ["It will rain in the north tomorrow.", "In the south, the sun will shine."],
]  # fmt: skip
NEWS_TRANSLATED = [
    ["Parliament is voting over a new law", "On Tuesday evening, the vote was in the capital.",
     "The opponents of the bill announced protests.", "No one was hurt."],
    ["The team has won its third match.", "The coach praised goalkeeper Anna Berg.",
     "On Saturday, they play again."],
    ["Tomorrow it will rain in the north.", "The sun will shine in the south."],
]  # fmt: skip
ADDED = "Subscribe to our newsletter for more stories from around the world!"


def scores(
    hypotheses: list[list[str]] = HYPOTHESES, options: Options | None = None
) -> dict[str, float]:
    found = measure(Corpus(REFERENCES, CHUNKS), {"system": hypotheses}, list(METRICS), options)
    return {key: measurement.score("system") for key, measurement in found.items()}


def text(documents: list[list[str]]) -> str:
    """The documents as a file: one sentence per line, an empty line between documents."""
    return "\n\n".join("\n".join(document) for document in documents) + "\n"


def write(path: Path, content: str) -> str:
    path.write_text(content, encoding="utf-8")
    return str(path)
