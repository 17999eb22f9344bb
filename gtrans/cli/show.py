"""Describe a checkpoint, and the data and models it comes from.

The command prints architecture, languages, vocabulary, preparation, unit, training, and provenance:
the data and the model that the training began with. The same fingerprint means the same vocabulary,
preparation and unit. A run folder is shown by its last checkpoint.
"""

from __future__ import annotations

import argparse
from pathlib import Path

from gtrans.environment import ENGINE
from gtrans.messages import json_text, print_lines, with_schema

EXAMPLE = "gtrans show checkpoints/checkpoint_best.pt"
NEEDS = ENGINE


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the options."""
    parser.add_argument("path", type=Path, metavar="CKPT|DIR", help="checkpoint, or run folder")
    parser.add_argument("--json", action="store_true", help="write JSON to standard output")


def run(args: argparse.Namespace) -> None:
    """Print the description, as YAML or JSON."""
    # Imported on demand: torch and fairseq need seconds, which --help should not.
    from gtrans.conversion.showing import facts_of, lines_of

    facts = facts_of(args.path)
    if args.json:
        print(json_text(with_schema("show", facts)))
    else:
        print_lines(*lines_of(facts))
