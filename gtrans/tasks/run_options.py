"""Options of training runs: which part of the training set is read, and how runs are judged."""

from dataclasses import dataclass, fields
from typing import Any, Optional

from fairseq.dataclass import ChoiceEnum
from omegaconf import open_dict

from gtrans.data.unit_options import option

VALIDATION, EPOCH = "validation", "epoch"


@dataclass
class SampleConfig:
    """Part of the training set."""

    min_doc_tokens: int = option(
        0,
        "train only on documents of at least this number of tokens, counted as --max-doc-tokens "
        "counts them (longer side, two marks for each sentence); 0: on all",
        least=0,
    )
    sample_instances: int = option(
        0,
        "train only on this number of instances, drawn at random, the same whatever --seed is; a "
        "smaller sample is part of a larger one; an instance is what the model reads at once "
        "(--unit; with stream a document); 0: on all",
        least=0,
    )


@dataclass
class ValidationConfig:
    """Validation by translations, and patience."""

    eval_bleu: bool = option(
        False,
        "translate the validation documents at every validation, as `gtrans translate` does, and "
        "log s_bleu, d_bleu and chrf, which --best-checkpoint-metric can name (with "
        "--maximize-best-checkpoint-metric)",
    )
    eval_bleu_args: str = option(
        "{}",
        "with --eval-bleu: flags of `gtrans translate` for the search as JSON, such as "
        "'{\"beam\": 1}'",
    )
    eval_bleu_documents: int = option(
        0,
        "with --eval-bleu: translate only this number of documents, the first ones; 0: all",
        least=0,
    )
    eval_bleu_reference: Optional[str] = option(
        None,
        "with --eval-bleu: plain text of the reference, of the first --valid-subset (default: the "
        "text that `gtrans prepare` keeps in the data folder)",
    )
    patience_unit: ChoiceEnum([VALIDATION, EPOCH]) = option(  # type: ignore[valid-type]
        VALIDATION,
        "what --patience counts: validation: all validations, as in fairseq; epoch: those at the "
        "ends of epochs only, so that validations in between (--validate-interval-updates, "
        "--save-interval-updates) do not end a run earlier",
    )
    save_without_validation: bool = option(
        False, "do not validate for the checkpoints of --save-interval-updates"
    )


def read_everything(cfg: Any) -> None:
    """Forget which part of the training set a model has read, and how, for its other commands.

    Args:
        cfg: options of the task in a checkpoint, which are changed.
    """
    with open_dict(cfg):
        for field in fields(SampleConfig):
            cfg[field.name] = field.default
        cfg.mix = None
