"""Each benchmark with a tiny model, and the page from their results."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import torch
from support.folders import REPO, SCRIPTS
from support.tiny_models import TinyWorld

BENCHMARKS = SCRIPTS / "benchmarks"
LENGTHS = ("--lengths", "30", "60")
RUNS = {
    "training": (
        *LENGTHS, "--words", "60", "--batch-words", "60", "--corpus-words", "600", "--rounds", "2",
    ),
    "decoding": (*LENGTHS, "--words", "30", "--rounds", "1", "--stock-limit", "30"),
    "memory": ("--lengths", "60"),
    "test-set": ("--sentences", "3"),
}  # fmt: skip
Results = dict[str, Any]


def run(*arguments: str | Path) -> subprocess.CompletedProcess[str]:
    """``python scripts/benchmarks/run.py ..``"""
    command = [sys.executable, BENCHMARKS / "run.py", *arguments]
    return subprocess.run(command, capture_output=True, text=True, cwd=REPO)


@pytest.fixture(scope="module")
def folder(tiny: TinyWorld, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A JSON file and a page after all benchmarks have run one after the other in one process."""
    folder = tmp_path_factory.mktemp("benchmarks")
    runs = [
        [
            name, "--size", "toy", "--device", "cpu", "--out", str(folder), *options,
            *(["--data", str(tiny.data)] if name == "test-set" else []),
        ]
        for name, options in RUNS.items()
    ]  # fmt: skip
    program = f"import run\nfor one in {runs!r}: run.main(one)"
    subprocess.run([sys.executable, "-c", program], check=True, cwd=BENCHMARKS)
    return folder


@pytest.fixture(scope="module")
def results(folder: Path) -> Results:
    found: Results = json.loads((folder / "benchmarks.json").read_text("utf-8"))
    return found


@pytest.fixture(scope="module")
def page(folder: Path) -> str:
    return (folder / "benchmarks.md").read_text("utf-8")


def systems(rows: list[dict[str, Any]], words: int) -> set[str]:
    return {row["system"] for row in rows if row["words"] == words}


@pytest.mark.long
def test_training(results: Results) -> None:
    rows = results["training"]["rows"]
    names = {"stock sentence Transformer", "gtrans regroup", "gtrans dense"}
    assert names | {"gtrans document Transformer"} <= systems(rows, 30) & systems(rows, 60)
    assert all(row["words_per_second"] > 0 and row["of_stock"] > 0 for row in rows)
    assert {r["of_stock"] for r in rows if r["system"] == "stock sentence Transformer"} == {1.0}


@pytest.mark.long
def test_decoding(results: Results) -> None:
    rows = results["decoding"]["rows"]
    assert len(systems(rows, 30)) == 4
    assert systems(rows, 30) - systems(rows, 60) == {"stock document Transformer"}
    assert all(("times_stock" in row) == (row["words"] == 30) for row in rows)


@pytest.mark.long
def test_memory(results: Results) -> None:
    rows = results["memory"]["rows"]
    assert systems(rows, 60) == {"gtrans", "gtrans, group attention only"}
    assert all(row["process_mb"] > row["step_mb"] > 0 for row in rows)


@pytest.mark.long
def test_test_set(results: Results, page: str) -> None:
    stock, ours, narrow = results["test-set"]["rows"]
    assert stock["rows"] == stock["sentences"] == ours["sentences"] == 3
    assert stock["times_stock"] == 1.0 and ours["times_stock"] > 0 and narrow["times_stock"] > 0
    longer = stock["tokens"] / ours["tokens"]
    assert ours["times_per_token"] == pytest.approx(ours["times_stock"] * longer)
    assert "## A whole test set\n\nThe test set of" in page


@pytest.mark.long
def test_test_set_with_models_of_the_user(tiny: TinyWorld, tmp_path: Path) -> None:
    tiny.run.succeed(
        "train", tiny.data, "--arch", "transformer", "--share-all-embeddings", "--cpu",
        "--encoder-embed-dim", "16", "--encoder-ffn-embed-dim", "16", "--encoder-layers", "1",
        "--decoder-embed-dim", "16", "--decoder-ffn-embed-dim", "16", "--decoder-layers", "1",
        "--optimizer", "adam", "--max-tokens", "1024", "--max-update", "1", "--disable-validation",
        "--save-dir", tmp_path / "stock", "--no-epoch-checkpoints", "--num-workers", "0",
    )  # fmt: skip
    done = run(
        "test-set", "--data", tiny.data, "--sentences", "3", "--out", tmp_path, "--checkpoints",
        tiny.checkpoints["document"], tmp_path / "stock/checkpoint_last.pt",
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    found = json.loads((tmp_path / "benchmarks.json").read_text("utf-8"))["test-set"]
    assert found["settings"]["checkpoints"] == ["checkpoint_last.pt", "checkpoint_last.pt"]
    assert [row["models"] for row in found["rows"]] == ["trained"] * 3
    assert all(row["tokens"] >= 3 and row["seconds"] > 0 for row in found["rows"])


@pytest.mark.long
def test_page(folder: Path, results: Results, page: str) -> None:
    assert page.count("\n## ") == len(RUNS)
    assert page.count("A try with a tiny model") == len(RUNS)
    assert "| words of a document | 30 | 60 |" in page
    for personal in (str(REPO), str(Path.home()) + "/", "/tmp/"):
        assert personal not in page + json.dumps(results)
    done = run("report", "--out", folder)
    assert done.returncode == 0, done.stderr
    assert (folder / "benchmarks.md").read_text("utf-8") == page


def test_the_page_in_docs_is_made_from_its_numbers(tmp_path: Path) -> None:
    shutil.copy(REPO / "docs" / "benchmarks.json", tmp_path)
    assert run("report", "--out", tmp_path).returncode == 0
    made = (tmp_path / "benchmarks.md").read_text("utf-8")
    assert made == (REPO / "docs" / "benchmarks.md").read_text("utf-8")


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("decoding", "--size", "toy"), "`--size toy` needs `--out DIR`"),
        *(
            pytest.param(*case, marks=pytest.mark.long)
            for case in (
                (("decoding", "--rounds", "0", "--out", "o"), "`--rounds` must be at least 1"),
                (("test-set", "--device", "cuda-fp16"), "invalid choice: 'cuda-fp16'"),
                (("speed",), "invalid choice: 'speed'"),
            )
        ),
    ],
)
def test_mistakes(arguments: tuple[str, ...], message: str) -> None:
    done = run(*arguments)
    assert done.returncode == 2
    assert message in done.stderr.splitlines()[-1]


# ---- parts ---------------------------------------------------------------------------------------


@pytest.fixture
def importable(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(str(BENCHMARKS))


@pytest.mark.usefixtures("importable")
def test_docs_name_benchmarks_that_exist() -> None:
    import run

    known = {"NAME", *run.BENCHMARKS}
    for path in [REPO / "README.md", *(REPO / "docs").rglob("*.md")]:
        named = re.findall(r"scripts/benchmarks/run\.py ([A-Za-z-]+)", path.read_text("utf-8"))
        assert set(named) <= known, path


@pytest.mark.usefixtures("importable")
def test_text_and_batches() -> None:
    """Documents are exactly as long as asked, and both kinds of batches hold the same words."""
    import documents
    import measuring

    dictionary = documents.dictionary_of(measuring.SIZES["toy"])
    text = documents.documents_of(200, 4, dictionary)
    assert [documents.source_words([document]) for document in text] == [200] * 4
    lengths = [len(source) for document in text for source, _ in document]
    assert sum(lengths) / len(lengths) == 25 and min(lengths) >= 1
    words = []
    for batches in (
        documents.document_batches(text, dictionary, 400),
        documents.sentence_batches(text, dictionary, 400),
    ):
        assert max(b["net_input"]["src_tokens"].numel() for b in batches) < 1.2 * 400
        tokens = torch.cat([batch["target"].flatten() for batch in batches])
        words.append(tokens[tokens >= dictionary.nspecial].sort().values)
    assert torch.equal(*words)
    every = documents.sentence_batches(text, dictionary, 100)
    widths = [b["target"].size(1) for b in documents.sentence_batches(text, dictionary, 100, 3)]
    assert len(widths) == 3 < len(every) and widths == sorted(widths)


@pytest.mark.usefixtures("importable")
def test_a_ratio_is_the_median_of_the_rounds() -> None:
    from measuring import ratio, take_turns

    order: list[str] = []
    found = take_turns(
        {"a": lambda: float(order.append("a") or len(order)), "b": lambda: 2.0 * len(order)}, 3
    )
    assert found == {"a": [1.0, 2.0, 3.0], "b": [2.0, 4.0, 6.0]}
    assert ratio([4.0, 9.0, 2.0], [2.0, 3.0, 2.0]) == 2.0
