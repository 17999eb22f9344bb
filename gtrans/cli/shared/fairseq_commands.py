"""fairseq's commands with the plugin in place: its parsers, and what their users get wrong."""

from __future__ import annotations

import argparse
import logging
import sys
from collections.abc import Callable, Sequence
from functools import partial
from types import ModuleType
from typing import Any

from fairseq import options, utils
from fairseq.models import ARCH_MODEL_REGISTRY
from fairseq.registry import REGISTRIES
from fairseq.tasks import TASK_REGISTRY

import gtrans
from gtrans.cli.shared.dispatch import end_mistyped
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
        GtransError: ``--user-dir`` cannot be imported, or ``--arch`` is missing in training.
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
    parser = make_parser(default_task=TASK)
    parser.prog = f"gtrans {command.__name__.rpartition('.')[2]}"
    parser.error = partial(end_mistyped, parser)  # type: ignore[method-assign]
    parser.set_defaults(user_dir=gtrans.__path__[0])
    add(parser)
    known, _ = parser.parse_known_args(words)
    if len(words) < len(argv):
        parser.usage = f"{parser.prog} DATA [OPTION ...]"
        print(_help(command, parser, known, trains))
        parser.exit()
    if known.arch is None:
        raise GtransError("`--arch` is missing; `gtrans options` lists the architectures.")
    parsed: argparse.Namespace = options.parse_args_and_arch(parser, words)
    return parsed


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
