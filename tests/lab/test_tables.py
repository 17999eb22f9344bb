"""The tables of `gtrans reproduce`: numbers from canned measurements, and committed results."""

from __future__ import annotations

import hashlib
import json
import tarfile
from math import isclose
from pathlib import Path
from typing import Any

import pytest
from support.empty_corpus import corpus_in

from gtrans.errors import GtransError
from gtrans.lab.experiments import ExperimentPlan, read_definitions
from gtrans.lab.provenance import provenance
from gtrans.lab.tables import collect_results, draw, read_number, to_markdown, write_results

NAME = "flat-T3"
SIGNATURE = "nrefs:1|tok:13a"
LOG = """2026-01-01 00:00:00 | INFO | fairseq_cli.train | num. shared model params: 1,500,000 (..)
2026-01-01 00:00:00 | INFO | train | epoch 001 | loss 9 | wps 100 | num_updates 5 | wall {wall}
2026-01-01 00:00:00 | INFO | valid | epoch 001 | valid on 'valid' subset | loss 8 | num_updates 5
2026-01-01 00:00:00 | INFO | valid | epoch 002 | valid on 'valid' subset | loss 6 | num_updates 9
"""


def scores(value: float, p: float | None = None, **more: Any) -> dict[str, Any]:
    """What `gtrans score --json` prints, in short."""
    entry: dict[str, Any] = {
        "score": value,
        "signature": SIGNATURE,
        "confidence": {"interval": [value - 1, value + 1]},
    }
    if p is not None:
        test = {"paired_randomisation": {"p": p}, "interval": [0.5, 1.5], **more}
        entry["comparison"] = test
    return {"systems": {"row": {"s_bleu": entry, "chrf": entry}}}


def measured(
    plan: ExperimentPlan, label: str, values: dict[int, Any], p: float | None = None
) -> None:
    """Files of finished runs, in the current folder, with an s-BLEU for each seed."""
    table = plan.tables[NAME]
    (row,) = [it for it in plan.rows(table) if it.row.label == label]
    for run in row.runs:
        if run.seed not in values:
            continue
        folder = Path(run.folder, run.model)
        folder.mkdir(parents=True)
        (folder / "trained").write_text(json.dumps({"commit": "abc"}))
        (folder / "train.log").write_text(LOG.format(wall=10 * run.seed))
        (file,) = plan.files("score", run)
        Path(file).parent.mkdir(parents=True, exist_ok=True)
        Path(file).write_text(json.dumps(scores(values[run.seed], p)))


@pytest.fixture
def plan(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> ExperimentPlan:
    """Three seeds of two rows that are made, and a row that is not."""
    monkeypatch.chdir(tmp_path)
    made = ExperimentPlan({"scale": "tiny", "tables": [NAME], "seeds": [1, 2, 3]})
    measured(made, "Flat-Transformer", {1: 20.0, 2: 21.0, 3: 22.0})
    measured(made, "w/o Segment", {1: 22.0, 2: 22.0, 3: 25.0}, 0.03)
    return made


def test_differences_that_rounding_alone_tells_apart_have_no_test(plan: ExperimentPlan) -> None:
    for number, file in enumerate(sorted(Path().glob("runs/*/*/measures/score/*~*.json")), 1):
        file.write_text(json.dumps(scores(19.0 + number + (1.4e-14 if number == 1 else 0) + 0.1)))
    cell = collect_results(plan, plan.tables[NAME])["rows"][1]["cells"]["s-BLEU"]
    assert cell["difference"]["p"] is None and isclose(cell["difference"]["mean"], 0.1)


def test_files_have_all_of_it(plan: ExperimentPlan) -> None:
    # Also of a plan for one row and another seed: the table has what is there.
    write_results(ExperimentPlan({"scale": "tiny", "tables": [NAME], "seeds": [4]}), NAME)
    text = Path(f"{NAME}.md").read_text()
    assert "| Flat-Transformer | 21.00 ± 1.00 | 21.00 ± 1.00 | 20 |" in text
    assert "| Flat-Transformer | 24.87 | 47.05 |" in text
    assert "- w/o Unified: not made" in text and "Seeds 1, 2, 3: a cell" in text
    intervals = ", ".join(["+0.50 to +1.50"] * 3)
    tested = "0.03, 0.03, 0.03 | paired approximate randomisation"
    change = "| w/o Segment | Flat-Transformer | s-BLEU | +2.00 ± 1.00"
    assert f"{change} | 0.0742 | {intervals} | {tested} |" in text
    assert f"- s-BLEU: `{SIGNATURE}`" in text
    table = json.loads(Path(f"{NAME}.json").read_text())
    first, better, other = table["rows"]
    score = first["cells"]["s-BLEU"]["seeds"][0]
    assert score["value"] == 20 and score["interval"] == [19, 21]
    score = better["cells"]["s-BLEU"]["seeds"][0]
    assert score["p"] == 0.03 and score["change"] == [0.5, 1.5]
    # t = 2 / (1 / sqrt 3) with 2 degrees of freedom: p = 1 - t / sqrt(t ** 2 + 2).
    assert isclose(better["cells"]["s-BLEU"]["difference"]["p"], 1 - 12**0.5 / 14**0.5)
    run = {"seed": 2, "folder": "runs/synthetic/seed-2/flat-nosegment", "seconds": 20}
    assert better["runs"][1] == {**run, "trained with": {"commit": "abc"}}
    assert table["printed"]["rows"]["w/o Segment"] == [24.36, "46.20"]
    assert better["baseline"] == "Flat-Transformer"
    assert other["why_not"] == "not made" and other["cells"] == {}


CONTRAST = {
    "all": {"accuracy": 0.5, "interval": [0.4, 0.6]},
    "by_phenomenon": {"pronoun": {"accuracy": 0.75}},
    "by_distance": {"1": {"accuracy": 0.25}},
    "contrastive": {"pronoun": {"1": 1.0}},
    "others": {
        "row": {
            "mcnemar": {"all": {"p": 0.1}},
            "mcnemar_by_distance": {"1": {"p": 0.2}},
            "difference": {"all": {"interval": [0.1, 0.2]}},
        }
    },
}


@pytest.mark.parametrize(
    ("title", "content", "expected"),
    [
        (
            "accuracy",
            CONTRAST,
            {
                "value": 50,
                "interval": [40, 60],
                "p": 0.1,
                "test": "exact McNemar",
                "change": [10, 20],
            },
        ),
        ("pronouns", CONTRAST, {"value": 75}),
        ("accuracy at distance 1", CONTRAST, {"value": 25, "p": 0.2, "test": "exact McNemar"}),
        ("pronouns at distance 1", CONTRAST, {"value": 100}),
        ("accuracy at distance 3", CONTRAST, None),
        (
            "context use in nats",
            {"value": 0.5, "interval": [0.4, 0.6]},
            {"value": 0.5, "interval": [0.4, 0.6]},
        ),
        ("information gain in bits", {"facts": {"models": [{"gain": 2.0}]}}, {"value": 2.0}),
        ("d-BLEU", scores(20.0), None),
        (
            "p of non-inferiority (margin 0.2 chrF2)",
            scores(20.0, 0.5, non_inferiority={"p": 0.01}),
            {"value": 0.01},
        ),
        ("p of non-inferiority (margin 0.2 chrF2)", scores(20.0), None),
    ],
)
def test_a_number_is_found_in_what_a_command_prints(
    title: str, content: Any, expected: Any, tmp_path: Path
) -> None:
    plan = ExperimentPlan({"scale": "tiny", "tables": ["gtransformer-T6"]})
    run = plan.rows(plan.tables["gtransformer-T6"])[0].runs[0]
    file = tmp_path / "measure.json"
    file.write_text(json.dumps(content))
    found = read_number(plan, run, read_definitions("columns")["columns"][title], [file])
    assert found == expected


def test_numbers_of_a_training_and_of_the_time_of_a_translation(
    plan: ExperimentPlan, tmp_path: Path
) -> None:
    run = plan.rows(plan.tables[NAME])[0].runs[0]
    mark = Path(run.folder, run.model, "trained")

    def number(title: str, *files: Path) -> float:
        found = read_number(plan, run, read_definitions("columns")["columns"][title], files)
        assert found is not None
        return float(found["value"])

    assert number("validation loss", mark) == 6
    assert number("tokens a second in training", mark) == 100
    assert number("parameters in millions", mark, mark) == pytest.approx(3)
    (tmp_path / "x.tsv").write_text("s\th:m:s\n2.5\t0:00:02\n")
    (tmp_path / "x.txt").write_text("a b c\n\nd e\n")
    assert number("words a second", tmp_path / "x.tsv", tmp_path / "x.txt") == 2


def test_means_over_directions_and_classes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    for part in ("train", "valid", "test"):
        for pair in ("de-en", "fr-en"):
            for lang in pair.split("-"):
                (tmp_path / "c").mkdir(exist_ok=True)
                (tmp_path / "c" / f"{part}.{pair}.{lang}").touch()
    request = {"scale": "small", "tables": ["fusion-T5"], "corpora": ["c"], "data": str(tmp_path)}
    plan = ExperimentPlan(request)
    rows = plan.rows(plan.tables["fusion-T5"])
    _, reference, gtrans = [it for it in rows if it.row.label != "XLM-R"]
    run = gtrans.runs[0]
    assert run.against == reference.runs[0]
    prepared = Path("data/c", plan.preparation(run.model))
    prepared.mkdir(parents=True)
    (prepared / "pairs.json").write_text('{"de-en": 100000, "fr-en": 10}')
    files = [Path(it) for it in plan.files("directions", run)]
    assert plan.corpus("c").directions == ["en-de", "de-en", "en-fr", "fr-en"]
    for file, value in zip(files, (10.0, 20.0, 30.0, 40.0, 10.5, 19.0, 29.0, 41.0), strict=True):
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(json.dumps(scores(value)))
    columns = read_definitions("columns")["columns"]
    found = {
        title: read_number(plan, run, columns[title], files)
        for title in plan.tables["fusion-T5"].columns
        if "BLEU" in title or "ratio" in title
    }
    values = {title: it and it["value"] for title, it in found.items()}
    assert values == {
        "X-En s-BLEU high": 20,
        "X-En s-BLEU medium": None,
        "X-En s-BLEU low": 40,
        "X-En s-BLEU all": 30,
        "X-En win ratio": 50,
        "En-X s-BLEU high": 10,
        "En-X s-BLEU medium": None,
        "En-X s-BLEU low": 30,
        "En-X s-BLEU all": 20,
        "En-X win ratio": 50,
    }


def test_a_figure_has_a_curve_for_each_series(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pytest.importorskip("matplotlib")
    monkeypatch.chdir(tmp_path)
    plan = ExperimentPlan({"scale": "tiny", "tables": ["gtransformer-F7"], "seeds": [1]})
    table = plan.tables["gtransformer-F7"]
    rows = [
        {"label": label, "corpus": "c", "cells": {"d-BLEU": {"seeds": [{"seed": 1, "value": 2.0}]}}}
        for label in ("Transformer, 64 tokens", "G-Transformer, 64 tokens")
    ]
    made = draw(table, {"rows": rows, "corpora": ["c"], "scale": "tiny"})
    assert made == [f"gtransformer-F7.figure{it}" for it in (".png", ".svg")]
    assert all(Path(it).stat().st_size for it in made)
    panels = json.loads(Path("gtransformer-F7.figure.json").read_text())["panels"]
    assert [it["label"] for it in panels[0]["series"]] == ["document Transformer", "G-Transformer"]


# --- where numbers come from -------------------------------------------------------------

LINES = "".join(f"Satz {n}.\n" for n in range(20))


def translated(plan: ExperimentPlan, label: str, text: str) -> Path:
    """The translation of a row by its first seed."""
    (row,) = [it for it in plan.rows(plan.tables[NAME]) if it.row.label == label]
    file = Path(plan.translation(row.runs[0]))
    file.write_text(text, encoding="utf-8")
    return file


def test_numbers_say_where_they_come_from(plan: ExperimentPlan) -> None:
    for lang in ("en", "de"):
        Path("corpora/synthetic").mkdir(parents=True, exist_ok=True)
        Path(f"corpora/synthetic/test.{lang}").write_text(LINES)
    file = translated(plan, "Flat-Transformer", LINES)
    write_results(plan, NAME)
    found = json.loads(Path(f"{NAME}.json").read_text())
    assert found["made with"] == provenance()
    assert {"date", "commit", "gtrans", "python", "torch", "fairseq", "sacrebleu"} == {
        *found["made with"]
    }
    sha = hashlib.sha256(LINES.encode()).hexdigest()
    assert found["data"] == {"synthetic": {"test.en": sha, "test.de": sha}}
    first = found["rows"][0]["runs"][0]
    assert (first["translation"], first["sha256"]) == (str(file), sha)
    archive = Path(f"{NAME}.translations.tar.xz")
    before = archive.read_bytes()
    with tarfile.open(archive) as packed:
        names = ["corpora/synthetic/test.de", "corpora/synthetic/test.en", str(file)]
        assert packed.getnames() == names
    assert archive.name in found["made"]
    write_results(plan, NAME)
    assert archive.read_bytes() == before


def test_a_copy_of_another_row_is_an_error(plan: ExperimentPlan) -> None:
    translated(plan, "Flat-Transformer", LINES)
    file = translated(plan, "w/o Segment", LINES)
    with pytest.raises(
        GtransError, match=rf"{file.name} \(w/o Segment\) is the same as .*flat\.de"
    ):
        collect_results(plan, plan.tables[NAME])
    for label in ("Flat-Transformer", "w/o Segment"):  # models that have learned nothing
        translated(plan, label, "nein\n" * 20)
    collect_results(plan, plan.tables[NAME])


def test_a_control_has_no_numbers_of_its_model(tmp_path: Path) -> None:
    corpus_in(tmp_path, "debian-web-ende", "en", "de")
    request = {"scale": "small", "tables": ["results-limits"], "data": str(tmp_path)}
    plan = ExperimentPlan(request)
    rows = {it.row.label: it for it in plan.rows(plan.tables["results-limits"])}
    plain, shuffled = (rows[f"G-Transformer{end}"].runs[0] for end in ("", ", shuffled context"))
    assert plain.model == shuffled.model and shuffled.row.control == "shuffled"
    for measure, both in (("score", True), ("contrapro", False), ("cxmi", False)):
        assert plan.files(measure, plain)
        assert bool(plan.files(measure, shuffled)) == both


def test_fewer_seeds_are_said(plan: ExperimentPlan) -> None:
    sorted(Path().glob("runs/*/seed-2/measures/score/flat.json"))[0].unlink()
    text = to_markdown(collect_results(plan, plan.tables[NAME]))
    assert "| Flat-Transformer | 21.00 ± 1.41 (2 of 3 seeds) |" in text


def test_a_measure_that_is_damaged_is_named(plan: ExperimentPlan) -> None:
    (file,) = Path().glob("runs/*/seed-1/measures/score/flat.json")
    file.write_text("{")
    with pytest.raises(GtransError, match=r"flat\.json: not JSON"):
        collect_results(plan, plan.tables[NAME])
