"""Columns of ``gtrans score`` that :mod:`gtrans.lab` adds to those of this package."""

from __future__ import annotations

import argparse
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from gtrans.evaluation.metrics import Documents, Options
from gtrans.evaluation.scores import Measurement


@dataclass(frozen=True)
class Given:
    """What a column is measured from.

    Attributes:
        args: the options of ``gtrans score``.
        files: the translations, by system.
        sources, references: documents of sentences, the first reference; None: not given.
        systems: the translations in the lines of the reference; empty without one.
        options: how words are found.
    """

    args: argparse.Namespace
    files: Mapping[str, str]
    sources: Documents | None
    references: Documents | None
    systems: Mapping[str, Documents]
    options: Options


@dataclass
class Found:
    """What a column adds to the report.

    Attributes:
        measurements: scores with what intervals and tests need; none if there is nothing to score.
        notes: printed below the table.
        details: for JSON, by system: what its score is made of.
        lines: for ``--details``: a table.
    """

    measurements: list[Measurement]
    notes: list[str] = field(default_factory=list)
    details: dict[str, dict[str, Any]] = field(default_factory=dict)
    lines: list[str] = field(default_factory=list)


@dataclass(frozen=True)
class Column:
    """A score that is computed where its option is given.

    Attributes:
        keys: of its measurements; the first one has the details.
        settings: what argparse is told of the option.
        measure: computes it.
        aligned: whether it compares sentences of source, reference and translation.
    """

    keys: tuple[str, ...]
    settings: Mapping[str, Any]
    measure: Callable[[Given], Found]
    aligned: bool = False


COLUMNS: dict[str, Column] = {}
"""By the flag of their option."""


def chosen_columns(args: argparse.Namespace) -> dict[str, Column]:
    """The columns whose options are given."""
    return {flag: column for flag, column in COLUMNS.items() if value_of(args, flag)}


def value_of(args: argparse.Namespace, flag: str) -> Any:
    """The value of the option of a column."""
    return getattr(args, flag.removeprefix("--").replace("-", "_"))
