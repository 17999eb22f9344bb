"""exp_gtransformer/memory/: the settings of Feng et al. (2022)."""

from __future__ import annotations

import pytest
from support.recipes import PLACE, commands, the_error


@pytest.mark.parametrize(
    ("name", "arguments", "message"),
    [
        ("run-memory", [*PLACE, "--start", "lossless"], "`--start` is for the G-Transformer"),
        ("run-memory", [*PLACE, "--runs", "0"], "`--runs` must be a whole number of at least 1"),
    ],
)
def test_a_mistake_is_one_line(name, arguments, message, script, tmp_path):
    error = the_error(script(name, *arguments))
    assert error.startswith(f"{name}: error: ") and message in error
    assert not list(tmp_path.iterdir())


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
