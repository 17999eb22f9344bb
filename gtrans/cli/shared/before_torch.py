"""Help and typing errors of ``gtrans train`` and ``gtrans generate``, before torch is loaded.

A word that stands in no source is no option.
"""

from __future__ import annotations

import argparse
import os
import re
from collections.abc import Sequence
from functools import cache
from importlib.util import find_spec
from pathlib import Path

from gtrans.cli.shared import VERBOSE
from gtrans.cli.shared.dispatch import with_short_errors
from gtrans.errors import did_you_mean
from gtrans.text.prepared_folder import check_data_folder

HELP = ("-h", "--help")
HELP_ALL = "--help-all"
USAGE = "gtrans train DATA [OPTION ...]"
_WORD = re.compile(r"\w[\w-]*")
# A field of a class of options.
_FIELD = re.compile(r"^    (\w+): .*=", re.MULTILINE)
_ELSEWHERE = ("--config", VERBOSE, *HELP, HELP_ALL)


def check_words(command: str, words: Sequence[str]) -> None:
    """Reject misspelt options, with status 2, and a wrong data folder.

    With ``--user-dir`` or ``--task`` other code may declare options.
    """
    if "--" in words:
        words = words[: words.index("--")]
    flags = [word.partition("=")[0] for word in words if word.startswith("--")]
    if {"--user-dir", "--task"} & set(flags) or {*HELP, HELP_ALL} & set(words):
        return
    for flag in flags:
        if not _is_option(flag):
            options = [f"--{field.replace('_', '-')}" for field in _FIELD.findall(_sources())]
            parser = with_short_errors(argparse.ArgumentParser(prog=f"gtrans {command}"))
            parser.error(f"there is no option {flag}{did_you_mean(flag, options)}")
    if words and not words[0].startswith("-"):
        for folder in words[0].split(os.pathsep):
            if folder:
                check_data_folder(Path(folder))


def _is_option(flag: str) -> bool:
    name = flag.removeprefix("--")
    if not name or flag in _ELSEWHERE:
        return True
    return name in _words() or name.replace("-", "_") in _words()


@cache
def _words() -> frozenset[str]:
    return frozenset(_WORD.findall(_sources()))


@cache
def _sources() -> str:
    files = sorted(Path(__file__).parents[2].rglob("*.py"))
    fairseq = find_spec("fairseq")
    if fairseq is not None and fairseq.origin is not None:
        files += sorted(Path(fairseq.origin).parent.rglob("*.py"))
    return "\n".join(path.read_text(encoding="utf-8") for path in files)


def first_help(description: str | None, example: str) -> str:
    """Return the help of ``gtrans train`` with the most important options."""
    parser = argparse.ArgumentParser(
        usage=USAGE,
        description=str(description).strip(),
        epilog=f"example:\n  {example}",
        formatter_class=argparse.RawDescriptionHelpFormatter,
        add_help=False,
    )
    parser.add_argument("data", metavar="DATA", help="folder that `gtrans prepare` wrote")
    group = parser.add_argument_group("options that everybody needs")
    group.add_argument(
        "--config",
        metavar="NAME|FILE",
        help="settings of a paper by name, or a file of your own; options on the command line win",
    )
    group.add_argument(
        "--arch",
        metavar="ARCH",
        help="the model and its size, such as gtransformer_base; it must be given here or in the "
        "configuration",
    )
    group.add_argument(
        "--init-from", metavar="CKPT", help="sentence model that a document model starts from"
    )
    group.add_argument(
        "--max-tokens",
        metavar="N",
        help="largest batch of a device, in tokens, given here or in the configuration",
    )
    group.add_argument(
        "--save-dir",
        metavar="DIR",
        help="folder of the run; the same command goes on there after an interruption (default: "
        "checkpoints)",
    )
    group.add_argument(
        HELP_ALL,
        action="store_true",
        help="list the configurations, the architectures and all options; with --arch ARCH those "
        "of an architecture with its values",
    )
    return parser.format_help()


def asks_for_first_help(words: Sequence[str]) -> bool:
    """Return whether :func:`first_help` is wanted, not an architecture's help."""
    options = words[: words.index("--")] if "--" in words else words
    flags = {word.partition("=")[0] for word in options}
    return bool(flags & set(HELP)) and not flags & {"--arch", "-a", HELP_ALL}
