"""Contrastive sets in their published formats: small files by hand, and mistakes.

The pronoun sets are in test_contrast_pronouns.py, ContraCAT in test_contrast_templates.py.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from gtrans.errors import GtransError
from gtrans.evaluation.contrastive import (
    Item,
    by_distance,
    by_group,
    outcomes_of,
    pooled,
    read_items,
    tabulate,
)

# --- consistency --------------------------------------------------------------------------------

CONSISTENT = {
    "src": "You came . _eos You left .",
    "dst": ["Ты пришла . _eos Вы ушли .", "Ты пришла . _eos Ты ушла .", "Вы . _eos Ты ушла ."],
    "true_ind": 1,
    "ctx_dist": 1,
}


def consistency(folder: Path, *entries: Any, name: str = "deixis_test.json") -> Path:
    path = folder / name
    path.write_text(json.dumps(list(entries), indent=1), encoding="utf-8")
    return path


def test_consistency_as_published(tmp_path: Path) -> None:
    path = consistency(tmp_path, CONSISTENT, {**CONSISTENT, "ctx_dist": 3})
    first, second = read_items(path, "consistency")
    assert first == Item(
        id="deixis_test-1",
        phenomenon="deixis_test",
        distance=1,
        cue="target",
        source=("You came .", "You left ."),
        target=("Ты пришла .", "Ты ушла ."),
        contrastive=(("Ты пришла .", "Вы ушли ."), ("Вы .", "Ты ушла .")),
        form="tokenised",
        right_index=1,
    )
    assert (second.id, second.distance) == ("deixis_test-2", 3)
    infl = read_items(consistency(tmp_path, CONSISTENT, name="ellipsis_infl.json"), "consistency")
    assert (infl[0].phenomenon, infl[0].cue) == ("ellipsis_infl", "source")


def test_only_the_best_of_a_group_counts(tmp_path: Path) -> None:
    items = read_items(consistency(tmp_path, *[CONSISTENT] * 3), "consistency")
    scores = [[-1.0, -2.0, -3.0], [-2.0, -3.0, -1.0], [-1.0, -1.0, -2.0]]
    assert tabulate(items, outcomes_of(items, scores))["deixis_test"][1].right == 1


def test_the_right_candidate_listed_twice_does_not_beat_itself(tmp_path: Path) -> None:
    right = CONSISTENT["dst"][1]
    twice = {**CONSISTENT, "dst": [*CONSISTENT["dst"], right]}
    (item,) = read_items(consistency(tmp_path, twice), "consistency")
    assert len(item.candidates) == 4
    assert tabulate([item], outcomes_of([item], [[-1, -2, -3, -1]]))["deixis_test"][1].right == 1
    assert tabulate([item], outcomes_of([item], [[-1, -0.5, -3, -1]]))["deixis_test"][1].right == 0


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"src": None}, "'src' must be a text that is not empty, but is null."),
        ({"src": "You . _eos "}, "'src' has a sentence that is empty"),
        ({"dst": ["a _eos b"]}, "'dst' must be a list of at least two candidates."),
        ({"dst": ["a _eos b", "a"]}, "a candidate of 'dst' has 1 sentences, but 'src' has 2."),
        ({"true_ind": 3}, "'true_ind' is 3, but 'dst' has 3 candidates."),
        ({"true_ind": True}, "'true_ind' must be a whole number, but is true."),
        ({"ctx_dist": -1}, "'ctx_dist' must be at least 0, but is -1."),
    ],
)
def test_a_bad_instance_is_named(changes: dict[str, Any], message: str, tmp_path: Path) -> None:
    path = consistency(tmp_path, CONSISTENT, {**CONSISTENT, **changes})
    line = path.read_text().splitlines().index(" {", 2) + 1
    with pytest.raises(GtransError) as error:
        read_items(path, "consistency")
    assert str(error.value).startswith(f"{path}:{line}: instance 2: {message}")


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("[]", "'{}' holds no contrastive item."),
        ("3", "{}: must hold a JSON array or object."),
        ("[\n{}\n{}]", "{}:2: instance 1: 'src' must be a text"),
        ('[\n{"a": 1}x]', "{}:2: instance 1: 'src'"),
        ("[\n{", "{}:2: not JSON"),
        ('{"1"\n 2}', "{}:2: not JSON (Expecting ':' after a key)."),
    ],
)
def test_broken_json_is_named_by_line(content: str, message: str, tmp_path: Path) -> None:
    path = tmp_path / "set.json"
    path.write_text(content, encoding="utf-8")
    with pytest.raises(GtransError) as error:
        read_items(path, "consistency")
    assert str(error.value).startswith(message.replace("{}", str(path), 1))


# --- Bawden et al. -------------------------------------------------------------


def test_anaphora(tmp_path: Path) -> None:
    pair = {"incorrect": ["La maison.", "Il est neuf."], "type": "f.sg"}
    right = ["La maison.", "Elle est neuve."]
    block = {
        "inspired by": ["x", "y"],
        "src": ["The house.", "It is new."],
        "trg": [{"correct": right, **pair}, {"semi-correct": right, **pair}],
    }
    path = tmp_path / "anaphora.json"
    path.write_text(json.dumps({"7": block}, indent=2), encoding="utf-8")
    first, second = read_items(path, "discevalmt")
    assert first == Item(
        id="7.1",
        phenomenon="anaphora",
        distance=1,
        cue="target",
        source=("The house.", "It is new."),
        target=tuple(right),
        contrastive=(("La maison.", "Il est neuf."),),
        groups={"set": "anaphora", "form": "f.sg."},
        block="anaphora 7",
    )
    assert (second.id, second.phenomenon) == ("7.2", "anaphora, semi-correct")


def test_lexical_choice(tmp_path: Path) -> None:
    example = {
        "src": ["What's crazy?", "Is this crazy?"],
        "trg": {"correct": ["Dingue ?", "Ça dingue ?"], "incorrect": ["Dingue ?", "Ça fou ?"]},
    }
    blocks = {
        str(number): {"type": kind, "examples": [example]}
        for number, kind in enumerate(("repet", "disambig", "repet, disambig"), start=1)
    }
    path = tmp_path / "lexical-choice.json"
    path.write_text(json.dumps(blocks), encoding="utf-8")
    items = read_items(path, "discevalmt")
    assert [(item.id, item.phenomenon, item.cue) for item in items] == [
        ("1.1", "lexical choice, repet", "target"),
        ("2.1", "lexical choice, disambig", "source"),
        ("3.1", "lexical choice, repet, disambig", "source/target"),
    ]
    table = tabulate(items, outcomes_of(items, [[-1.0, -2.0], [-1.0, -2.0], [-2.0, -1.0]]))
    assert pooled(by_distance(table).values()).cue == "source/target"


def test_totals_of_the_two_sets(tmp_path: Path) -> None:
    """Each has its own, and its own whole blocks."""
    right, wrong = ["La maison.", "Elle est neuve."], ["La maison.", "Il est neuf."]
    pairs = [{key: right, "incorrect": wrong} for key in ("correct", "semi-correct")]
    source = ["The house.", "It is new."]
    example = {"src": source, "trg": {"correct": right, "incorrect": wrong}}
    files = {
        "anaphora": {"1": {"src": source, "trg": pairs}, "2": {"src": source, "trg": pairs}},
        "lexical-choice": {"1": {"type": "repet", "examples": [example]}},
    }
    items = []
    for name, blocks in files.items():
        (tmp_path / f"{name}.json").write_text(json.dumps(blocks), encoding="utf-8")
        items += read_items(tmp_path / f"{name}.json", "discevalmt")
    found = by_group(items, [True, True, False, True, True])
    for name, whole in (("set", [(3, 4), (1, 1)]), ("whole blocks", [(1, 2), (1, 1)])):
        counts = {value: (cell.right, cell.items) for value, cell in found[name].items()}
        assert counts == dict(zip(("anaphora", "lexical choice"), whole, strict=True))


def test_the_text_form(tmp_path: Path) -> None:
    """Two lines for each pair, as the script of the authors writes them."""
    for name, lines in {
        "prev.en": ["The house."] * 4,
        "current.en": ["It is new."] * 4,
        "prev.fr": ["La maison.", "La maison.", "Le bureau.", "Le bureau."],
        "current.fr": ["Elle est neuve.", "Il est neuf.", "Il est neuf.", "Elle est neuve."],
    }.items():
        for stem in ("anaphora", "lexical_choice"):
            (tmp_path / f"{stem}.{name}").write_text("\n".join(lines) + "\n", encoding="utf-8")
    first, second = read_items(tmp_path / "anaphora.current.en", "discevalmt")
    assert first == Item(
        id="1.1",
        phenomenon="anaphora",
        distance=1,
        cue="target",
        source=("The house.", "It is new."),
        target=("La maison.", "Elle est neuve."),
        contrastive=(("La maison.", "Il est neuf."),),
        groups={"set": "anaphora", "form": "f.sg."},
        block="anaphora 1",
    )
    assert (second.target, second.groups["form"]) == (("Le bureau.", "Il est neuf."), "m.sg.")
    (choice, _) = read_items(tmp_path / "lexical_choice.current.fr", "discevalmt")
    assert (choice.phenomenon, choice.block) == ("lexical choice", "lexical choice 1")
    (tmp_path / "anaphora.prev.en").write_text("The house.\nA.\nA.\nA.\n", encoding="utf-8")
    with pytest.raises(GtransError, match="current.en:1: must have the same sentences as the next"):
        read_items(tmp_path / "anaphora.current.en", "discevalmt")
    with pytest.raises(GtransError, match="must be named anaphora or lexical_choice.current.en"):
        read_items(tmp_path / "other.current.en", "discevalmt")


@pytest.mark.parametrize("changes", [{"phenomenon": "all"}, {"groups": {"whole blocks": "x"}}])
def test_names_that_the_tables_need(changes: dict[str, Any], tmp_path: Path) -> None:
    """They would take the place of the totals."""
    line = {
        "id": "1", "phenomenon": "p", "distance": 0, "cue": "source", "source": ["a"],
        "target": ["b"], "contrastive": [["c"]], **changes,
    }  # fmt: skip
    path = tmp_path / "set.jsonl"
    path.write_text(json.dumps(line), encoding="utf-8")
    with pytest.raises(GtransError, match="item '1' has the .* which names a line of the tables"):
        read_items(path)


@pytest.mark.parametrize(
    ("block", "message"),
    [
        ([], "a block must be a JSON object."),
        ({"src": ["a", "b"]}, "'trg' must be a list of JSON objects."),
        ({"src": ["a", "b"], "trg": [{"correct": ["a", "b"]}]}, "'incorrect' must be a list of"),
        (
            {"src": ["a"], "trg": [{"correct": ["a", "b"], "incorrect": ["a", "c"]}]},
            "must have the same number of sentences.",
        ),
        ({"examples": [{"src": ["a", "b"], "trg": []}]}, "'trg' of an example must be"),
    ],
)
def test_a_bad_block_is_named(block: Any, message: str, tmp_path: Path) -> None:
    path = tmp_path / "set.json"
    path.write_text(json.dumps({"5": block}), encoding="utf-8")
    with pytest.raises(GtransError) as error:
        read_items(path, "discevalmt")
    assert str(error.value).startswith(f"{path}:1: instance 5: ")
    assert message in str(error.value)


# --- all formats --------------------------------------------------------------------------------


def test_the_form_of_a_json_line(tmp_path: Path) -> None:
    line = {
        "id": "1", "phenomenon": "p", "distance": 0, "cue": "source", "form": "tokenised",
        "source": ["a ."], "target": ["b ."], "contrastive": [["c ."]],
    }  # fmt: skip
    path = tmp_path / "set.jsonl"
    path.write_text(json.dumps(line), encoding="utf-8")
    assert read_items(path)[0].form == "tokenised"
    path.write_text(json.dumps({**line, "form": "loud"}), encoding="utf-8")
    with pytest.raises(GtransError, match="'form' must be one of text, tokenised, truecased"):
        read_items(path)


def test_groups_and_blocks(tmp_path: Path) -> None:
    """Accuracy by group, and of blocks whose items are all right."""
    line = {
        "phenomenon": "p", "distance": 0, "cue": "source", "source": ["a"], "target": ["b"],
        "contrastive": [["c"], ["d"]],
    }  # fmt: skip
    path = tmp_path / "set.jsonl"
    groups = [("f", "1"), ("m", "1"), ("m", "2"), ("m", "2")]
    path.write_text(
        "\n".join(
            json.dumps({**line, "id": str(n), "groups": {"gender": gender}, "block": block})
            for n, (gender, block) in enumerate(groups)
        ),
        encoding="utf-8",
    )
    found = by_group(read_items(path), [True, True, True, False])
    genders = {value: (cell.right, cell.items) for value, cell in found["gender"].items()}
    assert genders == {"f": (1, 1), "m": (2, 3)}
    blocks = found["whole blocks"]["all"]
    assert (blocks.right, blocks.items, blocks.chance) == (1, 2, pytest.approx(1 / 9))


def test_models_read_plain_text(tmp_path: Path) -> None:
    (item,) = read_items(consistency(tmp_path, CONSISTENT), "consistency")
    found = item.as_text((lambda text: text.replace(" .", "."), lambda text: text.upper()))
    assert (found.form, found.source) == ("text", ("You came.", "You left."))
    assert found.target == ("ТЫ ПРИШЛА .", "ТЫ УШЛА .")
    assert found.contrastive[1] == ("ВЫ .", "ТЫ УШЛА .")
    assert found.as_text((str.lower, str.lower)) == found
