"""Translating a whole test set: documents by this project, sentences by stock fairseq."""

from __future__ import annotations

import argparse
import statistics
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

from fairseq.data import Dictionary, data_utils
from measuring import Device, ratio, take_turns
from report import Benchmark, Row, Rows, Target, table
from systems import BEAM, Endless, equally_long, gtransformer, marks_of, stock, write_sequences
from torch import Tensor, nn

from gtrans.data.binarised import load_dictionary
from gtrans.decoding.batching import make_batches
from gtrans.decoding.document_search import DocumentSearch
from gtrans.decoding.translation_options import MAX_TOKENS
from gtrans.text.prepared_folder import read_state

YARDSTICK = "stock fairseq, sentences"
DOCUMENTS = "gtrans, documents"
BF16 = "gtrans, documents, bf16"
# Tokens of a batch of sentences, and of a document.
_SENTENCE_TOKENS, _DOCUMENT_TOKENS = 4000, 512


def sentences_of(data: Path, dictionary: Dictionary, most: int | None) -> list[Tensor | None]:
    """The source sentences of the test set with their end symbol; None between documents."""
    state = read_state(data)
    source, target = state["source_lang"], state["target_lang"]
    prefix = data / f"test.{source}-{target}.{source}"
    lines = data_utils.load_indexed_dataset(str(prefix), dictionary)
    if lines is None:
        raise SystemExit(f"`--data` '{data}' has no test set")
    found: list[Tensor | None] = []
    for number in range(len(lines)):
        if most is not None and sum(line is not None for line in found) == most:
            break
        found.append(lines[number].long() if len(lines[number]) > 1 else None)
    return found


def documents_in(sentences: list[Tensor | None]) -> list[list[Tensor]]:
    """Documents of at most 512 tokens with two marks a sentence, which are cut at sentences."""
    documents: list[list[Tensor]] = [[]]
    tokens = 0
    for sentence in sentences:
        size = 0 if sentence is None else len(sentence) + 1
        if sentence is None or tokens + size > _DOCUMENT_TOKENS:
            documents.append([])
            tokens = 0
        if sentence is not None:
            documents[-1].append(sentence)
            tokens += size
    return [document for document in documents if document]


def write_documents(
    model: nn.Module, dictionary: Dictionary, documents: list[list[Tensor]], max_tokens: int
) -> int:
    """Translate documents in batches; returns the number of tokens of the translations."""
    frame, vocabulary = marks_of(dictionary)
    search = DocumentSearch(vocabulary, equally_long(BEAM))
    rows = [frame.source(document) for document in documents]
    written = 0
    for batch in make_batches([len(row) for row in rows], max_tokens):
        source = {"src_tokens": frame.pad_rows([rows[number] for number in batch])}
        words = [[len(sentence) - 1 for sentence in documents[number]] for number in batch]
        for found in search.search([Endless(model, dictionary)], source, words):
            written += len(found[0].tokens)
    return written


def write_sentences(model: nn.Module, dictionary: Dictionary, sentences: list[Tensor]) -> int:
    """The same with fairseq's generator, sentence by sentence, those of one length together."""
    written = 0
    for batch in make_batches([len(sentence) for sentence in sentences], _SENTENCE_TOKENS):
        rows = [sentences[number] for number in batch]
        source = data_utils.collate_tokens(rows, dictionary.pad(), left_pad=True)
        written += write_sequences(model, dictionary, source, source.size(1) - 1)
    return written


def measure(args: argparse.Namespace, device: Device) -> Iterator[Row]:
    """CPU seconds of a test set, and the time per token next to stock fairseq's."""
    data = Path(args.data)
    dictionary = load_dictionary(data / f"dict.{read_state(data)['source_lang']}.txt")
    lines = sentences_of(data, dictionary, args.sentences)
    sentences = [line for line in lines if line is not None]
    documents = documents_in(lines)
    ours = gtransformer(args.size, dictionary).eval()
    narrow = gtransformer(args.size, dictionary).eval().bfloat16()
    theirs = stock(args.size, dictionary).eval()
    write: dict[str, Callable[[], int]] = {
        YARDSTICK: partial(write_sentences, theirs, dictionary, sentences),
        DOCUMENTS: partial(write_documents, ours, dictionary, documents, args.max_tokens),
        BF16: partial(write_documents, narrow, dictionary, documents, args.max_tokens),
    }
    tokens: dict[str, int] = {}
    seconds: dict[str, list[float]] = {}

    def timed(name: str) -> float:
        def work() -> None:
            tokens[name] = write[name]()

        spent = device.seconds(work)
        seconds.setdefault(name, []).append(spent)
        return spent / tokens[name]

    cost = take_turns({name: partial(timed, name) for name in write}, args.rounds)
    for name, per_token in cost.items():
        yield {
            "system": name,
            "sentences": len(sentences),
            "rows": len(sentences) if name == YARDSTICK else len(documents),
            "tokens": tokens[name],
            "seconds": statistics.median(seconds[name]),
            "times_stock": ratio(per_token, cost[YARDSTICK]),
        }


def shown(rows: Rows) -> str:
    """The table."""
    return table(
        ["system", "sentences", "rows", "tokens written", "seconds", "time per token / stock's"],
        [
            [
                row["system"], f"{row['sentences']:,}", f"{row['rows']:,}", f"{row['tokens']:,}",
                f"{row['seconds']:.1f}", f"{row['times_stock']:.2f}",
            ]
            for row in rows
        ],
    )  # fmt: skip


def targets(rows: Rows) -> list[Target]:
    """Documents are to cost no more than sentences, and bf16 two thirds of fp32."""
    found: dict[str, Any] = {row["system"]: row["times_stock"] for row in rows}
    ours, narrow = found.get(DOCUMENTS), found.get(BF16)
    faster = ours / narrow if ours and narrow else None
    return [
        ("documents: CPU time per token over stock's for sentences", ours, 1.0, False),
        ("documents in bf16: times as fast as in fp32", faster, 1.5, True),
    ]


def add_options(parser: argparse.ArgumentParser) -> None:
    """Options of this benchmark alone."""
    parser.add_argument(
        "--data", required=True, metavar="DIR",
        help="folder made by `gtrans prepare`, with a test set",
    )  # fmt: skip
    parser.add_argument(
        "--sentences", type=int, metavar="N", help="only the first N of them (default: all)"
    )
    parser.add_argument(
        "--max-tokens", type=int, default=MAX_TOKENS, metavar="N",
        help="tokens of a batch of documents (default: %(default)s)",
    )  # fmt: skip


BENCHMARK = Benchmark(
    name="test-set",
    title="A whole test set",
    text="A test set translated with beam 5 by untrained models that never end a sentence, so that "
    "all write as many words as the source has: documents of 512 tokens in batches of "
    "{max_tokens} tokens, and for comparison the same sentences by stock fairseq's generator "
    "in batches of 4,000 tokens, where all sentences of a batch get the length of its longest; so "
    "stock fairseq writes more, and time is compared per token. Seconds are those of the process, "
    "encoding included, loading not.",
    size="web",
    devices=("cpu",),
    rounds=1,
    measure=measure,
    table=shown,
    targets=targets,
    add_options=add_options,
)
