"""Figures of finished scores, from the files of ``gtrans score --json`` and others."""

from __future__ import annotations

import contextlib
import io
import json
import shutil
from pathlib import Path
from typing import Any

import pytest

from gtrans.cli import main

LENGTHS = ["--sentence-lengths", "4", "8", "--metrics", "s_bleu", "--target-lang", "de"]
GOOD = "das ist ein kleiner Satz ."
REFERENCE = [GOOD, "der Hund sieht die Katze im Garten heute nicht .", "nein danke .", GOOD] * 4


@pytest.fixture(scope="module")
def scored(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """References in documents of four sentences; two systems, of which one is worse."""
    folder = tmp_path_factory.mktemp("scored")
    bad = [" ".join(reversed(line.split())) if len(line) > 30 else line for line in REFERENCE]
    for name, lines in (("ref", REFERENCE), ("good", REFERENCE), ("bad", bad)):
        documents = ["\n".join(lines[n : n + 4]) for n in range(0, len(lines), 4)]
        (folder / f"{name}.de").write_text("\n\n".join(documents) + "\n", encoding="utf-8")
    systems = ["--hyp", *(f"{name}={folder / name}.de" for name in ("bad", "good"))]
    words = ["score", *systems, "--ref", str(folder / "ref.de"), *LENGTHS, "--test-parts", "--json"]
    printed = io.StringIO()
    with contextlib.redirect_stdout(printed):
        assert main(words) == 0
    (folder / "both.json").write_text(printed.getvalue(), encoding="utf-8")
    return folder


@pytest.fixture
def files(scored: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A copy of them, in which the test stands."""
    shutil.copytree(scored, tmp_path, dirs_exist_ok=True)
    monkeypatch.chdir(tmp_path)
    return tmp_path


def analysed(capsys: pytest.CaptureFixture[str], *words: str) -> dict[str, Any]:
    assert main(["analyse", *words, "--json"]) == 0
    found: dict[str, Any] = json.loads(capsys.readouterr().out)
    return found


def points(figure: dict[str, Any], panel: int, series: int) -> list[tuple[Any, ...]]:
    found = figure["panels"][panel]["series"][series]["points"]
    return [(one["x"], one["y"], one["low"], one["high"]) for one in found]


def test_by_length_with_tests_inside_the_parts(
    files: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    content = json.loads((files / "both.json").read_text())
    rows = content["by_sentence_length"]
    # The bucket alone, scored as a corpus of its own, has the same difference and the same test.
    for name in ("ref", "good", "bad"):
        lines = (files / f"{name}.de").read_text().split("\n")
        long = [line for line in lines if len(line) > 30]
        (files / f"long.{name}.de").write_text("\n\n".join(long) + "\n")
    systems = ["--hyp", "bad=long.bad.de", "good=long.good.de", "--ref", "long.ref.de"]
    assert main(["score", *systems, *LENGTHS, "--json"]) == 0
    alone = json.loads(capsys.readouterr().out)["systems"]["good"]["s_bleu"]["comparison"]
    tested = rows[2]["comparison"]["s_bleu"]["good"]
    assert tested == alone and tested["direction"] == "better"
    assert [row["sentences"] for row in rows] == [4, 8, 4]

    figure = analysed(
        capsys, "scores", "--by", "length", "--path", "both.json:bad", "both.json:good",
        "--baseline", "bad",
    )  # fmt: skip
    assert [panel["title"] for panel in figure["panels"]] == [
        *("s_bleu", "s_bleu, difference from bad", "sentences")
    ]
    assert [one["label"] for one in figure["panels"][0]["series"]] == ["bad", "good"]
    assert points(figure, 0, 1)[2][:2] == ("9+", pytest.approx(100))
    difference = points(figure, 1, 0)
    assert [one[0] for one in difference] == ["1-4", "5-8", "9+"]
    assert difference[2][1:] == pytest.approx((tested["difference"], *tested["interval"]))
    assert points(figure, 2, 0) == [("1-4", 4, None, None), ("5-8", 8, None, None),
                                    ("9+", 4, None, None)]  # fmt: skip
    by_place = analysed(capsys, "scores", "--by", "position", "--path", "both.json:bad",
                        "--value", "mean_of_positions")  # fmt: skip
    expected = content["by_position"][0]["mean_of_positions"]["bad"]
    assert points(by_place, 0, 0)[0][1] == pytest.approx(expected)


def test_parts_of_different_test_sets_are_refused(
    files: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    content = json.loads((files / "both.json").read_text())
    assert content["systems"]["bad"]["s_bleu"]["higher_is_better"] is True
    content["by_sentence_length"][1]["sentences"] += 1
    (files / "other.json").write_text(json.dumps(content))
    paths = ["both.json:bad", "other.json:good"]
    refused(capsys, ["scores", "--by", "length", "--path", *paths],
            "other.json: its part 5-8 has 9 sentences, that of both.json 8")  # fmt: skip


def refused(capsys: pytest.CaptureFixture[str], words: list[str], message: str) -> None:
    assert main(["analyse", *words]) == 1
    error = capsys.readouterr().err
    assert message in error and error.count("\n") == 1, error


def test_mistakes(files: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (files / "other.json").write_text('{"all": {"accuracy": true}}')
    for words, message in (
        (["both.json"], "both.json: it has several systems (bad, good); name one:"),
        (["both.json:ugly"], "both.json: it has no system 'ugly', but bad, good."),
        (["nowhere.json"], "--path nowhere.json: there is no such file."),
        (["both.json:bad", "--value", "ter"], "both.json: its 'by_sentence_length' have no 'ter'."),
        (["other.json"], "other.json: it is no file of `gtrans score --json`."),
        (["both.json:bad", "--baseline", "x"], "`--baseline` x is none of bad."),
        (["both.json:bad", "--plot", "both.png"], "is the input 'both.json'"),
    ):
        refused(capsys, ["scores", "--by", "length", "--path", *words], message)


@pytest.mark.parametrize(
    "content",
    [
        {"systems": []},
        {"systems": {"a": {}}},
        {"systems": {"a": {}}, "by_sentence_length": [3]},
        {"systems": {"a": {}}, "by_sentence_length": [{"s_bleu": {"a": 1}}]},
        {"systems": {"a": {}}, "by_sentence_length": [
            {"s_bleu": {"a": 1}, "from": 1, "to": 2, "sentences": 3, "comparison": 4}
        ]},
    ],
)  # fmt: skip
def test_a_file_that_was_changed(
    content: Any, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "changed.json"
    path.write_text(json.dumps(content))
    refused(capsys, ["scores", "--path", str(path), "--by", "length"], str(path))
