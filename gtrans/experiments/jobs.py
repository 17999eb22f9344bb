"""What is run for an experiment: commands, the files that they make, and who waits for whom."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass, field
from functools import cached_property
from pathlib import Path
from shlex import join
from typing import Any

from gtrans.errors import GtransError
from gtrans.experiments.catalogue import in_tuples
from gtrans.experiments.recipes import where_it_stands
from gtrans.identity.files import atomic_writer


@dataclass(frozen=True)
class Job:
    """One command.

    Attributes:
        name: its own, a path below the folder of the plan; its record and log stand there.
        argv: the command; a run script by its name alone.
        makes: files that are there when it has ended well; no other job makes them.
        after: names of the jobs that must have ended well before it begins.
        reads: files that no job makes; when one changes, the job runs again.
        stdout: the file that gets what it prints; empty: its log.
        threads: CPU cores that it keeps busy.
        gpu: whether it takes the GPUs of a machine; one such job runs at a time.
    """

    name: str
    argv: tuple[str, ...]
    makes: tuple[str, ...]
    after: tuple[str, ...] = ()
    reads: tuple[str, ...] = ()
    stdout: str = ""
    threads: int = 1
    gpu: bool = False

    @property
    def command(self) -> str:
        """``argv`` as a line that can be typed."""
        return join(where_it_stands(self.argv))

    @property
    def files(self) -> tuple[str, ...]:
        """All files that it makes."""
        return (*self.makes, *([self.stdout] if self.stdout else []))


@dataclass(frozen=True)
class Plan:
    """The jobs of some experiments.

    Attributes:
        folder: all jobs, records and results are below it.
        jobs: in an order in which they could run.
    """

    folder: Path
    jobs: tuple[Job, ...] = field(default=())

    @cached_property
    def by_name(self) -> dict[str, Job]:
        """The jobs by their names."""
        return {job.name: job for job in self.jobs}

    def record(self, name: str) -> Path:
        """The file that says that a job has ended well, and how."""
        return self.folder / f"{name}.json"

    def log(self, name: str) -> Path:
        """The file with what a job has printed."""
        return self.folder / f"{name}.log"

    def before(self, names: Iterable[str]) -> list[Job]:
        """These jobs and all that they wait for, in the order of the plan."""
        wanted: set[str] = set()
        open_names = list(names)
        while open_names:
            name = open_names.pop()
            if name not in wanted:
                wanted.add(name)
                open_names += self.by_name[name].after
        return [job for job in self.jobs if job.name in wanted]

    def write(self, path: Path) -> None:
        """Write it as JSON, for the workflow."""
        with atomic_writer(path) as file:
            file.write(
                json.dumps({"folder": str(self.folder), "jobs": list(map(asdict, self.jobs))})
            )


def in_this_order(plan: Plan, names: Iterable[str]) -> Plan:
    """The same jobs: first all that the first of ``names`` needs, then what the second adds, .."""
    ordered: dict[str, Job] = {}

    def add(name: str) -> None:
        if name not in ordered:
            job = plan.by_name[name]
            for earlier in job.after:
                add(earlier)
            ordered[name] = job

    for name in (*names, *plan.by_name):
        add(name)
    return Plan(plan.folder, tuple(ordered.values()))


def read_plan(path: Path) -> Plan:
    """What :meth:`Plan.write` has written."""
    content = json.loads(path.read_text(encoding="utf-8"))
    jobs = tuple(Job(**in_tuples(job)) for job in content["jobs"])
    return Plan(Path(content["folder"]), jobs)


class Jobs:
    """Collects jobs; the same job may be asked for by several experiments.

    Raises:
        GtransError: two different jobs have one name or make the same file.
    """

    def __init__(self) -> None:
        self._jobs: dict[str, Job] = {}
        self._makers: dict[str, str] = {}

    def add(self, job: Job) -> Job:
        """Put it in; returns it."""
        known = self._jobs.setdefault(job.name, job)
        if known != job:
            raise GtransError(
                f"{job.name}: two experiments want different commands for it: "
                f"{known.command}, and {job.command}; give one of the variants a `name`."
            )
        for path in job.files:
            maker = self._makers.setdefault(path, job.name)
            if maker != job.name:
                raise GtransError(f"{path}: both {maker} and {job.name} make it.")
        return job

    def plan(self, folder: Path) -> Plan:
        """All of them."""
        return Plan(folder, tuple(self._jobs.values()))


def finished(plan: Plan, job: Job) -> Mapping[str, Any] | None:
    """The record of a job that has ended well with these options and whose files are there."""
    try:
        record: dict[str, Any] = json.loads(plan.record(job.name).read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return None
    complete = record.get("argv") == list(job.argv) and all(Path(f).exists() for f in job.files)
    return record if complete else None
