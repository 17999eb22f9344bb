"""exp_gtransformer/memory/: the settings of Feng et al. (2022)."""

from __future__ import annotations

import shlex
from contextlib import suppress

import pytest
import yaml
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


# Feng et al. (2022), §4.2: corpus, dropout of the sentence model and of the memory model, warm-up
PAPER = [("iwslt17", "0.3", "0.2", 1000), ("nc2016", "0.3", "0.2", 2000),
         ("europarl7", "0.1", "0.1", 2000)]  # fmt: skip
# the authors' program: main.py, utils.py, bart.py, and AdamW's defaults in transformers 4.10
PROGRAM = (
    "--share-all-embeddings --learned-positions --layernorm-embedding --no-scale-embedding",
    "--activation-fn gelu",
    "--optimizer adam --adam-betas '(0.9, 0.999)' --adam-eps 1e-6 --weight-decay 0",
    "--criterion chunked_cross_entropy --label-smoothing 0",
    "--max-tokens 4096 --update-freq 1",
    "--patience 5",
)


def runs(done) -> list[list[str]]:
    """The commands of each run: two trainings, each with translation and scores."""
    _, *rest = commands(done)
    assert len(rest) % 6 == 0
    return [rest[first : first + 6] for first in range(0, len(rest), 6)]


@pytest.mark.parametrize(("corpus", "sentence_dropout", "dropout", "warm_up"), PAPER)
def test_recurrent_memory_has_the_settings_of_its_paper(
    corpus, sentence_dropout, dropout, warm_up, script
):
    done = script("run-memory", "--data", "t", "--corpus", corpus, "--out", "out", "--dry-run")
    assert "CUDA_VISIBLE_DEVICES='0'" in done.stderr, "one GPU"
    for seed, commands_of_run in zip(("1", "2"), runs(done), strict=True):
        sentence, translate, scores, memory, _, comparison = commands_of_run
        for command, model in ((sentence, "memory-sentence"), (memory, "memory")):
            for setting in PROGRAM:
                assert f" {setting} " in command
            assert f" --save-dir out/{model}-{seed} --seed {seed}" in command
        assert " --arch gtransformer_base --unit sentence --doc-mode full " in sentence
        assert " --lr 5e-4 --lr-scheduler inverse_sqrt --warmup-updates 4000 " in sentence
        assert f" --dropout {sentence_dropout} --attention-dropout {sentence_dropout} " in sentence
        assert " --arch memory_transformer_base --unit stream " in memory
        assert " --max-window 0 --batch-size 8 " in memory
        assert f" --lr 3e-4 --lr-scheduler inverse_sqrt --warmup-updates {warm_up} " in memory
        assert f" --dropout {dropout} --attention-dropout {dropout} " in memory
        start = f"out/memory-sentence-{seed}/checkpoint_best.pt"
        assert f" --init-from {start} --lr-scale-pretrained 0.2 " in memory
        assert translate.startswith(f"gtrans translate --path {start} ")
        assert f" --hyp out/test.memory-sentence-{seed}.de " in scores
        assert (
            f" --hyp memory-sentence-{seed}=out/test.memory-sentence-{seed}.de "
            f"memory-{seed}=out/test.memory-{seed}.de " in comparison
        )


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        (["--batches", "printed"], "--min-window 5 --max-window 0 --batch-size 1 --init-from"),
        (["--batches", "filled"], "--min-window 5 --max-window 10 --init-from"),
        (["--max-window", "2"], "--min-window 2 --max-window 2 --batch-size 8 --init-from"),
        (["--batches", "printed", "--documents", "3"], "--max-window 0 --batch-size 3 --init-from"),
    ],
)
def test_what_an_update_accumulates_is_chosen(options, expected, script):
    done = script("run-memory", *PLACE, *options, "--dry-run")
    assert all(f" {expected} " in memory for _, _, _, memory, _, _ in runs(done))


def test_the_configurations_are_those_of_the_recipe(repo, script):
    """On TED, by every option that the recipe gives."""
    done = script("run-memory", "--data", "t", "--corpus", "iwslt17", "--out", "out", "--dry-run")
    sentence, _, _, memory, *_ = runs(done)[0]
    for name, command in (("memory_sentence", sentence), ("memory_transformer", memory)):
        content = yaml.safe_load((repo / "configs" / f"{name}.yaml").read_text(encoding="utf-8"))
        configured = {key: value for group in content.values() for key, value in group.items()}
        words = shlex.split(command)[2:]
        flags = [number for number, word in enumerate(words) if word.startswith("--")]
        given = {
            words[a][2:].replace("-", "_"): words[a + 1] if a + 1 < b else "True"
            for a, b in zip(flags, [*flags[1:], len(words)], strict=True)
        }
        assert content["model"]["_name"] == given["arch"]
        assert content["lr_scheduler"]["_name"] == given["lr_scheduler"]
        compared = given.keys() & configured.keys() - {
            "save_dir", "user_dir", "init_from", "source_lang", "target_lang", "min_window", "cpu",
        }  # fmt: skip
        assert len(compared) > 15
        for key in compared:
            value = configured[key]
            (only,) = value if isinstance(value, list) else (value,)
            same = str(only) == given[key]
            with suppress(ValueError, TypeError):
                same = same or float(only) == float(given[key])
            assert same, (name, key, only, given[key])


def test_the_means_are_those_of_both_models(stand_ins, tmp_path):
    done, _ = stand_ins("run-memory")
    assert done.returncode == 0, done.stderr
    mean = (tmp_path / "out" / "scores.memory.txt").read_text(encoding="utf-8").splitlines()
    assert mean[0] == "mean of 2 runs: out/scores.memory-1.txt out/scores.memory-2.txt"
    assert [line.split() for line in mean[1:]] == [
        ["sentence", "memory", "change"], ["s-BLEU", "12.34", "14.34", "+2.00"],
        ["d-BLEU", "(instances)", "15.00", "16.50", "+1.50"],
    ]  # fmt: skip
