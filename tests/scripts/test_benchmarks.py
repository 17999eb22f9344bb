"""Each benchmark with a tiny model."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import torch
from support.folders import REPO, SCRIPTS
from support.tiny_models import TinyWorld

from gtrans.lab.provenance import provenance

BENCHMARKS = SCRIPTS / "benchmarks"
NAMES = ("training", "decoding", "cost", "cost-base", "memory", "test-set", "operations", "gpu")


def run(*arguments: str | Path) -> subprocess.CompletedProcess[str]:
    """``python scripts/benchmarks/run.py ..``"""
    command = [sys.executable, BENCHMARKS / "run.py", *arguments]
    return subprocess.run(command, capture_output=True, text=True, cwd=REPO)


@pytest.fixture(scope="module")
def folder(tiny: TinyWorld, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A JSON file after all benchmarks have run."""
    folder = tmp_path_factory.mktemp("benchmarks")
    tiny.run.succeed(
        "train", tiny.data, "--arch", "transformer", "--share-all-embeddings", "--cpu",
        "--encoder-embed-dim", "16", "--encoder-ffn-embed-dim", "16", "--encoder-layers", "1",
        "--decoder-embed-dim", "16", "--decoder-ffn-embed-dim", "16", "--decoder-layers", "1",
        "--optimizer", "adam", "--max-tokens", "1024", "--max-update", "1", "--disable-validation",
        "--save-dir", folder / "stock", "--no-epoch-checkpoints", "--num-workers", "0",
    )  # fmt: skip
    models = [tiny.checkpoints["document"], folder / "stock" / "checkpoint_last.pt"]
    for name in NAMES:
        of = ["--data", tiny.data, "--checkpoints", *models] if name == "test-set" else []
        done = run(name, "--toy", "--out", folder, *of)
        assert done.returncode == 0, done.stderr
    return folder


def systems(rows: list[dict[str, Any]], words: int) -> set[str]:
    return {row["system"] for row in rows if row["words"] == words}


@pytest.mark.long
def test_all_of_them(folder: Path) -> None:
    results = json.loads((folder / "benchmarks.json").read_text("utf-8"))
    rows = {name: results[name]["rows"] for name in NAMES}
    assert systems(rows["training"], 30) == systems(rows["training"], 60)
    assert all(row["words_per_second"] > 0 and row["of_stock"] > 0 for row in rows["training"])
    of = {row["of_stock"] for row in rows["training"] if row["system"].startswith("stock")}
    assert of == {1.0}
    only_short = systems(rows["decoding"], 30) - systems(rows["decoding"], 60)
    assert only_short == {"stock document Transformer"}
    assert all(row["process_mb"] > row["step_mb"] > 0 for row in rows["memory"])
    for name in ("cost", "cost-base"):
        at_stock, by_sentence, by_document, *small = rows[name]
        assert at_stock["times_stock"] == at_stock["operations_of_stock"] == 1.0
        assert by_document["operations"] > by_sentence["operations"] > 0
        assert by_document["tokens"] == by_sentence["tokens"] == small[0]["tokens"]
        assert all(row["of_fp32"] > 0 and "operations" not in row for row in small)
    stock, ours, narrow = rows["test-set"]
    assert stock["rows"] == stock["sentences"] == ours["sentences"] == 3
    assert stock["times_stock"] == 1.0 and ours["times_stock"] > 0 and narrow["times_stock"] > 0
    longer = stock["tokens"] / ours["tokens"]
    assert ours["times_per_token"] == pytest.approx(ours["times_stock"] * longer)
    assert {row["part"] for row in rows["gpu"]} >= {"training", "decoding", "long document"}
    assert not any("failed" in row for row in rows["gpu"])
    # What was measured, with what, and how often.
    for name in NAMES:
        assert provenance().items() <= results[name]["versions"].items()
    assert results["training"]["settings"]["rounds"] == 2
    assert all(row["rounds"] >= 2 for row in rows["gpu"] if row["part"] == "training")
    assert {*results["test-set"]["settings"]["checkpoints"]} == {"checkpoint_last.pt"}
    for personal in (str(REPO), str(Path.home()) + "/", "/tmp/"):
        assert personal not in json.dumps(results)


@pytest.mark.long
@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("decoding", "--toy"), "`--toy` needs `--out DIR`"),
        (("decoding", "--rounds", "0", "--out", "o"), "`--rounds` must be at least 1"),
        (("test-set",), "test-set needs `--data` and `--checkpoints`"),
        (("speed",), "invalid choice: 'speed'"),
    ],
)
def test_mistakes(arguments: tuple[str, ...], message: str) -> None:
    done = run(*arguments)
    assert done.returncode == 2
    assert message in done.stderr.splitlines()[-1]


# ---- parts ---------------------------------------------------------------------------------------


def test_rows_name_the_device_that_was_measured(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(str(BENCHMARKS))
    import gpu

    device = "CUDA, bf16" if torch.cuda.is_available() else "CPU, bf16"
    assert gpu.GPU.device == device


def test_docs_name_benchmarks_that_exist() -> None:
    for path in [REPO / "README.md", *(REPO / "docs").rglob("*.md")]:
        named = re.findall(r"scripts/benchmarks/run\.py ([A-Za-z-]+)", path.read_text("utf-8"))
        assert set(named) <= {"NAME", *NAMES}, path


def test_text_batches_and_ratios(monkeypatch: pytest.MonkeyPatch) -> None:
    """Documents are exactly as long as asked, and both kinds of batches hold the same words."""
    monkeypatch.syspath_prepend(str(BENCHMARKS))
    import measuring
    import models

    setup = models.Setup(models.SIZES["toy"])
    text = setup.documents(200, 4)
    assert [models.source_words([document]) for document in text] == [200] * 4
    lengths = [len(source) - 1 for document in text for source, _ in document]
    assert sum(lengths) / len(lengths) == 25 and min(lengths) >= 1
    words = []
    for batches in (
        setup.document_batches(text, 400),
        setup.sentence_batches(text, 400),
    ):
        assert max(b["net_input"]["src_tokens"].numel() for b in batches) < 1.2 * 400
        tokens = torch.cat([batch["target"].flatten() for batch in batches])
        words.append(tokens[tokens >= setup.dictionary.nspecial].sort().values)
    assert torch.equal(*words)
    every = setup.sentence_batches(text, 100)
    widths = [b["target"].size(1) for b in setup.sentence_batches(text, 100, 3)]
    assert len(widths) == 3 < len(every) and widths == sorted(widths)
    order: list[str] = []
    found = measuring.take_turns(
        {"a": lambda: float(order.append("a") or len(order)), "b": lambda: 2.0 * len(order)}, 3
    )
    assert found == {"a": [1.0, 2.0, 3.0], "b": [2.0, 4.0, 6.0]}
    assert measuring.ratio([4.0, 9.0, 2.0], [2.0, 3.0, 2.0]) == 2.0
