"""What a search over documents is told: its options and the symbols it sets itself."""

from __future__ import annotations

from dataclasses import dataclass

from gtrans.errors import GtransError


@dataclass(frozen=True)
class SearchOptions:
    """Options of beam search; lengths count the words of one sentence.

    Attributes:
        beam: hypotheses kept.
        max_len_a, max_len_b: a sentence of n source words gets at most ``a n + b`` words.
        min_len: words a sentence has at least.
        lenpen: scores are divided by ``length ** lenpen``.
        unkpen: subtracted from the log-probability of the unknown word.
        normalize: False leaves scores undivided.
        temperature: logits are divided by it.
    """

    beam: int = 5
    max_len_a: float = 0.0
    max_len_b: float = 200.0
    min_len: int = 1
    lenpen: float = 1.0
    unkpen: float = 0.0
    normalize: bool = True
    temperature: float = 1.0

    def __post_init__(self) -> None:
        """Raises GtransError for values that make no search."""
        for flag, value, least in (
            ("beam", self.beam, 1),
            ("max-len-a", self.max_len_a, 0),
            ("max-len-b", self.max_len_b, 0),
            ("min-len", self.min_len, 0),
        ):
            if value < least:
                raise GtransError(f"`--{flag}` must be at least {least}, but is {value}.")
        if self.temperature <= 0:
            raise GtransError(f"`--temperature` must be above 0, but is {self.temperature}.")


@dataclass(frozen=True)
class SearchVocabulary:
    """The ids that the search treats in a special way.

    Attributes:
        opening: the symbol that opens the decoder's input and every sentence:
            ``<s>``, or ``</s>`` where the end of a sentence opens the next one, or
            another one (:class:`gtrans.data.frame.Frame`).
        eos: ``</s>``.
        pad: padding.
        unk: the unknown word.
        forbidden: ids that are no words and never to be generated.
        prefix: follows the opening symbol of every sentence (None: nothing does).
        room: most tokens of a decoder's input; the search ends sentences before they
            leave too little room for those after them (None: there is no limit).
    """

    opening: int
    eos: int
    pad: int
    unk: int
    forbidden: tuple[int, ...]
    prefix: int | None = None
    room: int | None = None
