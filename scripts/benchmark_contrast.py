"""Scoring contrastive examples: all candidates in batches, next to one candidate at a time."""

from __future__ import annotations

import argparse
import random
import tempfile
from collections import Counter
from dataclasses import replace
from functools import partial
from pathlib import Path
from statistics import median
from typing import Any

import torch
from benchmark_systems import CPU, Size, dictionary_of, gtransformer
from fairseq.data import Dictionary
from gtrans.tasks.options import DocumentTranslationConfig
from omegaconf import OmegaConf

from gtrans.corpus.contrastive import generate_items
from gtrans.decoding.force_decode import EncodedDocument, score_documents
from gtrans.evaluation.contrastive import Item, read_items
from gtrans.tasks.document_translation import DocumentTranslationTask
from gtrans.text.bpe import load_bpe, train_bpe
from gtrans.text.moses_pipeline import MosesPipeline

# gtransformer_small; the vocabulary is chosen on the command line.
SMALL = Size(layers=6, dim=512, heads=4, ffn=1024)
MERGES = 8000
ALONE, BATCHED = "one candidate at a time", "batched"


def add_contrast_options(mode: argparse.ArgumentParser) -> None:
    """Options of ``benchmark.py contrast``."""
    mode.add_argument(
        "--set", type=Path, metavar="DIR",
        help="folder of ContraPro's text (default: pronouns of the embedded corpus)",
    )  # fmt: skip
    mode.add_argument(
        "--examples", type=int, default=1000, metavar="N", help="(default: %(default)s)"
    )
    mode.add_argument(
        "--vocabulary", type=int, nargs="+", default=[8000, 32000], metavar="N",
        help="symbols of the model (default: %(default)s)",
    )  # fmt: skip
    mode.add_argument(
        "--max-tokens", type=int, default=2000, metavar="N",
        help="tokens of a batch (default: %(default)s)",
    )  # fmt: skip


def contrast_rows(args: Any, toy: Size | None) -> list[dict[str, Any]]:
    """CPU seconds of scoring ``args.examples`` examples, both ways, in turn.

    Args:
        args: ``set`` (folder of ContraPro's text, None: the embedded corpus), ``examples``,
            ``vocabulary`` (sizes), ``max_tokens``, ``repetitions``.
        toy: sizes of the model to try the script with.
    """
    items = _items(args.set, args.examples)
    documents, symbols = _encoded(items)
    first = [item.context for item in items for _ in item.candidates]
    cfg = OmegaConf.structured(DocumentTranslationConfig)
    cfg.unit = "document"
    rows = []
    for vocabulary in args.vocabulary:
        size = toy or replace(SMALL, vocabulary=vocabulary)
        dictionary = _dictionary(symbols, size)
        torch.manual_seed(1)
        model = gtransformer(size, dictionary).eval()
        task = DocumentTranslationTask(cfg, dictionary, dictionary)
        score = partial(score_documents, [model], task)
        score(documents[:2], first=first[:2])  # buffers, caches
        seconds: dict[str, list[float]] = {ALONE: [], BATCHED: []}
        for _ in range(args.repetitions):
            begin = CPU.seconds()
            alone = [
                score([document], first=[start])[0]
                for document, start in zip(documents, first, strict=True)
            ]
            middle = CPU.seconds()
            batched = score(documents, first=first, max_tokens=args.max_tokens)
            seconds[ALONE].append(middle - begin)
            seconds[BATCHED].append(CPU.seconds() - middle)
        pairs = zip(alone, batched, strict=True)
        difference = max(abs(sum(one) - sum(other)) for one, other in pairs)
        rows += [
            {
                "device": CPU.label,
                "vocabulary": vocabulary,
                "system": name,
                "seconds": median(times),
                "times": median(a / b for a, b in zip(seconds[ALONE], times, strict=True)),
                "candidates": len(documents),
                "difference": difference,
            }
            for name, times in seconds.items()
        ]
    return rows


def _items(folder: Path | None, examples: int) -> list[Item]:
    rng = random.Random(1)
    if folder is not None:
        items = read_items(folder, "contrapro")
        return rng.sample(items, min(examples, len(items)))
    return [
        Item(
            found.id, "pronoun", 2, "source", found.source, found.target,
            ((*found.target[:-1], found.wrong),),
        )
        for found in generate_items(rng, "pronoun", 2, examples)
    ]  # fmt: skip


def _encoded(items: list[Item]) -> tuple[list[EncodedDocument], Counter[str]]:
    """Source and candidates of all items in BPE tokens, and how often each occurs."""
    english, german = MosesPipeline("en"), MosesPipeline("de")
    texts = [
        (
            [english.tokenise(sentence) for sentence in item.source],
            [german.tokenise(sentence) for sentence in candidate],
        )
        for item in items
        for candidate in item.candidates
    ]
    words = Counter(
        word for text in texts for side in text for sentence in side for word in sentence.split()
    )
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "bpe"
        train_bpe(words, MERGES, path)
        bpe = load_bpe(path)
    documents: list[EncodedDocument] = [
        tuple([" ".join(bpe.segment_tokens(s.split())) for s in side] for side in text)  # type: ignore[misc]
        for text in texts
    ]
    symbols = Counter(
        token for text in documents for side in text for s in side for token in s.split()
    )
    return documents, symbols


def _dictionary(symbols: Counter[str], size: Size) -> Dictionary:
    """The most frequent symbols, filled up to ``size.vocabulary``."""
    dictionary = Dictionary()
    for symbol, _ in symbols.most_common(size.vocabulary - len(dictionary)):
        dictionary.add_symbol(symbol)
    for symbol in dictionary_of(size).symbols[dictionary.nspecial :]:
        if len(dictionary) < size.vocabulary:
            dictionary.add_symbol(symbol)
    return dictionary
