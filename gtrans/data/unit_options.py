"""The options of units: fields of the task, and of the checkpoints of its models."""

from dataclasses import dataclass
from typing import Any, Optional

from fairseq.dataclass import ChoiceEnum

from gtrans.data.frame import SPECIAL_TOKENS
from gtrans.data.units import CONTEXT_KINDS, CONTEXT_SIDES, UNITS
from gtrans.modules import STEPS
from gtrans.option_types import option


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
