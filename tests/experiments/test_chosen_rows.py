"""Some rows of experiments, as ``gtrans reproduce --rows`` names them."""

from __future__ import annotations

from pathlib import Path

import pytest

from gtrans.errors import GtransError
from gtrans.experiments.catalogue import find, read_catalogue, with_rows
from gtrans.experiments.plan import plan
from gtrans.experiments.planned import Wish
from gtrans.experiments.scales import read_scale

OUT = Path("out")


def test_some_rows_bring_those_that_they_are_tested_against() -> None:
    (chosen,) = find(read_catalogue(), ["results-debian"])
    of_rows = with_rows([chosen], ["HAN"])[chosen.name]
    labels = [variant.label for variant in of_rows.variants]
    assert labels == ["sentence", "sentence, trained on", "HAN"]
    (figure,) = find(read_catalogue(), ["002-F10"])
    joined = next(variant for variant in figure.variants if variant.ensemble)
    kept = {variant.label for variant in with_rows([figure], [joined.label])[figure.name].variants}
    assert kept >= {joined.label, *joined.ensemble}


def test_of_several_experiments_those_with_the_rows_are_made() -> None:
    chosen = find(read_catalogue(), ["results"])
    label = "HAN"
    having = [it.name for it in chosen if label in {variant.label for variant in it.variants}]
    assert 0 < len(having) < len(chosen)
    found = with_rows(chosen, [label])
    assert list(found) == having
    assert all(label in {variant.label for variant in it.variants} for it in found.values())
    with pytest.raises(GtransError, match=f"{chosen[-1].name}: no row 'x', only 'sentence'"):
        with_rows(chosen, [label, "x"])


def test_a_plot_of_rows_that_are_left_out_is_not_drawn() -> None:
    (figure,) = find(read_catalogue(), ["000-F7"])
    scale = Wish(read_scale("tiny"), OUT, None, (), (1,))
    for tokens, drawn in ((64, False), (512, True)):
        of_rows = with_rows([figure], [f"G-Transformer, {tokens} tokens"])
        jobs, _ = plan([*of_rows.values()], scale)
        assert ("results/000-F7.losses" in jobs.by_name) == drawn
