"""`gtrans reproduce`: what a user types, and what Snakemake makes of a plan."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from importlib.util import find_spec
from pathlib import Path

import pytest
from support.empty_corpus import corpus_in

from gtrans.cli import main
from gtrans.errors import GtransError
from gtrans.experiments import engine
from gtrans.experiments.job import main as run_job
from gtrans.experiments.jobs import Job, Plan

needs_snakemake = pytest.mark.skipif(
    find_spec("snakemake") is None, reason="the extra `experiments` is not installed"
)


@pytest.mark.parametrize(
    ("words", "message"),
    [
        ([], "give the name of a table or figure"),
        (["000-T6"], "`--out` is missing"),
        (["000-T99", "--out", "o"], "there is no experiment '000-T99'"),
        (["000-T6", "--out", "o", "--seeds", "1,1"], "`--seeds` must be different whole numbers"),
        (["000-T6", "--out", "o", "--seeds", "a"], "`--seeds` must be different whole numbers"),
        (["000-T6", "--out", "o", "--cores", "0"], "`--cores` must be at least 1"),
        (["000-T6", "--out", "o", "--set", "x=1"], "scale tiny has no setting 'x'"),
        (["000-T6", "--out", "o", "--scale", "small"], "`--corpus` is missing"),
        (["000-T6", "--out", "o", "--scale", "paper"], "`--data` is missing"),
        (["003-T5.2", "--out", "o"], "003-T5.2 is not shown at scale tiny"),
        (["002-T1", "--out", "o", "--scale", "paper"], "002-T1 cannot be had freely"),
        (["000-T6", "--out", "o", "--rows", "x"], "000-T6: no row 'x', only "),
        (
            ["results-debian", "--out", "o", "--rows", "sentence, trained on with more pairs"],
            "'sentence, trained on with more pairs' of results-debian: not at this scale (",
        ),
        (["000-T6", "--out", "o", "--finished"], "no row of 000-T6 is finished"),
        (["000-T6", "--out", "o", "--finished", "--dry-run"], "leave `--dry-run` out"),
        (["000-T6", "--out", "o", "--corpus", "a", "b", "a"], "`--corpus` names a more than once"),
        (["000-T6", "--list", "000-T6"], "give it behind `--list`"),
    ],
)
def test_a_mistake_is_one_line(
    words: list[str],
    message: str,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
) -> None:
    monkeypatch.chdir(tmp_path)
    assert main(["reproduce", *words]) == 1
    error = capsys.readouterr().err
    assert error.count("\n") == 1 and message in error
    assert list(tmp_path.iterdir()) == []


@needs_snakemake
def test_what_is_not_in_the_folder_of_corpora_is_said_before_anything_is_run(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    data = tmp_path / "data"
    corpus_in(data, "debian-web-ende", "en", "de")
    (data / "contrastive" / "contrapro-ende").mkdir(parents=True)
    # Below the folder of corpora, and nothing of it is there yet.
    words = ["reproduce", "results-debian", "--scale", "small", "--data", str(data), "--out"]
    words += [str(data / "out"), "--seeds", "1", "--dry-run"]

    def missing(*rows: str) -> str:
        capsys.readouterr()
        assert main([*words, *(["--rows", *rows] if rows else [])]) == 1
        error = capsys.readouterr().err
        assert error.count("\n") == 1 and "`--rows` makes other rows alone" in error
        return error.partition(": there is no such file or folder")[0]

    sets, pairs = data / "contrastive" / "contracat-templates-ende", data / "php-manual-ende"
    assert missing("sentence") == f"gtrans: error: {sets}"
    sets.mkdir()
    pairs.mkdir()
    assert main([*words, "--rows", "sentence"]) == 0
    mixed = "sentence, trained on with more pairs"
    assert missing(mixed) == missing() == f"gtrans: error: {pairs / 'train.en'}"
    (pairs / "train.en").touch()
    assert missing(mixed) == f"gtrans: error: {pairs / 'train.de'}"
    (pairs / "train.de.gz").touch()
    assert main([*words, "--rows", mixed]) == 0
    assert not (data / "out").exists()


@needs_snakemake
def test_a_dry_run_that_snakemake_refuses_has_failed(
    tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    words = ["reproduce", "000-T6", "--out", str(tmp_path / "out"), "--dry-run"]
    assert main([*words, "--", "--no-such-option"]) == 1
    assert "nothing could be planned" in capfd.readouterr().err.splitlines()[-1]


def test_a_job_records_how_it_has_ended(tmp_path: Path) -> None:
    record, file = tmp_path / "jobs" / "a.json", tmp_path / "made"
    words = ["--record", str(record), "--makes", str(file), "--", "touch", str(file)]
    assert run_job(words) == 0
    found = json.loads(record.read_text())
    assert found["argv"] == ["touch", str(file)]
    assert found["seconds"] >= 0 and "cores" in found["hardware"]


def test_times_of_stopped_calls_add_up(tmp_path: Path) -> None:
    record, file, go = tmp_path / "a.json", tmp_path / "made", tmp_path / "go"
    work = f"sleep 0.2; test -e {go} || exit 75; test -e {file} || touch {file}"
    words = ["--record", str(record), "--makes", str(file), "--", "sh", "-c", work]

    def seconds() -> tuple[float, float]:
        found = json.loads(record.read_text())
        return found["seconds"], found["last_seconds"]

    assert run_job(words) == 75 and not record.exists()
    go.touch()
    assert run_job(words) == 0
    whole, last = seconds()
    assert whole >= 0.4 and last < whole
    # A call that finds its work done has not trained in no time.
    record.unlink()
    assert run_job(words) == 0 and seconds()[0] == whole
    # One that makes its file anew has taken that time only.
    file.unlink()
    assert run_job(words) == 0
    assert seconds()[0] == seconds()[1]


def test_a_job_that_fails_leaves_no_record(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    record, printed = tmp_path / "a.json", tmp_path / "out.json"
    words = ["--record", str(record), "--stdout", str(printed), "--"]
    assert run_job([*words, "sh", "-c", "echo half; echo why >&2; exit 3"]) == 3
    assert "has failed (status 3: why)" in capsys.readouterr().err
    assert not record.exists() and not printed.exists()
    assert run_job([*words, "echo", "whole"]) == 0 and printed.read_text() == "whole\n"
    missing = ["--record", str(tmp_path / "b.json"), "--makes", str(tmp_path / "no"), "--", "true"]
    assert run_job(missing) == 1 and "is not there" in capsys.readouterr().err
    unknown = ["--record", str(tmp_path / "c.json"), "--", "no-such-program"]
    assert run_job(unknown) == 1 and "cannot be run" in capsys.readouterr().err


@needs_snakemake
def test_what_is_there_is_used_and_what_has_changed_is_made_again(
    tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    # Nothing in the name means anything to a shell or to Snakemake.
    folder = tmp_path / "o{u}t 'of' tiny"
    counted, made = folder / "counted", folder / "made"

    def plan(text: str) -> Plan:
        add = ("sh", "-c", 'echo "$1" >>"$2"', "add", text, str(counted))
        one = Job("jobs/one", add, (str(counted),))
        two = Job("jobs/two", ("cp", str(counted), str(made)), (str(made),), ("jobs/one",))
        return Plan(folder, (one, two))

    engine.reproduce(plan("a"), [], 1, True, [])
    assert not folder.exists() and "jobs/one: sh -c" in "".join(capfd.readouterr())
    engine.reproduce(plan("a"), [], 1, False, [])
    assert made.read_text() == "a\n"
    engine.reproduce(plan("a"), [], 1, False, [])
    assert made.read_text() == "a\n"
    made.unlink()
    engine.reproduce(plan("a"), [], 1, False, [])
    assert made.read_text() == counted.read_text() == "a\n"
    engine.reproduce(plan("b"), [], 1, False, [])
    assert made.read_text() == "a\nb\n"


def test_a_run_script_is_named_without_its_path(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    argv = ["bash", "run-compare.sh", "--help"]
    assert run_job(["--record", "a.json", "--", *argv]) == 0
    assert json.loads(Path("a.json").read_text())["argv"] == argv
    assert "--system" in Path("a.log").read_text()


@needs_snakemake
def test_nothing_runs_again_because_python_stands_elsewhere(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join(filter(None, sys.path)))
    work = ("sh", "-c", 'echo again >>"$1"', "count", str(tmp_path / "counted"))
    plan = Plan(tmp_path / "out", (Job("jobs/count", work, (str(tmp_path / "counted"),)),))
    for name in ("here", "there"):
        python = tmp_path / name / "python"
        python.parent.mkdir()
        python.symlink_to(sys.executable)
        monkeypatch.setattr(sys, "executable", str(python))
        engine.reproduce(plan, [], 1, False, [])
        assert (tmp_path / "counted").read_text() == "again\n"


@needs_snakemake
def test_a_file_with_a_new_date_is_the_same_file(tmp_path: Path) -> None:
    text, counted = tmp_path / "train.de", tmp_path / "counted"
    text.write_bytes(b"ein Satz\n" * 300_000)  # more than Snakemake compares by itself
    work = ("sh", "-c", 'echo again >>"$1"', "count", str(counted))
    plan = Plan(tmp_path / "out", (Job("jobs/count", work, (str(counted),), (), (str(text),)),))

    def times_run() -> int:
        os.utime(text)
        engine.reproduce(plan, [], 1, False, [])
        return len(counted.read_text().splitlines())

    assert times_run() == 1
    assert times_run() == 1
    text.write_bytes(b"ein Wort\n" * 300_000)
    assert times_run() == 2


@needs_snakemake
def test_a_job_that_fails_does_not_stop_the_others(
    tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    bad = Job("jobs/bad", ("sh", "-c", "echo this is why; exit 2"), ())
    good = Job("jobs/good", ("touch", str(tmp_path / "f")), (str(tmp_path / "f"),))
    with pytest.raises(GtransError, match="some jobs have not ended well"):
        engine.reproduce(Plan(tmp_path, (bad, good)), [], 1, False, [])
    assert "status 2: this is why" in "".join(capfd.readouterr())
    assert (tmp_path / "f").is_file() and (tmp_path / "jobs" / "good.json").is_file()


@needs_snakemake
def test_a_signal_ends_the_jobs_and_is_waited_for(tmp_path: Path) -> None:
    work = "trap 'sleep 0.3; touch saved; exit 75' TERM; touch begun; sleep 30 & wait"
    job = Job("jobs/long", ("sh", "-c", f"cd '{tmp_path}'; {work}"), ())
    code = (
        "from pathlib import Path; from gtrans.experiments import engine, jobs; "
        f"engine.reproduce(jobs.Plan(Path({str(tmp_path)!r}), ({job!r},)), [], 1, False, [])"
    ).replace("Job(", "jobs.Job(")
    process = subprocess.Popen([sys.executable, "-c", code], stderr=subprocess.PIPE, text=True)
    deadline = time.monotonic() + 60
    while not (tmp_path / "begun").exists() and time.monotonic() < deadline:
        time.sleep(0.1)
    process.terminate()
    _, error = process.communicate(timeout=30)
    assert process.returncode == 1 and "Ended by SIGTERM; the same command goes on" in error
    assert (tmp_path / "saved").exists() and not (tmp_path / "jobs" / "long.json").exists()


@needs_snakemake
@pytest.mark.long
def test_a_table_from_nothing(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    """Three models of a table, trained for some updates; and again, when all is there."""
    words = ["reproduce", "004-T3", "--scale", "tiny", "--seeds", "1", "--out", str(tmp_path)]
    for change in ("updates=6", "documents=200", "items=4", "bpe-merges=300", "beam=1"):
        words += ["--set", change]
    assert main(words) == 0
    (table,) = tmp_path.glob("tiny.*/004-T3.json")
    rows = {row["label"]: row for row in json.loads(table.read_text())["rows"]}
    assert list(rows) == ["Flat-Transformer", "w/o Segment", "w/o Unified"]
    for row in rows.values():
        assert row["cells"]["s-BLEU"]["seeds"][0]["signature"].startswith("nrefs:1")
        assert (table.parent / row["runs"][0]["folder"] / "checkpoint_best.pt").is_file()
    assert rows["w/o Unified"]["paper"] == [23.28, 44.17]
    assert "p" in rows["w/o Segment"]["cells"]["s-BLEU"]["seeds"][0]
    before = table.read_bytes()
    capfd.readouterr()
    assert main(words) == 0
    assert "Nothing to be done" in "".join(capfd.readouterr()) and table.read_bytes() == before
