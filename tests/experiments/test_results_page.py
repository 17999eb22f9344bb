"""``scripts/results.py``: the page of the project's own experiments."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

from support.finished_table import BETTER

from gtrans.experiments.engine import _write, write_finished
from gtrans.experiments.jobs import Plan
from gtrans.experiments.planned import Planned
from gtrans.experiments.scales import read_scale
from gtrans.experiments.tables import table_of


def test_the_page_of_results_keeps_what_is_written_by_hand(
    finished_table: tuple[Planned, Plan], tmp_path: Path, repo: Path
) -> None:
    planned, plan = finished_table
    paper = replace(planned.experiment.paper, id="results")
    experiment = replace(planned.experiment, name="results-debian", paper=paper)
    scale = read_scale("tiny", ["updates=20"])
    planned = replace(planned, experiment=experiment, scale=scale)
    assert _write(planned, plan)
    # Rows that are written later, of another call, do not take the place of the whole table.
    rows = (*planned.rows[:1], replace(planned.rows[1], runs=(), cells=None, why_not="left out"))
    write_finished(plan, [replace(planned, rows=rows)])
    page = tmp_path / "page.md"
    command = [sys.executable, repo / "scripts" / "results.py", tmp_path, "--page", page]
    mark = "<!-- written by scripts/results.py -->"
    for _ in range(2):
        subprocess.run(command, check=True, capture_output=True)
        above, below = page.read_text().split(mark)
        page.write_text(f"{above}What it means.\n\n{mark}\nOld.\n")
    assert above == "# What the systems do on real text\n\nWhat it means.\n\n"
    assert "Old." not in below
    lines = below.splitlines()
    assert "| without | 21.00 ± 1.00 | 20 |  |" in lines
    row = "| with | 2 | 9 | a CPU | `gtrans reproduce results-debian --scale tiny --set"
    assert f"{row} updates=20 --data DATA --out OUT --seeds 2 --rows with` |" in lines
    kept = (tmp_path / "results" / "results-debian.tiny.updates-20.json").read_text()
    assert str(tmp_path) not in kept
    assert json.loads(kept)["rows"][1]["cells"]["s-BLEU"]["seeds"][0]["value"] == BETTER[0]
    page.write_text("# Another page\n")
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 1 and f"it has no line {mark}" in done.stderr
    assert page.read_text() == "# Another page\n"
    page.unlink()
    for text, message in (("{", "not readable"), ("{}", "it has no columns")):
        (tmp_path / "results-debian.json").write_text(text)
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        assert done.returncode == 1 and done.stderr.count("\n") == 1 and message in done.stderr
    (tmp_path / "results-debian.json").unlink()
    (tmp_path / "results" / "results-debian.tiny.updates-20.json").unlink()
    subprocess.run(command, check=True, capture_output=True)
    assert "left out" in page.read_text()
    # Experiments of two folders are one page; the same one at the same scale in both is refused.
    other = tmp_path / "other"
    other.mkdir()
    text = (tmp_path / "results-debian.so-far.json").read_text()
    (other / "results-story.so-far.json").write_text(text.replace("-debian", "-story"))
    command.insert(3, other)
    subprocess.run(command, check=True, capture_output=True)
    titles = [line.partition(":")[0] for line in page.read_text().splitlines() if line[:3] == "## "]
    assert titles == [
        *("## The tables", "## Changes at a glance"),
        *("## results-debian", "## results-story"),
    ]
    second = other / "results-debian.so-far.json"
    second.write_text(text.replace("tiny.updates-20", "tiny.updates-30"))
    subprocess.run(command, check=True, capture_output=True)
    titles = [line for line in page.read_text().splitlines() if line[:17] == "## results-debian"]
    scales = [title.partition(" (mine, ")[2] for title in titles]
    updates = "20 updates of the sentence model and 20 further ones, scale"
    assert scales == [f"{updates} tiny.updates-20)", f"{updates} tiny.updates-30)"]
    assert (tmp_path / "results" / "results-debian.tiny.updates-30.json").is_file()
    second.write_text(text)
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 1
    assert "results-debian at scale tiny.updates-20 is in" in done.stderr


def test_rows_of_a_later_run_join_those_that_are_published(
    finished_table: tuple[Planned, Plan], tmp_path: Path, repo: Path
) -> None:
    planned, plan = finished_table
    experiment = replace(planned.experiment, name="results-debian")
    table = table_of(replace(planned, experiment=experiment), plan)
    over = "log-probability above the baseline in nats"
    table["columns"][over] = 3
    above = [{"seed": 1, "value": 0.25, "interval": [-0.0001, 0.5]}]
    table["rows"][1]["cells"][over] = {"mean": 0.25, "spread": None, "seeds": above}
    missing: dict[str, Any] = {"runs": [], "cells": {}, "why_not": "not finished"}
    table["rows"].insert(2, {**table["rows"][1], **missing, "label": "later"})
    page, out = tmp_path / "page.md", tmp_path / "out"
    out.mkdir()
    command = [sys.executable, repo / "scripts" / "results.py", out, "--page", page]

    def publish(rows: list[dict[str, Any]], **others: Any) -> subprocess.CompletedProcess[str]:
        text = json.dumps({**table, "rows": rows, **others})
        (out / "results-debian.json").write_text(text)
        return subprocess.run(command, capture_output=True, text=True, check=False)

    assert publish(table["rows"]).returncode == 0
    # Another call has one seed of the baseline, and the row that was missing; "with" is not in it.
    rows = json.loads(json.dumps(table["rows"]))
    rows[2] = {**rows[1], "label": "later"}
    missing_row = rows[1] = {**rows[1], **missing}
    rows[0]["runs"] = rows[0]["runs"][:1]
    cell = rows[0]["cells"]["s-BLEU"]
    cell["seeds"] = cell["seeds"][:1]
    assert publish(rows).returncode == 0
    published = page.read_text()
    for label, value in (("without", "21.00"), ("with", "23.00"), ("later", "23.00")):
        assert f"| {label} | {value} ±" in published
    glance = "| with, against without | +2.00 (p = 0.03, 0.03, 0.03) |  |  |  |  | "
    glance += "+0.250 (+0.000 to +0.500), -, - | 25.12 |"
    assert glance in published.splitlines()
    assert "not finished" not in published
    # A page without folders is made of what is published; nothing changes.
    command.remove(out)
    subprocess.run(command, check=True, capture_output=True)
    assert page.read_text() == published
    command.insert(2, out)
    # A new row would be beside a baseline that stays, which it was not tested against.
    cell["seeds"][0]["value"] = 20.5
    rows[2]["cells"]["s-BLEU"]["mean"] = 30.0
    done = publish([rows[0], missing_row, rows[2]])
    assert done.returncode == 1
    assert "'later' was tested against 'without' of 20.5000" in done.stderr
    assert "the page would have 20.0000 (s-BLEU, seed 1)" in done.stderr
    # So would a row that stays, beside a baseline that is made again.
    again = json.loads(json.dumps(table["rows"][0]))
    again["cells"]["s-BLEU"]["seeds"][1]["value"] = 20.75
    done = publish([again, missing_row])
    assert done.returncode == 1 and done.stderr.count("\n") == 1
    assert "'with' was tested against 'without' of 21.0000" in done.stderr
    # All of them made again take the place of those before, and a column that is new stays.
    rows = json.loads(json.dumps(table["rows"]))
    rows[2] = {**rows[1], "label": "later"}
    for row in rows[:3]:
        row["cells"] |= {name: {**row["cells"]["s-BLEU"], "mean": 21.5} for name in ("s-BLEU", "x")}
    assert publish(rows, columns={"s-BLEU": 2, "x": 1, over: 3}).returncode == 0
    assert "| without | 21.50 ±" in page.read_text()
    # A row of an older catalogue stays, and so does one that is made again with fewer scores.
    for row in rows[:2]:
        del row["cells"]["x"]
    done = publish(rows[:2])
    assert done.returncode == 0
    assert "'with' stays as published, which has more seeds or scores" in done.stderr
    assert "| later | 21.50 ±" in page.read_text() and "| without | 21.50 ±" in page.read_text()
    # What only the run with fewer scores knows of the same numbers is added to those that stay.
    rows[1]["cells"]["s-BLEU"]["seeds"][0]["change"] = [0.5, 3.5]
    assert publish(rows[:2]).returncode == 0
    published = json.loads((page.parent / "results" / "results-debian.tiny.json").read_text())
    seeds = published["rows"][1]["cells"]["s-BLEU"]["seeds"]
    assert [it.get("change") for it in seeds] == [[0.5, 3.5], None, None]
    done = publish(rows, corpora=["another"])
    assert done.returncode == 1 and "has other corpora than" in done.stderr
    command[command.index(page)] = tmp_path / "other" / "page.md"
    command.remove(out)
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 1 and "nothing is published yet" in done.stderr


def test_what_one_table_knows_of_the_same_numbers_is_in_all(
    finished_table: tuple[Planned, Plan], tmp_path: Path, repo: Path
) -> None:
    planned, plan = finished_table
    text = json.dumps(table_of(planned, plan))
    changes = [[0.5, 3.5], [0.25, 1.5], [2.0, 4.0]]
    page = tmp_path / "page.md"
    command = [sys.executable, repo / "scripts" / "results.py", tmp_path, "--page", page]

    def publish(change: Callable[[dict[str, Any], dict[str, Any]], object]) -> list[str]:
        """With `change` of the limits table and its row `with`."""
        table = {**json.loads(text), "experiment": "results-debian"}
        table["settings"] = {"first-updates": 500, "further-updates": 300}
        row = table["rows"][1]
        row["remark"] = "of an earlier form"
        row["cells"]["tokens a second in training"] = {
            "mean": 9.0, "spread": None, "seeds": [{"seed": 1, "value": 9.0}],
            "difference": {"mean": 4.0, "spread": None, "p": None},
        }  # fmt: skip
        (tmp_path / "results-debian.json").write_text(json.dumps(table))
        limits = {**json.loads(text), "experiment": "results-limits"}
        row = limits["rows"][1]
        for it, of in zip(row["cells"]["s-BLEU"]["seeds"], changes, strict=True):
            it |= {"change": of, "p": 0.5}
        change(limits, row)
        (tmp_path / "results-limits.json").write_text(json.dumps(limits))
        for path in (tmp_path / "results").glob("*.json"):
            path.unlink()
        subprocess.run(command, check=True, capture_output=True)
        return page.read_text().splitlines()

    def lent() -> list[Any]:
        kept = json.loads((tmp_path / "results" / "results-debian.tiny.json").read_text())
        cells = kept["rows"][1]["cells"]
        assert "difference" not in cells["tokens a second in training"]
        # A test that is there stays.
        assert {it["p"] for it in cells["s-BLEU"]["seeds"]} == {0.03}
        return [it.get("change") for it in cells["s-BLEU"]["seeds"]]

    def value(table: dict[str, Any], row: int, to: float) -> None:
        table["rows"][row]["cells"]["s-BLEU"]["seeds"][0]["value"] = to

    lines = publish(lambda table, row: None)
    assert lent() == changes
    glance = lines[lines.index("## Changes at a glance") :]
    updates = "500 updates of the sentence model and 300 further ones"
    assert f"results-debian: mine, {updates}, scale tiny:" in glance
    rows = [line for line in glance if line.startswith("| with, against without | ")]
    ends = "+0.50 to +3.50, +0.25 to +1.50, +2.00 to +4.00"
    (row,) = rows
    assert row.startswith(f"| with, against without | +2.00 ({ends}; p = 0.03, 0.03, 0.03)")
    assert lines.count("- row with: of an earlier form") == 2  # of its table, and at a glance
    # Another number of the row or of its baseline, or no baseline: another model.
    publish(lambda table, row: value(table, 1, 22.5))
    assert lent() == [None, *changes[1:]]
    publish(lambda table, row: value(table, 0, 20.5))
    assert lent() == [None, *changes[1:]]
    publish(lambda table, row: table["rows"][0]["cells"].clear())
    assert lent() == [None] * 3
    publish(lambda table, row: row.update(label="another"))
    assert lent() == [None] * 3
    publish(lambda table, row: table.update(scale="small"))
    assert lent() == [None] * 3


def test_figures_stand_on_the_page_and_beside_it(
    finished_table: tuple[Planned, Plan], tmp_path: Path, repo: Path
) -> None:
    planned, plan = finished_table
    table = table_of(
        replace(planned, experiment=replace(planned.experiment, name="results-over-training")), plan
    )
    page, out = tmp_path / "page.md", tmp_path / "out"
    out.mkdir()
    own = "results-over-training"
    made = [f"{own}.attention{end}" for end in (".svg", ".csv", ".json")]
    command = [sys.executable, repo / "scripts" / "results.py", out, "--page", page]

    def publish(rows: list[dict[str, Any]], content: str) -> None:
        for name in made:
            (out / name).write_text(content)
        (out / f"{own}.json").write_text(json.dumps({**table, "rows": rows, "made": made}))
        subprocess.run(command, check=True, capture_output=True)

    publish(table["rows"], "of all rows")
    picture, numbers = (f"{own}.{table['scale']}.attention{end}" for end in (".svg", ".csv"))
    lines = page.read_text().splitlines()
    assert f"![results/{picture}](results/{picture})" in lines
    assert f"Files: [results/{numbers}](results/{numbers})." in lines
    for name in (picture, numbers):
        assert (tmp_path / "results" / name).read_text() == "of all rows"
    # The numbers of a table are in JSON already; a second file there would be taken for a table.
    assert len(list((tmp_path / "results").iterdir())) == 3
    # A figure of fewer rows does not take its place, and a page of what is published keeps it.
    fewer = {**table["rows"][1], "runs": [], "cells": {}, "why_not": "not finished"}
    publish([table["rows"][0], fewer], "of one row")
    assert (tmp_path / "results" / picture).read_text() == "of all rows"
    # Nor does none, as in what `--finished` writes.
    (out / f"{own}.json").write_text(json.dumps({**table, "made": []}))
    subprocess.run(command, check=True, capture_output=True)
    assert f"![results/{picture}](results/{picture})" in page.read_text().splitlines()
    command.remove(out)
    subprocess.run(command, check=True, capture_output=True)
    assert f"![results/{picture}](results/{picture})" in page.read_text().splitlines()
    assert (tmp_path / "results" / picture).read_text() == "of all rows"
    # A figure that is gone is said in one line, and the page stays as it is.
    command.insert(2, out)
    (out / made[0]).unlink()
    (out / f"{own}.json").write_text(json.dumps({**table, "made": made}))
    # Of another table nothing is written either.
    (out / "results-debian.json").write_text(json.dumps({**table, "experiment": "results-debian"}))
    before = page.read_text()
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert not (tmp_path / "results" / "results-debian.tiny.json").exists()
    assert done.returncode == 1 and done.stderr.count("\n") == 1
    assert f"{made[0]}: this figure of {own} is missing" in done.stderr
    assert page.read_text() == before


def test_a_remark_stays_until_its_row_has_other_scores(
    finished_table: tuple[Planned, Plan], tmp_path: Path, repo: Path
) -> None:
    text, page = json.dumps(table_of(*finished_table)), tmp_path / "page.md"
    command = [sys.executable, repo / "scripts" / "results.py", tmp_path, "--page", page]
    published = tmp_path / "results" / "results-debian.tiny.json"

    def remarked(value: float) -> bool:
        """After another run in which a score of the row is this one."""
        table = {**json.loads(text), "experiment": "results-debian"}
        table["rows"][1]["cells"]["s-BLEU"]["seeds"][0]["value"] = value
        (tmp_path / "results-debian.json").write_text(json.dumps(table))
        subprocess.run(command, check=True, capture_output=True)
        kept = json.loads(published.read_text())["rows"][1].get("remark")
        assert (kept is not None) == ("made on another machine" in page.read_text())
        return kept is not None

    assert not remarked(BETTER[0])
    table = json.loads(published.read_text())
    table["rows"][1]["remark"] = "made on another machine"
    published.write_text(json.dumps(table))
    assert remarked(BETTER[0])
    assert not remarked(BETTER[0] + 0.1)


def test_scores_that_only_a_run_with_fewer_seeds_has_join_the_others(
    finished_table: tuple[Planned, Plan], tmp_path: Path, repo: Path
) -> None:
    table = {**table_of(*finished_table), "experiment": "results-debian"}
    text, page = json.dumps(table), tmp_path / "page.md"
    command = [sys.executable, repo / "scripts" / "results.py", tmp_path, "--page", page]
    over = "log-probability above the baseline in nats"

    def published(value: float) -> tuple[list[str], str]:
        """The scores of a row after a run with its second seed, and its line at a glance."""
        for path in (tmp_path / "results").glob("*.json"):
            path.unlink()
        (tmp_path / "results-debian.json").write_text(text)
        subprocess.run(command, check=True, capture_output=True)
        fewer = json.loads(text)
        for row in fewer["rows"]:
            row["runs"] = row["runs"][1:2]
            for cell in row["cells"].values():
                cell["seeds"] = cell["seeds"][1:2]
        row = fewer["rows"][1]
        row["cells"]["s-BLEU"]["seeds"][0] |= {"value": value, "change": [0.5, 1.5]}
        of_seed = {"seed": 2, "value": 0.25, "interval": [0.0, 0.5]}
        row["cells"][over] = {"mean": 0.25, "spread": None, "seeds": [of_seed]}
        fewer["columns"][over] = 3
        (tmp_path / "results-debian.json").write_text(json.dumps(fewer))
        subprocess.run(command, check=True, capture_output=True)
        kept = json.loads((tmp_path / "results" / "results-debian.tiny.json").read_text())
        lines = [it for it in page.read_text().splitlines() if it.startswith("| with, against")]
        return list(kept["rows"][1]["cells"]), lines[0]

    titles, line = published(BETTER[1])
    assert titles == [over, "s-BLEU"] or titles == ["s-BLEU", over]
    assert "| +2.00 (-, +0.50 to +1.50, -; p = 0.03, 0.03, 0.03) |" in line
    assert "| -, +0.250 (+0.000 to +0.500), - |" in line
    # Of other models nothing is added.
    titles, line = published(BETTER[1] + 0.5)
    assert titles == ["s-BLEU"] and "| +2.00 (p = 0.03, 0.03, 0.03) |" in line


def test_a_page_that_cannot_be_written_leaves_no_numbers(
    finished_table: tuple[Planned, Plan], tmp_path: Path, repo: Path
) -> None:
    table = {**table_of(*finished_table), "experiment": "results-debian"}
    (tmp_path / "results-debian.json").write_text(json.dumps(table))
    page = tmp_path / "pages"
    page.mkdir()
    command = [sys.executable, repo / "scripts" / "results.py", tmp_path, "--page", page]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 1 and "`--page`" in done.stderr and done.stderr.count("\n") == 1
    assert not (tmp_path / "results").exists()
