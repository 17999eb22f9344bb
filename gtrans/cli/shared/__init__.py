"""What several commands share."""

from __future__ import annotations

import argparse
from collections.abc import Mapping
from typing import Any

VERBOSE = "--verbose"
OptionTable = Mapping[str, tuple[str, Mapping[str, Any]]]
"""By the flags of each option: its help, and what else argparse is told of it."""


def add_options(group: argparse._ActionsContainer, options: OptionTable) -> None:
    """Add options to a parser or one of its groups."""
    for flags, (meaning, settings) in options.items():
        group.add_argument(*flags.split(), help=meaning, **settings)
