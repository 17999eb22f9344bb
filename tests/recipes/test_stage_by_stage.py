"""Recipes with tiny models, stage by stage: what --outputs names is what they write."""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from pathlib import Path

import pytest
from support.recipes import SMALL, Recipe
from support.tiny_models import TINY, TinyWorld

STAGES = ("prepare", "sentence", "document", "translate", "score")
FEW = ("--sentence-updates", "3", "--document-updates", "3")
TINY_TRAINING = (*TINY, "--lr", "0.003", "--warmup-updates", "10")
WITH_BERT = (
    *("--encoder-layers", "2", "--decoder-layers", "2", "--encoder-embed-dim", "16"),
    *("--encoder-ffn-embed-dim", "64", "--decoder-ffn-embed-dim", "32"),
    *("--encoder-attention-heads", "2", "--decoder-attention-heads", "2"),
)
KINDS = ("data/prepare.json", "*/checkpoint_best.pt", "test.*", "scores.*", "tokenised.*")


def in_stages(recipe: Recipe) -> set[str]:
    """Run it stage by stage, and insist that its files are those that it names."""
    named = recipe.outputs()
    assert not recipe.out.exists(), "--outputs writes nothing"
    for stage in STAGES:
        recipe.succeed(["--stage", stage])
    written = {str(p.relative_to(recipe.out)) for kind in KINDS for p in recipe.out.glob(kind)}
    others = {name for name in written if name.endswith((".tokens", ".made.json"))}
    assert written - others == named
    return named


@pytest.mark.long
@pytest.mark.parametrize(
    ("name", "options", "training"),
    [
        ("run-finetune", ["--arch", "gtransformer_tiny", *FEW, "--system", "document"], SMALL),
        ("run-han", ["--arch", "han_transformer_tiny", *FEW], SMALL),
        ("run-memory", ["--arch", "memory_transformer_tiny", *FEW, "--runs", "1", "--documents",
                        "2"], (*SMALL, "--memory-layers", "0-1")),
        ("run-fusion", ["--corpus", "iwslt14", "--source-lang", "en", "--target-lang", "de",
                        "--updates", "3"], SMALL),
    ],
)  # fmt: skip
def test_stages_write_what_outputs_names(
    name: str, options: list[str], training: Sequence[str], repo: Path, tiny: TinyWorld,
    tmp_path: Path,
) -> None:  # fmt: skip
    recipe = Recipe(repo, tiny, tmp_path / "out", name, options, training)
    named = in_stages(recipe)
    for scores in (name for name in named if re.fullmatch(r"scores\..*\.json", name)):
        assert "systems" in json.loads((recipe.out / scores).read_text(encoding="utf-8"))


@pytest.mark.long
def test_an_encoder_that_begins_as_a_bert(
    repo: Path, tiny: TinyWorld, bert: Path, tmp_path: Path
) -> None:
    recipe = Recipe(
        repo, tiny, tmp_path / "out", "run-randinit",
        ["--system", "bert", "--bert", bert, "--document-updates", "3", "--arch",
         "gtransformer_tiny"],
        [*WITH_BERT, "--encoder-global-layers", "1", "--decoder-global-layers", "1",
         "--cross-global-layers", "1"],
    )  # fmt: skip
    assert "gtransformer-bert/checkpoint_best.pt" in in_stages(recipe)


@pytest.mark.long
def test_a_bert_beside_a_sentence_model_that_has_seen_none(
    repo: Path, tiny: TinyWorld, bert: Path, tmp_path: Path
) -> None:
    recipe = Recipe(
        repo, tiny, tmp_path / "out", "run-bert",
        ["--bert", bert, "--document-updates", "3", "--sentence-data", tiny.data,
         "--sentence-checkpoint", tiny.checkpoints["sentence"]],
        ["--arch", "bert_context_transformer_tiny", *SMALL],
    )  # fmt: skip
    assert "context/checkpoint_best.pt" in in_stages(recipe)


@pytest.mark.long
def test_seeds_share_a_preparation(repo: Path, tiny: TinyWorld, tmp_path: Path) -> None:
    """The prepared folder of the tiny corpus serves a run that prepares nothing."""
    recipe = Recipe(
        repo, tiny, tmp_path / "seed-2", "run-finetune",
        ["--prepared", tiny.data, "--sentence-seed", "2", "--seed", "2", *FEW],
        ["--arch", "gtransformer_tiny", *TINY_TRAINING],
    )  # fmt: skip
    named = in_stages(recipe)
    assert "data/prepare.json" not in named and not (recipe.out / "data").exists()
    other = ["--name", "other", "--sentence-seed", "3"]
    done = recipe([*other, "--stage", "document"])
    assert done.returncode == 1
    assert done.stderr.splitlines()[-1] == (
        f"run-finetune: error: {recipe.out}/sentence: this model has another seed than "
        "`--sentence-seed` asks for, 3; take another `--out`."
    )
