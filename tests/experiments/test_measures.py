"""Numbers that are read from what commands write."""

from __future__ import annotations

import json
from dataclasses import replace
from math import isclose
from pathlib import Path

import pytest

from gtrans.errors import GtransError
from gtrans.experiments.measures import Column, Measure, Reading, read_measures, read_number


def test_numbers_of_other_commands(tmp_path: Path) -> None:
    one, both = tmp_path / "one.json", tmp_path / "both.json"
    whole = {"accuracy": 0.75, "interval": [0.5, 0.9]}
    one.write_text(json.dumps({
        "by_phenomenon": {"pronoun": whole}, "by_distance": {"2": whole}, "all": whole,
        "contrastive": {"pronoun": {"1": 0.25}}, "intervals": {"pronoun": {"1": [0, 0.5]}},
    }))  # fmt: skip
    both.write_text(json.dumps({"others": {"row": {
        "mcnemar": {"pronoun": {"p": 0.5}}, "mcnemar_by_distance": {"2": {"p": 0.25}},
        "difference_by_distance": {"2": {"interval": [-0.5, 0.25]}},
    }}}))  # fmt: skip
    contrast = Measure("contrast")

    def number(*at: str) -> Reading | None:
        return read_number(contrast, Column("contrast", at), one, both)

    assert number("pronoun") == Reading(75.0, (50.0, 90.0), p=0.5, test="exact McNemar")
    assert number("pronoun", "1") == Reading(25.0, (0, 50.0))
    assert number() == Reading(75.0, (50.0, 90.0))
    at_distance = replace(number(), p=0.25, test="exact McNemar", change=(-50.0, 25.0))
    assert number("", "2") == at_distance
    assert number("lexical") is None
    one.write_text(json.dumps({"facts": [{"gain": 2}]}))
    column = Column("m", ("facts", "0", "gain"), times=10, interval=("none",))
    assert read_number(Measure("json"), column, one, None) == Reading(20.0)
    one.write_text("{")
    with pytest.raises(GtransError, match="one.json: not readable"):
        read_number(Measure("json"), column, one, None)


def test_the_log_and_the_time_of_a_run(tmp_path: Path) -> None:
    (tmp_path / "train.log").write_text("num. shared model params: 2,017,152 (num.\n")
    column = Column("size", ("num. shared model params",), times=1e-6)
    found = read_number(Measure("log"), column, tmp_path, None)
    assert found is not None and isclose(found.value, 2.017152)
    with_other = read_number(Measure("log"), column, tmp_path, None, (tmp_path,))
    assert with_other is not None and isclose(with_other.value, 2 * 2.017152)
    history = Column("training", ("valid", "loss"))
    assert read_number(Measure("history"), history, tmp_path, None, (tmp_path,)) is None
    with pytest.raises(GtransError, match="nowhere/train.log: not readable"):
        read_number(Measure("log"), column, tmp_path / "nowhere", None)
    translation, record = tmp_path / "t", tmp_path / "r.json"
    translation.write_text("a b c\nd\n")
    record.write_text(json.dumps({"seconds": 8, "last_seconds": 2}))
    assert read_number(Measure("speed"), Column("speed", ()), translation, record) == Reading(2.0)


@pytest.mark.parametrize("groups", ["", " | loss_group_1 2.763 | loss_group_2 1.477"])
def test_a_loss_over_groups_of_layers_is_no_loss_of_the_model(groups: str, tmp_path: Path) -> None:
    """It has the losses of all groups in it, so it is above that of the same model without."""
    (tmp_path / "train.log").write_text(
        "2026-01-01 00:00:00 | INFO | valid | epoch 002 | valid on 'valid' subset | loss 1.487 | "
        f"nll_loss 0.295{groups} | ppl 1.23 | num_updates 300\n"
    )
    for name, value in (("loss", None if groups else 1.487), ("nll_loss", 0.295)):
        found = read_number(
            Measure("history"), Column("training", ("valid", name), better="lower"), tmp_path, None
        )
        assert (found and found.value) == value


def test_measures_that_are_not_there_are_refused(tmp_path: Path) -> None:
    file = tmp_path / "measures.yaml"
    file.write_text("measures: {}\ncolumns: {a: {measure: b, at: []}}\n")
    with pytest.raises(GtransError, match="column a is of no measure 'b'"):
        read_measures(file)
    file.write_text("measures: {a: {reeds: x}}\n")
    with pytest.raises(GtransError, match="not measures and columns"):
        read_measures(file)
