"""Document models where a context does not help, over three seeds."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from gtrans.cli import main

LONGER_CHUNKS = ("twice as long", "four times as long")
WAYS = ("single sentences", "shuffled context")
MARGIN = 0.2  # chrF2
TEST = "p of non-inferiority (margin 0.2 chrF2)"

# All ways in which `results-limits` reads a system, besides that of training.
SYSTEMS = {
    "G-Transformer, gate bias 10": (*WAYS, *LONGER_CHUNKS),
    "G-Transformer, gate bias 3": (*WAYS, *LONGER_CHUNKS),
    "G-Transformer with memory": (*WAYS, *LONGER_CHUNKS),
    "G-Transformer with fusion": (*WAYS, *LONGER_CHUNKS),
    "G-Transformer": (*WAYS, *LONGER_CHUNKS),
    "recurrent memory": WAYS,
    "concatenation 2-to-2": WAYS,
    "Flat-Transformer": WAYS,
    "HAN": WAYS,
    "BERT context": WAYS,
    "BERT context, whitened": WAYS,
    "document-aware Transformer": WAYS,
    "GTRANS fusion": (),
}
# Shown to lose more than the margin, and near it: with
# models of another processor the test may show a loss of the latter, too.
SHOWN = {
    "BERT context",
    *(f"BERT context, {way}" for way in WAYS),
    "GTRANS fusion",
    "recurrent memory, shuffled context",
}
NEAR = {
    "G-Transformer",
    *(f"G-Transformer, {way}" for way in (*WAYS, *LONGER_CHUNKS)),
    "concatenation 2-to-2, shuffled context",
}
FLOOR = 1.5  # chrF2; what none of these loses
# The mean over seeds is not below the margin either. The 95% interval of a seed is two points wide
# on either side, so this is asked only where it does not hang on the last digits: not of single
# sentences where the corpus, which is made so that a context helps, has taught to use one.
LEVEL = {
    "G-Transformer, gate bias 10": (*WAYS, *LONGER_CHUNKS),
    "G-Transformer, gate bias 3": ("shuffled context", *LONGER_CHUNKS),
    "G-Transformer with memory": ("shuffled context", *LONGER_CHUNKS),
    "concatenation 2-to-2": (),
    "Flat-Transformer": (),
    "HAN": (),
    "BERT context, whitened": (),
    "document-aware Transformer": (),
}


def rows_of(system: str, ways: tuple[str, ...]) -> list[str]:
    return [system, *(f"{system}, {way}" for way in ways)]


def shown_worse(cells: dict[str, Any]) -> bool:
    """Whether the seeds together show a loss of more than the margin (Stouffer, p < 0.05).

    Their p are of the same 9 documents, which can be swapped in 512 ways; none says more.
    """
    from scipy.stats import combine_pvalues

    of_seeds = [min(max(it["value"], 1 / 513), 512 / 513) for it in cells[TEST]["seeds"]]
    return float(combine_pvalues(of_seeds, method="stouffer").pvalue) > 0.95


def check(table: dict[str, Any], system: str) -> dict[str, dict[str, Any]]:
    labels = rows_of(system, SYSTEMS[system])
    found = {row["label"]: row["cells"] for row in table["rows"] if row["label"] in labels}
    assert found.keys() == set(labels)
    for label, cells in found.items():
        assert len(cells["chrF2"]["seeds"]) == len(cells[TEST]["seeds"]) == 3, label
        assert label in SHOWN | NEAR or not shown_worse(cells), label
        assert cells["chrF2"]["difference"]["mean"] > -FLOOR, label
    for label in rows_of(system, LEVEL[system]) if system in LEVEL else []:
        assert found[label]["chrF2"]["difference"]["mean"] > -MARGIN, label
    return found


@pytest.fixture(scope="module")
def out(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """One folder for all systems, which start from the same sentence models."""
    return tmp_path_factory.mktemp("limits")


@pytest.mark.long
@pytest.mark.parametrize("system", SYSTEMS)
def test_no_system_loses_more_than_it_may(system: str, out: Path) -> None:
    """By the same test over seeds, with and without its context."""
    rows = rows_of(system, SYSTEMS[system])
    words = ["reproduce", "results-limits", "--scale", "tiny", "--out", str(out)]
    assert main([*words, "--rows", *rows]) == 0
    check(json.loads((out / "tiny" / "results-limits.json").read_text()), system)
