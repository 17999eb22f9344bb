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

from gtrans.cli import main

BENCHMARKS = SCRIPTS / "benchmarks"
LENGTHS = ("--lengths", "30", "60")
RUNS = {
    "training": (
        *LENGTHS, "--words", "60", "--batch-words", "60", "--corpus-words", "600", "--rounds", "2",
    ),
    "decoding": (*LENGTHS, "--words", "30", "--rounds", "1", "--stock-limit", "30"),
    "long-document": ("--lengths", "60", "--systems", "both", "--instance", "20", "--rounds", "1"),
    "memory": ("--lengths", "60"),
    "autocast": ("--words", "60", "--rounds", "1"),
    "checkpoints": ("--lengths", "60", "--longest", "120"),
    "chunks": (
        "--lengths", "60", "--chunk", "20", "--documents", "2", "--beam", "2", "--rounds", "1",
        "--whole-limit", "30",
    ),
    "contrast": ("--examples", "4", "--rounds", "1", "--vocabulary", "50"),
    "bert-cache": ("--batches", "2", "--max-tokens", "200", "--rounds", "1"),
    "shapes": ("--documents", "2", "--words", "30", "--max-tokens", "300", "--rounds", "1"),
    "test-set": ("--sentences", "3"),
    "loading": ("--sentences", "60", "--batches", "2"),
    "prepare-memory": ("--pairs", "60"),
    "fusion": ("--rounds", "1", "--batches", "1", "2", "--words", "4", "--beam", "2"),
}  # fmt: skip
Results = dict[str, Any]


def run(*arguments: str | Path) -> subprocess.CompletedProcess[str]:
    """``python scripts/benchmarks/run.py ..``"""
    command = [sys.executable, BENCHMARKS / "run.py", *arguments]
    return subprocess.run(command, capture_output=True, text=True, cwd=REPO)


@pytest.fixture(scope="module")
def folder(tiny: TinyWorld, bert: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A JSON file and a page after all benchmarks have run one after the other in one process."""
    folder = tmp_path_factory.mktemp("benchmarks")
    data = shutil.copytree(tiny.data, folder / "data")
    splits = [p for s in ("train", "valid", "test") for p in (f"--{s}", str(tiny.text / s))]
    assert main(
        ["prepare", "--source-lang", "en", "--target-lang", "de", *splits, "--bpe-merges", "300",
         "--out", str(data), "--bert", str(bert)]
    ) == 0  # fmt: skip
    runs = [
        [
            name, "--size", "toy", "--device", "cpu", "--out", str(folder), *options,
            *(["--data", str(data)] if name in ("bert-cache", "shapes") else []),
            *(["--data", str(data)] if name in ("bert-cache", "test-set") else []),
            *(["--text", str(tiny.text / "train")] if name == "prepare-memory" else []),
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
def test_autocast(results: Results) -> None:
    rows = results["autocast"]["rows"]
    assert [row["system"] for row in rows] == ["stock sentence Transformer", "gtrans"]


@pytest.mark.long
def test_checkpoints(results: Results) -> None:
    rows = results["checkpoints"]["rows"]
    assert systems(rows, 60) == {"as it is", "`--checkpoint-activations`"}
    assert systems(rows, 120) == {"`--checkpoint-activations`"}


@pytest.mark.long
def test_vocabulary(tmp_path: Path) -> None:
    small = ("--size", "toy", "--vocabularies", "300", "600", "--tokens", "60", "--no-mbart")
    done = run("vocabulary", *small, "--work", tmp_path / "work", "--out", tmp_path)
    assert done.returncode == 0, done.stderr
    rows = json.loads((tmp_path / "benchmarks.json").read_text("utf-8"))["vocabulary"]["rows"]
    assert [row["words"] for row in rows] == [300, 600, 300]


@pytest.mark.long
def test_chunks(results: Results) -> None:
    rows = results["chunks"]["rows"]
    chunked = {f"{model}, chunk by chunk" for model in ("sentence Transformer", "recurrent memory")}
    assert systems(rows, 60) == chunked  # 60 words are too long for a whole document here
    assert all(row["ms_per_token"] > 0 and row["of_shortest"] == 1 for row in rows)


@pytest.mark.long
def test_contrast(results: Results, page: str) -> None:
    alone, batched = results["contrast"]["rows"]
    assert (alone["system"], batched["system"]) == ("one candidate at a time", "batched")
    assert alone["times"] == 1.0 and alone["candidates"] == 8
    assert batched["difference"] < 1e-4
    assert "| batched | 50 | " in page


@pytest.mark.long
def test_test_set(results: Results, page: str) -> None:
    stock, ours, narrow = results["test-set"]["rows"]
    assert stock["rows"] == stock["sentences"] == ours["sentences"] == 3
    assert stock["times_stock"] == 1.0 and ours["times_stock"] > 0 and narrow["times_stock"] > 0
    longer = stock["tokens"] / ours["tokens"]
    assert ours["times_per_token"] == pytest.approx(ours["times_stock"] * longer)
    assert results["test-set"]["settings"]["data"] == "data"
    assert "## A whole test set\n\nThe test set of data translated" in page


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
def test_bert_cache(results: Results) -> None:
    computed, cached, in_memory = results["bert-cache"]["rows"]
    assert in_memory["times_memory"] == 1.0
    assert {row["batches"] for row in (computed, cached, in_memory)} == {2}
    assert computed["seconds"] > 0 and cached["word_pieces"] > 0 and cached["bert_width"] == 16


@pytest.mark.long
def test_loading(results: Results, page: str) -> None:
    (row,) = results["loading"]["rows"]
    assert row["words_per_second"] > 0 and row["bytes_per_word"] > 2
    assert "| 60 | " in page


@pytest.mark.long
def test_prepare_memory(results: Results, page: str) -> None:
    (row,) = results["prepare-memory"]["rows"]
    assert row["megabytes"] > 10 and row["seconds"] > 0
    assert "| 60 | " in page


@pytest.mark.long
def test_fusion(results: Results, page: str) -> None:
    rows = results["fusion"]["rows"]
    assert len(rows) == 2 * 5
    ratios = {row["system"]: row["operations_ratio"] for row in rows}
    assert ratios["GTRANS, 6 groups"] > ratios["GTRANS, groups 3:6"] > ratios["GTRANS, group 6:6"]
    assert ratios["GTRANS, group 6:6"] == ratios["post-norm Transformer"] == 1
    assert "| GTRANS, groups 3:6 | 2 | " in page


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


def test_sections_that_other_pages_quote_exist() -> None:
    page = (REPO / "docs" / "benchmarks.md").read_text("utf-8")
    sections = set(re.findall(r"^## (.+)$", page, re.MULTILINE))
    quoted = {
        " ".join(name.split())
        for other in (REPO / "README.md", REPO / "CHANGELOG.md", *(REPO / "docs").glob("*.md"))
        for name in re.findall(r'benchmarks\.md[`)]*,\s+"([^"]+)"', other.read_text("utf-8"))
    }
    assert "Shapes of attention" in quoted
    assert quoted <= sections, quoted - sections


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("fusion", "--size", "toy"), "`--size toy` needs `--out DIR`"),
        *(pytest.param(*case, marks=pytest.mark.long) for case in (
            (("fusion", "--rounds", "0", "--out", "o"), "`--rounds` must be at least 1, but is 0."),
            (("contrast", "--device", "cuda-fp16"), "invalid choice: 'cuda-fp16'"),
            (("speed",), "invalid choice: 'speed'"),
        )),
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


@pytest.mark.usefixtures("importable")
def test_operations_by_hand() -> None:
    """One layer of width 2, feed-forward 4, 10 words; 2 words into 2, beam 1."""
    from fusion import multiplications
    from measuring import Size

    size = Size(layers=1, dim=2, ffn=4, heads=1, vocabulary=10)
    decoder = 6 * 4 + 2 * 2 * 4 + 2 * 2 * (1 + 2)  # projections, feed-forward, keys and values
    encoder = 4 * 4 + 2 * 2 * 4 + 2 * 2 * 2 + 2 * 4  # and the keys that the decoder attends to
    assert multiplications(size, 3, words=2, beam=1) == decoder + encoder + 3 * 2 * 10


@pytest.mark.usefixtures("importable")
def test_table_of_the_deep_experiment() -> None:
    import deep_fusion

    rows = [
        {"system": name, "seed": seed, "bits": {"100": 5.0 + seed, "200": 4.0 + seed}}
        for name in deep_fusion.SYSTEMS
        for seed in (1, 2, 3)
    ]
    rows.append({"system": "one that has broken off", "seed": 1, "bits": {"100": 5.0}})
    rows.append({"system": "frequencies", "seed": None, "bits": {"100": 6.25, "200": 6.25}})
    table = deep_fusion.shown(rows)
    assert "| GTRANS, 3 seeds | 7.00 (6.00–8.00) | 6.00 (5.00–7.00) |" in table
    assert "| one that has broken off, 1 seed | 5.00 | inf |" in table
    assert "| frequencies | 6.25 | 6.25 |" in table


@pytest.mark.long
def test_the_deep_experiment(tmp_path: Path) -> None:
    done = run(
        "deep-fusion", "--size", "toy", "--work", tmp_path / "work", "--out", tmp_path,
        "--docs", "200", "--updates", "4", "--every", "2", "--seeds", "1",
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    rows = json.loads((tmp_path / "benchmarks.json").read_text("utf-8"))["deep-fusion"]["rows"]
    assert [len(row["bits"]) for row in rows] == [2] * 6
