"""The general format of contrastive sets, and what the tables make of items."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from gtrans.errors import GtransError
from gtrans.evaluation.contrastive import by_group, read_items


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
    line = {
        "id": "1", "phenomenon": "p", "distance": 1, "cue": "source", "form": "tokenised",
        "source": ["You came .", "You left ."], "target": ["Ты пришла .", "Ты ушла ."],
        "contrastive": [["Ты пришла .", "Вы ушли ."], ["Вы .", "Ты ушла ."]],
    }  # fmt: skip
    path = tmp_path / "set.jsonl"
    path.write_text(json.dumps(line), encoding="utf-8")
    (item,) = read_items(path)
    found = item.as_text((lambda text: text.replace(" .", "."), lambda text: text.upper()))
    assert (found.form, found.source) == ("text", ("You came.", "You left."))
    assert found.target == ("ТЫ ПРИШЛА .", "ТЫ УШЛА .")
    assert found.contrastive[1] == ("ВЫ .", "ТЫ УШЛА .")
    assert found.as_text((str.lower, str.lower)) == found
