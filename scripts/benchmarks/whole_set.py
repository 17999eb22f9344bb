"""Translating a whole test set: documents by this project, sentences by stock fairseq."""

from __future__ import annotations

import argparse
import statistics
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict
from functools import partial
from pathlib import Path
from typing import Any

from fairseq import checkpoint_utils
from fairseq.data import Dictionary, data_utils
from fairseq.sequence_generator import SequenceGenerator
from measuring import CPU, Device, ratio, take_turns
from report import Benchmark, Row, Rows, table
from systems import BEAM, Endless, equally_long, gtransformer, marks_of, stock, write_sequences
from torch import Tensor, nn

from gtrans.data.binarised import load_dictionary
from gtrans.decoding.document_search import DocumentSearch
from gtrans.decoding.loading import load_models
from gtrans.decoding.options import MAX_TOKENS, DecodingOptions
from gtrans.decoding.translator import make_batches, rows_at_once
from gtrans.text.prepared_folder import read_state

YARDSTICK = "stock fairseq, sentences"
DOCUMENTS = "gtrans, documents"
BF16 = "gtrans, documents, bf16"
Work = Callable[[], int]
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
    model: nn.Module,
    dictionary: Dictionary,
    documents: list[list[Tensor]],
    max_tokens: int,
    place: Callable[[Any], Any] = CPU.place,
    most: int | None = None,
) -> int:
    """Translate documents in batches of at most ``most`` rows (None: the default of our search).

    Returns:
        the number of tokens of the translations.
    """
    frame, vocabulary = marks_of(dictionary)
    search = DocumentSearch(vocabulary, equally_long(BEAM))
    rows = [frame.source(document) for document in documents]
    written = 0
    most = most or rows_at_once(BEAM, len(dictionary))
    for batch in make_batches([len(row) for row in rows], max_tokens, most):
        source = {"src_tokens": place(frame.pad_rows([rows[number] for number in batch]))}
        words = [[len(sentence) - 1 for sentence in documents[number]] for number in batch]
        for found in search.search([Endless(model, dictionary)], source, words):
            written += len(found[0].tokens)
    return written


def write_sentences(model: nn.Module, dictionary: Dictionary, sentences: list[Tensor]) -> int:
    """The same with fairseq's generator, sentence by sentence, those of one length together."""
    written = 0
    for source in sentence_batches(sentences, dictionary):
        written += write_sequences(model, dictionary, source, source.size(1) - 1)
    return written


def sentence_batches(sentences: list[Tensor], dictionary: Dictionary) -> Iterator[Tensor]:
    """Batches of sentences as fairseq pads them, ``(rows, longest)``."""
    for batch in make_batches([len(sentence) for sentence in sentences], _SENTENCE_TOKENS):
        rows = [sentences[number] for number in batch]
        yield data_utils.collate_tokens(rows, dictionary.pad(), left_pad=True)


class Trained:
    """Models of the user, which end their sentences themselves."""

    def __init__(self, paths: Sequence[Path], data: Path) -> None:
        """Load a model of documents of this package, and one of sentences of fairseq.

        Args:
            paths: their checkpoints, in this order.
            data: the data folder that both were trained with.
        """
        document, sentence, folder = (str(path) for path in (*paths, data))
        self.documents = load_models([document], folder, cpu=True)
        self.narrow = load_models([document], folder, cpu=True, bf16=True)
        loaded = checkpoint_utils.load_model_ensemble_and_task([sentence], {"data": folder})
        self.sentences = loaded[0], loaded[2]
        self.search = DecodingOptions(paths=(document,)).search

    def write_sentences(self, sentences: list[Tensor]) -> int:
        """Translate with fairseq's generator; returns the number of tokens."""
        models, task = self.sentences
        options = self.search
        generator = SequenceGenerator(
            models, task.target_dictionary, beam_size=BEAM, max_len_a=options.max_len_a,
            max_len_b=int(options.max_len_b), min_len=options.min_len,
        ).eval()  # fmt: skip
        written = 0
        for source in sentence_batches(sentences, task.source_dictionary):
            lengths = source.ne(task.source_dictionary.pad()).sum(1)
            net_input = {"src_tokens": source, "src_lengths": lengths}
            found = generator.generate(models, {"net_input": net_input})
            written += sum(len(row[0]["tokens"]) for row in found)
        return written

    def write_documents(
        self, documents: list[list[Tensor]], max_tokens: int, narrow: bool = False
    ) -> int:
        """Translate as `gtrans translate` does, ``narrow`` in bfloat16."""
        models, task = self.narrow if narrow else self.documents
        generation = asdict(self.search)
        generation["unnormalized"] = not generation.pop("normalize")
        generator = task.build_generator(models, argparse.Namespace(**generation))
        builder = generator.examples
        examples = [
            builder.example(span, [document[number] for number in span.source])
            for document in documents
            for span in builder.unit.cut_to_translate([len(line) - 1 for line in document])
        ]
        lengths = [example["source"].numel() for example in examples]
        written = 0
        for batch in make_batches(lengths, max_tokens, generator.rows_at_once):
            net_input = builder.collate([examples[number] for number in batch])["net_input"]
            for found in generator.documents(net_input):
                written += sum(len(sentence.tokens) for sentence in found[0].sentences)
        return written


def systems_of(args: argparse.Namespace, lines: list[Tensor | None]) -> dict[str, Work]:
    """What translates the test set, by name, each with what returns the number of its tokens."""
    sentences = [line for line in lines if line is not None]
    documents, tokens = documents_in(lines), args.max_tokens
    if args.checkpoints is not None:
        trained = Trained(args.checkpoints, args.data)
        return {
            YARDSTICK: partial(trained.write_sentences, sentences),
            DOCUMENTS: partial(trained.write_documents, documents, tokens),
            BF16: partial(trained.write_documents, documents, tokens, narrow=True),
        }
    dictionary = _dictionary(args)
    ours = gtransformer(args.size, dictionary).eval()
    narrow = gtransformer(args.size, dictionary).eval().bfloat16()
    theirs = stock(args.size, dictionary).eval()
    return {
        YARDSTICK: partial(write_sentences, theirs, dictionary, sentences),
        DOCUMENTS: partial(write_documents, ours, dictionary, documents, tokens),
        BF16: partial(write_documents, narrow, dictionary, documents, tokens),
    }


def _dictionary(args: argparse.Namespace) -> Dictionary:
    return load_dictionary(args.data / f"dict.{read_state(args.data)['source_lang']}.txt")


def measure(args: argparse.Namespace, device: Device) -> Iterator[Row]:
    """CPU seconds of a test set, and the time per token, next to stock fairseq's."""
    lines = sentences_of(args.data, _dictionary(args), args.sentences)
    write = systems_of(args, lines)
    sentences, documents = sum(line is not None for line in lines), len(documents_in(lines))
    tokens: dict[str, int] = {}
    seconds: dict[str, list[float]] = {name: [] for name in write}

    def timed(name: str) -> float:
        def work() -> None:
            tokens[name] = write[name]()

        seconds[name].append(device.seconds(work))
        return seconds[name][-1]

    take_turns({name: partial(timed, name) for name in write}, args.rounds)
    for name, spent in seconds.items():
        times = ratio(spent, seconds[YARDSTICK])
        yield {
            "system": name,
            "models": "trained" if args.checkpoints else "untrained",
            "sentences": sentences,
            "rows": sentences if name == YARDSTICK else documents,
            "tokens": tokens[name],
            "seconds": statistics.median(spent),
            "times_stock": times,
            "times_per_token": times * tokens[YARDSTICK] / tokens[name],
        }


def shown(rows: Rows) -> str:
    """The table."""
    return table(
        ["system", "models", "sentences", "rows", "tokens written", "seconds", "seconds / stock's",
         "time per token / stock's"],
        [
            [
                row["system"], row["models"], f"{row['sentences']:,}", f"{row['rows']:,}",
                f"{row['tokens']:,}", f"{row['seconds']:.1f}", f"{row['times_stock']:.2f}",
                f"{row['times_per_token']:.2f}",
            ]
            for row in rows
        ],
        texts=2,
    )  # fmt: skip


def add_options(parser: argparse.ArgumentParser) -> None:
    """Options of this benchmark alone."""
    parser.add_argument(
        "--data", type=Path, required=True, metavar="DIR",
        help="folder made by `gtrans prepare`, with a test set",
    )  # fmt: skip
    parser.add_argument(
        "--sentences", type=int, metavar="N", help="only the first N of them (default: all)"
    )
    parser.add_argument(
        "--checkpoints", type=Path, nargs=2, metavar=("DOCUMENT", "SENTENCE"),
        help="models trained with --data, a G-Transformer and a sentence Transformer of fairseq, "
        "instead of untrained ones of --size: lengths are the models' own",
    )  # fmt: skip
    parser.add_argument(
        "--max-tokens", type=int, default=MAX_TOKENS, metavar="N",
        help="tokens of a batch of documents (default: %(default)s)",
    )  # fmt: skip


BENCHMARK = Benchmark(
    name="test-set",
    title="A whole test set",
    text="The test set of {data} translated with beam 5: documents of 512 tokens in batches of "
    "{max_tokens} tokens, and for comparison the same sentences by stock fairseq's generator in "
    "batches of 4,000 tokens. Seconds are CPU seconds of the process for all sentences, encoding "
    "included, loading not; *seconds / stock's* compares them, *time per token / stock's* divides "
    "them by the tokens written first. Untrained models never end a sentence: documents get as "
    "many words as the source has, but stock fairseq gives all sentences of a batch the length of "
    "its longest and so writes more, which makes the first column too kind to documents. Trained "
    "models (`--checkpoints`) end their sentences themselves, and both columns are fair; their "
    "sizes are their own.",
    size="web",
    devices=("cpu",),
    rounds=1,
    measure=measure,
    table=shown,
    add_options=add_options,
)
