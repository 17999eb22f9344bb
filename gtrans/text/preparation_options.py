"""Options of a preparation, and the checks before anything is written."""

from __future__ import annotations

import re
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

from gtrans.data.documents import resolve
from gtrans.errors import GtransError
from gtrans.identity.digests import digest
from gtrans.identity.files import check_output, check_output_folder
from gtrans.identity.precious import DATA
from gtrans.languages import known_language
from gtrans.libraries import require
from gtrans.text.binarised_folder import check_segmentation, files_of
from gtrans.text.bpe import load_bpe
from gtrans.text.chinese_words import check_segmenter
from gtrans.text.moses_pipeline import NO_STEPS, MosesPipeline, Steps, is_chinese
from gtrans.text.pipeline import TextPipeline
from gtrans.text.prepared_folder import STATE_FILE, SUBWORD_MODELS, prepared_files
from gtrans.text.reader import ANY, Choice, Sides, open_text
from gtrans.text.sentence_pairs import pairs_of
from gtrans.text.subword_model import read_pieces

DEFAULT_MERGES = 30000


@dataclass(frozen=True)
class PreparationOptions:
    """Options of a preparation, those of ``gtrans prepare``.

    With ``bpe_codes``, no merges are learnt. With ``binarised``, the corpus is in that folder of
    ``fairseq-preprocess``: there is no text, and no step but the subword model. ``subword_model``
    is a kind of :data:`gtrans.text.prepared_folder.SUBWORD_MODELS` and the path of a model;
    ``steps`` and the BPE options are then ignored. ``bpe_symbols`` is the size of the joint
    vocabulary, instead of the number of merges. With ``reuse``, these options are those of the
    earlier preparation, and ``bert`` too if it is None. A prefix stands for the two files
    ``PREFIX.LANG`` or ``PREFIX.LANG.gz``, or is a file that has both sides; ``choice`` says what to
    read of it.
    """

    source_lang: str
    target_lang: str
    out: Path
    train: tuple[str, ...] = ()
    valid: str | None = None
    test: tuple[str, ...] = ()
    reuse: Path | None = None
    steps: Steps = field(default_factory=Steps)
    bpe_merges: int = DEFAULT_MERGES
    bpe_symbols: int | None = None
    bpe_vocabulary_threshold: int | None = None
    bpe_codes: Path | None = None
    binarised: Path | None = None
    subword_model: tuple[str, Path] | None = None
    dictionary: Path | None = None
    bert: str | None = None
    workers: int = 1
    force: bool = False
    choice: Choice = ANY

    @property
    def languages(self) -> tuple[str, str]:
        """Source and target."""
        return self.source_lang, self.target_lang

    @property
    def splits(self) -> dict[str, tuple[str, ...]]:
        """The prefixes of each split, by fairseq's name of the split."""
        splits = {"train": self.train, "valid": (self.valid,) if self.valid else ()}
        for position, prefix in enumerate(self.test):
            splits[f"test{position or ''}"] = (prefix,)
        return {name: prefixes for name, prefixes in splits.items() if prefixes}


def check_options(options: PreparationOptions) -> None:
    """Raises GtransError for options that are out of range or contradict each other."""
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
    threshold = options.bpe_vocabulary_threshold
    numbers = {
        "--bpe-merges": options.bpe_merges,
        "--bpe-symbols": options.bpe_symbols,
        "--workers": options.workers,
    }
    for flag, value in {**numbers, "--bpe-vocabulary-threshold": threshold}.items():
        if value is not None and value < 1:
            raise GtransError(f"`{flag}` must be at least 1, but is {value}")
    if options.bert is not None:
        require(["transformers"], "`--bert`")
    if options.binarised is not None:
        _check_binarised(options, options.binarised)
    if options.subword_model is not None:
        kind, model = options.subword_model
        SUBWORD_MODELS[kind].check(model, options.dictionary)
    elif options.bpe_codes is not None:
        _check_codes(options)
    elif options.dictionary is not None:
        flag = "--dictionary" if options.binarised is None else "--binarised"
        flags = " or ".join(f"`--{kind}`" for kind in ("bpe-codes", *SUBWORD_MODELS))
        raise GtransError(f"`{flag}` needs {flags}, the model of its subword pieces")
    elif not options.train and options.reuse is None:
        raise GtransError("give `--train`, or `--reuse` with an earlier preparation")
    if options.binarised is None and not options.splits:
        flag = "--bpe-codes" if options.bpe_codes is not None else "--reuse"
        flag = f"--{options.subword_model[0]}" if options.subword_model is not None else flag
        raise GtransError(f"`{flag}` needs at least one of `--train`, `--valid` and `--test`")
    for flag, folder in (("--reuse", options.reuse), ("--binarised", options.binarised)):
        if folder is not None and folder.resolve() == options.out.resolve():
            raise GtransError(f"`--out` must differ from `{flag}` '{folder}'")
    segmenter = options.steps.segmenter
    if segmenter is not None:
        if not any(map(is_chinese, options.languages)):
            raise GtransError(
                f"`--segmenter {segmenter}` finds words of Chinese (zh), but the languages are "
                f"{' and '.join(options.languages)}; leave it out"
            )
        check_segmenter(segmenter)
    check_output_folder("--out", options.out)
    if options.binarised is not None:
        _check_pieces(options, options.binarised)


def _check_binarised(options: PreparationOptions, folder: Path) -> None:
    """Raises GtransError for `--binarised` that lacks a file, or does not fit the subword model."""
    source, target, *_ = (folder / name for name in files_of(folder, *options.languages))
    if options.subword_model is not None and digest(source) != digest(target):
        raise GtransError(
            f"`--{options.subword_model[0]}` needs one dictionary for both languages, but {source} "
            f"and {target} differ"
        )


def _check_pieces(options: PreparationOptions, folder: Path) -> None:
    """Raises GtransError if `--binarised` is not in the pieces of the given subword model."""
    pipelines: list[TextPipeline] = []
    with tempfile.TemporaryDirectory(prefix="gtrans-") as name:
        for lang in options.languages:
            if options.subword_model is not None:
                model = SUBWORD_MODELS[options.subword_model[0]]
                model.copy(options.subword_model[1], options.dictionary, Path(name))
                pipelines.append(model.load(lang, Path(name)))
            else:
                assert options.bpe_codes is not None
                pipelines.append(MosesPipeline(lang, NO_STEPS, bpe=load_bpe(options.bpe_codes)))
        check_segmentation(folder, pipelines, "-".join(options.languages))


def _check_codes(options: PreparationOptions) -> None:
    """Raises GtransError for `--bpe-codes` that are none, or need a training text."""
    assert options.bpe_codes is not None
    load_bpe(options.bpe_codes)
    if options.dictionary is not None:
        read_pieces(options.dictionary)
    if options.train or options.binarised is not None:
        return
    for needs, flag in (
        (options.steps.truecase, "a truecaser (or give `--no-truecase`)"),
        (options.bpe_vocabulary_threshold, "`--bpe-vocabulary-threshold`"),
        (options.dictionary is None, "the dictionary (or give `--dictionary`)"),
    ):
        if needs:
            raise GtransError(f"`--train` is missing: {flag} comes from it")


def check_split(options: PreparationOptions, prefixes: Sequence[str]) -> list[Sides]:
    """The two sides of each text of a split, after reading and checking them.

    Raises:
        GtransError: a file is missing or unreadable, or the two sides do not match.
    """
    pairs = []
    for prefix in prefixes:
        whole = Path(prefix)
        if whole.is_file() and open_text(whole).has_ids:
            source, target = whole, whole
        else:
            source, target = (resolve(prefix, lang) for lang in options.languages)
        sides = Sides(source, target, options.choice)
        for _ in pairs_of(sides):
            pass
        pairs.append(sides)
    return pairs


def check_out(options: PreparationOptions, inputs: dict[str, list[Sides]]) -> None:
    """Raises GtransError for ``--out`` if it cannot be written, or an input is one of its files."""
    reads = [path for texts in inputs.values() for one in texts for path in one[:2]]
    if options.subword_model is not None:
        kind, model = options.subword_model
        reads += SUBWORD_MODELS[kind].model_files(model)
    reads += [path for path in (options.dictionary, options.bpe_codes) if path is not None]
    if options.out.exists():
        for path in (*prepared_files(options.out, texts=False), *(options.out / "text").glob("*")):
            check_output("--out", path, reads, writes=DATA)


def is_unused(folder: Path) -> bool:
    """Whether a folder holds nothing but what a run leaves that was killed at its beginning."""
    return all(
        re.fullmatch(rf"\.gtrans\.lock|\.{re.escape(STATE_FILE)}\..*", path.name)
        or (path.name == "text" and path.is_dir() and not any(path.iterdir()))
        for path in folder.iterdir()
    )
