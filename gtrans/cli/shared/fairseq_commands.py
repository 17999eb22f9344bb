"""fairseq's commands with the plugin in place: its parsers, and what their users get wrong."""

from __future__ import annotations

import argparse
import os
from collections.abc import Callable, Sequence
from types import ModuleType
from typing import Any

from fairseq import options, utils
from fairseq.models import ARCH_MODEL_REGISTRY
from fairseq.tasks import TASK_REGISTRY

import gtrans
from gtrans.decoding.loading import TASK, import_plugin
from gtrans.errors import GtransError

_LAUNCHER = ("MASTER_ADDR", "MASTER_PORT", "RANK", "LOCAL_RANK", "WORLD_SIZE")
_HELP = {"-h", "--help"}


def parse(
    command: ModuleType,
    make_parser: Callable[..., argparse.ArgumentParser],
    argv: Sequence[str],
    add: Callable[[argparse.ArgumentParser], Any] = lambda parser: None,
) -> argparse.Namespace:
    """The options of fairseq's command, as its own ``cli_main`` reads them.

    The task is ``document_translation`` unless ``--task`` names another, and ``--user-dir`` is this
    package unless it is given; it is only needed for code besides this package.

    Args:
        command: the module of the command; its docstring and ``EXAMPLE`` stand in the help.
        make_parser: fairseq's function that makes the parser.
        argv: the command line after the name. With ``--help``, the help is printed, with the
            options of the task, the architecture and so on that the rest of ``argv`` names.
        add: declares further options.

    Raises:
        GtransError: ``--user-dir`` cannot be imported, or ``--arch`` is missing in training.
    """
    import_plugin()
    words = [word for word in argv if word not in _HELP]
    early = argparse.ArgumentParser(add_help=False, allow_abbrev=False)
    early.add_argument("--user-dir")
    try:
        utils.import_user_module(early.parse_known_args(words)[0])
    except (FileNotFoundError, ImportError) as error:
        raise GtransError(f"`--user-dir` cannot be imported: {error}") from error
    parser = make_parser(default_task=TASK)
    parser.prog = f"gtrans {command.__name__.rpartition('.')[2]}"
    parser.description = command.__doc__
    parser.epilog = f"example:\n  {command.EXAMPLE}"
    parser.formatter_class = argparse.RawDescriptionHelpFormatter
    parser.set_defaults(user_dir=gtrans.__path__[0], **_launched())
    add(parser)
    known, _ = parser.parse_known_args(words)
    if len(words) < len(argv):
        if known.arch is not None:
            ARCH_MODEL_REGISTRY[known.arch].add_args(parser)
        TASK_REGISTRY[known.task].add_args(parser)
        parser.print_help()
        parser.exit()
    if known.arch is None:
        raise GtransError("`--arch` is missing; `gtrans options` lists the architectures.")
    parsed: argparse.Namespace = options.parse_args_and_arch(parser, words)
    return parsed


def _launched() -> dict[str, Any]:
    """Defaults in a process that torchrun has started.

    fairseq asks for torchrun's variables only if the machine has several GPUs; without them, each
    process would train alone.
    """
    if not all(name in os.environ for name in _LAUNCHER) or os.environ["WORLD_SIZE"] == "1":
        return {}
    return {
        "distributed_init_method": "env://",
        "distributed_no_spawn": True,
        "distributed_world_size": int(os.environ["WORLD_SIZE"]),
        "distributed_rank": int(os.environ["RANK"]),
        "device_id": int(os.environ["LOCAL_RANK"]),
    }
