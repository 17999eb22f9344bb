"""Scoring contrastive examples: all candidates in batches, next to one candidate at a time."""

from __future__ import annotations

import argparse
import random
import tempfile
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import partial
from pathlib import Path
from statistics import median

from documents import dictionary_of
from fairseq.data import Dictionary
from measuring import Device, Size, ratio, take_turns
from report import Benchmark, Row, Rows, Target, table
from systems import document_task, gtransformer

from gtrans.decoding.force_decode import EncodedDocument, score_documents
from gtrans.evaluation.contrastive import Item, read_items
from gtrans.lab.synthetic.contrastive import generate_items
from gtrans.text.bpe import load_bpe, train_bpe
from gtrans.text.moses_pipeline import MosesPipeline

MERGES = 8000
ALONE, BATCHED = "one candidate at a time", "batched"


def measure(args: argparse.Namespace, device: Device) -> Iterator[Row]:
    """Seconds of scoring ``args.examples`` examples one by one and in batches, in turn."""
    items = _items(args.set, args.examples)
    documents, symbols = _encoded(items)
    first = [item.context for item in items for _ in item.candidates]
    for vocabulary in args.vocabulary:
        size = replace(args.size, vocabulary=vocabulary)
        dictionary = _dictionary(symbols, size)
        model = device.model(gtransformer(size, dictionary)).eval()
        task = document_task(dictionary, dictionary, unit="document")
        scoring = Scoring(
            partial(score_documents, [model], task), documents, first, args.max_tokens
        )
        seconds = take_turns(
            {
                ALONE: partial(device.seconds, scoring.alone),
                BATCHED: partial(device.seconds, scoring.batched),
            },
            args.rounds,
        )
        for name, times in seconds.items():
            yield {
                "vocabulary": vocabulary,
                "system": name,
                "seconds": median(times),
                "times": ratio(seconds[ALONE], times),
                "candidates": len(documents),
                "difference": scoring.difference(),
            }


class Scoring:
    """Scoring of the same candidates one by one and in batches."""

    def __init__(
        self,
        score: Callable[..., list[list[float]]],
        documents: list[EncodedDocument],
        first: list[int],
        max_tokens: int,
    ) -> None:
        """Scores two candidates as a warm-up."""
        self.score, self.documents, self.first = score, documents, first
        self.max_tokens = max_tokens
        self.scores: dict[str, list[list[float]]] = {}
        score(documents[:2], first=first[:2])

    def alone(self) -> None:
        """One candidate at a time."""
        self.scores[ALONE] = [
            self.score([document], first=[start])[0]
            for document, start in zip(self.documents, self.first, strict=True)
        ]

    def batched(self) -> None:
        """All candidates in batches."""
        self.scores[BATCHED] = self.score(
            self.documents, first=self.first, max_tokens=self.max_tokens
        )

    def difference(self) -> float:
        """The largest difference between the log-probabilities of both."""
        pairs = zip(self.scores[ALONE], self.scores[BATCHED], strict=True)
        return max(abs(sum(one) - sum(other)) for one, other in pairs)


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


def shown(rows: Rows) -> str:
    """The table."""
    return table(
        ["", "symbols", "seconds", "times as fast"],
        [
            [r["system"], f"{r['vocabulary']:,}", f"{r['seconds']:,.1f}", f"{r['times']:.2f}"]
            for r in rows
        ],
    )


def targets(rows: Rows) -> list[Target]:
    """What is asked of scoring in batches."""
    found: list[Target] = [
        (f"{r['vocabulary']:,} symbols: times as fast in batches", r["times"], 3.0, True)
        for r in rows
        if r["system"] == BATCHED
    ]
    difference = max(row["difference"] for row in rows) * 1e6
    text = "largest difference of a candidate's log-probability, in millionths"
    return [*found, (text, difference, 100.0, False)]


def add_options(parser: argparse.ArgumentParser) -> None:
    """Options of this benchmark alone."""
    parser.add_argument(
        "--set", type=Path, metavar="DIR",
        help="folder of ContraPro's text (default: pronouns of the embedded corpus)",
    )  # fmt: skip
    parser.add_argument(
        "--examples", type=int, default=1000, metavar="N", help="(default: %(default)s)"
    )
    parser.add_argument(
        "--vocabulary", type=int, nargs="+", default=[8000, 32000], metavar="N",
        help="symbols of the model (default: %(default)s)",
    )  # fmt: skip
    parser.add_argument(
        "--max-tokens", type=int, default=2000, metavar="N",
        help="tokens of a batch (default: %(default)s)",
    )  # fmt: skip


BENCHMARK = Benchmark(
    name="contrast",
    title="Scoring of contrastive sets",
    text="{examples} examples of ContraPro (drawn at random; one sentence of context and one to "
    "score, on both sides; mostly three candidates each) scored by a G-Transformer with random "
    "parameters. Both ways are the same function, "
    "which projects to the vocabulary only what is scored: called once for all examples, "
    "with batches of {max_tokens} tokens, or once for each candidate. Batches encode a source "
    "once for all candidates, and read once what they begin with. Text is encoded before.",
    size="small",
    devices=("cpu",),
    measure=measure,
    table=shown,
    targets=targets,
    add_options=add_options,
)
