"""The benchmarks that run on a CPU: training, decoding, a whole test set, memory.

Models have one shared table of embeddings, dropout 0.1 and attention dropout 0; G-Transformers have
2 global layers on top of the encoder, the decoder and cross-attention. Sentences have 25 words on
average. One thread computes in fp32, and time is CPU time of the process. Systems take turns in one
process; a ratio is the median of the ratios of the rounds. Untrained models never end, so searches
write as many words in every sentence as its source has, and special tokens.
"""

from __future__ import annotations

import argparse
import multiprocessing
import statistics
from collections.abc import Callable, Iterator
from concurrent.futures import ProcessPoolExecutor
from copy import deepcopy
from dataclasses import replace
from functools import partial
from typing import Any

import torch
from fairseq import checkpoint_utils
from fairseq.data import data_utils
from fairseq.sequence_generator import SequenceGenerator
from measuring import Benchmark, Row, ratio, seconds, take_turns, write_in_turns
from models import (
    BEAM,
    GROUP_ONLY,
    LONGEST,
    SIZES,
    Setup,
    Size,
    Trainer,
    generated,
    padded_sentences,
)
from torch import Tensor
from torch.utils.flop_counter import FlopCounterMode, sdpa_flop_count

from gtrans.environment import import_plugin
from gtrans.lab.analyses.cost import peak
from gtrans.modules.precision import to_int8
from gtrans.search.generator import DocumentGenerator, make_batches
from gtrans.search.options import MAX_TOKENS, DecodingOptions
from gtrans.text.prepared_folder import read_state
from gtrans.translating.loading import load_models

# Name in the tables -> options of our model; None is stock fairseq.
Systems = dict[str, dict[str, Any] | None]

# ---- training ------------------------------------------------------------------------------------

TRAINED: Systems = {
    "stock sentence Transformer": None,
    "gtrans regroup": {"attention_backend": "regroup"},
    "gtrans dense": {"attention_backend": "dense"},
    "gtrans document Transformer": {"doc_mode": "full"},
}


def training(args: argparse.Namespace) -> Iterator[Row]:
    """Target words per second of updates, for every length of documents and every system.

    An update is forward, label-smoothed loss, backward, clipping and Adam; padding and special
    tokens do not count. The baseline is stock fairseq's sentence Transformer on the same text, in
    batches sorted by length and filled up to ``batch_words`` words and padding, of which evenly
    spaced ones are measured. A batch of documents holds as many words, or one longer document.
    """
    setup = Setup(SIZES[args.size])
    trainers = {name: Trainer(setup, setup.model(options)) for name, options in TRAINED.items()}
    for words in args.lengths:
        text = setup.documents(words, max(args.corpus_words // words, 1))
        chosen = text[: max(args.words // words, 1)]
        documents = setup.document_batches(chosen, args.batch_words)
        batches = dict.fromkeys(TRAINED, documents)
        # The baseline's batches come from the whole text, as a corpus has them: sorted
        # by length and hardly padded. As many as hold the words of the documents.
        sample = max(round(args.words / args.batch_words), 1)
        sentences = setup.sentence_batches(text, args.batch_words, sample)
        batches["stock sentence Transformer"] = sentences
        # Its matrices cover a whole batch; one batch is enough to measure a slow system.
        batches["gtrans dense"] = documents[:1]
        if words > args.quadratic_limit:
            del batches["gtrans dense"]  # tens of gigabytes

        def per_word(name: str, own: list[Any]) -> float:
            return seconds(partial(trainers[name].steps, own)) / setup.words_of(own)

        for name, own in batches.items():
            trainers[name].steps(own[:1])  # position tables, buffers, caches
        tasks = {name: partial(per_word, name, own) for name, own in batches.items()}
        costs = take_turns(tasks, args.rounds)
        for name, cost in costs.items():
            yield {
                "words": words,
                "system": name,
                "words_per_second": 1 / statistics.median(cost),
                "of_stock": ratio(costs["stock sentence Transformer"], cost),
            }


TRAINING = Benchmark(
    size="narrow",
    settings={
        "lengths": [512, 1024, 2048, 4096],
        "rounds": 3,
        "words": 16384,
        "corpus_words": 1 << 19,
        "batch_words": 2048,
        "quadratic_limit": 2048,
    },
    toy={"lengths": [30, 60], "words": 60, "corpus_words": 600, "batch_words": 60, "rounds": 2},
    measure=training,
)

# ---- decoding ------------------------------------------------------------------------------------

STOCK_DOCUMENT = "stock document Transformer"
DECODED: Systems = {
    STOCK_DOCUMENT: None,
    "gtrans": {},
    "gtrans document Transformer": {"doc_mode": "full"},
    "gtrans, group attention only": dict(GROUP_ONLY),
}


def decoding(args: argparse.Namespace) -> Iterator[Row]:
    """Milliseconds per token of beam search over documents, one document at a time.

    Encoding is included. The baseline is stock fairseq's generator with a sentence Transformer's
    architecture on the whole document as one sequence.
    """
    setup = Setup(SIZES[args.size])
    built = {name: setup.model(options).eval() for name, options in DECODED.items()}
    # A few short documents, so that a round lasts long enough to be measured.
    texts = {words: setup.sources(words, max(args.words // words, 1)) for words in args.lengths}

    def write(name: str, words: int) -> int:
        text = texts[words]
        if DECODED[name] is None:  # a document is one sequence, with the special tokens of all
            text = [[setup.examples.frame.source(document)] for document in text]
            return setup.by_sentence(built[name], text, LONGEST, 1)
        return setup.by_document(built[name], text, LONGEST, 1)

    works = {
        (name, words): partial(write, name, words)
        for words in args.lengths
        for name, options in DECODED.items()
        if options is not None or words <= args.stock_limit
    }
    for name in DECODED:
        write(name, args.lengths[0])  # buffers and caches
    tokens, spent = write_in_turns(works, args.rounds)
    costs = {key: [taken * 1000 / tokens[key] for taken in times] for key, times in spent.items()}
    for (name, words), cost in costs.items():
        row: Row = {"words": words, "system": name, "ms_per_token": statistics.median(cost)}
        if words <= args.stock_limit:
            row["times_stock"] = ratio(costs[STOCK_DOCUMENT, words], cost)
        yield row


DECODING = Benchmark(
    size="narrow",
    settings={"lengths": [256, 512, 1024, 2048], "rounds": 3, "words": 512, "stock_limit": 1024},
    toy={"lengths": [30, 60], "words": 30, "rounds": 1, "stock_limit": 30},
    measure=decoding,
)

# ---- a whole test set ----------------------------------------------------------------------------


def whole_set(args: argparse.Namespace) -> Iterator[Row]:
    """CPU seconds of a test set, and the time per token, next to stock fairseq's.

    Trained models, a G-Transformer and a sentence Transformer of fairseq, translate with beam 5:
    documents of 512 tokens in batches of ``max_tokens`` tokens, and the same sentences by stock
    fairseq's generator in batches of 4,000 tokens. Loading is not included.
    """
    document, sentence, data = (str(path) for path in (*args.checkpoints, args.data))
    stocks, _, task = checkpoint_utils.load_model_ensemble_and_task([sentence], {"data": data})
    dictionary = task.source_dictionary
    state = read_state(args.data)
    prefix = f"test.{state['source_lang']}-{state['target_lang']}.{state['source_lang']}"
    lines = data_utils.load_indexed_dataset(str(args.data / prefix), dictionary)
    documents: list[list[Tensor]] = [[]]
    for line in (lines[number].long() for number in range(len(lines))):
        if len(line) == 1:  # an empty line
            documents.append([])
        elif sum(map(len, documents)) != args.sentences:
            documents[-1].append(line)
    sentences = [line for text in documents for line in text]
    options = DecodingOptions(paths=(document,)).search
    rows = {"stock fairseq, sentences": len(sentences)}

    def sentence_by_sentence() -> int:
        generator = SequenceGenerator(
            stocks,
            task.target_dictionary,
            beam_size=BEAM,
            max_len_a=options.max_len_a,
            max_len_b=int(options.max_len_b),
            min_len=options.min_len,
        ).eval()
        sources = padded_sentences(sentences, dictionary.pad(), 4000)
        return sum(generated(generator, stocks, source, dictionary.pad()) for source in sources)

    def as_documents(name: str, loaded: Any) -> int:
        """As ``gtrans translate`` does."""
        ensemble, own_task = loaded
        generator = DocumentGenerator(ensemble, own_task, options)
        builder = generator.examples
        examples = [
            builder.example(span, [text[number] for number in span.source])
            for text in filter(None, documents)
            for span in builder.unit.cut_to_translate([len(line) - 1 for line in text])
        ]
        rows[name] = len(examples)
        lengths, written = builder.lengths(examples), 0
        for batch in make_batches(lengths, args.max_tokens, generator.rows_at_once):
            net_input = builder.collate([examples[number] for number in batch])["net_input"]
            for hypotheses in generator.documents(net_input):
                written += sum(len(sentence.tokens) for sentence in hypotheses[0].sentences)
        return written

    stock = "stock fairseq, sentences"
    write: dict[str, Callable[[], int]] = {stock: sentence_by_sentence}
    for name, bf16 in (("gtrans, documents", False), ("gtrans, documents, bf16", True)):
        loaded = load_models([document], data, cpu=True, bf16=bf16)
        write[name] = partial(as_documents, name, loaded)
    tokens, spent = write_in_turns(write, args.rounds)
    for name, rounds in spent.items():
        times = ratio(rounds, spent[stock])
        yield {
            "system": name,
            "models": "trained",
            "sentences": len(sentences),
            "rows": rows[name],
            "tokens": tokens[name],
            "seconds": statistics.median(rounds),
            "times_stock": times,
            "times_per_token": times * tokens[stock] / tokens[name],
        }


WHOLE_SET = Benchmark(
    size="web",
    settings={"rounds": 1, "max_tokens": MAX_TOKENS, "sentences": None},
    toy={"sentences": 3},
    measure=whole_set,
)

# ---- cost of a document --------------------------------------------------------------------------

_STOCK, _BY_SENTENCE, _BY_DOCUMENT = "stock sentences", "gtrans sentences", "gtrans documents"


def cost(args: argparse.Namespace) -> Iterator[Row]:
    """CPU seconds and floating-point operations per token of searches of the same text.

    The text is read as documents and, by stock fairseq and by the same model without global
    attention, as sentences. Operations are those of all matrix products and attentions, counted
    while the search runs. Times are the least of the rounds.
    """
    setup = Setup(SIZES[args.size])
    documents = setup.sources(args.length, args.documents)
    sentences = [[sentence] for document in documents for sentence in document]
    built = {
        name: setup.model(options).eval()
        for name, options in (
            (_STOCK, None),
            (_BY_SENTENCE, dict(GROUP_ONLY)),
            (_BY_DOCUMENT, {}),
        )
    }
    small = {f"{name}, int8": deepcopy(built[name]) for name in (_BY_SENTENCE, _BY_DOCUMENT)}
    for model in small.values():
        to_int8(model)

    def write(name: str, model: Any) -> int:
        way = setup.by_sentence if name == _STOCK else setup.by_document
        text = documents if name.startswith(_BY_DOCUMENT) else sentences
        return way(model, text, MAX_TOKENS, args.rows)

    operations: dict[str, float] = {}
    for name, model in built.items():  # this also makes buffers and caches
        with FlopCounterMode(display=False, custom_mapping=_ATTENTION) as counter:
            written = write(name, model)
        operations[name] = counter.get_total_flops() / written
    works = {name: partial(write, name, model) for name, model in (built | small).items()}
    tokens, spent = write_in_turns(works, args.rounds)
    least = {name: min(rounds) / tokens[name] for name, rounds in spent.items()}
    for name in works:
        full = name.removesuffix(", int8")
        row = {"system": name, "tokens": tokens[name], "ms_per_token": least[name] * 1000}
        row |= {"times_stock": least[name] / least[_STOCK], "of_fp32": least[full] / least[name]}
        if name == full:
            row["operations"] = operations[name]
            row["operations_of_stock"] = operations[name] / operations[_STOCK]
        yield row


def _attention(*shapes: Any, **_: Any) -> int:
    count: Any = sdpa_flop_count
    return int(count(*shapes[:3]))


_ATTENTION = {torch.ops.aten._scaled_dot_product_flash_attention_for_cpu: _attention}


COST = Benchmark(
    size="web",
    settings={"rounds": 3, "documents": 8, "length": 512, "rows": 8},
    toy={"rounds": 1, "documents": 2, "length": 30, "rows": 2},
    measure=cost,
)
COST_OF_BASE = replace(
    COST,
    size="base",
    settings={"rounds": 3, "documents": 8, "length": 256, "rows": 8},
)

# ---- memory --------------------------------------------------------------------------------------


def memory(args: argparse.Namespace) -> Iterator[Row]:
    """The growth of a process's peak memory by an update on one document, in megabytes.

    Each row is a process of its own that has made an update before, so that parameters, gradients
    and the state of Adam are not counted.
    """
    spawn = multiprocessing.get_context("spawn")
    for name, options in {"gtrans": {}, "gtrans, group attention only": GROUP_ONLY}.items():
        for words in args.lengths:
            with ProcessPoolExecutor(1, spawn, initializer=import_plugin) as pool:
                step, process = pool.submit(_update, SIZES[args.size], options, words).result()
            yield {"words": words, "system": name, "step_mb": step, "process_mb": process}


def _update(size: Size, options: dict[str, Any], words: int) -> tuple[float, float]:
    """Megabytes that an update on ``words`` words adds to this process, and all it needs."""
    torch.set_num_threads(1)
    setup = Setup(size)
    trainer = Trainer(setup, setup.model(options))
    # The optimizer has its state, and libraries their buffers, after a first update.
    trainer.steps(setup.document_batches(setup.documents(32, 1), 1))
    batches = setup.document_batches(setup.documents(words, 1), 1)
    before = peak()
    trainer.steps(batches)
    return (peak() - before) / 2**20, peak() / 2**20


MEMORY = Benchmark(
    size="narrow",
    settings={"lengths": [1024, 4096, 16384]},
    toy={"lengths": [60]},
    measure=memory,
)
