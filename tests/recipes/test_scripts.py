"""The run scripts: what a dry run names, what is done once, and real runs at tiny size."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
from pathlib import Path

import pytest
from support.recipes import PLACE, commands, module_at, options_of, run_script, the_error

REPO = Path(__file__).parents[2]
FOLDER = REPO / "exp_gtransformer"
shown = module_at(REPO / "scripts" / "show_commands.py")
LIBRARY = ("lib", "options")
SCRIPTS = sorted(path.stem for path in FOLDER.glob("*.sh") if path.stem not in LIBRARY)
# Of a script with options: the models that it trains, each by its configuration.
TRAININGS = [
    ("run-finetune", "sentence=gtransformer_sentence finetune=gtransformer_finetune"),
    ("run-finetune --start open", "sentence=gtransformer_sentence finetune-open=gtransformer_open"),
    ("run-finetune --system document --name d",
     "sentence=gtransformer_sentence d=document_transformer_finetune"),
    ("run-finetune --sentence-checkpoint s.pt", "finetune=gtransformer_finetune"),
    ("run-randinit", "randinit=gtransformer_randinit"),
    ("run-randinit --system document", "document=document_transformer"),
    ("run-randinit --system bert", "gtransformer-bert=gtransformer_bert"),
    ("run-mbart --mbart m", "mbart-sentence=mbart_sentence mbart-document=mbart_document "
     "mbart-gtransformer=gtransformer_mbart"),
    ("run-mbart --mbart m --trim --system sentence", "mbart-sentence=mbart_sentence"),
    ("run-flat --system flat,nosegment,concat,zhang,bert", "flat=flat_transformer "
     "nosegment=flat_nosegment concat=flat_concat sentence=flat_sentence zhang=flat_zhang "
     "bert=flat_transformer_bert"),
    ("run-memory --seed 3", "memory-sentence-3=memory_sentence_europarl7 "
     "memory-3=memory_transformer_europarl7 memory-sentence-4=memory_sentence_europarl7 "
     "memory-4=memory_transformer_europarl7"),
    ("run-memory --runs 1 --corpus nc2016", "memory-sentence-1=memory_sentence "
     "memory-1=memory_transformer_nc2016"),
    ("run-memory --runs 1 --batches printed --name v --seed 2",
     "memory-sentence-1=memory_sentence v-2=memory_printed"),
    ("run-bert --system context,fused-scratch,aware", "sentence=bert_context_sentence "
     "context=bert_context_transformer fused-scratch=bert_fused_scratch aware=document_aware"),
    ("run-han", "sentence=han_sentence han-encoder=han_encoder han-joint=han_transformer"),
    ("run-compare --system han", "sentence=compare han-encoder=compare han=compare"),
    ("run-fusion --corpus wmt14", "fusion-gtrans=gtrans_fusion_wmt14"),
    ("run-fusion --corpus ldc --system dlcl", "fusion-dlcl=gtrans_fusion_ldc"),
    ("run-multilingual --corpus iwslt17-multi", "fusion-gtrans=gtrans_fusion_iwslt17_multi"),
    ("run-multilingual --corpus opus100 --langs en,de --xlmr x",
     "fusion-gtrans=gtrans_fusion_opus100"),
    ("run-all", "europarl7/randinit=gtransformer_randinit europarl7/sentence="
     "gtransformer_sentence europarl7/finetune=gtransformer_finetune"),
    ("run-all --corpus=nc2016 --script=finetune",
     "nc2016/sentence=gtransformer_sentence nc2016/finetune=gtransformer_finetune"),
]  # fmt: skip


@pytest.mark.parametrize("name", [*LIBRARY, *SCRIPTS])
def test_a_script_can_be_read(name: str) -> None:
    path = FOLDER / f"{name}.sh"
    assert len(shown.body(path).splitlines()) <= (200 if name in LIBRARY else 110)
    subprocess.run(["bash", "-n", path], check=True)
    if shutil.which("shellcheck"):
        subprocess.run(["shellcheck", "-x", "--source-path=SCRIPTDIR", path], check=True)


@pytest.mark.parametrize("name", SCRIPTS)
def test_help_says_what_it_does(name: str, script) -> None:
    done = script(name, "--help")
    assert done.returncode == 0 and done.stderr == ""
    assert "  --" in done.stdout or "usage: " in done.stdout


@pytest.mark.parametrize("name", SCRIPTS)
def test_help_that_cannot_be_written_ends_the_script(name: str) -> None:
    """Such as `--help | head`, where the pipe closes."""
    words = ["bash", str(FOLDER / f"{name}.sh"), "--help"]
    with Path("/dev/full").open("w", encoding="utf-8") as full:
        done = subprocess.run(
            words, stdout=full, stderr=subprocess.PIPE, text=True, check=False, timeout=20
        )
    assert done.returncode != 0
    assert "argument" not in done.stderr and "variable" not in done.stderr


@pytest.mark.parametrize("name", ["tokenised-bleu", "discourse"])
def test_a_call_without_all_arguments_shows_the_usage_and_fails(name: str, script) -> None:
    done = script(name, "one")
    assert done.returncode != 0
    assert f"usage: {name}.sh " in done.stdout


@pytest.mark.parametrize("name", [path.stem for path in shown.scripts()])
def test_the_commands_at_its_end_are_what_a_script_runs(name: str) -> None:
    """`scripts/show_commands.py` writes them."""
    path = FOLDER / f"{name}.sh"
    assert path.read_text(encoding="utf-8") == shown.body(path) + shown.comment(path)


@pytest.mark.parametrize(("call", "models"), TRAININGS)
def test_a_dry_run_names_steps_and_configurations(call: str, models: str, script) -> None:
    """In the order prepare, train, translate, score; every option of a training exists."""
    name, *options = call.split()
    printed = commands(script(name, *PLACE, *options, "--dry-run"))
    found = []
    for command in printed:
        if "gtrans train " in command or command.startswith("gtrans train"):
            read = options_of(command)
            config = re.search(r"--config (\S+)", command)
            assert config is not None
            found.append(f"{read['--save-dir'].removeprefix('out/')}={config[1]}")
            assert read["--arch"]
    assert [model for model in found if f" {model} " in f" {models} "] == found
    assert set(models.split()) == set(found)
    kinds = [command.split()[1] for command in printed if command.startswith("gtrans ")]
    assert kinds[-1] == "score" and {"train", "score"} <= set(kinds)
    if name != "run-multilingual":
        assert "translate" in kinds and kinds[0] == "prepare"


@pytest.mark.parametrize(
    ("call", "message"),
    [
        ("run-finetune --data texts --corpus europarl7", "`--out` is missing: where everything"),
        ("run-finetune --out out --data texts", "`--corpus` is missing: iwslt17 nc2016 europarl7"),
        ("run-finetune --out out --data texts --corpus europarl", "`--corpus` must be one of iws"),
        ("run-finetune --out out --corpus nc2016", "`--data` is missing: the folder that holds"),
        ("run-finetune --out out --data texts --corpus nc2016", "texts/nc2016/train.en: there is"),
        ("run-finetune --out", "`--out` needs a value."),
        ("run-finetune --outt out", "unknown argument '--outt'; --help lists what there is."),
        ("run-finetune --out out --gpus many", "`--gpus` must be a whole number, but is 'many'."),
        ("run-finetune --out out --stage train", "`--stage` must be one of prepare sentence docu"),
        (
            "run-finetune --out out --stage=",
            "`--stage` must be one of prepare sentence document tra",
        ),
        ("run-finetune --out out --name ../x", "`--name` '../x' is no name for a folder"),
        ("run-finetune --out out --source-lang de", "`--source-lang` and `--target-lang` are bot"),
        ("run-finetune --out out --nodes 2", "`--nodes 2` needs `--launcher torchrun` or `srun`."),
        ("run-finetune --out o --data t --corpus nc2016 --start lossles --dry-run", "`--start` is"),
        ("run-flat --out o --data t --corpus nc2016 --system flt --dry-run", "`--system` must b"),
        ("run-mbart --out o --data t --corpus nc2016 --dry-run", "`--mbart` is missing: the fold"),
        ("run-bert --out o --data t --corpus nc2016 --make-bert 3 --dry-run", "`--make-bert` mus"),
        (
            "run-bert --out o --data t --corpus nc2016 --make-bert 1x8 --prepared p --dry-run",
            "`--make-bert` makes a BERT of the training text, but `--prepared` takes a folder",
        ),
        ("run-fusion --out o --data t --corpus wmt --dry-run", "`--corpus` must be one of iwslt14"),
        ("run-multilingual --out o --corpus opus100 --dry-run", "`--xlmr` is missing: the folder"),
        ("run-finetune --out out --gpus 08", "`--gpus` must be a whole number, but is '08'."),
        ("run-compare --out out --max-tokens x", "`--max-tokens` must be a whole number, but is"),
        ("run-memory --out o --runs x", "`--runs` must be a whole number, but is 'x'."),
        (
            "run-memory --out o --data t --corpus nc2016 --runs 0 --dry-run",
            "`--runs` must be at least 1, but is '0'.",
        ),
        (
            "run-flat --out o --data t --corpus nc2016 --system= --dry-run",
            "`--system` must be one of flat nosegment sentence concat zhang bert, but is ''.",
        ),
        (
            "prepare-multilingual --out o --data t --corpus iwslt17-multi --dry-run",
            "`--langs` is missing: the language of all pairs, such as en, then all others.",
        ),
        ("run-all --data t --out", "`--out` needs a value."),
        ("run-all --out o --corpus=", "`--corpus` and `--script` must name at least one."),
        ("run-compare --out o --data t --corpus nc2016 --system x --dry-run", "`--system` 'x' is"),
    ],
)
def test_a_mistake_is_one_line(call: str, message: str, script, tmp_path: Path) -> None:
    name, *options = call.split()
    assert the_error(script(name, *options)).startswith(f"{name}: error: {message}")
    assert not list(tmp_path.iterdir())


def test_options_reach_the_stage_that_they_belong_to(script) -> None:
    """Flags win over the configuration; those of a variant are for its document model."""
    words = ("--max-tokens", "1000", "--sentence-updates", "7", "--beam", "3", "--dry-run", "--",
             "--dropout", "0.5", "sentence:", "--lr", "1", "document:", "--lr", "2", "translate:",
             "--lenpen", "0.8", "prepare:", "--truecase-min", "2")  # fmt: skip
    for name, tokens in ((), "1000"), (("--name", "v"), "4096"):
        prepare, sentence, translate, _, document, *_ = commands(
            script("run-finetune", *PLACE, *name, *words)
        )
        assert "--truecase-min 2" in prepare and "--beam 3 --lenpen 0.8" in translate
        one, other = options_of(sentence), options_of(document)
        assert (one["--max-tokens"], other["--max-tokens"]) == (tokens, "1000")
        assert (one["--lr"], other["--lr"], one["--max-update"]) == ("1", "2", "7")
        assert other["--dropout"] == "0.5" and "--max-update" not in other


def test_a_finished_script_has_nothing_to_do(stand_ins, tmp_path: Path) -> None:
    """It gives the same commands; each knows what it has finished, and a lost file is made."""

    def made(*options: str) -> list[str]:
        done, calls = stand_ins("run-finetune", *options)
        assert done.returncode == 0, done.stderr
        return [call.split()[1] for call in calls]

    every = ["prepare", "train", "translate", "score", "train", "translate", "score"]
    assert made() == every
    done, calls = stand_ins("run-finetune")
    assert [command.split()[1] for command in commands(done)] == every
    assert calls == [] and done.stdout.count("12.34") == 2  # the tables are shown again
    (tmp_path / "out" / "test.finetune.de").unlink()
    assert made() == ["translate", "score"]
    assert made("--beam", "2") == ["translate", "score", "translate", "score"]
    (tmp_path / "train.de").write_text("xx\n", encoding="utf-8")
    assert made("--beam", "2", "--stage", "prepare") == ["prepare"]


def test_a_command_without_a_record_runs_once(stand_ins, tmp_path: Path) -> None:
    """The text or the command decides, and whether the file is there."""
    for pair in ("train", "valid", "test"):
        for lang in ("en", "de"):
            shutil.copy(tmp_path / f"{pair}.{lang}", tmp_path / f"{pair}.de-en.{lang}")

    def made(*options: str) -> list[str]:
        done, calls = stand_ins("prepare-multilingual", "--langs", "en,de", *options)
        assert done.returncode == 0, done.stderr
        return [" ".join(call.split()[:2]) for call in calls]

    first = made()
    assert first.count("sacremoses -l") == 6 and "subword-nmt learn-bpe" in first
    assert (tmp_path / "out/data/codes.bpe").read_text("utf-8") == "subword-nmt learn-bpe\n"
    assert made() == []
    (tmp_path / "out/data/codes.bpe").unlink()
    assert made()[0] == "subword-nmt learn-bpe"
    assert made("--bpe-merges", "7")[0] == "subword-nmt learn-bpe"
    assert made("--bpe-merges", "7", "--stage", "score") == []


def test_a_variant_shares_corpus_and_sentence_model(stand_ins) -> None:
    stand_ins("run-finetune", "--bpe-merges", "50")
    _, calls = stand_ins("run-finetune", "--name", "v", "--seed", "5", "--", "--dropout", "0.5")
    assert [x.split()[1] for x in calls] == ["train", "translate", "score"]
    assert "--save-dir out/v --cpu" in calls[0] and "--seed 5" in calls[0]
    assert calls[0].endswith("--dropout 0.5")


def test_a_training_that_fails_or_is_stopped_ends_the_script(stand_ins, tmp_path: Path) -> None:
    done, calls = stand_ins("run-finetune", FAIL="no memory")
    assert done.returncode == 1 and len(calls) == 2
    assert "gtrans: error: no memory" in (tmp_path / "out/sentence/output.log").read_text("utf-8")
    done, _ = stand_ins("run-finetune", STOP="yes")
    assert done.returncode == 75
    stopped = the_error(stand_ins("run-finetune", "--stage", "translate")[0])
    assert "out/sentence/checkpoint_best.pt: there is no such file; an earlier `--stage`" in stopped
    (tmp_path / "out/sentence/checkpoint_best.pt").write_text("x", encoding="utf-8")
    assert "not finished" in the_error(stand_ins("run-finetune", "--stage", "translate")[0])
    assert stand_ins("run-finetune", "--stage", "sentence")[0].returncode == 0
    _, calls = stand_ins("run-finetune", "--stage", "translate,sentence")
    assert [call.split()[1] for call in calls] == ["translate"]


# ---- really run ---------------------------------------------------------------------------------

SMALL = (
    *("--encoder-layers", "2", "--decoder-layers", "2", "--encoder-embed-dim", "32"),
    *("--encoder-ffn-embed-dim", "64", "--decoder-ffn-embed-dim", "64", "--max-update", "2"),
    *("--encoder-attention-heads", "2", "--decoder-attention-heads", "2", "--update-freq", "1"),
    *("--max-tokens", "1000", "--num-workers", "0"),
)


def checkpoints(out: Path) -> dict[Path, int]:
    """The times at which the checkpoints of all models were written."""
    return {path: path.stat().st_mtime_ns for path in sorted(out.glob("*/checkpoint*.pt"))}


def long(*names: str) -> list[object]:
    return [pytest.param(name, marks=pytest.mark.long) for name in names]


@pytest.mark.parametrize(
    "call",
    [
        "run-randinit",
        *long("run-finetune", "run-memory --runs 1", "run-fusion --corpus iwslt14", "run-han",
              "run-flat --system flat,zhang", "run-compare --system lossless",
              "run-bert --make-bert 1x16 --bert-updates 2 --system context,aware"),
    ],
)  # fmt: skip
def test_from_own_text_to_scores_and_again(call, repo, tiny, tmp_path) -> None:
    """A corpus by prefix, on the CPU; the second time each command says that it has finished."""
    name, *options = call.split()
    texts = [(f"--{x}-prefix", str(tiny.text / x)) for x in ("train", "valid", "test")]
    words = [
        *(word for pair in texts for word in pair), "--source-lang", "en", "--target-lang", "de",
        "--out", str(tmp_path / "out"), "--gpus", "0", "--bpe-merges", "300", "--beam", "1",
        *options, "--", *SMALL, "score:", "--resample", "none", "translate:", "--max-len-a", "1",
        "--max-len-b", "3",
    ]  # fmt: skip
    done = run_script(repo, tmp_path, name, *words)
    assert done.returncode == 0, done.stdout[-2000:] + done.stderr
    tables = [
        json.loads(path.read_text("utf-8")) for path in (tmp_path / "out").glob("scores.*.json")
    ]
    assert tables and all(tables)
    before = commands(done), checkpoints(tmp_path / "out")
    again = run_script(repo, tmp_path, name, *words)
    assert again.returncode == 0, again.stdout[-2000:] + again.stderr
    assert (commands(again), checkpoints(tmp_path / "out")) == before
    trained = [command for command in commands(again) if "gtrans train " in command]
    assert again.stdout.count("the run is finished") == len(trained) > 0
    assert "finished earlier, skipped" in again.stderr and ": started" not in again.stderr
    assert "is already this translation" in again.stderr and "written to" not in again.stderr
