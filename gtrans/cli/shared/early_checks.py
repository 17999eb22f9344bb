"""The words of ``gtrans train`` and ``gtrans generate``, checked before torch is loaded.

What is checked here needs no knowledge of a model: names and values of options, the data folder,
and what no training goes without.
"""

from __future__ import annotations

import argparse
import os
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from gtrans.cli.shared import VERBOSE
from gtrans.cli.shared.declared import Option, architectures, mentions, options
from gtrans.cli.shared.dispatch import with_short_errors
from gtrans.decoding.options import split_paths
from gtrans.errors import GtransError, did_you_mean
from gtrans.option_types import LIMITS, NEEDED, WITHOUT_LR, real, whole
from gtrans.text.prepared_folder import check_data_folder

TASK = "document_translation"
_TYPES: dict[str, Callable[[str], Any]] = {"int": whole(), "float": real(), "str": str}
_MISSING = {
    "arch": "`--arch` is missing, or `--config NAME`; `gtrans train --help-all` lists both",
    "optimizer": "`--optimizer` is missing, such as `--optimizer adam`",
    "lr": "`--lr` is missing: the highest learning rate, such as `--lr 5e-4`",
}


def check_training(words: Sequence[str]) -> None:
    """Refuse a command line that cannot be a training.

    Args:
        words: what follows ``gtrans train``, with the options of ``--config``.

    Raises:
        SystemExit: with status 2: there is no such option or choice, or a value is out of range.
        GtransError: the data folder, the architecture or a setting is missing or wrong.
    """
    given = _read(words, "train")
    if given is None:
        return
    if given.get("task", TASK) == TASK:
        arch = given.get("arch")
        if arch is not None and arch not in architectures() and not mentions(arch):
            raise GtransError(
                f"`--arch {arch}`: this project has no such architecture"
                f"{did_you_mean(arch, architectures())} (`gtrans train --help-all` lists all)"
            )
    _check_data(given)
    for name, message in _MISSING.items():
        if given.get(name) is None and not (name == "lr" and given.get("optimizer") in WITHOUT_LR):
            raise GtransError(f"{message}.")
    schedule = str(given.get("lr_scheduler"))
    needed = NEEDED.get(schedule)
    # Only the first of these has a default.
    if needed not in (None, "warmup_updates", "max_update") and given.get(needed) is None:
        raise GtransError(f"`--lr-scheduler {schedule}` needs `--{needed.replace('_', '-')}`.")
    if given.get("max_tokens") is None and given.get("batch_size") is None:
        raise GtransError("`--max-tokens` is missing: the largest batch (or give `--batch-size`).")


def check_generation(words: Sequence[str]) -> None:
    """Refuse a command line with which nothing can be translated.

    Args:
        words: what follows ``gtrans generate``.

    Raises:
        SystemExit: with status 2: there is no such option or choice, or a value is out of range.
        GtransError: the data folder or a checkpoint is missing.
    """
    given = _read(words, "generate")
    if given is None:
        return
    if given.get("path") is None:
        raise GtransError("`--path` is missing: the checkpoint, or several: A.pt:B.pt.")
    _check_data(given)
    if given.get("checkpoint_suffix") is None and given.get("checkpoint_shard_count") is None:
        for path in split_paths(given["path"]):
            if not Path(path).is_file():
                raise GtransError(f"{path}: there is no such checkpoint (`--path`).")


def _read(words: Sequence[str], command: str) -> dict[str, Any] | None:
    """The options that are given, by name; None if other code declares some of them."""
    flags = dict.fromkeys(word.partition("=")[0] for word in words if word.startswith("-"))
    if "--user-dir" in flags:
        return None
    parser = with_short_errors(
        argparse.ArgumentParser(
            prog=f"gtrans {command}", add_help=False, allow_abbrev=False,
            argument_default=argparse.SUPPRESS,
        )
    )  # fmt: skip
    parser.add_argument("data", nargs="?", default=None)
    parser.add_argument(VERBOSE, action="store_true")
    parser.add_argument("--task", default=TASK)
    known = options()
    for flag in flags:
        if flag in known and flag not in (VERBOSE, "--task"):
            _declare(parser, flag, known[flag])
    given, _ = parser.parse_known_args(words)
    unknown = [flag for flag in flags if flag.startswith("--") and flag not in {*known, VERBOSE}]
    if unknown and given.task != TASK:  # they may be options of fairseq's own tasks and models
        return None
    if unknown:
        hint = did_you_mean(unknown[0], [*known, "--config"])
        parser.error(f"there is no option {unknown[0]}{hint}")
    parser.parse_args(words)
    return vars(given)


def _declare(parser: argparse.ArgumentParser, flag: str, option: Option) -> None:
    dest = option.name
    if option.kind in ("flag", "off"):
        parser.add_argument(flag, dest=dest, action="store_true")
    elif option.kind == "optional":
        parser.add_argument(flag, dest=dest, nargs="?")
    elif option.choices:
        parser.add_argument(flag, dest=dest, choices=option.choices)
    else:
        parser.add_argument(flag, dest=dest, type=LIMITS.get(dest, _TYPES[option.kind]))


def _check_data(given: dict[str, Any]) -> None:
    if given["data"] is None:
        raise GtransError("DATA is missing: the folder that `gtrans prepare` wrote.")
    for folder in filter(None, given["data"].split(os.pathsep)):
        check_data_folder(Path(folder))
