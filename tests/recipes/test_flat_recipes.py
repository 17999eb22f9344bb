"""exp_gtransformer/flat/: the settings of Ma et al. (2020)."""

from __future__ import annotations

import pytest
from support.recipes import EVERYWHERE, PLACE, commands, the_error


@pytest.mark.parametrize(
    ("name", "arguments", "message"),
    [
        ("run-flat", [*PLACE, "--systems", "flat,flit"], "must be one of flat nosegment sentence"),
        ("run-flat", [*PLACE, "--start", "lossless"], "`--start` is for fine-tuning"),
    ],
)
def test_a_mistake_is_one_line(name, arguments, message, script, tmp_path):
    error = the_error(script(name, *arguments))
    assert error.startswith(f"{name}: error: ") and message in error
    assert not list(tmp_path.iterdir())


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


def test_the_baseline_of_zhang_is_a_second_step_of_the_same_size(script):
    done = script("run-flat", *PLACE, "--systems", "zhang", "--dry-run")
    sentence, zhang = [line for line in commands(done) if line.startswith("fairseq-train ")]
    assert " --arch flat_transformer_base --unit sentence " in sentence
    assert " --arch document_aware_transformer_base --unit window --context-before 1 " in zhang
    for setting in (
        "--context-after 1 --context-place behind", "--encoder-layers 6 --decoder-layers 6",
        "--encoder-ffn-embed-dim 1024 --decoder-ffn-embed-dim 1024",
        "--encoder-attention-heads 4 --decoder-attention-heads 4",
        "--init-from out/sentence/checkpoint_best.pt --lr-scale-pretrained 0",
    ):  # fmt: skip
        assert f" {setting} " in zhang


def test_with_a_bert_there_is_one_learning_rate(script):
    done = script("run-flat", *PLACE, "--systems", "bert", "--dry-run")
    prepare, train, *_ = commands(done)
    assert prepare.endswith(" --bert bert-base-uncased")
    assert " --arch flat_transformer_bert_base --unit window " in train
    assert " --share-decoder-input-output-embed --optimizer adam " in train
    assert "--lr 5e-4" in train and "two_rate" not in train and "--init-from" not in train
