"""How many shapes of attention an epoch has, and what rounding them costs."""

from __future__ import annotations

import argparse
import statistics
from collections.abc import Iterator
from dataclasses import replace
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from documents import dictionary_of, document_batches, documents_of
from measuring import Device, ratio, take_turns
from report import Benchmark, Row, Rows, table
from systems import Trainer, document_task, gtransformer

from gtrans.cli import main as gtrans
from gtrans.lab.synthetic.writing import write_corpus
from gtrans.models.base.planning import BatchPlanner
from gtrans.modules.attention_plans import AttentionPlans
from gtrans.modules.group_attention import SHAPES, AttentionPlan
from gtrans.tasks.options import read_dictionary


def measure(args: argparse.Namespace, device: Device) -> Iterator[Row]:
    """Shapes of the attention of an epoch of documents, exact and rounded, and the CPU time."""
    model = gtransformer(args.size, dictionary_of(args.size))
    with TemporaryDirectory() as folder:
        for name, data in (("embedded", _embedded(Path(folder))), ("--data", str(args.data))):
            inputs = list(_epoch(data, args.max_tokens))
            counts = {
                shapes: len({s for one in inputs for s in _shapes(_planner(model, shapes)(one))})
                for shapes in SHAPES
            }
            yield {"corpus": name, "batches": len(inputs), **counts}
    trainer = Trainer(model, dictionary_of(args.size), device)
    text = documents_of(args.words, args.documents, dictionary_of(args.size))
    batches = document_batches(text, dictionary_of(args.size), args.max_tokens)
    planned = {
        shapes: [
            {**b, "net_input": {**b["net_input"], "plan": _planner(model, shapes)(b["net_input"])}}
            for b in batches
        ]
        for shapes in SHAPES
    }
    for made in planned.values():
        trainer.steps(made[:1])
    seconds = take_turns(
        {shapes: partial(trainer.seconds, made) for shapes, made in planned.items()}, args.rounds
    )
    yield {
        "corpus": "cost",
        "seconds": statistics.median(seconds["exact"]),
        "of_exact": ratio(seconds["rounded"], seconds["exact"]),
    }


def _embedded(folder: Path) -> str:
    """The prepared data folder of the embedded corpus."""
    write_corpus(folder / "text", 1, 1000, 2)
    splits = [
        part
        for split, name in (("train", "train"), ("valid", "valid"))
        for part in (f"--{split}", str(folder / "text" / name))
    ]
    languages = ["--source-lang", "en", "--target-lang", "de"]
    command = ["prepare", *languages, *splits, "--bpe-merges", "2000"]
    if gtrans([*command, "--out", str(folder / "data")]):
        raise RuntimeError("the embedded corpus could not be prepared")
    return str(folder / "data")


def _epoch(data: str, max_tokens: int) -> Iterator[dict[str, Any]]:
    """``net_input`` of the batches of an epoch of documents of up to 512 tokens."""
    dictionaries = [read_dictionary(data, lang) for lang in ("en", "de")]
    task = document_task(
        *dictionaries, data=data, source_lang="en", target_lang="de", unit="document",
        max_doc_tokens=512, train_subset="train", dataset_impl=None,
    )  # fmt: skip
    task.load_dataset("train")
    dataset = task.datasets["train"]
    for batch in dataset.batch_by_size(dataset.ordered_indices(), max_tokens=max_tokens):
        yield dataset.collater([dataset[unit] for unit in batch])["net_input"]


def _planner(model: Any, shapes: str) -> BatchPlanner:
    source, target = model.planner.source, model.planner.target
    return BatchPlanner(
        replace(source, needs=replace(source.needs, shapes=shapes)),
        replace(target, needs=replace(target.needs, shapes=shapes)),
    )


def _shapes(plan: Any) -> Iterator[tuple[int, int, int, bool]]:
    """Of every bucket how many segments it has, and how wide its queries and keys are."""
    sides: tuple[AttentionPlans, ...] = plan.source, plan.target
    for side in sides:
        for part in vars(side).values():
            for bucket in part.buckets if isinstance(part, AttentionPlan) else ():
                yield bucket.count, bucket.query, bucket.key, bucket.causal


def _table(rows: Rows) -> str:
    counted = table(
        ["corpus", "batches", "shapes, exact", "shapes, rounded"],
        [
            [row["corpus"], *(f"{row[key]:,}" for key in ("batches", *SHAPES))]
            for row in rows
            if row["corpus"] != "cost"
        ],
    )
    (cost,) = [row for row in rows if row["corpus"] == "cost"]
    return (
        f"{counted}\nA training step with rounded shapes takes {cost['of_exact']:.2f} times the "
        "CPU time of one with exact ones.\n"
    )


def add_options(parser: argparse.ArgumentParser) -> None:
    """Options of this benchmark alone."""
    parser.add_argument(
        "--data", type=Path, required=True, metavar="DIR",
        help="en-de folder made by `gtrans prepare`",
    )  # fmt: skip
    for flag, default, meaning in (
        ("--max-tokens", 4096, "tokens of a batch"),
        ("--words", 512, "words of a document of the training steps"),
        ("--documents", 16, "their number"),
    ):
        parser.add_argument(
            flag, type=int, default=default, metavar="N", help=f"{meaning} (default: %(default)s)"
        )


BENCHMARK = Benchmark(
    name="shapes",
    title="Shapes of attention",
    text="How many different shapes (segments, queries, keys) the attention of a G-Transformer has "
    "in an epoch of documents of up to 512 tokens in batches of {max_tokens}: with buckets as "
    "large as what is in them, as on a CPU, and with rounded ones, as on other devices. The CPU "
    "time is that of updates on {documents} documents of {words} words. `--data` was the corpus "
    "debian-web-ende.",
    size="narrow",
    measure=measure,
    table=_table,
    devices=("cpu",),
    add_options=add_options,
)
