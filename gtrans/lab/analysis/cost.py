"""What decoding costs by the length of a text: time and memory (Feng et al. 2022, figure 8)."""

from __future__ import annotations

import multiprocessing
import statistics
import time
from collections.abc import Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from dataclasses import asdict, dataclass
from itertools import zip_longest
from typing import Any

import torch

from gtrans.data.examples import Example
from gtrans.decoding.loading import load_models
from gtrans.decoding.search_options import SearchOptions
from gtrans.decoding.translator import Translator
from gtrans.errors import GtransError
from gtrans.lab.analysis import resident
from gtrans.lab.analysis.figures import Figure, Panel, Series, mean_of_runs

_MEGABYTE = 2**20


@dataclass(frozen=True)
class Text:
    """A text of random tokens, and how it is translated.

    Attributes:
        chunk: tokens of a sentence; the translation of each is as long.
        documents: texts side by side.
        beam: hypotheses of the search.
        rounds: how often each length is timed.
        max_doc_tokens: longest instance of a document model, marks included; None: the whole text.
    """

    chunk: int = 100
    documents: int = 1
    beam: int = 5
    rounds: int = 1
    max_doc_tokens: int | None = None


@dataclass(frozen=True)
class Cost:
    """What translating a text costs a process of its own.

    Attributes:
        tokens: of each text, words without marks.
        seconds: CPU seconds of the process; on a GPU those of the clock. The median of all rounds.
        peak: largest memory of the process in megabytes: what it has resident, or has taken of
            the GPU.
        added: megabytes of the peak that translating has added to the loaded model.
    """

    tokens: int
    seconds: float
    peak: float
    added: float


def cost(path: str, data: str | None, tokens: int, text: Text, cpu: bool, fp16: bool) -> Cost:
    """Measure one checkpoint and length in a fresh process, whose memory has held nothing else.

    Arguments are those of :func:`costs`.

    Raises:
        GtransError: see there.
    """
    spawn = multiprocessing.get_context("spawn")
    with ProcessPoolExecutor(1, spawn, initializer=resident.begin_process) as pool:
        try:
            return pool.submit(_measure, path, data, tokens, text, cpu, fp16).result()
        except BrokenProcessPool:
            raise GtransError(
                f"{path}: the process that translated {tokens} tokens was ended from outside, "
                "perhaps for want of memory; give shorter --lengths, a smaller --beam or fewer "
                "--documents."
            ) from None


def costs(
    models: Mapping[str, str], data: str | None, lengths: Sequence[int], text: Text,
    *, cpu: bool = False, fp16: bool = False,
) -> dict[str, list[Cost]]:  # fmt: skip
    """The cost of every length, by the label of the model.

    Args:
        models: a checkpoint of each model, by its label.
        data: the data folder that they were trained with; None: what each checkpoint carries.
        lengths: tokens of a text.
        text: how it is made and translated.
        cpu, fp16: see :func:`gtrans.decoding.loading.load_models`.

    Raises:
        GtransError: a checkpoint is missing or damaged, or its positions do not reach as far as a
            text.
    """
    return {
        label: [cost(path, data, tokens, text, cpu, fp16) for tokens in lengths]
        for label, path in models.items()
    }


def _measure(path: str, data: str | None, tokens: int, text: Text, cpu: bool, fp16: bool) -> Cost:
    torch.set_num_threads(1)
    models, task = load_models([path], data, cpu=cpu, fp16=fp16)
    device = next(models[0].parameters()).device
    chunk = min(text.chunk, tokens)
    search = SearchOptions(beam=text.beam, max_len_a=1, max_len_b=0, min_len=chunk)
    translator = Translator(models, task, str, search)
    # Libraries load parts of themselves by the first sentence.
    _translate(translator, _rows(translator, chunk, chunk, text))
    rows = _rows(translator, tokens, chunk, text)
    seconds = [_timed(translator, rows, device) for _ in range(text.rounds)]
    # By itself, because it takes more time when freed memory is given back.
    before = _begin(device)
    _translate(translator, rows)
    peak = _peak(device)
    return Cost(
        tokens, statistics.median(seconds), peak / _MEGABYTE, max(peak - before, 0) / _MEGABYTE
    )


def _rows(translator: Translator, tokens: int, chunk: int, text: Text) -> list[list[Example]]:
    """Batches: the first rows of all texts, then the second ones."""
    task, unit = translator.task, translator.examples.unit
    dictionary, draw = task.source_dictionary, torch.Generator().manual_seed(1)
    sizes = [chunk] * (tokens // chunk)
    unit = unit.limited_to(text.max_doc_tokens) if text.max_doc_tokens else unit.unlimited()
    end = torch.tensor([dictionary.eos()])
    documents = []
    for _ in range(text.documents):
        drawn = [
            torch.randint(dictionary.nspecial, len(dictionary), (size,), generator=draw)
            for size in sizes
        ]
        words = [" ".join(dictionary[token] for token in one.tolist()) for one in drawn]
        pieces = task.word_pieces(words) or []
        documents.append(
            [
                translator.examples.example(
                    span,
                    [torch.cat([drawn[number], end]) for number in span.source],
                    word_pieces=[pieces[number] for number in span.source] if pieces else [],
                )
                for span in unit.cut_to_translate(sizes)
            ]
        )
    return [[row for row in batch if row is not None] for batch in zip_longest(*documents)]


def _translate(translator: Translator, batches: Sequence[list[Example]]) -> None:
    for batch in batches:
        translator.decode(batch)


def _timed(translator: Translator, batches: Sequence[list[Example]], device: Any) -> float:
    def now() -> float:
        if device.type == "cpu":
            return time.process_time()
        torch.cuda.synchronize()
        return time.perf_counter()

    begin = now()
    _translate(translator, batches)
    return now() - begin


def _begin(device: Any) -> int:
    """Forget the peak so far; the bytes that are in use."""
    if device.type == "cuda":
        torch.cuda.reset_peak_memory_stats()
        return torch.cuda.memory_allocated()
    return resident.forget_peak()


def _peak(device: Any) -> int:
    """Bytes of the largest memory since :func:`_begin`."""
    return torch.cuda.max_memory_allocated() if device.type == "cuda" else resident.peak()


def cost_figure(found: Mapping[str, Sequence[Cost]], text: Text, title: str = "") -> Figure:
    """Time and memory by the number of tokens, a line for each model."""
    panels = []
    for heading, y_label, value in (
        ("time", "seconds", lambda one: one.seconds),
        ("time per token", "milliseconds", lambda one: per_token(one, text)),
        ("largest memory of the process", "megabytes", lambda one: one.peak),
        ("memory that translating adds", "megabytes", lambda one: one.added),
    ):
        series = tuple(
            Series(label, mean_of_runs([[(one.tokens, value(one)) for one in of_model]]), number)
            for number, (label, of_model) in enumerate(found.items())
        )
        panels.append(Panel(heading, "tokens of a text", y_label, series))
    facts = {
        "text": asdict(text),
        "models": {label: [asdict(one) for one in costs_of] for label, costs_of in found.items()},
    }
    return Figure(title, tuple(panels), facts)


def per_token(one: Cost, text: Text) -> float:
    """Milliseconds for each token of the translations."""
    return 1000 * one.seconds / (one.tokens * text.documents)


def check_lengths(lengths: Sequence[int], text: Text) -> None:
    """Raises GtransError for lengths and settings that mean nothing."""
    for flag, values in (
        ("lengths", lengths), ("chunk", [text.chunk]), ("documents", [text.documents]),
        ("rounds", [text.rounds]),
    ):  # fmt: skip
        if min(values) < 1:
            raise GtransError(f"`--{flag}` must be at least 1, but is {min(values)}.")
    for tokens in lengths:
        if tokens > text.chunk and tokens % text.chunk:
            raise GtransError(
                f"`--lengths` must be multiples of --chunk {text.chunk}, but one is {tokens}."
            )
