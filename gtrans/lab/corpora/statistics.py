"""What a corpus holds: the counts of the papers' tables, and what a reader should know before.

Only what has to be compared between splits is kept in memory: the words that occur, and 8 bytes for
each sentence pair.
"""

from __future__ import annotations

from array import array
from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from hashlib import blake2b
from pathlib import Path
from typing import Any

from gtrans.data.documents import iterate_parallel
from gtrans.data.instances import MARKS_PER_SENTENCE, split_instances

_Texts = tuple[str, str]  # a sentence pair

OVERLAP_WORDS = 5
"""Source sentences of fewer words are not counted as overlap: "Thank you ." is in every talk."""


@dataclass
class Side:
    """One side of a split.

    Attributes:
        tokens: what stands between white space: words, or subword pieces.
        types: how often each token occurs.
        longest: tokens of the longest sentence.
        unknown: tokens that the training text, or the dictionary, does not have; None: there is
            neither.
    """

    tokens: int = 0
    types: Counter[str] = field(default_factory=Counter)
    longest: int = 0
    unknown: int | None = None


@dataclass
class Split:
    """What a split holds.

    Attributes:
        documents, sentences: their numbers; a sentence is a pair.
        longest_document: sentences of the longest document.
        longest_document_tokens: tokens of the document that is longest in tokens of a side.
        instances: of up to ``max_doc_tokens``; see :func:`gtrans.data.instances.split_instances`.
        instance_tokens: source tokens of all instances, with two marks for each sentence.
        duplicates: pairs that have occurred before in this split.
        overlap: pairs of at least 5 source words whose source stands in the training text.
        overlap_candidates: pairs of at least 5 source words.
        sides: source and target.
    """

    documents: int = 0
    sentences: int = 0
    longest_document: int = 0
    longest_document_tokens: int = 0
    instances: int = 0
    instance_tokens: int = 0
    duplicates: int = 0
    overlap: int | None = None
    overlap_candidates: int = 0
    sides: tuple[Side, Side] = field(default_factory=lambda: (Side(), Side()))
    _pairs: array[int] = field(default_factory=lambda: array("Q"))
    _sources: array[int] = field(default_factory=lambda: array("Q"))

    def averages(self) -> dict[str, float]:
        """Means over documents and instances, as the papers' tables have them."""
        return {
            "sentences of a document": self.sentences / self.documents,
            "sentences of an instance": self.sentences / self.instances,
            "tokens of an instance": self.instance_tokens / self.instances,
        }

    def as_json(self, languages: Sequence[str]) -> dict[str, Any]:
        """All of it, for a JSON file."""
        found: dict[str, Any] = {
            "documents": self.documents,
            "sentences": self.sentences,
            "instances": self.instances,
            **{name: round(value, 2) for name, value in self.averages().items()},
            "longest document": self.longest_document,
            "longest document in tokens": self.longest_document_tokens,
            "duplicates": self.duplicates,
            "in train": self.overlap,
            "in train, of": self.overlap_candidates if self.overlap is not None else None,
        }
        for lang, side in zip(languages, self.sides, strict=True):
            found[lang] = {
                "tokens": side.tokens,
                "types": len(side.types),
                "longest sentence": side.longest,
                "unknown": side.unknown,
            }
        return found


def count(source: Path, target: Path, max_doc_tokens: int) -> Split:
    """Count one split of plain text or pieces.

    Raises:
        GtransError: the two files do not belong together, or cannot be read.
    """
    split = Split()
    for document in _documents(iterate_parallel(source, target)):
        _add_document(split, document, max_doc_tokens)
    split.duplicates = len(split._pairs) - len(_sorted(split._pairs))
    split._pairs = array("Q")
    return split


def compare(splits: Mapping[str, Split], dictionaries: Sequence[Collection[str]]) -> None:
    """Fill in what the other splits share with the training text.

    Args:
        splits: all splits, by name; ``train`` may not be there. The training text of ``test.de-en``
            is ``train.de-en``.
        dictionaries: the tokens that a model would know on each side; empty: those of ``train``.
    """
    import numpy as np

    for name, split in splits.items():
        train = "".join(["train", *name.partition(".")[1:]])
        base = splits.get(train)
        known = dictionaries or ([side.types for side in base.sides] if base else [])
        if known and (dictionaries or name != train):
            for side, symbols in zip(split.sides, known, strict=True):
                side.unknown = sum(n for word, n in side.types.items() if word not in symbols)
        if base is not None and name != train:
            seen = _sorted(base._sources)
            own = np.frombuffer(split._sources, np.uint64) if split._sources else seen[:0]
            split.overlap = int(np.isin(own, seen).sum())


def _documents(pairs: Iterable[_Texts | None]) -> Iterator[list[_Texts]]:
    document: list[_Texts] = []
    for pair in pairs:
        if pair is None:
            yield document
            document = []
        else:
            document.append(pair)
    yield document


def _add_document(split: Split, document: list[_Texts], max_doc_tokens: int) -> None:
    lengths: tuple[list[int], list[int]] = ([], [])
    for pair in document:
        for text, side, sizes in zip(pair, split.sides, lengths, strict=True):
            words = text.split()
            side.types.update(words)
            side.tokens += len(words)
            side.longest = max(side.longest, len(words))
            sizes.append(len(words))
        split._pairs.append(_key("\t".join(pair)))
        if lengths[0][-1] >= OVERLAP_WORDS:
            split._sources.append(_key(pair[0]))
            split.overlap_candidates += 1
    split.documents += 1
    split.sentences += len(document)
    split.longest_document = max(split.longest_document, len(document))
    longer = max(map(sum, lengths))
    split.longest_document_tokens = max(split.longest_document_tokens, longer)
    split.instances += len(split_instances(*lengths, max_doc_tokens))
    split.instance_tokens += sum(lengths[0]) + MARKS_PER_SENTENCE * len(document)


def _key(text: str) -> int:
    return int.from_bytes(blake2b(text.encode(), digest_size=8).digest(), "little")


def _sorted(keys: array[int]) -> Any:
    """The different keys, in order."""
    import numpy as np

    return np.unique(np.frombuffer(keys, np.uint64)) if keys else np.zeros(0, np.uint64)
