"""Contrastive sets that are not what they should be, by the command that reads them."""

from __future__ import annotations

import gzip
import json
from pathlib import Path

import pytest

from gtrans.cli import main
from gtrans.cli.shared.contrast_report import lines
from gtrans.evaluation.contrastive import Item, outcomes_of, read_items, tabulate

ITEM = {
    "id": "1", "phenomenon": "p", "distance": 1, "cue": "source", "source": ["a", "b"],
    "target": ["c", "d"], "contrastive": [["c", "e"]],
}  # fmt: skip


def refusal(kind: str, path: Path, capsys: pytest.CaptureFixture[str]) -> str:
    """The one line of ``gtrans contrast``, which reads the set before everything else."""
    options = ("--format", kind, "--context", "0") if kind != "jsonl" else ()
    assert main(["contrast", "--path", "none.pt", "--set", str(path), *options]) == 1
    out, err = capsys.readouterr()
    assert out == "" and err.removeprefix("gtrans: error: ").lstrip("'").startswith(str(path))
    assert err.count("\n") == 1 and err[:-1].isprintable() and len(err) < 500
    return err


@pytest.mark.parametrize("kind", ["jsonl", "contrapro"])
@pytest.mark.parametrize("text", ["[" * 100_000, '{"a": "a', '{"id": 7}', "7", "[[null]]", "{} {}"])
def test_a_set_that_is_refused(
    kind: str, text: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "set.json"
    path.write_text(f"{text}\n", encoding="utf-8")
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
