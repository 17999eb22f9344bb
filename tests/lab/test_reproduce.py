"""`gtrans reproduce`: the catalogue, what is planned for every entry, and one table to its end."""

from __future__ import annotations

import json
import os
import shlex
import signal
import subprocess
import sys
import tarfile
import time
from collections import Counter
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest
import yaml
from support.empty_corpus import corpus_in

from gtrans.cli import main
from gtrans.errors import GtransError
from gtrans.files import digest
from gtrans.lab.experiments import (
    PAPERS,
    SCALES,
    ExperimentPlan,
    find_tables,
    flag_words,
    read_catalogue,
    read_definitions,
)
from gtrans.lab.tables import collect_results

needs_snakemake = pytest.mark.skipif(
    find_spec("snakemake") is None, reason="the extra `experiments` is not installed"
)
NOT_AT_TINY = {"fusion-T5", "bert-context-T5.2"}


def plan(*tables: str, **request: Any) -> ExperimentPlan:
    return ExperimentPlan({"scale": "tiny", "tables": tables, **request})


@pytest.fixture
def corpora(tmp_path: Path) -> Path:
    """A folder of all corpora of the papers, whose texts are empty."""
    data = tmp_path / "data"
    languages = read_definitions("scales")["paper"]["languages"]
    for name in {it for table in read_catalogue().values() for it in table.corpora}:
        if name in ("iwslt17-multi", "opus-100"):
            corpus_in(data, name, "de-en.de", "de-en.en", "it-en.it", "it-en.en")
        else:
            corpus_in(data, name, *languages.get(name, ("en", "de")))
    return data


# --- the catalogue ----------------------------------------------------------------------


def test_the_list_names_every_table_in_words(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["reproduce", "--list"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert sum(not line.startswith("results-") for line in lines) == 52 and len(lines) == 62
    title = "BLEU of all systems on three corpora, without and with pretraining"
    assert lines[1].split(maxsplit=1) == ["gtransformer-T2", title]
    assert any(
        it.endswith("Seven systems on Chinese to English, 6 + 6 layers (not free)") for it in lines
    )


def test_one_of_the_list_has_the_papers_numbers_and_ways(
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert main(["reproduce", "--list", "gtransformer-T2"]) == 0
    ((name, entry),) = yaml.safe_load(capsys.readouterr().out).items()
    assert name == "gtransformer-T2" and entry["contradictions"][0].startswith("The abstract")
    quoted = "SAN (Maruf et al. 2019)"
    assert entry["printed"]["rows"][quoted] == [24.42, None, 24.84, None, 29.75, None]
    assert entry["rows"][quoted] == {"note": "quoted; the model is not in this project"}
    row = entry["rows"]["G-Transformer fine-tuned on sent Transformer"]
    assert row["against"] == "Transformer on sent"
    assert entry["models"][row["model"]]["config"] == "gtransformer_finetune"
    assert main(["reproduce", "flat", "--list"]) == 0
    assert list(yaml.safe_load(capsys.readouterr().out)) == list(find_tables(["flat"]))


def test_the_catalogue_is_whole() -> None:
    every = read_catalogue()
    assert Counter(table.paper["name"] for table in every.values()) == {
        "gtransformer": 13,
        "memory": 10,
        "fusion": 18,
        "bert-context": 8,
        "flat": 3,
        "results": 10,
    }
    for table in every.values():
        assert (set(table.scales) == set(SCALES) and table.columns) or table.commands, table.name
        printed = table.printed
        for values in printed.get("rows", {}).values():
            assert len(values) == len(printed["columns"]), table.name
        assert set(printed.get("quoted", ())) <= set(printed.get("rows", ())), table.name
        for row in table.rows.values():
            assert row.model or row.ensemble or row.note, (table.name, row.label)
            assert {row.against or row.label, *row.ensemble} <= set(table.rows), table.name
        for axis in (table.figure or {"x": ()})["x"]:
            assert any(axis in row.x for row in table.rows.values()), table.name
    assert len(find_tables(PAPERS)) == len(every) == 62


def test_every_model_has_a_file_of_configs_and_flags_at_a_scale(repo: Path) -> None:
    models, configs = read_definitions("models"), set()
    for name, model in models.items():
        config = model["config"]
        configs |= {config} if isinstance(config, str) else set(config.values())
        assert model.get("start", name) in models, name
    assert [it for it in sorted(configs) if not (repo / "configs" / f"{it}.yaml").is_file()] == []
    used = {row.model for table in read_catalogue().values() for row in table.rows.values()} - {""}
    started = {model["start"] for model in models.values() if "start" in model}
    assert models.keys() == used | started
    for scale in read_definitions("scales").values():
        kinds = {model.get("kind", name) for name, model in models.items()}
        assert set(scale["kinds"]) <= kinds
        values = {**dict.fromkeys(scale["settings"], "1"), "data": "d"}
        for flags in scale["kinds"].values():
            assert all(it.format_map(values) for it in flag_words(flags))


# --- plans ------------------------------------------------------------------------------


def test_every_entry_is_planned_at_tiny_or_says_why_not() -> None:
    whole = plan(*PAPERS)
    assert read_catalogue().keys() - whole.tables.keys() == NOT_AT_TINY
    assert all(" is not shown at scale tiny: No tiny scale: " in it for it in whole.left_out)
    for table in whole.tables.values():
        files = whole.inputs(table)
        assert files and len(files) == len(set(files)), table.name
    # All settings of a model are in its name, or models of two rows would be one.
    models = whole.models.values()
    assert len({str(it) for it in models}) == len(models)


def test_every_entry_is_planned_at_the_other_scales(corpora: Path) -> None:
    for name, table in read_catalogue().items():
        several = any(row.model.startswith("multilingual") for row in table.rows.values())
        given = ["iwslt17-multi" if several else "debian-web-ende"]
        for scale, names in (("small", given), ("paper", [])):
            if table.scales[scale]:
                made = plan(name, scale=scale, corpora=names, data=str(corpora))
                assert made.inputs(made.tables[name]), (name, scale)


def test_chosen_rows_come_with_what_they_are_tested_against() -> None:
    some = plan("gtransformer-T3", "fusion-F10", rows=["- source-side context", "Big1 + Big2"])
    assert [list(it.rows) for it in some.tables.values()] == [
        ["G-Transformer (fnt.)", "- target-side context", "- source-side context"],
        ["Big1", "Big2", "Big1 + Big2"],
    ]
    big1, big2, both = some.rows(some.tables["fusion-F10"])
    assert some.translations[both.runs[0].name].models == [big1.runs[0].model, big2.runs[0].model]
    assert flag_words(some.models[big2.runs[0].model]["train"])[-2:] == ["--seed", "10{seed}"]
    # A table has all its rows that are there.
    assert len(some.with_all_seeds().tables["fusion-F10"].rows) == 4


def test_settings_and_scales() -> None:
    changed = plan("flat-T3", set=["updates=20", "sentence-updates=7"], amp=True)
    assert changed.label == "tiny.amp.sentence-updates-7.updates-20"
    settings = changed.settings
    assert settings["sentence-updates"] == "7" and settings["fusion-updates"] == "20"
    words = ["--scale", "tiny", "--amp", "--set", "sentence-updates=7", "--set", "updates=20"]
    command = collect_results(changed, changed.tables["flat-T3"])["command"]
    assert command == ["gtrans", "reproduce", "flat-T3", *words]


def test_a_corpus_of_several_pairs_is_scored_in_all_directions(corpora: Path) -> None:
    several = ExperimentPlan({"scale": "paper", "tables": ["fusion-T4"], "data": str(corpora)})
    files = several.inputs(several.tables["fusion-T4"])
    scored = {Path(it).stem for it in files if "/directions/" in it}
    assert scored == {"en-de", "de-en", "en-it", "it-en"}
    assert several.corpus("iwslt17-multi").pairs and not several.corpus("europarl7").pairs


@pytest.mark.parametrize(
    ("words", "message"),
    [
        ([], "give the name of a table or figure"),
        (["gtransformer-T6"], "`--out`, the folder to write"),
        (["gtransformer-T66"], "`--out`"),
        (["gtransformer-T66", "--out", "o"], "'gtransformer-T66'; did you mean gtransformer-T6?"),
        (["gtransformer-t6", "--out", "o"], "'gtransformer-t6'; did you mean gtransformer-T6?"),
        (["gtransformer-T6", "--out", "o", "--set", "x=1"], "scale tiny has no setting 'x'"),
        (["gtransformer-T6", "--out", "o", "--set", "beam=0"], "a whole number of at least 1"),
        (["gtransformer-T6", "--out", "o", "--scale", "small"], "`--corpus` is missing"),
        (["gtransformer-T6", "--out", "o", "--scale", "paper"], "`--data` is missing"),
        (["bert-context-T5.2", "--out", "o"], "bert-context-T5.2 is not shown at scale tiny"),
        (["fusion-T1", "--out", "o", "--scale", "paper"], "`--data` is missing"),
        (["gtransformer-T6", "--out", "o", "--rows", "x"], "'x': there is no such row, only "),
        (["memory-F2", "--out", "o", "--rows", "512 vectors"], "512 vectors': not at this scale"),
        (
            ["flat-T3", "--out", "o", "--scale", "small", "--corpus", "c", "--data", "."],
            "c: there is no such folder (`--data`, `--corpus`)",
        ),
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


@pytest.mark.parametrize(
    ("files", "message"),
    [
        (["train.en"], "its languages are not clear"),
        (
            ["train.en", "train.de", "valid.en", "valid.de", "test.en"],
            "test.de: there is no such file",
        ),
        (["train.de-en.de", "train.en-it.it"], "its languages are not clear"),
    ],
)
def test_a_corpus_that_is_not_whole_is_one_line(
    files: list[str], message: str, tmp_path: Path
) -> None:
    (tmp_path / "c").mkdir()
    for name in files:
        (tmp_path / "c" / name).touch()
    request = {"tables": ["flat-T3"], "corpora": ["c"], "data": str(tmp_path)}
    with pytest.raises(GtransError, match=message):
        ExperimentPlan({"scale": "small", **request})


# --- Snakemake --------------------------------------------------------------------------


def commands(capfd: pytest.CaptureFixture[str]) -> list[str]:
    """The commands that Snakemake has printed."""
    text, shell = capfd.readouterr(), "Shell command: "
    return [it.partition(shell)[2] for it in (text.out + text.err).splitlines() if shell in it]


@needs_snakemake
def test_a_dry_run_with_verbose_prints_all_commands(
    tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    tables = ["gtransformer-T6", "fusion-T4", "fusion-F7", "memory-F3", "bert-context-T5.5"]
    words = ["reproduce", *tables, "--out", str(tmp_path / "out"), "--seeds", "1", "--dry-run"]
    assert main([*words, "--verbose"]) == 0
    lines = commands(capfd)
    names = {shlex.split(it)[1] for it in lines if it.startswith("gtrans ")}
    whole = "make-corpus prepare train translate score contrast generate analyse report"
    assert {*whole.split()} <= names
    (group,) = {it for it in lines if "--encoder-top-attention group" in it and " train " in it}
    assert group.startswith("gtrans train data/synthetic/plain --config gtransformer_randinit ")
    assert "--arch gtransformer_tiny" in group and group.count("--seed 1 ") == 1
    assert not (tmp_path / "out").exists()


@needs_snakemake
@pytest.mark.long
@pytest.mark.parametrize("scale", ["tiny", "paper"])
def test_every_training_has_options_that_gtrans_train_knows(
    scale: str, corpora: Path, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    import gtrans.cli.train as command
    from gtrans.cli.shared.config_file import take_config
    from gtrans.cli.shared.fairseq_commands import parse
    from gtrans.environment import import_plugin

    words = ["reproduce", *PAPERS, "--scale", scale, "--seeds", "1", "--data", str(corpora)]
    corpus_in(corpora, "php-manual-ende", "en", "de")
    for name in ("contrastive/contrapro-ende", "contrastive/contracat-templates-ende"):
        (corpora / name).mkdir(parents=True)
    (corpora / "opensubtitles-enru" / "consistency").mkdir()
    for name in ("deixis_test", "ellipsis_infl", "ellipsis_vp"):
        (corpora / "opensubtitles-enru" / "consistency" / f"{name}.json").touch()
    assert main([*words, "--out", str(tmp_path / "out"), "--dry-run", "--verbose"]) == 0
    import_plugin()
    from fairseq import options

    trainings = {it for it in commands(capfd) if it.startswith("gtrans train ")}
    assert len(trainings) > 150
    for line in trainings:
        config, own = take_config(shlex.split(line.partition(" >>")[0])[2:])
        assert config is not None
        of_file = config.words_before(own)
        make = options.get_training_parser
        args, unread = parse(command, make, [*of_file, *own], trains=True, ignorable=of_file)
        config.check_unread(unread, own, vars(args))


@needs_snakemake
def test_a_signal_ends_what_was_started(tmp_path: Path) -> None:
    program = (
        "import sys, gtrans.lab.reproduce as it; from pathlib import Path; "
        "here = Path(sys.argv[1]); it._SNAKEFILE = here / 'Snakefile'; "
        "sys.exit(it._snakemake({}, here, here, ['--cores', '1']) and 3)"
    )
    rule = "rule all:\n    output: 'x'\n    shell: 'echo $$ >started; sleep 60; touch x'\n"
    (tmp_path / "Snakefile").write_text(rule)
    words = [sys.executable, "-c", program, str(tmp_path)]
    process = subprocess.Popen(words, start_new_session=True)
    started = tmp_path / "started"
    for _ in range(600):
        if started.is_file() and started.read_text().strip():
            break
        time.sleep(0.1)
    process.send_signal(signal.SIGTERM)
    assert process.wait(60) == 3
    with pytest.raises(ProcessLookupError):
        os.kill(int(started.read_text()), 0)


def check_again(
    folder: Path, table: Any, again: Path, capfd: pytest.CaptureFixture[str], seeds: int = 9
) -> None:
    """What is published gives the same scores and the same tests, without any model."""
    with tarfile.open(folder / f"{table['experiment']}.translations.tar.xz") as packed:
        packed.extraction_filter = getattr(tarfile, "data_filter", None)
        packed.extractall(again)
    rows = {row["label"]: row for row in table["rows"] if row["runs"]}
    checked = 0
    for row in rows.values():
        for run in row["runs"][:seeds]:
            assert digest(again / run["translation"]) == run["sha256"]
            assert run["trained with"]["torch"] == table["made with"]["torch"]
            hyp = [f"row={again / run['translation']}"]
            if row["baseline"]:
                (other,) = [it for it in rows[row["baseline"]]["runs"] if it["seed"] == run["seed"]]
                hyp = [f"baseline={again / other['translation']}", *hyp]
            text = [f"{again}/corpora/synthetic/test.{lang}" for lang in ("en", "de")]
            words = ["--src", text[0], "--ref", text[1], "--target-lang", "de", "--json"]
            capfd.readouterr()
            assert main(["score", "--hyp", *hyp, *words]) == 0
            found = json.loads(capfd.readouterr().out)["systems"]["row"]
            for title, key in (("s-BLEU", "s_bleu"), ("d-BLEU", "d_bleu")):
                (own,) = [it for it in row["cells"][title]["seeds"] if it["seed"] == run["seed"]]
                assert own["value"] == found[key]["score"]
                assert own["interval"] == found[key]["confidence"]["interval"]
                if row["baseline"]:
                    comparison = found[key]["comparison"]
                    assert own["p"] == comparison["paired_randomisation"]["p"]
                    assert own["change"] == comparison["interval"]
                checked += 1
    assert checked >= 4


def test_published_translations_give_the_published_numbers(
    repo: Path, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    folder = repo / "results" / "reproduced"
    table = json.loads((folder / "gtransformer-T6.json").read_text(encoding="utf-8"))
    table["rows"] = [row for row in table["rows"] if row["label"] != "Only global attention"]
    check_again(folder, table, tmp_path, capfd, seeds=1)


@needs_snakemake
@pytest.mark.long
def test_a_table_is_made_goes_on_and_gets_seeds(
    tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    words = ["reproduce", "gtransformer-T6", "--out", str(tmp_path), "--set", "updates=3"]
    words += ["--set", "documents=200", "--set", "items=4", "--set", "bpe-merges=100"]
    rows = ["--rows", "Only group attention"]
    assert main([*words, *rows, "--seeds", "1"]) == 0
    (folder,) = tmp_path.glob("tiny.*")
    table = json.loads((folder / "gtransformer-T6.json").read_text())
    rows_of = {row["label"]: row for row in table["rows"]}
    group = rows_of["Only group attention"]
    assert group["cells"]["s-BLEU"]["seeds"][0]["p"] > 0
    assert len(group["cells"]["accuracy"]["seeds"]) == 1
    assert rows_of["Only global attention"]["why_not"] == "not made"
    assert "| Only group attention |" in (folder / "gtransformer-T6.md").read_text()
    check_again(folder, table, tmp_path / "again", capfd)
    # What is finished is not run again, and what is lost is.
    checkpoint = folder / "runs/synthetic/seed-1/gtransformer-random/checkpoint_best.pt"
    before = checkpoint.stat().st_mtime_ns
    (folder / "runs/synthetic/seed-1/test.gtransformer-random.de").unlink()
    assert main([*words, *rows, "--seeds", "1"]) == 0
    assert checkpoint.stat().st_mtime_ns == before
    assert "train gtransformer" not in "".join(capfd.readouterr())
    assert main([*words, "--rows", "Combined attention", "--seeds", "2"]) == 0
    table = json.loads((folder / "gtransformer-T6.json").read_text())
    cell = next(row for row in table["rows"] if row["label"] == "Combined attention")
    assert [it["seed"] for it in cell["cells"]["s-BLEU"]["seeds"]] == [1, 2]


def test_a_corpus_is_found_by_the_name_that_get_corpus_gives_it(tmp_path: Path) -> None:
    corpus_in(tmp_path, "iwslt17", "en", "de")
    request = {"scale": "paper", "tables": ["gtransformer-T2"], "corpora": ["ted-iwslt17"]}
    text = ExperimentPlan({**request, "data": str(tmp_path)}).corpus("ted-iwslt17")
    assert (text.name, text.folder) == ("ted-iwslt17", tmp_path / "iwslt17")
