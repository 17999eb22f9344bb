"""The options of a preparation, and their checks."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from gtrans.environment import require
from gtrans.errors import GtransError
from gtrans.files import check_output_folder
from gtrans.languages import known_language
from gtrans.option_types import whole
from gtrans.text.moses import NO_STEPS, MosesSteps, is_chinese, jieba_tokenizer
from gtrans.text.reader import ALL_TEXT, TextSelection
from gtrans.text.subwords import load_bpe, load_sentencepiece, read_subwords
from gtrans.text.workers import check_workers

DEFAULT_MERGES = 30000
_PATHS = ("DIR", "DIR|CKPT", "FILE", "MODEL", "DICT")
# By the word that stands for a value in the help: its type.
_TYPES = {"N": whole(1), **dict.fromkeys(_PATHS, Path)}


def _flag(group: str, word: str, meaning: str, default: Any = None, **extra: Any) -> Any:
    """Return a field for a flag of ``gtrans prepare``.

    Args:
        group: only one flag of "subwords" may be given.
        word: the value in the help; empty: the flag is a switch.
    """
    metadata = {"group": group, "help": meaning, **extra}
    if word:
        metadata["metavar"] = word
        metadata["type"] = _TYPES.get(word, str)
    else:
        metadata["action"] = "store_true"
    return field(default=default, metadata=metadata)


@dataclass(frozen=True)
class PreparationOptions:
    """Options of ``gtrans prepare``; None: not given.

    A prefix stands for two files ``PREFIX.LANG[.gz]``, or is a file with both sides.
    """

    source_lang: str = _flag("corpus", "LANG", "source language", required=True)
    target_lang: str = _flag("corpus", "LANG", "target language", required=True)
    train: Sequence[str] = _flag(
        "corpus", "PREFIX", "training text; several are joined", (), nargs="+"
    )
    valid: str | None = _flag("corpus", "PREFIX", "validation text")
    test: Sequence[str] = _flag(
        "corpus", "PREFIX", "test text; several become the splits test, test1, ...", (), nargs="+"
    )
    selection: TextSelection = ALL_TEXT
    out: Path = _flag("corpus", "DIR", "data folder to write", required=True)
    reuse: Path | None = _flag(
        "subwords",
        "DIR|CKPT",
        "use the text options, truecasers, subwords and dictionary of this data folder, or those "
        "in this checkpoint",
    )
    bpe_merges: int | None = _flag("subwords", "N", f"joint BPE merges (default: {DEFAULT_MERGES})")
    bpe_symbols: int | None = _flag(
        "subwords",
        "N",
        "size of the joint BPE vocabulary instead of --bpe-merges: merges and characters",
    )
    bpe_codes: Path | None = _flag(
        "subwords", "FILE", "segment with these merges of subword-nmt instead of learning some"
    )
    normalise: bool = _flag(
        "text",
        "",
        "replace quotation marks and dashes as Moses' punctuation normalisation does; the model "
        "then cannot write those that it replaces",
    )
    no_tokenise: bool = _flag("text", "", "skip tokenisation: the text is tokenised already")
    segmenter: str | None = _flag(
        "text",
        "jieba",
        "find the words of Chinese with jieba (pip install '.[zh]'), as the experiments on Chinese "
        "in the papers do (default: every character is a token)",
        choices=["jieba"],
    )
    no_truecase: bool = _flag("text", "", "skip truecasing")
    sentencepiece: Path | None = _flag(
        "subwords",
        "MODEL",
        "segment the plain text with this SentencePiece model instead of Moses steps and BPE; "
        "mBART needs its sentence.bpe.model",
    )
    dictionary: Path | None = _flag(
        "text",
        "DICT",
        "dict.txt with the subwords to use, with --bpe-codes (default: those of the training "
        "text) or --sentencepiece (default: all subwords of the model)",
    )
    bert: str | None = _flag(
        "text",
        "NAME_OR_DIR",
        "also segment the plain source into the subwords of this BERT: a local folder or a name on "
        "the Hugging Face hub (bert-base-uncased); with --reuse, instead of that folder's",
    )
    workers: int | None = _flag(
        "run", "N", "processes; the result does not depend on it (default: all cores)"
    )
    force: bool = _flag("run", "", "repeat all steps, finished or not")

    @property
    def languages(self) -> tuple[str, str]:
        """Source and target."""
        return self.source_lang, self.target_lang

    @property
    def pair(self) -> str:
        """Source and target as in file names."""
        return f"{self.source_lang}-{self.target_lang}"

    @property
    def splits(self) -> dict[str, Sequence[str]]:
        """The prefixes of each split, by its name in fairseq."""
        splits: dict[str, Sequence[str]] = {}
        if self.train:
            splits["train"] = self.train
        if self.valid:
            splits["valid"] = [self.valid]
        for number, prefix in enumerate(self.test):
            name = f"test{number}" if number else "test"
            splits[name] = [prefix]
        return splits

    @property
    def steps(self) -> MosesSteps:
        """The steps before the subwords; SentencePiece takes plain text."""
        if self.sentencepiece is not None:
            return NO_STEPS
        return MosesSteps(
            normalise=self.normalise,
            tokenise=not self.no_tokenise,
            truecase=not self.no_truecase,
            segmenter=self.segmenter,
        )

    def files(self, splits: Iterable[str]) -> list[str]:
        """Return the files that ``fairseq-preprocess`` writes for these splits."""
        files = [f"dict.{lang}.txt" for lang in self.languages]
        for split in splits:
            for lang in self.languages:
                name = f"{split}.{self.pair}.{lang}"
                files += [f"{name}.bin", f"{name}.idx"]
        return files


_MOSES = ("normalise", "no_tokenise", "no_truecase", "segmenter", "bpe_merges", "bpe_symbols")
_CONFLICTS = {
    "sentencepiece": _MOSES,
    "reuse": _MOSES,
    "no_tokenise": ("segmenter",),
}
"""Options that decide the value of others, and these."""


def check_options(options: PreparationOptions) -> None:
    """Raise GtransError for options that are out of range or contradictory."""
    given = set()
    for name, value in vars(options).items():
        if value not in (None, False, [], ()):
            given.add(name)
    for option, others in _CONFLICTS.items():
        for other in others:
            if {option, other} <= given:
                flags = f"`--{other}` cannot be combined with `--{option}`"
                raise GtransError(flags.replace("_", "-"))
    _check_languages(options)
    for flag, prefixes in (("--train", options.train), ("--test", options.test)):
        twice = [prefix for prefix, count in Counter(prefixes).items() if count > 1]
        if twice:
            raise GtransError(f"`{flag}` names '{twice[0]}' twice; name each text once")
    if options.workers is not None:
        check_workers(options.workers)
    if options.bert is not None:
        require(["transformers"], "`--bert`")
    if options.bpe_codes is not None:
        load_bpe(options.bpe_codes)
    if options.sentencepiece is not None:
        load_sentencepiece(options.sentencepiece)
    has_model = bool(options.bpe_codes or options.sentencepiece)
    if options.dictionary is not None:
        if not has_model:
            raise GtransError(
                "`--dictionary` needs `--bpe-codes` or `--sentencepiece`, the model of its subwords"
            )
        read_subwords(options.dictionary)
    learns = options.steps.truecase or options.dictionary is None
    if options.bpe_codes is not None and learns and not options.train:
        raise GtransError(
            "`--train` is missing: a truecaser (or give `--no-truecase`) and the dictionary "
            "(or give `--dictionary`) come from it"
        )
    if not (has_model or options.train or options.reuse):
        raise GtransError("give `--train`, or `--reuse` with an earlier preparation")
    if not options.splits:
        raise GtransError("give at least one of `--train`, `--valid` and `--test`")
    check_output_folder("--out", options.out, filter(None, [options.reuse]))


def _check_languages(options: PreparationOptions) -> None:
    for flag, lang in zip(("--source-lang", "--target-lang"), options.languages, strict=True):
        if not re.fullmatch(r"[A-Za-z0-9_]+", lang):
            raise GtransError(
                f"`{flag}` must be letters, digits and '_' (fairseq splits file names at '-' and "
                f"'.'), but is '{lang}'"
            )
        known_language(f"`{flag}`", lang)
    if options.source_lang == options.target_lang:
        raise GtransError(f"`--target-lang` must differ from `--source-lang` '{lang}'")
    if options.segmenter is not None:
        if not any(map(is_chinese, options.languages)):
            raise GtransError(
                f"`--segmenter {options.segmenter}` finds words of Chinese (zh), but the languages "
                f"are {' and '.join(options.languages)}; leave it out"
            )
        jieba_tokenizer()
