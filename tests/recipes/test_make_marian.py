"""The small OPUS-MT model of ``scripts/make_marian.py``."""

from __future__ import annotations

import random
from pathlib import Path
from typing import Any

import pytest
import torch
from support.synthetic_corpus import write_corpus

from gtrans.cli import main

transformers = pytest.importorskip("transformers", reason="transformers is not installed")
pytest.importorskip("sentencepiece", reason="sentencepiece is not installed")


def test_a_model_that_is_converted_and_translates(
    repo: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.syspath_prepend(repo / "scripts")
    import make_marian

    write_corpus(tmp_path)
    folder, prefix, languages = tmp_path / "opus-mt", tmp_path / "train", ("en", "de")
    sizes = {"vocabulary": 160, "layers": 1, "dim": 16, "heads": 2}
    make_marian.make_marian(
        folder, prefix, languages, updates=2, tokens=256, rate=1e-3, seed=1, **sizes
    )
    tokenizer: Any = transformers.MarianTokenizer.from_pretrained(folder)
    model: Any = transformers.MarianMTModel.from_pretrained(folder)
    pairs = make_marian.read_pairs(prefix, languages, tokenizer)
    rows = next(make_marian.batches(pairs, 256, random.Random(1)))
    assert len(rows) > 3 and len(rows) * max(len(side) for pair in rows for side in pair) <= 256
    # The model's own logits give the same loss, and padding adds nothing.
    row = rows[:1]
    with torch.no_grad():
        source, target = (torch.tensor([side]) for side in row[0])
        logits = model(input_ids=source, labels=target).logits[0]
        expected = torch.nn.functional.cross_entropy(logits, target[0], label_smoothing=0.1)
        torch.testing.assert_close(make_marian.loss_of(model.eval(), row), expected)
        alone = [make_marian.loss_of(model, [pair]) * len(pair[1]) for pair in rows]
        together = make_marian.loss_of(model, rows) * sum(len(target) for _, target in rows)
    torch.testing.assert_close(together, torch.stack(alone).sum())
    convert = ["convert", "--from", "huggingface", str(folder), str(tmp_path / "opus.pt")]
    assert main(convert) == 0, capsys.readouterr().err
    (tmp_path / "in.en").write_text("Where is the book?\nIt is old.\n", "utf-8")
    words = ["translate", "--path", str(tmp_path / "opus.pt"), "--input", str(tmp_path / "in.en")]
    assert main([*words, "--output", str(tmp_path / "out.de"), "--cpu"]) == 0
    assert (tmp_path / "out.de").read_text("utf-8").count("\n") == 2
