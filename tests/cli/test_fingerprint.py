"""A checkpoint is the model: it needs no folder, and refuses what it was not made with."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from itertools import permutations
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
import torch
from support.contract import Case, build
from support.folders import binarised_again
from support.suites import one_in
from support.tiny_models import TINY

from gtrans.checkpoints.fingerprint import STATE, ModelFingerprint
from gtrans.checkpoints.reading import read_checkpoint, write_checkpoint
from gtrans.cli import main

if TYPE_CHECKING:
    from support.tiny_models import Finished, TinyWorld

FAST = ("--beam", "2", "--max-len-a", "0", "--max-len-b", "8", "--cpu")
PLUGIN = ("--user-dir", "gtrans", "--task", "document_translation")


def translated(tiny: TinyWorld, path: Path | str, output: Path, *options: str | Path) -> str:
    """The text of the translation of the test documents."""
    files = ["--path", str(path), "--input", str(tiny.text / "test.en"), "--output", str(output)]
    assert main(["translate", *files, *FAST, *map(str, options)]) == 0
    return output.read_text(encoding="utf-8")


def refusal(argv: list[Any], capsys: pytest.CaptureFixture[str]) -> str:
    """The last line of a command that fails."""
    capsys.readouterr()
    assert main([str(part) for part in argv]) == 1
    return capsys.readouterr().err.strip().split("\n")[-1]


def generate(tiny: TinyWorld, data: Path, path: Path | str, *options: str) -> Finished:
    return tiny.run(
        "generate", data, *PLUGIN, "--path", str(path), "--gen-subset", "valid",
        "--max-tokens", "400", "--beam", "1", "--max-len-b", "5", "--cpu", *options,
    )  # fmt: skip


def reorder(folder: Path) -> None:
    """The same words in the opposite order."""
    for lang in ("en", "de"):
        path = folder / f"dict.{lang}.txt"
        path.write_text("".join(reversed(path.read_text("utf-8").splitlines(True))), "utf-8")
    binarised_again(folder)


def other_merges(folder: Path) -> None:
    """As many merges, in another order."""
    path = folder / "codes.bpe"
    first, *merges = path.read_text("utf-8").splitlines(True)
    path.write_text("".join([first, *reversed(merges)]), "utf-8")
    binarised_again(folder)


def other_truecaser(folder: Path) -> None:
    """One more word that the truecaser knows."""
    with open(folder / "truecase.en", "a", encoding="utf-8") as file:
        file.write("Gtrans (1/1)\n")
    binarised_again(folder)


def test_a_checkpoint_translates_without_its_data_folder(tiny: TinyWorld, tmp_path: Path) -> None:
    path = Path(shutil.copy(tiny.checkpoints["document"], tmp_path / "model.pt"))
    alone = translated(tiny, path, tmp_path / "alone")
    assert alone == translated(tiny, path, tmp_path / "with", "--data", tiny.data)
    assert len(alone.split("\n")) == len((tiny.text / "test.en").read_text("utf-8").split("\n"))


@pytest.mark.parametrize(
    ("change", "what"),
    [
        (reorder, "source vocabulary (entry 4 is"),
        (other_merges, "preparation (codes.bpe)"),
        pytest.param(other_truecaser, "preparation (truecase.en)", marks=pytest.mark.long),
    ],
)
def test_a_folder_that_it_was_not_made_with_is_refused(
    change: Callable[[Path], None],
    what: str,
    tiny: TinyWorld,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    """Also by fairseq's own commands; the sizes are the same in all these folders."""
    folder = shutil.copytree(tiny.data, tmp_path / "other")
    change(folder)
    path = tiny.checkpoints["document"]
    command = ["translate", "--path", path, "--data", folder, "--output", tmp_path / "out", *FAST]
    line = refusal([*command, "--input", tiny.text / "test.en"], capsys)
    assert f"{path}: the checkpoint was not made with '{folder}'" in line and what in line
    assert "`gtrans translate` needs none" in line
    assert not (tmp_path / "out").exists()
    for done in (
        generate(tiny, folder, path),
        tiny.run("validate", folder, *PLUGIN, "--path", path, "--max-tokens", "999", "--cpu"),
        tiny.run("interactive", folder, *PLUGIN, "--path", path, "--cpu", stdin="a b\n\n"),
    ):
        assert done.status != 0
        assert f"was not made with '{folder}'" in done.stderr.strip().split("\n")[-1]


def test_a_folder_that_was_moved_is_taken(tiny: TinyWorld, tmp_path: Path) -> None:
    folder = shutil.copytree(tiny.data, tmp_path / "moved")
    assert generate(tiny, folder, tiny.checkpoints["document"]).status == 0


@pytest.mark.parametrize("order", one_in(2, permutations(["document", "sentence"])))
def test_models_of_different_units_do_not_decode_together(
    order: tuple[str, str], tiny: TinyWorld
) -> None:
    first, second = (str(tiny.checkpoints[name]) for name in order)
    done = generate(tiny, tiny.data, f"{first}:{second}")
    assert done.status != 0
    line = done.stderr.strip().split("\n")[-1]
    assert f"first of `--path`: --unit {order[1]}, not {order[0]}" in line


def without_fingerprint(path: Path, target: Path) -> Path:
    """The checkpoint as early versions wrote it."""
    state = read_checkpoint(path)
    del state["task_state"][STATE]
    write_checkpoint(state, target)
    return target


def test_an_early_checkpoint_says_that_its_fingerprint_is_unknown(
    tiny: TinyWorld, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    old = without_fingerprint(tiny.checkpoints["document"], tmp_path / "old.pt")
    command = ["translate", "--path", old, "--input", tiny.text / "test.en", *FAST, "--output"]
    line = refusal([*command, tmp_path / "none"], capsys)
    assert f"{old}: no fingerprint" in line and "(`--data`)" in line
    text = translated(tiny, old, tmp_path / "old.de", "--data", tiny.data)
    assert "no fingerprint" in capsys.readouterr().err
    assert text == translated(tiny, tiny.checkpoints["document"], tmp_path / "new.de")
    done = generate(tiny, tiny.data, old)
    assert done.status == 0 and "no fingerprint" in done.stderr


def test_models_of_other_preparations_do_not_decode_together(
    tiny: TinyWorld, tmp_path: Path
) -> None:
    """Also where the data folder has no preparation to compare them with."""
    folder = shutil.copytree(tiny.data, tmp_path / "bare")
    (folder / "prepare.json").unlink()
    state = read_checkpoint(tiny.checkpoints["other"])
    files = state["task_state"][STATE]["preparation"]["files"]
    files["codes.bpe"] = files["codes.bpe"][:-4].clone()
    write_checkpoint(state, tmp_path / "changed.pt")
    done = generate(tiny, folder, f"{tiny.checkpoints['document']}:{tmp_path / 'changed.pt'}")
    assert done.status != 0
    assert "other preparation (codes.bpe)" in done.stderr.strip().split("\n")[-1]


def test_the_other_commands_need_no_data_folder_either(
    tiny: TinyWorld, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = str(tiny.checkpoints["document"])
    sides = ["--src", str(tiny.text / "test.en"), "--ref", str(tiny.text / "test.de")]
    found = []
    for data in ([], ["--data", str(tiny.data)]):
        capsys.readouterr()
        assert main(["cxmi", "--path", path, *data, *sides, "--json", "--cpu"]) == 0
        found.append(capsys.readouterr().out)
        sets = str(next((tiny.text / "contrastive").glob("*.jsonl")))
        assert main(["contrast", "--path", path, *data, "--set", sets, "--json", "--cpu"]) == 0
        found.append(capsys.readouterr().out)
    assert found[:2] == found[2:]


# ---- what is made from checkpoints -----------------------------------------------------------


def start_from(
    tiny: TinyWorld, data: Path | str, checkpoint: Path, saved: Path, flag: str = "--init-from"
) -> Finished:
    """Begin a document model with a checkpoint."""
    return tiny.run(
        "train", data, *PLUGIN, "--arch", "gtransformer_tiny", *TINY, "--optimizer", "adam",
        "--lr", "1e-30", "--criterion", "cross_entropy", "--max-tokens", "1024",
        "--max-update", "1", "--disable-validation", "--save-dir", saved, "--no-epoch-checkpoints",
        "--num-workers", "0", "--cpu", flag, checkpoint,
    )  # fmt: skip


def test_rows_follow_their_entries(tiny: TinyWorld, tmp_path: Path) -> None:
    """The vocabulary is the checkpoint's own, wherever the folder that it names leads to now."""
    folder = shutil.copytree(tiny.data, tmp_path / "other")
    reorder(folder)
    path = tmp_path / "sentence.pt"
    state = read_checkpoint(tiny.checkpoints["sentence"])
    state["cfg"]["task"]["data"] = str(folder)  # as a relative path may lead to another folder
    write_checkpoint(state, path)
    done = start_from(tiny, folder, path, tmp_path / "saved")
    assert done.status == 0, done.stderr
    name = "encoder.embed_tokens.weight"
    started = read_checkpoint(tmp_path / "saved" / "checkpoint_last.pt")
    fingerprints = [ModelFingerprint.of_checkpoint(found, "x.pt") for found in (state, started)]
    tables = [found["model"][name] for found in (state, started)]
    old, new = (one.source.entries for one in fingerprints if one is not None)
    assert sorted(old) == sorted(new) and old != new
    for row, entry in enumerate(new):
        assert torch.equal(tables[1][row], tables[0][old.index(entry)]), entry


@pytest.mark.parametrize("flag", one_in(2, ["--restore-file", "--finetune-from-model"]))
def test_parameters_are_not_taken_row_by_row_from_another_vocabulary(
    flag: str, tiny: TinyWorld, tmp_path: Path
) -> None:
    folder = shutil.copytree(tiny.data, tmp_path / "other")
    reorder(folder)
    done = start_from(tiny, folder, tiny.checkpoints["document"], tmp_path / "saved", flag)
    line = done.stderr.strip().split("\n")[-1]
    assert done.status != 0 and f"GtransError: {flag}" in line
    assert "it has other source vocabulary (entry 4 is" in line and "--init-from maps" in line
    assert not list((tmp_path / "saved").glob("*.pt"))


def test_an_average_is_of_one_model_and_stays_one(
    tiny: TinyWorld, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    document, sentence = (tiny.checkpoints[name] for name in ("document", "sentence"))
    target, other = tmp_path / "mean.pt", tmp_path / "next.pt"
    later = read_checkpoint(document)
    later["optimizer_history"][-1]["num_updates"] += 1
    write_checkpoint(later, other)
    line = refusal(["average", "--output", target, document, sentence], capsys)
    assert f"{sentence} and {document} do not belong together: --unit sentence, not" in line
    assert not target.exists()
    assert main(["average", "--output", str(target), str(document), str(other)]) == 0
    assert "no fingerprint" not in capsys.readouterr().err
    translated(tiny, target, tmp_path / "mean.de")
    state = read_checkpoint(document)
    words = ModelFingerprint.of_checkpoint(state, document)
    assert words is not None
    state["task_state"][STATE]["target"] = state["task_state"][STATE]["source"]
    state["task_state"][STATE]["source"] = {
        **state["task_state"][STATE]["target"], "added": ["[xx]"],
    }  # fmt: skip
    write_checkpoint(state, tmp_path / "changed.pt")
    line = refusal(["average", "--output", target, document, tmp_path / "changed.pt"], capsys)
    assert "source vocabulary" in line


def test_what_a_model_is_made_from_is_what_was_there_when_it_was_made(
    tiny: TinyWorld, tmp_path: Path
) -> None:
    """A data folder that is prepared anew, or removed, does not concern a training in progress."""
    folder = shutil.copytree(tiny.data, tmp_path / "data")
    built = build(Case("gtransformer_tiny", "document"), folder)
    before = ModelFingerprint.of_state(built.task.state_dict(), "x.pt")
    other_merges(folder)
    assert ModelFingerprint.of_state(built.task.state_dict(), "x.pt") == before
    shutil.rmtree(folder)
    assert ModelFingerprint.of_state(built.task.state_dict(), "x.pt") == before
