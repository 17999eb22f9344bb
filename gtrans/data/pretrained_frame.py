"""The marks around sentences that a pretrained model of fairseq's was trained with."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from gtrans.data.symbols import split_languages

_LANGUAGES_OF_MBART25 = 25


def pretrained_marks(options: Mapping[str, Any]) -> str:
    """One of :data:`gtrans.data.frame.SENTENCE_MARKS`, from the options in a checkpoint.

    mBART has its language behind a sentence, mBART-50 (multilingual fine-tuning, or more than the
    25 languages) in front of it; fairseq's multilingual task may have its languages in a file,
    ``lang_dict``. Without languages it is BART.
    """
    if options.get("sentence_marks"):  # a checkpoint of this project
        return str(options["sentence_marks"])
    langs = split_languages(options.get("langs"))
    multilingual = options.get("decoder_langtok") or options.get("lang_dict")
    if multilingual or len(langs) > _LANGUAGES_OF_MBART25:
        return "mbart50"
    return "mbart" if langs else "bart"
