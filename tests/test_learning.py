"""A tiny model must really learn what the paper says it can, and only then."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from test_decoding import model_of
from test_layout import BOS, EOS
from torch import Tensor

# Words of the little language: A words and B words, a filler, and what must be translated.
A, B, FILLER, ASK, SAY_A, SAY_B, FREE = (4, 5), (6, 7), 8, 9, 10, 11, 12


def document(*words: int) -> list[int]:
    """A sentence for each word."""
    return [symbol for word in words for symbol in (BOS, word, EOS)]


def source_cue(count: int, seed: int) -> tuple[Tensor, Tensor]:
    """The last sentence's translation depends on a source word one to three sentences back."""
    generator = torch.Generator().manual_seed(seed)
    draws = torch.randint(4, (count,), generator=generator).tolist()
    sources, targets = [], []
    for number, draw in enumerate(draws):
        cue, say = (*A, *B)[draw], SAY_A if draw < 2 else SAY_B
        distance = number % 3
        between, before = [FILLER] * distance, [FILLER] * (2 - distance)
        sources.append(document(*before, cue, *between, ASK))
        targets.append(document(*before, FREE, *between, say))
    return torch.tensor(sources), torch.tensor(targets)


def target_cue(count: int, seed: int) -> tuple[Tensor, Tensor]:
    """A free choice in the first sentence's translation must be kept in the last one."""
    generator = torch.Generator().manual_seed(seed)
    choice = torch.randint(SAY_A, SAY_B + 1, (count,), generator=generator).tolist()
    sources = [document(ASK, FILLER, ASK) for _ in choice]
    targets = [document(say, FILLER, say) for say in choice]
    return torch.tensor(sources), torch.tensor(targets)


TASKS = {"source": source_cue, "target": target_cue}


def accuracy_after_training(task: str, updates: int = 150, **options: Any) -> float:
    """Share of unseen documents whose last sentence is predicted right."""
    model = model_of(encoder_global_layers=2, decoder_global_layers=2, **options).train()
    optimizer = torch.optim.Adam(model.parameters(), lr=5e-3)
    for update in range(updates):
        source, target = TASKS[task](32, seed=update)
        logits, _ = model(source, None, target[:, :-1])
        loss = F.cross_entropy(logits.flatten(0, 1), target[:, 1:].flatten())
        optimizer.zero_grad()
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
    model.eval()
    source, target = TASKS[task](200, seed=10**6)
    with torch.no_grad():
        logits, _ = model(source, None, target[:, :-1])
    # The word of the last sentence: <s> word </s> are the last three symbols.
    return float(logits[:, -2].argmax(-1).eq(target[:, -2]).float().mean())


@pytest.mark.parametrize("task", TASKS)
@pytest.mark.parametrize("start", [{}, {"positions": "sentence", "gate_bias": 4.0}])
def test_learns_across_sentences(task: str, start: dict[str, Any]) -> None:
    assert accuracy_after_training(task, **start) >= 0.95


@pytest.mark.parametrize("task", TASKS)
def test_group_attention_alone_cannot(task: str) -> None:
    """Without global attention nothing passes from one sentence to another."""
    grouped = {f"{part}_top_attention": "group" for part in ("encoder", "decoder", "cross")}
    assert 0.4 <= accuracy_after_training(task, updates=60, **grouped) <= 0.6


@pytest.mark.long
def test_the_demo_shows_what_it_promises(tmp_path: Path, repo: Path) -> None:
    """`make demo`, memory added: chance without context, nearly everything right with it."""
    command = [sys.executable, str(repo / "scripts" / "demo.py"), "--out", str(tmp_path / "demo")]
    command += ["--memory-updates", "300"]
    subprocess.run(command, check=True, cwd=repo)
    systems = json.loads((tmp_path / "demo" / "results.json").read_text())["systems"]
    for phenomenon, cells in systems["sentence"]["contrastive"].items():
        for distance, accuracy in cells.items():
            assert 0.4 <= accuracy <= 0.6, ("sentence", phenomenon, distance)
    for phenomenon, cells in systems["gtransformer"]["contrastive"].items():
        assert cells["1"] >= 0.95, phenomenon
        assert cells["3"] >= 0.85, phenomenon
    for phenomenon, cells in systems["memory_transformer"]["contrastive"].items():
        assert cells["1"] >= 0.9, phenomenon
        assert cells["3"] >= 0.7, phenomenon
    assert systems["gtransformer"]["d_bleu"] > systems["sentence"]["d_bleu"]
