"""fairseq's commands with the plugin in place: its parsers, and what their users get wrong."""

from __future__ import annotations

import argparse
import logging
import sys
from collections.abc import Callable, Sequence
from dataclasses import fields
from difflib import get_close_matches
from types import ModuleType
from typing import Any

from fairseq import options, utils
from fairseq.models import ARCH_MODEL_REGISTRY, MODEL_DATACLASS_REGISTRY, MODEL_REGISTRY
from fairseq.registry import REGISTRIES
from fairseq.tasks import TASK_DATACLASS_REGISTRY, TASK_REGISTRY

import gtrans
from gtrans.decoding.loading import TASK, import_plugin
from gtrans.errors import GtransError
from gtrans.options.catalogue import architectures
from gtrans.options.rendering import (
    chosen_explanation,
    explanation,
    overview,
    systems_explanation,
    task_explanation,
)

_HELP = {"-h", "--help"}
_CONFIGURATION = ("--config-dir", "--config-name", "--config-path")
# Options of fairseq's Transformer that this project's models do not have, and what does it here.
_ELSEWHERE = {
    "--decoder-embed-dim": "both sides have the width that `--encoder-embed-dim` sets",
}


def parse(
    command: ModuleType,
    make_parser: Callable[..., argparse.ArgumentParser],
    argv: Sequence[str],
    add: Callable[[argparse.ArgumentParser], Any] = lambda parser: None,
    trains: bool = False,
) -> argparse.Namespace:
    """The options of fairseq's command, as its own ``cli_main`` reads them.

    The task is ``document_translation`` unless ``--task`` names another, and ``--user-dir`` is this
    package unless it is given; it is only needed for code besides this package.

    Args:
        command: the module of the command; its docstring and ``EXAMPLE`` stand in the help.
        make_parser: fairseq's function that makes the parser.
        argv: the command line after the name. With ``--help``, the help is printed: the options
            of this project, those of all systems or of the ``--arch`` in ``argv``, then fairseq's.
        add: declares further options.
        trains: the command makes a model, and does not read its options from a checkpoint.

    Raises:
        GtransError: ``--user-dir`` cannot be imported, or ``--arch`` is missing or unknown in
            training.
    """
    _end_with_the_reader_of_the_log()
    # fairseq composes options with hydra, which logs what it does in between.
    logging.getLogger("hydra").setLevel(logging.INFO)
    import_plugin()
    words = [word for word in argv if word not in _HELP]
    early = argparse.ArgumentParser(add_help=False, allow_abbrev=False)
    early.add_argument("--user-dir")
    early.add_argument("--arch", "-a")
    given, _ = early.parse_known_args(words)
    try:
        utils.import_user_module(given)
    except (FileNotFoundError, ImportError) as error:
        raise GtransError(f"`--user-dir` cannot be imported: {error}") from error
    if given.arch is not None and given.arch not in {*ARCH_MODEL_REGISTRY, *MODEL_REGISTRY}:
        raise GtransError(
            f"`--arch {given.arch}`: there is no such architecture; `gtrans options` lists all of "
            "this project."
        )
    if given.arch in architectures():
        for flag in sorted({word.partition("=")[0] for word in words} & _ELSEWHERE.keys()):
            raise GtransError(f"`{flag}`: there is no such option; {_ELSEWHERE[flag]}.")
    parser = make_parser(default_task=TASK)
    parser.prog = f"gtrans {command.__name__.rpartition('.')[2]}"
    usage = f"{parser.prog} DATA [OPTION ...]"
    parser.usage = f"{usage}; '{parser.prog} --help' explains the options"
    parser.set_defaults(user_dir=gtrans.__path__[0])
    add(parser)
    known, unknown = parser.parse_known_args(words)
    if len(words) < len(argv):
        parser.usage = usage
        print(_help(command, parser, known, trains))
        parser.exit()
    if known.arch is None:
        _refuse_unknown(unknown)
        if not words:
            raise GtransError("DATA is missing: the folder that `gtrans prepare` wrote.")
        raise GtransError("`--arch` is missing; `gtrans options` lists the architectures.")
    parsed: argparse.Namespace = options.parse_args_and_arch(parser, words)
    return parsed


def _refuse_unknown(words: Sequence[str]) -> None:
    """Refuse an option that no task, system, criterion, .. has, as long as ``--arch`` is open.

    Raises:
        GtransError: there is such an option in ``words``.
    """
    known = set(_CONFIGURATION)
    registries = (registry["dataclass_registry"] for registry in REGISTRIES.values())
    for registered in (TASK_DATACLASS_REGISTRY, MODEL_DATACLASS_REGISTRY, *registries):
        for schema in filter(None, registered.values()):
            known |= {f"--{field.name.replace('_', '-')}" for field in fields(schema)}
    for word in words:
        flag = word.partition("=")[0]
        if flag.startswith("--") and not any(option.startswith(flag) for option in known):
            close = get_close_matches(flag, known, 1)
            hint = f"do you mean {close[0]}?" if close else "`gtrans train --help` lists all."
            raise GtransError(f"`{flag}`: there is no such option; {hint}")


def _help(
    command: ModuleType, parser: argparse.ArgumentParser, known: argparse.Namespace, trains: bool
) -> str:
    """The help of a front: this project's options by group, then fairseq's."""
    about = f"usage: {parser.usage}\n\n{str(command.__doc__).strip()}\n\nexample:"
    ours = [f"{about}\n  {command.EXAMPLE}"]
    own_arch = known.arch in architectures()
    if known.task != TASK:
        TASK_REGISTRY[known.task].add_args(parser)
    elif not (trains and own_arch):
        ours.append(task_explanation())
    if trains and own_arch:
        ours.append(explanation(known.arch))
    elif trains and known.arch is None:
        ours.append(
            "The systems, by the architecture that --arch names; with --arch ARCH, this help has "
            f"only the options of ARCH.\n\n{overview()}\n\n{systems_explanation()}"
        )
    elif trains:
        ARCH_MODEL_REGISTRY[known.arch].add_args(parser)
    for section, registry in REGISTRIES.items():
        chosen = str(getattr(known, section, None))
        if chosen in registry["dataclass_registry"]:
            ours += filter(None, [chosen_explanation(section, chosen)])
    parser.usage = argparse.SUPPRESS
    return "\n\n".join([*ours, "Options of fairseq\n", parser.format_help()])


def _end_with_the_reader_of_the_log() -> None:
    """Let a command end when nobody reads its log any more, as other programs do.

    Python's own handlers would print a stack trace for every line instead.
    """
    for handler in logging.getLogger().handlers:
        handler.handleError = _raise_broken_pipe  # type: ignore[method-assign]


def _raise_broken_pipe(record: logging.LogRecord) -> None:
    error = sys.exc_info()[1]
    if isinstance(error, BrokenPipeError):
        raise error
    logging.Handler().handleError(record)
