"""Seconds of beam search on a GPU at two commits, beside stock fairseq, with a profile.

    python scripts/gpu_decoding.py prepare --before COMMIT            here, with git; fills --work
    python scripts/gpu_decoding.py measure --out OUT [--documents FILE]   on the GPU, 4 minutes

`prepare` writes the files of the commit before to WORK/before. `measure` runs the decoding part of
`scripts/benchmarks/gpu.py` of both trees in turn: 3,918 sentences of 200 real documents, at most
1,024 and 234 rows at once, stock fairseq and the models of this project. Then it profiles whole
searches, with their beginning and end: time of the host, launches, waits and the slowest kernels.

OUT/decoding.json is written after every cell, the most telling first. --cpu tries it at toy size.
"""

from __future__ import annotations

import argparse
import importlib
import json
import os
import subprocess
import sys
import time
from argparse import Namespace
from collections import Counter
from collections.abc import Callable, Iterator
from functools import partial
from itertools import chain
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
TREES = ("now", "before")
PROFILED, SENTENCES = 4, 3  # documents, and the sentences of each: a profile has every operation
SLOWEST = 10  # kernels
Row = dict[str, Any]


def prepare(args: argparse.Namespace) -> None:
    """Write the files of a commit to WORK/before."""
    target = args.work / "before"
    target.mkdir(parents=True, exist_ok=True)
    words = ["git", "-C", str(ROOT)]
    archive = subprocess.run(
        [*words, "archive", args.before, "gtrans", "scripts", "configs"],
        check=True,
        stdout=subprocess.PIPE,
    )
    subprocess.run(["tar", "-x", "-C", str(target)], input=archive.stdout, check=True)
    name = subprocess.check_output([*words, "rev-parse", "--short", args.before], text=True)
    (target / "commit").write_text(name, encoding="utf-8")
    now = subprocess.check_output([*words, "describe", "--always", "--dirty"], text=True)
    (args.work / "commit").write_text(now, encoding="utf-8")
    print(f"{target}: {name.strip()}; here: {now.strip()}")


# --- one tree -------------------------------------------------------------------------------------


def rows_of(args: argparse.Namespace) -> Iterator[Row]:
    """Measure the tree that PYTHONPATH names; the benchmark's rows come first."""
    import torch

    check_engine()
    import_plugin()
    torch.set_num_threads(1)
    # The benchmarks of that tree, which are scripts.
    gpu, models = importlib.import_module("gpu"), importlib.import_module("models")
    settings = dict(gpu.GPU.settings)
    if args.cpu:
        settings |= gpu.GPU.toy
    if args.documents:
        settings["documents"] = args.documents
    wanted = Namespace(**settings)
    size = "toy" if args.cpu else gpu.GPU.size
    setup = models.Setup(models.SIZES[size])
    yield from gpu.decoding(wanted, setup)
    yield from profiles(gpu, wanted, setup)


def check_engine() -> None:
    """Raise an error if torch or fairseq is missing; older trees have no such check."""
    environment = importlib.import_module("gtrans.environment")
    if hasattr(environment, "ENGINE"):
        environment.require(environment.ENGINE, "gpu_decoding")


def import_plugin() -> None:
    """Register models and tasks; the module has moved between commits."""
    package = importlib.import_module("gtrans")
    # By its files: an import would also find the modules of an installed gtrans.
    folders = [path.name for path in Path(package.__path__[0]).iterdir()]
    name = "translating" if "translating" in folders else "decoding"
    importlib.import_module(f"gtrans.{name}.loading").import_plugin()


def profiles(gpu: Any, wanted: Namespace, setup: Any) -> Iterator[Row]:
    """What whole searches of some documents take, with their beginning and end."""
    from gtrans.data.units import DocumentUnit

    texts = gpu.real_documents(wanted.documents, setup, min(PROFILED, wanted.document_count))
    texts = [text[:SENTENCES] for text in texts]
    documents = []
    for text in texts:
        for span in DocumentUnit(512).cut([len(sentence) - 1 for sentence in text]):
            documents.append([text[number] for number in span.source])
    sentences = [[sentence] for sentence in chain(*texts)]
    cases = (
        ("G-Transformer", gpu.REGROUP, setup.by_document, documents),
        (gpu.SENTENCES, gpu.SENTENCES, setup.by_document, sentences),
        (gpu.STOCK, gpu.STOCK, setup.by_sentence, sentences),
    )
    tokens, most = wanted.decoding_batches[0]
    for name, system, write, rows in cases:
        model = gpu.model_in_bf16(setup, system).eval()
        work = partial(write, model, rows, tokens, most, gpu.placed)
        yield {"part": "profile", "system": name, "rows": len(rows), **profiled(gpu, work)}


def profiled(gpu: Any, work: Callable[[], object]) -> Row:
    """Host time, launches, waits and the slowest kernels of a search, after one to warm up."""
    from torch._C._autograd import DeviceType
    from torch.profiler import ProfilerActivity, profile

    work()
    seconds = gpu.seconds(work)
    activities = [ProfilerActivity.CPU]
    if gpu.CUDA:
        activities.append(ProfilerActivity.CUDA)
    begin = time.perf_counter()
    with profile(activities=activities) as recorded:
        work()
        host = time.perf_counter() - begin
        gpu.seconds(lambda: None)  # waits for the last kernel
    # The events as they were recorded; torch takes minutes to make a tree of so many.
    names: Counter[str] = Counter()
    kernels: Counter[str] = Counter()
    for event in recorded.profiler.kineto_results.events():
        names[event.name()] += 1
        if event.device_type() != DeviceType.CPU:
            kernels[event.name()] += event.duration_ns()
    slowest = []
    for name, nanoseconds in kernels.most_common(SLOWEST):
        slowest.append([name[:80], names[name], round(nanoseconds / 1e6, 3)])
    return {
        "seconds": seconds,
        "host_seconds_profiled": host,
        "gpu_ms": sum(kernels.values()) / 1e6,
        "launches": names["cudaLaunchKernel"] + names["cudaLaunchKernelExC"],
        "copies": names["cudaMemcpyAsync"],
        "waits": {name: names[name] for name in gpu._WAITS},
        "slowest": slowest,
    }


def child(args: argparse.Namespace) -> None:
    """Print the rows of one tree as lines of JSON."""
    for row in rows_of(args):
        print("ROW " + json.dumps(row, default=str), flush=True)


# --- both trees -----------------------------------------------------------------------------------


def measure(args: argparse.Namespace) -> None:
    """Measure both trees, also if one fails; the file is written after every row."""
    args.out.mkdir(parents=True, exist_ok=True)
    found: dict[str, Any] = {"command": "python scripts/gpu_decoding.py measure", "trees": {}}
    failed: list[str] = []
    for tree in TREES:
        folder = ROOT if tree == "now" else args.work / "before"
        named = args.work / "commit" if tree == "now" else folder / "commit"
        if not named.is_file():
            sys.exit("gpu_decoding: error: `prepare --before COMMIT` comes first.")
        rows: list[Row] = []
        found["trees"][tree] = {"commit": named.read_text("utf-8").strip(), "rows": rows}
        words = [sys.executable, __file__, "child", "--work", str(args.work)]
        if args.cpu:
            words.append("--cpu")
        if args.documents:
            words += ["--documents", str(args.documents)]
        paths = [str(folder), str(folder / "scripts" / "benchmarks")]
        environment = os.environ | {"PYTHONPATH": os.pathsep.join(paths)}
        log = args.out / f"{tree}.log"
        with (
            log.open("w", encoding="utf-8") as errors,
            subprocess.Popen(
                words, cwd=folder, env=environment, stdout=subprocess.PIPE, stderr=errors, text=True
            ) as process,
        ):
            assert process.stdout is not None
            for line in process.stdout:
                if line.startswith("ROW "):
                    rows.append(json.loads(line[4:]))
                    print(f"{tree}: {line[4:].strip()[:300]}", flush=True)
                    text = json.dumps(found, indent=1) + "\n"
                    (args.out / "decoding.json").write_text(text, encoding="utf-8")
        if process.returncode:
            failed.append(f"{tree} failed with status {process.returncode}, see {log}")
    if failed:
        sys.exit(f"gpu_decoding: error: {'; '.join(failed)}")


def main() -> None:
    """Read the options and run."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    add = parser.add_argument
    add("step", choices=["prepare", "measure", "child"], help="child: one tree, for measure")
    add("--before", metavar="COMMIT", help="prepare: the commit to compare with")
    add("--work", type=Path, default=Path("build/gpu-decoding"), help="(%(default)s)")
    add("--out", type=Path, metavar="OUT", help="measure: a folder for what comes back")
    add("--documents", type=Path, metavar="FILE", help="gzipped text of real documents")
    add("--cpu", action="store_true", help="toy size, on the CPU")
    args = parser.parse_args()
    for step, name in (("prepare", "before"), ("measure", "out")):
        if args.step == step and getattr(args, name) is None:
            parser.error(f"{step} needs `--{name}`.")
    for name in ("work", "out", "documents"):
        if getattr(args, name) is not None:
            setattr(args, name, getattr(args, name).resolve())
    {"prepare": prepare, "measure": measure, "child": child}[args.step](args)


if __name__ == "__main__":
    main()
