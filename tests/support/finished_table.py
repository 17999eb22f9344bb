"""A finished experiment with canned measurements."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from gtrans.experiments.catalogue import Experiment, Here, Paper, Printed, PrintedRow, Variant
from gtrans.experiments.jobs import Job, Plan
from gtrans.experiments.measures import Column, Measure
from gtrans.experiments.planned import Cell, Planned, Row
from gtrans.experiments.runs import Corpus, Run
from gtrans.experiments.scales import read_scale

SIGNATURE = "nrefs:1|tok:13a"
BASELINE, BETTER = (20.0, 21.0, 22.0), (22.0, 22.0, 25.0)
X = "layers"


def scores(value: float, p: float | None = None) -> dict[str, Any]:
    """What `gtrans score --json` prints of a system, in short."""
    entry: dict[str, Any] = {
        "score": value,
        "signature": SIGNATURE,
        "confidence": {"interval": [value - 1, value + 1]},
    }
    if p is not None:
        entry["comparison"] = {"paired_randomisation": {"p": p}}
    return {"systems": {"row": {"s_bleu": entry}}}


def make_finished_table(tmp_path: Path) -> tuple[Planned, Plan]:
    """Two rows, three seeds, and a row that is not run."""
    corpus = Corpus("mine", tmp_path, "en", "de", ("a", "b", "c"), "")
    variants = (
        Variant("without", "flat", (), "", "", x={X: 1}),
        Variant("with", "flat", (), "without", "", x={X: 2}),
        Variant("of others", "none", (), "", "quoted"),
    )
    jobs: list[Job] = []

    def row(variant: Variant, values: tuple[float, ...], p: float | None) -> Row:
        runs, cells = [], []
        for seed, value in enumerate(values, 1):
            folder = tmp_path / variant.label / f"seed-{seed}"
            folder.mkdir(parents=True)
            checkpoint = folder / "checkpoint_best.pt"
            checkpoint.touch()
            job = Job(f"{variant.label}/{seed}", ("train",), (str(checkpoint),))
            jobs.append(job)
            record = {
                "argv": ["train"],
                "seconds": 10 * seed,
                "cpu_seconds": 9,
                "hardware": "a CPU",
            }
            (tmp_path / variant.label / f"{seed}.json").write_text(json.dumps(record))
            file = folder / "scores.json"
            file.write_text(json.dumps(scores(value, p)))
            cells.append(Cell(None, file) if p else Cell(file, None))
            runs.append(Run(seed, folder, "m", str(checkpoint), "", "", corpus, (job,), job))
        names = tuple(tuple(job.name for job in run.trained) for run in runs)
        cells_of = {"score": tuple(cells)}
        return Row(variant, "mine", tuple(runs), cells_of, variant.baseline, jobs=names)

    rows = (
        row(variants[0], BASELINE, None),
        row(variants[1], BETTER, 0.03),
        Row(variants[2], "mine", why_not="quoted"),
    )
    printed = Printed(
        ("TED",), (PrintedRow("with", (25.12,)), PrintedRow("of others", ("24.80",), True))
    )
    experiment = Experiment(
        name="009-T1", paper=Paper("009", "A paper", "a", 2021, "v"), kind="table",
        title="what it brings", section="1", shows="", corpora=(), needs=(), free=True,
        not_free="", printed=printed, contradictions=(), variants=variants,
        scales={"tiny": "t", "small": "", "paper": "p"}, here=Here(("s-BLEU",)),
    )  # fmt: skip
    columns = {"s-BLEU": Column("score", ("s_bleu",))}
    planned = Planned(
        experiment, read_scale("tiny"), tmp_path, ("mine",), columns,
        {"score": Measure("score")}, rows, (), tuple(job.name for job in jobs),
    )  # fmt: skip
    return planned, Plan(tmp_path, tuple(jobs))
