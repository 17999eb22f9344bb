"""The scripts of exp_gtransformer/: options, the paper's settings, and a short run on real text."""

from __future__ import annotations

import gzip
import re
import shutil
import subprocess
from pathlib import Path

import pytest
from support.recipes import commands, the_error

SCRIPTS = (
    "prepare-bpe",
    "prepare-randinit",
    "prepare-finetune",
    "run-randinit",
    "run-finetune",
    "run-memory",
    "run-flat",
    "run-bert",
    "run-all",
    "prepare-mbart",
    "run-mbart",
)
CORPORA = ("iwslt17", "nc2016", "europarl7")
PLACE = ("--data", "texts", "--corpus", "europarl7", "--out", "out")
TINY = (
    *("--arch", "gtransformer_tiny", "--encoder-layers", "2", "--decoder-layers", "2"),
    *("--encoder-embed-dim", "64", "--encoder-ffn-embed-dim", "128"),
    *("--decoder-ffn-embed-dim", "128", "--warmup-updates", "10", "--num-workers", "0"),
)


# ---- options -------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", [*SCRIPTS, "common", "training", "discourse"])
def test_bash_can_read_them(name, repo):
    path = repo / "exp_gtransformer" / f"{name}.sh"
    subprocess.run(["bash", "-n", path], check=True)
    if shutil.which("shellcheck"):
        subprocess.run(["shellcheck", "-x", path], check=True, cwd=path.parent)


@pytest.mark.parametrize("name", SCRIPTS)
def test_help_shows_options_and_defaults(name, script):
    done = script(name, "--help")
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.startswith(f"usage: exp_gtransformer/{name}.sh ")
    assert "--bpe-merges N        joint BPE merges (default: 30000)" in done.stdout
    assert ("--update-freq N" in done.stdout) == name.startswith("run-")
    for corpus in CORPORA:
        assert corpus in done.stdout


@pytest.mark.parametrize(
    ("name", "arguments", "message"),
    [
        ("prepare-bpe", ["--out", "o"], "`--corpus` is missing; known are iwslt17 nc2016"),
        ("prepare-bpe", ["--data", "d", "--corpus", "nc2016"], "`--out` is missing"),
        ("prepare-bpe", ["--corpus", "nc2016", "--out", "o"], "`--data` is missing"),
        (
            "run-finetune",
            ["--data", "d", "--corpus", "europarl", "--out", "o"],
            "`--corpus` 'europarl' is unknown; known are iwslt17 nc2016 europarl7",
        ),
        ("run-finetune", [*PLACE], "texts/europarl7/train.en: there is no such file (nor texts/"),
        ("run-all", ["--data", "d", "--out", "o"], "d/iwslt17/train.en: there is no such file"),
        ("run-all", ["--systems", "randinit,bert", "--out", "o"], "must be one of randinit fine"),
        ("run-all", [*PLACE, "--train-prefix", "x"], "`--train-prefix` is for one corpus"),
        ("run-randinit", [*PLACE, "--gpus", "two"], "`--gpus` must be a whole number of at least"),
        ("run-randinit", [*PLACE, "--update-freq", "0"], "at least 1, but is '0'."),
        ("run-randinit", [*PLACE, "--start", "lossless"], "`--start` is for fine-tuning"),
        ("run-memory", [*PLACE, "--start", "lossless"], "`--start` is for the G-Transformer"),
        ("run-memory", [*PLACE, "--runs", "0"], "`--runs` must be a whole number of at least 1"),
        ("run-flat", [*PLACE, "--systems", "flat,flit"], "must be one of flat nosegment sentence"),
        ("run-flat", [*PLACE, "--start", "lossless"], "`--start` is for fine-tuning"),
        ("run-bert", [*PLACE, "--systems", "context,bort"], "must be one of context encoder"),
        ("run-bert", [*PLACE, "--start", "lossless"], "`--start` is for the G-Transformer"),
        ("run-randinit", [*PLACE, "--gpsu", "2"], "unknown argument '--gpsu'"),
        ("run-randinit", [*PLACE, "2"], "unknown argument '2'"),
        ("run-randinit", [*PLACE, "--gpus"], "`--gpus` needs a value."),
        ("run-finetune", [*PLACE, "--start", "cold"], "`--start` must be one of paper lossless"),
        ("run-finetune", [*PLACE, "--sentence-data", "d"], "needs `--sentence-checkpoint`"),
        ("prepare-finetune", [*PLACE, "--sentence-data", "d"], "d/prepare.json: there is no such"),
        ("prepare-bpe", [*PLACE, "--update-freq", "2"], "unknown argument '--update-freq'"),
        ("prepare-bpe", [*PLACE, "--target-lang", "en"], "are both 'en'"),
        ("run-mbart", [*PLACE], "`--mbart` is missing: the folder of mBART's files."),
        ("run-mbart", [*PLACE, "--mbart", "m"], "m/model.pt: there is no such file; download http"),
        ("run-mbart", [*PLACE, "--mbart", "m", "--bpe-merges", "9"], "has its own vocabulary"),
        ("run-mbart", [*PLACE, "--mbart", "m", "--trim", "so"], "`--trim` must be one of yes no"),
        ("prepare-mbart", [*PLACE, "--mbart", "m"], "unpack it to m."),
    ],
)
def test_a_mistake_is_one_line(name, arguments, message, script, tmp_path):
    error = the_error(script(name, *arguments))
    assert error.startswith(f"{name}: error: ")
    assert message in error
    assert not list(tmp_path.iterdir())


SETS = ("deixis_test", "lex_cohesion_test", "ellipsis_infl", "ellipsis_vp")


def test_table_4_is_one_command(script, tmp_path):
    place = ("--path", "ru.pt", "--data-bin", "bin", "--sets", "sets")
    (command,) = commands(script("discourse", *place, "--dry-run", "--", "--cpu", "--json"))
    files = " ".join(f"sets/{name}.json" for name in SETS)
    assert command == (
        f"gtrans contrast --path ru.pt --data bin --format consistency --set {files} "
        "--random-context --cpu --json"
    )
    assert "sets/deixis_test.json: there is no such file" in the_error(script("discourse", *place))
    assert "`--path` is missing" in the_error(script("discourse"))
    (tmp_path / "sets").mkdir()
    for name in SETS:
        (tmp_path / "sets" / f"{name}.json.gz").write_bytes(gzip.compress(b"[]"))
    error = script("discourse", *place).stderr
    assert error == "gtrans: error: 'sets/deixis_test.json.gz' holds no contrastive item.\n"


# ---- the paper's settings ------------------------------------------------------------------------

EVERYWHERE = (
    "--arch gtransformer_base",
    "--share-all-embeddings",
    "--optimizer adam --adam-betas '(0.9, 0.98)' --lr 5e-4",
    "--lr-scheduler inverse_sqrt --warmup-updates 4000",
    "--criterion label_smoothed_cross_entropy --label-smoothing 0.1",
    "--dropout 0.3",
    "--max-tokens 4096 --update-freq 1",
    "--best-checkpoint-metric loss --patience 10",
)


@pytest.mark.parametrize("corpus", CORPORA)
def test_fine_tuning_has_the_settings_of_the_paper(corpus, script):
    done = script("run-finetune", "--data", "t", "--corpus", corpus, "--out", "out", "--dry-run")
    prepare, sentence, translate, score, document, _, comparison = commands(done)
    assert prepare.startswith("gtrans prepare --source-lang en --target-lang de ")
    assert f"--train t/{corpus}/train --valid t/{corpus}/dev --test t/{corpus}/test" in prepare
    assert "--bpe-merges 30000" in prepare
    for command in (sentence, document):
        assert command.startswith("fairseq-train out/data --user-dir ")
        for setting in EVERYWHERE:
            assert f" {setting} " in command
    assert " --unit sentence --doc-mode full " in sentence
    assert "--word-dropout" not in sentence
    assert " --unit document --max-doc-tokens 512 --word-dropout 0.1 " in document
    assert " --init-from out/sentence/checkpoint_best.pt --lr-scale-pretrained 0.2 " in document
    assert "--gate-bias" not in document
    assert "--positions" not in document
    assert translate.startswith("gtrans translate --path out/sentence/checkpoint_best.pt ")
    assert " --beam 5" in translate
    assert score.startswith("gtrans score --hyp out/test.sentence.de ")
    systems = "sentence=out/test.sentence.de finetune=out/test.finetune.de"
    assert comparison.startswith(f"gtrans score --hyp {systems} --ref ")
    assert "CUDA_VISIBLE_DEVICES='0,1,2,3', effective batch 16384 tokens" in done.stderr


def test_random_initialisation_has_the_settings_of_the_paper(script):
    _, document, *_ = commands(script("run-randinit", *PLACE, "--dry-run"))
    for setting in (*EVERYWHERE, "--unit document --max-doc-tokens 512 --word-dropout 0.3"):
        assert f" {setting} " in document
    assert "--init-from" not in document


@pytest.mark.parametrize(
    ("corpus", "sentence_dropout", "dropout", "warm_up"),
    [("iwslt17", "0.3", "0.2", 1000), ("nc2016", "0.3", "0.2", 2000),
     ("europarl7", "0.1", "0.1", 2000)],
)  # fmt: skip
def test_recurrent_memory_has_the_settings_of_its_paper(
    corpus, sentence_dropout, dropout, warm_up, script
):
    done = script("run-memory", "--data", "t", "--corpus", corpus, "--out", "out", "--dry-run")
    _, *both = commands(done)
    assert len(both) == 12
    for seed, (sentence, translate, _, memory, *_) in (("1", both[:6]), ("2", both[6:])):
        for command, model in ((sentence, "memory-sentence"), (memory, "memory")):
            assert " --learned-positions --optimizer adam " in command
            assert " --weight-decay 0.01 " in command
            assert " --patience 5 " in command
            assert f" --save-dir out/{model}-{seed} --seed {seed}" in command
        assert " --arch gtransformer_base --unit sentence --doc-mode full " in sentence
        assert " --lr 5e-4 --lr-scheduler inverse_sqrt --warmup-updates 4000 " in sentence
        assert f" --dropout {sentence_dropout} " in sentence
        assert " --arch memory_transformer_base --unit stream --min-window 5 " in memory
        assert f" --lr 3e-4 --lr-scheduler inverse_sqrt --warmup-updates {warm_up} " in memory
        assert f" --dropout {dropout} " in memory
        start = f"out/memory-sentence-{seed}/checkpoint_best.pt"
        assert f" --init-from {start} --lr-scale-pretrained 0.2 " in memory
        assert translate.startswith(f"gtrans translate --path {start} ")


def test_flat_has_the_settings_of_its_paper(script):
    done = script("run-flat", *PLACE, "--systems", "flat,nosegment,sentence,concat", "--dry-run")
    prepare, *rest = commands(done)
    assert "--bpe-merges 30000" in prepare
    trained = [command for command in rest if command.startswith("fairseq-train ")]
    for command in trained:
        for setting in (
            *EVERYWHERE[1:6], "--adam-eps 1e-8", "--max-tokens 4000 --update-freq 1",
            "--best-checkpoint-metric loss --patience 10",
        ):  # fmt: skip
            assert f" {setting} " in command
    flat, nosegment, sentence, concat = trained
    assert " --arch flat_transformer_base --unit window --adam-eps" in flat
    assert " --unit window --no-segment-embedding --adam-eps" in nosegment
    assert " --arch flat_transformer_base --unit sentence --adam-eps" in sentence
    assert " --arch concat_transformer_base --unit window --encoder-ffn-embed-dim 1024 " in concat
    assert "--init-from" not in " ".join(trained)
    assert "effective batch 4000 tokens" in done.stderr
    assert sum("gtrans score" in command for command in rest) == 4


def test_bert_context_has_the_settings_of_its_thesis(script):
    systems = "context,encoder,decoder,fused,aware,aware-bert"
    prepare, *rest = commands(script("run-bert", *PLACE, "--systems", systems, "--dry-run"))
    assert "--bpe-merges 30000" in prepare
    assert prepare.endswith(" --bert bert-base-uncased")
    sentence, *others = [command for command in rest if command.startswith("fairseq-train ")]
    for command in (sentence, *others):
        for setting in (*EVERYWHERE[1:5], "--adam-eps 1e-8", "--max-tokens 4000 --update-freq 1"):
            assert all(part in command for part in setting.split(" --")), setting
    assert " --unit sentence --bert-integration none " in sentence
    assert " --dropout 0.1 " in sentence
    for command in others:
        assert " --unit window --context-before 1 " in command
        assert " --dropout 0.2 " in command
        assert " --init-from out/sentence/checkpoint_best.pt " in command
    context, encoder, decoder, fused, aware, aware_bert = others
    assert " --arch bert_context_transformer_base " in context
    assert " --lr-scale-pretrained 1 " in context
    assert " --bert-integration encoder " in encoder
    assert " --bert-integration decoder " in decoder
    assert " --combine mean --drop-net 1.0 " in fused
    for command in (aware, aware_bert):
        assert " --arch document_aware_transformer_base " in command
        assert " --lr-scale-pretrained 0 " in command
    assert " --context-input bert " in aware_bert


def test_nothing_is_hard_wired(script):
    done = script(
        "run-finetune", "--train-prefix", "a b/tr", "--valid-prefix", "v", "--test-prefix", "te",
        "--source-lang", "zh", "--target-lang=en", "--out", "o p", "--gpus", "2",
        "--update-freq", "4", "--max-tokens", "1000", "--start", "lossless", "--seed", "7",
        "--sentence-updates", "30", "--document-updates", "20", "--beam", "3", "--dry-run",
        "--", "--arch", "gtransformer_big", "--fp16", "--fp16-no-flatten-grads",
    )  # fmt: skip
    prepare, sentence, _, _, document, translate, score = commands(done)
    assert "--source-lang zh --target-lang en --train 'a b/tr' --valid v --test te " in prepare
    assert " --max-update 30 " in sentence
    assert " --max-update 20 " in document
    assert " --positions sentence --gate-bias 10 " in document
    assert " --positions " not in sentence
    for command in (sentence, document):
        assert " --source-lang zh --target-lang en " in command
        assert " --max-tokens 1000 --update-freq 4 " in command
        assert " --seed 7 " in command
        assert command.endswith(" --arch gtransformer_big --fp16 --fp16-no-flatten-grads")
    assert " --save-dir 'o p/finetune-lossless' " in document
    assert "--input te.zh --output 'o p/test.finetune-lossless.en' --beam 3" in translate
    assert "--ref te.en --src te.zh" in score
    assert "CUDA_VISIBLE_DEVICES='0,1', effective batch 8000 tokens" in done.stderr


def test_devices(script):
    with_cpu = script("run-randinit", *PLACE, "--gpus", "0", "--dry-run")
    _, train, translate, _ = commands(with_cpu)
    assert train.endswith(" --cpu")
    assert translate.endswith(" --cpu")
    of_the_user = script("run-randinit", *PLACE, "--dry-run", CUDA_VISIBLE_DEVICES="3,5")
    assert "CUDA_VISIBLE_DEVICES='3,5', effective batch 8192 tokens" in of_the_user.stderr
    both = script("run-randinit", *PLACE, "--gpus", "4", "--dry-run", CUDA_VISIBLE_DEVICES="3")
    assert the_error(both).endswith("`--gpus` is 4, but CUDA_VISIBLE_DEVICES='3' names 1.")


def test_an_existing_sentence_model(script):
    done = script(
        "run-finetune", *PLACE, "--sentence-checkpoint", "old/best.pt", "--sentence-data", "old",
        "--dry-run",
    )  # fmt: skip
    prepare, document, *rest = commands(done)
    assert " --reuse old " in prepare
    assert "--bpe-merges" not in prepare
    assert " --init-from old/best.pt " in document
    assert len(rest) == 2


def test_run_all_runs_all(script):
    done = script("run-all", "--data", "t", "--out", "o", "--gpus", "1", "--dry-run")
    folders = re.findall(r"--save-dir (\S+)", "\n".join(commands(done)))
    assert folders == [
        f"o/{corpus}/{model}"
        for corpus in CORPORA
        for model in ("randinit", "sentence", "finetune")
    ]
    assert done.stderr.count("CUDA_VISIBLE_DEVICES='0', effective batch 4096") == 6


# ---- real text -----------------------------------------------------------------------------------


def cut(source: Path, target: Path, documents: int) -> None:
    """Copy the first documents of a gzipped file of lines."""
    whole = gzip.decompress(source.read_bytes()).decode("utf-8")
    chosen = "\n\n".join(whole.split("\n\n")[:documents])
    target.write_text(f"{chosen.strip()}\n", encoding="utf-8")


def test_real_text_from_preparation_to_scores(script, real_data, tmp_path):
    """debian-web-ende, 300 documents, tiny models; run again, nothing is trained anew."""
    corpus = real_data / "debian-web-ende"
    if not corpus.is_dir():
        pytest.skip(f"no such corpus: {corpus}")
    text = tmp_path / "text"
    text.mkdir()
    for split, documents in (("train", 300), ("dev", 5), ("test", 3)):
        for lang in ("en", "de"):
            cut(corpus / f"{split}.{lang}.gz", text / f"{split}.{lang}", documents)
    arguments = [
        *("--train-prefix", text / "train", "--valid-prefix", text / "dev"),
        *("--test-prefix", text / "test", "--out", tmp_path / "out", "--bpe-merges", "500"),
        *("--sentence-updates", "6", "--document-updates", "3", "--gpus", "0"),
        *("--max-tokens", "1500", "--beam", "1", "--", *TINY),
    ]
    done = script("run-finetune", *arguments)
    assert done.returncode == 0, done.stderr
    out = tmp_path / "out"
    source = (text / "test.en").read_text(encoding="utf-8").split("\n")
    for model in ("sentence", "finetune"):
        hypothesis = (out / f"test.{model}.de").read_text(encoding="utf-8").split("\n")
        assert len(hypothesis) == len(source)
        scores = (out / f"scores.{model}.txt").read_text(encoding="utf-8")
        assert re.search(r"^s-BLEU +(sentence +)?\d+\.\d\d ", scores, re.MULTILINE), scores
        assert re.search(r"^d-BLEU.* +\d+\.\d\d ", scores, re.MULTILINE)
        assert (out / model / "trained").is_file()
    log = (out / "finetune" / "train.log").read_text(encoding="utf-8")
    assert "newly initialised (encoder.layers.0.self_attn.global_attn" in log

    again = script("run-finetune", *arguments)
    assert again.returncode == 0, again.stderr
    # --bpe-merges is given, so that the preparation is asked for once more; it has nothing to do
    assert [command.split()[1] for command in commands(again)] == ["prepare", "score", "score"]


@pytest.mark.parametrize("corpus", CORPORA)
def test_mbart_has_the_settings_of_the_paper(corpus, script):
    done = script("run-mbart", "--data", "t", "--corpus", corpus, "--out", "out", "--mbart",
                  "mbart.cc25", "--dry-run")  # fmt: skip
    whole, trim, small, *stages = commands(done)
    for command, folder in ((whole, "mbart.cc25"), (small, "out/mbart")):
        assert command.startswith("gtrans prepare ") and "--bpe-merges" not in command
        assert f"--train t/{corpus}/train --valid t/{corpus}/dev" in command
        assert f"--sentencepiece {folder}/sentence.bpe.model --dict" in command
    assert trim == "gtrans trim-vocab --data out/data-full --out out/mbart mbart.cc25/model.pt"
    trainings = [command for command in stages if command.startswith("fairseq-train ")]
    modes = ("--unit sentence --doc-mode full", "--max-doc-tokens 512 --doc-mode full",
             "--unit document --max-doc-tokens 512 --doc-mode partial")  # fmt: skip
    assert len(stages) == 9
    for command, mode in zip(trainings, modes, strict=True):
        for setting in (
            "--arch gtransformer_mbart_large", mode,
            "--sentence-marks mbart --langs ar_AR,cs_CZ,de_DE,en_XX,",
            "--init-from out/mbart/model.pt --lr-scale-pretrained 1",
            "--optimizer adam --adam-eps 1e-06 --adam-betas '(0.9, 0.98)' --lr 3e-5",
            "--lr-scheduler polynomial_decay --warmup-updates 2500",
            "--label-smoothing 0.2 --dropout 0.3 --attention-dropout 0.1",
            "--max-tokens 2048 --update-freq 2", "--patience 5",
        ):  # fmt: skip
            assert f" {setting}" in command
        assert "--word-dropout" not in command and "--share-all-embeddings" not in command


def test_mbart_untrimmed_and_one_system(script):
    done = script("run-mbart", *PLACE, "--mbart", "m", "--trim", "no", "--systems",
                  "gtransformer", "--dry-run")  # fmt: skip
    prepare, train, *_ = commands(done)
    assert "--sentencepiece m/sentence.bpe.model" in prepare and " --out out/data" in prepare
    assert "--init-from m/model.pt" in train and len(commands(done)) == 4
