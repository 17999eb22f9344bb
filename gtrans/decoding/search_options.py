"""Settings of a search: its options, and the symbols that it treats in a special way."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from gtrans.errors import GtransError

_LARGEST, _LARGEST_BEAM = 1e6, 1000
# Lengths of thousands of tokens to such a power are still numbers.
_LARGEST_POWER = 20


@dataclass(frozen=True)
class SearchOptions:
    """Options of beam search; lengths count the words of one sentence.

    The default limit of ``2 n + 50`` words for a sentence of n words is longer than a real
    translation between any two scripts, but stops a model early that repeats itself in a short
    sentence. (fairseq's limit of 200 cuts long sentences, and is too large for the short ones.)

    Attributes:
        beam: hypotheses of a document.
        max_len_a, max_len_b: the translation of n source words has at most ``a n + b`` words.
        min_len: fewest words of a sentence.
        lenpen: scores are divided by ``length ** lenpen``.
        unkpen: subtracted from the log-probability of the unknown word.
        normalize: whether scores are divided.
        temperature: logits are divided by it.
        free: the model decides how many sentences a document has and where it ends; lengths then
            count all tokens of the document.
        no_repeat_ngram_size: no sentence has the same sequence of so many pieces twice, as in
            fairseq; another sentence of the document may repeat it. 0: anything may be repeated.
    """

    beam: int = 5
    max_len_a: float = 2.0
    max_len_b: float = 50.0
    min_len: int = 1
    lenpen: float = 1.0
    unkpen: float = 0.0
    normalize: bool = True
    temperature: float = 1.0
    free: bool = False
    no_repeat_ngram_size: int = 0

    def __post_init__(self) -> None:
        """Raises GtransError for values out of range."""
        for flag, value, least, most in (
            ("beam", self.beam, 1, _LARGEST_BEAM),
            ("max-len-a", self.max_len_a, 0, _LARGEST),
            ("max-len-b", self.max_len_b, 0, _LARGEST),
            ("min-len", self.min_len, 0, _LARGEST),
            ("no-repeat-ngram-size", self.no_repeat_ngram_size, 0, _LARGEST),
        ):
            if not value >= least:
                raise GtransError(f"`--{flag}` must be at least {least}, but is {value}.")
            if value > most:
                raise GtransError(f"`--{flag}` must be at most {most:g}, but is {value}.")
        if not 0 < self.temperature <= _LARGEST:
            raise GtransError(f"`--temperature` must be above 0, but is {self.temperature}.")
        for flag, value, most in (
            ("unkpen", self.unkpen, _LARGEST),
            ("lenpen", self.lenpen, _LARGEST_POWER),
        ):
            if not abs(value) <= most:
                raise GtransError(f"`--{flag}` must be from -{most:g} to {most:g}, but is {value}.")

    def limit(self, source_length: int) -> int:
        """Most words of the translation of a sentence of ``source_length`` words."""
        return max(int(source_length * self.max_len_a + self.max_len_b), self.min_len, 1)

    def score(self, log_probs: Sequence[float]) -> float:
        """What finished translations are compared by; ``log_probs``: of all tokens."""
        return self.normalized(sum(log_probs), len(log_probs))

    def normalized(self, total: float, tokens: int) -> float:
        """``total`` divided by the length to the power of ``lenpen``."""
        return total / (tokens**self.lenpen if self.normalize else 1.0)


@dataclass(frozen=True)
class SearchVocabulary:
    """Symbols that a search treats in a special way.

    Attributes:
        opening: id of the symbol that opens the decoder's input and every sentence:
            ``<s>``, ``</s>`` if the end of a sentence opens the next one, or a language symbol
            (:class:`gtrans.data.frame.Frame`).
        document_mark: id of the symbol that opens the decoder's input instead, once, and that a
            model predicts at the end of a document, or None.
        eos: id of ``</s>``.
        pad: id of padding.
        unk: id of the unknown word.
        forbidden: ids that are not words and are never generated.
        prefix: id of the symbol that follows the opening symbol of every sentence, or None.
        max_input_tokens: most tokens of the decoder's input; the search ends sentences early
            enough to leave room for those after them. None: there is no limit.
    """

    opening: int
    eos: int
    pad: int
    unk: int
    forbidden: tuple[int, ...]
    prefix: int | None = None
    max_input_tokens: int | None = None
    document_mark: int | None = None

    @property
    def first(self) -> int:
        """The symbol that opens the decoder's input."""
        return self.opening if self.document_mark is None else self.document_mark
