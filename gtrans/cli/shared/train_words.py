"""The words of ``gtrans train``, checked before torch and fairseq are loaded, which takes seconds.

What is checked here is what needs no knowledge of a model: names and values of options, the data
folder, and what no training goes without.
"""

from __future__ import annotations

import argparse
import json
import os
from collections.abc import Callable, Sequence
from functools import cache
from pathlib import Path
from typing import Any

from gtrans.cli.shared import VERBOSE
from gtrans.cli.shared.dispatch import Parser, refuse_unknown
from gtrans.errors import GtransError, did_you_mean
from gtrans.option_types import real, several, whole
from gtrans.text.prepared_folder import check_data_folder
from gtrans.training.limits import LIMITS, NEEDED, WITHOUT_LR

TABLE = Path(__file__).with_name("train_options.json")
TASK = "document_translation"
_KINDS: dict[str, Callable[[str], Any]] = {
    "int": whole(), "float": real(), "list": several(real()), "str": str,
}  # fmt: skip
_MISSING = {
    "arch": "`--arch` is missing, or `--config NAME`; `gtrans train --help` lists both",
    "optimizer": "`--optimizer` is missing, such as `--optimizer adam`",
    "lr": "`--lr` is missing: the highest learning rate, such as `--lr 5e-4`",
}


def check_words(argv: Sequence[str]) -> None:
    """Refuse a command line that cannot be a training.

    Args:
        argv: the words after ``gtrans train``, all of them options of ``fairseq-train``.

    Raises:
        SystemExit: with status 2: there is no such option or choice, or a value is out of range.
        GtransError: the data folder, the architecture or a setting is missing or wrong.
    """
    table = _table()
    parser = Parser(prog="gtrans train", add_help=False, conflict_handler="resolve")
    parser.add_argument("data", nargs="?")
    parser.add_argument(VERBOSE, action="store_true")
    for names, kind in table["options"].items():
        _declare(parser, names.split(), kind)
    if any(word.partition("=")[0] == "--user-dir" for word in argv) or _are_new(argv, parser):
        return
    given, unknown = parser.parse_known_args(argv)
    if str(given.task or TASK) == TASK:
        refuse_unknown(argv, parser, {"--config"})
        if unknown:
            parser.error(f"unrecognized arguments: {' '.join(unknown)}")
        _check_arch(given.arch, table)
    if given.data is None:
        raise GtransError("DATA is missing: the folder that `gtrans prepare` wrote.")
    for folder in filter(None, given.data.split(os.pathsep)):
        check_data_folder(Path(folder))
    for name, message in _MISSING.items():
        if getattr(given, name) is None and not (name == "lr" and given.optimizer in WITHOUT_LR):
            raise GtransError(f"{message}.")
    needed = NEEDED.get(str(given.lr_scheduler))
    # Only the first of these has a default.
    if needed not in (None, "warmup_updates", "max_update") and getattr(given, needed) is None:
        flag = f"--{needed.replace('_', '-')}"
        raise GtransError(f"`--lr-scheduler {given.lr_scheduler}` needs `{flag}`.")
    if given.max_tokens is None and given.batch_size is None:
        raise GtransError("`--max-tokens` is missing: the largest batch (or give `--batch-size`).")


def _declare(parser: Parser, names: list[str], kind: Any) -> None:
    if kind in ("flag", "off"):
        parser.add_argument(*names, action="store_true")
    elif isinstance(kind, list):
        parser.add_argument(*names, choices=kind)
    else:
        dest = names[0].lstrip("-").replace("-", "_")
        parser.add_argument(*names, type=LIMITS.get(dest, _KINDS[kind]))


def _check_arch(arch: str | None, table: dict[str, Any]) -> None:
    if arch is None or arch in table["architectures"] or arch in _sources():
        return
    raise GtransError(
        f"`--arch {arch}`: this project has no such architecture"
        f"{did_you_mean(arch, table['architectures'])} (`gtrans train --help` lists all)"
    )


def _are_new(argv: Sequence[str], parser: argparse.ArgumentParser) -> bool:
    """Whether there is an option that is younger than the table, as while one is being added."""
    flags = {word.partition("=")[0] for word in argv if word.startswith("--")}
    known = parser._option_string_actions
    unknown = [flag for flag in flags if not any(name.startswith(flag) for name in known)]
    return any(declared_in_sources(flag[2:].replace("-", "_")) for flag in unknown)


def options_table() -> dict[str, Any]:
    """All options of a training: by their flags ``flag``, ``off``, a type, or the choices."""
    found: dict[str, Any] = _table()["options"]
    return found


def declared_in_sources(name: str) -> bool:
    """Whether a module declares an option, which may be younger than the table."""
    return f" {name}:" in _sources()


@cache
def _table() -> dict[str, Any]:
    found: dict[str, Any] = json.loads(TABLE.read_text(encoding="utf-8"))
    return found


@cache
def _sources() -> str:
    """The modules that declare options and architectures."""
    package = Path(__file__).parents[2]
    folders = ("models", "tasks", "criterions", "optim", "data")
    paths = (path for name in folders for path in sorted((package / name).rglob("*.py")))
    return "\n".join(path.read_text(encoding="utf-8") for path in paths)
