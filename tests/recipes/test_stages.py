"""A recipe in parts: --stage, --only, --outputs, --prepared, and what follows --."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from support.recipes import PLACE, commands
from support.suites import one_in

STAGES = ("prepare", "sentence", "document", "translate", "score")
RECIPES = [
    ("run-randinit", []),
    ("run-randinit", ["--system", "bert", "--bert", "B"]),
    ("run-finetune", []),
    ("run-finetune", ["--system", "document", "--name", "free"]),
    ("run-flat", ["--systems", "flat,sentence,concat,zhang,bert"]),
    ("run-memory", []),
    ("run-bert", ["--systems", "context,aware", "--make-bert", "2x64"]),
    ("run-han", ["--systems", "decoder,joint"]),
    ("run-compare", ["--system", "han"]),
    ("run-compare", ["--system", "whitened", "--bert", "B", "--name", "row"]),
    ("run-mbart", ["--mbart", "m", "--trim", "yes"]),
    ("run-fusion", ["--corpus", "iwslt14", "--source-lang", "en", "--target-lang", "de"]),
]
# beside what --outputs names: logs, marks, the last checkpoint, what a stage reads itself
COMPANIONS = re.compile(
    r"out/(data(-full)?/.*|mbart/made-from\.sha256|.*/(train\.log|checkpoint_last\.pt|finished)"
    r"|.*\.tokens)"
)


@pytest.fixture
def recipe(stand_ins, tmp_path):
    """A recipe with stand-in programs; every training in it ends."""
    (tmp_path / "m").mkdir()
    for name in ("model.pt", "sentence.bpe.model", "dict.txt"):
        (tmp_path / "m" / name).write_text("x", encoding="utf-8")

    def call(name: str, *arguments: str) -> tuple[str, list[str]]:
        done, calls = stand_ins(name, *arguments, FINISH="1")
        assert done.returncode == 0, done.stderr
        return done.stdout, calls

    return call


def written(folder: Path) -> set[str]:
    return {str(path.relative_to(folder)) for path in folder.glob("out/**/*") if path.is_file()}


@pytest.mark.parametrize("given", one_in(3, RECIPES))
def test_what_outputs_names_is_what_the_stages_make(given, recipe, tmp_path):
    """Stage after stage makes the same with the same commands as a whole run."""
    name, options = given
    printed, calls = recipe(name, *options, "--outputs")
    assert not calls and not written(tmp_path), "nothing but names"
    lines = [tuple(line.split("\t")) for line in printed.splitlines()]
    assert len({file for _, _, file in lines}) == len(lines)
    _, whole = recipe(name, *options)
    files = {file for _, _, file in lines}
    assert files <= written(tmp_path)
    rest = written(tmp_path) - files
    assert all(COMPANIONS.fullmatch(file) for file in rest), rest
    (tmp_path / "out").rename(tmp_path / "whole")

    in_parts, made = [], set()
    for stage in STAGES:
        in_parts += recipe(name, *options, "--stage", stage)[1]
        new = written(tmp_path) - made
        made |= new
        of_stage = {file for part, _, file in lines if part == stage}
        assert {file for file in new if not COMPANIONS.fullmatch(file)} <= of_stage <= made
    assert sorted(in_parts) == sorted(whole)


def test_a_job_is_a_stage_and_a_name(recipe):
    """--only: what a variant shares is left to another call."""
    recipe("run-finetune", "--stage", "prepare,sentence")
    variant = ("run-finetune", "--name", "new", "--stage")
    recipe(*variant, "document")
    _, calls = recipe(*variant, "translate", "--only", "new")
    assert [re.search(r"--output (\S+)", call)[1] for call in calls] == ["out/test.new.de"]
    printed, _ = recipe("run-finetune", "--stage", "score", "--only", "sentence", "--outputs")
    assert printed == (
        "score\tsentence\tout/scores.sentence.txt\nscore\tsentence\tout/scores.sentence.json\n"
    )


def test_a_stage_names_what_it_lacks(stand_ins, tmp_path):
    def refused(*arguments: str, name: str = "run-finetune") -> str:
        done, calls = stand_ins(name, *arguments)
        assert not calls
        return the_error_of(done)

    def the_error_of(done) -> str:
        assert done.returncode == 1
        return done.stderr.splitlines()[-1].removeprefix("run-finetune: error: ")

    assert refused("--stage", "sentence") == (
        "out/data/prepare.json: there is no such file; `--stage prepare` makes it."
    )
    assert stand_ins("run-finetune", "--stage", "prepare")[0].returncode == 0
    assert refused("--stage", "document") == (
        "out/sentence/checkpoint_best.pt: there is no such file; `--stage sentence` makes it."
    )
    assert stand_ins("run-finetune", "--stage", "sentence")[0].returncode == 0
    assert refused("--stage", "document") == (
        "out/sentence: its training is not finished; `--stage sentence` goes on with it."
    )
    (tmp_path / "out" / "sentence" / "finished").write_text("1", encoding="utf-8")
    assert refused("--stage", "translate", "--only", "finetune") == (
        "out/finetune/checkpoint_best.pt: there is no such file; `--stage document` makes it."
    )
    assert refused("--stage", "score") == (
        "out/test.sentence.de: there is no such file; `--stage translate` makes it."
    )


@pytest.mark.parametrize(
    ("name", "arguments", "message"),
    [
        ("run-finetune", ["--stage", "train"], "`--stage` must be one of prepare sentence docum"),
        ("run-finetune", ["--only", "new"], "`--only` names 'new', which `--stage prepare,sen"),
        ("run-finetune", ["--stage", "score", "--only", "data"], "`--outputs` lists what there"),
        ("run-finetune", ["--prepared", "p", "--bpe-merges", "9"], "which decides it."),
        ("run-bert", ["--prepared", "p", "--bert", "b"], "`--bert` cannot be combined with `--pr"),
        ("run-finetune", ["--prepared", "p", "--", "prepare:", "--force"], "'prepare:' stands beh"),
        ("run-randinit", ["--", "sentence:", "--lr", "1"], "'sentence:' stands behind"),
        (
            "run-finetune",
            ["--sentence-checkpoint", "s", "--", "sentence:", "--lr", "1"],
            "stands be",
        ),
        ("run-finetune", ["--sentence-checkpoint", "s"], "s: there is no such file (`--sentence-c"),
        ("run-flat", ["--", "sentence:", "--lr", "1"], "'sentence:' stands behind --"),
        ("run-finetune", ["--system", "document", "--start", "lossless"], "`--system gtransform"),
        ("run-finetune", ["--system", "document", "--start", "open"], "`--start open` is for"),
        ("run-randinit", ["--bert", "b"], "`--bert` is for `--system bert`."),
        ("run-randinit", ["--sentence-seed", "2"], "`--sentence-seed` is for fine-tuning"),
        ("run-flat", ["--sentence-seed", "2"], "is for `--systems zhang`"),
        ("run-han", ["--systems", "side"], "`--systems` must be one of encoder decoder joint"),
        ("run-compare", ["--system", "best"], "`--system` must be one of continued concat docum"),
        ("run-compare", ["--system", "context"], "`--bert` is missing: the BERT of `--system c"),
        ("run-compare", ["--bert", "b"], "`--bert` is for `--system context` and `whitened`."),
        ("prepare-bpe", ["--outputs"], "`--outputs` is for the run scripts."),
        ("run-all", ["--only", "data"], "`--only` is for one corpus"),
    ],
)
def test_a_mistake_is_one_line(name, arguments, message, script, tmp_path):
    done = script(name, *PLACE, *arguments)
    assert done.returncode == 1
    error = done.stderr.splitlines()[-1]
    assert error.startswith(f"{name}: error: ") and message in error
    assert not list(tmp_path.iterdir())


def test_another_run_has_prepared_the_corpus(recipe, stand_ins, tmp_path):
    """Seeds share it; a BERT's word pieces are looked for before anything is trained."""
    recipe("run-finetune", "--stage", "prepare")
    (tmp_path / "train.en").unlink()  # only the test text is needed
    prepared = ("--out", "seed-2", "--prepared", "out/data", "--sentence-seed", "2")
    printed, calls = recipe("run-finetune", *prepared, "--outputs")
    assert "prepare\t" not in printed and "\tseed-2/finetune/checkpoint_best.pt\n" in printed
    _, calls = recipe("run-finetune", *prepared)
    assert [call.split()[1] for call in calls] == ["train", "translate"] * 2
    assert all(" out/data " in call for call in calls)
    assert " --seed 2 " in calls[0] and " --seed 1 " in calls[2]
    done, calls = stand_ins("run-bert", *prepared)
    assert done.returncode == 1 and not calls
    assert done.stderr.splitlines()[-1] == (
        "run-bert: error: out/data/train.en-de.en.bert.idx: there is no such file, out/data has "
        "no word pieces of a BERT; `--bert` of the preparation makes them."
    )


def test_a_sentence_model_has_the_seed_that_is_asked_for(recipe, stand_ins, tmp_path):
    recipe("run-finetune")
    _, calls = recipe("run-finetune", "--name", "new", "--seed", "3", "--sentence-seed", "1")
    assert not [call for call in calls if "--save-dir out/sentence" in call], "it is shared"
    for stages in ((), ("--stage", "document")):
        done, calls = stand_ins("run-finetune", "--name", "new", "--sentence-seed", "2", *stages)
        assert done.returncode == 1 and not [call for call in calls if " train " in call]
        assert done.stderr.splitlines()[-1] == (
            "run-finetune: error: out/sentence: this model has another seed than "
            "`--sentence-seed` asks for, 2; take another `--out`."
        )


def test_options_reach_the_stage_that_they_belong_to(script):
    words = ["--memory-layers", "0-1", "--dropout", "0.5", "sentence:", "--lr", "1", "document:",
             "--memory-size", "8", "translate:", "--lenpen", "2", "score:", "--details",
             "prepare:", "--no-truecase"]  # fmt: skip
    done = script("run-memory", *PLACE, "--runs", "1", "--dry-run", "--", *words)
    prepare, sentence, translate, score, memory, *_ = commands(done)
    assert prepare.endswith(" --no-truecase")
    assert sentence.endswith(" --seed 1 --dropout 0.5 --lr 1")
    assert memory.endswith(" --seed 1 --memory-layers 0-1 --dropout 0.5 --memory-size 8")
    assert translate.endswith(" --lenpen 2") and score.endswith(" --details")
    named = script("run-memory", *PLACE, "--runs", "1", "--name", "x", "--dry-run", "--", *words)
    _, sentence, translate, score, _, of_variant, _ = commands(named)
    assert sentence.endswith(" --seed 1 --lr 1")
    assert not translate.endswith(" --lenpen 2") and of_variant.endswith(" --lenpen 2")


def test_the_bert_of_a_sentence_model_without_one(script, stand_ins):
    """--sentence-data decides the vocabulary; --bert has word pieces of its own."""
    existing = ("--sentence-data", "old", "--sentence-checkpoint", "old.pt")
    prepare, *_ = commands(script("run-bert", *PLACE, *existing, "--bert", "B", "--dry-run"))
    assert " --reuse old " in prepare and prepare.endswith(" --bert B")
    prepare, *_ = commands(script("run-bert", *PLACE, *existing, "--dry-run"))
    assert "--bert" not in prepare, "that of the folder, if it has one"
