"""``python -m gtrans.training.finished``: what the recipes ask about a model that they share."""

from __future__ import annotations

import shutil

import torch
from support.tiny_models import TinyWorld

from gtrans.checkpoints.reading import read_checkpoint
from gtrans.training.finished import OTHER_SEED, finished, main


def test_a_run_is_finished_by_its_own_settings(tiny: TinyWorld, tmp_path, capsys):
    trained = tiny.checkpoints["document"].parent
    assert finished(trained) == "the run is finished (12 updates, --max-update 12)"
    assert main(str(trained)) == 0
    assert main(str(trained), "1") == 0
    assert main(str(trained), "2") == OTHER_SEED

    last = tmp_path / "checkpoint_last.pt"
    shutil.copy(tiny.checkpoints["document"], last)
    state = read_checkpoint(last)
    state["cfg"]["optimization"]["max_update"] = 13
    torch.save(state, last)
    assert finished(tmp_path) is None
    assert main(str(tmp_path)) == main(str(tmp_path), "1") == 1

    last.write_bytes(last.read_bytes()[:1000])
    assert main(str(tmp_path)) == 1
    (line,) = capsys.readouterr().err.splitlines()
    assert "none of its checkpoints is whole" in line


def test_a_folder_without_a_run_is_not_finished(tmp_path):
    assert main(str(tmp_path)) == main(str(tmp_path), "1") == 1
