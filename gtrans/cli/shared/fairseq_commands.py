"""fairseq's commands with the plugin in place: its parsers, and what their users get wrong."""

from __future__ import annotations

import argparse
import logging
import sys
import textwrap
from collections.abc import Callable, Collection, Iterable, Sequence
from functools import partial
from types import ModuleType
from typing import Any

from fairseq import options, utils
from fairseq.dataclass.utils import gen_parser_from_dataclass
from fairseq.models import (
    ARCH_CONFIG_REGISTRY,
    ARCH_MODEL_NAME_REGISTRY,
    ARCH_MODEL_REGISTRY,
)
from fairseq.registry import REGISTRIES
from fairseq.tasks import TASK_REGISTRY

import gtrans
from gtrans.cli.shared.config_file import FOLDER, config_names
from gtrans.cli.shared.dispatch import end_mistyped
from gtrans.decoding.loading import TASK, import_plugin
from gtrans.errors import GtransError
from gtrans.models.base.model import DocumentModel
from gtrans.shipped import shipped

_HELP = {"-h", "--help"}


def parse(
    command: ModuleType,
    make_parser: Callable[..., argparse.ArgumentParser],
    argv: Sequence[str],
    add: Callable[[argparse.ArgumentParser], Any] = lambda parser: None,
    trains: bool = False,
    may_leave: Collection[str] = (),
) -> tuple[argparse.Namespace, list[str]]:
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
        may_leave: words that may be options of nothing that is chosen.

    Returns:
        The options, and what of ``may_leave`` is none of them.

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
    if _HELP & set(argv):
        parser.usage = f"{parser.prog} DATA [OPTION ...]"
        print(_help(command, parser, known, trains))
        parser.exit()
    if known.arch is None:
        raise GtransError(
            "`--arch` is missing, or `--config NAME`; `gtrans train --help` lists both."
        )
    parsed, unread = options.parse_args_and_arch(parser, words, parse_known=True)
    mistyped = [word for word in unread if word not in may_leave]
    if mistyped:
        parser.error(f"unrecognized arguments: {' '.join(mistyped)}")
    return parsed, unread


def architectures() -> dict[str, type[DocumentModel]]:
    """The architectures of this project, each with its model class, sorted by model."""
    import_plugin()
    ours = {
        name: model
        for name, model in ARCH_MODEL_REGISTRY.items()
        if isinstance(model, type) and issubclass(model, DocumentModel)
    }
    # fairseq imports the files of models/ in no certain order.
    names = sorted(ours, key=lambda arch: ARCH_MODEL_NAME_REGISTRY[arch])
    return {name: ours[name] for name in names}


def _help(
    command: ModuleType, parser: argparse.ArgumentParser, known: argparse.Namespace, trains: bool
) -> str:
    """The help of a front: this project's options, by argparse's groups, then fairseq's."""
    text = f"usage: {parser.usage}\n\n{str(command.__doc__).strip()}\n\nexample:\n"
    text += f"  {command.EXAMPLE}\n"
    ours = argparse.ArgumentParser(add_help=False, usage=argparse.SUPPRESS, allow_abbrev=False)
    if trains and known.arch is None:
        names: dict[type[DocumentModel], list[str]] = {}
        for arch, model in architectures().items():
            names.setdefault(model, []).append(arch)
        text += f"\n--config NAME (files of {shipped(FOLDER)}):\n{_listed(config_names())}"
        text += "\n\n--arch ARCH (`--help --arch ARCH` has the options of ARCH):\n"
        text += "\n".join(f"  {_title(model)}:\n{_listed(of)}" for model, of in names.items())
        text += "\n"
    TASK_REGISTRY[known.task].add_args(ours.add_argument_group(f"--task {known.task}"))
    if trains and known.arch is not None:
        model = ARCH_MODEL_REGISTRY[known.arch]
        group = ours.add_argument_group(f"--arch {known.arch}: {_title(model)}")
        model.add_args(group)
        preset = argparse.Namespace()
        ARCH_CONFIG_REGISTRY[known.arch](preset)
        ours.set_defaults(**vars(preset))
    for section, registry in REGISTRIES.items():
        chosen = getattr(known, section, None)
        schema = registry["dataclass_registry"].get(chosen)
        if schema is not None:
            gen_parser_from_dataclass(ours.add_argument_group(f"--{section} {chosen}"), schema())
    _with_defaults(ours)
    parser.usage = argparse.SUPPRESS
    return "\n".join([text, ours.format_help(), "Options of fairseq\n", parser.format_help()])


def _listed(names: Iterable[str]) -> str:
    return textwrap.fill(
        ", ".join(names), 100, initial_indent="    ", subsequent_indent="    ",
        break_on_hyphens=False,
    )  # fmt: skip


def _title(model: type) -> str:
    """The first line of a class's docstring."""
    return str(model.__doc__).strip().splitlines()[0].replace("``", "").rstrip(".")


def _with_defaults(parser: argparse.ArgumentParser) -> None:
    """Add defaults to help texts that do not name them; hide copies of other options."""
    for action in parser._actions:
        default = parser.get_default(action.dest)
        if str(default).startswith("${"):
            action.help = argparse.SUPPRESS
        elif default not in (None, False, ""):
            value, text = str(default).replace("%", "%%"), action.help or ""
            told = text.replace("(default: ", f"(default: {value}, ")
            action.help = told if told != text else f"{text} (default: {value})"


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
