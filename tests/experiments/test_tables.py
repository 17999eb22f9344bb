"""Tables from canned measurements: means, spreads, tests, beside the paper's numbers."""

from __future__ import annotations

import csv
import io
import json
import subprocess
import sys
from dataclasses import replace
from math import isclose
from pathlib import Path

import pytest
from support.finished_table import BASELINE, BETTER, SIGNATURE, X, scores

from gtrans.errors import GtransError
from gtrans.experiments.catalogue import (
    Figure,
)
from gtrans.experiments.engine import _write, earlier_seeds, reproduce, write_finished
from gtrans.experiments.figures import draw
from gtrans.experiments.jobs import Job, Plan
from gtrans.experiments.measures import Column
from gtrans.experiments.planned import Planned
from gtrans.experiments.tables import table_of, to_csv, to_markdown


def test_means_spreads_and_tests(finished_table: tuple[Planned, Plan]) -> None:
    table = table_of(*finished_table)
    without, better, other = table["rows"]
    # Standard deviations of (20, 21, 22), (22, 22, 25) and of the differences (2, 1, 3).
    assert without["cells"]["s-BLEU"]["mean"] == 21 and without["cells"]["s-BLEU"]["spread"] == 1
    cell = better["cells"]["s-BLEU"]
    assert cell["mean"] == 23 and isclose(cell["spread"], 3**0.5)
    difference = cell["difference"]
    assert difference["mean"] == 2 and difference["spread"] == 1
    # t = 2 / (1 / sqrt 3) with 2 degrees of freedom: p = 1 - t / sqrt(t ** 2 + 2).
    assert isclose(difference["p"], 1 - 12**0.5 / 14**0.5)
    assert cell["seeds"][0] == {
        "seed": 1, "value": 22.0, "interval": [21.0, 23.0], "signature": SIGNATURE, "p": 0.03,
        "test": "paired approximate randomisation",
    }  # fmt: skip
    assert better["paper"] == [25.12] and better["baseline"] == "without"
    assert [run["folder"] for run in better["runs"]] == [f"with/seed-{n}" for n in (1, 2, 3)]
    assert better["runs"][1] == {
        "seed": 2, "folder": "with/seed-2", "seconds": 20, "cpu_seconds": 9, "hardware": "a CPU",
    }  # fmt: skip
    assert other["why_not"] == "quoted" and other["cells"] == {}


@pytest.mark.parametrize("change", [0.0, 0.1])
def test_differences_that_rounding_alone_tells_apart_have_no_test(
    change: float, finished_table: tuple[Planned, Plan]
) -> None:
    planned, plan = finished_table
    baseline = [75.1, 33.3, 41.7]
    better = [value + change for value in baseline]
    better[0] += 1.4e-14
    assert len({one - other for one, other in zip(better, baseline, strict=True)}) > 1
    for row, of in zip(planned.rows, (baseline, better), strict=False):
        for run, value in zip(row.runs, of, strict=True):
            (run.folder / "scores.json").write_text(json.dumps(scores(value)))
    assert table_of(planned, plan)["rows"][1]["cells"]["s-BLEU"]["difference"]["p"] is None


def test_the_text_has_all_of_it(finished_table: tuple[Planned, Plan]) -> None:
    text = to_markdown(table_of(*finished_table))
    lines = text.splitlines()
    assert "|  | s-BLEU | training, s | paper: TED |" in lines
    assert "| without | 21.00 ± 1.00 | 20 |  |" in lines
    assert "| with | 23.00 ± 1.73 | 20 | 25.12 |" in lines
    assert "| of others |  |  | 24.80 |" in lines
    assert "- of others: quoted" in lines
    assert "| with | without | s-BLEU | +2.00 ± 1.00 | 0.0742 | 0.03, 0.03, 0.03 |" in lines
    assert f"- s-BLEU: `{SIGNATURE}`" in lines and "- trained on: a CPU" in lines
    assert "seeds 1, 2, 3" in text


def test_files_in_a_folder_are_linked_and_copied_with_it(
    finished_table: tuple[Planned, Plan], tmp_path: Path, repo: Path
) -> None:
    planned, plan = finished_table
    page = tmp_path / "009-T1.map" / "index.html"
    table = table_of(replace(planned, made=(page,)), plan)
    assert table["made"] == ["009-T1.map/index.html"]
    text = to_markdown(table)
    assert "[009-T1.map/index.html](009-T1.map/index.html)" in text
    for ending, content in (("md", text), ("json", json.dumps(table)), ("csv", to_csv(table))):
        (tmp_path / f"009-T1.{ending}").write_text(content)
    into = tmp_path / "into"
    command = [sys.executable, repo / "scripts" / "reproduced.py", tmp_path, "--into", into]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 1 and "index.html: there is no such file" in done.stderr
    assert not into.exists()
    page.parent.mkdir()
    page.write_text("")
    (page.parent / "update.html").write_text(f"<p>{tmp_path.resolve()}/runs</p>")
    subprocess.run(command, check=True, capture_output=True)
    copy = (into / "009-T1.map" / "update.html").read_text()
    assert copy == f"<p>OUT/{tmp_path.name}/runs</p>", "nobody else has this folder"
    assert sorted(path.name for path in into.glob("009-T1.map/*")) == ["index.html", "update.html"]


def test_some_rows_are_copied_until_all_are_there(
    finished_table: tuple[Planned, Plan], tmp_path: Path, repo: Path
) -> None:
    planned, plan = finished_table
    into = tmp_path / "into"
    command = [sys.executable, repo / "scripts" / "reproduced.py", tmp_path, "--into", into]

    def copied() -> tuple[set[str], str]:
        subprocess.run(command, check=True, capture_output=True)
        return {path.name for path in into.glob("009*")}, (into / "README.md").read_text()

    write_finished(plan, [planned])
    parts = {f"009-T1.so-far.{ending}" for ending in ("md", "json", "csv")}
    names, index = copied()
    assert names == parts
    assert "[009-T1](009-T1.so-far.md): " in index and "; some of its rows)" in index
    table = table_of(planned, plan)
    texts = {"md": to_markdown(table), "json": json.dumps(table), "csv": to_csv(table)}
    for ending, content in texts.items():
        (tmp_path / f"009-T1.{ending}").write_text(content)
    for _ in range(2):  # also if the folder has rows only
        names, index = copied()
        assert names == {f"009-T1.{ending}" for ending in texts}
        assert "[009-T1](009-T1.md): " in index and "some of its rows" not in index
        (tmp_path / "009-T1.json").unlink(missing_ok=True)


def test_changes_of_a_p_value_are_not_shown(finished_table: tuple[Planned, Plan]) -> None:
    planned, plan = finished_table
    columns = {"p of a test": Column("score", ("s_bleu",), compared=False)}
    table = table_of(replace(planned, columns=columns), plan)
    assert all("difference" not in row["cells"].get("p of a test", {}) for row in table["rows"])
    assert "Changes from the baseline" not in to_markdown(table)


def test_values_of_each_seed_stand_in_their_order_also_where_one_is_missing(
    finished_table: tuple[Planned, Plan], tmp_path: Path
) -> None:
    planned, plan = finished_table
    columns = {"of each": Column("score", ("s_bleu",), compared=False)}
    (tmp_path / "with" / "seed-2" / "scores.json").write_text("{}")
    lines = to_markdown(table_of(replace(planned, columns=columns), plan)).splitlines()
    row = next(line for line in lines if line.startswith("| with |"))
    assert "| 22.00 (21.00–23.00), -, 25.00 (24.00–26.00) |" in row


def test_the_p_of_a_seed_without_a_test_has_its_place(
    finished_table: tuple[Planned, Plan], tmp_path: Path
) -> None:
    planned, plan = finished_table
    (tmp_path / "with" / "seed-2" / "scores.json").write_text(json.dumps(scores(22.0)))
    text = to_markdown(table_of(planned, plan))
    assert "| 0.03, -, 0.03 |" in text


def test_a_test_is_named_once_or_where_scores_of_a_kind_have_several(
    finished_table: tuple[Planned, Plan],
) -> None:
    table = table_of(*finished_table)
    text = to_markdown(table)
    lead = "(p over seeds: paired t-test; paired approximate randomisation of s-BLEU):"
    assert f"Changes from the baseline of the same seed {lead}" in text
    assert text.count("paired approximate randomisation") == 1
    table["rows"][1]["cells"]["s-BLEU"]["seeds"][2]["test"] = "exact McNemar"
    text = to_markdown(table)
    assert "| 0.03, 0.03, 0.03 (exact McNemar, paired approximate randomisation) |" in text
    assert "Changes from the baseline of the same seed (p over seeds: paired t-test):" in text


def test_a_column_that_no_change_has_is_left_out(
    finished_table: tuple[Planned, Plan], tmp_path: Path
) -> None:
    planned, plan = finished_table
    assert "interval of each seed" not in to_markdown(table_of(planned, plan))
    one = replace(
        planned,
        rows=tuple(replace(row, runs=row.runs[:1], jobs=row.jobs[:1]) for row in planned.rows),
    )
    text = to_markdown(table_of(one, plan))
    assert "|  | against | score | change | p of each seed |" in text
    assert "| with | without | s-BLEU | +2.00 | 0.03 |" in text
    (tmp_path / "with" / "seed-1" / "scores.json").write_text(json.dumps(scores(22.0)))
    text = to_markdown(table_of(one, plan))
    assert "|  | against | score | change |\n" in text
    assert "| with | without | s-BLEU | +2.00 |\n" in text


def test_results_of_other_seeds_are_not_written_over(
    finished_table: tuple[Planned, Plan], tmp_path: Path
) -> None:
    planned, plan = finished_table
    assert _write(planned, plan)
    assert earlier_seeds(tmp_path, ["009-T1"]) == {1, 2, 3}
    assert earlier_seeds(tmp_path, ["009-T2"]) == set()
    before = (tmp_path / "009-T1.json").read_text()
    some = replace(
        planned,
        rows=tuple(replace(row, runs=row.runs[1:2], jobs=row.jobs[1:2]) for row in planned.rows),
    )
    with pytest.raises(GtransError, match="of the seeds 1, 2, 3, but this call is for 2 alone"):
        reproduce(plan, [some], 1, False, [])
    assert (tmp_path / "009-T1.json").read_text() == before


def test_finished_rows_are_written_while_others_run(
    finished_table: tuple[Planned, Plan], tmp_path: Path
) -> None:
    planned, plan = finished_table
    (tmp_path / "with" / "2.json").unlink()
    write_finished(plan, [planned])
    table = json.loads((tmp_path / "009-T1.so-far.json").read_text())
    without, other, _ = table["rows"]
    assert without["cells"]["s-BLEU"]["mean"] == 21
    # A row has the seeds that are finished.
    assert [run["seed"] for run in other["runs"]] == [1, 3]
    assert [it["value"] for it in other["cells"]["s-BLEU"]["seeds"]] == [22, 25]
    for seed in (1, 3):
        (tmp_path / "with" / f"{seed}.json").unlink()
    write_finished(plan, [planned])
    table = json.loads((tmp_path / "009-T1.so-far.json").read_text())
    assert table["rows"][1]["cells"] == {} and table["rows"][1]["why_not"] == "not finished"
    text = (tmp_path / "009-T1.so-far.md").read_text()
    assert "- with: not finished" in text
    # The paper's number stands beside nothing.
    assert "| with |  |  | 25.12 |" in text
    assert not (tmp_path / "009-T1.md").exists()
    for seed in (1, 2, 3):
        (tmp_path / "without" / f"{seed}.json").unlink()
    with pytest.raises(GtransError, match="no row of 009-T1 is finished"):
        write_finished(plan, [planned])


def test_results_of_another_corpus_are_not_written_over(
    finished_table: tuple[Planned, Plan], tmp_path: Path
) -> None:
    planned, plan = finished_table
    write_finished(plan, [planned])
    before = (tmp_path / "009-T1.so-far.json").read_text()
    with pytest.raises(GtransError, match="has results of mine, but this call is for other alone"):
        write_finished(plan, [replace(planned, corpora=("other",))])
    assert (tmp_path / "009-T1.so-far.json").read_text() == before
    with pytest.raises(GtransError, match="name all of them after --corpus"):
        reproduce(plan, [replace(planned, corpora=("other",))], 1, False, [])
    write_finished(plan, [replace(planned, corpora=("mine", "other"))])
    (tmp_path / "009-T1.so-far.json").write_text("{")
    write_finished(plan, [planned])
    assert (tmp_path / "009-T1.so-far.json").read_text() == before


def test_the_csv_has_a_line_for_each_seed(finished_table: tuple[Planned, Plan]) -> None:
    found = list(csv.DictReader(io.StringIO(to_csv(table_of(*finished_table)))))
    assert [(line["row"], line["seed"], float(line["value"])) for line in found] == [
        *(("without", str(seed), value) for seed, value in enumerate(BASELINE, 1)),
        *(("with", str(seed), value) for seed, value in enumerate(BETTER, 1)),
    ]
    assert found[-1]["folder"] == "with/seed-3" and found[-1]["training seconds"] == "30"


def test_a_single_seed_has_its_interval(finished_table: tuple[Planned, Plan]) -> None:
    table = table_of(*finished_table)
    for row in table["rows"]:
        row["runs"] = row["runs"][:1]
        for cell in row["cells"].values():
            cell["spread"] = None
            cell["seeds"] = cell["seeds"][:1]
    assert "| without | 21.00 (19.00–21.00) | 10 |  |" in to_markdown(table).splitlines()


def test_a_change_has_its_interval_where_it_is_known(
    finished_table: tuple[Planned, Plan],
) -> None:
    table = table_of(*finished_table)
    for it in table["rows"][1]["cells"]["s-BLEU"]["seeds"][:2]:
        it["change"] = [-0.25, 4.125]
    lines = to_markdown(table).splitlines()
    head = "|  | against | score | change | 95% interval of each seed | p over seeds |"
    assert f"{head} p of each seed |" in lines
    change = "| with | without | s-BLEU | +2.00 ± 1.00 | -0.25 to +4.12, -0.25 to +4.12, - |"
    assert any(line.startswith(change) for line in lines)
    found = list(csv.DictReader(io.StringIO(to_csv(table))))
    assert [it["change low"] for it in found] == ["", "", "", "-0.25", "-0.25", ""]


def test_a_column_without_a_mean_lists_its_seeds(finished_table: tuple[Planned, Plan]) -> None:
    table = table_of(*finished_table)
    assert table["each_seed"] == []
    table["each_seed"] = ["s-BLEU"]
    seeds = table["rows"][0]["cells"]["s-BLEU"]["seeds"]
    del seeds[1]["interval"]
    seeds[2] |= {"value": -0.001, "interval": [-2.0, 0.5]}
    each = "20.00 (19.00–21.00), 21.00, 0.00 (-2.00 to 0.50)"
    assert f"| without | {each} | 20 |  |" in to_markdown(table).splitlines()


def test_a_mean_over_fewer_seeds_says_so(finished_table: tuple[Planned, Plan]) -> None:
    table = table_of(*finished_table)
    table["rows"][0]["cells"]["s-BLEU"]["seeds"].pop()
    lines = to_markdown(table).splitlines()
    assert "| without | 21.00 ± 1.00 (2 of 3 seeds) | 20 |  |" in lines


def test_models_that_translate_together_are_all_named(
    finished_table: tuple[Planned, Plan],
) -> None:
    planned, plan = finished_table
    first, second = (planned.rows[0].runs[number] for number in (0, 1))
    both = replace(first, checkpoint=f"{first.checkpoint}:{second.checkpoint}")
    rows = (replace(planned.rows[0], runs=(both,), cells={}),)
    table = table_of(replace(planned, rows=rows), plan)
    assert table["rows"][0]["runs"][0]["folder"] == "without/seed-1:without/seed-2"


def test_a_result_is_of_jobs_that_have_all_ended_well(
    finished_table: tuple[Planned, Plan],
) -> None:
    planned, plan = finished_table
    prepared = Job("prepare", ("prepare",), ())
    first = replace(plan.jobs[0], after=("prepare",))
    whole = Plan(plan.folder, (prepared, first, *plan.jobs[1:]))
    assert not _write(planned, whole) and not (plan.folder / "009-T1.md").exists()
    record = {"argv": ["prepare"], "version": "1.2.3"}
    whole.record("prepare").write_text(json.dumps(record))
    assert _write(planned, whole)
    assert json.loads((plan.folder / "009-T1.json").read_text())["version"] == "1.2.3"


def test_a_figure_of_the_table(finished_table: tuple[Planned, Plan], tmp_path: Path) -> None:
    planned, _ = finished_table
    wanted = Figure((X,), ("s-BLEU",))
    draw(wanted, planned.experiment.variants, table_of(*finished_table), tmp_path / "f")
    assert (tmp_path / "f.png").stat().st_size > 1000 and (tmp_path / "f.svg").is_file()
    (panel,) = json.loads((tmp_path / "f.json").read_text())["panels"]
    points = [(p["x"], p["y"], p["low"], p["high"]) for p in panel["series"][0]["points"]]
    assert panel["x_label"] == X and points == [(1, 21, 20, 22), (2, 23, 22, 25)]
