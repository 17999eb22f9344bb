"""What ``gtrans train --help`` says: the options that everybody needs. It needs no torch."""

from __future__ import annotations

import argparse
from collections.abc import Sequence

HELP = ("-h", "--help")
HELP_ALL = "--help-all"
USAGE = "gtrans train DATA [OPTION ...]"


def first_help(description: str | None, example: str) -> str:
    """The help of the first options of a training."""
    parser = argparse.ArgumentParser(
        usage=USAGE,
        description=str(description).strip(),
        epilog=f"example:\n  {example}",
        formatter_class=argparse.RawDescriptionHelpFormatter,
        add_help=False,
    )
    parser.add_argument("data", metavar="DATA", help="folder that `gtrans prepare` wrote")
    group = parser.add_argument_group("options that everybody needs")
    for flag, metavar, text in (
        (
            "--config",
            "NAME|FILE",
            "settings of a paper by name, or a file of your own; options on the command line win",
        ),
        (
            "--arch",
            "ARCH",
            "the model and its size, such as gtransformer_base; it must be "
            "given here or in the configuration",
        ),
        ("--init-from", "CKPT", "sentence model that a document model starts from"),
        (
            "--max-tokens",
            "N",
            "largest batch of a device, in tokens, given here or in the configuration",
        ),
        (
            "--save-dir",
            "DIR",
            "folder of the run; the same command goes on there after an "
            "interruption (default: checkpoints)",
        ),
    ):
        group.add_argument(flag, metavar=metavar, help=text)
    group.add_argument(
        HELP_ALL,
        action="store_true",
        help="list the configurations, the architectures and all options; with --arch ARCH those "
        "of an architecture with its values",
    )
    return parser.format_help()


def asks_for_first_help(words: Sequence[str]) -> bool:
    """Whether a command line wants the help above and nothing of an architecture."""
    options = words[: words.index("--")] if "--" in words else words
    flags = {word.partition("=")[0] for word in options}
    return bool(flags & set(HELP)) and not flags & {"--arch", "-a", HELP_ALL}
