"""A benchmark as an object, its results as JSON, and all results as a markdown page."""

from __future__ import annotations

import argparse
import json
import platform
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import fairseq
import torch
from measuring import DEVICES, SIZES, TOY, Device

from gtrans.files import atomic_writer

Row = dict[str, Any]
Rows = list[Row]

_INTRODUCTION = """# Benchmarks

See what training and decoding cost beside stock fairseq, by the length of a document.

**The numbers hold for these models, machines and versions alone; compare within a table.** They are
in `{json}`; `python scripts/benchmarks/run.py NAME` measures again and writes this page.

Unless a section says otherwise, models have one shared table of 8,000 embeddings, dropout 0.1 and
attention dropout 0; G-Transformers have 2 global layers on top of the encoder, the decoder and
cross-attention. Sentences have 25 words on average, between about 3 and 100. On the CPU one thread
computes in fp32, and time is CPU time of the process. Systems take turns in one process; a ratio is
the median of the ratios of the rounds.
"""


@dataclass(frozen=True)
class Benchmark:
    """What is measured, and how it is shown.

    Attributes:
        name: of the command.
        title, text: of the section; the text may name settings in braces.
        size: default name of the models' size, see :data:`measuring.SIZES`.
        measure: takes the settings and a device, gives rows for the JSON file one by one.
        table: the rows of one device as a markdown table.
        devices: names of :data:`measuring.DEVICES` that it can measure.
        rounds: default number of rounds; None: nothing is repeated.
        add_options: adds its own options to a parser.
    """

    name: str
    title: str
    text: str
    size: str
    measure: Callable[[argparse.Namespace, Device], Iterable[Row]]
    table: Callable[[Rows], str]
    add_options: Callable[[argparse.ArgumentParser], None]
    devices: Sequence[str] = tuple(DEVICES)
    rounds: int | None = 3


# ---- results -------------------------------------------------------------------------------------


def versions() -> dict[str, str]:
    """The environment: what the numbers depend on besides our own code."""
    found = {
        "Python": platform.python_version(),
        "torch": torch.__version__,
        "fairseq": fairseq.__version__,
        "instructions": torch.backends.cpu.get_cpu_capability(),
    }
    if torch.cuda.is_available():
        found |= {"GPU": torch.cuda.get_device_name(), "CUDA": str(torch.version.cuda)}
    return found


def read(folder: Path) -> dict[str, Any]:
    """The results of all benchmarks so far, by name."""
    path = folder / "benchmarks.json"
    found: dict[str, Any] = json.loads(path.read_text("utf-8")) if path.exists() else {}
    return found


def write(folder: Path, results: Mapping[str, Any], benchmarks: Sequence[Benchmark]) -> None:
    """Write the JSON file and the page."""
    folder.mkdir(parents=True, exist_ok=True)
    data = folder / "benchmarks.json"
    for path, text in (
        (data, json.dumps(results, indent=1) + "\n"),
        (folder / "benchmarks.md", page(results, benchmarks, data.name)),
    ):
        with atomic_writer(path) as file:
            file.write(text)


# ---- the page ------------------------------------------------------------------------------------


def page(results: Mapping[str, Any], benchmarks: Sequence[Benchmark], json_name: str) -> str:
    """The whole page.

    Args:
        results: for each name of a benchmark its ``settings``, ``versions`` and ``rows``.
        benchmarks: in the order of the page; those without results are left out.
        json_name: name of the file that holds the results.
    """
    parts = [_INTRODUCTION.format(json=json_name)]
    for benchmark in benchmarks:
        if benchmark.name in results:
            parts += _section(benchmark, results[benchmark.name])
    return "\n".join(part for part in parts if part)


def _section(benchmark: Benchmark, result: Mapping[str, Any]) -> list[str]:
    settings = result["settings"]
    shown = {key: f"{v:,}" if isinstance(v, int) else v for key, v in settings.items()}
    text = benchmark.text.format(**shown)
    parts = [f"## {benchmark.title}\n\n{text} Models: {SIZES[settings['size']]}.\n"]
    if settings["size"] == TOY:
        parts.append("**A try with a tiny model: these numbers say nothing.**\n")
    for device in dict.fromkeys(row["device"] for row in result["rows"]):
        rows = [row for row in result["rows"] if row["device"] == device]
        parts.append(f"### {device}\n\n{benchmark.table(rows)}")
    return [*parts, _measured_with(result)]


def _measured_with(result: Mapping[str, Any]) -> str:
    known = [
        f"{value} instructions" if name == "instructions" else f"{name} {value}"
        for name, value in result["versions"].items()
    ]
    rounds = result["settings"].get("rounds")
    known += [f"{rounds} round{'s' if rounds > 1 else ''}"] if rounds else []
    return f"Measured with {', '.join(known)}.\n" if known else ""


def table(heads: Sequence[str], lines: Sequence[Sequence[str]], texts: int = 1) -> str:
    """A markdown table; the first ``texts`` columns are text, the others numbers."""
    rules = ["---"] * texts + ["---:"] * (len(heads) - texts)
    return "\n".join(f"| {' | '.join(line)} |" for line in (heads, rules, *lines)) + "\n"


def grid(rows: Rows, cell: Callable[[Row], str], what: str = "words of a document") -> str:
    """Systems down, ``words`` (those of a document, or ``what``) across."""
    lengths = sorted({row["words"] for row in rows})
    found = {(row["system"], row["words"]): cell(row) for row in rows}
    return table(
        [what, *(f"{words:,}" for words in lengths)],
        [
            [system, *(found.get((system, words), "–") for words in lengths)]
            for system in dict.fromkeys(row["system"] for row in rows)
        ],
    )


def lookup(rows: Rows, value: str) -> Callable[[str, int], float | None]:
    """A value by system and words of a document; None where it was not measured."""
    found = {(row["system"], row["words"]): row.get(value) for row in rows}
    return lambda system, words: found.get((system, words))


def over(above: float | None, below: float | None) -> float | None:
    """The quotient of what was measured."""
    return None if above is None or not below else above / below
