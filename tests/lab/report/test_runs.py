"""``gtrans report``: folders that are missing, unfinished or do not fit."""

from __future__ import annotations

import json
import re
import shlex
from collections.abc import Callable
from pathlib import Path

import pytest
from support.run_folders import LOG, contrastive_set, finished_run
from support.score_corpus import HYPOTHESES, text, write

from gtrans.cli import main
from gtrans.lab.page.differences import differences


def without(name: str) -> Callable[[Path], object]:
    return lambda run: (run / name).unlink()


MISTAKES: dict[str, tuple[Callable[[Path], object], str]] = {
    "no scores": (without("scores.finetune.txt"), "scores.finetune.txt: there are no such scores"),
    "no translation": (without("test.sentence.en"), "test.sentence.en: there is no such file"),
    "no reference": (without("../test.en"), "name it with `--ref`"),
    "no source": (without("../test.de"), "name it with `--src`"),
    "still in training": (
        lambda run: write(run / "finetune" / "train.log", LOG.format(model="m", arch="a", end="")),
        "finetune: its training has not come to its end",
    ),
    "a second model without scores": (
        lambda run: finished_run(run / "x").joinpath("finetune").rename(run / "variant"),
        "scores.variant.txt: there are no such scores yet",
    ),
    "a cut translation": (
        lambda run: write(run / "test.finetune.en", text(HYPOTHESES[:1])), "test.finetune.en"
    ),
    "JSON of other systems": (
        lambda run: write(run / "scores.finetune.json", '{"systems": {"other": {}}}'),
        "it has scores of other",
    ),
    "JSON of something else": (
        lambda run: write(run / "scores.finetune.json", '{"systems": 1}'), "gtrans score --json"
    ),
    "an option that score has not": (
        lambda run: write(
            run / "scores.finetune.txt",
            (run / "scores.finetune.txt").read_text().replace("--metrics", "--matrix"),
        ),
        "its first line is no `gtrans score`",
    ),
}  # fmt: skip


@pytest.mark.parametrize("mistake", MISTAKES)
def test_unfinished_runs_are_one_line(
    mistake: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    run, page = finished_run(tmp_path / "out"), tmp_path / "page.html"
    spoil, words = MISTAKES[mistake]
    spoil(run)
    assert main(["report", str(run), "--output", str(page)]) == 1
    lines = capsys.readouterr().err.splitlines()
    (line,) = (line for line in lines if "are computed" not in line)
    assert line.startswith("gtrans: error: ") and words in line
    assert not page.exists() and not list(tmp_path.glob(".page*"))


@pytest.mark.long
def test_runs_without_tables_and_another_baseline(tmp_path: Path) -> None:
    """A workflow keeps its scores elsewhere; with a baseline all are in one table."""
    run, page = finished_run(tmp_path / "out"), tmp_path / "page.html"
    (run / "scores.finetune.txt").unlink()
    words = ["--ref", str(tmp_path / "test.en"), "--src", str(tmp_path / "test.de")]
    assert main(["report", str(run), *words, "--output", str(page)]) == 0
    first = page.read_text()
    assert "METEOR" in first and '"systems":["sentence","finetune"]' in first
    words += ["--baseline", "finetune"]
    assert main(["report", str(run), *words, "--output", str(page)]) == 0
    assert '"systems":["finetune","sentence"]' in page.read_text()
    assert "system0" not in page.read_text()


@pytest.mark.parametrize("in_one_file", [False, True])
def test_scores_of_other_programs_stay_those_of_their_systems(
    in_one_file: bool, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Whatever system the others are compared with."""
    run, page = finished_run(tmp_path / "out"), tmp_path / "page.html"
    scores = {"sentence": [0.1] * 5, "finetune": [0.9] * 5}
    if in_one_file:
        files = [f"judge={write(tmp_path / 'judge.json', json.dumps(scores))}"]
    else:
        files = [
            f"judge={write(tmp_path / name, ''.join(f'{it}' + chr(10) for it in of))}"
            for name, of in scores.items()
        ]
    table = run / "scores.finetune.txt"
    line, rest = table.read_text().split("\n", 1)
    write(table, f"{line} --segment-scores {shlex.join(files)} --non-inferior judge=2\n{rest}")
    words = ["report", str(run), "--output", str(page)]

    def shown(*more: str) -> dict[str, str]:
        """The last cell of every row: score, interval, change, tests."""
        assert main([*words, *more]) == 0
        rows = re.findall(r'<tr><th scope="row">(\w+)(.*?)</tr>', page.read_text(), re.DOTALL)
        cells = {name: re.sub("<[^>]*>", " ", row.split("<td")[-1]) for name, row in rows}
        return {name: cell.partition(">")[2] for name, cell in cells.items()}

    first = shown()
    assert first["sentence"].split()[0] == "0.10" and first["finetune"].split()[0] == "0.90"
    assert "+0.80" in first["finetune"] and "p non-inf" in first["finetune"]
    assert "Note: p non-inf: a small one is evidence" in page.read_text()
    other = shown("--baseline", "finetune")
    assert list(other) == ["finetune", "sentence"]
    assert other["sentence"].split()[0] == "0.10" and other["finetune"].split()[0] == "0.90"
    assert "-0.80" in other["sentence"] and "p non-inf" in other["sentence"]
    # Of another table there are none.
    third = finished_run(tmp_path / "third", {"third": HYPOTHESES})
    capsys.readouterr()
    words.insert(1, str(third))
    assert main([*words, "--baseline", "finetune"]) == 1
    error = capsys.readouterr().err.splitlines()[-1]
    assert "`--segment-scores` are of sentence, finetune alone" in error


def test_resegmented_translations_and_no_files_besides_the_page(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Their lines are not those of the reference; what writes files is left out."""
    monkeypatch.chdir(tmp_path)
    run = finished_run(tmp_path / "out")
    joined = [[" ".join(document)] for document in HYPOTHESES]
    write(run / "test.finetune.en", text(joined))
    table = run / "scores.finetune.txt"
    line, rest = table.read_text().split("\n", 1)
    extra = f"--resegment --resegment-dir split --comet --csv {tmp_path}/s.csv"
    write(table, f"{line} {extra}\n{rest}")
    before = set(tmp_path.rglob("*"))
    assert main(["report", str(run), "--output", "page.html"]) == 0
    assert set(tmp_path.rglob("*")) - before == {tmp_path / "page.html"}
    page = (tmp_path / "page.html").read_text()
    assert "sentence, finetune: split into the sentences of the reference" in page
    assert "comet" not in page and json.dumps(HYPOTHESES[0][2]) in page


@pytest.mark.long
def test_only_some_models_of_a_shared_folder(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """A workflow has other models in the folder, which may still be in training."""
    run, page = finished_run(tmp_path / "out"), tmp_path / "page.html"
    (run / "scores.finetune.txt").unlink()
    (run / "a-sentence").mkdir()
    write(run / "a-sentence" / "train.log", LOG.format(model="m", arch="a", end=""))
    write(run / "test.a-sentence.en", text(HYPOTHESES[:1]))
    words = ["report", str(run), "--ref", str(tmp_path / "test.en"), "--output", str(page)]
    assert main(words) == 1
    assert "has not come to its end" in capsys.readouterr().err
    assert main([*words, "--models", "sentence", "finetune"]) == 0
    assert '"systems":["sentence","finetune"]' in page.read_text()
    assert main([*words, "--models", "sentence", "none"]) == 1
    assert "scores.none.txt: there are no such scores" in capsys.readouterr().err
    # Only a model of exactly that name is a sentence model.
    (run / "a-sentence" / "train.log").unlink()
    write(run / "test.a-sentence.en", (run / "test.finetune.en").read_text())
    assert main(words) == 0
    assert '"systems":["sentence","a-sentence","finetune"]' in page.read_text()


def test_options_that_do_not_fit(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    run, (sets, a, _) = finished_run(tmp_path / "out"), contrastive_set(tmp_path)
    bad = write(tmp_path / "bad.json", json.dumps({"panels": [{"layer": 1}]}))
    lines = [json.loads(line) | {"texts": "x"} for line in Path(a).read_text().splitlines()]
    other = write(tmp_path / "other.items", "".join(f"{json.dumps(it)}\n" for it in lines))
    for words, message in (
        ((str(tmp_path / "nowhere"),), "there is no such run folder"),
        ((str(run), "--baseline", "none"), "there are sentence, finetune"),
        ((str(run), "--items", a), "belong together"),
        ((str(run), "--items", other, "--set", sets), "it is not the item 'item-1' of the sets"),
        ((str(run), "--items", bad, "--set", sets), "it has 1 items, but the sets have 2"),
        ((str(run), "--analysis", bad), "is not what `gtrans analyse --plot` writes"),
        ((str(run), str(run)), "have the same name 'out'"),
    ):
        assert main(["report", *words, "--output", str(tmp_path / "page.html")]) == 1
        (line,) = capsys.readouterr().err.splitlines()[-1:]
        assert message in line
    assert main(["report", str(run), "--output", str(run / "test.sentence.en")]) == 1
    assert not (tmp_path / "page.html").exists()


def test_a_moved_run_and_a_rerun(tmp_path: Path) -> None:
    """The texts are named; a recipe that was asked again has added to the log."""
    run = finished_run(tmp_path / "out")
    log = run / "finetune" / "train.log"
    write(log, log.read_text() + "$ gtrans train --dropout 9\ngtrans: error: other settings\n")
    (tmp_path / "test.en").rename(tmp_path / "moved.en")
    (tmp_path / "test.de").rename(tmp_path / "moved.de")
    run = run.rename(tmp_path / "elsewhere")
    words = ["--ref", str(tmp_path / "moved.en"), "--src", str(tmp_path / "moved.de")]
    page = tmp_path / "page.html"
    assert main(["report", f"{run}/", *words, "--output", str(page)]) == 0
    assert "Report of elsewhere" in page.read_text()
    assert "--dropout" not in page.read_text()


@pytest.mark.parametrize(
    ("ours", "other", "parts"),
    [
        ("same text", "same text", []),
        ("the red cat", "the cat", [("red", "")]),
        ("the cat", "the red cat", [("", "red")]),
        ("a b", "", [("a b", "")]),
        ("", "a b", [("", "a b")]),
        ("我喜欢猫。", "我喜欢狗。", [("猫", "狗")]),
        ("it's done.", "it's done!", [(".", "!")]),
    ],
)
def test_differences(ours: str, other: str, parts: list[tuple[str, str]]) -> None:
    found = differences(ours, other)
    pairs = [found[n : n + 4] for n in range(0, len(found), 4)]
    assert [(ours[a:b], other[c:d]) for a, b, c, d in pairs] == parts
