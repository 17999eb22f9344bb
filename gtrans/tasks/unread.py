"""Options that are given, but that nothing reads: a run says so when it begins."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import fields
from typing import Any

from gtrans.data.units import UNIT_OPTIONS, unit_class
from gtrans.messages import say
from gtrans.modules.steps import STEPS
from gtrans.tasks.options import DocumentTranslationConfig

_BERT = ("bert_cache", "bert_cache_gb")


def given_options(cfg: Any) -> frozenset[str]:
    """The options of the task that are not at their defaults, before a model fills others in."""
    defaults = {field.name: str(field.default) for field in fields(DocumentTranslationConfig)}
    # Those of other groups of options are interpolated.
    own = (name for name, default in defaults.items() if not default.startswith("${"))
    return frozenset(name for name in own if str(cfg[name]) != defaults[name])


def say_unread(cfg: Any, given: Collection[str], reads_bert: bool) -> None:
    """Name the options that have no effect.

    Args:
        cfg: the task's options, with those of the model's unit filled in.
        given: see :func:`given_options`.
        reads_bert: whether the model reads a BERT.
    """
    kind = str(cfg.context_kind)
    steps = str(cfg.stream_of or STEPS[0])
    unit = unit_class(str(cfg.unit), steps)
    # With `--recut` other units are refused when the training set is read.
    unread = UNIT_OPTIONS - {*unit.options, "recut"}
    of = f"streams of {steps}" if unit.name == "stream" else f"the unit {unit.name}"
    why = dict.fromkeys(unread, f"with {of}")
    for names, needed, there in (
        (("context_sentence",), "`--context-kind fixed`", kind == "fixed"),
        (("context_redraw",), "`--context-kind random`", kind == "random"),
        (("word_dropout_epochs",), "`--word-dropout`", cfg.word_dropout),
        (("lr_scale_pretrained", "copy_local_to_global"), "`--init-from`", cfg.init_from),
        (
            ("sample_seed",),
            "`--sample-documents` or `--sample-instances`",
            cfg.sample_documents or cfg.sample_instances,
        ),
        (_BERT, "a model that reads a BERT", reads_bert),
    ):
        if not there:
            why = dict.fromkeys(names, f"without {needed}") | why
    for name in sorted(given & why.keys()):
        say(f"`--{name.replace('_', '-')}` has no effect {why[name]}")
