"""The steps of scripts/gpu_check.sh, each a process with a time limit of its own."""

from __future__ import annotations

import argparse
import hashlib
import json
import os
import platform
import signal
import subprocess
import sys
import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import torch

from gtrans.files import atomic_writer

ROOT = Path(__file__).resolve().parents[1]
PASSED = "passed"


@dataclass(frozen=True)
class Step:
    """A command.

    Attributes:
        name: of its log and its JSON file.
        words: the command, after the interpreter.
        limit: seconds.
        environment: variables besides those of this process.
        results: a file that it writes into the folder, as part of what was found.
    """

    name: str
    words: list[str]
    limit: int
    environment: Mapping[str, str] = field(default_factory=dict)
    results: str = ""


def steps(device: str, out: Path) -> list[Step]:
    """What is run, the most important first."""
    tests = [
        "-m",
        "pytest",
        str(ROOT / "tests/gpu"),
        str(ROOT / "tests/optim"),
        "-q",
        "-p",
        "no:cacheprovider",
        "-rs",
    ]
    waits = ["scripts/count_waits.py", "--out", str(out / "waits.rows.json")]
    gpu = ["scripts/benchmarks/run.py", "gpu", "--out", str(out / "gpu")]
    if device == "cpu":
        # one system; the suite runs the others on the CPU in its own way
        tests += ["-k", "backends or gtransformer_tiny or two_processes"]
        waits += ["--device", "cpu"]
        gpu += ["--device", "cpu", "--size", "toy", "--seconds", "0.1", "--document-count", "5"]
    else:
        # Tests wait for Python more than for the GPU: several processes share it.
        tests += ["-n", "8"]
        gpu += ["--device", "cuda-bf16"]
    limits = {"gpu": 300, "waits": 60, "tests": 120}
    if device == "cpu":  # which may be busy
        limits = {name: 10 * limit for name, limit in limits.items()}
    return [
        Step("gpu", gpu, limits["gpu"], results="gpu/benchmarks.json"),
        Step("waits", waits, limits["waits"], results="waits.rows.json"),
        Step("tests", tests, limits["tests"], {"GTRANS_TEST_DEVICE": device}),
    ]


def run(step: Step, out: Path, seconds: float, on: Mapping[str, str]) -> dict[str, Any]:
    """Run a step for at most ``seconds``; its outcome, which is also written to its JSON file.

    What an earlier run has left is deleted first.

    Args:
        step: what is run.
        out: the folder for results.
        seconds: the limit.
        on: see :func:`machine`.
    """
    (out / f"{step.name}.json").unlink(missing_ok=True)
    (out / step.name / "benchmarks.md").unlink(missing_ok=True)
    if step.results:
        (out / step.results).unlink(missing_ok=True)
    begin = time.monotonic()
    status = f"longer than {seconds:.0f} s"
    with (out / f"{step.name}.log").open("w", encoding="utf-8") as log:
        process = subprocess.Popen(
            [sys.executable, *step.words], cwd=ROOT, stdout=log, stderr=subprocess.STDOUT,
            stdin=subprocess.DEVNULL, start_new_session=True,
            env={**os.environ, "PYTHONUNBUFFERED": "1", **step.environment},
        )  # fmt: skip
        try:
            code = process.wait(seconds)
            status = PASSED if code == 0 else f"failed (status {code})"
        except subprocess.TimeoutExpired:
            os.killpg(process.pid, signal.SIGKILL)  # with what it has started
            process.wait()
    last = (out / f"{step.name}.log").read_text(encoding="utf-8", errors="replace").split("\n")
    outcome: dict[str, Any] = {
        "status": status,
        "seconds": round(time.monotonic() - begin, 1),
        "command": command(step),
        "machine": dict(on),
        "last line": next((line for line in reversed(last) if line.strip()), ""),
    }
    results = out / step.results
    if step.results and results.is_file():
        outcome["results"] = json.loads(results.read_text(encoding="utf-8"))
    _write(out / f"{step.name}.json", json.dumps(outcome, indent=2) + "\n")
    return outcome


def command(step: Step) -> list[str]:
    """What a step runs, for people; equal commands do the same."""
    return [*(f"{name}={value}" for name, value in step.environment.items()), "python", *step.words]


def earlier(step: Step, out: Path, on: Mapping[str, str]) -> dict[str, Any] | None:
    """The outcome of an earlier run of the same command and commit here, if it has passed."""
    path = out / f"{step.name}.json"
    if not path.is_file():
        return None
    outcome: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
    same = outcome.get("command") == command(step) and outcome.get("machine") == on
    return outcome if same and outcome["status"] == PASSED else None


def machine(device: str) -> dict[str, str]:
    """What the numbers were measured on, and of which commit."""
    found = {
        "device": device,
        "python": platform.python_version(),
        "torch": torch.__version__,
        "commit": commit(),
    }
    if device == "cuda":
        found["GPU"] = f"{torch.cuda.device_count()} x {torch.cuda.get_device_name()}"
        found["CUDA"] = str(torch.version.cuda)
    return found


def commit() -> str:
    """The commit of the files here; with ``+`` and a digest of what differs from it."""
    git = ["git", "-C", str(ROOT)]
    try:
        head, changes = (
            subprocess.run([*git, *words], capture_output=True, check=True).stdout
            for words in (("rev-parse", "--short", "HEAD"), ("diff", "HEAD"))
        )
    except (OSError, subprocess.CalledProcessError):
        return "unknown"
    changed = f"+{hashlib.sha256(changes).hexdigest()[:8]}" if changes else ""
    return head.decode().strip() + changed


def summary(on: Mapping[str, str], outcomes: Mapping[str, dict[str, Any]], out: Path) -> str:
    """All that is known so far, as a page."""
    lines = ["# What a GPU shows", "", ", ".join(f"{key}: {value}" for key, value in on.items())]
    lines += ["", "| step | outcome | seconds | last line |", "| --- | --- | ---: | --- |"]
    for name, outcome in outcomes.items():
        last = outcome["last line"].replace("|", "\\|")[:160]
        lines.append(f"| {name} | {outcome['status']} | {outcome['seconds']} | {last} |")
    for name in outcomes:
        page = out / name / "benchmarks.md"
        if page.is_file():
            text = page.read_text(encoding="utf-8")
            lines += ["", "## " + text.partition("\n## ")[2].strip()]
    return "\n".join(lines) + "\n"


def _write(path: Path, text: str) -> None:
    with atomic_writer(path) as file:
        file.write(text)


def main() -> int:
    """Run all steps; the exit status."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--device", choices=("cpu", "cuda"), required=True)
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--seconds", type=float, required=True)
    args = parser.parse_args()
    if args.device == "cuda" and not torch.cuda.is_available():
        print("gpu_check: error: torch sees no GPU here; --cpu tries the steps without one.",
              file=sys.stderr)  # fmt: skip
        return 1
    deadline = time.monotonic() + args.seconds
    on, outcomes = machine(args.device), {}
    for step in steps(args.device, args.out):
        outcome = earlier(step, args.out, on)
        left = deadline - time.monotonic()
        if outcome is None and left < 5:
            outcome = {"status": "no time left", "seconds": 0, "last line": ""}
        elif outcome is None:
            outcome = run(step, args.out, min(step.limit, left), on)
        outcomes[step.name] = outcome
        print(f"{step.name}: {outcome['status']}, {outcome['seconds']} s", flush=True)
        _write(args.out / "summary.md", summary(on, outcomes, args.out))
    passed = all(outcome["status"] == PASSED for outcome in outcomes.values())
    print(f"{'all steps passed' if passed else 'NOT all steps passed'}: {args.out / 'summary.md'}")
    return int(not passed)


if __name__ == "__main__":
    sys.exit(main())
