"""Run one job of an experiment, and record that and how it has ended.

``python -m gtrans.experiments.job --record FILE [--stdout FILE] [--makes FILE ...] -- COMMAND ...``
runs the command without a shell; a run script of this project needs no path. What it prints goes to
a log beside the record. The record is written last, and only if the command has ended well and has
made its files, so it stands for a finished job; it has the command, its time and the machine. Times
of calls that were stopped are added up in a file beside it.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import resource
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import gtrans
from gtrans.errors import GtransError
from gtrans.experiments.recipes import where_it_stands
from gtrans.identity.files import atomic_writer, replacing
from gtrans.messages import say


def main(argv: Sequence[str] | None = None) -> int:
    """The exit status: that of the command, or 1 if it has not made its files."""
    parser = argparse.ArgumentParser(prog="python -m gtrans.experiments.job")
    parser.add_argument("--record", type=Path, required=True)
    parser.add_argument("--stdout", type=Path)
    parser.add_argument("--makes", type=Path, action="append", default=[])
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("command", nargs="+")
    args = parser.parse_args(argv)
    try:
        return _run(args)
    except GtransError as error:
        say(f"gtrans: error: {error}")
        return 1


def _run(args: argparse.Namespace) -> int:
    log = args.record.with_suffix(".log")
    log.parent.mkdir(parents=True, exist_ok=True)
    files = [*args.makes, *([args.stdout] if args.stdout else [])]
    started, begin, before = datetime.now(UTC), time.monotonic(), _state(files)
    status = _command(args, log)
    missing = [path for path in args.makes if not path.exists()]
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    last = round(time.monotonic() - begin, 2)
    spent = _Spent(args.command, not (status or missing), last, used.ru_utime + used.ru_stime)
    spent = _add_up(args.record.with_suffix(".times"), spent, before != _state(files))
    if status or missing:
        why = f"status {status}: {_last_line(log)}" if status else f"{missing[0]} is not there"
        say(f"gtrans: error: {args.record.with_suffix('')} has failed ({why}); see {log}.")
        return status or 1
    record: dict[str, Any] = {
        "argv": args.command,
        "version": gtrans.__version__,
        "started": started.isoformat(timespec="seconds"),
        "seconds": round(spent.seconds, 2),
        "cpu_seconds": round(spent.cpu_seconds, 2),
        "last_seconds": last,
        "threads": args.threads,
        "hardware": hardware(),
    }
    with atomic_writer(args.record) as file:
        file.write(json.dumps(record, indent=2) + "\n")
    return 0


@dataclass(frozen=True)
class _Spent:
    """The time that a command has taken, over all calls until it had ended well."""

    argv: list[str]
    ended: bool
    seconds: float
    cpu_seconds: float


def _add_up(path: Path, this: _Spent, changed: bool) -> _Spent:
    """The time of this call with those before it, which are kept in a file.

    A call after the command has ended well does nothing, or all anew: ``changed`` tells them apart.
    """
    try:
        earlier = _Spent(**json.loads(path.read_text(encoding="utf-8")))
    except (OSError, ValueError, TypeError):
        earlier = None
    if earlier is None or earlier.argv != this.argv:
        total = this
    elif earlier.ended:
        total = this if changed else earlier
    else:
        total = replace(
            this,
            seconds=earlier.seconds + this.seconds,
            cpu_seconds=earlier.cpu_seconds + this.cpu_seconds,
        )
    with atomic_writer(path) as file:
        file.write(json.dumps(asdict(total)) + "\n")
    return total


def _state(files: Sequence[Path]) -> list[tuple[int, int] | None]:
    """When the files were written, and how large they are."""
    found = [path.stat() if path.exists() else None for path in files]
    return [None if it is None else (it.st_mtime_ns, it.st_size) for it in found]


def _command(args: argparse.Namespace, log: Path) -> int:
    """Run it; returns its exit status."""
    environment = {"OMP_NUM_THREADS": str(args.threads), **os.environ}
    # A recipe runs the `gtrans` of this Python.
    environment["PATH"] = os.pathsep.join([str(Path(sys.executable).parent), os.environ["PATH"]])
    with open(log, "w", encoding="utf-8") as output:
        if args.stdout is None:
            return _call(args.command, environment, output, output)
        args.stdout.parent.mkdir(parents=True, exist_ok=True)
        with suppress(_FailedError), replacing(args.stdout) as (temporary,):
            with open(temporary, "wb") as printed:
                status = _call(args.command, environment, printed, output)
            if status:
                raise _FailedError  # what it has printed is not kept
    return status


class _FailedError(Exception):
    """The command has ended with an error."""


def _call(command: Sequence[str], environment: dict[str, str], stdout: Any, stderr: Any) -> int:
    # A signal to end goes to the command, too, which may save its work: that is waited for.
    signal.signal(signal.SIGTERM, lambda *_: None)
    try:
        done = subprocess.run(
            where_it_stands(command),
            env=environment,
            stdin=subprocess.DEVNULL,
            stdout=stdout,
            stderr=stderr,
            check=False,
        )
    except OSError as error:
        raise GtransError(f"{command[0]}: cannot be run ({error.strerror}).") from None
    return done.returncode if done.returncode >= 0 else 128 - done.returncode


def _last_line(log: Path) -> str:
    lines = log.read_text(encoding="utf-8", errors="replace").split("\n")
    return next((line.strip()[:300] for line in reversed(lines) if line.strip()), "no output")


def hardware() -> str:
    """Processor and GPUs of this machine, in words."""
    name = platform.processor() or platform.machine()
    with suppress(OSError):
        for line in Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines():
            if line.startswith("model name"):
                name = line.partition(":")[2].strip()
                break
    parts = [f"{name}, {os.cpu_count()} cores"]
    if shutil.which("nvidia-smi") and os.environ.get("CUDA_VISIBLE_DEVICES") != "":
        query = ["nvidia-smi", "--query-gpu=name", "--format=csv,noheader"]
        done = subprocess.run(query, capture_output=True, text=True, check=False)
        gpus = done.stdout.splitlines() if done.returncode == 0 else []
        parts += [f"{gpus.count(gpu)} x {gpu.strip()}" for gpu in dict.fromkeys(gpus)]
    return ", ".join(parts)


if __name__ == "__main__":
    sys.exit(main())
