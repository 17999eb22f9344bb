"""Corpus scores of translated documents, each over a named unit.

Bao et al. (2021), G-Transformer, Appendix A, define s-BLEU (over aligned sentences) and
d-BLEU ("matching n-grams in the whole document"). BLEU matches and clips n-grams within a
segment, so a score depends on what a segment is. Therefore every signature has the unit of the
segments in addition to what sacreBLEU writes.

All scores are computed by sacreBLEU (METEOR by nltk). Every metric is a function of statistics
that are summed over segments. :func:`measure` counts each segment of each system once; corpus
scores, subsets and resampling only add up these statistics. This module imports neither torch
nor fairseq.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass, replace
from functools import cache
from multiprocessing import get_context
from typing import Any

import numpy as np
from numpy.typing import NDArray

from gtrans.evaluation.metrics import (
    DEFAULT_METRICS,
    METRICS,
    Documents,
    Options,
    Unit,
    with_words,
)

Statistics = NDArray[np.float64]

# This many references are analysed at a time, for all systems together: the character n-grams
# of a whole corpus would take gigabytes.
_SEGMENTS_AT_ONCE = 256
_PARALLEL_FROM = 4000  # segments of all systems; for fewer, one process is faster


@dataclass(frozen=True)
class Corpus:
    """References, and how they are divided into segments.

    Attributes:
        references: documents of sentences, at least one sentence in all. Of several references
            it is the first one, whose lengths divide the documents into instances.
        instances: for each document, the ranges of sentences that are one instance
            (:func:`gtrans.data.instances.split_instances`).
        instance_unit: how a signature names that unit, e.g. ``instance(512,bpe)``.
        others: the other references, with the same documents and sentences.
    """

    references: Documents
    instances: Sequence[Sequence[range]]
    instance_unit: str = "instance"
    others: Sequence[Documents] = ()

    def __post_init__(self) -> None:
        """Raises ValueError if the instances do not cover the references."""
        for document, spans in zip(self.references, self.instances, strict=True):
            if [index for span in spans for index in span] != list(range(len(document))):
                raise ValueError("the instances do not take every sentence once, in order")
        shape = [len(document) for document in self.references]
        if any([len(document) for document in other] != shape for other in self.others):
            raise ValueError("the references do not have the same sentences")
        if not any(self.references):
            raise ValueError("there is no sentence to score")

    def spans(self, unit: Unit) -> list[list[range]]:
        """For each document, the ranges of sentences that are one segment of a unit."""
        if unit == "instance":
            return [list(spans) for spans in self.instances]
        if unit == "document":
            return [[range(len(document))] for document in self.references]
        return [[range(i, i + 1) for i in range(len(document))] for document in self.references]

    def unit_name(self, unit: Unit) -> str:
        """How a signature names a unit."""
        return self.instance_unit if unit == "instance" else unit


@dataclass(frozen=True)
class Measurement:
    """One metric on all systems.

    Attributes:
        key: the metric's key in reports.
        label: its name in tables.
        unit: what one segment is.
        higher_is_better: false for error rates.
        signature: to be reported with every score.
        statistics: for each system, the statistics of every segment, (segments, columns).
        documents: the document of every segment, counted from 0.
        compute: the score from the sum of statistics.
        digits: of its scores in tables.
    """

    key: str
    label: str
    unit: Unit
    higher_is_better: bool
    signature: str
    statistics: Mapping[str, Statistics]
    documents: NDArray[np.int64]
    compute: Callable[[list[float]], float]
    digits: int = 2

    def score(self, system: str, segments: NDArray[Any] | None = None) -> float:
        """The corpus score of a system, or that of some of its segments alone."""
        chosen = self.statistics[system]
        if segments is not None:
            chosen = chosen[segments]
        return self.compute(chosen.sum(0).tolist())


def measure(
    corpus: Corpus,
    systems: Mapping[str, Documents],
    keys: Sequence[str] = DEFAULT_METRICS,
    options: Options | None = None,
    jobs: int = 1,
) -> dict[str, Measurement]:
    """Compute the statistics of every segment of every system for the metrics ``keys``.

    Args:
        corpus: references and their segments.
        systems: the documents of each system, by name. An empty sentence is an empty
            translation. A document must have as many sentences as its reference, unless all
            metrics are of the unit ``document``.
        keys: keys of :data:`METRICS`.
        options: tokeniser, case, language.
        jobs: number of processes for a large corpus; it does not change the result.

    Returns:
        measurements by key, in the order of :data:`METRICS`.

    Raises:
        GtransError: the tokeniser cannot be used.
        ValueError: a system does not have the documents (and sentences) of the references.
    """
    sentences_matter = any(METRICS[key].unit != "document" for key in keys)
    shape = [len(document) for document in corpus.references]
    for name, documents in systems.items():
        if len(documents) != len(shape) or (
            sentences_matter and [len(document) for document in documents] != shape
        ):
            raise ValueError(f"{name} and the references are not the same documents")
    options = options or Options()
    keys = [key for key in METRICS if key in keys]
    for key in keys:
        _metric(key, options)  # an error in a metric is raised before the slow work
    parts = {
        key: METRICS[key].part_of
        for key in keys
        if METRICS[key].part_of in keys and not corpus.others
    }
    # TER takes longest: started last, it would leave all processes but one idle. Then sentences,
    # so that several metrics find them in the tokeniser's cache.
    slow_first = sorted(
        (key for key in keys if key not in parts),
        key=lambda key: (key != "ter", METRICS[key].unit != "sentence"),
    )
    words = (
        replace(
            corpus,
            references=with_words(corpus.references, options),
            others=[with_words(other, options) for other in corpus.others],
        ),
        {
            name: documents if options.given_tokens else with_words(documents, options)
            for name, documents in systems.items()
        },
    )
    tasks = [
        task
        for key in slow_first
        for task in _tasks(key, options, *(words if METRICS[key].of_words else (corpus, systems)))
    ]
    if jobs > 1 and sum(shape) * len(systems) >= _PARALLEL_FROM:
        with ProcessPoolExecutor(jobs, mp_context=get_context("fork")) as pool:
            counted = list(pool.map(_count, tasks))
    else:
        counted = [_count(task) for task in tasks]
    statistics: dict[str, list[list[Any]]] = {key: [[] for _ in systems] for key in keys}
    for task, by_system in zip(tasks, counted, strict=True):
        for collected, part in zip(statistics[task.key], by_system, strict=True):
            collected += part
    for key, whole in parts.items():
        size = 3 * _metric(key, options).order  # of n-grams: in the translation, reference, both
        statistics[key] = [[row[:size] for row in rows] for rows in statistics[whole]]
    return {
        key: _measurement(key, options, corpus, dict(zip(systems, statistics[key], strict=True)))
        for key in keys
    }


@dataclass(frozen=True)
class _Task:
    """Some segments of all systems, to be counted for one metric."""

    key: str
    options: Options
    references: list[list[str]]
    segments: list[list[str]]


@cache
def _metric(key: str, options: Options) -> Any:
    """One object per process, because tokenisers are slow to create and cache words."""
    return METRICS[key].build(options)


def _tasks(
    key: str, options: Options, corpus: Corpus, systems: Mapping[str, Documents]
) -> Iterator[_Task]:
    unit = METRICS[key].unit
    spans = None if unit == "document" else corpus.spans(unit)
    references = [_join(documents, spans) for documents in (corpus.references, *corpus.others)]
    segments = [_join(documents, spans) for documents in systems.values()]
    for start in range(0, len(references[0]), _SEGMENTS_AT_ONCE):
        part = slice(start, start + _SEGMENTS_AT_ONCE)
        yield _Task(
            key,
            options,
            [texts[part] for texts in references],
            [texts[part] for texts in segments],
        )


def _count(task: _Task) -> list[list[Any]]:
    """For each system, one row of statistics per segment."""
    metric = _metric(task.key, task.options)
    metric._ref_cache = metric._cache_references(task.references)
    return [metric._extract_corpus_statistics(texts, None) for texts in task.segments]


def _measurement(
    key: str, options: Options, corpus: Corpus, statistics: Mapping[str, list[Any]]
) -> Measurement:
    spec, metric = METRICS[key], _metric(key, options)
    metric.num_refs = 1 + len(corpus.others)
    return Measurement(
        key=key,
        label=spec.label,
        unit=spec.unit,
        higher_is_better=spec.higher_is_better,
        signature=f"{metric.get_signature()}|unit:{corpus.unit_name(spec.unit)}",
        statistics={
            name: np.array(values, dtype=np.float64) for name, values in statistics.items()
        },
        documents=np.repeat(
            np.arange(len(corpus.references)), [len(spans) for spans in corpus.spans(spec.unit)]
        ),
        compute=lambda sums: float(metric._compute_score_from_stats(sums).score),
    )


def _join(documents: Documents, spans: Sequence[Sequence[range]] | None) -> list[str]:
    """One segment per range, or per document: its sentences with a space between.

    Empty sentences are left out.
    """
    if spans is None:
        return [" ".join(filter(None, document)) for document in documents]
    return [
        " ".join(filter(None, document[span.start : span.stop]))
        for document, spans_of_document in zip(documents, spans, strict=True)
        for span in spans_of_document
    ]
