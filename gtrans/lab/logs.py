"""Values in the log of a training run, by the number of updates."""

from __future__ import annotations

import math
import re
from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path

from gtrans.errors import GtransError
from gtrans.train.folder import LOG

# fairseq's line may have a time and a name before its message: with --log-file it has not.
_INNER = re.compile(r"(?:^|\| )epoch \d+: +\d+ / \d+ (\S.*)$")
_SUMMARY = re.compile(r"(?:^|\| )epoch \d+ \| (?:valid on '([^']+)' subset \| )?(\w+ \S+ \|.*)$")


@dataclass(frozen=True)
class Record:
    """Values that were logged at one moment.

    Attributes:
        updates: updates of the run so far.
        values: by fairseq's names; losses in bits; ``wall`` in seconds since the run began.
    """

    updates: int
    values: dict[str, float]


@dataclass
class TrainingHistory:
    """The log of a run. Updates that were repeated after an interruption count once.

    Attributes:
        inner: means since the record before, every ``--log-interval`` updates.
        epochs: means over each epoch.
        valid: validations, by the name of the split.
    """

    path: Path
    inner: list[Record] = field(default_factory=list)
    epochs: list[Record] = field(default_factory=list)
    valid: dict[str, list[Record]] = field(default_factory=dict)

    def records(self, split: str) -> list[Record]:
        """Return the records of a validation split, or the finest ones of ``train``."""
        if split == "train":
            return self.inner or self.epochs
        return self.valid.get(split, [])

    def names(self, split: str) -> list[str]:
        """Return the names of a split's values."""
        names: dict[str, None] = {}
        for record in self.records(split):
            names |= dict.fromkeys(record.values)
        return list(names)

    def series(self, split: str, name: str) -> list[tuple[int, float]]:
        """Return ``(updates, value)`` of every record that has the value."""
        series = []
        for record in self.records(split):
            if name in record.values:
                series.append((record.updates, record.values[name]))
        return series

    def add(self, records: list[Record], record: Record) -> None:
        """Add a record to ``records``, a list of this history, and remove all later records.

        An interrupted run repeats their updates.
        """
        for any_records in [self.inner, self.epochs, *self.valid.values()]:
            while any_records and any_records[-1].updates > record.updates:
                any_records.pop()
        if records and records[-1].updates == record.updates:
            records.pop()
        records.append(record)


def read_history(run_folder: str | Path) -> TrainingHistory:
    """Read the log of a run: its folder, or the output of ``--log-format simple``."""
    path = Path(run_folder)
    path = path / LOG if path.is_dir() else path
    history = TrainingHistory(path)
    try:
        with open(path, encoding="utf-8", errors="replace") as log:
            for line in log:
                _read_line(line, history)
    except FileNotFoundError:
        raise GtransError(
            f"{path}: there is no such log; name a run folder of `gtrans train` with its {LOG}, or "
            "a log itself."
        ) from None
    except OSError as error:
        raise GtransError(f"{path}: cannot be read ({error.strerror}).") from None
    if not (history.inner or history.epochs or any(history.valid.values())):
        raise GtransError(
            f"{path}: it has no losses of a training; train with --log-format simple, and a "
            "--log-interval below the number of updates."
        )
    return history


def _read_line(line: str, history: TrainingHistory) -> None:
    inner = _INNER.search(line)
    summary = _SUMMARY.search(line)
    if inner:
        records = history.inner
        values = _numbers(inner[1].split(","), "=")
    elif summary:
        split = summary[1]
        records = history.valid.setdefault(split, []) if split else history.epochs
        values = _numbers(summary[2].split("|"), " ")
    else:
        return
    if "num_updates" in values:
        updates = int(values.pop("num_updates"))
        history.add(records, Record(updates, values))


def _numbers(fields: Iterable[str], separator: str) -> dict[str, float]:
    values = {}
    for entry in fields:
        name, _, text = entry.strip().partition(separator)
        try:
            value = float(text.replace(",", ""))
        except ValueError:
            continue
        if math.isfinite(value):
            values[name] = value
    return values


def logged(run_folder: str | Path, word: str) -> float:
    """Return the first number behind a word of a log."""
    log = Path(run_folder) / LOG
    text = log.read_text(encoding="utf-8")
    match = re.search(rf"{re.escape(word)}\D*([\d,.]*\d)", text)
    if match is None:
        raise GtransError(f"{log}: it does not say '{word}'.")
    return float(match[1].replace(",", ""))
