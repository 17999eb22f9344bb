"""The ``gtrans`` command: one entry point, one module per subcommand.

A subcommand is a module ``gtrans.cli.<name>`` (dashes become underscores) with

* a docstring: the first line is its help, the rest its description;
* ``EXAMPLE``: the command line shown at the end of ``--help``;
* ``add_arguments(parser)`` and ``run(args)``.

Only the module of the chosen subcommand is imported.
"""

from __future__ import annotations

import argparse
import importlib
import logging
import sys
from collections.abc import Sequence

from gtrans import __version__
from gtrans.errors import GtransError

COMMANDS = {
    "make-corpus": "write the embedded English-German document corpus and its contrastive sets",
    "prepare": "plain text to a binarised document corpus (Moses, BPE, fairseq-preprocess)",
    "translate": "translate whole documents, line by line aligned with the input",
    "score": "BLEU over sentences and documents, chrF, TER, METEOR; intervals and tests",
    "contrast": "accuracy of a model on a contrastive set, by phenomenon and distance",
    "analyse": "attention, gates and gradients of a trained model, by layer and distance",
    "cxmi": "how much a model's translations gain in probability by context",
    "options": "architectures and their options, each with meaning and default",
    "average": "average checkpoints of one training run",
    "convert": "read checkpoints of other programs",
    "trim-vocab": "keep only the pieces of a pretrained model that a corpus uses",
}


def _overview() -> argparse.ArgumentParser:
    lines = "\n".join(f"  {name:<14}{text}" for name, text in COMMANDS.items())
    parser = argparse.ArgumentParser(
        prog="gtrans",
        description="Document-level machine translation on fairseq.",
        epilog=f"commands:\n{lines}\n\n"
        "'gtrans COMMAND --help' describes a command and shows an example.",
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--version", action="version", version=f"gtrans {__version__}")
    parser.add_argument("command", choices=list(COMMANDS), metavar="COMMAND")
    return parser


def main(argv: Sequence[str] | None = None) -> int:
    """Run ``gtrans ARGV``; returns the exit status."""
    argv = list(sys.argv[1:] if argv is None else argv)
    command = _overview().parse_args(argv[:1]).command
    module = importlib.import_module(f"gtrans.cli.{command.replace('-', '_')}")
    parser = argparse.ArgumentParser(
        prog=f"gtrans {command}",
        description=module.__doc__,
        epilog=f"example:\n  {module.EXAMPLE}",
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    module.add_arguments(parser)
    args = parser.parse_args(argv[1:])
    # What fairseq notes while it is imported and loads data is not about this command.
    for name in ("fairseq", "gtrans"):
        logging.getLogger(name).setLevel(logging.WARNING)
    try:
        module.run(args)
    except GtransError as error:
        print(f"gtrans: error: {error}", file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        print("gtrans: interrupted", file=sys.stderr)
        return 130
    except BrokenPipeError:
        return 1
    return 0
