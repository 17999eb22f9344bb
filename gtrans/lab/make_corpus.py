"""Write the synthetic English-German document corpus and its contrastive sets.

A small grammar makes sentences whose translation depends on earlier ones: pronouns, forms of
address, verb ellipsis, and words with two translations, one in each document. The command writes
train, valid and test (`.en` and `.de`, one sentence per line, an empty line between documents),
contrastive/PHENOMENON.jsonl and corpus.json to DIR. The same options always give the same bytes. A
system that translates sentence by sentence scores 50% on the contrastive sets, by construction.
"""

from __future__ import annotations

import argparse
import json
import math
import random
from collections import Counter
from collections.abc import Iterable, Sequence
from contextlib import suppress
from itertools import chain
from pathlib import Path
from typing import Any

from gtrans.errors import GtransError
from gtrans.files import check_output_folder, read_object, replacing
from gtrans.lab.synthetic import (
    CUES,
    DISTANCES,
    PHENOMENA,
    SyntheticDocument,
    generate_document,
    generate_items,
)
from gtrans.messages import print_lines
from gtrans.option_types import whole

EXAMPLE = "gtrans make-corpus --seed 1 --docs 4000 --out corpus"
NEEDS = ()
GRAMMAR_VERSION = 2
"""Increases whenever the same seed gives other bytes."""

PAIR = "en-de"
MIN_DOCS = 200
_RECORD = "corpus.json"
SPLITS = ("train", "valid", "test")


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the options."""
    add = parser.add_argument
    add("--out", type=Path, required=True, metavar="DIR", help="folder to write")
    add(
        "--seed",
        type=int,
        default=1,
        metavar="S",
        help="random seed of the corpus (default: %(default)s)",
    )
    add(
        "--docs",
        type=whole(MIN_DOCS),
        default=4000,
        metavar="N",
        help="documents of train, valid and test together (default: %(default)s); valid and"
        f" test get a twentieth each, but at least 50 and at most 200; N is at least {MIN_DOCS}",
    )
    add(
        "--items",
        type=int,
        default=400,
        metavar="N",
        help="contrastive items per phenomenon and distance, an even number (default: %(default)s)",
    )
    add(
        "--join",
        type=whole(1),
        default=1,
        metavar="N",
        help="N documents of a split become one long document, as experiments on the length of "
        "documents need (default: %(default)s)",
    )


def run(args: argparse.Namespace) -> None:
    """Write the corpus, and print its counts."""
    summary = write_corpus(args.out, args.seed, args.docs, args.items, args.join)
    for split in SPLITS:
        counts = summary["splits"][split]
        print(f"{split}: {counts['documents']} documents, {counts['sentences']} sentences")
    for phenomenon, contrastive in summary["contrastive"].items():
        total = sum(contrastive["items"].values())
        print(f"contrastive/{phenomenon}: {total} items, cue on the {contrastive['cue']} side")
    print_lines(f"written to {args.out}")


def write_corpus(
    out: Path, seed: int, docs: int, items: int = 400, join: int = 1
) -> dict[str, Any]:
    """Write the corpus into a folder, and return the contents of corpus.json.

    Args:
        docs: documents of the three splits together.
        items: contrastive items per phenomenon and distance.
        join: documents that are written as one.
    """
    if items < 2 or items % 2:
        raise GtransError(
            f"`--items` must be even and at least 2, but is {items}; items come in pairs."
        )
    check_output_folder("--out", out)
    sets = {}
    item_sources: set[tuple[str, ...]] = set()
    for phenomenon in PHENOMENA:
        sets[phenomenon] = _contrastive_items(seed, phenomenon, items)
        for item in sets[phenomenon]:
            item_sources.add(tuple(item["source"]))
    splits = _splits(seed, docs, item_sources)

    files: dict[str, str] = {}
    for split, documents in splits.items():
        sources = [document.source for document in documents]
        targets = [document.target for document in documents]
        files[f"{split}.en"] = _plain_text(sources, join)
        files[f"{split}.de"] = _plain_text(targets, join)
    for phenomenon, entries in sets.items():
        lines = [json.dumps(item, ensure_ascii=False) for item in entries]
        files[f"contrastive/{phenomenon}.jsonl"] = "\n".join(lines) + "\n"
    summary: dict[str, Any] = {
        "grammar_version": GRAMMAR_VERSION,
        "seed": seed,
        "docs": docs,
        "items": items,
    }
    if join > 1:
        summary["join"] = join
    summary["pair"] = PAIR
    summary["splits"] = {}
    for split, documents in splits.items():
        summary["splits"][split] = _counts(documents, join)
    summary["distances"] = list(DISTANCES)
    summary["contrastive"] = {}
    for phenomenon, entries in sets.items():
        counts = _count_distances(item["distance"] for item in entries)
        summary["contrastive"][phenomenon] = {"cue": CUES[phenomenon], "items": counts}
    files[_RECORD] = json.dumps(summary, indent=2, ensure_ascii=False) + "\n"
    _write_all(out, files)
    return summary


def _random_stream(*names: object) -> random.Random:
    # Every document and set has a generator of its own, so that sets do not depend on `--docs`.
    # Seeding with a string goes through SHA-512, not through hash(): equal everywhere.
    return random.Random("/".join(str(name) for name in names))


def _splits(
    seed: int, docs: int, item_sources: set[tuple[str, ...]]
) -> dict[str, list[SyntheticDocument]]:
    """Draw different documents for the splits, none with the source of an item."""
    lengths = sorted({len(source) for source in item_sources})
    held_out = min(200, max(50, docs // 20))
    sizes = {"valid": held_out, "test": held_out, "train": docs - 2 * held_out}
    seen: set[tuple[str, ...]] = set()
    splits: dict[str, list[SyntheticDocument]] = {}
    # Held-out documents come first: a training document that is equal to one is drawn anew.
    for split, size in sizes.items():
        splits[split] = []
        for index in range(size):
            rng = _random_stream(seed, split, index)
            while True:
                document = generate_document(rng)
                source = tuple(document.source)
                if source not in seen and item_sources.isdisjoint(_excerpts(source, lengths)):
                    break
            seen.add(source)
            splits[split].append(document)
    return {split: splits[split] for split in SPLITS}


def _contrastive_items(seed: int, phenomenon: str, items: int) -> list[dict[str, Any]]:
    generated: list[dict[str, Any]] = []
    for distance in DISTANCES:
        stream = _random_stream(seed, "contrastive", phenomenon, distance)
        generated += generate_items(stream, phenomenon, distance, items)
    return generated


def _excerpts(source: tuple[str, ...], lengths: Sequence[int]) -> set[tuple[str, ...]]:
    excerpts = set()
    for length in lengths:
        for start in range(len(source) - length + 1):
            excerpts.add(source[start : start + length])
    return excerpts


def _plain_text(documents: Sequence[list[str]], join: int) -> str:
    texts = []
    for start in range(0, len(documents), join):
        sentences = chain(*documents[start : start + join])
        texts.append("\n".join(sentences))
    return "\n\n".join(texts) + "\n"


def _counts(documents: Sequence[SyntheticDocument], join: int) -> dict[str, Any]:
    sentences = 0
    distances: dict[str, list[int]] = {name: [] for name in PHENOMENA}
    for document in documents:
        sentences += len(document.sentences)
        for link in document.links:
            distances[link.phenomenon].append(link.distance)
    return {
        "documents": math.ceil(len(documents) / join),
        "sentences": sentences,
        "phenomena": {name: _count_distances(distances[name]) for name in PHENOMENA},
    }


def _count_distances(distances: Iterable[int]) -> dict[str, int]:
    counts = Counter(distances)
    return {str(distance): counts[distance] for distance in DISTANCES}


def _write_all(out: Path, files: dict[str, str]) -> None:
    """Write ``files`` (relative path -> text), or leave every old file as it was."""
    is_ours = False
    with suppress(FileNotFoundError, GtransError):
        is_ours = "grammar_version" in read_object(out / _RECORD)
    texts = {out / name: text.encode() for name, text in files.items()}
    for path, text in texts.items():
        # A call that was killed has left some files without the record.
        if is_ours or not path.exists():
            continue
        if path.is_dir() or path.read_bytes() != text:
            raise GtransError(
                f"{path}: this file is not of `gtrans make-corpus`; give another --out, or remove "
                "it first."
            )
    for path in texts:
        path.parent.mkdir(parents=True, exist_ok=True)
    with replacing(*texts) as temporary:
        for new_file, text in zip(temporary, texts.values(), strict=True):
            new_file.write_bytes(text)
