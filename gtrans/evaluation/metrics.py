"""Metrics of translated documents, each over a named unit: BLEU, chrF, TER, METEOR.

Bao et al. (2021), G-Transformer, Appendix A, define s-BLEU (over aligned sentences) and
d-BLEU ("matching n-grams in the whole document"). BLEU matches and clips n-grams within a
segment, so a score depends on what a segment is. Therefore every signature has the unit of the
segments in addition to what sacreBLEU writes.

Every metric is a function of statistics that are summed over segments. :func:`measure` counts each
segment of each system once; corpus scores, subsets and resampling only add up these statistics.
Scores and signatures equal sacreBLEU's to the last digit, whose statistics of segments are used;
METEOR is nltk's.

A new metric is one entry of :data:`METRICS`. This module imports neither torch nor fairseq.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass, replace
from functools import cache, partial
from importlib.metadata import version
from multiprocessing import get_context
from typing import Any, Literal

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

# This many segments are counted at a time, for all systems together.
_SEGMENTS_AT_ONCE = 500
_PARALLEL_FROM = 4000  # segments of all systems; for fewer, one process is faster
_ASIAN = CHINESE | {"ja", "ja-mecab"}
# Tokenisers that do not split text without spaces into words or characters.
_BY_SPACES = ("13a", "intl", "none", MOSES)


@dataclass(frozen=True)
class Options:
    """Options of the metrics.

    Attributes:
        tokenize: one of :data:`TOKENIZERS`; None: the one that sacreBLEU recommends for
            ``target_lang`` (``zh``, ``ja``, ``ko``; otherwise ``13a``).
        target_lang: code of the language of the translations
            (:func:`gtrans.languages.language_code`); also chooses METEOR's stemmer and synonyms
            and how TER treats Chinese and Japanese.
        lowercase: ignore case.
        without_spaces: the translations are written without spaces between words, whatever
            their language is.
    """

    tokenize: str | None = None
    target_lang: str = ""
    lowercase: bool = False
    without_spaces: bool = False


# --- corpora and their scores ---------------------------------------------------------------------


@dataclass(frozen=True)
class Corpus:
    """References, and how they are divided into segments.

    Attributes:
        references: documents of sentences, at least one sentence in all. Of several references
            it is the first one, whose lengths divide the documents into chunks.
        chunks: for each document, the ranges of sentences that are one chunk
            (:func:`gtrans.data.units.split_chunks`); together every sentence once, in order.
        chunk_unit: how a signature names that unit, e.g. ``chunk(512,bpe)``.
        others: the other references, with the same documents and sentences.
    """

    references: Documents
    chunks: Sequence[Sequence[range]]
    chunk_unit: str = "chunk"
    others: Sequence[Documents] = ()

    def spans(self, unit: Unit) -> list[list[range]]:
        """For each document, the ranges of sentences that are one segment of a unit."""
        if unit == "chunk":
            return [list(spans) for spans in self.chunks]
        spans = []
        for document in self.references:
            if unit == "document":
                spans.append([range(len(document))])
            else:
                spans.append([range(place, place + 1) for place in range(len(document))])
        return spans


@dataclass(frozen=True)
class Measurement:
    """One metric on all systems.

    Attributes:
        key: the metric's key in reports.
        label: its name in tables.
        unit: what one segment is.
        higher_is_better: false for error rates.
        signature: to be reported with every score.
        statistics: for each system, the statistics of every segment, ``(segments, columns)``; the
            second column has the length of the reference (for a mean, the number 1).
        documents: ``(segments,)`` the document of every segment, counted from 0, ascending.
        compute: the scores ``(...)`` from sums of statistics ``(..., columns)``.
        digits: of its scores in tables.
        neutral: more is not always better, so nothing is called better or worse, and the score is
            printed with ``--details`` only.
        of_segment: scores of single segments, if they are computed in another way.
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
        """The score of a system on the corpus, or on some of its segments alone."""
        chosen = self.statistics[system]
        if segments is not None:
            chosen = chosen[segments]
        return float(self.compute(chosen.sum(0)))


def mean_of(sums: Statistics) -> Statistics:
    """The scores of a metric that is a mean: its statistics are a score and the number 1."""
    return sums[..., 0] / sums[..., 1]


def measure(
    corpus: Corpus,
    systems: Mapping[str, Documents],
    keys: Sequence[str] | None = None,
    options: Options | None = None,
    jobs: int = 1,
) -> dict[str, Measurement]:
    """Compute the statistics of every segment of every system for the metrics ``keys``.

    Args:
        corpus: references and their segments.
        systems: the documents of each system, by name. An empty sentence is an empty
            translation. A document must have as many sentences as its reference, unless all
            metrics are of the unit ``document``.
        keys: keys of :data:`METRICS`; None: all of them.
        options: tokeniser, case, language.
        jobs: number of processes for a large corpus; it does not change the result.

    Returns:
        measurements by key, in the order of :data:`METRICS`.

    Raises:
        GtransError: the tokeniser cannot be used.
    """
    keys = [key for key in METRICS if keys is None or key in keys]
    options = options or Options()
    references = [corpus.references, *corpus.others]
    signatures = {key: METRICS[key].signature(options, len(references)) for key in keys}
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
        parts = [part for task, part in zip(tasks, counted, strict=True) if task.key == key]
        statistics = [np.concatenate(of_system) for of_system in zip(*parts, strict=True)]
        segments = [len(spans) for spans in corpus.spans(metric.unit)]
        measurements[key] = Measurement(
            key,
            metric.label,
            metric.unit,
            metric.higher_is_better,
            signature=f"{signatures[key]}|unit:{unit}",
            statistics=dict(zip(systems, statistics, strict=True)),
            documents=np.repeat(np.arange(len(corpus.references)), segments),
            compute=metric.compute,
            of_segment=metric.of_segment,
        )
    return measurements


_Texts = list[list[str]]  # of each reference or system, its segments


@dataclass(frozen=True)
class _CountTask:
    """Some segments, to be counted by one process.

    Attributes:
        key: the metric.
        options: tokeniser, case, language.
        references, systems: the segments of each.
    """

    key: str
    options: Options
    references: _Texts
    systems: _Texts


def _tasks(
    corpus: Corpus, systems: Mapping[str, Documents], keys: Sequence[str], options: Options
) -> list[_CountTask]:
    """The segments of all metrics in parts that processes can count."""
    references: list[Documents] = [corpus.references, *corpus.others]
    translations = list(systems.values())
    reference_words, translation_words = references, translations
    if any(METRICS[key].of_words for key in keys):
        reference_words = [with_words(text, options) for text in references]
        translation_words = [with_words(text, options) for text in translations]
    tasks: list[_CountTask] = []
    # TER takes longest: started last, it would leave all processes but one idle.
    for key in sorted(keys, key=lambda key: key != "ter"):
        metric = METRICS[key]
        spans = None if metric.unit == "document" else corpus.spans(metric.unit)
        left = reference_words if metric.of_words else references
        right = translation_words if metric.of_words else translations
        joined_left = [_join(text, spans) for text in left]
        joined_right = [_join(text, spans) for text in right]
        for start in range(0, len(joined_left[0]), _SEGMENTS_AT_ONCE):
            part = slice(start, start + _SEGMENTS_AT_ONCE)
            task = _CountTask(
                key,
                options,
                references=[texts[part] for texts in joined_left],
                systems=[texts[part] for texts in joined_right],
            )
            tasks.append(task)
    return tasks


def _count(task: _CountTask) -> list[Statistics]:
    """For each system, the statistics of some segments."""
    return METRICS[task.key].count(task.options, task.references, task.systems)


def _join(documents: Documents, spans: Sequence[Sequence[range]] | None) -> list[str]:
    """One segment per range, or per document: its sentences that are not empty."""
    if spans is None:
        return [" ".join(filter(None, document)) for document in documents]
    segments = []
    for document, spans_of_document in zip(documents, spans, strict=True):
        for span in spans_of_document:
            sentences = document[span.start : span.stop]
            segments.append(" ".join(filter(None, sentences)))
    return segments


def _of_sacrebleu(metric: Any, references: _Texts, systems: _Texts) -> list[Statistics]:
    """The statistics of every segment of each system, as sacreBLEU sums them for its tests.

    The method has no public name, but ``sacrebleu --paired-bs`` rests on the same numbers.
    """
    return [
        np.array(metric._extract_corpus_statistics(system, references), np.float64)
        for system in systems
    ]


# --- BLEU -----------------------------------------------------------------------------------------


class _MosesTokens(BaseTokenizer):
    """Stands for Moses' tokeniser in signatures; the text that it is given has tokens already."""

    def __init__(self, lang: str) -> None:
        self._lang = lang or "en"

    def signature(self) -> str:
        """Its name in the signature of a score."""
        return f"{MOSES}-{self._lang},sacremoses-{version('sacremoses')}"

    def __call__(self, line: str) -> str:
        """The same line."""
        return line


@cache
def build_bleu(options: Options) -> Any:
    """sacreBLEU's BLEU, whose tokeniser caches words.

    Raises:
        GtransError: the tokeniser needs a package or model that is not there.
    """
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
        chosen = (
            f"--tokenize {options.tokenize}"
            if options.tokenize
            else f"the tokeniser for --target-lang {options.target_lang}"
        )
        raise GtransError(f"{chosen} cannot be used: {reason}") from error
    if moses:
        bleu.tokenizer = _MosesTokens(options.target_lang)
        bleu.tokenizer_signature = bleu.tokenizer.signature()
    return bleu


def with_words(documents: Documents, options: Options) -> Documents:
    """The documents as the tokeniser is given them: with Moses, their tokens.

    Papers that score "tokenised output and references" count the n-grams of Moses' tokens
    (``multi-bleu.perl``). Case and characters are kept; there are no escapes.
    """
    if options.tokenize != MOSES:
        return documents
    # Imported on demand, because sacremoses starts slowly.
    from sacremoses import MosesTokenizer

    tokenize: Any = MosesTokenizer(options.target_lang or "en").tokenize
    tokenised = []
    for document in documents:
        lines = [tokenize(sentence, escape=False, return_str=True) for sentence in document]
        tokenised.append(lines)
    return tokenised


def _bleu_words(segment: str, options: Options) -> list[str]:
    text = segment.lower() if options.lowercase else segment
    return str(build_bleu(options).tokenizer(text.rstrip())).split()


def token_counts(documents: Documents, options: Options) -> list[int]:
    """The number of BLEU's tokens of each sentence of plain text."""
    counts = []
    for document in with_words(documents, options):
        counts += [len(_bleu_words(sentence, options)) for sentence in document]
    return counts


def counts_words_by_spaces(key: str, options: Options) -> bool:
    """Whether a metric takes what stands between two spaces for a word."""
    if key == "ter":
        return not _asian(options)
    name = build_bleu(options).tokenizer.signature()
    return METRICS[key].of_words and name.split("-")[0] in _BY_SPACES


def _bleu_counts(options: Options, references: _Texts, systems: _Texts) -> list[Statistics]:
    """Lengths of translation and closest reference, matches of 1- to 4-grams, totals of these."""
    return _of_sacrebleu(build_bleu(options), references, systems)


def _bleu(sums: Statistics, effective_order: bool = False) -> Statistics:
    """BLEU from sums of :func:`_bleu_counts`, by sacreBLEU's formula.

    With ``effective_order``, n-grams that a sentence is too short for do not count.
    """
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


# --- chrF -----------------------------------------------------------------------------------------


@cache
def _chrf_metric(options: Options, words: int) -> Any:
    return CHRF(lowercase=options.lowercase, word_order=words)


def _chrf_counts(
    options: Options,
    references: _Texts,
    systems: _Texts,
    words: int = 0,
) -> list[Statistics]:
    """For n-grams of 1 to 6 characters, then of words: of translation, of reference, of both.

    Of several references a segment takes the one with the best score.

    Args:
        options: case.
        references, systems: the segments of each.
        words: the largest order of words.
    """
    return _of_sacrebleu(_chrf_metric(options, words), references, systems)


def _chrf(sums: Statistics) -> Statistics:
    """chrF2 from sums of :func:`_chrf_counts`: means over the orders that both sides have."""
    own = sums[..., 0::3]
    reference = sums[..., 1::3]
    both = sums[..., 2::3]
    counted = (own > 0) & (reference > 0)
    own_or_one = np.where(counted, own, 1)
    reference_or_one = np.where(counted, reference, 1)
    precision = np.where(counted, both / own_or_one, 0.0)
    recall = np.where(counted, both / reference_or_one, 0.0)
    orders = np.maximum(counted.sum(-1), 1)
    # One after the other, as sacreBLEU adds them, for equal last digits.
    mean_precision = sum(precision[..., n] for n in range(own.shape[-1])) / orders
    mean_recall = sum(recall[..., n] for n in range(own.shape[-1])) / orders
    weighted = 4 * mean_precision + mean_recall
    weighted = np.where(weighted > 0, weighted, 1.0)
    score: Statistics = 5 * mean_precision * mean_recall / weighted
    return 100 * score


# --- TER ------------------------------------------------------------------------------------------


def _asian(options: Options) -> bool:
    """Whether TER separates characters; without, a Chinese sentence would be a single word."""
    return options.target_lang in _ASIAN or options.tokenize in _ASIAN


@cache
def _ter_metric(options: Options) -> Any:
    return TER(normalized=_asian(options), asian_support=_asian(options))


def _ter_counts(options: Options, references: _Texts, systems: _Texts) -> list[Statistics]:
    """Edits of each segment, and the mean length of its references."""
    score = _ter_metric(options).sentence_score
    by_segment = [list(segment) for segment in zip(*references, strict=True)]
    statistics = []
    for text in systems:
        rows = []
        for segment, others in zip(text, by_segment, strict=True):
            found = score(segment, others)
            rows.append([found.num_edits, found.ref_length])
        statistics.append(np.array(rows, np.float64))
    return statistics


def _ter(sums: Statistics) -> Statistics:
    """TER; without a word in the reference, 100 for any edit."""
    edits, length = sums[..., 0], sums[..., 1]
    share = np.where(length > 0, edits / np.where(length > 0, length, 1), edits > 0)
    return 100 * share


# --- METEOR ---------------------------------------------------------------------------------------

# Languages with a stemmer of Snowball's; English has Porter's, nltk's default for METEOR.
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


def stem_function(lang: str) -> tuple[str, Callable[[str], str] | None]:
    """Name of the stemmer of a language, and the stemmer; ``("", None)`` if it has none."""
    # Imported on demand, here and below: nltk takes longer than scoring a small corpus.
    if lang == "en":
        from nltk.stem.porter import PorterStemmer

        return "porter", PorterStemmer().stem
    if lang in _SNOWBALL:
        from nltk.stem.snowball import SnowballStemmer

        return f"snowball-{_SNOWBALL[lang]}", SnowballStemmer(_SNOWBALL[lang]).stem
    return "", None


class _Words:
    """The parts of nltk's METEOR that depend on the language; without, words have no more forms."""

    def __init__(self, lang: str) -> None:
        self.name, stem = stem_function(lang)
        self.stem = cache(stem or str)
        self.wordnet = _wordnet() if lang == "en" else None

    def synsets(self, word: str) -> list[Any]:
        return self.wordnet.synsets(word) if self.wordnet else []


def _wordnet() -> Any:
    """English WordNet if nltk finds it on this machine, otherwise None; nothing is downloaded."""
    import nltk

    for resource in ("corpora/wordnet", "corpora/wordnet.zip"):
        try:
            nltk.data.find(resource)
        except LookupError:
            continue
        return nltk.corpus.wordnet
    return None


_words = cache(_Words)


def _meteor_counts(options: Options, references: _Texts, systems: _Texts) -> list[Statistics]:
    """METEOR of each segment, and the number 1.

    It is nltk's (Lavie and Agarwal 2007), with one set of parameters for all languages: words
    match, then their stems, then synonyms. METEOR 1.5 (Denkowski and Lavie 2014) has other scores.
    """
    from nltk.translate.meteor_score import meteor_score

    tokenizer = build_bleu(options).tokenizer
    words = _words(options.target_lang)
    tools: Any = {"stemmer": words, "wordnet": words}
    by_segment: list[list[list[str]]] = []
    for segment in zip(*references, strict=True):
        by_segment.append([tokenizer(text.rstrip()).split() for text in segment])
    statistics = []
    for text in systems:
        rows = []
        for sentence, others in zip(text, by_segment, strict=True):
            own = tokenizer(sentence.rstrip()).split()
            rows.append([meteor_score(others, own, **tools), 1])
        statistics.append(np.array(rows, np.float64))
    return statistics


def _meteor(sums: Statistics) -> Statistics:
    return 100 * sums[..., 0] / sums[..., 1]


# --- signatures and the list ----------------------------------------------------------------------


def _signed(metric: Any, references: int) -> Signature:
    """sacreBLEU's signature, which it has once a metric has scored something."""
    metric.corpus_score([""], [[""]] * references)
    signature: Signature = metric.get_signature()
    return signature


def _bleu_signature(options: Options, references: int) -> str:
    return str(_signed(build_bleu(options), references))


def _chrf_signature(options: Options, references: int, words: int = 0) -> str:
    return str(_signed(_chrf_metric(options, words), references))


def _meteor_signature(options: Options, references: int) -> str:
    words = _words(options.target_lang)
    modules = ["exact", *([f"stem[{words.name}]"] if words.name else [])]
    modules += ["wordnet"] if words.wordnet else []
    signature = Signature({"num_refs": references})
    for key, value in {
        "case": "lc",
        "tok": build_bleu(options).tokenizer.signature(),
        "modules": "+".join(modules),
        "alpha": 0.9,
        "beta": 3.0,
        "gamma": 0.5,  # nltk's defaults
        "nltk": version("nltk"),
        "comparable-with-1.5": False,
    }.items():
        signature.update(key, value)
    return str(signature)


@dataclass(frozen=True)
class Metric:
    """An entry of :data:`METRICS`.

    Attributes:
        label: name in tables.
        unit: unit of a segment.
        count: the statistics of every segment of each system, from options, references, systems.
        compute: scores from sums of statistics.
        signature: from options and the number of references.
        higher_is_better: false for error rates.
        of_words: it counts the words of the tokeniser.
        of_segment: scores of single segments, if they are computed in another way.
    """

    label: str
    unit: Unit
    count: Callable[[Options, _Texts, _Texts], list[Statistics]]
    compute: Callable[[Statistics], Statistics]
    signature: Callable[[Options, int], str]
    higher_is_better: bool = True
    of_words: bool = False
    of_segment: Callable[[Statistics], Statistics] | None = None


_BLEU = Metric(
    "s-BLEU",
    "sentence",
    _bleu_counts,
    _bleu,
    _bleu_signature,
    of_words=True,
    of_segment=partial(_bleu, effective_order=True),
)
_CHRF = Metric("chrF2", "sentence", _chrf_counts, _chrf, _chrf_signature)
METRICS: dict[str, Metric] = {
    "s_bleu": _BLEU,
    "d_bleu": replace(_BLEU, label="d-BLEU", unit="document"),
    "d_bleu_chunk": replace(_BLEU, label="d-BLEU (chunks)", unit="chunk"),
    "chrf": _CHRF,
    "chrf_pp": replace(
        _CHRF,
        label="chrF2++",
        count=partial(_chrf_counts, words=2),
        signature=partial(_chrf_signature, words=2),
    ),
    "ter": Metric(
        "TER",
        "sentence",
        _ter_counts,
        _ter,
        lambda options, references: str(_signed(_ter_metric(options), references)),
        higher_is_better=False,
    ),
    "meteor": Metric(
        "METEOR",
        "sentence",
        _meteor_counts,
        _meteor,
        _meteor_signature,
        of_words=True,
    ),
}
"""Every score that :func:`measure` can compute, in the order of reports."""

DOCUMENT_METRICS = tuple(key for key, spec in METRICS.items() if spec.unit == "document")
"""The metrics that need no aligned sentences."""
