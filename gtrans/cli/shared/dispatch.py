"""The parser of ``gtrans`` and its subcommands: argparse, with errors of one line."""

from __future__ import annotations

import argparse
import importlib
import re
import sys
from collections.abc import Mapping, Sequence
from functools import partial
from itertools import takewhile
from pathlib import Path
from types import ModuleType
from typing import Any, NoReturn

from gtrans.annexes import LAB, lab_commands
from gtrans.cli.shared import VERBOSE
from gtrans.environment import check_environment, hide_known_warnings, log_warnings_only, require
from gtrans.errors import did_you_mean, with_suggestion
from gtrans.messages import printable
from gtrans.version import __version__

COMMANDS = {
    "prepare": "turn plain text into a binarised document corpus (Moses, BPE, fairseq-preprocess)",
    "train": "train a model: fairseq-train with the tasks and models of this project",
    "generate": "translate a binarised split: fairseq-generate with this project's tasks",
    "adapt": "make a document model of a sentence model, and keep the better one",
    "translate": "translate text, files and folders of documents; markup stays",
    "score": "score translations: BLEU, chrF, TER, METEOR; confidence intervals, significance",
    "contrast": "measure a model's accuracy on contrastive sets, by phenomenon and distance",
    "cxmi": "measure how much context raises the probability of the reference",
    "show": "say what a checkpoint was made from",
    "average": "average checkpoints of one training run",
    "convert": "convert a checkpoint of another program",
    "trim-vocab": "reduce a pretrained model to the subwords that a corpus uses",
}
BY_ARCH = "by --arch"  # the default of an option that follows from the architecture
_MISTYPED = 2  # as argparse ends
_VERBOSE_HELP = "show the stack trace of an unexpected error"


def all_commands() -> dict[str, str]:
    """Return the help of all subcommands, those in :mod:`gtrans.lab` last."""
    return COMMANDS | lab_commands()


def module_of(command: str) -> ModuleType:
    """Return the module of a subcommand."""
    package = "gtrans.cli" if command in COMMANDS else LAB
    return importlib.import_module(f"{package}.{command.replace('-', '_')}")


def dispatch(words: Sequence[str]) -> None:
    """Run the subcommand in ``words``; exit with status 2 for unknown commands and options."""
    command = next((word for word in words if not word.startswith("-")), None)
    # Words before the command may ask for the help of `gtrans`, which lists all commands.
    is_known = command in COMMANDS and words[0] == command
    parser, subparsers = _parsers(COMMANDS if is_known else all_commands())
    if command is None:
        parser.parse_args(words)
        parser.print_help(sys.stderr)
        sys.exit(_MISTYPED)
    if command not in subparsers:
        parser.error(f"there is no command '{command}'{did_you_mean(command, subparsers)}")
    begin = words.index(command)
    before, rest = list(words[:begin]), list(words[begin + 1 :])
    given, others = parser.parse_known_args(before)
    if others:
        parser.error(f"{others[0]} stands before '{command}'; put it behind")
    hide_known_warnings()
    check_environment()
    module = module_of(command)
    own = subparsers[command]
    if hasattr(module, "PARTS") and rest and not rest[0].startswith("-"):
        module = _part_of(module, rest[0], own)
        rest = rest[1:]
    if hasattr(module, "hand_over"):
        require(module.NEEDS, own.prog)
        module.hand_over([*rest, VERBOSE] if given.verbose else rest)
        return
    passed_on: list[str] = []
    if hasattr(module, "PASSES_ON") and "--" in rest:
        end = rest.index("--")
        rest, passed_on = rest[:end], rest[end + 1 :]
    declare(own, module)
    options = list(takewhile(lambda word: word != "--", rest))  # names of files may follow it
    if {"-h", "--help"} & set(options):
        print(own.format_help(), end="")  # argparse would not say that it cannot be written
        sys.exit(0)
    refuse_unknown(options, own)
    _refuse_behind_dashes(rest[len(options) + 1 :], own)
    args, others = parser.parse_known_args(
        [*before, command, *rest], argparse.Namespace(passed_on=passed_on)
    )
    if others:
        own.error(f"unrecognized arguments: {' '.join(others)}")
    require(module.NEEDS, own.prog)
    log_warnings_only()
    module.run(args)


def _part_of(module: ModuleType, part: str, parser: argparse.ArgumentParser) -> ModuleType:
    """Return the module of a part of a command, and name it in ``parser``."""
    parts = module.PARTS
    if part not in parts:
        hint = did_you_mean(part, parts)
        parser.error(f"there is no '{part}'{hint}; there are {', '.join(parts)}, or options only")
    parser.prog = f"{parser.prog} {part}"
    return importlib.import_module(f"{module.PARTS_IN}.{part}")


def _parsers(
    commands: Mapping[str, str],
) -> tuple[argparse.ArgumentParser, dict[str, argparse.ArgumentParser]]:
    """Return the parser of ``gtrans``, and parsers of ``commands`` by name, without options."""
    parser = with_short_errors(
        argparse.ArgumentParser(
            prog="gtrans",
            description="Document-level machine translation on fairseq.",
            epilog="`gtrans COMMAND --help` describes a command and shows an example.",
        )
    )
    parser.add_argument("--version", action="version", version=f"gtrans {__version__}")
    parser.add_argument(
        "--user-dir",
        action="version",
        version=str(Path(__file__).resolve().parents[2]),
        help="print the folder of this package, for fairseq's own commands: fairseq-train "
        "--user-dir $(gtrans --user-dir)",
    )
    parser.add_argument(VERBOSE, action="store_true", help=_VERBOSE_HELP)
    subparsers = parser.add_subparsers(title="commands", metavar="COMMAND")
    parsers = {
        name: with_short_errors(subparsers.add_parser(name, help=text))
        for name, text in commands.items()
    }
    return parser, parsers


def declare(parser: argparse.ArgumentParser, module: ModuleType) -> None:
    """Give a parser the description and the options of a command."""
    parser.description = module.__doc__
    parser.epilog = f"example:\n  {module.EXAMPLE}"
    parser.formatter_class = argparse.RawDescriptionHelpFormatter
    parser.register("action", None, _Store)
    parser.register("action", "store", _Store)
    module.add_arguments(parser)
    default = argparse.SUPPRESS  # it may stand in front of the command, too
    parser.add_argument(VERBOSE, action="store_true", default=default, help=_VERBOSE_HELP)
    show_defaults(parser)
    parser.usage = usage_of(parser)


def show_defaults(parser: argparse.ArgumentParser) -> None:
    """Add defaults to the help of options."""
    for action in parser._get_optional_actions():
        value = parser.get_default(action.dest)
        text = action.help or ""
        is_open = value in (None, "", [], argparse.SUPPRESS)
        if action.required or is_open or text == argparse.SUPPRESS:
            continue
        if action.nargs == 0:
            shown = "on" if value else "off"
        elif isinstance(value, (list, tuple)):
            shown = " ".join(str(entry) for entry in value)
        else:
            shown = str(value)
        default = f"(default: {shown.replace('%', '%%')}"
        if "(default: " not in text:
            action.help = f"{text} {default})"
        action.help = str(action.help).replace(f"(default: {BY_ARCH}", default)


class _Store(argparse.Action):
    """Store the value of an option; repeated options of several words add up."""

    def __call__(
        self,
        parser: argparse.ArgumentParser,
        namespace: argparse.Namespace,
        values: Any,
        option_string: str | None = None,
    ) -> None:
        earlier = getattr(namespace, self.dest, self.default)
        if self.option_strings and self.nargs in ("+", "*") and earlier is not self.default:
            values = [*earlier, *values]
        setattr(namespace, self.dest, values)


def usage_of(parser: argparse.ArgumentParser) -> str:
    """Return the usage, with positionals first: options of several words would take them."""
    needed = [action for action in parser._get_optional_actions() if action.required]
    usage = parser.prog
    for actions in (parser._get_positional_actions(), needed):
        formatter = argparse.HelpFormatter(prog=usage, width=10**6)
        formatter.add_usage(None, actions, [])
        usage = formatter.format_help().removeprefix("usage: ").strip()
    return f"{usage} [OPTION ...]".replace("%", "%%")


def with_short_errors(parser: argparse.ArgumentParser) -> argparse.ArgumentParser:
    """Return ``parser`` with errors of one line that name the nearest option or choice."""
    parser.error = partial(_end, parser)  # type: ignore[method-assign]
    return parser


def _end(parser: argparse.ArgumentParser, message: str) -> NoReturn:
    unknown = re.match(r"unrecognized arguments: (?:-- )?(-[^\s=]*)", message)
    options = parser._option_string_actions
    if unknown is not None and unknown[1] in options:
        message += "; behind `--` it is no option"
    elif unknown is not None:
        message += did_you_mean(unknown[1], options)
    flag = "--help-all" if parser.prog == "gtrans train" else "--help"
    way_out = f"`{parser.prog} {flag}` lists everything"
    print(f"gtrans: error: {printable(with_suggestion(message))} ({way_out})", file=sys.stderr)
    sys.exit(_MISTYPED)


def refuse_unknown(words: Sequence[str], parser: argparse.ArgumentParser) -> None:
    """End for an unknown option; argparse would first name missing ones."""
    options = parser._option_string_actions
    for word in words:
        flag = word.partition("=")[0]
        if flag.startswith("--") and not any(name.startswith(flag) for name in options):
            parser.error(f"there is no option {flag}{did_you_mean(flag, options)}")


def _refuse_behind_dashes(words: Sequence[str], parser: argparse.ArgumentParser) -> None:
    """End for an option behind ``--``; argparse would read it as a file, or miss it."""
    for word in words:
        flag = word.partition("=")[0]
        if flag in parser._option_string_actions:
            parser.error(f"{flag} stands behind `--`, where words are no options; put it before")
