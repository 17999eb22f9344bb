"""Figures as numbers and as pictures, of the logs of trainings and of finished scores."""

from __future__ import annotations

import contextlib
import io
import json
import math
import shutil
from pathlib import Path
from typing import Any

import pytest

from gtrans.cli import main
from gtrans.errors import GtransError
from gtrans.lab.analyses.curves import curves
from gtrans.lab.logs import TrainingHistory, read_history
from gtrans.lab.plots import (
    Figure,
    Panel,
    Point,
    Series,
    draw,
    mean_of_runs,
    to_json,
    write_figure,
)

LINE = "train_inner | epoch {epoch:03d}:  1 / 9 loss={loss}, weight_group_1={w}, num_updates={n}, wall={s}\n"  # noqa: E501
VALID = "valid | epoch {epoch:03d} | valid on 'valid' subset | loss {loss} | num_updates {n}\n"


def log(folder: Path, by: float = 0.0) -> Path:
    """Two epochs of 20 updates, a line every 10, validated at the end of an epoch."""
    folder.mkdir()
    text = ""
    for number in range(1, 5):
        epoch, n = (number + 1) // 2, 10 * number
        text += LINE.format(epoch=epoch, loss=9 - number + by, w=0.1 * number, n=n, s=1800 * number)
        if not number % 2:
            text += VALID.format(epoch=epoch, loss=10 - number, n=n)
    (folder / "train.log").write_text(text, encoding="utf-8")
    return folder


def test_seeds_are_a_mean_with_its_ends() -> None:
    points = mean_of_runs([[(2, 4.0), (1, 1.0)], [(1, 2.0), (3, 5.0)]])
    assert points == (Point(1, 1.5, 1.0, 2.0, 2), Point(2, 4.0), Point(3, 5.0))
    assert [p.x for p in mean_of_runs([[("low", 1.0), ("high", 2.0)]])] == ["low", "high"]


def test_numbers_beside_the_figure(tmp_path: Path) -> None:
    series = (Series("a, b", (Point(1.5, 2.0, 1.0, 3.0, 2), Point(2, math.inf))),)
    figure = Figure("$t_1$", (Panel("p", "x", "y", series), Panel("q", "x", "y", ())))
    assert to_json(figure)["panels"][0]["series"][0]["points"][1]["y"] is None
    assert to_json(figure)["schema"] == "gtrans.figure/1"
    names = [str(tmp_path / f"f.{kind}") for kind in ("png", "svg", "pdf")]
    write_figure(figure, names)
    first = {path.name: path.read_bytes() for path in tmp_path.iterdir()}
    assert set(first) == {"f.png", "f.svg", "f.pdf", "f.json"}
    assert json.loads(first["f.json"]) == json.loads(json.dumps(to_json(figure)))
    # Text stays text, also what matplotlib would take for mathematics.
    assert b">$t_1$<" in first["f.svg"]
    write_figure(figure, names)
    assert {path.name: path.read_bytes() for path in tmp_path.iterdir()} == first


def test_bars_stand_over_their_own_categories() -> None:
    short = Series("short", (Point("5-8", 1.0), Point("9+", 2.0, 2.5, 3.0)), 0, "bars")
    whole = Series("whole", (Point("1-4", 3.0), Point("9+", 5.0, 3.0, 4.0)), 1, "bars")
    (axes,) = draw(Figure("", (Panel("p", "", "", (short, whole)),))).axes
    names = [label.get_text() for label in axes.get_xticklabels()]
    assert sorted(names) == ["1-4", "5-8", "9+"]
    over: dict[str, list[float]] = {name: [] for name in names}
    for bar in axes.patches:
        over[names[round(bar.get_x() + bar.get_width() / 2)]].append(bar.get_height())
    assert over == {"1-4": [3.0], "5-8": [1.0], "9+": [2.0, 5.0]}
    # An interval beside its score reaches to it one way only.
    ends = [
        tuple(path.vertices[:, 1])
        for bars in axes.containers
        if hasattr(bars, "lines")
        for path in bars.lines[2][0].get_paths()
    ]
    assert (2.0, 3.0) in ends and (3.0, 5.0) in ends


def test_curves_of_seeds_and_models(tmp_path: Path) -> None:
    runs = [read_history(log(tmp_path / name, by)) for name, by in (("a", 0), ("b", 2), ("c", 5))]
    figure = curves({"one": runs[:2], "two": runs[2:]}, ["loss", "valid:loss", "weight_group_*"])
    loss, valid, weights = figure.panels
    assert [series.label for series in loss.series] == ["one", "two"]
    assert loss.series[0].points[0] == Point(10, 9.0, 8.0, 10.0, 2)
    assert loss.series[1].points[-1] == Point(40, 10.0)
    assert [(p.x, p.y) for p in valid.series[1].points] == [(20, 8.0), (40, 6.0)]
    assert [p.y for p in weights.series[0].points] == pytest.approx([0.1, 0.2, 0.3, 0.4])
    with pytest.raises(
        GtransError, match="`--values` bleu: no log has it; of train they have loss"
    ):
        curves({"one": runs}, ["bleu"])


def test_the_curves_of_two_runs(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    folders = [str(log(tmp_path / name)) for name in ("a", "b")]
    plot = tmp_path / "curves.svg"
    paths = (folders[0], f"fine={folders[1]}")
    assert main(["analyse", "curves", "--path", *paths, "--plot", str(plot)]) == 0
    out = capsys.readouterr().out
    assert "training: loss; loss (bits per token)" in out and "fine" in out
    found = json.loads(plot.with_suffix(".json").read_text())
    assert [series["label"] for series in found["panels"][0]["series"]] == ["a", "fine"]
    assert b"training: loss" in plot.read_bytes()
    assert main(["analyse", "curves", "--path", folders[0], "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["title"] == "a"


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--path", "nowhere"], "nowhere: there is no such log; name a run folder"),
        (["--path", "plot.txt"], "plot.txt: it has no losses of a training"),
        (["--path", "=a"], "must be LABEL=PATH"),
        (["--path", "a", "sub/a"], "have the same name 'a'; name them with --path LABEL=PATH."),
        (["--path", "a", "--plot", "a/train.txt"], "`--plot` must end in .png, .pdf, .svg"),
        (["--path", "x=plot.json", "--plot", "plot.png"], "is the input 'plot.json'"),
    ],
)
def test_mistakes_of_curves(
    options: list[str],
    message: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.chdir(tmp_path)
    log(tmp_path / "a")
    (tmp_path / "plot.txt").write_text("nothing\n")
    (tmp_path / "sub").mkdir()
    (log(tmp_path / "sub" / "a") / "train.log").rename(tmp_path / "plot.json")
    (tmp_path / "sub" / "a" / "train.log").symlink_to(tmp_path / "plot.json")
    assert main(["analyse", "curves", *options]) == 1
    error = capsys.readouterr().err
    assert message in error and error.count("\n") == 1


# ---- logs of trainings ---------------------------------------------------------------------------

TIME = "2026-11-22 09:07:34 | INFO |"
SIMPLE = f"""$ gtrans train data --save-dir run
{TIME} fairseq.trainer | begin training epoch 1
{TIME} train_inner | epoch 001:     10 / 30 loss=8.5, ppl=362.04, num_updates=10, weight_group_1=0.4, wall=3
{TIME} train_inner | epoch 001:     20 / 30 loss=7.5, ppl=181.02, num_updates=20, weight_group_1=0.3, wall=5
{TIME} valid | epoch 001 | valid on 'valid' subset | loss 8.25 | nll_loss 8 | num_updates 20
{TIME} valid2 | epoch 001 | valid on 'valid2' subset | loss 9 | num_updates 20 | best_loss 9
{TIME} train_inner | epoch 001:     30 / 30 loss=7, num_updates=30, wall=8
{TIME} train | epoch 001 | loss 7.667 | num_updates 30 | lr 8e-05 | train_wall 2
"""  # noqa: E501


def history(tmp_path: Path, text: str) -> TrainingHistory:
    (tmp_path / "train.log").write_text(text, encoding="utf-8")
    return read_history(tmp_path)


@pytest.mark.parametrize("text", [SIMPLE, SIMPLE.replace(f"{TIME} ", "")], ids=["log", "file"])
def test_what_a_log_says(text: str, tmp_path: Path) -> None:
    found = history(tmp_path, text)
    assert found.series("train", "loss") == [(10, 8.5), (20, 7.5), (30, 7)]
    assert found.series("train", "weight_group_1") == [(10, 0.4), (20, 0.3)]
    assert found.series("train", "wall") == [(10, 3), (20, 5), (30, 8)]
    assert found.names("valid") == ["loss", "nll_loss"]
    assert found.series("valid", "nll_loss") == [(20, 8)]
    assert found.series("valid2", "best_loss") == [(20, 9)]
    assert [record.values for record in found.epochs] == [
        {"loss": 7.667, "lr": 8e-05, "train_wall": 2}
    ]
    assert found.series("train", "bleu") == found.series("dev", "loss") == []


def test_what_is_done_twice_counts_once(tmp_path: Path) -> None:
    """Ended after 30 updates, the run goes on from its checkpoint of 10 updates."""
    again = SIMPLE.replace("num_updates=20", "num_updates=15").replace("loss=7.5", "loss=6")
    found = history(tmp_path, SIMPLE + "\n".join(again.split("\n")[3:4]) + '\n{"epoch": 1, "lo')
    assert found.series("train", "loss") == [(10, 8.5), (15, 6)]
    assert not found.epochs and not found.series("valid", "loss")


# ---- scores --------------------------------------------------------------------------------------


LENGTHS = ["--metrics", "s_bleu", "--target-lang", "de"]
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
    with pytest.MonkeyPatch.context() as patch, contextlib.redirect_stdout(printed):
        patch.setattr("gtrans.evaluation.table.SENTENCE_LENGTHS", (4, 8))
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
        capsys,
        "scores",
        "--by",
        "length",
        "--path",
        "both.json:bad",
        "both.json:good",
        "--baseline",
        "bad",
    )
    assert [panel["title"] for panel in figure["panels"]] == [
        *("s_bleu", "s_bleu, difference from bad", "sentences")
    ]
    assert [one["label"] for one in figure["panels"][0]["series"]] == ["bad", "good"]
    assert points(figure, 0, 1)[2][:2] == ("9+", pytest.approx(100))
    difference = points(figure, 1, 0)
    assert [one[0] for one in difference] == ["1-4", "5-8", "9+"]
    assert difference[2][1:] == (pytest.approx(tested["difference"]), None, None)
    assert points(figure, 2, 0) == [
        ("1-4", 4, None, None),
        ("5-8", 8, None, None),
        ("9+", 4, None, None),
    ]
    by_place = analysed(capsys, "scores", "--by", "position", "--path", "both.json:bad")
    expected = content["by_position"][0]["s_bleu"]["bad"]
    assert points(by_place, 0, 0)[0][1] == pytest.approx(expected)


def refused(capsys: pytest.CaptureFixture[str], words: list[str], message: str) -> None:
    assert main(["analyse", *words]) == 1
    error = capsys.readouterr().err
    assert message in error and error.count("\n") == 1, error


def test_mistakes_of_scores(files: Path, capsys: pytest.CaptureFixture[str]) -> None:
    content = json.loads((files / "both.json").read_text())
    assert content["systems"]["bad"]["s_bleu"]["higher_is_better"] is True
    content["by_sentence_length"][1]["sentences"] += 1
    (files / "set.json").write_text(json.dumps(content))
    (files / "other.json").write_text('{"all": {"accuracy": true}}')
    for words, message in (
        (["both.json"], "both.json: it has several systems (bad, good); name one:"),
        (
            ["both.json:bad", "set.json:good"],
            "set.json: its part 5-8 has 9 sentences, that of both.json 8",
        ),
        (["both.json:ugly"], "both.json: it has no system 'ugly', but bad, good."),
        (["nowhere.json"], "--path nowhere.json: there is no such file."),
        (["other.json"], "other.json: it is no file of `gtrans score --json`."),
        (["both.json:bad", "--baseline", "x"], "`--baseline` x is none of bad."),
        (["both.json:bad", "--plot", "both.png"], "is the input 'both.json'"),
    ):
        refused(capsys, ["scores", "--by", "length", "--path", *words], message)
