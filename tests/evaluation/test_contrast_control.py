"""The control of contrastive scoring: random contexts, and the margin that the own one adds."""

from __future__ import annotations

import math
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.contrast_items import generated, small_item

from gtrans.errors import GtransError
from gtrans.evaluation.contrastive import (
    gained_margins,
    mean_gain,
    outcomes_of,
    random_contexts,
    tabulate,
)
from gtrans.evaluation.contrastive.control import _Donors
from gtrans.evaluation.contrastive.report import Result, lines, to_json


def test_random_contexts_come_from_other_items():
    items = generated(10, ["pronoun", "formality"])
    changed = random_contexts(items, seed=3).items
    assert changed == random_contexts(items, seed=3).items
    assert changed != random_contexts(items, seed=4).items
    contexts = {
        (item.phenomenon, item.distance, item.source[: item.context], item.target[: item.context])
        for item in items
    }
    same_length = 0
    for position, (item, new) in enumerate(zip(items, changed, strict=True)):
        twin = items[position ^ 1]
        assert (new.id, new.distance) == (item.id, item.distance)
        context = new.source[:-1], new.target[:-1]
        assert (new.phenomenon, new.distance, *context) in contexts
        assert context not in [(i.source[:-1], i.target[:-1]) for i in (item, twin)]
        assert new.source[-1] == item.source[-1]
        assert [c[-1] for c in new.candidates] == [c[-1] for c in item.candidates]
        assert {c[:-1] for c in new.candidates} == {new.target[:-1]}
        same_length += len(new.source) == len(item.source)
        alternatives = {
            len(other.source)
            for other in items
            if (other.phenomenon, other.distance) == (item.phenomenon, item.distance)
            and other not in (item, twin)
        }
        assert (len(new.source) == len(item.source)) or len(item.source) not in alternatives
    assert same_length > len(items) / 2


def test_the_random_context_of_a_pronoun_does_not_tell_it():
    """What stands behind the colon is the answer, so donors have other answers, too."""
    items = [
        small_item(
            f"{pronoun} {number}", phenomenon=f"it:{pronoun}",
            source=(f"{pronoun} {number}.", f"It {number}."),
            target=(f"{pronoun} {number}.", f"{pronoun}."),
            contrastive=((f"{pronoun} {number}.", "x."),),
        )
        for number in range(200) for pronoun in ("er", "sie")
    ]  # fmt: skip
    same = [
        item.source[0].split()[0] == new.source[0].split()[0]
        for item, new in zip(items, random_contexts(items).items, strict=True)
    ]
    assert 0.4 < sum(same) / len(items) < 0.6


def test_a_twin_gives_no_context():
    twins = generated(2, ["pronoun"])[:2]
    with pytest.raises(GtransError, match="`--random-context`: there is no other item with"):
        random_contexts(twins)
    bare = small_item(source=("A.",), target=("a.",), contrastive=(("b.",),))
    assert random_contexts([bare]).items == [bare]


def test_an_item_with_the_same_context_gives_none():
    """Another question in the same text would leave the item as it is."""

    def item(number, context):
        return small_item(
            str(number), source=(context, f"It {number}."), target=("c.", f"Er {number}."),
            contrastive=(("c.", f"Sie {number}."),),
        )  # fmt: skip

    items = [item(number, "A." if number % 5 else "B.") for number in range(10)]
    for own, new in zip(items, random_contexts(items).items, strict=True):
        assert new.source[0] != own.source[0]
    with pytest.raises(GtransError, match="no other item with another context"):
        random_contexts([item(number, "A.") for number in range(3)])


@given(st.lists(st.integers(0, 3), min_size=1, max_size=12), st.integers(0, 3), st.floats(0, 0.99))
def test_donors_are_those_with_another_context_in_their_order(
    contexts: list[int], own: int, begin: float
):
    """Those of one context are passed over at once; one by one would take N² for N items."""
    items = [
        small_item(str(number), source=(f"{context}.", "It."))
        for number, context in enumerate(contexts)
    ]
    first = int(begin * len(items))
    slow = [item for item in items[first:] + items[:first] if item.source[0] != f"{own}."]
    assert list(_Donors(items).other_than((f"{own}.",), begin)) == slow


def test_an_item_in_the_same_form_gives_the_context():
    items = [
        replace(small_item(f"{form} {number}", phenomenon=form), form=form,
                source=(f"{form} {number}.", f"It {number}."))
        for form in ("text", "tokenised") for number in range(3)
    ]  # fmt: skip
    for own, new in zip(items, random_contexts(items).items, strict=True):
        assert new.form == own.form == new.source[0].split()[0]


def test_what_a_control_lacks_is_said():
    bare = small_item("bare", source=("A.",), target=("a.",), contrastive=(("b.",),))
    alone = small_item("alone", phenomenon="formality", source=("X.", "Q."))
    others = [
        small_item(str(n), phenomenon="it:er", source=(f"C {n}.", f"It {n}.")) for n in range(3)
    ]
    assert random_contexts([bare]).notes() == [
        "`--random-context`: 1 of 1 items have no context, so their control is the item itself"
    ]
    control = random_contexts([bare, alone, *others])
    assert (control.bare, control.foreign, control.one_answer) == (1, 1, ("it",))
    assert len(control.notes()) == 3
    several = [replace(it, phenomenon=f"it:{n}") for n, it in enumerate(others)]
    assert random_contexts(several).notes() == []


def test_the_control_is_shown_next_to_the_true_context():
    table = tabulate([small_item()], outcomes_of([small_item()], [[-1, -2]]))
    control = tabulate([small_item()], outcomes_of([small_item()], [[-2, -1]]))
    first, row = lines(table, control)
    assert first.endswith("cue     random context")
    assert row.split() == ["pronoun", "1", "100.0", "20.7-100.0", "1", "source", "0.0"]
    found = to_json({"a": Result(table, control=control)}, {}, {}, [])
    assert found["random_context"]["contrastive"] == {"pronoun": {"1": 0.0}}


def test_the_margin_by_context_is_shown_where_there_are_scores():
    items = [small_item(str(number)) for number in range(3)]
    true, other = [[-1, -2], [-3, -1], [-1, -4]], [[-1, -1.5], [-3, -2], [-2, -5]]
    # The margins are 1, -2, 3 and 0.5, -1, 3.
    gains = gained_margins(items, true, other)
    assert gains == {"pronoun": {1: [(0.5, ""), (-1.0, ""), (0.0, "")]}}
    gain = mean_gain(gains["pronoun"][1])
    radius = 4.302653 * math.sqrt(7 / 36)  # Student's t; the variance of the values is 7 / 12
    assert gain.value == pytest.approx(-1 / 6)
    assert gain.items == 3
    table, control = (tabulate(items, outcomes_of(items, scores)) for scores in (true, other))
    first, row = lines(table, control, gains)
    assert first.split("random context")[1].strip() == "margin above it, nats"
    low, high = gain.interval
    assert row.endswith(f"-0.167 ({low:+.3f} to {high:+.3f})")
    assert (high - low) / 2 == pytest.approx(radius, abs=1e-5)


def test_items_that_no_context_can_move_have_no_margin():
    with_context = small_item("1")
    bare = small_item("2", source=("A.",), target=("a.",), contrastive=(("b.",),))
    lost = small_item("3")
    scores = [[-1.0, -2.0], [-1.0, -2.0], [float("nan"), -2.0]]
    items = [with_context, bare, lost]
    assert gained_margins(items, scores, scores) == {"pronoun": {1: [(0.0, "")]}}
    assert mean_gain([(0.25, "")]).interval is None
    table = tabulate(items[1:2], outcomes_of(items[1:2], scores[1:2]))
    assert lines(table, table, {})[1].endswith("-")
