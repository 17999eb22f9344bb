"""exp_gtransformer/gtransformer/*-mbart.sh: the paper's settings for mBART25."""

from __future__ import annotations

import pytest
from support.recipes import CORPORA, PLACE, commands, the_error


@pytest.mark.parametrize(
    ("name", "arguments", "message"),
    [
        ("run-mbart", [*PLACE], "`--mbart` is missing: the folder of mBART's files."),
        ("run-mbart", [*PLACE, "--mbart", "m"], "m/model.pt: there is no such file; download http"),
        ("run-mbart", [*PLACE, "--mbart", "m", "--bpe-merges", "9"], "has its own vocabulary"),
        ("run-mbart", [*PLACE, "--mbart", "m", "--trim", "so"], "`--trim` must be one of yes no"),
        ("prepare-mbart", [*PLACE, "--mbart", "m"], "unpack it to m."),
    ],
)
def test_a_mistake_is_one_line(name, arguments, message, script, tmp_path):
    error = the_error(script(name, *arguments))
    assert error.startswith(f"{name}: error: ") and message in error
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("corpus", CORPORA)
def test_mbart_has_the_settings_of_the_paper(corpus, script):
    done = script("run-mbart", "--data", "t", "--corpus", corpus, "--out", "out", "--mbart",
                  "mbart.cc25", "--trim", "yes", "--dry-run")  # fmt: skip
    whole, trim, small, *stages = commands(done)
    for command, folder in ((whole, "mbart.cc25"), (small, "out/mbart")):
        assert command.startswith("gtrans prepare ") and "--bpe-merges" not in command
        assert f"--train t/{corpus}/train --valid t/{corpus}/dev" in command
        assert f"--sentencepiece {folder}/sentence.bpe.model --dict" in command
    assert trim == "gtrans trim-vocab --data out/data-full --out out/mbart mbart.cc25/model.pt"
    trainings = [command for command in stages if command.startswith("gtrans train ")]
    modes = ("--unit sentence --doc-mode full --sentence-marks mbart",
             "--max-doc-tokens 512 --doc-mode full --sentence-marks mbart-document",
             "--unit document --max-doc-tokens 512 --doc-mode partial --sentence-marks mbart",
             )  # fmt: skip
    assert len(stages) == 9
    for command, mode in zip(trainings, modes, strict=True):
        for setting in (
            "--arch gtransformer_mbart_large", mode,
            "--langs ar_AR,cs_CZ,de_DE,en_XX,",
            "--init-from out/mbart/model.pt --lr-scale-pretrained 1",
            "--optimizer adam --adam-eps 1e-06 --adam-betas '(0.9, 0.98)' --lr 3e-5",
            "--lr-scheduler polynomial_decay --warmup-updates 2500 --total-num-update 40000",
            "--max-update 40000",
            "--label-smoothing 0.2 --dropout 0.3 --attention-dropout 0.1",
            "--max-tokens 2048 --update-freq 2", "--patience 5",
        ):  # fmt: skip
            assert f" {setting}" in command
        assert "--word-dropout" not in command and "--share-all-embeddings" not in command
    limits = "--max-len-a 1.2 --max-len-b 10"
    ends = [command for command in stages if command.startswith("gtrans translate ")]
    for command, end in zip(ends, (limits, f"{limits} --free", limits), strict=True):
        assert command.endswith(f" --beam 5 {end}")


def test_mbart_untrimmed_and_one_system(script):
    done = script("run-mbart", *PLACE, "--mbart", "m", "--systems", "gtransformer",
                  "--dry-run")  # fmt: skip
    prepare, train, *_ = commands(done)
    assert "--sentencepiece m/sentence.bpe.model" in prepare and " --out out/data" in prepare
    assert "--init-from m/model.pt --init-dict m/dict.txt" in train and len(commands(done)) == 4
