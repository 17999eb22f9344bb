"""Logs of training runs."""

from __future__ import annotations

from pathlib import Path

import pytest
from support.runs import train
from support.tiny_models import TinyWorld

from gtrans.errors import GtransError
from gtrans.lab.analyses.curves import History, read_history

TIME = "2026-11-22 09:07:34 | INFO |"
SIMPLE = f"""$ gtrans train data --save-dir run
{TIME} fairseq.trainer | begin training epoch 1
{TIME} train_inner | epoch 001:     10 / 30 loss=8.5, ppl=362.04, num_updates=10, weight_group_1=0.4, wall=3
{TIME} train_inner | epoch 001:     20 / 30 loss=7.5, ppl=181.02, num_updates=20, weight_group_1=0.3, wall=5
{TIME} valid | epoch 001 | valid on 'valid' subset | loss 8.25 | nll_loss 8 | num_updates 20
{TIME} valid2 | epoch 001 | valid on 'valid2' subset | loss 9 | num_updates 20 | best_loss 9
{TIME} train_inner | epoch 001:     30 / 30 loss=7, num_updates=30, wall=8
{TIME} train | epoch 001 | loss 7.667 | num_updates 30 | lr 8e-05 | train_wall 2
"""  # noqa: E501
JSON = f"""{TIME} train_inner | {{"epoch": 1, "update": 0.333, "loss": "8.5", "ppl": "362.04", "num_updates": "10", "weight_group_1": "0.4", "wall": "3"}}
{TIME} train_inner | {{"epoch": 1, "update": 0.667, "loss": "7.5", "ppl": "181.02", "num_updates": "20", "weight_group_1": "0.3", "wall": "5"}}
{TIME} valid | {{"epoch": 1, "valid_loss": "8.25", "valid_nll_loss": "8", "valid_num_updates": "20"}}
{TIME} valid2 | {{"epoch": 1, "valid2_loss": "9", "valid2_num_updates": "20", "valid2_best_loss": "9"}}
{TIME} train_inner | {{"epoch": 1, "update": 1.0, "loss": "7", "num_updates": "30", "wall": "8"}}
{TIME} train | {{"epoch": 1, "train_loss": "7.667", "train_num_updates": "30", "train_lr": "8e-05", "train_train_wall": "2"}}
"""  # noqa: E501


def history(tmp_path: Path, text: str) -> History:
    (tmp_path / "train.log").write_text(text, encoding="utf-8")
    return read_history(tmp_path)


@pytest.mark.parametrize("text", [SIMPLE, JSON, SIMPLE.replace(TIME, "")], ids=["s", "j", "file"])
def test_both_forms_say_the_same(text: str, tmp_path: Path) -> None:
    found = history(tmp_path, text)
    assert found.series("train", "loss") == [(10, 8.5), (20, 7.5), (30, 7)]
    assert found.series("train", "weight_group_1") == [(10, 0.4), (20, 0.3)]
    assert found.series("train", "wall") == [(10, 3), (20, 5), (30, 8)]
    assert found.names("valid") == ["loss", "nll_loss"]
    assert found.series("valid", "nll_loss") == [(20, 8)]
    assert found.series("valid2", "best_loss") == [(20, 9)]
    assert [record.values for record in found.epochs] == [
        {"loss": 7.667, "lr": 8e-05, "train_wall": 2}
    ]
    assert found.updates == 30 and {record.epoch for record in found.inner} == {1}
    assert found.series("train", "bleu") == found.series("dev", "loss") == []


def test_what_is_done_twice_counts_once(tmp_path: Path) -> None:
    """Ended after 30 updates, the run goes on from its checkpoint of 10 updates."""
    again = SIMPLE.replace("num_updates=20", "num_updates=15").replace("loss=7.5", "loss=6")
    found = history(tmp_path, SIMPLE + "\n".join(again.split("\n")[3:4]) + '\n{"epoch": 1, "lo')
    assert found.series("train", "loss") == [(10, 8.5), (15, 6)]
    assert not found.epochs and not found.series("valid", "loss") and found.updates == 15


def test_what_is_no_number_is_left_out(tmp_path: Path) -> None:
    found = history(tmp_path, SIMPLE.replace("loss=7.5", "loss=nan").replace("=181.02", "=None"))
    assert found.series("train", "loss") == [(10, 8.5), (30, 7)]
    assert found.series("train", "ppl") == [(10, 362.04)]


def test_a_run(tiny: TinyWorld, tmp_path: Path) -> None:
    """Epochs alone, where no line came between; then the log of every update."""
    log = tmp_path / "run" / "train.log"
    options = ("--log-format", "json", "--patience", "9", "--log-file", log)
    log.parent.mkdir()
    assert not train(tiny.run, tiny.data, log.parent, *options, updates=3).status
    found = read_history(log.parent)
    assert found.training == found.epochs and found.updates == 3
    ((updates, loss),) = found.series("valid", "loss")
    assert updates == 3 and 0 < loss < 20
    more = train(tiny.run, tiny.data, log.parent, *options, "--log-interval", "1", updates=5)
    assert not more.status
    found = read_history(log)
    assert [record.updates for record in found.training] == [4, 5]
    assert [updates for updates, _ in found.series("valid", "loss")] == [3, 5]
    assert {"loss", "gnorm", "lr", "wall"} <= set(found.names("train"))


def test_mistakes(tmp_path: Path) -> None:
    with pytest.raises(GtransError, match=r"train.log: there is no such log; name a run folder"):
        read_history(tmp_path)
    with pytest.raises(GtransError, match="it has no losses of a training"):
        history(tmp_path, "nothing\n")
