"""The metrics: how a segment is counted, by tokeniser, language and case."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any, Literal

from sacrebleu.metrics.bleu import BLEU
from sacrebleu.metrics.chrf import CHRF, CHRFSignature
from sacrebleu.metrics.ter import TER

from gtrans.errors import GtransError
from gtrans.evaluation.characters import spaced
from gtrans.evaluation.moses_tokens import MOSES, MosesTokens, moses_tokens
from gtrans.languages import CHINESE, WITHOUT_SPACES

Unit = Literal["sentence", "document", "instance"]
Documents = Sequence[Sequence[str]]

TOKENIZERS = (*BLEU.TOKENIZERS, MOSES)

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
            (:func:`gtrans.languages.language_code`); also chooses METEOR's stemmer and synonyms,
            how TER treats Chinese and Japanese, and the words of chrF2++ over documents.
        lowercase: ignore case.
        given_tokens: with Moses' tokens, translations are such tokens already.
        without_spaces: the translations are written without spaces between words, whatever
            their language is.
    """

    tokenize: str | None = None
    target_lang: str = ""
    lowercase: bool = False
    without_spaces: bool = False
    given_tokens: bool = False


@dataclass(frozen=True)
class Metric:
    """An entry of :data:`METRICS`.

    Attributes:
        label: name in tables.
        unit: unit of a segment.
        build: makes the metric object of sacreBLEU, which computes the statistics of a
            segment, and a score from their sum.
        higher_is_better: false for error rates.
        of_words: it counts the words of the tokeniser.
        part_of: key of a metric whose statistics of a segment begin with those of this one, if
            there is a single reference.
    """

    label: str
    unit: Unit
    build: Callable[[Options], Any]
    higher_is_better: bool = True
    of_words: bool = False
    part_of: str = ""


@cache
def build_bleu(options: Options) -> Any:
    """sacreBLEU's BLEU; the same object for all units of segments.

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
        # It gets tokens, those of with_words.
        bleu.tokenizer = MosesTokens(options.target_lang, options.given_tokens)
        bleu.tokenizer_signature = bleu.tokenizer.signature()
    return bleu


def with_words(documents: Documents, options: Options) -> Documents:
    """The documents as the tokeniser is given them: with Moses, their tokens."""
    if options.tokenize == MOSES:
        return moses_tokens(documents, options.target_lang)
    return documents


def token_counts(documents: Documents, options: Options) -> list[int]:
    """The number of BLEU's tokens of each sentence of plain text."""
    count = build_bleu(options)._preprocess_segment
    return [
        len(count(sentence).split())
        for document in with_words(documents, options)
        for sentence in document
    ]


def counts_words_by_spaces(key: str, options: Options) -> bool:
    """Whether a metric takes what stands between two spaces for a word."""
    if key == "ter":
        return not _asian(options)
    name = build_bleu(options).tokenizer.signature()
    return METRICS[key].of_words and name.split("-")[0] in _BY_SPACES


def _chrf(options: Options) -> Any:
    return CHRF(lowercase=options.lowercase)


def _chrf_pp(options: Options) -> Any:
    return CHRF(lowercase=options.lowercase, word_order=2)


class _CharactersSignature(CHRFSignature):
    """The signature of chrF2++ whose words are characters."""

    def __init__(self, args: dict[str, Any]) -> None:
        super().__init__(args)
        self.info["words"] = "characters"


class _CharactersCHRF(CHRF):
    """chrF2++ of text without spaces: each of its characters is a word.

    With words by spaces, the space that joins two sentences would change the score.
    """

    _SIGNATURE_TYPE = _CharactersSignature

    def _preprocess_segment(self, sent: str) -> str:
        return str(super()._preprocess_segment(spaced(sent)))


def _d_chrf_pp(options: Options) -> Any:
    if options.without_spaces or options.target_lang in WITHOUT_SPACES:
        return _CharactersCHRF(lowercase=options.lowercase, word_order=2)
    return _chrf_pp(options)


def _asian(options: Options) -> bool:
    """Whether TER separates characters; without, a Chinese sentence would be a single word."""
    return options.target_lang in _ASIAN or options.tokenize in _ASIAN


def _ter(options: Options) -> Any:
    asian = _asian(options)
    return TER(normalized=asian, asian_support=asian)


def _meteor(options: Options) -> Any:
    # Imported on demand: importing nltk takes longer than scoring a small corpus.
    from gtrans.evaluation.meteor import METEOR

    return METEOR(build_bleu(options).tokenizer, options.target_lang)


METRICS: dict[str, Metric] = {
    "s_bleu": Metric("s-BLEU", "sentence", build_bleu, of_words=True),
    "d_bleu": Metric("d-BLEU", "document", build_bleu, of_words=True),
    "d_bleu_instance": Metric("d-BLEU (instances)", "instance", build_bleu, of_words=True),
    "chrf": Metric("chrF2", "sentence", _chrf, part_of="chrf_pp"),
    "chrf_pp": Metric("chrF2++", "sentence", _chrf_pp),
    "d_chrf_pp": Metric("chrF2++ (documents)", "document", _d_chrf_pp),
    "ter": Metric("TER", "sentence", _ter, higher_is_better=False),
    "meteor": Metric("METEOR", "sentence", _meteor, of_words=True),
}
"""Every score that :func:`measure` can compute, in the order of reports."""

DOCUMENT_METRICS = tuple(key for key, spec in METRICS.items() if spec.unit == "document")
"""The metrics that need no aligned sentences."""

DEFAULT_METRICS = tuple(key for key in METRICS if key != "d_chrf_pp")
"""The metrics that are computed by default if the sentences are aligned."""
