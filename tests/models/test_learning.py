"""A tiny model must really learn what the paper says it can, and only then."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from support.suites import others_long
from support.toy_documents import TASKS, accuracy_after_training
from support.untrained import g_transformer


def learnt(task: str, updates: int = 150, **options: Any) -> float:
    return accuracy_after_training(g_transformer(**options), task, updates, 5e-3)


@pytest.mark.parametrize("task", others_long(TASKS, ["source"]))
@pytest.mark.parametrize(
    "start", [{}, pytest.param({"positions": "sentence", "gate_bias": 4.0}, marks=pytest.mark.long)]
)
def test_learns_across_sentences(task: str, start: dict[str, Any]) -> None:
    assert learnt(task, **start) >= 0.95


@pytest.mark.parametrize("task", others_long(TASKS, ["target"]))
def test_group_attention_alone_cannot(task: str) -> None:
    """Without global attention nothing passes from one sentence to another."""
    grouped = {f"{part}_top_attention": "group" for part in ("encoder", "decoder", "cross")}
    assert 0.4 <= learnt(task, updates=60, **grouped) <= 0.6


@pytest.mark.long
def test_the_demo_shows_what_it_promises(tmp_path: Path, repo: Path) -> None:
    """`make demo`, memory added: chance without context, nearly everything right with it."""
    command = [sys.executable, str(repo / "scripts" / "demo.py"), "--out", str(tmp_path / "demo")]
    command += ["--system", "gtransformer", "memory_transformer"]
    subprocess.run(command, check=True, cwd=repo)
    results = json.loads((tmp_path / "demo" / "results.json").read_text())
    accuracy, scores = results["contrastive"], results["scores"]
    for phenomenon, cells in accuracy["sentence"].items():
        for distance, accuracy in cells.items():
            assert 0.4 <= accuracy <= 0.6, ("sentence", phenomenon, distance)
    for phenomenon, cells in accuracy["gtransformer"].items():
        assert cells["1"] >= 0.95, phenomenon
        assert cells["3"] >= 0.95, phenomenon
    for phenomenon, cells in accuracy["memory_transformer"].items():
        assert cells["1"] >= 0.9, phenomenon
        assert cells["3"] >= 0.7, phenomenon
    assert scores["gtransformer"]["d_bleu"] > scores["sentence"]["d_bleu"]
