"""``gtrans translate --free``, and the scores of its output."""

from __future__ import annotations

import io
import sys
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from support.runs import log_of, train
from support.translating import FAST, Interrupted, error, interrupt_after

from gtrans.cli import main

if TYPE_CHECKING:
    from support.tiny_models import TinyWorld


@pytest.fixture(scope="module")
def model(tiny: TinyWorld, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A document Transformer after a few updates."""
    folder = tmp_path_factory.mktemp("free") / "full"
    log_of(train(tiny.run, tiny.data, folder, "--doc-mode", "full",
                 "--arch", "gtransformer_tiny", updates=10))  # fmt: skip
    return folder / "checkpoint_last.pt"


@pytest.fixture
def argv(tiny: TinyWorld, model: Path, tmp_path: Path) -> Callable[..., list[str]]:
    """The command with more options."""

    def make(*options: str, path: Path = model) -> list[str]:
        files = ["--path", path, "--data", tiny.data, "--input", tiny.text / "test.en"]
        # Small chunks: the longest document has several.
        size = ["--max-tokens", "100", "--max-doc-tokens", "60"]
        output = ["--output", tmp_path / "out.de"]
        return ["translate", *map(str, files + output), *FAST, *size, *options]

    return make


def test_one_line_a_document_and_scores_over_documents(
    tiny: TinyWorld, argv, tmp_path: Path, monkeypatch, capsys
):
    output, reference = tmp_path / "out.de", tiny.text / "test.de"
    with monkeypatch.context() as patch:
        interrupt_after(2, patch)
        with pytest.raises(Interrupted):
            main(argv("--free"))
    assert main(argv("--free")) == 0
    assert "2 batches are finished" in capsys.readouterr().err
    lines = output.read_text(encoding="utf-8").split("\n")[:-1]
    assert len(lines) == len(tiny.source()) and all(lines)
    assert main(argv("--free")) == 0
    assert "is already this translation" in capsys.readouterr().err
    # With a given number of sentences it is another translation.
    assert main(argv()) == 0
    kept = output.read_text(encoding="utf-8")
    assert len(kept.split("\n")) == len((tiny.text / "test.en").read_text().split("\n"))

    free = tmp_path / "copy.de"  # without a record
    free.write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")
    score = ["score", "--hyp", f"free={free}", f"kept={output}", "--ref", str(reference)]
    assert main(score) == 0
    printed = capsys.readouterr()
    assert "d-BLEU" in printed.out and "s-BLEU" not in printed.out
    assert "has one line for each document: no s-BLEU" in printed.err
    message = error([*score, "--metrics", "s_bleu"], capsys)
    assert "--metrics s_bleu needs aligned sentences;" in message and "copy.de" in message


def test_a_free_stream_has_a_line_for_each_document(argv, tmp_path, monkeypatch, capsys):
    text = "You are late.\nIt sang.\n\nThe old man.\n\n"
    (tmp_path / "in").write_text(text, encoding="utf-8")
    command = argv("--free")
    command[command.index("--input") + 1] = str(tmp_path / "in")
    assert main(command) == 0
    expected = (tmp_path / "out.de").read_text(encoding="utf-8")
    assert expected.count("\n") == 2
    for flag in ("--input", "--output"):
        at = command.index(flag)
        del command[at : at + 2]
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(text.encode())))
    capsys.readouterr()
    assert main([*command, "--stream"]) == 0
    assert capsys.readouterr().out == expected


def test_other_systems_are_refused(tiny: TinyWorld, argv, tmp_path: Path, capsys):
    message = error(argv("--free", path=tiny.checkpoints["document"]), capsys)
    assert "`--free` is for the document Transformer" in message
    assert "special tokens 'both'" in message
    assert not list(tmp_path.iterdir())
