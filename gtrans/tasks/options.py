"""Options of the document task."""

import os
from argparse import ArgumentTypeError
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields
from typing import Any, Optional

from fairseq.dataclass import ChoiceEnum, FairseqDataclass
from fairseq.models import ARCH_MODEL_REGISTRY
from omegaconf import II, open_dict

from gtrans.data.frame import ONCE_A_UNIT
from gtrans.data.stream import StreamOptions
from gtrans.data.unit_options import UnitConfig
from gtrans.data.units import Unit, unit_of
from gtrans.errors import GtransError
from gtrans.models.base.model import DocumentModel, reads_plain_documents
from gtrans.modules import STEPS
from gtrans.option_types import START, check_ranges, option, real
from gtrans.tasks.data_folders import data_folders

# Headings of the help.
_DATA = "data folders"
_STREAMS = "windows of streams"
_CHUNKS = "chunks"
_BERT = "output of a frozen BERT"
_DROPOUT = "word dropout"
_RUN = "run folder"


@dataclass
class SampleConfig:
    """Part of the training set."""

    min_doc_tokens: int = option(
        0,
        "train only on documents of at least N tokens, counted as for --max-doc-tokens; 0: on all",
        least=0,
    )
    sample_instances: int = option(
        0,
        "train only on N units (of --unit stream: documents), drawn at random; --seed does not "
        "change the draw, and a smaller sample is part of a larger one; 0: on all",
        least=0,
    )


@dataclass
class ValidationConfig:
    """Validation by translations, and patience."""

    eval_bleu: bool = option(
        False,
        "translate the validation documents at every validation, and log s_bleu, d_bleu and chrf, "
        "for --best-checkpoint-metric (with --maximize-best-checkpoint-metric)",
    )
    eval_bleu_args: str = option(
        "{}",
        "with --eval-bleu: flags of the search of `gtrans translate`, such as '{\"beam\": 1}'",
    )
    eval_bleu_documents: int = option(
        0, "with --eval-bleu: translate only the first N documents; 0: all", least=0
    )
    eval_bleu_reference: Optional[str] = option(
        None,
        "with --eval-bleu: plain text of the reference, of the first --valid-subset (default: the "
        "text that `gtrans prepare` keeps in the data folder)",
    )
    eval_bleu_print_samples: bool = option(
        False,
        "with --eval-bleu: log the first document of every validation set, translated, and its "
        "reference",
    )
    patience_unit: ChoiceEnum(["validation", "epoch"]) = option(  # type: ignore[valid-type]
        "validation",
        "what --patience counts: all validations, or only those at the ends of epochs",
    )
    save_without_validation: bool = option(
        False, "do not validate for the checkpoints of --save-interval-updates"
    )


@dataclass
class DocumentTranslationConfig(UnitConfig, SampleConfig, ValidationConfig, FairseqDataclass):
    """Data, streams, BERT, word dropout and starting points."""

    data: Optional[str] = option(
        None,
        "folder made by gtrans prepare; several joined by ':' take turns, or are mixed (--mix)",
        _DATA,
    )
    mix: Optional[str] = option(
        None,
        "with several folders: how often each is read in an epoch, joined by ':'; 0.25: a quarter "
        "of its units, drawn anew in every epoch",
        _DATA,
    )
    source_lang: Optional[str] = option(
        None, "source language (default: as in the data folder)", _DATA, "-s"
    )
    target_lang: Optional[str] = option(
        None, "target language (default: as in the data folder)", _DATA, "-t"
    )
    min_window: Optional[int] = option(
        None,
        "with --unit stream: fewest sentences (or chunks) of a document in an update "
        "(default: 5 sentences, 2 chunks)",
        _STREAMS,
    )
    max_window: Optional[int] = option(
        None,
        "with --unit stream: most sentences (or chunks) of a document in an update; their "
        "number is drawn for every update; 0: whole documents (default: 10 sentences, 4 chunks)",
        _STREAMS,
    )
    overlap: int = option(
        0,
        "in decoding: a chunk begins with the last N sentences of the chunk before and their "
        "translations",
        _CHUNKS,
    )
    bert_cache: Optional[str] = option(
        None,
        "folder where the output of the frozen BERT is kept; several runs may share it (default: "
        "bert-features in the data folder)",
        _BERT,
    )
    word_dropout: float = option(
        0.0,
        "share of the words of both inputs that become <mask> in training",
        _DROPOUT,
        least=0,
        below=1,
    )
    word_dropout_epochs: int = option(
        0, "how many first epochs have word dropout; 0: all", _DROPOUT, least=0
    )
    init_from: Optional[str] = option(
        None,
        "checkpoint of a sentence or document model to start from; not needed when resuming",
        START,
    )
    init_dict: Optional[str] = option(
        None,
        "with --init-from: dictionary of a checkpoint that does not store its vocabulary (two "
        "joined by ':' for source and target)",
        START,
    )
    init_other_vocabulary: bool = option(
        False,
        "with --init-from: accept other languages, and less than half of the vocabulary",
        START,
    )
    copy_local_to_global: bool = option(
        False,
        "with --init-from: start global attention from the group attention of its layer",
        START,
    )
    lr_scale_pretrained: Optional[float] = option(
        None,
        "with --init-from and --optimizer two_rate_adam: learning-rate multiplier of pretrained "
        "parameters (of embeddings: of the pretrained rows); 0 freezes them (default: 0.2)",
        START,
        least=0,
    )
    restart: bool = option(
        False,
        "start anew in a --save-dir that holds a run, whose checkpoints move to before-restart-1",
        _RUN,
    )
    train_subset: str = II("dataset.train_subset")
    valid_subset: str = II("dataset.valid_subset")
    seed: int = II("common.seed")
    update_freq: Any = II("optimization.update_freq")


def mix_weights(cfg: Any) -> list[float]:
    """Return how often each folder is read in an epoch (``--mix``)."""
    folders = data_folders(cfg)
    words = str(cfg.mix).split(os.pathsep)
    if len(words) != len(folders) or len(folders) < 2:
        raise GtransError(
            f"`--mix {cfg.mix}` has {len(words)} weights for {len(folders)} data folders; give one "
            "for each of several, joined by ':'."
        )
    try:
        return [real(above=0)(word) for word in words]
    except ArgumentTypeError as error:
        raise GtransError(f"`--mix {cfg.mix}`: {error}.") from None


def read_everything(cfg: Any) -> None:
    """Reset the options in a checkpoint's ``cfg`` that chose a part of the training set."""
    with open_dict(cfg):
        for field in fields(SampleConfig):
            cfg[field.name] = field.default
        cfg.mix = None


def check_options(cfg: Any) -> None:
    """Raise GtransError for a value out of range."""
    # An open unit may become a window, the only one with a context.
    unit_of("window" if cfg.unit is None else str(cfg.unit), cfg)
    for unit in ("window", None):  # the limits of both, whatever is read
        unit_of(unit, cfg)
    if cfg.min_window is not None or cfg.max_window is not None:
        stream_options(cfg)
    check_ranges(cfg, DocumentTranslationConfig)


def task_unit(cfg: Any) -> Unit:
    """Return the unit that the options describe; documents if they name none."""
    unit = unit_of(None if cfg.unit is None else str(cfg.unit), cfg)
    if cfg.overlap and unit.tokens_at_once is None:
        raise GtransError(
            f"`--overlap {cfg.overlap}` is for models that see documents, but this one sees the "
            f"unit {unit.name}; leave it out."
        )
    return unit


_SENTENCE_STEPS, _CHUNK_STEPS = STEPS
# Fewest and most steps of a window, unless options say otherwise.
_WINDOWS = {_SENTENCE_STEPS: (5, 10), _CHUNK_STEPS: (2, 4)}


def stream_options(cfg: Any) -> StreamOptions:
    """Return the lengths of windows in training on streams."""
    least, most = _WINDOWS[str(cfg.stream_of or _SENTENCE_STEPS)]
    if cfg.max_window is not None:
        most = int(cfg.max_window)
        least = min(least, most) if most else least
    if cfg.min_window is not None:
        least = int(cfg.min_window)
    return StreamOptions(least, most, int(cfg.seed))


def adopt_unit(cfg: Any, model: type[DocumentModel], options: Mapping[str, Any]) -> None:
    """Set open options of the unit to the values that ``model`` is made for.

    ``options``: of the model, with its architecture as ``_name``.
    """
    inputs = model.inputs
    _adopt_choice(cfg, "unit", inputs.units)
    _adopt_choice(cfg, "context_sides", inputs.context_sides)
    steps = inputs.stream_of if str(cfg.unit) == "stream" else None
    if cfg.stream_of is not None and str(cfg.stream_of) != steps:
        problem = "this is no stream"
        if steps:
            problem = f"this model takes streams of {steps}"
        raise GtransError(f"`--stream-of {cfg.stream_of}`: {problem}; leave it out.")
    cfg.stream_of = steps
    before, after = inputs.context_size
    if cfg.context_before is None:
        cfg.context_before = before
    if cfg.context_after is None:
        cfg.context_after = after
    if cfg.sentence_marks is None:
        cfg.sentence_marks = model.default_special_tokens(options, str(cfg.unit))
    plain = reads_plain_documents(options, str(cfg.unit))
    if cfg.sentence_marks in ONCE_A_UNIT and not plain:
        raise GtransError(
            f"`--sentence-marks {cfg.sentence_marks}` is for the document Transformer (--unit "
            "document --doc-mode full, --positions document); leave it out."
        )


def _adopt_choice(cfg: Any, name: str, possible: Sequence[str]) -> None:
    if cfg[name] is None:
        cfg[name] = possible[0]
    if str(cfg[name]) not in possible:
        raise GtransError(
            f"`--{name.replace('_', '-')} {cfg[name]}`: this model takes "
            f"{' or '.join(possible)}; choose one of them."
        )


def model_class(cfg: Any) -> type[DocumentModel]:
    """Return the class of the model in ``cfg``; raise GtransError for others' models."""
    # fairseq's older models have their options in a namespace.
    name = str(getattr(cfg, "_name", None) or getattr(cfg, "arch", None))
    registered = ARCH_MODEL_REGISTRY.get(name)
    if isinstance(registered, type) and issubclass(registered, DocumentModel):
        return registered
    problem = f"there is no model '{name}'"
    if registered is not None:
        problem = f"`--arch {name}` is fairseq's own"
    raise GtransError(f"{problem}; `gtrans train --help-all` lists those of this project.")
