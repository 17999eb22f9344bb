"""Figures as numbers and as pictures."""

from __future__ import annotations

import csv
import json
import math
from itertools import pairwise
from pathlib import Path

import pytest

from gtrans.cli import main
from gtrans.errors import GtransError
from gtrans.lab.analyse import PARTS
from gtrans.lab.analyses.curves import curves, read_history
from gtrans.lab.plots import (
    COLOURS,
    Figure,
    Panel,
    Point,
    Series,
    draw,
    mean_of_runs,
    to_csv,
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
    rows = list(csv.reader(to_csv(figure).splitlines()))
    assert rows[1:] == [
        ["p", "a, b", "1.5", "2", "1", "3", "2"],
        ["p", "a, b", "2", "inf", "", "", "1"],
    ]
    assert to_json(figure)["panels"][0]["series"][0]["points"][1]["y"] is None
    names = [str(tmp_path / f"f.{kind}") for kind in ("png", "svg", "pdf")]
    write_figure(figure, names)
    first = {path.name: path.read_bytes() for path in tmp_path.iterdir()}
    assert set(first) == {"f.png", "f.svg", "f.pdf", "f.csv", "f.json"}
    assert json.loads(first["f.json"]) == json.loads(json.dumps(to_json(figure)))
    assert first["f.csv"].decode() == to_csv(figure)
    # Text stays text, also what matplotlib would take for mathematics.
    assert b">$t_1$<" in first["f.svg"]
    write_figure(figure, names)
    assert {path.name: path.read_bytes() for path in tmp_path.iterdir()} == first


def test_what_is_drawn_are_the_numbers() -> None:
    points = (Point(1, 5.0, 4.0, 6.0), Point(2, 4.0, 3.0, 5.0))
    limit = Series("at most", (Point(1, 8.0), Point(2, 8.0)), 1, "limit")
    bars = Panel("bars", "", "", tuple(
        Series(name, (Point("low", y), Point("high", 2 * y)), n, "bars")
        for n, (name, y) in enumerate((("one", 1.0), ("two", 3.0)))
    ))  # fmt: skip
    drawn = draw(Figure("", (Panel("p", "updates", "bits", (Series("a", points), limit)), bars)))
    line, dashed = drawn.axes[0].lines
    assert line.get_xydata().tolist() == [[1, 5], [2, 4]] and line.get_color() == COLOURS[0]
    assert dashed.get_linestyle() == ":" and dashed.get_color() == COLOURS[1]
    assert [text.get_text() for text in drawn.axes[0].get_legend().get_texts()] == ["a", "at most"]
    (band,) = drawn.axes[0].collections
    assert band.get_paths()[0].get_extents().bounds == (1, 3, 1, 3)
    assert [bar.get_height() for bar in drawn.axes[1].patches] == [1, 2, 3, 6]
    # Bars of one category lie side by side.
    lefts = sorted((bar.get_x(), bar.get_x() + bar.get_width()) for bar in drawn.axes[1].patches)
    assert all(end <= begin + 1e-9 for (_, end), (begin, _) in pairwise(lefts))


@pytest.mark.parametrize("count", [2, 7, 30])
def test_a_long_legend_hides_no_line(count: int) -> None:
    label = "G-Transformer, gates a little open, decoder cross"
    series = [Series(f"{label} {n}", (Point(1, n), Point(2, n + 1.0)), n) for n in range(count)]
    panels = tuple(Panel(f"p{n}", "updates", "bits", tuple(series)) for n in range(4))
    drawn = draw(Figure("", panels))
    drawn.draw_without_rendering()
    axes = drawn.axes[:4]
    legends = [it.get_legend().get_window_extent() for it in axes]
    inside = [it.get_window_extent() for it in axes]
    for legend, panel in zip(legends, inside, strict=True):
        assert legend.overlaps(panel) == (count < 7)
        assert all(panel.width / 3 < panel.height < panel.width for panel in inside)
        if count >= 7:  # nor does it reach into another panel, or out of the figure
            assert not any(legend.overlaps(other) for other in inside)
            assert drawn.bbox.x0 <= legend.x0 and legend.x1 <= drawn.bbox.x1
            assert drawn.bbox.y0 <= legend.y0


def test_bars_stand_over_their_own_categories() -> None:
    short = Series("short", (Point("5-8", 1.0), Point("9+", 2.0, 2.5, 3.0)), 0, "bars")
    whole = Series("whole", (Point("1-4", 3.0), Point("9+", 5.0, 3.0, 4.0)), 1, "bars")
    (axes,) = draw(Figure("", (Panel("p", "", "", (short, whole)),))).axes
    names = [label.get_text() for label in axes.get_xticklabels()]
    assert sorted(names) == ["1-4", "5-8", "9+"] and names[-1] == "9+"
    over: dict[str, list[float]] = {name: [] for name in names}
    for bar in axes.patches:
        over[names[round(bar.get_x() + bar.get_width() / 2)]].append(bar.get_height())
    assert over == {"1-4": [3.0], "5-8": [1.0], "9+": [2.0, 5.0]}
    # An interval beside its score reaches to it one way only.
    ends = [tuple(path.vertices[:, 1]) for bars in axes.containers if hasattr(bars, "lines")
            for path in bars.lines[2][0].get_paths()]  # fmt: skip
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


def test_the_command(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    folders = [str(log(tmp_path / name)) for name in ("a", "b")]
    plot = tmp_path / "curves.svg"
    paths = (folders[0], f"fine={folders[1]}")
    assert main(["analyse", "curves", "--path", *paths, "--plot", str(plot)]) == 0
    out = capsys.readouterr().out
    assert "training: loss; loss (bits a token)" in out and "fine" in out
    found = json.loads(plot.with_suffix(".json").read_text())
    assert [series["label"] for series in found["panels"][0]["series"]] == ["a", "fine"]
    assert b"training: loss" in plot.read_bytes()
    assert main(["analyse", "curves", "--path", folders[0], "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["title"] == "a"


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--path", "nowhere"], "nowhere: there is no such log"),
        (["--path", "=a"], "must be LABEL=PATH"),
        (["--path", "a", "sub/a"], "have the same name 'a'; name them with --path LABEL=PATH."),
        (["--path", "a", "--plot", "a/train.txt"], "`--plot` must end in .png, .pdf, .svg"),
        (["--path", "x=plot.csv", "--plot", "plot.png"], "is the input 'plot.csv'"),
    ],
)
def test_mistakes(
    options: list[str], message: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:  # fmt: skip
    monkeypatch.chdir(tmp_path)
    log(tmp_path / "a")
    (tmp_path / "sub").mkdir()
    (log(tmp_path / "sub" / "a") / "train.log").rename(tmp_path / "plot.csv")
    (tmp_path / "sub" / "a" / "train.log").symlink_to(tmp_path / "plot.csv")
    assert main(["analyse", "curves", *options]) == 1
    error = capsys.readouterr().err
    assert message in error and error.count("\n") == 1


@pytest.mark.parametrize("part", PARTS)
def test_every_part_is_named_and_shows_an_example(
    part: str, capsys: pytest.CaptureFixture[str]
) -> None:
    for words in (["analyse"], ["analyse", part]):
        with pytest.raises(SystemExit) as end:
            main([*words, "--help"])
        assert end.value.code == 0
        text = capsys.readouterr().out
        assert f"\n  {part} " in text or f"example:\n  gtrans analyse {part} " in text
