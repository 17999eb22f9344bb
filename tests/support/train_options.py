"""The table of all options of ``gtrans train``, as fairseq's parser and the plugin declare them.

``python tests/support/train_options.py`` writes it anew.
"""

from __future__ import annotations

import argparse
import json
from pathlib import Path
from typing import Any

from gtrans.cli.shared.train_words import TABLE

_LISTS = ("lr", "update_freq")  # fairseq reads their words with a lambda


def table() -> dict[str, Any]:
    """``options``: by all names of an option its kind or its choices; ``architectures``."""
    from fairseq import options
    from fairseq.models import ARCH_MODEL_REGISTRY
    from fairseq.registry import REGISTRIES
    from fairseq.tasks import TASK_REGISTRY

    from gtrans.decoding.loading import import_plugin
    from gtrans.models.base.model import DocumentModel

    import_plugin()
    ours = [
        name
        for name, model in ARCH_MODEL_REGISTRY.items()
        if isinstance(model, type) and issubclass(model, DocumentModel)
    ]
    found: dict[str, Any] = {}
    found |= _options_of(options.get_training_parser(default_task="document_translation"))
    classes = [TASK_REGISTRY["document_translation"], *map(ARCH_MODEL_REGISTRY.get, ours)]
    for kind in ("criterion", "optimizer", "lr_scheduler"):
        classes += REGISTRIES[kind]["registry"].values()
    for one in classes:
        parser = argparse.ArgumentParser(add_help=False, conflict_handler="resolve")
        if hasattr(one, "add_args"):
            one.add_args(parser)
        else:
            options.gen_parser_from_dataclass(parser, one.__dataclass())
        found = _options_of(parser) | found
    found["--arch -a"] = "str"
    return {"options": dict(sorted(found.items())), "architectures": sorted(ours)}


def _options_of(parser: argparse.ArgumentParser) -> dict[str, Any]:
    return {
        " ".join(action.option_strings): _kind(action)
        for action in parser._actions
        if action.option_strings and action.dest != "help"
    }


def _kind(action: argparse.Action) -> Any:
    if action.nargs == 0:
        return "flag" if action.const else "off"
    if action.choices:
        return [str(choice) for choice in action.choices]
    if action.dest in _LISTS:
        return "list"
    return action.type.__name__ if action.type in (int, float) else "str"


if __name__ == "__main__":
    lines = json.dumps(table(), indent=1).replace("\n   ", " ").replace("\n  ]", " ]")
    Path(TABLE).write_text(f"{lines}\n", encoding="utf-8")
