"""A generated English-German document corpus that cannot be translated line by line.

Four phenomena make a German sentence depend on earlier ones. The nearest sentence with
the cue stands 1, 2, 3 or 4 sentences back:

``pronoun`` (cue on the source side)
    `It was heavy.` becomes *Er*, *Sie* or *Es war schwer.*, after the gender of the thing
    mentioned last. No other thing, and no other `it`, stands between.
``ellipsis`` (source side)
    `The boy did too.` becomes *Der Junge lachte auch.* German repeats the verb, that of
    the last sentence that tells what somebody did; between stand only forms of `be`.
``formality`` (target side only)
    `You are late.` becomes *Du bist* or *Sie sind*; a document keeps to one of the two.
    English does not tell which: only the German sentences before do. (Plural *ihr* is
    not part of the grammar.)
``lexical`` (target side only)
    `The guard was tired.` becomes *Der Wächter* or *Die Wache*; a document keeps to one
    of the two, and the English word is the same.

The first `you` and the first word of free choice of a document are a coin toss (half of
the documents have the one, most have the other); apart from these the German sentence
follows from the English document. Sentences are short and regular, with a few
differences in word order (perfect tense, infinitives, subordinate clauses, inversion)
and small vocabularies, so
that a small model learns the corpus quickly. Contrastive items are documents of the same
grammar that end where the phenomenon stands.

Why a sentence-level system cannot beat chance on the contrastive items
----------------------------------------------------------------------
Items come in pairs of twins. Twins have the same last source sentence S and the same two
candidates X and Y for it; X is right in one, Y in the other, because another cue stands
in the context, where nothing else differs. A system that sees no other sentence gives the
score f(S, X) to X and f(S, Y) to Y in *both* twins. It prefers the same candidate twice
and is therefore right exactly once: its accuracy is exactly 50%, whatever f is, frequency
of a word, length or a prior of any other kind. If f ties, it ties in both twins: counted
as half each, the accuracy is still exactly 50%; counted as errors, it is less. A system
that chooses at random has an expected accuracy of 50%. The same argument holds for a
system that sees all of the *source* document and is tested on ``formality`` or
``lexical``: the source documents of such twins are equal to the letter.

Files
-----
``{train,valid,test}.{en,de}``: one sentence a line, an empty line between documents.
``contrastive/<phenomenon>.jsonl``: one item a line, by distance, twins adjacent.
``corpus.json``: what was asked for and how much of it there is; written last.

Every document and every contrastive set has a random stream of its own, named by the
seed: the contrastive sets do not change with the number of documents, and no document
changes with the number of others, unless it has to give way to an equal one. Standard
library only.
"""

from __future__ import annotations

import contextlib
import json
import os
import random
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

from gtrans.corpus.contrastive import Item, generate_items
from gtrans.corpus.grammar import (
    CUES,
    DISTANCES,
    PHENOMENA,
    Document,
    generate_document,
)
from gtrans.errors import GtransError

__all__ = ["CUES", "DISTANCES", "PHENOMENA", "Document", "generate_document", "write_corpus"]

GRAMMAR_VERSION = 1
"""Grows whenever the same seed gives other bytes."""

PAIR = "en-de"
MIN_DOCS = 200
SPLITS = ("train", "valid", "test")


def write_corpus(out: Path, seed: int, docs: int, items: int = 400) -> dict[str, Any]:
    """Write the corpus of ``seed`` into the folder ``out``; returns what corpus.json says.

    ``docs`` counts the documents of the three splits together, ``items`` the contrastive
    items per phenomenon and distance. Files of an earlier run are replaced, each as a
    whole, after everything has been written; other files in ``out`` stay as they are.
    """
    if docs < MIN_DOCS:
        raise GtransError(f"`--docs` must be at least {MIN_DOCS}, but is {docs}.")
    if items < 2 or items % 2:
        raise GtransError(
            f"`--items` must be even and at least 2, but is {items}; items come in pairs."
        )
    sets = {
        phenomenon: [
            item
            for distance in DISTANCES
            for item in generate_items(
                _stream(seed, "contrastive", phenomenon, distance), phenomenon, distance, items
            )
        ]
        for phenomenon in PHENOMENA
    }
    splits = _splits(seed, docs, [item for items_of in sets.values() for item in items_of])

    files: dict[str, str] = {}
    for split, documents in splits.items():
        files[f"{split}.en"] = _plain_text(document.source for document in documents)
        files[f"{split}.de"] = _plain_text(document.target for document in documents)
    for phenomenon, items_of in sets.items():
        lines = [json.dumps(item.as_json(), ensure_ascii=False) for item in items_of]
        files[f"contrastive/{phenomenon}.jsonl"] = "\n".join(lines) + "\n"
    summary: dict[str, Any] = {
        "grammar_version": GRAMMAR_VERSION,
        "seed": seed,
        "docs": docs,
        "items": items,
        "pair": PAIR,
        "splits": {split: _counts(documents) for split, documents in splits.items()},
        "distances": list(DISTANCES),
        "contrastive": {
            phenomenon: {
                "cue": CUES[phenomenon],
                "items": {
                    str(distance): sum(item.distance == distance for item in items_of)
                    for distance in DISTANCES
                },
            }
            for phenomenon, items_of in sets.items()
        },
    }
    files["corpus.json"] = json.dumps(summary, indent=2, ensure_ascii=False) + "\n"
    _write_all(out, files)
    return summary


def _stream(*names: object) -> random.Random:
    # Seeding with a string goes through SHA-512, not through hash(): equal everywhere.
    return random.Random("/".join(map(str, names)))


def _splits(seed: int, docs: int, items: Iterable[Item]) -> dict[str, list[Document]]:
    """Documents of the splits: all different, none with the source of an item in it."""
    taken = {item.source for item in items}
    lengths = sorted({len(source) for source in taken})
    held_out = min(200, max(50, docs // 20))
    sizes = {"valid": held_out, "test": held_out, "train": docs - 2 * held_out}
    seen: set[tuple[str, ...]] = set()
    splits: dict[str, list[Document]] = {}
    # Held-out documents come first: a training document gives way to them.
    for split, size in sizes.items():
        splits[split] = []
        for index in range(size):
            rng = _stream(seed, split, index)
            while True:
                document = generate_document(rng)
                source = tuple(document.source)
                if source not in seen and taken.isdisjoint(_runs(source, lengths)):
                    break
            seen.add(source)
            splits[split].append(document)
    return {split: splits[split] for split in SPLITS}


def _runs(source: tuple[str, ...], lengths: Sequence[int]) -> set[tuple[str, ...]]:
    return {
        source[start : start + length]
        for length in lengths
        for start in range(len(source) - length + 1)
    }


def _plain_text(documents: Iterable[list[str]]) -> str:
    return "\n\n".join("\n".join(sentences) for sentences in documents) + "\n"


def _counts(documents: Sequence[Document]) -> dict[str, Any]:
    links = [link for document in documents for link in document.links]
    return {
        "documents": len(documents),
        "sentences": sum(len(document.sentences) for document in documents),
        "phenomena": {
            phenomenon: {
                str(distance): sum(
                    (link.phenomenon, link.distance) == (phenomenon, distance) for link in links
                )
                for distance in DISTANCES
            }
            for phenomenon in PHENOMENA
        },
    }


def _write_all(out: Path, files: dict[str, str]) -> None:
    """Write ``files`` (relative path -> text), or leave every old file as it was."""
    staged: list[tuple[Path, Path]] = []
    try:
        for name, text in files.items():
            path = out / name
            path.parent.mkdir(parents=True, exist_ok=True)
            temporary = path.with_name(f".{path.name}.{os.getpid()}.tmp")
            staged.append((temporary, path))
            temporary.write_bytes(text.encode("utf-8"))
        for temporary, path in staged:
            os.replace(temporary, path)
    except OSError as error:
        raise GtransError(
            f"`--out` must be a folder that can be written to, but is {out} ({error.strerror})."
        ) from error
    finally:
        for temporary, _ in staged:
            # The folder may be what could not be made.
            with contextlib.suppress(OSError):
                temporary.unlink(missing_ok=True)
