"""What a resegmented translation leaves out, and what it adds."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import compress
from pathlib import Path
from typing import Any

from gtrans.evaluation.boundaries import tokens_of
from gtrans.evaluation.metrics import Documents
from gtrans.evaluation.resegment import Split
from gtrans.files import StrPath, atomic_writer, unwritable
from gtrans.text.reader import Identified


@dataclass(frozen=True)
class Coverage:
    """How much of the reference a translation covers.

    Attributes:
        omitted: share of the reference's words in sentences that are not translated, in percent
            (characters in scripts without spaces).
        added: share of the translation's words in stretches that translate nothing, in percent.
        omitted_sentences: these sentences: ``document`` and ``sentence`` of the reference's file,
            counted from 1, their ids, if there are any, as ``doc_id`` and ``segment_id``, and the
            ``reference``.
        added_text: these stretches: ``document`` (``doc_id``), the sentence before as
            ``after_sentence`` (0: at the beginning), and the ``text``.
    """

    omitted: float
    added: float
    omitted_sentences: list[dict[str, Any]]
    added_text: list[dict[str, Any]]


def coverage(
    splits: Sequence[Split],
    references: Sequence[Documents],
    counted: Sequence[Sequence[bool]],
    ids: Identified | None = None,
) -> Coverage:
    """The coverage of one system; a sentence of several references counts its mean length.

    Args:
        splits: its documents.
        references: one or more references of the same documents.
        counted: for each sentence of each document whether it counts. What is added counts if
            the sentence does that it is a part of.
        ids: the reference's documents and segments, if they have ids.
    """
    lengths = [
        [sum(len(tokens_of(one)) for one in sentence) / len(references) for sentence in sentences]
        for sentences in (
            zip(*documents, strict=True) for documents in zip(*references, strict=True)
        )
    ]
    expected = sum(sum(compress(*pair)) for pair in zip(lengths, counted, strict=True))
    tokens = sum(sum(compress(one.tokens, two)) for one, two in zip(splits, counted, strict=True))
    omitted = [(d, k) for d, split in enumerate(splits) for k in split.omitted if counted[d][k]]
    added = [
        (d, one) for d, split in enumerate(splits) for one in split.added if counted[d][one.part_of]
    ]
    documents = list(ids.documents.items()) if ids is not None else []

    def place(d: int) -> dict[str, Any]:
        return {"document": d + 1} | ({"doc_id": documents[d][0]} if documents else {})

    def segment(d: int, k: int) -> dict[str, Any]:
        name = documents[d][1][k].name if documents else ""
        return {"sentence": k + 1} | ({"segment_id": name} if name else {})

    return Coverage(
        omitted=100 * sum(lengths[d][k] for d, k in omitted) / max(1.0, expected),
        added=100 * sum(one.tokens for _, one in added) / max(1, tokens),
        omitted_sentences=[
            place(d) | segment(d, k) | {"reference": references[0][d][k]} for d, k in omitted
        ],
        added_text=[place(d) | {"after_sentence": one.after, "text": one.text} for d, one in added],
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
