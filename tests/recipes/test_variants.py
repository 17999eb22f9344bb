"""Run again in one --out: every stage decides for itself, other settings need a name."""

from __future__ import annotations

import re

import pytest
from support.recipes import PLACE, commands, the_error

DIFFERENT = "--save-dir out/x holds a run with other settings: --seed 1 -> 2; give --restart"


def models(calls: list[str]) -> list[str]:
    """The models that are trained, in order."""
    return [found for call in calls for found in re.findall(r"--save-dir out/(\S+)", call)]


def training_of(model: str, calls: list[str]) -> str:
    (call,) = (call for call in calls if f" --save-dir out/{model} " in call)
    return call


RECIPES = [
    ("run-finetune", [], ["sentence", "finetune"], ["sentence", "new"]),
    ("run-finetune", ["--start", "lossless"], ["sentence", "finetune-lossless"],
     ["sentence", "new"]),
    ("run-finetune", ["--start", "open"], ["sentence", "finetune-open"], ["sentence", "new"]),
    ("run-randinit", [], ["randinit"], ["new"]),
    ("run-randinit", ["--system", "document"], ["document"], ["new"]),
    ("run-flat", [], ["flat"], ["new"]),
    ("run-flat", ["--systems", "flat,concat"], ["flat", "concat"], ["new-flat", "new-concat"]),
    ("run-bert", [], ["sentence", "context"], ["sentence", "new"]),
    ("run-bert", ["--systems", "context,fused"], ["sentence", "context", "fused"],
     ["sentence", "new-context", "new-fused"]),
    ("run-memory", [], ["memory-sentence-1", "memory-1", "memory-sentence-2", "memory-2"],
     ["memory-sentence-1", "new-1", "memory-sentence-2", "new-2"]),
    ("run-mbart", ["--mbart", "m"], ["mbart-sentence", "mbart-document", "mbart-gtransformer"],
     ["new-sentence", "new-document", "new-gtransformer"]),
    ("run-mbart", ["--mbart", "m", "--systems", "document"], ["mbart-document"], ["new"]),
    ("run-fusion", ["--corpus", "iwslt14"], ["fusion-gtrans"], ["new"]),
    ("run-multilingual", ["--corpus", "iwslt17-multi"], ["fusion-gtrans"], ["new"]),
    ("run-all", ["--corpus", "nc2016"],
     ["nc2016/randinit", "nc2016/sentence", "nc2016/finetune"],
     ["nc2016/new-randinit", "nc2016/sentence", "nc2016/new-finetune"]),
]  # fmt: skip


@pytest.mark.parametrize(("recipe", "options", "usual", "variant"), RECIPES)
def test_a_name_is_that_of_the_document_model(recipe, options, usual, variant, script):
    place = [*PLACE, *options, "--dry-run"]
    for name, expected in (([], usual), (["--name", "new"], variant)):
        done = commands(script(recipe, *place, *name))
        assert models(done) == expected
        translated = re.findall(r"--output out/(\S*?)test\.(\S+)\.\w\w ", "\n".join(done))
        if recipe != "run-multilingual":  # which translates by gtrans generate
            assert [f"{folder}{model}" for folder, model in translated] == expected


@pytest.mark.parametrize("recipe", ["run-randinit", "run-fusion", "run-all"])
@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("data", "`--name` is 'data', a folder that the recipes use themselves; give another."),
        ("sentence", "`--name` is 'sentence', a folder that the recipes use themselves"),
        ("memory-sentence-1", "is 'memory-sentence-1', a folder that the recipes use themselves"),
        ("mbart", "`--name` is 'mbart', a folder"),
        ("a/b", "`--name` must begin with a letter or digit, and have only these, '.', '_' and"),
        ("..", "`--name` must begin with a letter or digit"),
        ("", "`--name` must begin with a letter or digit"),
    ],
)
def test_a_name_that_is_refused(recipe, name, message, script, tmp_path):
    assert message in the_error(script(recipe, *PLACE, "--name", name))
    assert not list(tmp_path.iterdir())


def test_every_stage_is_asked_again(stand_ins):
    """No stage is skipped by what its command line was: its command knows what is left to do."""
    first, calls = stand_ins("run-finetune")
    assert first.returncode == 0, first.stderr
    assert [call.split()[:2][-1] for call in calls] == [
        "prepare", "train", "translate", "train", "translate"
    ]  # fmt: skip
    again, repeated = stand_ins("run-finetune")
    assert again.returncode == 0, again.stderr
    assert repeated == calls


def test_what_follows_is_for_the_document_model_of_a_variant(stand_ins, tmp_path):
    """The sentence model that it shares is trained as without it, if it is not yet finished."""
    variant = ("run-finetune", "--name", "new", "--seed", "7", "--", "--dropout", "0.5")
    _, usual = stand_ins("run-finetune")
    done, calls = stand_ins(*variant)
    assert done.returncode == 0, done.stderr
    assert training_of("sentence", calls) == training_of("sentence", usual)
    assert training_of("new", calls).endswith(" --dropout 0.5")
    assert " --seed 7 " in training_of("new", calls)

    (tmp_path / "out" / "sentence" / "finished").touch()
    done, calls = stand_ins(*variant)
    assert "out/sentence is finished and used as it is" in done.stderr
    assert models(calls) == ["new"]
    assert "--init-from out/sentence/checkpoint_best.pt" in training_of("new", calls)
    scores = {path.name for path in (tmp_path / "out").glob("scores.*")}
    tables = ("scores.sentence", "scores.finetune", "scores.new")
    assert scores == {f"{table}.{kind}" for table in tables for kind in ("txt", "json")}


def test_runs_of_a_memory_variant_share_the_sentence_models(stand_ins, tmp_path):
    for model in ("memory-sentence-1", "memory-sentence-2"):
        folder = tmp_path / "out" / model
        folder.mkdir(parents=True)
        for name in ("checkpoint_last.pt", "checkpoint_best.pt", "finished"):
            (folder / name).touch()
    done, calls = stand_ins("run-memory", "--name", "new", "--seed", "5")
    assert done.returncode == 0, done.stderr
    assert models(calls) == ["new-5", "new-6"]
    assert "--init-from out/memory-sentence-2/checkpoint_best.pt" in training_of("new-6", calls)
    mean = (tmp_path / "out" / "scores.new.txt").read_text(encoding="utf-8")
    assert "scores.new-5.txt" in mean
    assert re.search(r"^s-BLEU +12\.34 +14\.34 +\+2\.00$", mean, re.MULTILINE)


@pytest.mark.parametrize("model", ["sentence", "finetune"])
def test_a_training_that_refuses_ends_the_recipe(model, stand_ins, tmp_path):
    """Its status comes through the pipe to the log."""
    done, calls = stand_ins("run-finetune", REFUSE=f"{model}:{DIFFERENT}")
    assert done.returncode == 1
    assert models(calls)[-1] == model and calls[-1].startswith("gtrans train ")
    assert f"gtrans: error: {DIFFERENT}" in done.stdout
    assert done.stderr.splitlines()[-1] == (
        f"run-finetune: error: out/{model}: for other settings, `--name NAME` makes a variant "
        "beside it; `-- --restart` starts it anew."
    )
    assert DIFFERENT in (tmp_path / "out" / model / "train.log").read_text(encoding="utf-8")


def test_a_training_that_fails_ends_the_recipe(stand_ins):
    done, calls = stand_ins("run-randinit", REFUSE="randinit:no more memory")
    assert done.returncode == 1 and calls[-1].startswith("gtrans train ")
    last = done.stderr.splitlines()[-1]
    assert last.endswith("out/randinit: the training has failed, see out/randinit/train.log.")


def test_the_corpus_keeps_its_merges(stand_ins):
    """Models of one --out share it, so that a variant need not repeat the number."""
    merges = re.compile(r"--bpe-merges (\d+)")
    given = [["--bpe-merges", "500"], [], ["--name", "new"], ["--bpe-merges", "700"], []]
    found = [merges.findall(stand_ins("run-randinit", *options)[1][0])[0] for options in given]
    assert found == ["500", "500", "500", "700", "700"]


def test_another_mbart_is_trimmed_anew(stand_ins, tmp_path):
    def trimmed(folder: str, content: str) -> bool:
        (tmp_path / folder).mkdir(exist_ok=True)
        for name in ("model.pt", "sentence.bpe.model", "dict.txt"):
            (tmp_path / folder / name).write_text(content, encoding="utf-8")
        done, calls = stand_ins("run-mbart", "--mbart", folder, "--trim", "yes")
        assert done.returncode == 0, done.stderr
        return any(call.startswith("gtrans trim-vocab ") for call in calls)

    assert trimmed("one", "1")
    assert not trimmed("one", "1")
    assert trimmed("two", "2")
    assert not trimmed("two", "2")
    assert trimmed("two", "3")


def test_scores_are_whole(stand_ins, tmp_path):
    """A table that is there is complete, whatever ends the recipe."""
    gtrans = tmp_path / ".venv" / "bin" / "gtrans"
    program = gtrans.read_text(encoding="utf-8")
    assert stand_ins("run-randinit")[0].returncode == 0
    table = tmp_path / "out" / "scores.randinit.txt"
    before = table.read_text(encoding="utf-8")
    failing = program.replace("12.34 \\n'\n    fi", "99 '; exit 1\n    fi")
    gtrans.write_text(failing, encoding="utf-8")
    assert stand_ins("run-randinit")[0].returncode == 1
    assert table.read_text(encoding="utf-8") == before


def test_no_mark_is_left(stand_ins, tmp_path):
    assert stand_ins("run-finetune")[0].returncode == 0
    files = {path.name for path in (tmp_path / "out" / "finetune").iterdir()}
    assert files == {"checkpoint_best.pt", "checkpoint_last.pt", "train.log"}
