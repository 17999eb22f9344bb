"""Options of a preparation, and the checks before anything is written."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

from gtrans.data.documents import iterate_parallel, resolve
from gtrans.errors import GtransError
from gtrans.identity.files import check_output, check_output_folder
from gtrans.identity.precious import DATA
from gtrans.text.chinese_words import check_segmenter
from gtrans.text.moses_pipeline import Steps, is_chinese
from gtrans.text.prepared_folder import STATE_FILE, SUBWORD_MODELS, prepared_files

DEFAULT_MERGES = 30000


@dataclass(frozen=True)
class PreparationOptions:
    """Options of a preparation, those of ``gtrans prepare``.

    ``subword_model`` is a kind of :data:`gtrans.text.prepared_folder.SUBWORD_MODELS` and the path
    of a model; ``steps`` and the BPE options are then ignored. ``bpe_symbols`` is the size of the
    joint vocabulary, instead of the number of merges. With ``reuse``, these options and
    ``bert`` are taken from the earlier preparation. A prefix stands for the two files
    ``PREFIX.LANG`` or ``PREFIX.LANG.gz``.
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
    subword_model: tuple[str, Path] | None = None
    dictionary: Path | None = None
    bert: str | None = None
    workers: int = 1
    force: bool = False

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
    if options.subword_model is not None:
        kind, model = options.subword_model
        SUBWORD_MODELS[kind].check(model, options.dictionary)
    elif options.dictionary is not None:
        flags = " or ".join(f"`--{kind}`" for kind in SUBWORD_MODELS)
        raise GtransError(f"`--dictionary` needs {flags}, the model that it belongs to")
    elif not options.train and options.reuse is None:
        raise GtransError("give `--train`, or `--reuse` with an earlier preparation")
    if not options.splits:
        flag = f"--{options.subword_model[0]}" if options.subword_model is not None else "--reuse"
        raise GtransError(f"`{flag}` needs at least one of `--train`, `--valid` and `--test`")
    if options.reuse is not None and options.reuse.resolve() == options.out.resolve():
        raise GtransError(f"`--out` must differ from `--reuse` '{options.reuse}'")
    segmenter = options.steps.segmenter
    if segmenter is not None:
        if not any(map(is_chinese, options.languages)):
            raise GtransError(
                f"`--segmenter {segmenter}` finds words of Chinese (zh), but the languages are "
                f"{' and '.join(options.languages)}; leave it out"
            )
        check_segmenter(segmenter)
    check_output_folder("--out", options.out)


def check_split(options: PreparationOptions, prefixes: Sequence[str]) -> list[tuple[Path, Path]]:
    """The file pairs of a split, after reading and checking them.

    Raises:
        GtransError: a file is missing or unreadable, or the two sides do not match.
    """
    pairs = []
    for prefix in prefixes:
        source, target = (resolve(prefix, lang) for lang in options.languages)
        for _ in iterate_parallel(source, target):
            pass
        pairs.append((source, target))
    return pairs


def check_out(options: PreparationOptions, inputs: dict[str, list[tuple[Path, Path]]]) -> None:
    """Raises GtransError for ``--out`` if it cannot be written, or an input is one of its files."""
    reads = [path for pairs in inputs.values() for pair in pairs for path in pair]
    if options.subword_model is not None:
        kind, model = options.subword_model
        reads += SUBWORD_MODELS[kind].model_files(model)
    if options.dictionary is not None:
        reads.append(options.dictionary)
    if options.out.exists():
        for path in (*prepared_files(options.out), *(options.out / "text").glob("*")):
            check_output("--out", path, reads, writes=DATA)


def is_unused(folder: Path) -> bool:
    """Whether a folder holds nothing but what a run leaves that was killed at its beginning."""
    return all(
        re.fullmatch(rf"\.gtrans\.lock|\.{re.escape(STATE_FILE)}\..*", path.name)
        or (path.name == "text" and path.is_dir() and not any(path.iterdir()))
        for path in folder.iterdir()
    )
