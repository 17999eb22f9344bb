"""Which sentence pairs are kept, with counts of those that are not.

A pair that is dropped leaves the boundaries between documents where they are; a document of which
nothing is left disappears.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import asdict, dataclass, field
from hashlib import blake2b
from typing import Any, Literal, get_args

from gtrans.errors import GtransError
from gtrans.lab.corpora.pairs import Pair, Pairs

Empty = Literal["drop", "refuse"]
EMPTY = get_args(Empty)
Words = Literal["words", "moses"]

# Turns a sentence and its language into a number of words.
Counter = Callable[[str, str], int]


@dataclass(frozen=True)
class Cleaning:
    """What is asked of a pair.

    Attributes:
        empty: a pair with an empty side is dropped, or ends the command.
        max_words: longest sentence of either side; 0: no limit.
        max_ratio: the longer side has at most this many times the words of the shorter one; 0: no
            limit.
        unit: what a word is: what stands between white space, or what the Moses tokeniser makes.
        drop_duplicates: whether a pair that has occurred is dropped.
    """

    empty: Empty = "refuse"
    max_words: int = 0
    max_ratio: float = 0.0
    unit: Words = "words"
    drop_duplicates: bool = False

    def as_json(self) -> dict[str, Any]:
        """All of it, for a JSON file."""
        return asdict(self)


@dataclass
class Counts:
    """What became of the pairs of a split.

    Attributes:
        documents, pairs: that are kept.
        dropped: pairs by reason.
        dropped_documents: documents of which no pair is left.
    """

    documents: int = 0
    pairs: int = 0
    dropped: dict[str, int] = field(
        default_factory=lambda: dict.fromkeys(
            ("empty on both sides", "empty on one side", "too long", "ratio", "duplicate"), 0
        )
    )
    dropped_documents: int = 0

    def as_json(self) -> dict[str, Any]:
        """All of it, for a JSON file."""
        return asdict(self)


class Cleaner:
    """Applies a cleaning to a split; its counts are complete when :meth:`clean` has ended.

    Attributes:
        counts: of all that went through.
    """

    def __init__(self, cleaning: Cleaning, source_lang: str, target_lang: str, what: str) -> None:
        """Make one.

        Args:
            cleaning: what is asked of a pair.
            source_lang: language of the left side.
            target_lang: language of the right side.
            what: the split, for error messages.
        """
        self.counts = Counts()
        self._cleaning = cleaning
        self._languages = (source_lang, target_lang)
        self._what = what
        self._count: Counter = _white_space if cleaning.unit == "words" else _Moses()
        self._seen: set[bytes] = set()

    def clean(self, pairs: Pairs) -> Pairs:
        """The pairs that are kept, with the boundaries between documents that still have one.

        Raises:
            GtransError: a pair is empty on a side, and such pairs are refused; or no pair is left.
        """
        number, kept, lost = 0, 0, 0
        for pair in pairs:
            if pair is None:
                self._end_document(kept, lost)
                kept = lost = 0
                continue
            number += 1
            reason = self._objection(pair)
            if reason is not None:
                self.counts.dropped[reason] += 1
                lost += 1
                continue
            if not kept and self.counts.documents:
                yield None
            kept += 1
            self.counts.pairs += 1
            yield pair
        self._end_document(kept, lost)
        if not self.counts.pairs:
            raise GtransError(f"{self._what}: no sentence pair is left of {number}")

    def _end_document(self, kept: int, lost: int) -> None:
        if kept:
            self.counts.documents += 1
        elif lost:
            self.counts.dropped_documents += 1

    def _objection(self, pair: Pair) -> str | None:
        """Why a pair is dropped; None: it is kept."""
        texts = (pair.source, pair.target)
        if not all(texts):
            sides = "both sides" if not any(texts) else "one side"
            if self._cleaning.empty == "refuse":
                text = f" ('{(pair.source or pair.target)[:60]}')" if any(texts) else ""
                places = " and ".join(f"{path}:{line}" for path, line in pair.places)
                raise GtransError(
                    f"{places}: a pair of {self._what}{text} is empty on {sides}; `--empty drop` "
                    "leaves such pairs out and counts them"
                )
            return f"empty on {sides}"
        limits = self._cleaning
        if limits.max_words or limits.max_ratio:
            lengths = [self._count(*side) for side in zip(texts, self._languages, strict=True)]
            if limits.max_words and max(lengths) > limits.max_words:
                return "too long"
            if limits.max_ratio and max(lengths) > limits.max_ratio * min(lengths):
                return "ratio"
        if limits.drop_duplicates:
            key = blake2b("\t".join(texts).encode(), digest_size=12).digest()
            if key in self._seen:
                return "duplicate"
            self._seen.add(key)
        return None


def _white_space(sentence: str, _: str) -> int:
    return len(sentence.split())


class _Moses:
    """Counts what the Moses tokeniser makes."""

    def __init__(self) -> None:
        self._tokenisers: dict[str, Any] = {}

    def __call__(self, sentence: str, lang: str) -> int:
        if lang not in self._tokenisers:
            from sacremoses import MosesTokenizer  # starts slowly

            self._tokenisers[lang] = MosesTokenizer(lang)
        return len(self._tokenisers[lang].tokenize(sentence))
