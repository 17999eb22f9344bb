"""Several training sets in one epoch, by weight (``--mix``)."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from omegaconf import OmegaConf
from support.runs import refusal, train
from support.tiny_models import StockCommands, TinyWorld

from gtrans.data.units import ALL_UNITS, SentenceUnit, Unit, Units
from gtrans.errors import GtransError
from gtrans.tasks.options import DocumentTranslationConfig, read_everything
from gtrans.tasks.splits import Part, mixed


def part(words: list[int], unit: Unit) -> Part:
    """A training set of lines with so many words; 0: an empty line."""
    lines = [None] * len(words)
    side = type("Side", (list,), {"sizes": np.array(words) + 1})(lines)
    return Part("x", side, side, None, unit, ALL_UNITS)


def spans(units: Units) -> list[range]:
    return [range(*lines[3]) for lines in units.lines.tolist()]


@given(
    st.lists(st.lists(st.integers(0, 6), min_size=1, max_size=20), min_size=2, max_size=3),
    st.lists(st.sampled_from([0.25, 0.5, 1.0, 1.6, 3.0]), min_size=3, max_size=3),
    st.integers(1, 5),
)
def test_every_folder_is_read_as_often_as_its_weight_says(
    texts: list[list[int]], weights: list[float], epoch: int
) -> None:
    texts = [[*text, 3, 3, 3, 3] for text in texts]  # a quarter is a unit at least
    parts = [part(text, SentenceUnit()) for text in texts]
    units = mixed(parts, weights[: len(texts)], 7, epoch)
    read = Counter(line for span in spans(units) for line in span)
    first = sentences = 0
    for text, weight in zip(texts, weights, strict=False):
        lines = [first + n for n, words in enumerate(text) if words]
        assert {read[line] for line in lines} <= {int(weight), int(np.ceil(weight))}
        assert abs(sum(read[line] for line in lines) - weight * len(lines)) < 1
        # A sentence has its number in the joined corpus.
        numbers = dict(zip(lines, range(sentences, sentences + len(lines)), strict=True))
        for number, span in enumerate(spans(units)):
            if span.start in numbers:
                assert units.first_sentence[number] == numbers[span.start]
        first, sentences = first + len(text), sentences + len(lines)
    assert read.keys() <= {n for n, words in enumerate(w for text in texts for w in text) if words}


def test_every_epoch_draws_anew_and_the_same_epoch_the_same() -> None:
    parts = [part([3] * 40, SentenceUnit()), part([3] * 40, SentenceUnit())]

    def drawn_in(epoch: int, seed: int = 1) -> list[int]:
        return [it.start for it in spans(mixed(parts, [1, 0.25], seed, epoch))]

    drawn = [drawn_in(epoch) for epoch in range(1, 40)]
    assert all(lines[:40] == list(range(40)) and len(lines) == 50 for lines in drawn)
    assert {line for lines in drawn for line in lines} == set(range(80))
    assert drawn_in(9) == drawn[8] != drawn_in(9, seed=2)


def test_small_weights_are_right_over_many_epochs() -> None:
    parts = [part([3] * 10, SentenceUnit()), part([3] * 100, SentenceUnit())]
    read = [len(mixed(parts, [1, 0.004], 1, epoch)) - 10 for epoch in range(1, 301)]
    assert set(read) == {0, 1} and 90 <= sum(read) <= 150
    with pytest.raises(GtransError, match="`--mix 0.05:0.004`: of 10 and 100 units an epoch would"):
        mixed(parts, [0.05, 0.004], 1, 1)


@pytest.mark.parametrize(
    ("folders", "options", "message"),
    [
        (2, ["--mix", "1"], "`--mix 1` has 1 weights for 2 data folders"),
        (1, ["--mix", "1"], "`--mix 1` has 1 weights for 1 data folders"),
        (2, ["--mix", "1:0"], "`--mix 1:0`: must be above 0, but is 0.0."),
        (2, ["--mix", "1:many"], "`--mix 1:many`: 'many' is no number."),
        (2, ["--mix", "1:1", "--arch", "memory_transformer_tiny", "--unit", "stream"],
         "is not for the unit stream"),
    ],
)  # fmt: skip
def test_a_mistake_is_one_line(
    folders: int, options: list[str], message: str, tiny: TinyWorld, stock: StockCommands,
    tmp_path: Path,
) -> None:  # fmt: skip
    data = Path(":".join([str(tiny.data)] * folders))
    done = train(stock, data, tmp_path / "run", *options, updates=1)
    assert message in refusal(done)


def test_other_commands_forget_the_weights() -> None:
    """A model that was trained on a mixture translates with one folder."""
    cfg = OmegaConf.structured(DocumentTranslationConfig(mix="1:2"))
    read_everything(cfg)
    assert cfg.mix is None
