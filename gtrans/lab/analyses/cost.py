"""Measure what decoding costs by the length of a text: time and memory.

Each model translates texts of random tokens, in sentences of equal length, in the unit that it was
trained with; every translation is as long as its source. Sentence models and recurrent memories
translate sentence after sentence, document models the whole text.

Each model and length has a process of its own. Memory is the largest resident size of the process,
or the largest memory on the GPU. Time is CPU time of one thread, or on a GPU elapsed time.
"""

from __future__ import annotations

import argparse
import multiprocessing
import resource
import sys
import time
from collections.abc import Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from dataclasses import asdict, dataclass
from itertools import product
from pathlib import Path

import torch

from gtrans.cli.shared.options import add_device
from gtrans.data.examples import Example
from gtrans.environment import ENGINE, hide_known_warnings, log_warnings_only
from gtrans.errors import GtransError
from gtrans.lab.plots import (
    Figure,
    Panel,
    Point,
    Series,
    add_figure,
    check_figure,
    title_of,
    write,
)
from gtrans.lab.runs import labelled_paths
from gtrans.option_types import whole
from gtrans.search.options import SearchOptions
from gtrans.translating.loading import load_models
from gtrans.translating.translator import Translator

EXAMPLE = (
    "gtrans analyse cost --path sentence=sentence/checkpoint_best.pt memory=memory/"
    "checkpoint_best.pt --lengths 100 500 1000 --plot cost.png"
)
NEEDS = ENGINE
LENGTHS = (100, 200, 500, 1000)
CHUNK, BEAM = 100, 5
"""Tokens of a sentence, and hypotheses of the search."""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the options."""
    files = parser.add_argument_group("files")
    files.add_argument(
        "--path",
        required=True,
        nargs="+",
        metavar="[LABEL=]CKPT",
        help="checkpoints; training makes no difference to their cost",
    )
    text = parser.add_argument_group("texts")
    text.add_argument(
        "--lengths",
        nargs="+",
        type=whole(1),
        default=list(LENGTHS),
        metavar="N",
        help=f"tokens of a text: multiples of {CHUNK}, or fewer "
        f"(default: {' '.join(map(str, LENGTHS))})",
    )
    add_device(parser.add_argument_group("size"))
    add_figure(parser)


def run(args: argparse.Namespace) -> None:
    """Measure, draw and print."""
    models: dict[str, str] = {}
    for label, paths in labelled_paths(args.path).items():
        if len(paths) > 1:
            raise GtransError(
                f"--path: {paths[0]} and {paths[1]} are both '{label}'; the cost of seeds is the "
                "same, so give each model once, with a LABEL of its own."
            )
        models[label] = paths[0]
    check_figure(args, list(models.values()))
    lengths = sorted(set(args.lengths))
    for tokens in lengths:
        if tokens > CHUNK and tokens % CHUNK:
            raise GtransError(f"`--lengths` must be multiples of {CHUNK}, but one is {tokens}.")
    measured = costs(models, lengths, args.cpu, args.fp16)
    write(args, cost_figure(measured, title_of(list(models))))


# -------------------------------------------------------------------------------------------------
#
# The cost of decoding by the length of a text: time and memory (Feng et al. 2022, figure 8).


@dataclass(frozen=True)
class Cost:
    """The cost of translating a text.

    Attributes:
        tokens: without special tokens.
        seconds: CPU seconds; on a GPU by the clock.
        peak: largest memory in megabytes: resident, or on the GPU.
    """

    tokens: int
    seconds: float
    peak: float


def costs(
    models: Mapping[str, str], lengths: Sequence[int], cpu: bool, fp16: bool
) -> dict[str, list[Cost]]:
    """Return the cost of every length (tokens), each in a fresh process, by model label."""
    measured: dict[str, list[Cost]] = {}
    spawn = multiprocessing.get_context("spawn")
    for (label, path), tokens in product(models.items(), lengths):
        with ProcessPoolExecutor(1, spawn, initializer=_begin_process) as pool:
            try:
                cost = pool.submit(_measure, path, tokens, cpu, fp16).result()
            except BrokenProcessPool:
                raise GtransError(
                    f"{path}: the process that translated {tokens} tokens was ended from outside, "
                    "perhaps for want of memory; give shorter --lengths."
                ) from None
        measured.setdefault(label, []).append(cost)
    return measured


def _measure(path: str, tokens: int, cpu: bool, fp16: bool) -> Cost:
    torch.set_num_threads(1)
    models, task = load_models([path], None, cpu=cpu, fp16=fp16)
    device = next(models[0].parameters()).device
    chunk = min(CHUNK, tokens)
    search = SearchOptions(beam=BEAM, max_len_a=1, max_len_b=0, min_len=chunk)
    translator = Translator(models, task, str, search)
    on_gpu = device.type == "cuda"
    clock = time.perf_counter if on_gpu else time.process_time
    seconds = 0.0
    # First a single chunk, with which libraries load parts of themselves.
    for size in (chunk, tokens):
        rows = _rows(translator, size, chunk)
        start = clock()
        for row in rows:
            translator.decode([row])
        if on_gpu:
            torch.cuda.synchronize()
        seconds = clock() - start
    largest = torch.cuda.max_memory_allocated() if on_gpu else peak()
    return Cost(tokens, seconds, largest / 2**20)


def _rows(translator: Translator, tokens: int, chunk: int) -> list[Example]:
    task = translator.task
    dictionary = task.source_dictionary
    generator = torch.Generator().manual_seed(1)
    sizes = [chunk] * (tokens // chunk)
    end = torch.tensor([dictionary.eos()])
    sentences, texts = [], []
    for size in sizes:
        ids = torch.randint(dictionary.nspecial, len(dictionary), (size,), generator=generator)
        words = [dictionary[token] for token in ids.tolist()]
        sentences.append(torch.cat([ids, end]))
        texts.append(" ".join(words))
    subwords = task.bert_subwords(texts) or []
    unit = translator.examples.unit.unlimited()
    rows = []
    for span in unit.cut_to_translate(sizes):
        sources = [sentences[number] for number in span.source]
        bert_subwords = [subwords[number] for number in span.source] if subwords else []
        row = translator.examples.example(span, sources, bert_subwords=bert_subwords)
        rows.append(row)
    return rows


def cost_figure(measured: Mapping[str, Sequence[Cost]], title: str = "") -> Figure:
    """Draw time and memory by the number of tokens."""
    times, times_per_token, memories = [], [], []
    for number, (label, own) in enumerate(measured.items()):
        seconds = tuple(Point(cost.tokens, cost.seconds) for cost in own)
        milliseconds = tuple(Point(cost.tokens, per_token(cost)) for cost in own)
        megabytes = tuple(Point(cost.tokens, cost.peak) for cost in own)
        times.append(Series(label, seconds, number))
        times_per_token.append(Series(label, milliseconds, number))
        memories.append(Series(label, megabytes, number))
    tokens = "tokens of a text"
    panels = (
        Panel("time", tokens, "seconds", tuple(times)),
        Panel("time per token", tokens, "milliseconds", tuple(times_per_token)),
        Panel("largest memory of the process", tokens, "megabytes", tuple(memories)),
    )
    models = {}
    for label, own in measured.items():
        models[label] = [asdict(cost) for cost in own]
    facts = {
        "text": {"chunk": CHUNK, "beam": BEAM},
        "models": models,
    }
    return Figure(title, panels, facts)


def per_token(cost: Cost) -> float:
    """Return milliseconds per token."""
    return 1000 * cost.seconds / cost.tokens


def _begin_process() -> None:
    hide_known_warnings()
    log_warnings_only()


def peak() -> int:
    """Return the largest resident memory of this process, in bytes."""
    status = Path("/proc/self/status")
    if status.is_file():  # Linux; there rusage includes the memory of the parent process
        for line in status.read_text().splitlines():
            if line.startswith("VmHWM:"):
                return int(line.split()[1]) * 1024
    unit = 1 if sys.platform == "darwin" else 1024
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * unit
