"""Measure how fast models train and translate, and how much memory they need.

    python scripts/benchmarks/run.py NAME .. [--rounds N] [--out DIR]

The results of a run replace earlier ones of the same name in DIR/benchmarks.json. `make generated`
then draws the figure of docs/benchmarks.md and writes its table anew.
"""

from __future__ import annotations

import argparse
import json
import logging
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import cpu
import gpu
import operations
import torch
from measuring import Benchmark

from gtrans.environment import import_plugin
from gtrans.files import atomic_writer
from gtrans.lab.provenance import provenance

RESULTS = Path(__file__).resolve().parents[2] / "results"
BENCHMARKS: dict[str, Benchmark] = {
    "training": cpu.TRAINING,
    "decoding": cpu.DECODING,
    "test-set": cpu.WHOLE_SET,
    "cost": cpu.COST,
    "cost-base": cpu.COST_OF_BASE,
    "memory": cpu.MEMORY,
    "operations": operations.OPERATIONS,
    "gpu": gpu.GPU,
}


def parser() -> argparse.ArgumentParser:
    """The command line."""
    whole = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    add = whole.add_argument
    add("names", nargs="+", choices=list(BENCHMARKS), metavar="NAME", help=", ".join(BENCHMARKS))
    add("--rounds", type=int, metavar="N", help="how often each system is measured, in turn")
    add("--data", type=Path, metavar="DIR", help="test-set: a folder made by `gtrans prepare`")
    add(
        "--checkpoints",
        type=Path,
        nargs=2,
        metavar=("DOCUMENT", "SENTENCE"),
        help="test-set: models trained with --data, a G-Transformer and one of fairseq",
    )
    add("--documents", type=Path, metavar="FILE", help=gpu.DOCUMENTS)
    add("--toy", action="store_true", help="try it with tiny models, on the CPU; needs --out")
    add(
        "--out",
        type=Path,
        default=RESULTS,
        metavar="DIR",
        help="folder of benchmarks.json (default: results/)",
    )
    return whole


def run(name: str, args: argparse.Namespace) -> Iterator[dict[str, Any]]:
    """Measure; yields settings, versions and all rows so far, after every row."""
    benchmark = BENCHMARKS[name]
    settings = {"size": "toy" if args.toy else benchmark.size, **benchmark.settings}
    settings |= benchmark.toy if args.toy else {}
    options = {key: getattr(args, key) for key in ("rounds", "data", "checkpoints", "documents")}
    settings |= {key: value for key, value in options.items() if value is not None}
    public = {key: _public(value) for key, value in settings.items() if value is not None}
    versions = provenance() | {"instructions": torch.backends.cpu.get_cpu_capability()}
    if torch.cuda.is_available():
        versions |= {"GPU": torch.cuda.get_device_name(), "CUDA": str(torch.version.cuda)}
    rows: list[dict[str, Any]] = []
    for row in benchmark.measure(argparse.Namespace(**settings)):
        rows.append({"device": benchmark.device, **row})
        shown = ((k, round(v, 3) if isinstance(v, float) else v) for k, v in rows[-1].items())
        print("  ".join(f"{key} {value}" for key, value in shown), flush=True)
        yield {"settings": public, "versions": versions, "rows": rows}


def _public(value: Any) -> Any:
    """A setting without the folders of this machine."""
    if isinstance(value, list):
        return [_public(item) for item in value]
    return value.name if isinstance(value, Path) else value


def write(path: Path, results: Mapping[str, Any]) -> None:
    """Write the JSON file."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with atomic_writer(path) as file:
        file.write(json.dumps(results, indent=1) + "\n")


def main(argv: Sequence[str] | None = None) -> None:
    """Run the benchmarks."""
    whole = parser()
    args = whole.parse_args(argv)
    if args.toy and args.out.resolve() == RESULTS:
        whole.error("`--toy` needs `--out DIR`: results/ has real ones.")
    if args.rounds is not None and args.rounds < 1:
        whole.error(f"`--rounds` must be at least 1, but is {args.rounds}.")
    if "test-set" in args.names and not (args.data and args.checkpoints):
        whole.error("test-set needs `--data` and `--checkpoints`.")
    if "gpu" in args.names and not args.toy and not torch.cuda.is_available():
        whole.error("this machine has no CUDA device; `--toy` tries it on the CPU.")
    logging.disable(logging.INFO)  # fairseq's messages
    path = args.out / "benchmarks.json"
    results = json.loads(path.read_text("utf-8")) if path.exists() else {}
    torch.set_num_threads(1)
    import_plugin()
    for name in args.names:
        for result in run(name, args):
            results[name] = result
            write(path, results)


if __name__ == "__main__":
    main()
