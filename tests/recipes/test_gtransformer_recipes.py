"""exp_gtransformer/gtransformer/: the paper's settings, and a short run on real text."""

from __future__ import annotations

import gzip
import re
from pathlib import Path

import pytest
from support.folders import REPO
from support.recipes import CORPORA, EVERYWHERE, PLACE, commands, the_error

TINY = (
    *("--arch", "gtransformer_tiny", "--encoder-layers", "2", "--decoder-layers", "2"),
    *("--encoder-embed-dim", "64", "--encoder-ffn-embed-dim", "128"),
    *("--decoder-ffn-embed-dim", "128", "--warmup-updates", "10", "--num-workers", "0"),
)


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
        ("run-randinit", [*PLACE, "--system", "doc"], "must be one of gtransformer document bert"),
        ("run-randinit", [*PLACE, "--gpsu", "2"], "unknown argument '--gpsu'"),
        ("run-randinit", [*PLACE, "2"], "unknown argument '2'"),
        ("run-randinit", [*PLACE, "--gpus"], "`--gpus` needs a value."),
        ("run-finetune", [*PLACE, "--start", "cold"], "`--start` must be one of paper open l"),
        ("run-finetune", [*PLACE, "--sentence-data", "d"], "needs `--sentence-checkpoint`"),
        ("prepare-finetune", [*PLACE, "--sentence-data", "d"], "d/prepare.json: there is no such"),
        ("prepare-bpe", [*PLACE, "--update-freq", "2"], "unknown argument '--update-freq'"),
        ("prepare-bpe", [*PLACE, "--target-lang", "en"], "are both 'en'"),
    ],
)
def test_a_mistake_is_one_line(name, arguments, message, script, tmp_path):
    error = the_error(script(name, *arguments))
    assert error.startswith(f"{name}: error: ") and message in error
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("corpus", CORPORA)
def test_fine_tuning_has_the_settings_of_the_paper(corpus, script):
    done = script("run-finetune", "--data", "t", "--corpus", corpus, "--out", "out", "--dry-run")
    prepare, sentence, translate, score, document, _, comparison = commands(done)
    assert prepare.startswith("gtrans prepare --source-lang en --target-lang de ")
    assert f"--train t/{corpus}/train --valid t/{corpus}/dev --test t/{corpus}/test" in prepare
    assert "--bpe-merges 30000 --no-normalise " in prepare
    for command in (sentence, document):
        assert command.startswith("gtrans train out/data --source-lang ")
        for setting in EVERYWHERE:
            assert f" {setting} " in command
    assert " --unit sentence --doc-mode full " in sentence
    assert "--word-dropout" not in sentence
    assert (
        " --unit document --max-doc-tokens 512 --word-dropout 0.1 --word-dropout-epochs 40 "
        in document
    )
    assert " --init-from out/sentence/checkpoint_best.pt --lr-scale-pretrained 0.2 " in document
    assert "--gate-bias" not in document
    assert "--positions" not in document
    assert translate.startswith("gtrans translate --path out/sentence/checkpoint_best.pt ")
    assert " --beam 5 --max-len-a 1.2 --max-len-b 10" in translate
    assert score.startswith("gtrans score --hyp out/test.sentence.de ")
    systems = "sentence=out/test.sentence.de finetune=out/test.finetune.de"
    assert comparison.startswith(f"gtrans score --hyp {systems} --ref ")
    assert "CUDA_VISIBLE_DEVICES='0,1,2,3', effective batch 16384 tokens" in done.stderr


def test_random_initialisation_has_the_settings_of_the_paper(script):
    _, document, *_ = commands(script("run-randinit", *PLACE, "--dry-run"))
    for setting in (*EVERYWHERE, "--unit document --max-doc-tokens 512 --word-dropout 0.3 "
                    "--word-dropout-epochs 30"):  # fmt: skip
        assert f" {setting} " in document
    assert "--init-from" not in document


def test_the_document_transformer_is_decoded_as_in_the_paper(script):
    """baselines/run-doc.sh: the model decides how many sentences it writes."""
    _, train, translate, score = commands(script("run-randinit", *PLACE, "--system", "document",
                                                 "--dry-run"))  # fmt: skip
    for setting in (*EVERYWHERE, "--unit document --max-doc-tokens 512 --word-dropout 0 "
                    "--doc-mode full", "--save-dir out/document"):  # fmt: skip
        assert f" {setting} " in train
    assert translate.startswith("gtrans translate --path out/document/checkpoint_best.pt ")
    assert translate.endswith(" --beam 5 --max-len-a 1.2 --max-len-b 10 --free")
    assert " --hyp out/test.document.de " in score
    usual = commands(script("run-randinit", *PLACE, "--dry-run"))
    assert not any("--free" in command for command in usual)


def test_the_open_start_is_that_of_the_readme(script):
    document = commands(script("run-finetune", *PLACE, "--start", "open", "--dry-run"))[-3]
    start = " --positions sentence --gate-bias 3 --copy-local-to-global "
    assert start in f"{document} " and " --save-dir out/finetune-open " in document
    assert " --word-dropout 0 " in document
    readme = (REPO / "README.md").read_text(encoding="utf-8")
    assert start in readme


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


def cut(source: Path, target: Path, documents: int) -> None:
    """Copy the first documents of a gzipped file of lines."""
    whole = gzip.decompress(source.read_bytes()).decode("utf-8")
    chosen = "\n\n".join(whole.split("\n\n")[:documents])
    target.write_text(f"{chosen.strip()}\n", encoding="utf-8")


@pytest.mark.long
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
    log = (out / "finetune" / "train.log").read_text(encoding="utf-8")
    assert "newly initialised (encoder.layers.0.self_attn.global_attn" in log

    kept = [*out.glob("*/checkpoint*.pt"), *out.glob("test.*")]
    before = [path.stat().st_mtime_ns for path in kept]
    again = script("run-finetune", *arguments)
    assert again.returncode == 0, again.stderr
    assert again.stdout.count("nothing is left to do") == 2
    assert [path.stat().st_mtime_ns for path in kept] == before
