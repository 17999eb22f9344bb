"""The list of the papers' tables and figures."""

from __future__ import annotations

import json
import subprocess
from collections import Counter
from pathlib import Path
from typing import Any

import pytest
import yaml

from gtrans.cli import main
from gtrans.errors import GtransError
from gtrans.experiments.catalogue import find, read_catalogue

NAMES = [
    *(f"000-T{n}" for n in range(1, 8)), *(f"000-F{n}" for n in (2, 3, 4, 5, 7, 8)),
    *(f"001-T{n}" for n in (1, 2, 3)), *(f"001-F{n}" for n in range(2, 9)),
    *(f"002-T{n}" for n in range(1, 9)), *(f"002-F{n}" for n in range(3, 13)),
    "003-T4.1", *(f"003-T5.{n}" for n in range(1, 8)),
    *(f"004-T{n}" for n in (1, 2, 3)),
]  # fmt: skip
OWN = [
    f"results-{name}"
    for name in (
        *("debian", "story", "limits", "pronouns", "rates", "chosen-rates", "starts"),
        *("over-training", "english-german", "subtitles"),
    )
]


def test_every_table_and_figure_is_there_once() -> None:
    assert [e.name for e in read_catalogue()][-len(OWN) :] == OWN
    assert Counter(e.name for e in read_catalogue()) == Counter([*NAMES, *OWN])


def test_a_line_each(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["reproduce", "--list"]) == 0
    lines = capsys.readouterr().out.splitlines()
    names = [line.split()[0] for line in lines if line.startswith(" ")]
    assert Counter(names) == Counter([*NAMES, *OWN])
    # The project's own stand apart, below a heading of theirs.
    assert lines[-len(OWN) - 1].startswith("results  ")
    (not_free,) = [line for line in lines if line.endswith("(not free)")]
    assert not_free.split()[0] == "002-T1"


def test_one_is_described_with_its_numbers(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["reproduce", "--list", "000-t3"]) == 0
    text = " ".join(capsys.readouterr().out.split())
    for part in ("25.12 25.52 32.39", "run-finetune.sh -- --decoder-global-layers 0", "RTX 2080"):
        assert part in text
    assert main(["reproduce", "--list", "004", "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert [entry["name"] for entry in found] == ["004-T1", "004-T2", "004-T3"]
    assert found[0]["paper"]["id"] == "004"


def test_an_unknown_name_is_one_line(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["reproduce", "--list", "000-T99"]) == 1
    error = capsys.readouterr().err
    assert error.count("\n") == 1 and "there is no experiment '000-T99'" in error


PREFIXES = ("--train-prefix", "train", "--valid-prefix", "valid", "--test-prefix", "test")
NEEDED = {"mbart": ("--mbart", "mbart"), "bert": ("--bert", "bert")}
OF_FUSION = {
    "iwslt14-deen": "iwslt14", "wmt14-ende": "wmt14", "ldc-zhen": "ldc",
    "iwslt17-multi": "iwslt17-multi", "opus-100": "opus100",
}  # fmt: skip


@pytest.mark.long
def test_the_recipe_of_every_row_takes_its_options(repo: Path, tmp_path: Path) -> None:
    """But for the rows whose note says what is missing."""
    calls = {
        (variant.recipe, experiment.corpora[:1], *" ".join(variant.options).split())
        for experiment in read_catalogue()
        for variant in experiment.variants
        if variant.recipe != "none" and "issing" not in variant.note
    }
    assert len(calls) > 50
    for recipe, corpora, *words in sorted(calls):
        of_fusion = recipe in ("fusion", "multilingual")
        corpus = ["--corpus", *map(OF_FUSION.__getitem__, corpora)] if of_fusion else []
        script = repo / "exp_gtransformer" / f"run-{recipe}.sh"
        given = [*PREFIXES, *corpus, *NEEDED.get(recipe, ())]
        given += ["--bert", "bert"] if {"context", "whitened"} & {*words} else []
        given += ["--prepared", "p", "--langs", "en,de"] if recipe == "multilingual" else []
        given += ["--name", "row"] if "--" in words else []
        done = subprocess.run(
            [script, "--dry-run", "--out", tmp_path / "out", *given, *words],
            capture_output=True, text=True, check=False,
        )  # fmt: skip
        assert done.returncode == 0, (recipe, words, done.stderr)


def content() -> dict[str, Any]:
    """A file with one experiment."""
    variant = {"label": "a", "recipe": "flat", "options": [], "baseline": "", "note": ""}
    return {
        "paper": {"id": "009", "title": "t", "authors": "a", "year": 2021, "venue": "v"},
        "experiments": [{
            "name": "009-T1", "kind": "table", "title": "t", "section": "1", "shows": "s",
            "corpora": [], "needs": [], "free": True, "not_free": "",
            "paper_says": {"columns": ["BLEU"], "rows": [{"label": "a", "values": [1.5]}]},
            "contradictions": [], "variants": [variant],
            "scales": {"tiny": "", "small": "", "paper": "p"},
        }],
    }  # fmt: skip


@pytest.mark.parametrize(
    ("key", "value", "message"),
    [
        ("name", "008-T1", "'008-T1' is no name of a table or figure of 009"),
        ("name", "009-X1", "'009-X1' is no name"),
        ("free", False, "it is said why not"),
        ("titel", "t", "titel"),
        ("paper_says", {"columns": [], "rows": [{"label": "a", "values": [1]}]}, "each column"),
        ("variants", [{"label": "a", "recipe": "x", "options": [], "baseline": "", "note": ""}],
         "no recipe 'x'"),
        ("variants", [{"label": "a", "recipe": "flat", "options": [], "baseline": "b",
                       "note": ""}], "no variant 'b'"),
    ],
)  # fmt: skip
def test_a_mistake_in_a_file_is_named(key: str, value: Any, message: str, tmp_path: Path) -> None:
    made = content()
    path = tmp_path / "009.yaml"
    path.write_text(yaml.safe_dump(made), encoding="utf-8")
    (found,) = read_catalogue(tmp_path)
    assert (found.name, found.printed.rows[0].values) == ("009-T1", (1.5,))
    assert find([found], ["009"]) == [found]
    made["experiments"][0][key] = value
    path.write_text(yaml.safe_dump(made), encoding="utf-8")
    with pytest.raises(GtransError, match="009.yaml: not the experiments") as caught:
        read_catalogue(tmp_path)
    assert message in str(caught.value)


def test_files_that_are_no_yaml(tmp_path: Path) -> None:
    with pytest.raises(GtransError, match="there is no file of a paper"):
        read_catalogue(tmp_path)
    (tmp_path / "000.yaml").write_text("a: [", encoding="utf-8")
    with pytest.raises(GtransError, match="000.yaml: not readable"):
        read_catalogue(tmp_path)
