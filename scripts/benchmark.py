"""How fast our models train and translate, and what memory they need, next to stock fairseq.

    python scripts/benchmark.py train     # throughput as a fraction of a sentence Transformer's
    python scripts/benchmark.py decode    # beam search over whole documents, time per token
    python scripts/benchmark.py memory    # peak memory of a training step, one document
    python scripts/benchmark.py chunks    # long texts in chunks: with memory, without, as a whole
    python scripts/benchmark.py contrast  # scoring contrastive examples, in batches or not

All systems of a table run in one process, in turn, several times; a ratio is the median
of the ratios of the rounds, so that a machine that is busy for a while spoils little.
Results are kept in a JSON file, and the markdown page is written anew from all of it.
"""

from __future__ import annotations

import argparse
import json
import logging
import platform
import resource
import statistics
import subprocess
import sys
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import fairseq
import torch
from benchmark_chunks import CHILD, add_child, add_options, chunks, one_text
from benchmark_contrast import add_contrast_options, contrast_rows
from benchmark_report import page
from benchmark_systems import (
    PAPER,
    TOY,
    Batch,
    Device,
    Size,
    Trainer,
    decode_ours,
    decode_stock,
    devices,
    dictionary_of,
    document_batches,
    documents_of,
    gtransformer,
    sentence_batches,
    stock_transformer,
)
from torch import Tensor, nn

DOCS = Path(__file__).resolve().parent.parent / "docs"
GROUP_ONLY = {f"{part}_top_attention": "group" for part in ("encoder", "decoder", "cross")}
# Name in the tables -> options of our model; None is stock fairseq.
TRAINED: dict[str, dict[str, Any] | None] = {
    "stock sentence Transformer": None,
    "gtrans regroup": {"attention_backend": "regroup"},
    "gtrans dense": {"attention_backend": "dense"},
    "gtrans document Transformer": {"doc_mode": "full"},
}
DECODED: dict[str, dict[str, Any] | None] = {
    "stock document Transformer": None,
    "gtrans": {},
    "gtrans document Transformer": {"doc_mode": "full"},
    "gtrans, group attention only": dict(GROUP_ONLY),
}
MEASURED: dict[str, dict[str, Any]] = {"gtrans": {}, "gtrans, group attention only": GROUP_ONLY}
Rows = list[dict[str, Any]]
Tasks = dict[Any, Callable[[], float]]


def train(args: argparse.Namespace) -> Rows:
    """Words per second of updates, for every length of documents and every system."""
    size, rows = _size(args), []
    dictionary = dictionary_of(size)
    for device in devices():
        systems = dict(TRAINED)
        if device.name == "cuda":
            systems["gtrans varlen"] = {"attention_backend": "varlen"}
        trainers = {
            name: Trainer(_model(size, options), dictionary, device)
            for name, options in systems.items()
        }
        for words in args.lengths:
            text = documents_of(words, max(args.corpus_words // words, 1), dictionary)
            # The yardstick's batches come from the whole text, as a corpus has them: sorted
            # by length and hardly padded. As many as hold the words of the documents.
            sample = max(round(args.words / args.batch_words), 1)
            sentences = sentence_batches(text, dictionary, args.batch_words, sample)
            chosen = text[: max(args.words // words, 1)]
            documents = document_batches(chosen, dictionary, args.batch_words)
            batches: dict[str, list[Batch]] = {}
            for name, options in systems.items():
                if name == "gtrans dense" and words > args.quadratic_limit:
                    continue  # its score matrices alone would take tens of gigabytes
                made = sentences if options is None else documents
                # One batch tells what a slow system costs.
                made = made[:1] if name == "gtrans dense" else made
                batches[name] = [device.place(batch) for batch in made]
            for name, made in batches.items():
                trainers[name].seconds(made[:1])  # position tables, buffers, caches
            rounds: Tasks = {
                name: partial(trainers[name].seconds, made) for name, made in batches.items()
            }
            seconds = _rounds(rounds, args.repetitions)
            real = {name: _words(made, dictionary) for name, made in batches.items()}
            cost = {name: [s / real[name] for s in seconds[name]] for name in batches}
            for name in batches:
                rows.append(
                    {
                        "device": device.label,
                        "words": words,
                        "system": name,
                        "words_per_second": 1 / statistics.median(cost[name]),
                        "of_stock": _ratio(cost["stock sentence Transformer"], cost[name]),
                    }
                )
                _say(rows[-1])
    return rows


def decode(args: argparse.Namespace) -> Rows:
    """Milliseconds per token of beam search over documents, one document at a time."""
    size, rows = _size(args), []
    dictionary = dictionary_of(size)
    for device in devices():
        models = {name: device.model(_model(size, o)).eval() for name, o in DECODED.items()}
        tasks: Tasks = {}
        for words in args.lengths:
            # A few short documents, so that a round lasts long enough to be measured.
            text = documents_of(words, max(args.words // words, 1), dictionary)
            sources = [
                device.place(batch)["net_input"]["src_tokens"]
                for batch in document_batches(text, dictionary, 1)
            ]
            for name, options in DECODED.items():
                if options is None and words > args.stock_limit:
                    continue
                write: Any = decode_stock if options is None else decode_ours
                writing = partial(write, models[name], dictionary)
                tasks[name, words] = partial(_milliseconds, device, writing, sources)
        if args.warm_up:
            for name in models:
                tasks[name, args.lengths[0]]()
        cost = _rounds(tasks, args.repetitions)
        flat = {name: cost[name, args.lengths[0]] for name in models}
        for (name, words), times in cost.items():
            row = {
                "device": device.label,
                "words": words,
                "system": name,
                "ms_per_token": statistics.median(times),
                "of_shortest": _ratio(times, flat[name]),
            }
            if ("stock document Transformer", words) in cost:
                row["times_stock"] = _ratio(cost["stock document Transformer", words], times)
            rows.append(row)
            _say(row)
    return rows


def _milliseconds(
    device: Device, write: Callable[[Tensor], int], sources: list[Tensor]
) -> float:
    """Time per token of writing the translations of ``sources``, one after the other."""
    begin = device.seconds()
    written = sum(write(source) for source in sources)
    return (device.seconds() - begin) * 1000 / written


def memory(args: argparse.Namespace) -> Rows:
    """Peak memory of one training step on one document, each in a process of its own."""
    rows = []
    for device in ("cpu", "cuda") if torch.cuda.is_available() else ("cpu",):
        for name in MEASURED:
            for words in args.lengths:
                command = [sys.executable, __file__, "peak", device, name, str(words)]
                command += ["--toy"] if args.toy else []
                done = subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True)
                rows.append(json.loads(done.stdout.splitlines()[-1]))
                _say(rows[-1])
    return rows


def contrast(args: argparse.Namespace) -> Rows:
    """Seconds of scoring contrastive examples, all candidates in batches or one at a time."""
    rows = contrast_rows(args, TOY if args.toy else None)
    for row in rows:
        _say(row)
    return rows


def peak(args: argparse.Namespace) -> dict[str, Any]:
    """What a training step on a document of ``args.words`` words adds to this process."""
    size = _size(args)
    dictionary = dictionary_of(size)
    precision = torch.float32 if args.device == "cpu" else torch.bfloat16
    device = Device(args.device, precision)
    trainer = Trainer(_model(size, MEASURED[args.system]), dictionary, device)

    def batch(words: int) -> Batch:
        return device.place(document_batches(documents_of(words, 1, dictionary), dictionary, 1)[0])

    # The optimizer has its state, and libraries their buffers, after a first update.
    trainer.step(batch(32))
    document = batch(args.words)
    if device.name == "cuda":
        torch.cuda.reset_peak_memory_stats()
        before = torch.cuda.memory_allocated()
    else:
        before = _resident()
    trainer.step(document)
    after = torch.cuda.max_memory_allocated() if device.name == "cuda" else _resident()
    return {
        "device": device.label,
        "words": args.words,
        "system": args.system,
        "step_mb": (after - before) / 2**20,
        "process_mb": after / 2**20,
    }


def _resident() -> int:
    """Bytes of the largest resident set of this process so far."""
    unit = 1 if sys.platform == "darwin" else 1024
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * unit


def _rounds(tasks: Tasks, repetitions: int) -> dict[Any, list[float]]:
    """Results of all ``tasks``, which take turns ``repetitions`` times."""
    results: dict[Any, list[float]] = {key: [] for key in tasks}
    for _ in range(repetitions):
        for key, task in tasks.items():
            results[key].append(task())
    return results


def _ratio(above: Sequence[float], below: Sequence[float]) -> float:
    return statistics.median(a / b for a, b in zip(above, below, strict=True))


def _words(batches: list[Batch], dictionary: fairseq.data.Dictionary) -> int:
    """Target words: neither padding nor marks."""
    return sum(int(batch["target"].ge(dictionary.nspecial).sum()) for batch in batches)


def _model(size: Size, options: dict[str, Any] | None) -> nn.Module:
    torch.manual_seed(1)
    dictionary = dictionary_of(size)
    if options is None:
        stock: nn.Module = stock_transformer(size, dictionary)
        return stock
    return gtransformer(size, dictionary, **options)


def _size(args: argparse.Namespace) -> Size:
    return TOY if args.toy else PAPER


def _say(row: dict[str, Any]) -> None:
    shown = {k: round(v, 3) if isinstance(v, float) else v for k, v in row.items()}
    print("  ".join(f"{key} {value}" for key, value in shown.items()), flush=True)


def _write(args: argparse.Namespace, rows: Rows) -> None:
    """Put the rows of this mode into the JSON file and write the page from all of it."""
    if args.toy and DOCS in (args.json.parent, args.out.parent):
        return
    kept = json.loads(args.json.read_text("utf-8")) if args.json.exists() else {}
    kept[args.mode] = {
        "settings": {
            key: value.name if isinstance(value, Path) else value
            for key, value in vars(args).items()
            if key not in ("mode", "out", "json") and value is not False and value is not None
        },
        "versions": {
            "python": platform.python_version(),
            "torch": torch.__version__,
            "fairseq": fairseq.__version__,
            "instructions": torch.backends.cpu.get_cpu_capability(),
        },
        "rows": rows,
    }
    for path, text in (
        (args.json, json.dumps(kept, indent=1) + "\n"),
        (args.out, page(kept, args.json.name)),
    ):
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, "utf-8")


MODES = {
    "train": train, "decode": decode, "memory": memory, "chunks": chunks, "contrast": contrast,
}  # fmt: skip


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=_Raw)
    modes = parser.add_subparsers(
        dest="mode", required=True, metavar="train|decode|memory|chunks|contrast"
    )
    defaults: dict[str, tuple[str, list[int]]] = {
        "train": ("throughput of training", [512, 1024, 2048, 4096]),
        "decode": ("time per token of beam search", [256, 512, 1024, 2048]),
        "memory": ("peak memory of a training step", [1024, 4096, 16384]),
        "chunks": ("time per token of long texts in chunks", [500, 1000, 2000, 4000]),
        "contrast": ("scoring of contrastive examples", []),
    }
    for mode, (text, lengths) in defaults.items():
        sub = modes.add_parser(mode, help=text, formatter_class=_Raw)
        if lengths:
            sub.add_argument(
                "--lengths", type=int, nargs="+", default=lengths, metavar="N",
                help="source words of a document (default: %(default)s)",
            )  # fmt: skip
        sub.add_argument(
            "--out", type=Path, default=DOCS / "benchmarks.md", metavar="FILE",
            help="markdown page (default: docs/benchmarks.md)",
        )  # fmt: skip
        sub.add_argument(
            "--json", type=Path, default=DOCS / "benchmarks.json", metavar="FILE",
            help="results of all modes so far (default: docs/benchmarks.json)",
        )  # fmt: skip
        sub.add_argument(
            "--toy", action="store_true",
            help="a tiny model, to try the script; the real results are then left alone",
        )  # fmt: skip
        if mode != "memory":
            sub.add_argument(
                "--repetitions", type=int, default=3, help="rounds (default: %(default)s)"
            )
    train_mode, decode_mode = modes.choices["train"], modes.choices["decode"]
    train_mode.add_argument(
        "--words", type=int, default=16384, help="words of a round (default: %(default)s)"
    )
    train_mode.add_argument(
        "--corpus-words", type=int, default=1 << 19,
        help="words of the text that batches are taken from (default: %(default)s)",
    )  # fmt: skip
    train_mode.add_argument(
        "--batch-words", type=int, default=2048, help="words of a batch (default: %(default)s)"
    )
    train_mode.add_argument(
        "--quadratic-limit", type=int, default=2048,
        help="longest documents for the dense backend (default: %(default)s)",
    )  # fmt: skip
    decode_mode.add_argument(
        "--words", type=int, default=512, help="words of a round (default: %(default)s)"
    )
    decode_mode.add_argument(
        "--stock-limit", type=int, default=1024,
        help="longest documents for stock fairseq (default: %(default)s)",
    )  # fmt: skip
    decode_mode.add_argument(
        "--no-warm-up", dest="warm_up", action="store_false", help="measure the first run, too"
    )
    chunks_mode = modes.choices["chunks"]
    add_options(chunks_mode)
    chunks_mode.add_argument(
        "--whole-limit", type=int, default=1000,
        help="longest documents translated as a whole (default: %(default)s)",
    )  # fmt: skip
    add_child(modes)
    add_contrast_options(modes.choices["contrast"])
    child = modes.add_parser("peak")  # one measurement of `memory`
    child.add_argument("device", choices=["cpu", "cuda"])
    child.add_argument("system", choices=list(MEASURED))
    child.add_argument("words", type=int)
    child.add_argument("--toy", action="store_true")
    return parser


class _Raw(argparse.RawDescriptionHelpFormatter):
    """Keeps the lines of the module's description."""


def main(argv: Sequence[str] | None = None) -> None:
    """Run one mode."""
    args = _parser().parse_args(argv)
    logging.disable(logging.INFO)
    torch.set_num_threads(1)
    if args.mode == "peak":
        print(json.dumps(peak(args)))
    elif args.mode == CHILD:
        print(one_text(args))
    else:
        _write(args, MODES[args.mode](args))


if __name__ == "__main__":
    main()
