"""A little language in which the last sentence's translation depends on an earlier one."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor

from support.batches import BOS, EOS

# Words: A words and B words, a filler, and what must be translated.
A, B, FILLER, ASK, SAY_A, SAY_B, FREE = (4, 5), (6, 7), 8, 9, 10, 11, 12

Task = Callable[[int, int], tuple[Tensor, Tensor]]
"""From a number of documents and a seed: sources and targets, ``(documents, length)`` ids."""


def document(*words: int) -> list[int]:
    """A sentence for each word."""
    return [entry for word in words for entry in (BOS, word, EOS)]


def source_cue(count: int, seed: int, reach: int = 3) -> tuple[Tensor, Tensor]:
    """The last sentence's translation depends on a source word 1 to ``reach`` sentences back."""
    generator = torch.Generator().manual_seed(seed)
    draws = torch.randint(4, (count,), generator=generator).tolist()
    sources, targets = [], []
    for number, draw in enumerate(draws):
        cue, say = (*A, *B)[draw], SAY_A if draw < 2 else SAY_B
        distance = number % reach
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


TASKS: dict[str, Task] = {
    "source": source_cue,
    "source, one sentence back": partial(source_cue, reach=1),
    "target": target_cue,
}


def accuracy_after_training(
    model: Any, task: str, updates: int, rate: float, first: int = 0
) -> float:
    """Share of unseen documents whose last sentence is predicted right.

    The chunk begins with the sentence ``first``; those before it are its context.
    """

    def read(count: int, seed: int) -> tuple[Tensor, Tensor]:
        source, whole = TASKS[task](count, seed)
        target = whole[:, 3 * first :]
        current = {"current_sentence": torch.full((count,), first)} if first else {}
        return model(source, None, target[:, :-1], **current)[0], target

    model.train()
    optimizer = torch.optim.Adam(model.parameters(), lr=rate)
    for update in range(updates):
        logits, target = read(32, update)
        loss = F.cross_entropy(logits.flatten(0, 1), target[:, 1:].flatten())
        optimizer.zero_grad()
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
    model.eval()
    with torch.no_grad():
        logits, target = read(200, 10**6)
    # The word of the last sentence: <s> word </s> are the last three entries.
    return float(logits[:, -2].argmax(-1).eq(target[:, -2]).float().mean())
