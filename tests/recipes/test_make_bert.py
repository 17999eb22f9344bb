"""The masked language model of ``scripts/make_bert.py``."""

from __future__ import annotations

import random
import subprocess
import sys
from pathlib import Path

import pytest
import torch
from support.tiny_bert import script

transformers = pytest.importorskip("transformers", reason="transformers is not installed")


def test_only_masked_words_are_predicted_and_the_loss_is_that_of_the_model(repo: Path) -> None:
    torch.manual_seed(1)
    config = transformers.BertConfig(
        vocab_size=50, hidden_size=16, num_hidden_layers=2, num_attention_heads=2,
        intermediate_size=32,
    )  # fmt: skip
    model = transformers.BertForMaskedLM(config).eval()
    ids = torch.randint(5, 50, (3, 12))
    labels = ids.masked_fill(torch.rand(ids.shape) > 0.4, -100)
    rows = {"input_ids": ids, "attention_mask": torch.ones_like(ids), "labels": labels}
    whole = model(**rows).loss
    torch.testing.assert_close(script(repo).masked_loss(model, rows), whole)


def test_the_same_text_gives_the_same_vocabulary(repo: Path, tmp_path: Path) -> None:
    """In every process, also where many subwords are as frequent as others."""
    draw = random.Random(1)
    words = ["".join(draw.choices("abcdefghijkl", k=6)) for _ in range(1000)]
    lines = [" ".join(words[at : at + 2]) for at in range(0, 1000, 2)]
    code = (
        "import sys; from pathlib import Path; from make_bert import write_vocabulary; "
        "write_vocabulary(sys.argv[2:], 300, Path(sys.argv[1]))"
    )
    script(repo).write_vocabulary(lines, 300, tmp_path / "here")
    command = [sys.executable, "-c", code, str(tmp_path / "there"), *lines]
    subprocess.run(command, cwd=repo / "scripts", check=True)
    here, there = ((tmp_path / name / "tokenizer.json").read_text("utf-8") for name in
                   ("here", "there"))  # fmt: skip
    assert '"##a"' in here and here == there
