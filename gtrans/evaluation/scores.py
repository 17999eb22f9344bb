"""Corpus scores of translated documents, each over a named unit.

Bao et al. (2021), G-Transformer, Appendix A, define s-BLEU (pairs of sentences) and
d-BLEU ("matching n-grams in the whole document"). BLEU needs segments, and the score
depends on them: n-grams are clipped, and matched, within a segment. So every signature
here adds to sacreBLEU's the unit that was one segment.

All arithmetic is sacreBLEU's (METEOR's is nltk's). Every metric is a function of sums
over segments; :func:`measure` counts each segment of each system once, and whatever
comes after (corpus scores, subsets, resampling) only adds up the rows it kept. This
module imports neither torch nor fairseq.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from functools import cache
from multiprocessing import get_context
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray
from sacrebleu.metrics.bleu import BLEU
from sacrebleu.metrics.chrf import CHRF
from sacrebleu.metrics.ter import TER

from gtrans.errors import GtransError

Unit = Literal["sentence", "document", "instance"]
Rows = NDArray[np.float64]
Documents = Sequence[Sequence[str]]

TOKENIZERS = tuple(BLEU.TOKENIZERS)

# References are analysed in pieces of this many segments, for all systems together:
# the character n-grams of a whole corpus would take gigabytes.
_PIECE = 256
_PARALLEL_FROM = 4000  # segments of all systems; below, starting processes does not pay
_TOKENIZED_LINES = 100  # as many lines with a loose full stop make sacreBLEU suspicious
_NO_SPACES = ("zh", "ja", "ja-mecab")


@dataclass(frozen=True)
class Options:
    """What a metric may be told.

    ``tokenize`` is one of :data:`TOKENIZERS`; ``None`` leaves the choice to sacreBLEU,
    which recommends one for ``target_lang`` (``zh``, ``ja``, ``ko``; otherwise ``13a``).
    METEOR's stemmer and synonyms, and TER's treatment of Chinese and Japanese, follow
    from ``target_lang`` as well.
    """

    tokenize: str | None = None
    target_lang: str = ""
    lowercase: bool = False


@dataclass(frozen=True)
class Metric:
    """A row of :data:`METRICS`: how a score is called, its segments, its arithmetic.

    ``build`` makes a metric of sacreBLEU's kind: statistics of a segment, which add up,
    and a score of their sum.
    """

    label: str
    unit: Unit
    build: Callable[[Options], Any]
    higher_is_better: bool = True


@cache
def build_bleu(options: Options) -> Any:
    """sacreBLEU's BLEU; one object, whatever the segments.

    Raises:
        GtransError: the tokeniser needs a package or model that is not there.
    """
    try:
        return BLEU(
            lowercase=options.lowercase,
            force=True,
            tokenize=options.tokenize,
            trg_lang=options.target_lang,
        )
    except (ImportError, OSError, RuntimeError) as error:
        # sacreBLEU reports a missing extra in several lines; ours is one.
        reason = " ".join(str(error).split())
        chosen = (
            f"--tokenize {options.tokenize}"
            if options.tokenize
            else f"the tokeniser for --target-lang {options.target_lang}"
        )
        raise GtransError(f"{chosen} cannot be used: {reason}") from error


def _chrf(options: Options) -> Any:
    return CHRF(lowercase=options.lowercase)


def _chrf_pp(options: Options) -> Any:
    return CHRF(lowercase=options.lowercase, word_order=2)


def _ter(options: Options) -> Any:
    # Without this a Chinese sentence is one word, and TER the share of wrong sentences.
    asian = options.target_lang in _NO_SPACES or options.tokenize in _NO_SPACES
    return TER(normalized=asian, asian_support=asian)


def _meteor(options: Options) -> Any:
    # Imported on demand: nltk takes longer to start than a small corpus to score.
    from gtrans.evaluation.meteor import METEOR

    return METEOR(build_bleu(options).tokenizer, options.target_lang)


METRICS: dict[str, Metric] = {
    "s_bleu": Metric("s-BLEU", "sentence", build_bleu),
    "d_bleu": Metric("d-BLEU", "document", build_bleu),
    "d_bleu_instance": Metric("d-BLEU (instances)", "instance", build_bleu),
    "chrf": Metric("chrF2", "sentence", _chrf),
    "chrf_pp": Metric("chrF2++", "sentence", _chrf_pp),
    "d_chrf_pp": Metric("chrF2++ (documents)", "document", _chrf_pp),
    "ter": Metric("TER", "sentence", _ter, higher_is_better=False),
    "meteor": Metric("METEOR", "sentence", _meteor),
}
"""Every score that :func:`measure` can compute, in the order of reports."""

DOCUMENT_METRICS = tuple(key for key, spec in METRICS.items() if spec.unit == "document")
"""Those that need no pairs of sentences."""

DEFAULT_METRICS = tuple(key for key in METRICS if key != "d_chrf_pp")
"""Those that are computed without being asked for, where there are pairs of sentences."""


@dataclass(frozen=True)
class Corpus:
    """References, and the segments that they are cut into.

    Attributes:
        references: documents of sentences, at least one sentence in all.
        instances: for each document, the ranges of sentences that are one instance
            (:func:`gtrans.data.instances.split_instances`).
        instance_unit: how a signature names that unit, e.g. ``instance(512,bpe)``.
    """

    references: Documents
    instances: Sequence[Sequence[range]]
    instance_unit: str = "instance"

    def __post_init__(self) -> None:
        """Raises ValueError: the instances are not those of the references."""
        for document, spans in zip(self.references, self.instances, strict=True):
            if [index for span in spans for index in span] != list(range(len(document))):
                raise ValueError("the instances do not take every sentence once, in order")
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
        rows: for each system, the statistics of every segment, (segments, columns).
        documents: the document of every segment, counted from 0.
        compute: the score of a sum of rows.
    """

    key: str
    label: str
    unit: Unit
    higher_is_better: bool
    signature: str
    rows: Mapping[str, Rows]
    documents: NDArray[np.int64]
    compute: Callable[[list[float]], float]

    def score(self, system: str, segments: NDArray[Any] | None = None) -> float:
        """The corpus score of a system, or that of some of its segments alone."""
        rows = self.rows[system]
        return self.compute((rows if segments is None else rows[segments]).sum(0).tolist())


def measure(
    corpus: Corpus,
    systems: Mapping[str, Documents],
    keys: Sequence[str] = DEFAULT_METRICS,
    options: Options | None = None,
    jobs: int = 1,
) -> dict[str, Measurement]:
    """Count every segment of every system under the metrics ``keys``.

    Args:
        corpus: references and their segments.
        systems: by name, the documents of a system. An empty sentence is an empty
            translation. Only metrics of the unit ``document`` take a document with
            another number of sentences than its reference.
        keys: keys of :data:`METRICS`.
        options: tokeniser, case, language.
        jobs: processes that count a large corpus. The result is the same.

    Returns:
        Measurements by key, in the order of :data:`METRICS`.

    Raises:
        GtransError: the tokeniser cannot be used.
        ValueError: a system has not the documents (and sentences) of the references.
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
        _metric(key, options)  # one that cannot be used is told before the work begins
    # TER takes longest by far: begun last, it would leave all processes but one idle.
    slow_first = sorted(keys, key=lambda key: key != "ter")
    tasks = [task for key in slow_first for task in _tasks(key, options, corpus, systems)]
    if jobs > 1 and sum(shape) * len(systems) >= _PARALLEL_FROM:
        with ProcessPoolExecutor(jobs, mp_context=get_context("fork")) as pool:
            counted = list(pool.map(_count, tasks))
    else:
        counted = [_count(task) for task in tasks]
    rows: dict[str, list[list[Any]]] = {key: [[] for _ in systems] for key in keys}
    for task, pieces in zip(tasks, counted, strict=True):
        for collected, piece in zip(rows[task.key], pieces, strict=True):
            collected += piece
    return {
        key: _measurement(key, options, corpus, dict(zip(systems, rows[key], strict=True)))
        for key in keys
    }


@dataclass(frozen=True)
class _Task:
    """Some segments of all systems, to be counted under one metric."""

    key: str
    options: Options
    references: list[str]
    segments: list[list[str]]


@cache
def _metric(key: str, options: Options) -> Any:
    """One object per process: tokenisers are slow to build, and remember words."""
    return METRICS[key].build(options)


def _tasks(
    key: str, options: Options, corpus: Corpus, systems: Mapping[str, Documents]
) -> Iterator[_Task]:
    unit = METRICS[key].unit
    spans = None if unit == "document" else corpus.spans(unit)
    references = _join(corpus.references, spans)
    segments = [_join(documents, spans) for documents in systems.values()]
    for start in range(0, len(references), _PIECE):
        piece = slice(start, start + _PIECE)
        yield _Task(key, options, references[piece], [texts[piece] for texts in segments])


def _count(task: _Task) -> list[list[Any]]:
    """For each system, one row of statistics per segment."""
    metric = _metric(task.key, task.options)
    metric._ref_cache = metric._cache_references([task.references])
    return [metric._extract_corpus_statistics(texts, None) for texts in task.segments]


def _measurement(
    key: str, options: Options, corpus: Corpus, rows: Mapping[str, list[Any]]
) -> Measurement:
    spec, metric = METRICS[key], _metric(key, options)
    metric.num_refs = 1
    return Measurement(
        key=key,
        label=spec.label,
        unit=spec.unit,
        higher_is_better=spec.higher_is_better,
        signature=f"{metric.get_signature()}|unit:{corpus.unit_name(spec.unit)}",
        rows={name: np.array(values, dtype=np.float64) for name, values in rows.items()},
        documents=np.repeat(
            np.arange(len(corpus.references)), [len(pieces) for pieces in corpus.spans(spec.unit)]
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
        for document, pieces in zip(documents, spans, strict=True)
        for span in pieces
    ]


def tokenized_lines(documents: Documents) -> int:
    """How many sentences end in a loose full stop, if that is suspiciously many; else 0.

    Detokenised text has none. The threshold is sacreBLEU's.
    """
    count = sum(sentence.endswith(" .") for document in documents for sentence in document)
    return count if count >= _TOKENIZED_LINES else 0
