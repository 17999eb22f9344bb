"""Options of the search and of the models that translate: the flags of ``gtrans translate``.

Each option is declared once, with default, range and flag. This module needs neither torch nor
fairseq.
"""

from __future__ import annotations

import argparse
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, fields
from typing import Any, Self

from gtrans.errors import GtransError
from gtrans.text.reader import ALL_TEXT, TextSelection

MIN_DOC_TOKENS = 8
# Source tokens of a batch: enough rows for fast products, few enough keys for a processor's cache.
MAX_TOKENS = 16000
_LARGEST = 1e6
_LONGEST = 1000  # tokens that a sentence may be asked to have; more would be written for hours


def _option(default: Any, least: float, most: float = math.inf, help_text: str = "") -> Any:
    """Declare a number from ``least`` to ``most``; with ``help_text`` it is a flag."""
    return field(default=default, metadata={"range": (least, most), "help": help_text})


@dataclass(frozen=True)
class _Options:
    """Options that are flags of a command."""

    def __post_init__(self) -> None:
        """Raise GtransError for values out of range."""
        for option in fields(self):
            value = getattr(self, option.name)
            if not option.metadata or value is None:
                continue
            least, most = option.metadata["range"]
            if least <= value <= most:
                continue
            limits = f"at least {least:g}" if most == math.inf else f"from {least:g} to {most:g}"
            raise GtransError(f"`{_flag(option.name)}` must be {limits}, but is {value}.")

    @classmethod
    def add_arguments(cls, group: argparse._ArgumentGroup) -> None:
        """Declare the flags."""
        for option in fields(cls):
            text, default = option.metadata.get("help"), option.default
            if text and isinstance(default, bool):
                group.add_argument(_flag(option.name), action="store_true", help=text)
            elif text:
                group.add_argument(
                    _flag(option.name),
                    type=type(default),
                    default=default,
                    metavar="N" if isinstance(default, int) else "X",
                    help=f"{text} (default: %(default)s)",
                )

    @classmethod
    def from_flags(cls, given: Any, **others: Any) -> Self:
        """Read the options from flags or fairseq's generation; ``others`` come first."""
        values = {}
        for option in fields(cls):
            if option.name not in others and hasattr(given, option.name):
                values[option.name] = getattr(given, option.name)
        return cls(**values, **others)


@dataclass(frozen=True)
class SearchOptions(_Options):
    """Options of beam search; lengths count the words of one sentence.

    Attributes:
        max_len_a, max_len_b: the translation of n source words has at most ``a n + b`` words.
        min_len: fewest words of a sentence.
        lenpen: scores are divided by ``length ** lenpen``.
        unkpen: subtracted from the log-probability of the unknown word.
        no_repeat_ngram_size: no sentence repeats a sequence of so many subwords; 0: no limit.
        free: the model decides where sentences and documents end; lengths then count all tokens of
            the document.
        unnormalized: scores are not divided.
        temperature: logits are divided by it.
    """

    beam: int = _option(5, 1, 1000, "beam size")
    max_len_a: float = _option(
        2.0, 0, _LARGEST, "a sentence of n source tokens gets at most X n + --max-len-b tokens"
    )
    max_len_b: float = _option(50.0, 0, _LARGEST, "added to that limit")
    min_len: int = _option(1, 0, _LONGEST, "least number of tokens in a translated sentence")
    lenpen: float = _option(
        1.0,
        -20,
        20,
        "length penalty: scores are divided by length ** LENPEN, so that values above 1 favour "
        "long translations",
    )
    unkpen: float = _option(0.0, -_LARGEST, _LARGEST, "penalty for <unk>")
    no_repeat_ngram_size: int = _option(
        0,
        0,
        _LARGEST,
        "no sentence has the same N subwords in a row twice; each sentence of a document counts "
        "for itself, as with a sentence model; 0: no limit",
    )
    free: bool = _option(
        False,
        0,
        1,
        "unconstrained decoding of a document Transformer: the model decides how many sentences "
        "it writes, as in the papers' baselines. The output has one line for each document, and "
        "only scores over documents are possible",
    )
    unnormalized: bool = _option(False, 0, 1)
    temperature: float = _option(1.0, 1e-6, _LARGEST)

    def limit(self, source_length: int) -> int:
        """Return the most words of a translation."""
        return max(int(source_length * self.max_len_a + self.max_len_b), self.min_len, 1)

    def score(self, log_probs: Sequence[float]) -> float:
        """Return the score of a translation from the ``log_probs`` of all tokens."""
        return self.normalized(sum(log_probs), len(log_probs))

    def normalized(self, total: float, tokens: int) -> float:
        """Return ``total`` divided by ``tokens ** lenpen``."""
        return total / (1.0 if self.unnormalized else tokens**self.lenpen)


@dataclass(frozen=True, kw_only=True)
class DecodingOptions(_Options):
    """Which models translate, and how.

    Attributes:
        paths: checkpoints; several are an ensemble.
        data: the data folder; None: the first checkpoint's.
        max_tokens: most source tokens of a batch, padding included; short rows are fewer
            (:func:`gtrans.search.generator.rows_at_once`).
        max_doc_tokens: most tokens of a document unit; None: the checkpoint's.
        overlap: sentences of the chunk before that a chunk begins with.
        context: options instead of the checkpoint's: ``context_kind``, ``context_sentence``, and
            the ones in ``--model-overrides``.
        cpu: use the CPU even if there is a CUDA device.
        workers: processes, on processor cores or GPUs; 0: as many as there are.
        force: translate anew, even if the output or a part of it is finished.
        nbest: translations of a sentence, written as JSON lines with their scores; 0: the best one
            as text.
        copy_symbols: copy symbols and emoji that a translation lacks.
        selection: the text to read of rows with several texts or directions.
    """

    paths: tuple[str, ...]
    data: str | None = None
    search: SearchOptions = field(default_factory=SearchOptions)
    max_tokens: int = _option(
        MAX_TOKENS,
        1,
        help_text="source tokens decoded at once, padding included; fewer where the logits of "
        "many short rows would fill the memory",
    )
    max_doc_tokens: int | None = _option(None, MIN_DOC_TOKENS)
    overlap: int = _option(0, 0)
    context: Mapping[str, Any] = field(default_factory=dict)
    cpu: bool = False
    fp16: bool = False
    bf16: bool = _option(
        False,
        0,
        1,
        "compute in bfloat16: faster on a GPU or a processor with instructions for it "
        "(avx512_bf16); a word may differ here and there",
    )
    int8: bool = _option(
        False,
        0,
        1,
        "weights of 8 bits on a CPU: faster, and a word may differ here and there, also by what "
        "else is in a batch",
    )
    force: bool = _option(False, 0, 1, "translate anew, even if it is finished or in part")
    copy_symbols: bool = _option(
        False, 0, 1, "copy symbols and emoji into a translation that lacks them"
    )
    workers: int = _option(1, 0)
    nbest: int = _option(0, 0)
    selection: TextSelection = ALL_TEXT

    def __post_init__(self) -> None:
        """Raise GtransError for values out of range, or options that contradict each other."""
        super().__post_init__()
        if self.nbest > self.search.beam:
            raise GtransError(
                f"`--nbest` {self.nbest}: a search with `--beam` {self.search.beam} finds no more "
                "translations than that; give a larger beam."
            )
        if self.nbest and self.search.free:
            raise GtransError(
                "`--json` needs the score of every sentence, which `--free` does not have; leave "
                "one of them out."
            )


def split_paths(paths: str) -> list[str]:
    """Return the checkpoints of ``--path A.pt:B.pt``.

    Raises:
        GtransError: there is none.
    """
    parts = [part for part in paths.split(":") if part]
    if not parts:
        raise GtransError("`--path` must name a checkpoint, but is empty.")
    return parts


def _flag(name: str) -> str:
    return f"--{name.replace('_', '-')}"
