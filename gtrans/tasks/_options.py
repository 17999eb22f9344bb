"""Options of the document task, and what they name on disk."""

import os
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Optional

from fairseq.data import Dictionary
from fairseq.dataclass import ChoiceEnum, FairseqDataclass
from fairseq.models import ARCH_MODEL_REGISTRY
from omegaconf import II

from gtrans.data.frame import SENTENCE_MARKS
from gtrans.data.stream import WindowOptions
from gtrans.data.units import CONTEXT_KINDS, CONTEXT_SIDES, UNITS, UnitOptions
from gtrans.errors import GtransError
from gtrans.models._presets import option


@dataclass
class DocumentTranslationConfig(FairseqDataclass):
    """Options of :class:`DocumentTranslationTask`."""

    data: Optional[str] = option(
        None, "folder made by fairseq-preprocess; several joined by ':' take turns, one an epoch"
    )
    source_lang: Optional[str] = field(
        default=None, metadata={"help": "source language", "argparse_alias": "-s"}
    )
    target_lang: Optional[str] = field(
        default=None, metadata={"help": "target language", "argparse_alias": "-t"}
    )
    unit: Optional[ChoiceEnum(list(UNITS))] = option(  # type: ignore[valid-type]
        None,
        "what is read at once: a sentence, a sentence and its neighbours, or consecutive "
        "sentences of one document (default: what the model is made for; in decoding the "
        "checkpoint's)",
    )
    max_doc_tokens: int = option(
        512, "most tokens of a document unit, marks included; sentences are never cut"
    )
    context_before: Optional[int] = option(
        None, "sentences before the current one in a window (default: the model's, mostly 1)"
    )
    context_after: Optional[int] = option(
        None, "sentences behind the current one in a window (default: the model's, mostly 0)"
    )
    context_kind: ChoiceEnum(list(CONTEXT_KINDS)) = option(  # type: ignore[valid-type]
        "true",
        "what stands in the place of a window's other sentences: themselves, a fixed sentence, "
        "as many random words, or nothing; in decoding the checkpoint's, but for `gtrans "
        "translate --context-kind`, or --model-overrides \"{'context_kind': 'random'}\"",
    )
    context_sentence: Optional[str] = option(
        None, "with --context-kind fixed: that sentence, in tokens of the corpus"
    )
    context_sides: Optional[ChoiceEnum(list(CONTEXT_SIDES))] = option(  # type: ignore[valid-type]
        None,
        "whether a window has its other sentences on the source side only, or on both, as in "
        "concatenation (default: what the model is made for)",
    )
    min_window: int = option(
        5, "with unit stream: least sentences of a document that an update reads"
    )
    max_window: int = option(
        10,
        "with unit stream: most of them; the number is drawn anew for every update (0: whole "
        "documents)",
    )
    sentence_marks: Optional[ChoiceEnum(list(SENTENCE_MARKS))] = option(  # type: ignore[valid-type]
        None,
        "both: '<s> .. </s>' around every sentence (paper); end: '</s>' behind it, the frame of "
        "stock fairseq sentence models; bart, mbart, mbart50: those of the pretrained models "
        "(default: what the architecture is made for)",
    )
    langs: Optional[str] = option(
        None, "languages 'en,de,..' whose symbols [en], [de], .. follow the dictionary's own"
    )
    bert_cache: Optional[str] = option(
        None,
        "folder for the output of the frozen BERT, computed once for each window; several runs "
        "may share it (default: bert-features in the data folder)",
    )
    bert_cache_gb: float = option(20.0, "most gigabytes of that folder; 0: keep nothing")
    word_dropout: float = option(
        0.0, "probability of replacing a word of source and decoder input by <mask> in training"
    )
    word_dropout_epochs: int = option(
        0, "word dropout is in force for so many first epochs (0: all)"
    )
    init_from: Optional[str] = option(
        None,
        "checkpoint of a sentence (or document) model to start from; not needed when resuming",
    )
    copy_local_to_global: bool = option(
        False, "with --init-from: start global attention from the group attention of its layer"
    )
    lr_scale_pretrained: float = option(
        0.2, "with --init-from: learning rate of loaded parameters as a part of --lr (0: "
        "they stay as they are)",
    )
    dataset_impl: Any = II("dataset.dataset_impl")
    train_subset: str = II("dataset.train_subset")
    seed: int = II("common.seed")
    update_freq: Any = II("optimization.update_freq")


def data_folders(cfg: Any) -> list[str]:
    """The folders of ``cfg.data``.

    Raises:
        GtransError: none is given, or one is missing.
    """
    folders: list[str] = [part for part in str(cfg.data or "").split(os.pathsep) if part]
    if not folders:
        raise GtransError("no data folder is given; name the one that `gtrans prepare` wrote.")
    for folder in folders:
        if not os.path.isdir(folder):
            raise GtransError(f"{folder}: there is no such data folder.")
    return folders


def read_dictionary(folder: str, lang: Optional[str]) -> Dictionary:
    """The dictionary of a language.

    Raises:
        GtransError: there is none.
    """
    path = Path(folder) / f"dict.{lang}.txt"
    if not path.is_file():
        raise GtransError(f"{path}: there is no such dictionary; prepare the corpus there.")
    return Dictionary.load(str(path))


def check_options(cfg: Any) -> None:
    """Raises GtransError for a value out of range, naming flag and value."""
    unit_options(cfg)
    window_options(cfg)
    if not 0 <= cfg.word_dropout < 1:
        raise GtransError(
            f"`--word-dropout` must be at least 0 and below 1, but is {cfg.word_dropout}."
        )
    if cfg.word_dropout_epochs < 0:
        raise GtransError(
            f"`--word-dropout-epochs` must be at least 0, but is {cfg.word_dropout_epochs}."
        )
    for flag in ("lr_scale_pretrained", "bert_cache_gb"):
        value = getattr(cfg, flag)
        if value < 0:
            raise GtransError(f"`--{flag.replace('_', '-')}` must be at least 0, but is {value}.")


def unit_options(cfg: Any) -> UnitOptions:
    """The unit that ``cfg`` describes; where it is silent, documents.

    Raises:
        GtransError: a value out of range, a fixed context without its sentence, or a
            replaced one for a unit without context.
    """
    if cfg.unit not in (None, "window") and cfg.context_kind != "true":
        raise GtransError(
            f"`--context-kind {cfg.context_kind}` is for the unit window, but this is the unit "
            f"{cfg.unit}; leave it out."
        )
    if cfg.context_kind == "fixed" and not cfg.context_sentence:
        raise GtransError("`--context-kind fixed` needs `--context-sentence 'TOKENS ..'`.")
    return UnitOptions(
        unit=str(cfg.unit or "document"),
        max_doc_tokens=int(cfg.max_doc_tokens),
        context_before=1 if cfg.context_before is None else int(cfg.context_before),
        context_after=int(cfg.context_after or 0),
        context_kind=str(cfg.context_kind),
        context_sides=str(cfg.context_sides or "source"),
    )


def window_options(cfg: Any) -> WindowOptions:
    """The windows of training on streams.

    Raises:
        GtransError: lengths that make no window.
    """
    return WindowOptions(int(cfg.min_window), int(cfg.max_window), int(cfg.seed))


def adopt_unit(cfg: Any, model: Any, arch: Optional[str]) -> None:
    """Fill in what is left open of the unit with what ``model`` (a class) is made for.

    Sentence marks are those of the architecture ``arch``.

    Raises:
        GtransError: the model cannot read such units.
    """
    for name, choices, default in (
        ("unit", "units", ("document", "sentence")),
        ("context_sides", "context_sides", ("source",)),
    ):
        possible = getattr(model, choices, default)
        if cfg[name] is None:
            cfg[name] = possible[0]
        if str(cfg[name]) not in possible:
            raise GtransError(
                f"`--{name.replace('_', '-')} {cfg[name]}`: this model takes "
                f"{' or '.join(possible)}; choose one of them."
            )
    sizes = getattr(model, "context_size", (1, 0))
    for name, size in zip(("context_before", "context_after"), sizes, strict=True):
        if cfg[name] is None:
            cfg[name] = size
    if cfg.sentence_marks is None:
        cfg.sentence_marks = getattr(model, "sentence_marks", {}).get(arch, "both")


def model_class(cfg: Any) -> Any:
    """The class of the model that ``cfg`` names; hydra does not look at the name.

    Raises:
        GtransError: there is no such model.
    """
    name = cfg.get("_name")
    if name and name not in ARCH_MODEL_REGISTRY:
        ours = [arch for arch, of in ARCH_MODEL_REGISTRY.items() if of.__module__[:7] == "gtrans."]
        raise GtransError(
            f"there is no model '{name}'; those of this project are {', '.join(sorted(ours))}."
        )
    return ARCH_MODEL_REGISTRY.get(name)
