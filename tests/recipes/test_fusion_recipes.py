"""exp_gtransformer/fusion/: the settings of the paper, and a short run of each kind."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest
from support.recipes import commands, the_error
from support.tiny_models import TinyWorld

PLACE = ("--data", "texts", "--out", "out", "--dry-run")
EVERYWHERE = (
    "--share-all-embeddings",
    "--optimizer adam --adam-betas '(0.9, 0.98)' --lr 5e-4 --lr-scheduler inverse_sqrt",
    "--criterion multi_level_cross_entropy --label-smoothing 0.1",
    "--system gtrans",
)
SMALL = (
    *("--encoder-layers", "2", "--decoder-layers", "2", "--encoder-embed-dim", "32"),
    *("--encoder-ffn-embed-dim", "64", "--decoder-ffn-embed-dim", "64"),
    *("--encoder-attention-heads", "2", "--decoder-attention-heads", "2", "--num-workers", "0"),
)


@pytest.mark.parametrize(
    ("corpus", "merges", "settings"),
    [
        (
            "iwslt14",
            "--source-lang de --target-lang en --train texts/iwslt14/train",
            ("--arch gtrans_fusion_small", "--dropout 0.3", "--update-freq 1", "--max-epoch 80"),
        ),
        (
            "wmt14",
            "--bpe-merges 40000",
            ("--arch gtrans_fusion_big", "--dropout 0.3", "--update-freq 16", "--max-epoch 80"),
        ),
        (
            "ldc",
            "--source-lang zh --target-lang en",
            ("--arch gtrans_fusion_base", "--dropout 0.1", "--warmup-updates 4000",
             "--max-tokens 1024"),
        ),
    ],
)  # fmt: skip
def test_bilingual_settings_are_those_of_the_paper(
    corpus: str, merges: str, settings: tuple[str, ...], script
) -> None:
    done = script("run-fusion", "--corpus", corpus, *PLACE)
    prepare, train, generate, translate, score = commands(done)
    assert f" {merges} " in prepare
    assert " --unit sentence " in train
    for setting in (*EVERYWHERE, *settings):
        assert f" {setting} " in f"{train} "
    assert "--path out/fusion-gtrans/checkpoint_best.pt --beam 8 --remove-bpe" in generate
    assert translate.endswith("--beam 8") and score.startswith("gtrans score ")


def test_multilingual_settings_are_those_of_the_paper(script) -> None:
    train, average, *generate = commands(script("run-fusion", "--corpus", "iwslt17", *PLACE))
    for setting in (
        *EVERYWHERE, "--arch gtrans_fusion_base", "--dropout 0.2", "--warmup-updates 8000",
        "--max-tokens 4096", "--max-epoch 15", "--task translation_multi_simple_epoch",
        "--lang-pairs en-de,de-en,en-it,it-en,en-nl,nl-en,en-ro,ro-en",
    ):  # fmt: skip
        assert f" {setting} " in train
    assert average == (
        "gtrans average --last-epochs 5 --output out/fusion-gtrans/average5.pt out/fusion-gtrans"
    )
    assert len(generate) == 8
    assert all("--path out/fusion-gtrans/average5.pt --beam 8" in command for command in generate)


def test_opus_starts_from_xlmr(script) -> None:
    done = script("run-fusion", "--corpus", "opus100", "--langs", "en,af,am", "--xlmr", "X", *PLACE)
    train, _, *generate = commands(done)
    for setting in ("--init-xlmr X", "--arch gtrans_fusion_xlmr_base", "--dropout 0.1",
                    "--max-epoch 15", "--keep-last-epochs 5"):  # fmt: skip
        assert f" {setting} " in train
    assert len(generate) == 4 and "--remove-bpe sentencepiece" in generate[0]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--corpus", "europarl7"], "known are iwslt14 wmt14 ldc iwslt17 opus100"),
        (["--corpus", "opus100", "--xlmr", "X"], "`--langs` is missing"),
        (["--corpus", "opus100", "--langs", "en,de"], "`--xlmr` is missing"),
        (["--corpus", "wmt14", "--system", "sum"], "`--system` must be one of gtrans post-norm"),
        (["--corpus", "wmt14", "--start", "lossless"], "`--start` is for the G-Transformer"),
        (["--corpus", "wmt14", "--epochs", "0"], "`--epochs` must be a whole number of at least 1"),
    ],
)
def test_a_mistake_is_one_line(arguments, message, script, tmp_path) -> None:
    assert message in the_error(script("run-fusion", *arguments, *PLACE))
    assert not list(tmp_path.iterdir())


def test_help(script) -> None:
    done = script("run-fusion", "--help")
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.startswith("usage: exp_gtransformer/run-fusion.sh --corpus NAME")


@pytest.mark.long
def test_short_runs(tiny: TinyWorld, script, tmp_path: Path) -> None:
    """From text to scores with both kinds of recipe, and again: nothing is trained twice."""
    prefixes = [p for s in ("train", "valid", "test") for p in (f"--{s}-prefix", tiny.text / s)]
    common = ("--gpus", "0", "--beam", "2", "--", *SMALL)
    bilingual = ("run-fusion", "--corpus", "iwslt14", *prefixes, "--source-lang", "en",
                 "--target-lang", "de", "--bpe-merges", "300", "--updates", "6", "--out", "two",
                 "--max-tokens", "1000", *common)  # fmt: skip
    assert script(*bilingual).returncode == 0
    assert "s-BLEU" in (tmp_path / "two" / "scores.fusion-gtrans.txt").read_text()
    log = (tmp_path / "two" / "tokenised.fusion-gtrans.en-de.txt").read_text()
    assert "BLEU4 = " in log
    last = tmp_path / "two" / "fusion-gtrans" / "checkpoint_last.pt"
    before = last.read_bytes()
    again = script(*bilingual)
    assert again.returncode == 0 and "nothing is left to do" in again.stdout
    assert last.read_bytes() == before

    flat = tmp_path / "flat"
    flat.mkdir()
    for split in ("train", "valid", "test"):
        for lang in ("en", "de"):
            text = (tiny.data / "text" / f"{split}.bpe.{lang}").read_text(encoding="utf-8")
            (flat / f"{split}.{lang}").write_text(
                "".join(f"{line}\n" for line in text.split("\n") if line), encoding="utf-8"
            )
    folder = tmp_path / "texts" / "iwslt17"
    tiny.run.succeed(
        "preprocess", "--source-lang", "en", "--target-lang", "de", "--trainpref", flat / "train",
        "--validpref", flat / "valid", "--testpref", flat / "test", "--joined-dictionary",
        "--destdir", folder,
    )  # fmt: skip
    shutil.rmtree(flat)
    done = script("run-fusion", "--corpus", "iwslt17", "--data", "texts", "--langs", "en,de",
                  "--epochs", "5", "--max-tokens", "4000", "--out", "many", *common)  # fmt: skip
    assert done.returncode == 0, done.stderr
    for pair in ("en-de", "de-en"):
        scores = (tmp_path / "many" / f"scores.fusion-gtrans.{pair}.txt").read_text()
        assert "tok:none" in scores and "tok:13a" in scores
