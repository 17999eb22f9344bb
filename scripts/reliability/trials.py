"""One trial: a command is killed, started again, killed again, until it ends by itself."""

from __future__ import annotations

import json
import random
import shutil
import subprocess
import threading
import time
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from cases import Case, identity, typed
from comparing import differences, left_over
from processes import Watched

MOST_KILLS = 3  # of one trial
AIMED = 0.4  # share of the kills that happen while a file is written
WITHIN = 0.01  # seconds after the beginning of such a writing
LONGEST = 20.0  # how many times longer than the uninterrupted run a start may take
LOOKING = 0.002  # seconds between two looks at a command


class TrialError(Exception):
    """An uninterrupted run failed, so there is nothing to compare with."""


class Cancelled(Exception):
    """The user has ended the program."""


@dataclass(frozen=True)
class Expected:
    """The uninterrupted run of a case.

    Attributes:
        identity: digest of what it was made from.
        seconds: from the start to the end.
        computed: seconds that its processes have computed, which measures its life: other work on
            the machine does not change it much.
        writing: how much of them was over at the first and at the last look that found a file open
            for writing that the case aims at.
    """

    identity: str
    seconds: float
    computed: float
    writing: tuple[float, float]


@dataclass(frozen=True)
class Kill:
    """How a command was killed.

    Attributes:
        seconds: since the start.
        share: of its life, as the uninterrupted run has measured it.
        aimed: at the writing of a file; otherwise at a moment.
        writing: the files that were open for writing.
        hit: whether one of them is a file that the case aims at.
        orphans: children that were still there after the time of grace.
    """

    seconds: float
    share: float
    aimed: bool
    writing: list[str]
    hit: bool
    orphans: list[str]


class Workplace:
    """The folder of a whole experiment.

    ``expected/`` has the uninterrupted runs, ``trials/`` the runs that are killed (only those that
    differ are kept), ``trials.jsonl`` a line for every finished trial.
    """

    def __init__(self, out: Path, cases: Mapping[str, Case], seed: int) -> None:
        self.out = out.resolve()
        self._cases = cases
        self._seed = seed
        self._records = self.out / "trials.jsonl"
        self._writing = threading.Lock()
        self.cancelled = threading.Event()
        (self.out / "expected").mkdir(parents=True, exist_ok=True)
        (self.out / "trials").mkdir(exist_ok=True)

    def available(self, case: Case) -> bool:
        """Whether what the case needs is there."""
        if not case.needs:
            return True
        done = subprocess.run(typed(case.needs), capture_output=True, stdin=subprocess.DEVNULL)
        return done.returncode == 0

    def trials(self, case: Case) -> list[dict[str, Any]]:
        """The records of the finished trials of a case, made with the code of today."""
        if not self._records.exists():
            return []
        known = identity(case, self._cases)
        lines = self._records.read_text("utf-8").splitlines()
        records = [json.loads(line) for line in lines]
        return [one for one in records if one["case"] == case.name and one["identity"] == known]

    def expect(self, case: Case) -> Expected:
        """The uninterrupted run of a case and, before it, those of the cases that it needs.

        Raises:
            TrialError: a command failed.
        """
        for name in case.others:
            self.expect(self._cases[name])
        known = identity(case, self._cases)
        folder = self.out / "expected" / case.name
        record, log = folder.with_suffix(".json"), folder.with_suffix(".log")
        if record.exists():
            found = json.loads(record.read_text("utf-8"))
            if found["identity"] == known:
                return Expected(**found)
        record.unlink(missing_ok=True)
        _empty(folder, log)
        looks: list[float] = []
        computed = 0.0
        with self._start(case, folder, log) as run:
            while run.status is None:
                self._wait()
                computed = max(computed, run.computed())
                if run.writing(run.recent_processes(), case.aim):
                    looks.append(computed)
            seconds, status = run.seconds, run.status
        if status:
            problem = _last_line(log)
            raise TrialError(f"{case.name}: its uninterrupted run failed: {problem} ({log})")
        span = (looks[0], looks[-1]) if looks else (0.0, computed)
        expected = Expected(known, seconds, computed, span)
        record.write_text(json.dumps(asdict(expected)) + "\n", "utf-8")
        return expected

    def trial(
        self, case: Case, expected: Expected, number: int, kills: int, aiming: bool
    ) -> dict[str, Any]:
        """Kill at most ``kills`` times, let it finish, compare; returns the record.

        Args:
            case: what is killed.
            expected: its uninterrupted run.
            number: of the trial; with the seed it decides about all moments.
            kills: the most kills.
            aiming: a part of the kills happens while a file is written; else all of them happen at
                moments.
        """
        draw = random.Random(f"{self._seed} {case.name} {number}")
        most = min(kills, draw.randint(1, MOST_KILLS))
        folder = self.out / "trials" / f"{case.name}.{number}"
        log = folder.with_suffix(".log")
        _empty(folder, log)
        done: list[Kill] = []
        failed = None
        while len(done) < most:
            aimed = draw.random() < AIMED and aiming
            kill, failed = self._killed(case, expected, folder, log, draw, aimed)
            if kill is None:
                break
            done.append(kill)
        else:
            failed = self._finished(case, expected, folder, log)
        reference = self.out / "expected" / case.name
        found = [failed] if failed else differences(reference, folder, case.results)
        record = {
            "case": case.name,
            "identity": expected.identity,
            "trial": number,
            "kills": [asdict(kill) for kill in done],
            "differences": found,
            "left_over": left_over(reference, folder),
        }
        if not found:
            shutil.rmtree(folder)
            log.unlink()
        with self._writing, open(self._records, "a", encoding="utf-8") as file:
            file.write(json.dumps(record) + "\n")
        return record

    def _start(self, case: Case, folder: Path, log: Path) -> Watched:
        return Watched(case.words(self.out / "expected"), folder, log)

    def _killed(
        self,
        case: Case,
        expected: Expected,
        folder: Path,
        log: Path,
        draw: random.Random,
        aimed: bool,
    ) -> tuple[Kill | None, str | None]:
        """Start and kill; the kill, unless the command ended before, and how it has failed."""
        first, last = expected.writing if aimed else (0.0, expected.computed)
        moment = draw.uniform(first, last)
        with self._start(case, folder, log) as run:
            while run.status is None:
                self._wait()
                computed = run.computed()
                if computed < moment:
                    continue
                if aimed:
                    if not run.writing(run.recent_processes(), case.aim):
                        continue
                    time.sleep(draw.uniform(0, WITHIN))
                everyone = run.processes()
                victims = everyone if case.whole else [run.first]
                run.pause(victims)
                writing = run.writing(everyone)
                hit = bool(run.writing(everyone, case.aim))
                if aimed and not hit:
                    run.resume(victims)
                    continue
                seconds = run.seconds
                run.kill(victims)
                share = computed / expected.computed
                orphans = run.end_orphans()
                return Kill(seconds, share, aimed, writing, hit, orphans), None
            return None, _failure(run.status, log)

    def _finished(self, case: Case, expected: Expected, folder: Path, log: Path) -> str | None:
        """Start and let it finish; how it has failed."""
        longest = max(60.0, LONGEST * expected.seconds)
        with self._start(case, folder, log) as run:
            while run.status is None:
                self._wait()
                if run.seconds > longest:
                    return f"it has not ended after {longest:.0f} seconds"
            return _failure(run.status, log)

    def _wait(self) -> None:
        if self.cancelled.is_set():
            raise Cancelled
        time.sleep(LOOKING)


def _empty(folder: Path, log: Path) -> None:
    """Make an empty folder and an empty log."""
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir()
    log.write_bytes(b"")


def _failure(status: int, log: Path) -> str | None:
    return f"status {status}: {_last_line(log)}" if status else None


def _last_line(log: Path) -> str:
    lines = log.read_text("utf-8", errors="replace").splitlines()
    return lines[-1] if lines else "it has printed nothing"
