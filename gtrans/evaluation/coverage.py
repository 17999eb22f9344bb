"""What a resegmented translation leaves out, and what it adds."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from gtrans.evaluation.boundaries import tokens_of
from gtrans.evaluation.metrics import Documents
from gtrans.evaluation.resegment import Split
from gtrans.identity.files import StrPath, atomic_writer, unwritable


@dataclass(frozen=True)
class Coverage:
    """How much of the reference a translation covers.

    Attributes:
        omitted: share of the reference's words in sentences that are not translated, in percent
            (characters in scripts without spaces).
        added: share of the translation's words in stretches that translate nothing, in percent.
        omitted_sentences: these sentences: ``document`` and ``sentence``, counted from 1,
            and the ``reference``.
        added_text: these stretches: ``document``, the sentence before as ``after_sentence`` (0:
            at the beginning), and the ``text``.
    """

    omitted: float
    added: float
    omitted_sentences: list[dict[str, Any]]
    added_text: list[dict[str, Any]]


def coverage(splits: Sequence[Split], references: Sequence[Documents]) -> Coverage:
    """The coverage of one system; a sentence of several references counts its mean length."""
    lengths = [
        [sum(len(tokens_of(one)) for one in sentence) / len(references) for sentence in sentences]
        for sentences in (
            zip(*documents, strict=True) for documents in zip(*references, strict=True)
        )
    ]
    lost = sum(lengths[d][k] for d, split in enumerate(splits) for k in split.omitted)
    added = sum(one.tokens for split in splits for one in split.added)
    return Coverage(
        omitted=100 * lost / max(1.0, sum(map(sum, lengths))),
        added=100 * added / max(1, sum(split.tokens for split in splits)),
        omitted_sentences=[
            {"document": d + 1, "sentence": k + 1, "reference": references[0][d][k]}
            for d, split in enumerate(splits)
            for k in split.omitted
        ],
        added_text=[
            {"document": d + 1, "after_sentence": one.after, "text": one.text}
            for d, split in enumerate(splits)
            for one in split.added
        ],
    )


def write_documents(folder: Path, texts: dict[str, Documents], inputs: Sequence[StrPath]) -> None:
    """Write texts as files of one sentence per line with an empty line between documents.

    All files have the same lines; the line of an empty sentence is empty.

    Raises:
        GtransError: a file cannot be written, or is one of ``inputs``.
    """
    try:
        folder.mkdir(parents=True, exist_ok=True)
        for name, documents in texts.items():
            with atomic_writer(folder / name, inputs) as file:
                file.write("\n\n".join("\n".join(document) for document in documents) + "\n")
    except OSError as error:
        raise unwritable(f"`--resegment-dir` '{folder}'", error) from None
