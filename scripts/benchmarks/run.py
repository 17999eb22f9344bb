"""Measure how fast models train and translate, and how much memory they need.

    python scripts/benchmarks/run.py NAME [--rounds N] [--out DIR]
    python scripts/benchmarks/run.py report      # write the page anew

The results of a run replace earlier ones of the same name in OUT/benchmarks.json. Then the page
OUT/benchmarks.md is generated from all results.
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
import torch
from measuring import Benchmark
from models import SIZES

from gtrans.decoding.loading import import_plugin
from gtrans.files import atomic_writer
from gtrans.lab.provenance import provenance

DOCS = Path(__file__).resolve().parents[2] / "docs"
# In the order of the page.
BENCHMARKS: dict[str, Benchmark] = {
    "training": cpu.TRAINING,
    "decoding": cpu.DECODING,
    "test-set": cpu.WHOLE_SET,
    "cost": cpu.COST,
    "cost-base": cpu.COST_OF_BASE,
    "memory": cpu.MEMORY,
    "gpu": gpu.GPU,
}
_INTRODUCTION = """# Benchmarks

See what training and decoding cost beside stock fairseq, by the length of a document.

**The numbers hold for these models, machines and versions alone; compare within a table.** They are
in `benchmarks.json`; `python scripts/benchmarks/run.py NAME` measures again and writes this page.

Unless a section says otherwise, models have one shared table of 8,000 embeddings, dropout 0.1 and
attention dropout 0; G-Transformers have 2 global layers on top of the encoder, the decoder and
cross-attention. Sentences have 25 words on average, between about 3 and 100. On the CPU one thread
computes in fp32, and time is CPU time of the process. Systems take turns in one process; a ratio is
the median of the ratios of the rounds.
"""


def parser() -> argparse.ArgumentParser:
    """The command line."""
    whole = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    add = whole.add_argument
    names = {name: benchmark.title for name, benchmark in BENCHMARKS.items()}
    add("name", choices=[*names, "report"], help=f"what is measured: {names}")
    add("--rounds", type=int, metavar="N", help="how often each system is measured, in turn")
    add("--data", type=Path, metavar="DIR", help="test-set: a folder made by `gtrans prepare`")
    add(
        "--checkpoints", type=Path, nargs=2, metavar=("DOCUMENT", "SENTENCE"),
        help="test-set: models trained with --data, a G-Transformer and one of fairseq",
    )  # fmt: skip
    add("--documents", type=Path, metavar="FILE", help=gpu.DOCUMENTS)
    add("--toy", action="store_true", help="try it with tiny models, on the CPU; needs --out")
    add(
        "--out", type=Path, default=DOCS, metavar="DIR",
        help="folder of benchmarks.json and benchmarks.md (default: docs/)",
    )  # fmt: skip
    return whole


def run(name: str, args: argparse.Namespace) -> Iterator[dict[str, Any]]:
    """Measure; what a reader of the numbers must know of the run, and rows, after every row."""
    benchmark = BENCHMARKS[name]
    settings = {"size": "toy" if args.toy else benchmark.size, **benchmark.settings}
    settings |= benchmark.toy if args.toy else {}
    given = {it: getattr(args, it) for it in ("rounds", "data", "checkpoints", "documents")}
    settings |= {key: value for key, value in given.items() if value is not None}
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
        return [_public(one) for one in value]
    return value.name if isinstance(value, Path) else value


def _section(benchmark: Benchmark, result: Mapping[str, Any]) -> Iterator[str]:
    """The parts of a section, from the ``settings``, ``versions`` and ``rows`` of a run."""
    settings = result["settings"]
    shown = {key: f"{v:,}" if isinstance(v, int) else v for key, v in settings.items()}
    text = benchmark.text.format(**shown)
    yield f"## {benchmark.title}\n\n{text} Models: {SIZES[settings['size']]}.\n"
    if settings["size"] == "toy":
        yield "**A try with a tiny model: these numbers say nothing.**\n"
    yield f"### {benchmark.device}\n\n{benchmark.table(result['rows'])}"
    known = [f"{it} instructions" if name == "instructions" else f"{name} {it}"
             for name, it in result["versions"].items()]  # fmt: skip
    rounds = settings.get("rounds")
    known += [f"{rounds} round{'s' if rounds > 1 else ''}"] if rounds else []
    yield f"Measured with {', '.join(known)}.\n"


def write(folder: Path, results: Mapping[str, Any]) -> None:
    """Write the JSON file and the page."""
    folder.mkdir(parents=True, exist_ok=True)
    parts = [_INTRODUCTION]
    for name, benchmark in BENCHMARKS.items():
        parts += _section(benchmark, results[name]) if name in results else []
    texts = {"json": json.dumps(results, indent=1) + "\n", "md": "\n".join(parts)}
    for ending, text in texts.items():
        with atomic_writer(folder / f"benchmarks.{ending}") as file:
            file.write(text)


def main(argv: Sequence[str] | None = None) -> None:
    """Run one benchmark and write the page."""
    whole = parser()
    args = whole.parse_args(argv)
    if args.toy and args.out.resolve() == DOCS:
        whole.error("`--toy` needs `--out DIR`: docs/ has real results.")
    if args.rounds is not None and args.rounds < 1:
        whole.error(f"`--rounds` must be at least 1, but is {args.rounds}.")
    if args.name == "test-set" and not (args.data and args.checkpoints):
        whole.error("test-set needs `--data` and `--checkpoints`.")
    if args.name == "gpu" and not args.toy and not torch.cuda.is_available():
        whole.error("this machine has no CUDA device; `--toy` tries it on the CPU.")
    logging.disable(logging.INFO)  # fairseq's messages
    path = args.out / "benchmarks.json"
    results = json.loads(path.read_text("utf-8")) if path.exists() else {}
    if args.name == "report":
        write(args.out, results)
        return
    torch.set_num_threads(1)
    import_plugin()
    for found in run(args.name, args):
        results[args.name] = found
        write(args.out, results)


if __name__ == "__main__":
    main()
