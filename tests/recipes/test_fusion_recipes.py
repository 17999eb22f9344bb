"""exp_gtransformer/fusion/: the settings of the paper, and a short run of each kind."""

from __future__ import annotations

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
    # of the authors' program
    "--ffn-init linear --decoder-group-fusion last --probability-fusion geometric",
    "--best-checkpoint-metric loss",
)
SEARCH = "--beam 8 --lenpen 0 --no-repeat-ngram-size 4"
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
            ("--arch gtrans_fusion_small", "--dropout 0.3", "--max-tokens 4096 --update-freq 1",
             "--max-epoch 80"),
        ),
        (
            "wmt14",
            "--bpe-symbols 40000",
            ("--arch gtrans_fusion_big", "--dropout 0.3", "--max-tokens 1024 --update-freq 16",
             "--max-epoch 80"),
        ),
        (
            "ldc",
            "--source-lang zh --target-lang en",
            ("--arch gtrans_fusion_base", "--dropout 0.1", "--warmup-updates 4000",
             "--max-tokens 1024 --update-freq 1"),
        ),
    ],
)  # fmt: skip
def test_bilingual_settings_are_those_of_the_paper(
    corpus: str, merges: str, settings: tuple[str, ...], script
) -> None:
    done = script("run-fusion", "--corpus", corpus, *PLACE)
    prepare, train, translate, score, tokenised = commands(done)
    assert f" {merges} " in prepare
    assert " --unit sentence " in train
    for setting in (*EVERYWHERE, *settings):
        assert f" {setting} " in f"{train} "
    assert "--path out/fusion-gtrans/checkpoint_best.pt " in translate
    assert translate.endswith(SEARCH) and score.startswith("gtrans score ")
    assert "--hyp out/test.fusion-gtrans.hypothesis.tokens " in tokenised
    assert "--tokenize none" in tokenised


@pytest.mark.parametrize(
    ("corpus", "visible", "updates_from", "tokens"),
    [
        ("wmt14", None, "--max-tokens 1024 --update-freq 16", 131072),  # 8 x 16 x 1,024
        ("wmt14", "0,1,2,3", "--max-tokens 1024 --update-freq 32", 131072),
        ("ldc", None, "--max-tokens 1024 --update-freq 1", 1024),
    ],
)
def test_batches_are_those_of_the_paper(
    corpus: str, visible: str | None, updates_from: str, tokens: int, script
) -> None:
    environment = {} if visible is None else {"CUDA_VISIBLE_DEVICES": visible}
    done = script("run-fusion", "--corpus", corpus, *PLACE, **environment)
    assert f" {updates_from} " in done.stdout
    assert f"effective batch {tokens} tokens" in done.stderr


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--corpus", "europarl7"], "known are iwslt14 wmt14 ldc (several languages: run-mu"),
        (["--corpus", "wmt14", "--system", "sum"], "`--system` must be one of gtrans post-norm"),
        (["--corpus", "wmt14", "--start", "lossless"], "`--start` is for the G-Transformer"),
        (["--corpus", "wmt14", "--epochs", "0"], "`--epochs` must be a whole number of at least 1"),
        (
            ["--corpus", "ldc", "--bpe-symbols", "9", "--bpe-merges", "9"],
            "`--bpe-symbols` cannot be combined with `--bpe-merges`",
        ),
    ],
)
def test_a_mistake_is_one_line(arguments, message, script, tmp_path) -> None:
    assert message in the_error(script("run-fusion", *arguments, *PLACE))
    assert not list(tmp_path.iterdir())


def test_help(script) -> None:
    done = script("run-fusion", "--help")
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.startswith("usage: exp_gtransformer/run-fusion.sh --corpus NAME")


def test_boundaries_of_documents_are_no_words(stand_ins, tmp_path: Path) -> None:
    """BLEU of the paper's tokens counts neither kind of line between documents."""
    moses = tmp_path / ".venv" / "bin" / "sacremoses"
    moses.write_text("#!/usr/bin/env bash\ncat\n", encoding="utf-8")
    moses.chmod(0o755)
    (tmp_path / "test.de").write_text("<d>\na b\n\nc <d>\n", encoding="utf-8")
    done, _ = stand_ins("run-fusion", "--corpus", "iwslt14", "--source-lang", "en",
                        "--target-lang", "de")  # fmt: skip
    assert done.returncode == 0, done.stderr
    tokens = tmp_path / "out" / "test.fusion-gtrans.reference.tokens"
    assert tokens.read_text(encoding="utf-8") == "\na b\n\nc <d>\n"


@pytest.mark.long
def test_short_runs(tiny: TinyWorld, script, tmp_path: Path) -> None:
    """From text to scores, and again: nothing is trained twice."""
    prefixes = [p for s in ("train", "valid", "test") for p in (f"--{s}-prefix", tiny.text / s)]
    common = ("--gpus", "0", "--beam", "2", "--", *SMALL)
    bilingual = ("run-fusion", "--corpus", "iwslt14", *prefixes, "--source-lang", "en",
                 "--target-lang", "de", "--bpe-merges", "300", "--updates", "6", "--out", "two",
                 "--max-tokens", "1000", *common)  # fmt: skip
    assert script(*bilingual).returncode == 0
    assert "s-BLEU" in (tmp_path / "two" / "scores.fusion-gtrans.txt").read_text()
    assert "tok:none" in (tmp_path / "two" / "tokenised.fusion-gtrans.txt").read_text()
    # The tokens are those of the text, without the marks of our own preparation.
    tokens = (tmp_path / "two" / "test.fusion-gtrans.reference.tokens").read_text(encoding="utf-8")
    plain = tiny.text.joinpath("test.de").read_text(encoding="utf-8")
    assert "".join(tokens.split()) == "".join(plain.split()) and "@lower@" not in tokens
    last = tmp_path / "two" / "fusion-gtrans" / "checkpoint_last.pt"
    before = last.read_bytes()
    again = script(*bilingual)
    assert again.returncode == 0 and "nothing is left to do" in again.stdout
    assert last.read_bytes() == before
