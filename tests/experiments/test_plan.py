"""From every experiment to its jobs: nothing collides, and every file has one maker."""

from __future__ import annotations

import argparse
import importlib
from collections import Counter
from pathlib import Path

import pytest
from support.empty_corpus import corpus_in

from gtrans.errors import GtransError
from gtrans.experiments.catalogue import Experiment, Variant, find, read_catalogue
from gtrans.experiments.jobs import Job, Jobs, Plan, in_this_order, read_plan
from gtrans.experiments.plan import plan
from gtrans.experiments.planned import Planned, Wish
from gtrans.experiments.recipes import model_name
from gtrans.experiments.refusals import why_not
from gtrans.experiments.scales import read_scale

OUT = Path("/out")
NOT_AT_TINY = {"002-T5", "003-T5.2"}


def wish(*seeds: int, corpora: tuple[str, ...] = (), data: Path | None = None) -> Wish:
    return Wish(read_scale("tiny"), OUT, data, corpora, seeds or (1,))


@pytest.fixture(scope="module")
def everything() -> tuple[Plan, list[Planned]]:
    """All experiments that the scale tiny has, in one plan."""
    scale = read_scale("tiny")
    return plan([it for it in read_catalogue() if not why_not(it, scale)], wish())


def test_every_experiment_is_made_or_says_why_not(everything: tuple[Plan, list[Planned]]) -> None:
    scale = read_scale("tiny")
    refused = {it.name: why_not(it, scale) for it in read_catalogue() if why_not(it, scale)}
    assert refused.keys() == NOT_AT_TINY
    assert all(name in reason and len(reason) > 30 for name, reason in refused.items())
    assert len(everything[1]) + len(refused) == len(read_catalogue())
    assert all(it.here.columns or it.here.commands for it in read_catalogue())


def test_every_file_has_one_maker_that_runs_before_it_is_needed(
    everything: tuple[Plan, list[Planned]],
) -> None:
    jobs, _ = everything
    files = Counter(file for job in jobs.jobs for file in job.files)
    assert [file for file, makers in files.items() if makers > 1] == []
    assert all(file.startswith("/out/tiny/") for file in files)
    records = Counter(str(jobs.record(job.name)) for job in jobs.jobs)
    assert max(records.values()) == 1 and not records.keys() & files.keys()
    # A job stands behind those that it waits for.
    seen: set[str] = set()
    for job in jobs.jobs:
        assert seen.issuperset(job.after), job.name
        seen.add(job.name)


def test_models_share_what_they_can_and_have_folders_of_their_own(
    everything: tuple[Plan, list[Planned]],
) -> None:
    _, planned = everything
    table = {it.experiment.name: it for it in planned}
    # One training for the same model of three tables.
    names = ("000-T6", "000-T7")
    runs = {table[name].rows[0].runs[0].checkpoint for name in names}
    assert runs == {"/out/tiny/runs/embedded/plain/randinit/seed-1/randinit/checkpoint_best.pt"}
    # Variants have one sentence model.
    of_bert = [row.runs[0] for row in table["003-T5.3"].rows]
    sentence, *others = (run.trained[0] for run in of_bert)
    assert sentence.makes[0].endswith("/seed-1/sentence/checkpoint_best.pt")
    assert all(job.after == (sentence.name,) for job in others)
    assert len({job.makes for job in others}) == 3
    # Seeds share the preparation.
    two, _ = plan(find(read_catalogue(), ["003-T5.3"]), wish(1, 2))
    assert sum(job.name.endswith("/prepare") for job in two.jobs) == 1
    seeds = Counter(word for job in two.jobs for word in job.argv if "seed-" in word)
    assert {"seed-1", "seed-2"} <= {part for word in seeds for part in word.split("/")}


@pytest.mark.long
def test_the_commands_of_other_scales_are_such_as_a_user_could_type(tmp_path: Path) -> None:
    """Every `gtrans` command of the scales small and paper is one that its own options allow."""
    small, paper = read_scale("small"), read_scale("paper")
    corpus_in(tmp_path, "mine", "en", "de")
    for name, langs in paper.languages.items():
        corpus_in(tmp_path, name, *langs)
    for name in ("iwslt17-multi", "opus-100"):
        corpus_in(tmp_path, name, "de-en.de", "de-en.en", "it-en.it", "it-en.en")
    parsers = {}
    for scale, corpora in ((small, ("mine",)), (paper, ())):
        possible = [it for it in read_catalogue() if not why_not(it, scale, tmp_path, corpora)]
        refused = []
        for experiment in possible:
            try:
                jobs, _ = plan([experiment], Wish(scale, OUT, tmp_path, corpora, (1,)))
            except GtransError as error:
                refused.append(f"{experiment.name}: {error}")
                continue
            for job in jobs.jobs:
                assert not any("{" in word and "'" not in word for word in job.argv), job.argv
                if job.argv[0] != "gtrans":
                    continue
                module, words = f"gtrans.cli.{job.argv[1].replace('-', '_')}", job.argv[2:]
                if job.argv[1] == "analyse" and not words[0].startswith("-"):
                    module, words = f"gtrans.lab.analyses.{words[0]}", words[1:]
                if module not in parsers:
                    parsers[module] = argparse.ArgumentParser()
                    importlib.import_module(module).add_arguments(parsers[module])
                parsers[module].parse_args(words)  # ends the test if there is no such option
        assert refused == []


def test_rows_are_run_one_after_the_other(everything: tuple[Plan, list[Planned]]) -> None:
    """All that a row needs has been run before the next row begins."""
    jobs, planned = everything
    (table,) = [it for it in planned if it.experiment.name == "results-debian"]
    own = in_this_order(jobs, table.jobs)
    order = {job.name: number for number, job in enumerate(own.jobs)}
    last = -1
    for row in table.rows[:4]:
        names = [job.name for run in row.runs for job in (*run.trained, *run.translated)]
        assert min(order[name] for name in names) > last
        last = max(order[name] for name in names)
    assert [job.name for job in jobs.jobs] != [job.name for job in own.jobs]
    assert {job.name for job in jobs.jobs} == {job.name for job in own.jobs}


def test_jobs_have_absolute_paths_whatever_is_typed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """They run in a folder of their own."""
    corpus_in(tmp_path / "given", "debian-web-ende", "en", "de")
    monkeypatch.chdir(tmp_path)
    chosen = find(read_catalogue(), ["results-debian", "results-story"])
    given = Wish(read_scale("small"), Path("made"), Path("given"), (), (1,))
    jobs, _ = plan(chosen, given)
    words = [word for job in jobs.jobs for word in (*job.argv, *job.files, *job.reads)]
    assert any(word.endswith("contrastive/contrapro-ende") for word in words)
    assert any(word.endswith("/php-manual-ende/train") for word in words)
    for name in ("given", "made"):
        assert not [word for word in words if word.count(f"{name}/") > word.count(f"/{name}/")]


def test_only_rows_with_a_bert_wait_for_it(everything: tuple[Plan, list[Planned]]) -> None:
    """All start from one sentence model, which is trained before."""
    jobs, planned = everything
    (table,) = [it for it in planned if it.experiment.name == "results-debian"]
    waiting = set()
    for row in table.rows:
        (run,) = row.runs or [None]
        if run is None:
            continue
        names = [job.name for job in jobs.before([run.translated[0].name])]
        assert names.count("runs/embedded/plain/compare/seed-1/jobs/sentence.sentence") == 1
        if "runs/embedded/plain-bert/jobs/prepare" in names:
            waiting.add(row.variant.label)
    assert waiting == {"BERT context", "BERT context, whitened"}


def test_rows_have_the_seeds_that_they_are_made_for(tmp_path: Path) -> None:
    corpus_in(tmp_path, "debian-web-ende", "en", "de")
    (chosen,) = find(read_catalogue(), ["results-debian"])

    def rows(*seeds: int) -> dict[str, tuple[int, ...]]:
        _, (table,) = plan([chosen], Wish(read_scale("small"), OUT, tmp_path, (), seeds))
        assert table.corpora == ("debian-web-ende",)
        return {row.variant.label: tuple(run.seed for run in row.runs) for row in table.rows}

    found = rows(1, 2, 3)
    assert found["sentence, trained on"] == found["recurrent memory"] == (1, 2)
    assert found["HAN"] == (1,)
    assert rows(2)["HAN"] == () and rows(2)["recurrent memory"] == (2,)
    # A row with one seed is tested against the baseline of that seed.
    _, (table,) = plan([chosen], Wish(read_scale("small"), OUT, tmp_path, (), (2, 1)))
    (han,) = [row for row in table.rows if row.variant.label == "HAN"]
    cell = (han.cells or {})["score"][0]
    assert "/seed-1/" in str(cell.against) and len((han.cells or {})["score"]) == 1


def test_two_models_that_are_compared_are_both_trained_before(tmp_path: Path) -> None:
    """What reads two checkpoints, and no measurement of each, waits for both trainings only."""
    corpus_in(tmp_path, "debian-web-ende", "en", "de")
    (chosen,) = find(read_catalogue(), ["results-debian"])
    made, _ = plan([chosen], Wish(read_scale("small"), OUT, tmp_path, (), (1,)))
    (job,) = [it for it in made.jobs if "system-flat.likelihood" in it.name]
    checkpoints = [job.argv[job.argv.index(flag) + 1] for flag in ("--path", "--without")]
    assert [Path(it).parent.name for it in checkpoints] == [
        "compare.system-flat",
        "compare.system-continued",
    ]
    makers = [it for it in made.jobs if set(it.makes) & set(checkpoints)]
    assert sorted(job.after) == sorted(it.name for it in makers)
    # A model with a BERT has a data folder of its own, its baseline another.
    (job,) = [it for it in made.jobs if "system-whitened.likelihood" in it.name]
    folders = [job.argv[job.argv.index(flag) + 1] for flag in ("--data", "--without-data")]
    assert [Path(it).parent.name for it in folders] == ["plain-bert", "plain"]


def test_a_model_in_two_trainings_has_the_time_of_both(tmp_path: Path) -> None:
    corpus_in(tmp_path, "debian-web-ende", "en", "de")
    (chosen,) = find(read_catalogue(), ["results-debian"])
    _, (table,) = plan([chosen], Wish(read_scale("small"), OUT, tmp_path, (), (1,)))
    trained = {row.variant.label: [job.name for run in row.runs for job in run.trained]
               for row in table.rows}  # fmt: skip
    first, second = (name.rpartition("/")[2] for name in trained["HAN"])
    assert first == "compare.system-han-encoder.document"
    assert second == "compare.system-han.document"
    assert len(trained["recurrent memory"]) == 1


def test_a_corpus_is_put_together_from_those_that_are_given(tmp_path: Path) -> None:
    (chosen,) = find(read_catalogue(), ["results-story"])
    given = Wish(read_scale("small"), OUT, tmp_path, (), (1,))
    jobs, (table,) = plan([chosen], given)
    made = jobs.by_name["corpora/story.made"]
    assert made.argv[:3] == ("gtrans", "get-corpus", "story") and str(tmp_path) in made.argv
    assert "/out/small/corpora/story/dev.de" in made.makes
    assert jobs.jobs[0] == made and table.rows[0].runs[0].corpus.job == made.name
    # One that is there is taken as it is.
    corpus_in(tmp_path, "story", "en", "de")
    jobs, _ = plan([chosen], given)
    assert "corpora/story.made" not in jobs.by_name


def test_one_model_is_translated_in_several_ways(everything: tuple[Plan, list[Planned]]) -> None:
    (groups,) = [it for it in everything[1] if it.experiment.name == "002-T6"]
    runs = [row.runs[0] for row in groups.rows]
    assert len({run.checkpoint for run in runs}) == 1
    # Group 6 alone is in two rows.
    assert len(runs) == 12 and len({run.hypothesis for run in runs}) == 11
    assert "{'use_groups': '3:6'}" in runs[8].translated[0].argv


def test_every_row_is_searched_as_its_recipe_does(everything: tuple[Plan, list[Planned]]) -> None:
    wanted = ["--beam", "4", "--lenpen", "0", "--no-repeat-ngram-size", "4", "--cpu"]
    for name, number in (("002-T6", 8), ("002-F10", 2)):
        (table,) = [it for it in everything[1] if it.experiment.name == name]
        argv = list(table.rows[number].runs[0].translated[0].argv)
        assert argv[:2] == ["gtrans", "translate"] and argv.count("--beam") == 1
        assert argv[argv.index("--beam") :][: len(wanted)] == wanted
        assert argv[argv.index("--output") + 1] == table.rows[number].runs[0].hypothesis


def test_an_ensemble_translates_with_the_models_of_its_rows(
    everything: tuple[Plan, list[Planned]],
) -> None:
    (figure,) = [it for it in everything[1] if it.experiment.name == "002-F10"]
    first, second, both, _ = (row.runs[0] for row in figure.rows)
    assert both.checkpoint == f"{first.checkpoint}:{second.checkpoint}"
    assert first.folder.name == "seed-1" and second.folder.name == "seed-101"
    assert set(both.translated[0].after) == {first.trained[0].name, second.trained[0].name}


def test_the_time_of_a_translation_is_that_of_a_whole_one(
    everything: tuple[Plan, list[Planned]],
) -> None:
    jobs, planned = everything
    (table,) = [it for it in planned if it.experiment.name == "002-T7"]
    run, cells = table.rows[0].runs[0], table.rows[0].cells or {}
    (job,) = [it for it in jobs.jobs if it.name.endswith(f"/{run.model}.speed")]
    assert "--force" in job.argv and job.makes != run.translated[0].makes
    assert cells["speed"][0].one == Path(job.makes[0]) and job.name in table.jobs


def test_a_plan_is_read_as_it_was_written(tmp_path: Path) -> None:
    job = Job("a/b", ("echo", "{x} 'y'"), ("/f",), ("c",), ("/g",), "/h", 2)
    Plan(tmp_path, (job,)).write(tmp_path / "plan.json")
    assert read_plan(tmp_path / "plan.json") == Plan(tmp_path, (job,))


def test_two_commands_for_one_file_are_refused() -> None:
    jobs = Jobs()
    jobs.add(Job("a", ("x",), ("/f",)))
    assert jobs.add(Job("a", ("x",), ("/f",))).name == "a"
    with pytest.raises(GtransError, match="two experiments want different commands"):
        jobs.add(Job("a", ("y",), ("/f",)))
    with pytest.raises(GtransError, match="both a and b make it"):
        jobs.add(Job("b", ("x",), ("/f",)))


def test_names_of_models_tell_options_apart() -> None:
    assert model_name("randinit", []) == "randinit"
    dropout = model_name("randinit", ["--", "--word-dropout 0"])
    assert dropout == "randinit.word-dropout-0"
    long = [f"--option-{number} {number}" for number in range(20)]
    one, two = (model_name("flat", [*long, last]) for last in ("--a", "--b"))
    assert one != two and len(one) < 100


def test_a_corpus_of_the_users_own(tmp_path: Path) -> None:
    scale = read_scale("small")
    chosen = find(read_catalogue(), ["000-T6"])

    def planned(**more: object) -> list[Planned]:
        given = {"data": tmp_path, "corpora": ("mine",), **more}
        return plan(chosen, Wish(scale, OUT, seeds=(1,), **given))[1]  # type: ignore[arg-type]

    with pytest.raises(GtransError, match="`--corpus` is missing"):
        planned(corpora=())
    with pytest.raises(GtransError, match="`--data` is missing"):
        planned(data=None)
    with pytest.raises(GtransError, match="mine: there is no such folder"):
        planned()
    (tmp_path / "mine").mkdir()
    with pytest.raises(GtransError, match="its languages are not clear"):
        planned()
    for split in ("train", "dev", "test"):
        for lang in ("en", "fr"):
            (tmp_path / "mine" / f"{split}.{lang}").touch()
    (table,) = planned()
    run = table.rows[0].runs[0]
    assert (run.corpus.source, run.corpus.target) == ("en", "fr")
    # Contrastive sets are those of the embedded corpus.
    assert table.rows[0].cells is not None and table.rows[0].cells.keys() == {"score"}


def test_commands_are_run_for_each_corpus(tmp_path: Path) -> None:
    for name in ("one", "two"):
        (tmp_path / name).mkdir()
        for split in ("train", "dev", "test"):
            for lang in ("en", "de"):
                (tmp_path / name / f"{split}.{lang}").touch()
    chosen = find(read_catalogue(), ["000-F4"])
    given = Wish(read_scale("small"), OUT, tmp_path, ("one", "two"), (1, 2))
    jobs, (figure,) = plan(chosen, given)
    for name in ("one", "two"):
        stem = f"/out/small/000-F4.entropy.{name}"
        argv = jobs.by_name[f"results/000-F4.entropy.{name}"].argv
        assert f"{stem}.png" in argv and Path(f"{stem}.json") in figure.made
        folders = [word for word in argv if "=/out" in word]
        assert len(folders) == 4 and all(f"/runs/{name}/" in word for word in folders)
        assert argv[argv.index("--data") + 1] == f"/out/small/runs/{name}/plain/data"


def test_a_variant_that_a_scale_leaves_out() -> None:
    variant = Variant("a", "flat", ("--x",), "", "", at={"tiny": None, "small": ("--y",)})
    assert variant.options_at("tiny") is None
    assert variant.options_at("small") == ("--y",)
    assert variant.options_at("paper") == ("--x",)


def test_what_nobody_can_have_freely_says_so() -> None:
    (closed,) = find(read_catalogue(), ["002-T1"])
    assert "Linguistic Data Consortium" in why_not(closed, read_scale("paper"))
    opened: Experiment = closed
    assert why_not(opened, read_scale("tiny")) == ""


def test_who_has_a_corpus_may_use_it(tmp_path: Path) -> None:
    scale, (closed,) = read_scale("paper"), find(read_catalogue(), ["002-T1"])
    assert "cannot be had freely" in why_not(closed, scale, tmp_path)
    corpus_in(tmp_path, "ldc-zhen", "zh", "en")
    corpus_in(tmp_path, "mine", "fr", "en")
    assert why_not(closed, scale, tmp_path) == ""
    jobs, _ = plan([closed], Wish(scale, OUT, tmp_path, ("ldc-zhen", "mine"), (1,)))
    for name, settings, segmenter in (("ldc-zhen", "ldc", True), ("mine", "iwslt14", False)):
        (prepare,) = [it for it in jobs.jobs if it.name == f"runs/{name}/fusion/jobs/prepare"]
        assert prepare.argv[prepare.argv.index("--corpus") + 1] == settings
        assert ("jieba" in prepare.argv) == segmenter


def test_samples_are_of_the_corpora_that_they_are_for(tmp_path: Path) -> None:
    corpus_in(tmp_path, "mine", "en", "de")
    corpus_in(tmp_path, "europarl7", "en", "de")
    wish = Wish(read_scale("paper"), OUT, tmp_path, ("europarl7", "mine"), (1,))
    _, (figure,) = plan(find(read_catalogue(), ["000-F2"]), wish)
    rows = {(row.variant.label, row.corpus): row for row in figure.rows}
    assert rows["1/8 of the instances", "europarl7"].runs
    left_out = rows["1/8 of the instances", "mine"]
    assert not left_out.runs and "share of europarl7" in left_out.why_not
    assert rows["all instances", "mine"].runs
