"""Each mode of the benchmark script, with a tiny model, in one process."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import torch
from support.folders import SCRIPTS

LENGTHS = ["--lengths", "30", "60"]
MODES = {
    "train": [
        *LENGTHS, "--words", "60", "--batch-words", "60", "--corpus-words", "600",
        "--repetitions", "2",
    ],
    "decode": [*LENGTHS, "--words", "30", "--repetitions", "1", "--stock-limit", "30"],
    "memory": ["--lengths", "60"],
    "chunks": [
        "--lengths", "60", "--chunk", "20", "--documents", "2", "--beam", "2",
        "--repetitions", "1", "--whole-limit", "30",
    ],
    "contrast": ["--examples", "4", "--repetitions", "1", "--vocabulary", "50"],
}  # fmt: skip


@pytest.fixture(scope="module")
def results(tmp_path_factory: pytest.TempPathFactory) -> tuple[dict[str, Any], str]:
    """The JSON file and the page after all modes have run one after the other."""
    folder = tmp_path_factory.mktemp("benchmarks")
    page, numbers = folder / "page.md", folder / "numbers.json"
    runs = [
        [mode, "--toy", "--out", str(page), "--json", str(numbers), *options]
        for mode, options in MODES.items()
    ]
    program = f"import benchmark\nfor run in {runs!r}: benchmark.main(run)"
    subprocess.run([sys.executable, "-c", program], check=True, cwd=SCRIPTS)
    return json.loads(numbers.read_text("utf-8")), page.read_text("utf-8")


def systems(rows: list[dict[str, Any]], words: int) -> set[str]:
    return {row["system"] for row in rows if row["words"] == words}


def test_training(results: tuple[dict[str, Any], str]) -> None:
    rows = results[0]["train"]["rows"]
    names = {"stock sentence Transformer", "gtrans regroup", "gtrans dense"}
    assert names | {"gtrans document Transformer"} <= systems(rows, 30) & systems(rows, 60)
    assert all(row["words_per_second"] > 0 and row["of_stock"] > 0 for row in rows)
    assert {r["of_stock"] for r in rows if r["system"] == "stock sentence Transformer"} == {1.0}


def test_decoding(results: tuple[dict[str, Any], str]) -> None:
    rows = results[0]["decode"]["rows"]
    assert len(systems(rows, 30)) == 4
    assert systems(rows, 30) - systems(rows, 60) == {"stock document Transformer"}
    assert all(("times_stock" in row) == (row["words"] == 30) for row in rows)


def test_memory(results: tuple[dict[str, Any], str]) -> None:
    rows = results[0]["memory"]["rows"]
    assert systems(rows, 60) == {"gtrans", "gtrans, group attention only"}
    assert all(row["process_mb"] > row["step_mb"] >= 0 for row in rows)


def test_chunks(results: tuple[dict[str, Any], str]) -> None:
    rows = results[0]["chunks"]["rows"]
    chunked = {f"{model}, chunk by chunk" for model in ("sentence Transformer", "recurrent memory")}
    assert systems(rows, 60) == chunked  # 60 words are too long for a whole document here
    assert all(row["ms_per_token"] > 0 and row["of_shortest"] == 1 for row in rows)


def test_contrast(results: tuple[dict[str, Any], str]) -> None:
    alone, batched = results[0]["contrast"]["rows"]
    assert (alone["system"], batched["system"]) == ("one candidate at a time", "batched")
    assert alone["times"] == 1.0 and alone["candidates"] == 8
    assert batched["difference"] < 1e-4
    assert "| 50 | batched | " in results[1]


def test_page(results: tuple[dict[str, Any], str]) -> None:
    page = results[1]
    assert page.count("\n## ") == 5
    assert "A try with a tiny model" in page
    assert "| words of a document | 30 | 60 |" in page
    for personal in (str(SCRIPTS.parent), str(Path.home()) + "/", "/tmp/"):
        assert personal not in page + json.dumps(results[0])


def test_text_and_batches(monkeypatch: pytest.MonkeyPatch) -> None:
    """Documents are exactly as long as asked, and both kinds of batches hold the same words."""
    monkeypatch.syspath_prepend(str(SCRIPTS))
    import benchmark_systems as systems

    dictionary = systems.dictionary_of(systems.TOY)
    text = systems.documents_of(200, 4, dictionary)
    assert [systems.source_words([document]) for document in text] == [200] * 4
    lengths = [len(source) for document in text for source, _ in document]
    assert sum(lengths) / len(lengths) == 25 and min(lengths) >= 1
    words = []
    for batches in (
        systems.document_batches(text, dictionary, 400),
        systems.sentence_batches(text, dictionary, 400),
    ):
        assert max(b["net_input"]["src_tokens"].numel() for b in batches) < 1.2 * 400
        tokens = torch.cat([batch["target"].flatten() for batch in batches])
        words.append(tokens[tokens >= dictionary.nspecial].sort().values)
    assert torch.equal(*words)
    every = systems.sentence_batches(text, dictionary, 100)
    widths = [b["target"].size(1) for b in systems.sentence_batches(text, dictionary, 100, 3)]
    assert len(widths) == 3 < len(every) and widths == sorted(widths)
