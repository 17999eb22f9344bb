"""The steps of scripts/gpu_check.sh, each a process with a time limit of its own."""

from __future__ import annotations

import argparse
import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import torch

from gtrans.lab.provenance import provenance

ROOT = Path(__file__).resolve().parents[1]


def steps(device: str, out: Path) -> dict[str, tuple[list[str], int]]:
    """The steps, the most important first: words after the interpreter, limits in seconds."""
    gpu = ["scripts/benchmarks/run.py", "gpu", "--out", str(out / "gpu")]
    tests = ["-m", "pytest", "tests/gpu", "tests/optim", "-q", "-p", "no:cacheprovider", "-rs"]
    if device == "cpu":
        # one system, and time for a busy machine; the suite runs the others in its own way
        tests += ["-k", "backends or gtransformer_tiny or two_processes"]
        return {"gpu": ([*gpu, "--toy"], 3000), "tests": (tests, 1200)}
    # Tests wait for Python more than for the GPU: several processes share it.
    return {"gpu": (gpu, 360), "tests": ([*tests, "-n", "8"], 120)}


def run(words: list[str], log: Path, seconds: float, device: str) -> dict[str, Any]:
    """Run a command for at most ``seconds``; returns its outcome."""
    begin = time.monotonic()
    environment = {**os.environ, "PYTHONUNBUFFERED": "1", "GTRANS_TEST_DEVICE": device}
    with log.open("w", encoding="utf-8") as file:
        process = subprocess.Popen(
            [sys.executable, *words],
            cwd=ROOT,
            stdout=file,
            stderr=subprocess.STDOUT,
            stdin=subprocess.DEVNULL,
            start_new_session=True,
            env=environment,
        )
        try:
            code = process.wait(seconds)
            status = "passed" if code == 0 else f"failed (status {code})"
        except subprocess.TimeoutExpired:
            os.killpg(process.pid, signal.SIGKILL)  # with what it has started
            process.wait()
            status = f"longer than {seconds:.0f} s"
    *_, last = log.read_text(encoding="utf-8", errors="replace").strip().split("\n")
    spent = round(time.monotonic() - begin, 1)
    return {"step": log.stem, "status": status, "seconds": spent, "last line": last}


def summary(outcomes: list[dict[str, Any]], out: Path) -> str:
    """Return the outcomes so far, as a page."""
    facts = provenance()
    if torch.cuda.is_available():
        facts["GPU"] = torch.cuda.get_device_name()
    lines = [
        "# What a GPU shows",
        "",
        ", ".join(f"{name}: {value}" for name, value in facts.items()),
        "",
        "| step | outcome | seconds | last line |",
        "| --- | --- | ---: | --- |",
    ]
    for outcome in outcomes:
        last = outcome["last line"].replace("|", "\\|")[:160]
        lines.append(f"| {outcome['step']} | {outcome['status']} | {outcome['seconds']} | {last} |")
    lines += ["", f"The measurements are in {out / 'gpu' / 'benchmarks.json'}."]
    return "\n".join(lines) + "\n"


def main() -> int:
    """Run all steps; returns the exit status."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--device", choices=("cpu", "cuda"), required=True)
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--seconds", type=float, required=True)
    args = parser.parse_args()
    if args.device == "cuda" and not torch.cuda.is_available():
        sys.exit("gpu_check: error: torch sees no GPU here; --cpu tries the steps without one.")
    deadline = time.monotonic() + args.seconds
    outcomes: list[dict[str, Any]] = []
    for name, (words, limit) in steps(args.device, args.out).items():
        left = min(limit, max(deadline - time.monotonic(), 1))
        outcome = run(words, args.out / f"{name}.log", left, args.device)
        outcomes.append(outcome)
        print(f"{name}: {outcome['status']}, {outcome['seconds']} s", flush=True)
        (args.out / "outcomes.json").write_text(json.dumps(outcomes, indent=2) + "\n")
        (args.out / "summary.md").write_text(summary(outcomes, args.out), encoding="utf-8")
    passed = all(outcome["status"] == "passed" for outcome in outcomes)
    result = "all steps passed" if passed else "NOT all steps passed"
    print(f"{result}: {args.out / 'summary.md'}")
    return 0 if passed else 1


if __name__ == "__main__":
    sys.exit(main())
