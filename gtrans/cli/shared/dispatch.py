"""From the words of a command line to the subcommand, and from its mistakes to one line."""

from __future__ import annotations

import argparse
import importlib
import re
import sys
from collections.abc import Collection, Sequence
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING, Any, NoReturn

from gtrans.cli.shared import VERBOSE
from gtrans.cli.shared.extras import LAB, lab_commands
from gtrans.cli.shared.output import standard_output
from gtrans.environment import check_environment
from gtrans.errors import GtransError, did_you_mean, with_suggestion
from gtrans.known_warnings import hide_known_warnings, log_warnings_only
from gtrans.libraries import require
from gtrans.messages import printable
from gtrans.version import __version__

if TYPE_CHECKING:
    from _typeshed import SupportsWrite

COMMANDS = {
    "prepare": "turn plain text into a binarised document corpus (Moses, BPE, fairseq-preprocess)",
    "train": "train a model: fairseq-train with the tasks and models of this project",
    "generate": "translate a binarised split: fairseq-generate with this project's tasks",
    "translate": "translate text, files and folders of documents; markup stays",
    "score": "score translations: BLEU, chrF, TER, METEOR; confidence intervals, significance",
    "contrast": "measure a model's accuracy on contrastive sets, by phenomenon and distance",
    "cxmi": "measure how much context raises the probability of the reference",
    "show": "say what a checkpoint, a prepared or run folder, or a translation was made from",
    "average": "average checkpoints of one training run",
    "convert": "convert a checkpoint of another program",
    "trim-vocab": "reduce a pretrained model to the subword pieces that a corpus uses",
}

_MISTYPED = 2  # as argparse ends


class Parser(argparse.ArgumentParser):
    """A parser that loses nothing in silence, neither output nor words, as argparse does.

    Its help is a program's output like any other: a closed pipe or a full disk shows. And an option
    that takes several words keeps all of them when it is given again. Its usage has what needs no
    option first: after an option that takes several words it would be one of these.
    """

    def __init__(self, *args: Any, **options: Any) -> None:
        super().__init__(*args, **options)
        for name in (None, "store"):
            self.register("action", name, _Store)

    def error(self, message: str) -> NoReturn:
        """End with status 2 and one line, which names the nearest option or choice."""
        end_mistyped(self, message)

    def set_usage(self) -> None:
        """Make the usage of the arguments that are declared."""
        usage = self.prog
        for actions in (self._get_positional_actions(), self._get_optional_actions()):
            formatter = self.formatter_class(prog=" ".join(usage.split()))
            formatter.add_usage(None, actions, self._mutually_exclusive_groups)
            usage = formatter.format_help().partition(": ")[2].strip()
        self.usage = usage.replace("%", "%%")

    def _print_message(self, message: str, file: SupportsWrite[str] | None = None) -> None:
        stream = file or sys.stderr
        if message and stream is not None:
            stream.write(message)


def end_mistyped(parser: argparse.ArgumentParser, message: str) -> NoReturn:
    """argparse's ``error``: status 2 and one line, without the usage."""
    unknown = re.match(r"unrecognized arguments: (-[^\s=]*)", message)
    if unknown is not None:
        message += did_you_mean(unknown[1], parser._option_string_actions)
    way_out = f"`{parser.prog} --help` lists everything"
    print(f"gtrans: error: {printable(with_suggestion(message))} ({way_out})", file=sys.stderr)
    sys.exit(_MISTYPED)


class _Store(argparse.Action):
    """Keep the words of an option; those of one for several words are added to earlier ones."""

    def __call__(
        self,
        parser: argparse.ArgumentParser,
        namespace: argparse.Namespace,
        values: Any,
        option_string: str | None = None,
    ) -> None:
        earlier = getattr(namespace, self.dest, self.default)
        if self.option_strings and self.nargs in ("+", "*") and earlier is not self.default:
            if bool(values) != bool(earlier):
                parser.error(f"{option_string} is given twice, with words and without")
            values = [*earlier, *values]
        setattr(namespace, self.dest, values)


def all_commands() -> dict[str, str]:
    """All subcommands with their help, those of :mod:`gtrans.lab` last."""
    return COMMANDS | lab_commands()


def module_of(command: str) -> ModuleType:
    """The module of a subcommand."""
    package = "gtrans.cli" if command in COMMANDS else LAB
    return importlib.import_module(f"{package}.{command.replace('-', '_')}")


def dispatch(argv: Sequence[str]) -> None:
    """Run the subcommand ``argv[0]``.

    Raises:
        SystemExit: with status 2, there is no such command or option, or help was asked for.
        GtransError: a user's mistake.
    """
    if argv[:1] == [VERBOSE]:
        argv = [*argv[1:], VERBOSE]
    if argv[:1] in ([], [VERBOSE]):
        _overview().print_help(sys.stderr)
        sys.exit(_MISTYPED)
    command: str = _overview().parse_args(argv[:1]).command
    if command not in all_commands():
        hint = did_you_mean(command, all_commands())
        _overview().error(f"there is no command '{command}'{hint}")
    hide_known_warnings()
    check_environment()
    module, rest = module_of(command), argv[1:]
    parts = getattr(module, "PARTS", ())
    if parts and rest and not rest[0].startswith("-") and rest[0] not in parts:
        raise GtransError(
            f"`gtrans {command}` has no '{rest[0]}'; it has {', '.join(parts)}, or options only"
            f"{did_you_mean(rest[0], parts)}"
        )
    if rest and rest[0] in parts:
        module = importlib.import_module(f"{module.PARTS_IN}.{rest[0]}")
        command, rest = f"{command} {rest[0]}", rest[1:]
    work = _hand_over if hasattr(module, "hand_over") else _run
    with standard_output():
        work(module, command, rest)


def _overview() -> argparse.ArgumentParser:
    lines = "\n".join(f"  {name:<16}{text}" for name, text in all_commands().items())
    parser = Parser(
        prog="gtrans",
        description="Document-level machine translation on fairseq.",
        epilog=f"commands:\n{lines}\n\n"
        "'gtrans COMMAND --help' describes a command and shows an example. "
        f"With {VERBOSE} an unexpected error shows its stack trace.",
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--version", action="version", version=f"gtrans {__version__}")
    parser.add_argument(
        "--user-dir",
        action="version",
        version=str(Path(__file__).resolve().parents[2]),
        help="print the folder of this package, for fairseq's own commands: fairseq-train "
        "--user-dir $(gtrans --user-dir)",
    )
    parser.add_argument("command", metavar="COMMAND")
    return parser


def _run(module: ModuleType, command: str, argv: Sequence[str]) -> None:
    """Read the options of a subcommand and run it."""
    parser = Parser(
        prog=f"gtrans {command}",
        description=module.__doc__,
        epilog=f"example:\n  {module.EXAMPLE}",
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    module.add_arguments(parser)
    parser.add_argument(
        VERBOSE, action="store_true", help="show the stack trace of an unexpected error"
    )
    parser.set_usage()
    words, passed_on = list(argv), []
    if hasattr(module, "PASSES_ON") and "--" in words:
        end = words.index("--")
        words, passed_on = words[:end], words[end + 1 :]
    refuse_unknown(words, parser)
    args = parser.parse_args(words, argparse.Namespace(passed_on=passed_on))
    require(module.NEEDS, f"gtrans {command}")
    log_warnings_only()
    module.run(args)


def refuse_unknown(
    words: Sequence[str], parser: argparse.ArgumentParser, others: Collection[str] = ()
) -> None:
    """End for an option that there is not; argparse would first name others that are missing.

    Args:
        words: the command line.
        parser: what declares the options.
        others: options that are read elsewhere, in full only.
    """
    known = parser._option_string_actions
    for word in words:
        flag = word.partition("=")[0]
        if flag.startswith("--") and not any(name.startswith(flag) for name in known):
            parser.error(f"there is no option {flag}{did_you_mean(flag, [*known, *others])}")


def _hand_over(module: ModuleType, command: str, argv: Sequence[str]) -> None:
    """Run a subcommand that reads its own options."""
    require(module.NEEDS, f"gtrans {command}")
    module.hand_over(argv)
