"""The options of units, defined once for the task and for the checkpoints of its models."""

import math
from collections.abc import Iterable
from dataclasses import dataclass, field, fields
from typing import Any, Optional

from fairseq.dataclass import ChoiceEnum

from gtrans.data.frame import SPECIAL_TOKENS
from gtrans.data.units import CONTEXT_KINDS, CONTEXT_SIDES, UNITS
from gtrans.errors import GtransError
from gtrans.modules import STEPS

START = "starting from a sentence model"  # heading of the help, of options of task and models


def option(
    default: Any,
    help_text: str,
    group: str = "",
    alias: str = "",
    least: float | None = None,
    below: float | None = None,
) -> Any:
    """A field of a class of options.

    Args:
        default: value of the option.
        help_text: its meaning.
        group: heading under which the help shows it; of its class, if it is empty.
        alias: a short name, such as ``-s``.
        least, below: limits of a number (:func:`check_ranges`).
    """
    further = {"group": group, "argparse_alias": alias, "least": least, "below": below}
    given = {name: value for name, value in further.items() if value not in ("", None)}
    return field(default=default, metadata={"help": help_text, **given})


def check_ranges(cfg: Any, options: type) -> None:
    """Refuse numbers out of the range that their fields in the class ``options`` declare.

    Raises:
        GtransError: naming the option and its value.
    """
    for declared in fields(options):
        least, below = declared.metadata.get("least"), declared.metadata.get("below", math.inf)
        if least is None and "float" in str(declared.type):
            number = getattr(cfg, declared.name, None)
            if number is not None and not math.isfinite(number):
                flag = declared.name.replace("_", "-")
                raise GtransError(f"`--{flag}` must be a finite number, but is {number}.")
        value = None if least is None else getattr(cfg, declared.name)
        if value is not None and not least <= value < below:
            most = "" if below == math.inf else f" and below {below:g}"
            flag = declared.name.replace("_", "-")
            raise GtransError(f"`--{flag}` must be at least {least:g}{most}, but is {value}.")


def option_again(options: type, name: str, default: Any) -> Any:
    """The field ``name`` of a class of options, for a subclass in which its default is another."""
    return field(default=default, metadata=options.__dataclass_fields__[name].metadata)  # type: ignore[attr-defined]


def refuse_given(cfg: Any, options: type, names: Iterable[str], why: str) -> None:
    """Refuse options that nothing would read.

    Args:
        cfg: the options.
        options: the class that declares them with their defaults.
        names: which.
        why: of a sentence that begins with the option.

    Raises:
        GtransError: one of them is not at its default.
    """
    defaults = options()
    for name in names:
        value, flag = getattr(cfg, name), f"--{name.replace('_', '-')}"
        if str(value) != str(getattr(defaults, name)):
            given = flag if value is True else f"{flag} {value}"
            raise GtransError(f"`{given}` {why}, or leave `{flag}` out.")


@dataclass
class UnitConfig:
    """Units, contexts and special tokens."""

    unit: Optional[ChoiceEnum(list(UNITS))] = option(  # type: ignore[valid-type]
        None,
        "what the model sees at once: sentence: one sentence; window: a sentence and its "
        "neighbours; document: consecutive sentences of one document; stream: whole documents, "
        "sentence after sentence or chunk after chunk (default: by --arch; "
        "in decoding the checkpoint's)",
    )
    max_doc_tokens: int = option(
        512,
        "most tokens of a chunk, the consecutive sentences of a document that a model sees at "
        "once, special tokens included; sentences are never cut",
    )
    stream_of: Optional[ChoiceEnum(list(STEPS))] = option(  # type: ignore[valid-type]
        None,
        "with --unit stream: what a model sees, and updates its memory with, at once: sentences, "
        "or instances, which are chunks of --max-doc-tokens (default: by --arch)",
    )
    context_before: Optional[int] = option(
        None, "sentences before the current one in a window (default: by --arch)"
    )
    context_after: Optional[int] = option(
        None, "sentences after the current one in a window (default: by --arch)"
    )
    context_kind: ChoiceEnum(list(CONTEXT_KINDS)) = option(  # type: ignore[valid-type]
        "true",
        "the context that the model is shown: true: the text's own; fixed: --context-sentence; "
        "random: as many random words; none: no context (table 5.4). "
        "Decoding takes the checkpoint's, unless `gtrans translate --context-kind` or "
        "--model-overrides \"{'context_kind': 'random'}\" says otherwise",
    )
    context_sentence: Optional[str] = option(
        None, "the sentence of --context-kind fixed, in tokens of the corpus"
    )
    context_sides: Optional[ChoiceEnum(list(CONTEXT_SIDES))] = option(  # type: ignore[valid-type]
        None,
        "where a window has its other sentences: source: on the source side only; both: on both "
        "sides, and the model translates all of them (concatenation); history: on both sides, "
        "and the model attends to its earlier translations (default: by --arch)",
    )
    sentence_marks: Optional[ChoiceEnum(list(SPECIAL_TOKENS))] = option(  # type: ignore[valid-type]
        None,
        "special tokens of every sentence: both: '<s> .. </s>' around it (paper); end: '</s>' "
        "after it, as in fairseq's sentence models; bart, mbart, mbart50: as in these pretrained "
        "models; document, mbart-document: '</s>' after it, '<s>' or the language once in a unit, "
        "whose end the model predicts (only with --doc-mode full, whose default they are) "
        "(default: by --arch)",
    )
    # Any: fairseq's multilingual task has an option of this name, whose value is a list.
    langs: Any = option(
        None,
        "languages 'en,de,..' whose tokens [en], [de], .. are added after the dictionary's own",
    )


# What a checkpoint records of its units, and what the models of an ensemble must agree on.
UNIT_FIELDS = tuple(UnitConfig.__dataclass_fields__)
