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
    translation, record = tmp_path / "t", tmp_path / "r.json"
    translation.write_text("a b c\nd\n")
    record.write_text(json.dumps({"seconds": 8, "last_seconds": 2}))
    assert read_number(Measure("speed"), Column("speed", ()), translation, record) == Reading(2.0)


def test_measures_that_are_not_there_are_refused(tmp_path: Path) -> None:
    file = tmp_path / "measures.yaml"
    file.write_text("measures: {}\ncolumns: {a: {measure: b, at: []}}\n")
    with pytest.raises(GtransError, match="column a is of no measure 'b'"):
        read_measures(file)
    file.write_text("measures: {a: {reeds: x}}\n")
    with pytest.raises(GtransError, match="not measures and columns"):
        read_measures(file)
