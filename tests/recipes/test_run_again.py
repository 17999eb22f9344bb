"""Recipes run again in one --out, with tiny models: what has changed is refused or made anew."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from support.recipes import SMALL, Recipe
from support.tiny_bert import another_bert
from support.tiny_models import TINY, TinyWorld


def of(files: dict[str, str], model: str) -> dict[str, str]:
    """The files of one model."""
    return {name: x for name, x in files.items() if re.search(rf"(^|\.){model}[./]", name)}


@pytest.fixture(scope="module")
def finetune(repo: Path, tiny: TinyWorld, tmp_path_factory: pytest.TempPathFactory) -> Recipe:
    """run-finetune.sh after a first run, without a sentence model of its own."""
    recipe = Recipe(
        repo, tiny, tmp_path_factory.mktemp("finetune") / "out", "run-finetune",
        ["--sentence-checkpoint", tiny.checkpoints["sentence"], "--document-updates", "3"],
        ["--arch", "gtransformer_tiny", *TINY, "--lr", "0.003", "--warmup-updates", "10"],
    )  # fmt: skip
    recipe.succeed()
    return recipe


@pytest.mark.long
def test_a_finished_recipe_has_nothing_to_do(finetune):
    before = finetune.files()
    done = finetune.succeed()
    assert "the run is finished (3 updates, --max-update 3); nothing is left to do" in done.stdout
    assert finetune.files() == before


@pytest.mark.long
def test_other_settings_are_refused(finetune):
    settings = ("--seed 1 -> 2", "--word-dropout 0.1 -> 0.0")
    finetune.refuse("finetune", settings, ["--seed", "2"], ["--word-dropout", "0"])


@pytest.mark.long
def test_a_variant_stands_beside_it(finetune):
    before = finetune.files()
    finetune.succeed(["--name", "whole-words", "--seed", "2"], ["--word-dropout", "0"])
    now = finetune.files()
    assert {name: now[name] for name in before} == before
    variant = of(now, "whole-words")
    assert {name for name in variant if not name.endswith(".json")} == {
        "whole-words/checkpoint_best.pt", "whole-words/checkpoint_last.pt", "test.whole-words.de",
        "scores.whole-words.txt",
    }  # fmt: skip
    finetune.refuse("whole-words", ["--seed 2 -> 1"], ["--name", "whole-words"])


@pytest.mark.long
def test_a_model_that_is_trained_further_is_translated_anew(finetune):
    before = of(finetune.files(), "finetune")
    done = finetune.succeed(["--document-updates", "40"])
    assert "@ 3 updates" in done.stdout
    after = of(finetune.files(), "finetune")
    assert all(after[name] != digest for name, digest in before.items()), after


@pytest.fixture(scope="module")
def with_bert(
    repo: Path, tiny: TinyWorld, bert: Path, tmp_path_factory: pytest.TempPathFactory
) -> Recipe:
    """run-bert.sh after a first run."""
    recipe = Recipe(
        repo, tiny, tmp_path_factory.mktemp("bert") / "out", "run-bert",
        ["--bert", bert, "--document-updates", "3", "--sentence-updates", "3"],
        ["--arch", "bert_context_transformer_tiny", *SMALL],
    )  # fmt: skip
    recipe.succeed()
    return recipe


@pytest.mark.long
@pytest.mark.parametrize(
    ("setting", "training"),
    [
        ("--context-gate-bias", ["--context-gate-bias", "3"]),
        ("--context-kind true -> random", ["--context-kind", "random"]),
    ],
)
def test_a_model_with_bert_is_not_continued_with_other_settings(setting, training, with_bert):
    start = with_bert.out / "sentence" / "checkpoint_best.pt"
    with_bert.refuse("context", [setting], ["--sentence-checkpoint", start], training)


@pytest.mark.long
def test_a_variant_uses_the_finished_sentence_model(with_bert):
    before = with_bert.files()
    done = with_bert.succeed(["--name", "white", "--seed", "2", "--systems", "whitened"])
    assert f"{with_bert.out}/sentence is finished and used as it is" in done.stderr
    now = with_bert.files()
    assert {name: now[name] for name in before} == before
    assert "white/checkpoint_best.pt" in now and "scores.white.txt" in now


@pytest.mark.long
def test_another_bert_has_its_own_pieces(with_bert, bert, tmp_path):
    """They are prepared, and the model of the old ones is not continued with them."""
    state = with_bert.out / "data" / "prepare.json"
    before = state.read_bytes()
    other = another_bert(bert, tmp_path / "other")
    start = ["--sentence-checkpoint", with_bert.out / "sentence" / "checkpoint_best.pt"]
    with_bert.refuse("context", [], ["--bert", other, *start])
    assert str(other).encode() in state.read_bytes()
    with_bert.succeed(start)
    assert state.read_bytes() == before


@pytest.mark.long
def test_whitening_is_measured_from_text_to_scores(repo, tiny, tmp_path):
    """The command of docs/fidelity.md, at small size, with a BERT made from the training text."""
    recipe = Recipe(
        repo, tiny, tmp_path / "out", "run-bert",
        ["--make-bert", "2x64", "--bert-updates", "5", "--systems", "context,whitened",
         "--document-updates", "3", "--sentence-updates", "3"],
        ["--arch", "bert_context_transformer_tiny", *SMALL],
    )  # fmt: skip
    recipe.succeed()
    compared = (recipe.out / "scores.systems.txt").read_text(encoding="utf-8")
    assert re.search(r"^s-BLEU +context .*\n +whitened ", compared, re.MULTILINE)
    assert "p boot" in compared
    before = recipe.files()
    assert "make_bert.py" not in recipe.succeed().stdout
    assert recipe.files() == before


@pytest.mark.long
def test_memory_models_are_tested_against_their_sentence_models(repo, tiny, tmp_path):
    recipe = Recipe(
        repo, tiny, tmp_path / "out", "run-memory",
        ["--arch", "memory_transformer_tiny", "--document-updates", "3", "--sentence-updates", "3",
         "--documents", "2"],
        SMALL,
    )  # fmt: skip
    recipe.succeed()
    for seed in (1, 2):
        compared = (recipe.out / f"scores.memory-{seed}.txt").read_text(encoding="utf-8")
        assert re.search(rf"^s-BLEU +memory-sentence-{seed} .*\n +memory-{seed} ", compared,
                         re.MULTILINE)  # fmt: skip
    means = (recipe.out / "scores.memory.txt").read_text(encoding="utf-8")
    assert re.search(r"^s-BLEU +[\d.]+ +[\d.]+ +[+-][\d.]+$", means, re.MULTILINE)


@pytest.mark.long
def test_fusion_trained_further_is_translated_anew(repo, tiny, tmp_path):
    fusion = Recipe(
        repo, tiny, tmp_path / "out", "run-fusion",
        ["--corpus", "iwslt14", "--source-lang", "en", "--target-lang", "de"],
        [*SMALL, "--lr", "0.003", "--warmup-updates", "10"],
    )  # fmt: skip
    fusion.succeed(["--updates", "3"])
    before = of(fusion.files(), "fusion-gtrans")
    fusion.refuse("fusion-gtrans", ["--encoder-group-size"], ["--updates", "3"],
                  ["--encoder-group-size", "1"])  # fmt: skip
    fusion.succeed(["--updates", "40"])
    after = of(fusion.files(), "fusion-gtrans")
    unchanged = [name for name, digest in before.items() if after[name] == digest]
    assert unchanged == ["test.fusion-gtrans.reference.tokens"], "the words of the reference stay"
