"""BLEU, chrF, TER and METEOR of translated documents.

s-BLEU is over aligned sentences, d-BLEU over whole documents (Bao et al., 2021, Appendix A).
Statistics and signatures are sacreBLEU's, METEOR is nltk's. A new metric is a :class:`Metric` in
:data:`METRICS`.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from functools import cache
from importlib.metadata import version
from itertools import chain
from multiprocessing import get_context
from typing import Any, Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray
from sacrebleu.metrics.base import Signature
from sacrebleu.metrics.bleu import BLEU
from sacrebleu.metrics.chrf import CHRF
from sacrebleu.metrics.ter import TER
from sacrebleu.tokenizers.tokenizer_base import BaseTokenizer

from gtrans.errors import GtransError
from gtrans.languages import CHINESE, WITHOUT_SPACES

Unit = Literal["sentence", "document", "chunk"]
Documents = Sequence[Sequence[str]]
Statistics = NDArray[np.float64]

MOSES = "moses"
TOKENIZERS = (*BLEU.TOKENIZERS, MOSES)

_SEGMENTS_AT_ONCE = 500  # counted in one task
_PARALLEL_FROM = 4000  # segments of all systems; for fewer, one process is faster
_ASIAN = CHINESE | {"ja", "ja-mecab"}
# Tokenisers that do not split text without spaces into words or characters.
_BY_SPACES = ("13a", "intl", "none", MOSES)


@dataclass(frozen=True)
class Options:
    """Options of the metrics.

    Attributes:
        tokenize: one of :data:`TOKENIZERS`; None: sacreBLEU's for ``target_lang``.
        target_lang: also chooses METEOR's stemmer and synonyms, and characters as TER's words.
        without_spaces: the text has no spaces between words.
    """

    tokenize: str | None = None
    target_lang: str = ""
    lowercase: bool = False
    without_spaces: bool = False


_Texts = list[list[str]]  # the segments of each reference or system


class Metric(ABC):
    """A metric on segments of one unit.

    Attributes:
        is_tokenised: it counts the tokens of ``Options.tokenize``.
    """

    higher_is_better = True
    is_tokenised = False

    def __init__(self, label: str, unit: Unit = "sentence") -> None:
        self.label = label
        self.unit = unit

    @abstractmethod
    def count(self, options: Options, references: _Texts, systems: _Texts) -> list[Statistics]:
        """Return the statistics of each system, ``(segments, columns)``."""

    @abstractmethod
    def compute(self, sums: Statistics) -> Statistics:
        """Return scores ``(...)`` from sums of statistics ``(..., columns)``."""

    def of_segment(self, sums: Statistics) -> Statistics:
        """Return scores of single segments."""
        return self.compute(sums)

    @abstractmethod
    def signature(self, options: Options, references: int) -> str:
        """Return the signature without the unit."""


# --- corpora and their scores ---------------------------------------------------------------------


@dataclass(frozen=True)
class Corpus:
    """References and their segments.

    Attributes:
        references: the first reference.
        chunks: ranges of sentences of each document (:func:`gtrans.data.units.split_chunks`).
        chunk_unit: for signatures, such as ``chunk(512,bpe)``.
    """

    references: Documents
    chunks: Sequence[Sequence[range]]
    chunk_unit: str = "chunk"
    others: Sequence[Documents] = ()

    def spans(self, unit: Unit) -> list[list[range]]:
        """Return the segments of each document, as ranges of sentences."""
        if unit == "chunk":
            return list(map(list, self.chunks))
        spans = []
        for document in self.references:
            count = len(document)
            if unit == "document":
                spans.append([range(count)])
            else:
                spans.append([range(place, place + 1) for place in range(count)])
        return spans


@dataclass(frozen=True)
class Measurement:
    """One metric on all systems.

    Attributes:
        statistics: by system, ``(segments, columns)``; the second column is the reference's length,
            or 1 for a mean.
        documents: the document of every segment from 0, ascending, ``(segments,)``.
        compute: see :meth:`Metric.compute`.
        neutral: neither more nor less is better.
        of_segment: ``compute`` for single segments, if another.
    """

    key: str
    label: str
    unit: Unit
    higher_is_better: bool
    signature: str
    statistics: Mapping[str, Statistics]
    documents: NDArray[np.int64]
    compute: Callable[[Statistics], Statistics]
    digits: int = 2
    neutral: bool = False
    of_segment: Callable[[Statistics], Statistics] | None = None

    def score(self, system: str, segments: NDArray[Any] | None = None) -> float:
        """Return a system's score on all segments, or on some."""
        chosen = self.statistics[system]
        if segments is not None:
            chosen = chosen[segments]
        return float(self.compute(chosen.sum(0)))


def mean_of(sums: Statistics) -> Statistics:
    """Return means, from sums of (score, 1)."""
    return sums[..., 0] / sums[..., 1]


def measure(
    corpus: Corpus,
    systems: Mapping[str, Documents],
    keys: Sequence[str] | None = None,
    options: Options | None = None,
    jobs: int = 1,
) -> dict[str, Measurement]:
    """Count the statistics of every segment of every system.

    Args:
        systems: documents by name, with the sentences of the reference unless all metrics have the
            unit ``document``; a sentence may be empty.
        keys: of :data:`METRICS`; None: all.
        jobs: processes for a large corpus.
    """
    keys = [key for key in METRICS if keys is None or key in keys]
    options = options or Options()
    reference_count = 1 + len(corpus.others)
    signatures = {}
    for key in keys:
        signatures[key] = METRICS[key].signature(options, reference_count)
    tasks = _tasks(corpus, systems, keys, options)
    sentences = sum(len(document) for document in corpus.references)
    if jobs > 1 and sentences * len(systems) >= _PARALLEL_FROM:
        with ProcessPoolExecutor(jobs, mp_context=get_context("fork")) as pool:
            counted = list(pool.map(_count, tasks))
    else:
        counted = [_count(task) for task in tasks]
    measurements: dict[str, Measurement] = {}
    for key in keys:
        metric = METRICS[key]
        unit = corpus.chunk_unit if metric.unit == "chunk" else metric.unit
        parts = []
        for task, rows_of_systems in zip(tasks, counted, strict=True):
            if task.key == key:
                parts.append(rows_of_systems)
        statistics = {}
        for number, system in enumerate(systems):
            rows = [rows_of_systems[number] for rows_of_systems in parts]
            statistics[system] = np.concatenate(rows)
        segments = [len(spans) for spans in corpus.spans(metric.unit)]
        measurements[key] = Measurement(
            key=key,
            label=metric.label,
            unit=metric.unit,
            higher_is_better=metric.higher_is_better,
            signature=f"{signatures[key]}|unit:{unit}",
            statistics=statistics,
            documents=np.repeat(np.arange(len(corpus.references)), segments),
            compute=metric.compute,
            of_segment=metric.of_segment,
        )
    return measurements


@dataclass(frozen=True)
class _CountTask:
    key: str
    options: Options
    references: _Texts
    systems: _Texts


def _tasks(
    corpus: Corpus,
    systems: Mapping[str, Documents],
    keys: Sequence[str],
    options: Options,
) -> list[_CountTask]:
    plain = [corpus.references, *corpus.others, *systems.values()]
    reference_count = 1 + len(corpus.others)
    words = plain
    if any(METRICS[key].is_tokenised for key in keys):
        words = [with_words(documents, options) for documents in plain]
    tasks: list[_CountTask] = []
    # TER takes longest: started last, it would leave all processes but one idle.
    for key in sorted(keys, key=lambda key: key != "ter"):
        metric = METRICS[key]
        spans = None if metric.unit == "document" else corpus.spans(metric.unit)
        documents_of_texts = words if metric.is_tokenised else plain
        texts = [_join(documents, spans) for documents in documents_of_texts]
        for start in range(0, len(texts[0]), _SEGMENTS_AT_ONCE):
            stop = start + _SEGMENTS_AT_ONCE
            parts = [segments[start:stop] for segments in texts]
            references = parts[:reference_count]
            systems_part = parts[reference_count:]
            tasks.append(_CountTask(key, options, references, systems_part))
    return tasks


def _count(task: _CountTask) -> list[Statistics]:
    metric = METRICS[task.key]
    return metric.count(task.options, task.references, task.systems)


def _join(documents: Documents, spans: Sequence[Sequence[range]] | None) -> list[str]:
    if spans is None:
        return [" ".join(filter(None, document)) for document in documents]
    segments = []
    for document, spans_of_document in zip(documents, spans, strict=True):
        for span in spans_of_document:
            sentences = document[span.start : span.stop]
            segments.append(" ".join(filter(None, sentences)))
    return segments


def _of_sacrebleu(metric: Any, references: _Texts, systems: _Texts) -> list[Statistics]:
    statistics = []
    for segments in systems:
        # The private method that ``sacrebleu --paired-bs`` uses.
        rows = metric._extract_corpus_statistics(segments, references)
        statistics.append(np.array(rows, np.float64))
    return statistics


def _signature_of(metric: Any, references: int) -> str:
    # A metric of sacreBLEU has a signature once it has scored something.
    metric.corpus_score([""], [[""]] * references)
    return str(metric.get_signature())


# --- BLEU -----------------------------------------------------------------------------------------


class _MosesTokens(BaseTokenizer):
    def __init__(self, lang: str) -> None:
        self._lang = lang or "en"

    def signature(self) -> str:
        """Return the name in signatures."""
        return f"{MOSES}-{self._lang},sacremoses-{version('sacremoses')}"

    def __call__(self, line: str) -> str:
        """Return the line unchanged."""
        return line


@cache
def build_bleu(options: Options) -> Any:
    """Return sacreBLEU's BLEU; GtransError if the tokeniser lacks a package or model."""
    moses = options.tokenize == MOSES
    if moses and (options.without_spaces or options.target_lang in WITHOUT_SPACES):
        raise GtransError(
            f"--tokenize {MOSES} cannot split text into words that is written without spaces "
            "between them"
        )
    try:
        bleu = BLEU(
            lowercase=options.lowercase,
            force=True,
            tokenize="none" if moses else options.tokenize,
            trg_lang="zh" if options.target_lang in CHINESE else options.target_lang,
        )
    except (ImportError, OSError, RuntimeError) as error:
        # sacreBLEU reports a missing extra in several lines; ours is one.
        reason = " ".join(str(error).split())
        tokeniser = f"the tokeniser for --target-lang {options.target_lang}"
        if options.tokenize:
            tokeniser = f"--tokenize {options.tokenize}"
        raise GtransError(f"{tokeniser} cannot be used: {reason}") from error
    if moses:
        bleu.tokenizer = _MosesTokens(options.target_lang)
        bleu.tokenizer_signature = bleu.tokenizer.signature()
    return bleu


def with_words(documents: Documents, options: Options) -> Documents:
    """Return documents in Moses' tokens, without escapes, if ``options`` ask for them.

    Tokenised BLEU (``multi-bleu.perl``) counts their n-grams.
    """
    if options.tokenize != MOSES:
        return documents
    # Imported on demand, because sacremoses starts slowly.
    from sacremoses import MosesTokenizer

    tokenize: Any = MosesTokenizer(options.target_lang or "en").tokenize
    tokenised = []
    for document in documents:
        lines = []
        for sentence in document:
            lines.append(tokenize(sentence, escape=False, return_str=True))
        tokenised.append(lines)
    return tokenised


def _bleu_words(segment: str, options: Options) -> list[str]:
    text = segment.lower() if options.lowercase else segment
    return _words(text, options)


def _words(segment: str, options: Options) -> list[str]:
    tokenizer = build_bleu(options).tokenizer
    return str(tokenizer(segment.rstrip())).split()


def token_counts(documents: Documents, options: Options) -> list[int]:
    """Return the number of BLEU's tokens in each sentence."""
    counts = []
    for sentence in chain.from_iterable(with_words(documents, options)):
        counts.append(len(_bleu_words(sentence, options)))
    return counts


def counts_words_by_spaces(key: str, options: Options) -> bool:
    """Return whether spaces separate the words of a metric."""
    if key == "ter":
        return not _counts_characters(options)
    name = build_bleu(options).tokenizer.signature()
    return METRICS[key].is_tokenised and name.split("-")[0] in _BY_SPACES


def _bleu(sums: Statistics, effective_order: bool = False) -> Statistics:
    """Return BLEU; ``effective_order``: of orders that the sentence reaches."""
    compute_bleu: Any = BLEU.compute_bleu  # sums are whole numbers in floats
    scores = []
    for row in sums.reshape(-1, 10).tolist():
        bleu = compute_bleu(
            correct=row[2:6],
            total=row[6:],
            sys_len=int(row[0]),
            ref_len=int(row[1]),
            smooth_method="exp",
            effective_order=effective_order,
        )
        scores.append(bleu.score)
    return np.array(scores).reshape(sums.shape[:-1])


class _Bleu(Metric):
    """Columns: length, reference length, matches of 1- to 4-grams, numbers of n-grams."""

    is_tokenised = True

    def count(self, options: Options, references: _Texts, systems: _Texts) -> list[Statistics]:
        return _of_sacrebleu(build_bleu(options), references, systems)

    def compute(self, sums: Statistics) -> Statistics:
        return _bleu(sums)

    def of_segment(self, sums: Statistics) -> Statistics:
        return _bleu(sums, effective_order=True)

    def signature(self, options: Options, references: int) -> str:
        return _signature_of(build_bleu(options), references)


# --- chrF -----------------------------------------------------------------------------------------


@cache
def _chrf_metric(options: Options, words: int) -> Any:
    return CHRF(lowercase=options.lowercase, word_order=words)


class _Chrf(Metric):
    """Columns: n-grams of translation, best reference and both, for each order.

    Orders are 1 to 6 characters, then 1 to ``words`` words.
    """

    def __init__(self, label: str, words: int = 0) -> None:
        super().__init__(label)
        self._words = words

    def count(self, options: Options, references: _Texts, systems: _Texts) -> list[Statistics]:
        return _of_sacrebleu(_chrf_metric(options, self._words), references, systems)

    def compute(self, sums: Statistics) -> Statistics:
        return _chrf(sums)

    def signature(self, options: Options, references: int) -> str:
        return _signature_of(_chrf_metric(options, self._words), references)


def _chrf(sums: Statistics) -> Statistics:
    translation = sums[..., 0::3]
    reference = sums[..., 1::3]
    matches = sums[..., 2::3]
    counted = (translation > 0) & (reference > 0)
    translation_or_one = np.where(counted, translation, 1)
    reference_or_one = np.where(counted, reference, 1)
    precision = np.where(counted, matches / translation_or_one, 0.0)
    recall = np.where(counted, matches / reference_or_one, 0.0)
    orders = np.maximum(counted.sum(-1), 1)
    # sacreBLEU adds one after the other; another order would change the last digits.
    mean_precision = sum(np.moveaxis(precision, -1, 0)) / orders
    mean_recall = sum(np.moveaxis(recall, -1, 0)) / orders
    weighted = 4 * mean_precision + mean_recall
    weighted = np.where(weighted > 0, weighted, 1.0)
    score: Statistics = 5 * mean_precision * mean_recall / weighted
    return 100 * score


# --- TER ------------------------------------------------------------------------------------------


def _counts_characters(options: Options) -> bool:
    return options.target_lang in _ASIAN or options.tokenize in _ASIAN


@cache
def _ter_metric(options: Options) -> Any:
    return TER(normalized=_counts_characters(options), asian_support=_counts_characters(options))


class _Ter(Metric):
    """Columns: edits, mean length of the references."""

    higher_is_better = False

    def count(self, options: Options, references: _Texts, systems: _Texts) -> list[Statistics]:
        score = _ter_metric(options).sentence_score
        by_segment = list(map(list, zip(*references, strict=True)))
        statistics = []
        for text in systems:
            rows = []
            for segment, others in zip(text, by_segment, strict=True):
                edits = score(segment, others)
                rows.append([edits.num_edits, edits.ref_length])
            statistics.append(np.array(rows, np.float64))
        return statistics

    def compute(self, sums: Statistics) -> Statistics:
        edits = sums[..., 0]
        length = sums[..., 1]
        has_words = length > 0
        share = edits / np.where(has_words, length, 1)
        # Edits of an empty reference are 100.
        return 100 * np.where(has_words, share, edits > 0)

    def signature(self, options: Options, references: int) -> str:
        return _signature_of(_ter_metric(options), references)


# --- METEOR ---------------------------------------------------------------------------------------

# English has Porter's stemmer, nltk's default for METEOR.
_SNOWBALL = {
    "ar": "arabic",
    "da": "danish",
    "de": "german",
    "es": "spanish",
    "fi": "finnish",
    "fr": "french",
    "hu": "hungarian",
    "it": "italian",
    "nb": "norwegian",
    "nl": "dutch",
    "nn": "norwegian",
    "no": "norwegian",
    "pt": "portuguese",
    "ro": "romanian",
    "ru": "russian",
    "sv": "swedish",
}


class Stemmer(NamedTuple):
    """A stemmer, if any, and its name in signatures."""

    name: str = ""
    stem: Callable[[str], str] | None = None


def stemmer_of(lang: str) -> Stemmer:
    """Return the stemmer of a language."""
    # Imported on demand, here and below: nltk takes longer than scoring a small corpus.
    if lang == "en":
        from nltk.stem.porter import PorterStemmer

        return Stemmer("porter", PorterStemmer().stem)
    if lang in _SNOWBALL:
        from nltk.stem.snowball import SnowballStemmer

        name = _SNOWBALL[lang]
        return Stemmer(f"snowball-{name}", SnowballStemmer(name).stem)
    return Stemmer()


class _WordForms:
    def __init__(self, lang: str) -> None:
        stemmer = stemmer_of(lang)
        self.name = stemmer.name
        self.stem = cache(stemmer.stem or str)
        self.wordnet = _wordnet() if lang == "en" else None

    def synsets(self, word: str) -> list[Any]:
        return self.wordnet.synsets(word) if self.wordnet else []


def _wordnet() -> Any:
    import nltk

    for resource in ("corpora/wordnet", "corpora/wordnet.zip"):
        try:
            nltk.data.find(resource)
        except LookupError:
            continue
        return nltk.corpus.wordnet
    return None


_word_forms = cache(_WordForms)


class _Meteor(Metric):
    """Columns: METEOR, 1; with the parameters of Lavie and Agarwal (2007), unlike METEOR 1.5."""

    is_tokenised = True

    def count(self, options: Options, references: _Texts, systems: _Texts) -> list[Statistics]:
        from nltk.translate.meteor_score import meteor_score

        forms: Any = _word_forms(options.target_lang)
        by_segment = []
        for segments in zip(*references, strict=True):
            by_segment.append([_words(segment, options) for segment in segments])
        statistics = []
        for text in systems:
            rows = []
            for segment, others in zip(text, by_segment, strict=True):
                own = _words(segment, options)
                score = meteor_score(others, own, stemmer=forms, wordnet=forms)
                rows.append([score, 1])
            statistics.append(np.array(rows, np.float64))
        return statistics

    def compute(self, sums: Statistics) -> Statistics:
        return 100 * sums[..., 0] / sums[..., 1]

    def signature(self, options: Options, references: int) -> str:
        forms = _word_forms(options.target_lang)
        modules = ["exact"]
        if forms.name:
            modules.append(f"stem[{forms.name}]")
        if forms.wordnet:
            modules.append("wordnet")
        signature = Signature({"num_refs": references})
        values = {
            "case": "lc",
            "tok": build_bleu(options).tokenizer.signature(),
            "modules": "+".join(modules),
            "alpha": 0.9,
            "beta": 3.0,
            "gamma": 0.5,  # nltk's defaults
            "nltk": version("nltk"),
            "comparable-with-1.5": False,
        }
        for key, value in values.items():
            signature.update(key, value)
        return str(signature)


# --- the list of all metrics ----------------------------------------------------------------------


METRICS: dict[str, Metric] = {
    "s_bleu": _Bleu("s-BLEU"),
    "d_bleu": _Bleu("d-BLEU", unit="document"),
    "d_bleu_chunk": _Bleu("d-BLEU (chunks)", unit="chunk"),
    "chrf": _Chrf("chrF2"),
    "chrf_pp": _Chrf("chrF2++", words=2),
    "ter": _Ter("TER"),
    "meteor": _Meteor("METEOR"),
}
"""Every score of :func:`measure`, in the order of reports."""

DOCUMENT_METRICS = tuple(key for key, metric in METRICS.items() if metric.unit == "document")
"""Metrics that need no aligned sentences."""
