"""Contrastive sets that are not what they should be, by the command that reads them."""

from __future__ import annotations

import gzip
import json
from pathlib import Path

import pytest

from gtrans.cli import main
from gtrans.cli.shared.contrast_report import lines
from gtrans.evaluation.contrastive import READERS, Item, outcomes_of, read_items, tabulate

ITEM = {
    "id": "1", "phenomenon": "p", "distance": 1, "cue": "source", "source": ["a", "b"],
    "target": ["c", "d"], "contrastive": [["c", "e"]],
}  # fmt: skip
INSTANCE = {"src": "a _eos b", "dst": ["c _eos d", "c _eos e"], "true_ind": 0, "ctx_dist": 1}
BLOCK = {"src": ["a", "b"], "trg": [{"correct": ["c", "d"], "incorrect": ["c", "e"]}]}
EXAMPLE = {
    "src segment": "a", "ref segment": "b", "src pronoun": "it", "ref pronoun": "er",
    "ante distance": 0, "errors": [{"contrastive": "c"}],
}  # fmt: skip
# By format: a text with one item, and what the file holds around and between items.
SETS = {
    "jsonl": (json.dumps(ITEM), "", "\n", ""),
    "consistency": (json.dumps(INSTANCE), "[", ",", "]"),
    "discevalmt": (json.dumps(BLOCK), '{"1": ', ', "2": ', "}"),
    "contrapro": (json.dumps(EXAMPLE), "[", ",", "]"),
    "large-pronoun": (json.dumps(EXAMPLE), "[", ",", "]"),
}
# The distance of an antecedent may be unknown.
ACCEPTED = [("distance", 7), ("ctx_dist", 7), ("ante distance", 7), ("ante distance", None)]
DEEP, LONG = "[" * 100_000, "9" * 5000
# What is put in place of the first value "a", and what the refusal says. (Python's own reader takes
# all but the nesting and the digits.)
VALUES = {
    DEEP: "more than 100 values inside each other",
    "[" * 200 + "]" * 200: "more than 100 values inside each other",
    LONG: "a number of 5000 digits",
    f"-{LONG}": "a number of 5000 digits",
    "1e999": "the number 1e999 is too large",
    "NaN": "NaN is no number",
    "-Infinity": "-Infinity is no number",
    r'"\ud800"': "half of a surrogate pair in '\\ud800'",
    r'{"\udfff": 1}': "half of a surrogate pair",
    '{"a": 1, "a": 2}': "the key 'a' occurs twice",
    '"a': "not JSON",
}


def refusal(kind: str, path: Path, capsys: pytest.CaptureFixture[str]) -> str:
    """The one line of ``gtrans contrast``, which reads the set before everything else."""
    options = ("--format", kind, "--context", "0") if kind != "jsonl" else ()
    assert main(["contrast", "--path", "none.pt", "--set", str(path), *options]) == 1
    out, err = capsys.readouterr()
    assert out == "" and err.removeprefix("gtrans: error: ").lstrip("'").startswith(str(path))
    assert err.count("\n") == 1 and err[:-1].isprintable() and len(err) < 500
    return err


@pytest.mark.parametrize("kind", SETS)
def test_json_that_is_refused(
    kind: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert set(SETS) == set(READERS) - {"contracat", "discourse-zhen"}  # these are text
    item, opening, _, closing = SETS[kind]
    path = tmp_path / "set.json"
    for value, message in VALUES.items():
        changed = item.replace('"a"', value, 1) if '"a"' in item else f'{{"x": {value}}}'
        path.write_text(f"{opening}{changed}{closing}\n", encoding="utf-8")
        assert message in refusal(kind, path, capsys)


@pytest.mark.parametrize("kind", SETS)
def test_more_than_one_value(
    kind: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    item, opening, between, closing = SETS[kind]
    whole = f"{opening}{item}{closing}"
    path = tmp_path / "set.json"
    for content in (whole * 2, f"{whole}]", f"{whole} x"):
        path.write_text(f"{content}\n", encoding="utf-8")
        assert "something follows" in refusal(kind, path, capsys)
    if kind != "jsonl":
        for content in (f"{opening}{item}{between}{closing}", f"{opening}{item}", opening):
            path.write_text(f"{content}\n", encoding="utf-8")
            assert "not JSON" in refusal(kind, path, capsys)


def test_a_key_of_the_file_that_occurs_twice(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "set.json"
    path.write_text(f'{{"1": {json.dumps(BLOCK)},\n"1": {json.dumps(BLOCK)}}}', encoding="utf-8")
    assert ":2: not JSON (the key '1' occurs twice)" in refusal("discevalmt", path, capsys)


@pytest.mark.parametrize("kind", SETS)
def test_values_of_a_wrong_type(
    kind: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """In every place of an item."""
    item, opening, _, closing = SETS[kind]
    path = tmp_path / "set.json"
    for key in json.loads(item):
        for value in (None, True, 7, -1.5, "", [], {}, [None], [[7]], [{}], {"x": []}):
            changed = {**json.loads(item), key: value}
            path.write_text(f"{opening}{json.dumps(changed)}{closing}\n", encoding="utf-8")
            if kind == "consistency" and key == "true_ind" and value == 7:
                assert "'true_ind' is 7" in refusal(kind, path, capsys)
            elif (key, value) not in ACCEPTED:
                refusal(kind, path, capsys)
    for value in (None, 7, "text", [], [item]):
        path.write_text(f"{opening}{json.dumps(value)}{closing}\n", encoding="utf-8")
        refusal(kind, path, capsys)


def test_labels_do_not_reach_the_terminal_raw(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    label = "\x1b[2J\x9b31m\u202egnp.\n\u2028x"
    path = tmp_path / "set.jsonl"
    path.write_text(json.dumps({**ITEM, "phenomenon": label, "cue": label}), encoding="utf-8")
    (item,) = read_items(path)
    assert isinstance(item, Item) and item.phenomenon == label
    heading, row = lines(tabulate([item], outcomes_of([item], [[1.0, 0.0]])), None)
    escaped = r"\u001b[2J\u009b31m\u202egnp.\u000a\u2028x"
    assert row.startswith(f"{escaped}  ") and row.endswith(escaped)
    assert heading.index("distance") > row.index("x")
    path.write_text(json.dumps({**ITEM, "form": label}), encoding="utf-8")
    assert "'form' must be one of" in refusal("jsonl", path, capsys)
    path.write_text(json.dumps({**ITEM, "id": label}) + "\n" + json.dumps({**ITEM, "id": label}))
    refusal("jsonl", path, capsys)
    hostile = tmp_path / "\x1b[31m\udcff.jsonl"
    assert main(["contrast", "--path", "none.pt", "--set", str(hostile)]) == 1
    assert r"\u001b[31m\udcff.jsonl" in capsys.readouterr().err


def test_an_item_that_is_given_twice(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """It would count twice; neither its id, the name of the set, nor gzip makes it another one."""
    first, other, packed, longer = (
        tmp_path / name for name in ("a.jsonl", "b.jsonl", "c.jsonl.gz", "d.jsonl")
    )
    changed = {**ITEM, "id": "2", "source": ["a", "c"]}
    first.write_text(json.dumps(ITEM), encoding="utf-8")
    other.write_text(json.dumps(changed), encoding="utf-8")
    packed.write_bytes(gzip.compress(first.read_bytes()))
    longer.write_text(
        json.dumps({**changed, "source": ["d", "d"]}) + "\n" + json.dumps({**ITEM, "id": "9"}),
        encoding="utf-8",
    )
    for again, name in ((first, "1"), (packed, "1"), (longer, "9")):
        sets = ["--set", str(first), str(other), str(again)]
        assert main(["contrast", "--path", "no.pt", "--data", "no", *sets]) == 1
        error = capsys.readouterr().err
        assert error == (
            f"gtrans: error: `--set`: item '{name}' of {again} is also in {first}, as '1', and "
            "would count twice; give each item once.\n"
        )


def test_a_folder_says_what_to_give(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["contrast", "--path", "no.pt", "--set", str(tmp_path)]) == 1
    said = capsys.readouterr().err
    assert said == (
        f"gtrans: error: '{tmp_path}' is a folder; name its files (`--set {tmp_path}/*.jsonl`), or "
        "the `--format` of a published set that is a folder.\n"
    )
