"""The results of `benchmark.py` as a markdown page."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

Row = dict[str, Any]
CPU = "CPU, 1 thread, fp32"

_INTRODUCTION = """# Benchmarks

Written by `python scripts/benchmark.py train|decode|memory|chunks|contrast`; do not edit. The
numbers behind the tables are in `{json}`.

Unless a section says otherwise, all systems have 6 + 6 layers of width 256 (8 heads, feed-forward
1,024), one shared table of 8,000 embeddings, dropout 0.1 and attention dropout 0; ours have 2
global layers on top of the encoder, the decoder and cross-attention. Sentences have 25 words on
average, between about 3 and 100. On the CPU one thread computes in fp32, and time is CPU time of
the process. Systems take turns in one process; a ratio is the median of the ratios of the rounds.
"""
_MODES = {
    "train": (
        "Training",
        "Throughput of whole updates (forward, label-smoothed loss, backward, clipping, Adam) in "
        "target words per second; padding and marks do not count. The yardstick is stock "
        "fairseq's sentence Transformer on the same text of {corpus_words} words, in batches "
        "sorted by length and filled up to {batch_words} words and padding, of which evenly "
        "spaced ones are measured. A batch of documents holds {batch_words} words, or one longer "
        "document. A round takes about {words} words of each system. `regroup` and `dense` are the "
        "backends of group attention in G-Transformer; the document Transformer is "
        "`--doc-mode full`. A cell is words per second, and in brackets the fraction of the "
        "yardstick's.",
    ),
    "decode": (
        "Decoding",
        "Beam search, beam 5, one document at a time, encoding included. The yardstick is stock "
        "fairseq's generator with a sentence Transformer's architecture on the whole document as "
        "one sequence. Untrained models never end, so all are made to write equally much: as "
        "many words in every sentence as its source has, marks on top. A cell is milliseconds "
        "per token, and in brackets how many times as fast as the yardstick that is.",
    ),
    "memory": (
        "Memory of training",
        "What one update on one document adds to the peak memory of a process that has made an "
        "update before, so that parameters, gradients and Adam's state are not in it; in "
        "brackets the peak of the whole process. Every cell is a process of its own. "
        "A cell is in megabytes.",
    ),
    "chunks": (
        "Long texts in chunks",
        "Figure 8 of Feng et al. 2022: documents of dummy tokens in chunks of {chunk}, "
        "{documents} side by side, beam {beam}, encoding included. A chunk becomes as "
        "long as its source. The memory Transformer has 16 memory vectors in the top "
        "layers of encoder and decoder. The document Transformer reads and writes whole documents. "
        "A cell is milliseconds per token, in brackets how many times the sentence Transformer's, "
        "and the megabytes that the translation adds to what a first chunk needed.",
    ),
    "contrast": (
        "Scoring of contrastive sets",
        "{examples} examples of ContraPro (drawn at random; one sentence of context and one to "
        "score, on both sides; mostly three candidates each) scored by `gtransformer_small` "
        "with random parameters. Both ways are the same function, "
        "which projects to the vocabulary only what is scored: called once for all examples, "
        "with batches of {max_tokens} tokens, or once for each candidate. Batches encode a source "
        "once for all candidates, and read once what they begin with. Text is encoded before.",
    ),
}


def page(results: dict[str, Any], json_name: str) -> str:
    """The whole page.

    Args:
        results: for each mode its ``settings``, ``versions`` and ``rows``.
        json_name: name of the file that holds them.
    """
    parts = [_INTRODUCTION.format(json=json_name)]
    tables: dict[str, Callable[[list[Row]], str]] = {
        "train": partial(_table, cell=_trained),
        "decode": partial(_table, cell=_decoded),
        "memory": partial(_table, cell=_measured),
        "chunks": partial(_table, cell=_chunked),
        "contrast": _scored,
    }
    checks = {
        "train": _train_targets,
        "decode": _decode_targets,
        "memory": _memory_targets,
        "chunks": _chunk_targets,
        "contrast": _contrast_targets,
    }
    for mode, (title, text) in _MODES.items():
        if mode not in results:
            continue
        result = results[mode]
        parts.append(f"## {title}\n\n{text.format(**_grouped(result['settings']))}\n")
        if result["settings"].get("toy"):
            parts.append("**A try with a tiny model: these numbers say nothing.**\n")
        for device in dict.fromkeys(row["device"] for row in result["rows"]):
            rows = [row for row in result["rows"] if row["device"] == device]
            parts.append(f"### {device}\n\n{tables[mode](rows)}")
            if device == CPU:
                parts.append(_targets(checks[mode](rows)))
        parts.append(_measured_with(result))
    return "\n".join(part for part in parts if part)


def _grouped(settings: dict[str, Any]) -> dict[str, Any]:
    return {k: f"{v:,}" if isinstance(v, int) else v for k, v in settings.items()}


def _measured_with(result: dict[str, Any]) -> str:
    versions = result["versions"]
    rounds = result["settings"].get("repetitions")
    return (
        f"Measured with Python {versions['python']}, torch {versions['torch']}, fairseq "
        f"{versions['fairseq']}, {versions['instructions']} instructions"
        + (f", {rounds} rounds.\n" if rounds else ".\n")
    )


def _table(rows: list[Row], cell: Callable[[Row], str]) -> str:
    lengths = sorted({row["words"] for row in rows})
    found = {(row["system"], row["words"]): cell(row) for row in rows}
    lines = [
        "| words of a document | " + " | ".join(f"{words:,}" for words in lengths) + " |",
        "| --- |" + " ---: |" * len(lengths),
    ]
    for system in dict.fromkeys(row["system"] for row in rows):
        shown = (found.get((system, words), "–") for words in lengths)
        lines.append(f"| {system} | " + " | ".join(shown) + " |")
    return "\n".join(lines) + "\n"


def _trained(row: Row) -> str:
    return f"{row['words_per_second']:,.0f} ({row['of_stock']:.2f})"


def _decoded(row: Row) -> str:
    ratio = f" ({row['times_stock']:.2f})" if "times_stock" in row else ""
    return f"{row['ms_per_token']:.2f}{ratio}"


def _measured(row: Row) -> str:
    return f"{row['step_mb']:,.0f} ({row['process_mb']:,.0f})"


def _chunked(row: Row) -> str:
    return f"{row['ms_per_token']:.2f} ({row['times_sentence']:.2f}); {row['added_mb']:,.0f}"


def _scored(rows: list[Row]) -> str:
    lines = ["| symbols | | seconds | times as fast |", "| ---: | --- | ---: | ---: |"]
    lines += [
        f"| {r['vocabulary']:,} | {r['system']} | {r['seconds']:,.1f} | {r['times']:.2f} |"
        for r in rows
    ]
    return "\n".join(lines) + "\n"


# What is asked, what was measured (None: not), whether it must be at least or at most that.
Target = tuple[str, float | None, float, bool]


def _targets(targets: list[Target]) -> str:
    lines = ["| target | asked | measured | |", "| --- | ---: | ---: | --- |"]
    for text, measured, asked, at_least in targets:
        if measured is None:
            continue
        reached = measured >= asked if at_least else measured <= asked
        sign = "≥" if at_least else "≤"
        verdict = "reached" if reached else "**missed**"
        lines.append(f"| {text} | {sign} {asked:,g} | {measured:,.2f} | {verdict} |")
    return "\n".join(lines) + "\n" if len(lines) > 2 else ""


def _lookup(rows: list[Row], value: str) -> Callable[[str, int], float | None]:
    found = {(row["system"], row["words"]): row.get(value) for row in rows}
    return lambda system, words: found.get((system, words))


def _over(above: float | None, below: float | None) -> float | None:
    return None if above is None or not below else above / below


def _train_targets(rows: list[Row]) -> list[Target]:
    of_stock = _lookup(rows, "of_stock")
    asked = {512: 0.74, 1024: 0.68, 2048: 0.58, 4096: 0.45}
    targets: list[Target] = [
        (
            f"documents of {words:,} words: fraction of the sentence Transformer's throughput",
            of_stock("gtrans regroup", words),
            least,
            True,
        )
        for words, least in asked.items()
    ]
    dense = _over(of_stock("gtrans regroup", 2048), of_stock("gtrans dense", 2048))
    return [*targets, ("documents of 2,048 words: times as fast as `dense`", dense, 3.0, True)]


def _decode_targets(rows: list[Row]) -> list[Target]:
    times_stock = _lookup(rows, "times_stock")
    of_shortest = _lookup(rows, "of_shortest")
    return [
        (
            f"documents of {words:,} words: times as fast as stock fairseq",
            times_stock("gtrans", words),
            least,
            True,
        )
        for words, least in ((512, 1.0), (1024, 1.5))
    ] + [
        (
            "group attention only: time per token at 2,048 words over that at 256",
            of_shortest("gtrans, group attention only", 2048),
            1.15,
            False,
        )
    ]


def _memory_targets(rows: list[Row]) -> list[Target]:
    step, process = _lookup(rows, "step_mb"), _lookup(rows, "process_mb")
    growth = _over(step("gtrans", 4096), step("gtrans", 1024))
    whole = _over(process("gtrans", 16384), 1024)
    return [
        (
            "from 1,024 to 4,096 words: growth over linear growth",
            _over(growth, 4.0),
            1.3,
            False,
        ),
        ("16,384 words in one update: gigabytes of the whole process", whole, 12.0, False),
    ]


def _chunk_targets(rows: list[Row]) -> list[Target]:
    ours = "recurrent memory, chunk by chunk"
    longest = max(row["words"] for row in rows)
    return [
        (
            f"texts of {longest:,} tokens: recurrent memory over sentence Transformer",
            _lookup(rows, "times_sentence")(ours, longest),
            1.25,
            False,
        ),
        (
            f"recurrent memory: time per token at {longest:,} tokens over that of the shortest",
            _lookup(rows, "of_shortest")(ours, longest),
            1.1,
            False,
        ),
    ]


def _contrast_targets(rows: list[Row]) -> list[Target]:
    targets: list[Target] = [
        (f"{r['vocabulary']:,} symbols: times as fast in batches", r["times"], 3.0, True)
        for r in rows
        if r["system"] == "batched"
    ]
    difference = max(row["difference"] for row in rows) * 1e6
    text = "largest difference of a candidate's log-probability, in millionths"
    return [*targets, (text, difference, 100.0, False)]
