"""Translating documents, next to the program of the G-Transformer's authors."""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import torch
from documents import dictionary_of
from fairseq.data import Dictionary
from measuring import Device, Size, ratio, take_turns
from report import Benchmark, Row, Rows, Target, table
from systems import BEAM, Endless, equally_long, gtransformer, marks_of
from torch import nn

from gtrans.decoding.document_search import DocumentSearch

OURS, AUTHORS = "gtrans", "the authors' program"
_PROGRAM = Path(__file__).with_name("authors_program.py")
Documents = list[list[list[int]]]


def measure(args: argparse.Namespace, device: Device) -> Iterator[Row]:
    """CPU seconds of the same documents in one batch, and the time per word."""
    dictionary = dictionary_of(args.size)
    drawn = np.random.default_rng(1).integers(
        dictionary.nspecial, len(dictionary), (args.documents, args.sentences, args.words)
    )
    documents: Documents = drawn.tolist()
    words = {OURS: drawn.size, AUTHORS: 0}

    model = gtransformer(args.size, dictionary).eval()

    def ours() -> float:
        return device.seconds(lambda: translate(model, dictionary, documents))

    def theirs() -> float:
        found = run_authors(args.authors, args.size, documents)
        words[AUTHORS] = int(found["words"])
        return found["seconds"]

    found = take_turns({AUTHORS: theirs, OURS: ours}, args.rounds)
    for name, seconds in found.items():
        yield {
            "system": name,
            "words": words[name],
            "seconds": statistics.median(seconds),
            "share": ratio(seconds, found[AUTHORS]) * words[AUTHORS] / words[name],
        }


def translate(model: nn.Module, dictionary: Dictionary, documents: Documents) -> None:
    """Translate with a model of this package, every sentence into as many words."""
    frame, vocabulary = marks_of(dictionary)
    end = [dictionary.eos()]
    rows = [frame.source([torch.tensor(words + end) for words in one]) for one in documents]
    lengths = [[len(words) for words in one] for one in documents]
    search = DocumentSearch(vocabulary, equally_long(BEAM))
    search.search([Endless(model, dictionary)], {"src_tokens": frame.pad_rows(rows)}, lengths)


def run_authors(folder: Path, size: Size, documents: Documents) -> dict[str, float]:
    """The same with the authors' program, in a process of its own: words and CPU seconds."""
    settings = {
        "vocabulary": size.vocabulary, "sizes": size.options(), "beam": BEAM, "documents": documents
    }  # fmt: skip
    environment = {**os.environ, "PYTHONPATH": str(folder.resolve()), "PYTHONSAFEPATH": "1"}
    done = subprocess.run(
        [sys.executable, "-W", "ignore", str(_PROGRAM)], input=json.dumps(settings),
        env=environment, stdout=subprocess.PIPE, text=True, check=True,
    )  # fmt: skip
    found: dict[str, float] = json.loads(done.stdout.splitlines()[-1])
    return found


def add_options(parser: argparse.ArgumentParser) -> None:
    """Options of this benchmark alone."""
    parser.add_argument(
        "--authors", type=Path, required=True, metavar="DIR",
        help="a copy of https://github.com/baoguangsheng/g-transformer",
    )  # fmt: skip
    for name, default in (("documents", 4), ("sentences", 20), ("words", 23)):
        parser.add_argument(
            f"--{name}", type=int, default=default, metavar="N",
            help=f"{name} of the text, of a document, of a sentence (default: %(default)s)",
        )  # fmt: skip


def shown(rows: Rows) -> str:
    """The table."""
    lines = [
        [
            row["system"], f"{row['words']:,}", f"{row['seconds']:.1f}",
            f"{1000 * row['seconds'] / row['words']:.2f}", f"{row['share']:.2f}",
        ]
        for row in rows
    ]  # fmt: skip
    return table(["system", "words", "seconds", "milliseconds per word", "share"], lines)


def targets(rows: Rows) -> list[Target]:
    """Half of the authors' time."""
    shares = {row["system"]: row["share"] for row in rows}
    return [("time per word over that of the authors' program", shares.get(OURS), 0.5, False)]


BENCHMARK = Benchmark(
    name="authors",
    title="Decoding by the authors' program",
    text="{documents} documents of {sentences} sentences of {words} random words, translated in "
    "one batch with beam 5, encoding included, by untrained models of one size that write as many "
    "words (theirs one fewer in a sentence): a G-Transformer of this package, and that of Bao et "
    "al. (2021) with the program that they published (their fairseq, in a process of its own, with "
    "the same Python and torch; it was written for torch 1.4).",
    size="web",
    devices=("cpu",),
    rounds=1,
    measure=measure,
    table=shown,
    targets=targets,
    add_options=add_options,
)
