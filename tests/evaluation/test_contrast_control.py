"""The control of contrastive scoring: shuffled contexts, and the margin that the own one adds."""

from __future__ import annotations

import math

import pytest
from support.contrast_items import generated, small_item

from gtrans.errors import GtransError
from gtrans.evaluation.contrastive.accuracy import Gain, gained_margins, is_right, tabulate
from gtrans.evaluation.contrastive.control import shuffled_contexts
from gtrans.evaluation.contrastive.report import SystemResult, lines_of, to_json


def test_random_contexts_come_from_other_items():
    items = generated(10, ["pronoun", "formality"])
    changed = shuffled_contexts(items, seed=3)[0]
    assert changed == shuffled_contexts(items, seed=3)[0]
    assert changed != shuffled_contexts(items, seed=4)[0]
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
        for item, new in zip(items, shuffled_contexts(items)[0], strict=True)
    ]
    assert 0.4 < sum(same) / len(items) < 0.6


def test_a_twin_gives_no_context():
    twins = generated(2, ["pronoun"])[:2]
    with pytest.raises(GtransError, match="`--shuffled-context`: there is no other item with"):
        shuffled_contexts(twins)
    bare = small_item(source=("A.",), target=("a.",), contrastive=(("b.",),))
    assert shuffled_contexts([bare])[0] == [bare]


def test_an_item_with_the_same_context_or_in_another_form_gives_none():
    """Another question in the same text would leave the item as it is."""
    items = [
        small_item(
            str(number), form=form, source=("B." if number % 5 else "A.", f"It {number}."),
            target=(form, f"Er {number}."), contrastive=((form, f"Sie {number}."),),
        )
        for form in ("text", "tokenised") for number in range(10)
    ]  # fmt: skip
    for own, new in zip(items, shuffled_contexts(items)[0], strict=True):
        assert new.source[0] != own.source[0] and new.target[0] == own.form
    with pytest.raises(GtransError, match="no other item with another context"):
        shuffled_contexts([item for item in items if item.source[0] == "A."])


def test_what_a_control_lacks_is_said():
    bare = small_item("bare", source=("A.",), target=("a.",), contrastive=(("b.",),))
    alone = small_item("alone", phenomenon="formality", source=("X.", "Q."))
    others = [
        small_item(str(n), phenomenon="it:er", source=(f"C {n}.", f"It {n}.")) for n in range(3)
    ]
    of = "`--shuffled-context`: 1 of"
    assert shuffled_contexts([bare])[1] == [
        f"{of} 1 items have no context, so their control is the item itself"
    ]
    assert shuffled_contexts([bare, alone, *others])[1] == [
        f"{of} 5 items have no context, so their control is the item itself",
        f"{of} 5 items have the context of another phenomenon: theirs has no other",
    ]
    assert shuffled_contexts(others)[1] == []


def test_the_control_and_the_margin_are_shown_next_to_the_true_context():
    items = [small_item(str(number)) for number in range(3)]
    true, other = [[-1, -2], [-3, -1], [-1, -4]], [[-1, -1.5], [-3, -2], [-2, -5]]
    # The margins are 1, -2, 3 and 0.5, -1, 3.
    gained = gained_margins(items, true, other)
    assert gained == [0.5, -1.0, 0.0]
    gains = tabulate(items, gained, Gain)
    gain = gains["pronoun", "1"]
    radius = 4.302653 * math.sqrt(7 / 36)  # Student's t; the variance of the values is 7 / 12
    assert (gain.mean, gain.items) == (pytest.approx(-1 / 6), 3)
    low, high = gain.interval
    assert (high - low) / 2 == pytest.approx(radius, abs=1e-5)
    right, control = ([*map(is_right, items, scores)] for scores in (true, other))
    result = SystemResult(items, right, control=control, gains=gained)
    first, row = lines_of(result)
    assert first.split("cue")[1].split() == [
        "shuffled",
        "context",
        "margin",
        "above",
        "it,",
        "nats",
    ]
    assert row.split()[6:8] == ["66.7", "-0.167"]
    assert row.endswith(f"-0.167 ({low:+.3f} to {high:+.3f})")
    found = to_json({"a": result})
    assert found["shuffled_context"]["contrastive"] == {"pronoun": {"1": pytest.approx(2 / 3)}}
    assert found["above_shuffled_context"]["all"]["items"] == 3


def test_items_that_no_context_can_move_have_no_margin():
    bare = small_item("2", source=("A.",), target=("a.",), contrastive=(("b.",),))
    items = [small_item("1"), bare, small_item("3")]
    scores = [[-1.0, -2.0], [-1.0, -2.0], [float("nan"), -2.0]]
    assert gained_margins(items, scores, scores) == [0.0, None, None]
    assert Gain((0.25,), ("",)).interval is None
    result = SystemResult([bare], [True], control=[True], gains=[None])
    assert lines_of(result)[1].endswith("-")
