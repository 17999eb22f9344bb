"""``gtrans contrast``: items, accuracy, errors, the twin property."""

from __future__ import annotations

import json
import math
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from support.contrast_items import (
    CUES,
    DISTANCES,
    PHENOMENA,
    SPLIT,
    Split,
    as_line,
    generated,
    small_item,
    table_of,
    vocabulary_of,
)
from support.untrained import task_for, untrained

from gtrans.cli import main
from gtrans.evaluation.contrastive.accuracy import wilson_interval
from gtrans.translating.force_decode import score_documents, score_items

if TYPE_CHECKING:
    from support.tiny_models import TinyWorld

Call = Callable[..., tuple[int, str, str]]


# --- items and accuracy -----------------------------------------------------------------------


def test_wilson_interval_by_hand():
    assert wilson_interval(8, 10) == pytest.approx((0.49016, 0.94332), abs=1e-5)
    assert wilson_interval(0, 10) == pytest.approx((0.0, 0.27753), abs=1e-5)
    assert wilson_interval(10, 10) == pytest.approx((0.72247, 1.0), abs=1e-5)


def test_right_means_strictly_the_highest():
    three = (("a.", "c."), ("a.", "d."))
    items = [
        small_item("win", distance=2),
        small_item("lose"),
        small_item("tie"),
        small_item("nan", cue="target"),
        small_item("beats both", contrastive=three),
        small_item("beats one", contrastive=three),
        small_item("other", phenomenon="ellipsis"),
    ]
    scores = [[-1, -2], [-2, -1], [-1, -1], [math.nan, -1], [-1, -2, -3], [-2, -3, -1], [-1, -2]]
    table = table_of(items, scores)
    assert list(table) == [
        (name, of) for name in ("pronoun", "ellipsis", "all") for of in ("1", "2", "all")
        if (name, of) != ("ellipsis", "2")
    ]  # fmt: skip
    cell = table["pronoun", "1"]
    assert (sum(cell.values), cell.items, cell.cue, cell.mean) == (1, 5, "source/target", 0.2)
    assert cell.interval == wilson_interval(1, 5)
    assert table["pronoun", "2"].mean == table["ellipsis", "all"].mean == 1.0
    assert (sum(table["all", "all"].values), table["all", "1"].items) == (3, 6)


# --- models choose ---------------------------------------------------------------------------


@pytest.mark.parametrize("limit", [50, 2000])
def test_without_context_exactly_half_is_right(limit: int):
    items = generated(10)
    task = task_for("sentence", words=vocabulary_of(items))
    scores = score_items([untrained(task)], task, SPLIT, items, max_tokens=limit)
    table = table_of(items, scores)
    assert {name for name, _ in table} == {*PHENOMENA, "all"}
    assert {of for _, of in table} == {*map(str, DISTANCES), "all"}
    assert {cell.mean for cell in table.values()} == {0.5}


def test_leaving_out_the_common_context_changes_no_difference():
    items = generated(2)
    task = task_for("document", words=vocabulary_of(items))
    model = untrained(task)
    scores = score_items([model], task, SPLIT, items)
    whole = iter(
        score_documents(
            [model],
            task,
            [
                tuple([Split().encode(s) for s in side] for side in (item.source, candidate))
                for item in items
                for candidate in item.candidates
            ],
        )
    )
    for right, wrong in scores:
        full = sum(next(whole)) - sum(next(whole))
        assert right - wrong == pytest.approx(full, abs=1e-4)
        assert full != 0


# --- the command ------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def small_set(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("sets") / "both.jsonl"
    items = generated(6, ["pronoun", "lexical"])
    path.write_text("".join(f"{as_line(item)}\n" for item in items), encoding="utf-8")
    return path


@pytest.fixture
def contrast(tiny: TinyWorld, small_set: Path, capsys: pytest.CaptureFixture[str]) -> Call:
    def call(model: str, *more: str) -> tuple[int, str, str]:
        path = ":".join(str(tiny.checkpoints[name]) for name in model.split(":"))
        files = ("--path", path, "--data", str(tiny.data))
        files += () if "--set" in more else ("--set", str(small_set))
        status = main(["contrast", *files, "--cpu", *more])
        return status, *capsys.readouterr()

    return call


def test_the_command_prints_a_table(contrast: Call):
    status, out, _ = contrast("sentence")
    assert status == 0
    first, *rows = out.splitlines()
    assert " ".join(first.split()) == "phenomenon distance accuracy 95% interval items cue"
    few, twelve = ["50.0", "18.8-81.2", "6"], ["50.0", "25.4-74.6", "12"]
    assert [row.split() for row in rows] == [
        *[
            [phenomenon, *cells, CUES[phenomenon]]
            for phenomenon in ("pronoun", "lexical")
            for cells in (
                *([str(distance), *few] for distance in DISTANCES),
                ["all", "50.0", "31.4-68.6", "24"],
            )
        ],
        *(["all", str(distance), *twelve, "source/target"] for distance in DISTANCES),
        ["all", "all", "50.0", "36.4-63.6", "48", "source/target"],
    ]


def test_the_command_prints_json(contrast: Call):
    # two models that see the document, and the control
    status, out, _ = contrast("document:other", "--json", "--shuffled-context")
    assert status == 0
    found = json.loads(out)
    sums = {"by_phenomenon", "by_distance", "all"}
    accuracies = {"contrastive", "intervals", *sums}
    others = {"schema", "version", "system", "by_group"}
    control = {"shuffled_context", "above_shuffled_context"}
    assert set(found) == {"unit", "items", "cue", *control, *accuracies, *others, "others"}
    assert set(found["shuffled_context"]) == accuracies
    above = found["above_shuffled_context"]
    assert set(above) == {"contrastive", *sums}
    assert above["contrastive"]["pronoun"].keys() == found["items"]["pronoun"].keys()
    assert (above["all"]["items"], above["by_distance"]["1"]["items"]) == (48, 12)
    low, high = above["all"]["interval"]
    assert low < above["all"]["value"] < high
    assert (found["all"]["items"], found["by_distance"]["1"]["items"]) == (48, 12)
    assert found["unit"] == "document"
    assert found["items"]["pronoun"] == {str(distance): 6 for distance in DISTANCES}
    assert found["cue"]["lexical"] == dict.fromkeys(map(str, DISTANCES), "target")
    for part in (found, found["shuffled_context"]):
        for phenomenon in ("pronoun", "lexical"):
            for distance, accuracy in part["contrastive"][phenomenon].items():
                interval = wilson_interval(round(6 * accuracy), 6)
                assert part["intervals"][phenomenon][distance] == pytest.approx(interval)
    assert contrast("document:other", "--json", "--shuffled-context")[1] == out


@pytest.mark.parametrize(
    ("model", "more", "message"),
    [
        ("sentence", ("--max-tokens", "0"), "`--max-tokens` must be at least 1, but is 0."),
        ("sentence:document", (), "--unit document, not sentence"),
        ("sentence", ("--data", "nowhere"), "nowhere: there is no such data folder."),
        ("sentence", ("--format", "contrapro", "--context", "0"), ".jsonl: not JSON"),
    ],
)
def test_mistakes_are_one_line(model: str, more: tuple[str, ...], message: str, contrast: Call):
    status, out, err = contrast(model, *more)
    assert (status, out) == (1, "")
    assert err.splitlines()[-1].startswith("gtrans: error: ")
    assert message in err.splitlines()[-1]


def test_sets_and_accuracy_need_no_torch(repo: Path):
    code = "import sys, gtrans.cli.contrast; print(*sys.modules)"
    loaded = subprocess.run(
        [sys.executable, "-c", code], cwd=repo, capture_output=True, text=True, check=True
    ).stdout.split()
    assert "gtrans.evaluation.contrastive" in loaded
    assert not {"torch", "fairseq"} & set(loaded)
