"""Measure how fast models train and translate, and how much memory they need.

    python scripts/benchmarks/run.py NAME [--size ..] [--device ..] [--rounds ..] [--out ..]

The results of a run replace earlier ones of the same name in OUT/benchmarks.json. Then the page
OUT/benchmarks.md is generated from all results.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import decoding
import gpu
import measuring
import memory
import report
import training
import whole_set

DOCS = Path(__file__).resolve().parents[2] / "docs"
# In the order of the page.
BENCHMARKS = {
    module.BENCHMARK.name: module.BENCHMARK
    for module in (training, decoding, whole_set, memory, gpu)
}
# Settings that do not say what was measured.
_ELSEWHERE = ("name", "out", "device", "work")


def parser() -> argparse.ArgumentParser:
    """The command line: a name, the options of all benchmarks, those of this one."""
    whole = argparse.ArgumentParser(description=__doc__, formatter_class=_Raw)
    names = whole.add_subparsers(dest="name", required=True, metavar="NAME")
    for benchmark in BENCHMARKS.values():
        doc = f"{benchmark.title}: {benchmark.measure.__doc__}"
        one = names.add_parser(benchmark.name, help=benchmark.title, description=doc)
        one.add_argument(
            "--size", choices=measuring.SIZES, default=benchmark.size,
            help=f"size of the models: {', '.join(measuring.SIZES)} (default: %(default)s); `toy` "
            "is for trying out a benchmark",
            metavar="NAME",
        )  # fmt: skip
        one.add_argument(
            "--device", nargs="+", choices=benchmark.devices, metavar="NAME",
            default=measuring.available(benchmark.devices),
            help=f"devices: {', '.join(benchmark.devices)} (default: all that are available)",
        )  # fmt: skip
        if benchmark.rounds is not None:
            one.add_argument(
                "--rounds", type=int, default=benchmark.rounds, metavar="N",
                help="how often each system is measured, in turn (default: %(default)s)",
            )  # fmt: skip
        benchmark.add_options(one)
        _add_out(one)
    _add_out(names.add_parser("report", help="write the page anew from the JSON file"))
    return whole


def _add_out(one: argparse.ArgumentParser) -> None:
    one.add_argument(
        "--out", type=Path, default=DOCS, metavar="DIR",
        help="folder of benchmarks.json and benchmarks.md (default: docs/)",
    )  # fmt: skip


class _Raw(argparse.RawDescriptionHelpFormatter):
    """Keeps the lines of the module's description."""


def settings_of(args: argparse.Namespace) -> dict[str, Any]:
    """What the page and a reader of the JSON file must know of a run."""
    return {
        key: _named(value)
        for key, value in vars(args).items()
        if key not in _ELSEWHERE and value is not None
    }


def _named(value: Any) -> Any:
    """A setting without the folders of this machine."""
    if isinstance(value, list):
        return [_named(one) for one in value]
    return value.name if isinstance(value, Path) else value


def run(benchmark: report.Benchmark, args: argparse.Namespace) -> Iterator[dict[str, Any]]:
    """Measure on every device; settings, versions and rows, again after every row."""
    settings = settings_of(args)
    args.size = measuring.SIZES[args.size]
    rows: report.Rows = []
    for name in args.device:
        device = measuring.DEVICES[name]
        for row in benchmark.measure(args, device):
            rows.append({"device": device.label, **row})
            shown = ((k, round(v, 3) if isinstance(v, float) else v) for k, v in rows[-1].items())
            print(
                "  ".join(f"{key} {value}" for key, value in shown if not isinstance(value, dict)),
                flush=True,
            )
            yield {"settings": settings, "versions": report.versions(), "rows": rows}


def main(argv: Sequence[str] | None = None) -> None:
    """Run one benchmark and write the page."""
    whole = parser()
    args = whole.parse_args(argv)
    benchmark = BENCHMARKS.get(args.name)
    if benchmark is not None:
        if args.size != benchmark.size and args.out.resolve() == DOCS:
            whole.error(
                f"`--size {args.size}` needs `--out DIR`: docs/ has the results of "
                f"`--size {benchmark.size}`."
            )
        missing = set(args.device) - set(measuring.available(args.device))
        if missing:
            whole.error(f"`--device {min(missing)}`: this machine has no CUDA device.")
        if getattr(args, "rounds", 1) < 1:
            whole.error(f"`--rounds` must be at least 1, but is {args.rounds}.")
    out, results = args.out, report.read(args.out)
    if benchmark is not None:
        measuring.prepare_process()
        for found in run(benchmark, args):
            results[args.name] = found
            report.write(out, results, list(BENCHMARKS.values()))
    else:
        report.write(out, results, list(BENCHMARKS.values()))


if __name__ == "__main__":
    main()
