"""Fusion models through fairseq's commands: the stock tasks, ours, and `gtrans`."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest
from support.runs import SIZES, refusal
from support.suites import others_long
from support.tiny_models import Finished, TinyWorld

from gtrans.cli import main

TRAINING = (
    *("--arch", "gtrans_fusion_tiny", *SIZES, "--encoder-layers", "4", "--decoder-layers", "4"),
    *("--share-all-embeddings", "--encoder-group-size"),
    *("2", "--optimizer", "adam", "--lr", "0.003", "--criterion", "multi_level_cross_entropy"),
    *("--label-smoothing", "0.1", "--max-tokens", "1024", "--max-update", "14", "--num-workers"),
    *("0", "--cpu", "--user-dir", "gtrans", "--log-format", "json", "--log-interval", "4"),
)
PAIR = ("--source-lang", "en", "--target-lang", "de")
TASKS = {
    "translation": PAIR,
    "translation_multi_simple_epoch": (
        *("--langs", "en,de", "--lang-pairs", "en-de,de-en", "--encoder-langtok", "tgt"),
        *("--decoder-langtok", "--sampling-method", "temperature"),
    ),
    "translation_multi_linear": (
        *("--langs", "en,de", "--lang-pairs", "en-de,de-en", "--encoder-langtok", "tgt"),
        *("--sampling-temperature", "5", "--sampling-warmup-epochs", "2"),
    ),
    "document_translation": (*PAIR, "--sentence-marks", "end"),
}


class Runs(dict[str, Path]):
    """Task -> folder of a short run with it, with the log in ``log``; made when first asked for."""

    def __init__(self, tiny: TinyWorld, folders: pytest.TempPathFactory) -> None:
        self._tiny, self._folders = tiny, folders

    def __missing__(self, task: str) -> Path:
        folder = self[task] = self._folders.mktemp(task)
        done = self._tiny.run.succeed(
            "train", self._tiny.data, *TRAINING, "--task", task, *TASKS[task],
            "--save-dir", folder, "--save-interval-updates", "7", "--keep-interval-updates", "2",
        )  # fmt: skip
        (folder / "log").write_text(done.stdout + done.stderr)
        return folder


@pytest.fixture(scope="module")
def runs(tiny: TinyWorld, tmp_path_factory: pytest.TempPathFactory) -> Runs:
    return Runs(tiny, tmp_path_factory)


def generate(
    tiny: TinyWorld,
    runs: Runs,
    task: str,
    *options: str | Path,
    path: Path | str = "",
) -> Finished:
    pair = PAIR if "multi" in task else ()
    return tiny.run(
        "generate", tiny.data, "--user-dir", "gtrans", "--task", task, *TASKS[task], *pair,
        "--path", path or runs[task] / "checkpoint_last.pt", "--beam", "3", "--max-len-b", "6",
        "--required-batch-size-multiple", "1", "--cpu", *options,
    )  # fmt: skip


@pytest.mark.parametrize("task", others_long(TASKS, ["translation", "translation_multi_linear"]))
def test_every_task_trains_and_tells_of_its_groups(task: str, runs: Runs) -> None:
    log = (runs[task] / "log").read_text()
    (line,) = re.findall(r":train:(\{.*\})", log)[-1:]
    values = json.loads(line)
    losses = [float(values[f"train_loss_group_{group}"]) for group in (1, 2)]
    weights = [float(values[f"train_weight_group_{group}"]) for group in (1, 2)]
    assert sum(weights) == pytest.approx(1, abs=1e-3)
    assert min(losses) <= float(values["train_loss"]) <= max(losses)
    inner = [json.loads(x) for x in re.findall(r":train_inner:(\{.*\})", log)]
    assert float(inner[-1]["loss"]) < float(inner[0]["loss"])


@pytest.mark.parametrize("task", others_long(TASKS, ["translation"]))
def test_every_task_decodes(
    task: str,
    tiny: TinyWorld,
    runs: Runs,
) -> None:
    """In batches as one by one, and with some groups only."""
    done = generate(tiny, runs, task)
    assert done.status == 0, done.stderr
    sentences = done.lines("H")
    assert len(sentences) >= sum(map(len, tiny.source()))
    if task == "translation":
        alone = generate(tiny, runs, task, "--batch-size", "1")
        assert sorted(alone.lines("H")) == sorted(sentences)
    some = generate(tiny, runs, task, "--model-overrides", "{'use_groups': '1:1'}")
    assert some.status == 0, some.stderr
    assert some.lines("P") != done.lines("P")


def test_the_order_of_languages_is_that_of_the_training(tiny: TinyWorld, runs: Runs) -> None:
    done = generate(tiny, runs, "translation_multi_linear", "--langs", "de,en")
    assert done.status == 1
    line = done.stderr.strip().splitlines()[-1]
    assert "it has another source vocabulary (entry " in line
    assert " is '__en__', not '__de__'); give the folder it was trained with, and `--la" in line


def test_groups_that_do_not_exist_are_one_line(
    tiny: TinyWorld,
    runs: Runs,
) -> None:
    done = generate(tiny, runs, "translation", "--model-overrides", "{'use_groups': '2:3'}")
    assert refusal(done) == (
        "`--use-groups` must be FIRST:LAST, of the decoder's groups 1 to 2, but is '2:3'."
    )


def test_averages_and_ensembles_decode(
    tiny: TinyWorld,
    runs: Runs,
    tmp_path: Path,
) -> None:
    folder, average = runs["translation"], tmp_path / "average.pt"
    assert main(["average", "--last-updates", "2", "--output", str(average), str(folder)]) == 0
    mean = generate(tiny, runs, "translation", path=average)
    assert mean.status == 0, mean.stderr
    last = generate(tiny, runs, "translation")
    assert mean.lines("P") != last.lines("P")
    paths = f"{folder / 'checkpoint_last.pt'}:{average}"
    both = generate(tiny, runs, "translation", path=paths)
    assert both.status == 0 and len(both.lines("H")) == len(last.lines("H"))


def test_gtrans_translate_with_some_of_the_groups(
    tiny: TinyWorld, runs: Runs, tmp_path: Path
) -> None:
    """The record says so, so that it is another translation."""
    out, source = tmp_path / "out.de", tiny.text / "test.en"
    checkpoint = runs["document_translation"] / "checkpoint_last.pt"
    words = ["--path", str(checkpoint), "--data", str(tiny.data), "--input", str(source), "--cpu"]
    words += ["--output", str(out), "--model-overrides", "{'use_groups': '1:1'}"]
    assert main(["translate", *words, "--beam", "2", "--max-len-b", "6"]) == 0
    empty = [not line for line in source.read_text().splitlines()]
    assert [not line for line in out.read_text().splitlines()] == empty
    assert "use_groups" in (tmp_path / "out.de.made.json").read_text()
