"""The options of units, defined once: of the task, and in what a checkpoint says of its model."""

from dataclasses import dataclass, field
from typing import Any, Optional

from fairseq.dataclass import ChoiceEnum

from gtrans.data.frame import SENTENCE_MARKS
from gtrans.data.units import CONTEXT_KINDS, CONTEXT_SIDES, UNITS


def option(default: Any, help_text: str) -> Any:
    """A field of a class of options."""
    return field(default=default, metadata={"help": help_text})


@dataclass
class UnitConfig:
    """What is read at once."""

    unit: Optional[ChoiceEnum(list(UNITS))] = option(  # type: ignore[valid-type]
        None,
        "what is read at once: a sentence, a sentence and its neighbours (window), consecutive "
        "sentences of one document (document), or documents next to each other, sentence after "
        "sentence (stream) (default: what the model is made for; in decoding the checkpoint's)",
    )
    max_doc_tokens: int = option(
        512, "most tokens of a document unit, marks included; sentences are never cut"
    )
    context_before: Optional[int] = option(
        None, "sentences before the current one in a window (default: the model's, mostly 1)"
    )
    context_after: Optional[int] = option(
        None, "sentences after the current one in a window (default: the model's, mostly 0)"
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
        "where a window has its other sentences: on the source side only; on both, and their "
        "translations are written, too (concatenation); or both, and the translations made "
        "before are read (history) (default: what the model is made for)",
    )
    sentence_marks: Optional[ChoiceEnum(list(SENTENCE_MARKS))] = option(  # type: ignore[valid-type]
        None,
        "both: '<s> .. </s>' around every sentence (paper); end: '</s>' after it, the frame of "
        "stock fairseq sentence models; bart, mbart, mbart50: those of the pretrained models "
        "(default: what the architecture is made for)",
    )
    # Any: fairseq's multilingual task has an option of this name, whose value is a list.
    langs: Any = option(
        None, "languages 'en,de,..' whose symbols [en], [de], .. follow the dictionary's own"
    )


# What a checkpoint says of its units, and models that work as one must agree on.
UNIT_FIELDS = tuple(UnitConfig.__dataclass_fields__)
