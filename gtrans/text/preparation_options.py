"""The options of a preparation, and what is checked before anything is written."""

from __future__ import annotations

import re
import tempfile
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import islice
from pathlib import Path

import numpy as np

from gtrans.errors import GtransError
from gtrans.files import check_output_folder, digest
from gtrans.languages import known_language
from gtrans.libraries import require
from gtrans.text.moses import NO_STEPS, MosesPipeline, Steps, is_chinese, jieba_tokenizer
from gtrans.text.pipeline import TextPipeline
from gtrans.text.reader import ANY, Choice
from gtrans.text.subwords import SUBWORD_MODELS, SubwordPipeline, load_bpe, read_pieces

DEFAULT_MERGES = 30000
BINARISED = ("bin", "idx")
"""The ends of the names of a binarised text."""
# Sentences of a binarised split that are segmented anew, and how many must come out the same: not
# all, because BPE may have been applied with dropout or with a vocabulary.
_CHECKED_SENTENCES, _SAME = 500, 0.9


@dataclass(frozen=True)
class PreparationOptions:
    """Options of ``gtrans prepare``, which explains them; None: not given.

    A prefix stands for the two files ``PREFIX.LANG`` or ``PREFIX.LANG.gz``, or is a file that has
    both sides; ``choice`` says what to read of it.
    """

    source_lang: str
    target_lang: str
    out: Path
    train: Sequence[str] = ()
    valid: str | None = None
    test: Sequence[str] = ()
    binarised: Path | None = None
    reuse: Path | None = None
    bpe_merges: int | None = None
    bpe_symbols: int | None = None
    bpe_codes: Path | None = None
    normalise: bool = False
    no_tokenise: bool = False
    segmenter: str | None = None
    no_truecase: bool = False
    sentencepiece: Path | None = None
    byte_bpe: Path | None = None
    dictionary: Path | None = None
    bert: str | None = None
    workers: int | None = None
    force: bool = False
    choice: Choice = ANY

    @property
    def languages(self) -> tuple[str, str]:
        """Source and target."""
        return self.source_lang, self.target_lang

    @property
    def pair(self) -> str:
        """Source and target as in the names of the files."""
        return f"{self.source_lang}-{self.target_lang}"

    @property
    def splits(self) -> dict[str, Sequence[str]]:
        """The prefixes of each split, by fairseq's name of the split."""
        splits = {"train": self.train, "valid": (self.valid,) if self.valid else ()}
        splits |= {f"test{number or ''}": (prefix,) for number, prefix in enumerate(self.test)}
        return {name: prefixes for name, prefixes in splits.items() if prefixes}

    @property
    def subword_model(self) -> tuple[type[SubwordPipeline], Path] | None:
        """The subword model of others that is given, and its kind."""
        paths = {"sentencepiece": self.sentencepiece, "byte-bpe": self.byte_bpe}
        found = ((SUBWORD_MODELS[name], path) for name, path in paths.items() if path is not None)
        return next(found, None)

    @property
    def steps(self) -> Steps:
        """The steps before the subwords; those of others take plain text."""
        if self.subword_model is not None or self.binarised is not None:
            return NO_STEPS
        truecase = not self.no_truecase
        return Steps(self.normalise, not self.no_tokenise, truecase, self.segmenter)

    @property
    def pieces(self) -> Path | None:
        """The dictionary that is given."""
        if self.binarised is not None:
            return self.binarised / f"dict.{self.source_lang}.txt"
        return self.dictionary


_MOSES = ("normalise", "no_tokenise", "no_truecase", "segmenter", "bpe_merges", "bpe_symbols")
_CONFLICTS = {
    "sentencepiece": _MOSES,
    "byte_bpe": _MOSES,
    "reuse": _MOSES,
    "binarised": (*_MOSES, "train", "valid", "test", "reuse", "bert", "dictionary"),
    "no_tokenise": ("segmenter",),
}
"""Options that decide the value of others, and these."""


def check_options(options: PreparationOptions) -> None:
    """Raises GtransError for options that are out of range or contradict each other."""
    given = {name for name, value in vars(options).items() if value not in (None, False, [], ())}
    for option, others in _CONFLICTS.items():
        wrong = next((name for name in others if {option, name} <= given), None)
        if wrong is not None:
            first, second = (name.replace("_", "-") for name in (wrong, option))
            raise GtransError(f"`--{first}` cannot be combined with `--{second}`")
    _check_languages(options)
    if options.bert is not None:
        require(["transformers"], "`--bert`")
    names = [] if options.binarised is None else binarised_files(options.binarised, options)
    if options.subword_model is not None:
        kind, model = options.subword_model
        with tempfile.TemporaryDirectory(prefix="gtrans-") as folder_name:
            kind.copy(model, options.pieces, Path(folder_name))
            kind(options.source_lang, Path(folder_name))
        if options.binarised is not None:
            source, target = (options.binarised / name for name in names[:2])
            if digest(source) != digest(target):
                raise GtransError(
                    f"`--{kind.name}` needs one dictionary for both languages, but {source} and "
                    f"{target} differ"
                )
    elif options.bpe_codes is not None:
        load_bpe(options.bpe_codes)
        if options.dictionary is not None:
            read_pieces(options.dictionary)
        learns = options.steps.truecase or options.pieces is None
        if learns and not (options.train or options.binarised):
            raise GtransError(
                "`--train` is missing: a truecaser (or give `--no-truecase`) and the dictionary "
                "(or give `--dictionary`) come from it"
            )
    elif options.pieces is not None:
        flag = "--dictionary" if options.binarised is None else "--binarised"
        flags = "`--bpe-codes` or `--sentencepiece` or `--byte-bpe`"
        raise GtransError(f"`{flag}` needs {flags}, the model of its subwords")
    elif not options.train and options.reuse is None:
        raise GtransError("give `--train`, or `--reuse` with an earlier preparation")
    if options.binarised is None and not options.splits:
        raise GtransError("give at least one of `--train`, `--valid` and `--test`")
    for flag, folder in (("--reuse", options.reuse), ("--binarised", options.binarised)):
        if folder is not None and folder.resolve() == options.out.resolve():
            raise GtransError(f"`--out` must differ from `{flag}` '{folder}'")
    check_output_folder("--out", options.out)
    if options.binarised is not None:
        _check_pieces(options, options.binarised)


def _check_languages(options: PreparationOptions) -> None:
    for flag, lang in zip(("--source-lang", "--target-lang"), options.languages, strict=True):
        if not re.fullmatch(r"[A-Za-z0-9_]+", lang):
            raise GtransError(
                f"`{flag}` must be letters, digits and '_' (fairseq splits file names at '-' and "
                f"'.'), but is '{lang}'"
            )
        known_language(f"`{flag}`", lang)
    if options.source_lang == options.target_lang:
        raise GtransError(
            f"`--target-lang` must differ from `--source-lang` '{options.source_lang}'"
        )
    if options.segmenter is not None:
        if not any(map(is_chinese, options.languages)):
            raise GtransError(
                f"`--segmenter {options.segmenter}` finds words of Chinese (zh), but the languages "
                f"are {' and '.join(options.languages)}; leave it out"
            )
        jieba_tokenizer()


def _check_pieces(options: PreparationOptions, folder: Path) -> None:
    """Raises GtransError if `--binarised` is not in the pieces of the given subword model."""
    from gtrans.data.binarised import load_dictionary, load_lines

    with tempfile.TemporaryDirectory(prefix="gtrans-") as name:
        for lang in options.languages:
            if options.subword_model is not None:
                kind, model = options.subword_model
                kind.copy(model, options.pieces, Path(name))
                pipeline: TextPipeline = kind(lang, Path(name))
            else:
                assert options.bpe_codes is not None
                pipeline = MosesPipeline(lang, NO_STEPS, bpe=load_bpe(options.bpe_codes))
            dictionary = load_dictionary(folder / f"dict.{lang}.txt")
            for split in _binarised_splits(folder, options):
                text = f"{split}.{options.pair}.{lang}"
                lines = load_lines(str(folder / text), dictionary, len(dictionary))
                sentences = (lines[number] for number in np.flatnonzero(lines.sizes > 1))
                known = (ids for ids in sentences if not (ids == dictionary.unk()).any())
                pieces = [dictionary.string(ids) for ids in islice(known, _CHECKED_SENTENCES)]
                same = sum(pipeline.segment(pipeline.unsegment(one)) == one for one in pieces)
                if same < _SAME * len(pieces):
                    raise GtransError(
                        f"of {len(pieces)} sentences of {text} in '{folder}', the subword model "
                        f"makes only {same} again; give the one that the text was segmented with "
                        "(`--bpe-codes`, `--sentencepiece`, `--byte-bpe`)."
                    )


# ---- names of files ------------------------------------------------------------------------------


def binarised_files(folder: Path, options: PreparationOptions) -> list[str]:
    """Names of the dictionaries and of all splits of a folder of ``fairseq-preprocess``.

    Raises:
        GtransError: a dictionary or a file of a split is missing, or there is no split.
    """
    splits = _binarised_splits(folder, options)
    if not splits:
        found = sorted({path.name.split(".")[1] for path in folder.glob("*.*-*.*.idx")})
        other = f"; it has {', '.join(found)}" if found else ""
        raise GtransError(
            f"`--binarised` '{folder}' has no split SPLIT.{options.pair}.{options.source_lang}"
            f".idx, as fairseq-preprocess writes it{other}."
        )
    names = file_names(splits, options)
    for name in names:
        if not (folder / name).is_file():
            raise GtransError(f"`--binarised` '{folder}' has no file {name}.")
    return names


def _binarised_splits(folder: Path, options: PreparationOptions) -> list[str]:
    end = f".{options.pair}.{options.source_lang}.idx"
    return sorted(path.name.removesuffix(end) for path in folder.glob(f"*{end}"))


def file_names(splits: Iterable[str], options: PreparationOptions) -> list[str]:
    """Names of the files that ``fairseq-preprocess`` writes for these splits."""
    return [f"dict.{lang}.txt" for lang in options.languages] + [
        f"{split}.{options.pair}.{lang}.{kind}"
        for split in splits
        for lang in options.languages
        for kind in BINARISED
    ]
