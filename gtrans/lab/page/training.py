"""How a model was trained: its settings, hardware and time, by the log in its folder."""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from gtrans.errors import GtransError
from gtrans.lab.analysis.history import History, read_history

_BEGINS, _ENDS = "begin training epoch", ("done training in", "nothing is left to do")
_COMMAND = "$ "
_PARAMETERS = re.compile(r"num\. shared model params: ([\d,]+)")
_DEVICES = re.compile(r"training on (\d+) devices")
_GPU = re.compile(r"rank +\d+: capabilities =.*; total memory = ([\d.]+ GB) ; name = (.+?) *$")
_WITHOUT_VALUE = "yes"
# Not settings of a training: where things lie, and on what it ran, which is said in other rows.
_PLACES = frozenset({"--save-dir", "--cpu", "--user-dir", "--source-lang", "--target-lang"})


@dataclass(frozen=True)
class Training:
    """What the log of a model says.

    Attributes:
        finished: the training has come to its end.
        settings: the options of ``gtrans train``; of an option that is given twice the last counts.
        facts: what it was trained on, and for how long.
        history: losses and scores by updates.
    """

    finished: bool
    settings: Mapping[str, str]
    facts: Mapping[str, str]
    history: History


def read_training(log: Path) -> Training:
    """Read a log that the recipes keep.

    Raises:
        GtransError: it cannot be read, or has nothing about a training.
    """
    finished, command, asked = False, "", ""
    parameters, devices, gpus = "", "", dict[str, int]()
    try:
        with open(log, encoding="utf-8", errors="replace") as lines:
            for line in lines:
                line = line.rstrip("\n")
                if line.startswith(_COMMAND):
                    asked = line
                elif _BEGINS in line:
                    finished, command = False, asked
                elif any(end in line for end in _ENDS):
                    finished, command = True, asked
                elif found := _PARAMETERS.search(line):
                    parameters = found[1]
                elif found := _DEVICES.search(line):
                    devices = found[1]
                elif found := _GPU.search(line):
                    name = f"{found[2]} ({found[1]})"
                    gpus[name] = gpus.get(name, 0) + 1
    except OSError as error:
        raise GtransError(f"{log}: cannot be read ({error.strerror}).") from None
    history = read_history(log)
    settings = _settings(command)
    facts = {
        "trained on": _hardware(devices, gpus),
        "parameters": parameters,
        "updates": f"{history.updates:,}",
        "time": _time(history),
    }
    known = {name: value for name, value in facts.items() if value}
    return Training(finished, settings, known, history)


def _settings(command: str) -> dict[str, str]:
    """The options of the ``gtrans train`` in a line of the log."""
    try:
        words = shlex.split(command.removeprefix(_COMMAND))
    except ValueError:
        return {}
    values: dict[str, list[str]] = {}
    flag = ""
    for word in words:
        if word.startswith("--"):
            flag, equals, value = word.partition("=")
            values[flag] = [value] if equals else []
        elif flag:
            values[flag].append(word)
    trains = any(word == "train" or Path(word).name == "fairseq-train" for word in words)
    return {
        name.removeprefix("--"): " ".join(found) or _WITHOUT_VALUE
        for name, found in values.items()
        if trains and name not in _PLACES
    }


def _hardware(devices: str, gpus: Mapping[str, int]) -> str:
    if gpus:
        each = min(gpus.values())  # a run that went on has named them more than once
        names = " and ".join(gpus)
        count = int(devices) if devices else each
        return f"{count} x {names}" if count > 1 else names
    return "CPU" if devices in ("", "1") else f"CPU, {devices} processes"


def _time(history: History) -> str:
    """Hours and minutes; the clock of a run goes on where it was stopped."""
    records: Iterable[float] = (
        record.values["wall"]
        for record in (*history.inner, *history.epochs)
        if "wall" in record.values
    )
    seconds = max(records, default=0.0)
    if not seconds:
        return ""
    minutes, rest = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    if hours:
        return f"{hours} h {minutes:02} min"
    return f"{minutes} min {rest:02} s" if minutes else f"{rest} s"


def differing(trainings: Sequence[Training]) -> tuple[list[str], list[str]]:
    """The names of settings that differ, and of those that are the same in all trainings."""
    names = dict.fromkeys(name for one in trainings for name in one.settings)
    same = {
        name for name in names if len({one.settings.get(name, "") for one in trainings}) == 1
    }
    return [name for name in names if name not in same], [name for name in names if name in same]
