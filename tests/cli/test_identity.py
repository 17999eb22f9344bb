"""A checkpoint is the model: it needs no folder, and refuses what it was not made with."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from itertools import permutations
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
import torch
from support.folders import binarised_again
from support.suites import one_in
from support.tiny_models import TINY

from gtrans.checkpoints.identity import ModelIdentity
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


def other_truecaser(folder: Path) -> None:
    """One more word that the truecaser knows."""
    with open(folder / "truecase.en", "a", encoding="utf-8") as file:
        file.write("Gtrans (1/1)\n")


def test_a_checkpoint_translates_without_its_data_folder(tiny: TinyWorld, tmp_path: Path) -> None:
    path = Path(shutil.copy(tiny.checkpoints["document"], tmp_path / "model.pt"))
    alone = translated(tiny, path, tmp_path / "alone")
    assert alone == translated(tiny, path, tmp_path / "with", "--data", tiny.data)
    assert len(alone.split("\n")) == len((tiny.text / "test.en").read_text("utf-8").split("\n"))


@pytest.mark.parametrize(
    ("change", "what"),
    [
        (reorder, "source vocabulary (symbol 4 is"),
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
    for source in (["--input", tiny.text / "test.en"], ["--split", "test"]):
        line = refusal([*command, *source], capsys)
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
    assert f"with --unit {order[1]}, not {order[0]} as the other models" in line


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


def test_rows_follow_their_symbols(tiny: TinyWorld, tmp_path: Path) -> None:
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
    identities = [ModelIdentity.of_checkpoint(found, "x.pt") for found in (state, started)]
    tables = [found["model"][name] for found in (state, started)]
    old, new = (one.source.symbols for one in identities if one is not None)
    assert sorted(old) == sorted(new) and old != new
    for row, symbol in enumerate(new):
        assert torch.equal(tables[1][row], tables[0][old.index(symbol)]), symbol


@pytest.mark.parametrize("flag", one_in(2, ["--restore-file", "--finetune-from-model"]))
def test_parameters_are_not_taken_row_by_row_from_another_vocabulary(
    flag: str, tiny: TinyWorld, tmp_path: Path
) -> None:
    folder = shutil.copytree(tiny.data, tmp_path / "other")
    reorder(folder)
    done = start_from(tiny, folder, tiny.checkpoints["document"], tmp_path / "saved", flag)
    line = done.stderr.strip().split("\n")[-1]
    assert done.status != 0 and f"GtransError: {flag}" in line
    assert "it has other source vocabulary (symbol 4 is" in line and "--init-from maps" in line
    assert not list((tmp_path / "saved").glob("*.pt"))


def test_a_checkpoint_to_restore_has_to_be_there(tiny: TinyWorld, tmp_path: Path) -> None:
    none = tmp_path / "none.pt"
    done = start_from(tiny, tiny.data, none, tmp_path / "saved", "--restore-file")
    assert done.status != 0 and f"{none}: there is no such checkpoint" in done.stderr
