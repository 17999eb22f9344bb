"""``gtrans adapt``: a document model out of a sentence model, never worse where it is chosen."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import pytest
import torch

from gtrans.cli import main
from gtrans.cli.adapt import choice

if TYPE_CHECKING:
    from support.tiny_models import TinyWorld


def adapt(path: Path, text: Path, out: Path, *further: str) -> int:
    texts = [
        word for name in ("train", "valid", "test") for word in (f"--{name}", str(text / name))
    ]
    return main(["adapt", "--path", str(path), *texts, "--source-lang", "en", "--target-lang", "de",
                 "--out", str(out), "--cpu", *further])  # fmt: skip


@pytest.fixture
def text(tiny: TinyWorld, tmp_path: Path) -> Path:
    """The first documents of the corpus."""
    folder = tmp_path / "docs"
    folder.mkdir()
    for name, documents in (("train", 40), ("valid", 3), ("test", 2)):
        for lang in ("en", "de"):
            whole = (tiny.text / f"{name}.{lang}").read_text("utf-8").split("\n\n")
            (folder / f"{name}.{lang}").write_text("\n\n".join(whole[:documents]) + "\n", "utf-8")
    return folder


def test_as_a_user_types_it(tiny: TinyWorld, text: Path, tmp_path: Path, capsys: object) -> None:
    """Again, it does nothing that is done; the best model has the highest score and translates.

    All models name the published one that they were made of.
    """
    out, path = tmp_path / "my", tmp_path / "opus.pt"
    state = torch.load(tiny.checkpoints["sentence"], weights_only=True)
    state["task_state"]["published"] = {"name": "opus-mt", "licence": "cc-by-4.0"}
    torch.save(state, path)
    sizes = ("--max-update", "4", "--num-workers", "0", "--max-tokens", "512")
    options = ("--every", "2", "--", *sizes)
    assert adapt(path, text, out, *options) == 0
    printed = capsys.readouterr().out  # type: ignore[attr-defined]
    for words in ("Development set:", "Test set:", "d-BLEU", "sentence", "continued", "document"):
        assert words in printed
    (line,) = [line for line in printed.split("\n") if line.startswith(f"{out / 'best.pt'}: ")]
    models = {"the sentence model itself": path, "the sentence model, cont": out / "continued.pt",
              "the document model": out / "document.pt"}  # fmt: skip
    (best,) = [model for words, model in models.items() if words in line]
    assert (out / "best.pt").read_bytes() == best.read_bytes()
    kept = {file: file.stat().st_mtime_ns for file in out.glob("*/checkpoint*.pt")}
    assert adapt(path, text, out, *options) == 0
    assert {file: file.stat().st_mtime_ns for file in out.glob("*/checkpoint*.pt")} == kept
    again = capsys.readouterr().out  # type: ignore[attr-defined]
    assert line in again
    for name in ("continued.pt", "document.pt"):
        assert main(["show", str(out / name)]) == 0
        assert "cc-by-4.0" in capsys.readouterr().out  # type: ignore[attr-defined]
    made = (out / "document.pt").stat().st_mtime_ns
    assert adapt(path, text, out, *options, "--restart") == 0
    assert (out / "document.pt").stat().st_mtime_ns > made
    assert (out / "document" / "before-restart-1").is_dir()
    output = tmp_path / "out.de"
    words = ["translate", "--path", str(out / "document.pt"), "--input", str(text / "test.en")]
    assert main([*words, "--output", str(output), "--cpu"]) == 0
    lines = (text / "test.en").read_text("utf-8").count("\n")
    assert output.read_text("utf-8").count("\n") == lines


def test_the_sentence_model_wins_a_tie() -> None:
    scores = {"sentence": 20.0, "continued": 20.0, "document": 19.0}
    best, line = choice(scores)
    assert best == "sentence" and "+0.00 continued, -1.00 document" in line
    best, line = choice({**scores, "document": 20.5})
    assert best == "document" and line == "the document model, +0.50 d-BLEU to the sentence model"
    assert "-1.00 d-BLEU" in choice(scores, "document")[1]


def test_mistakes_are_one_line(
    tiny: TinyWorld, text: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    state = torch.load(tiny.checkpoints["sentence"], weights_only=True)
    del state["task_state"]["identity"]
    torch.save(state, tmp_path / "bare.pt")
    for path, further, message in (
        (tiny.checkpoints["document"], (), "of the unit document; give a sentence model"),
        (tmp_path / "bare.pt", (), "it does not store its subwords"),
        (tmp_path / "no.pt", (), "no.pt: there is no such checkpoint"),
    ):
        capsys.readouterr()
        assert adapt(path, text, tmp_path / "my", *further) == 1
        error = capsys.readouterr().err
        assert message in error and error.count("\n") == 1, error
    assert not (tmp_path / "my").exists()


@pytest.mark.long
def test_the_document_model_wins_where_context_decides(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """On the synthetic corpus, whose pronouns depend on earlier sentences; on both sets."""
    pytest.importorskip("gtrans.lab")
    corpus, data, out = (tmp_path / name for name in ("corpus", "data", "my"))
    languages = ("--source-lang", "en", "--target-lang", "de")
    assert main(["make-corpus", "--docs", "1000", "--items", "20", "--out", str(corpus)]) == 0
    texts = ("--train", str(corpus / "train"), "--valid", str(corpus / "valid"))
    assert main(["prepare", *languages, *texts, "--out", str(data)]) == 0
    train = ("--config", "tiny", "--unit", "sentence", "--max-update", "400", "--cpu")
    assert main(["train", str(data), *train, "--save-dir", str(tmp_path / "sentence")]) == 0
    options = ("--every", "100", "--", "--lr", "2e-3", "--warmup-updates", "100")
    sizes = ("--max-tokens", "1024", "--max-update", "400", "--num-workers", "0")
    capsys.readouterr()
    assert adapt(tmp_path / "sentence" / "checkpoint_best.pt", corpus, out, *options, *sizes) == 0
    printed = capsys.readouterr().out
    for words in (f"{out / 'best.pt'}: the document model, +", "held out: the document model, +"):
        assert words in printed
