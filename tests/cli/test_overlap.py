"""``--overlap`` as users type it: translate, fairseq-generate, contrast, cxmi."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from support.translating import FAST, Interrupted, command, translated_parts

from gtrans.cli import main
from gtrans.text.prepared_folder import load_pipeline

if TYPE_CHECKING:
    from support.tiny_models import TinyWorld

SHORT = ("--max-doc-tokens", "30")


def test_translate_and_generate_agree(tiny: TinyWorld, tmp_path: Path):
    """Both translate whole documents, and otherwise than without overlap."""
    texts = {}
    for name, options in (("with", ("--overlap", "2")), ("without", ())):
        output = tmp_path / name
        argv = (
            "--input",
            tiny.text / "test.en",
            *FAST,
            *SHORT,
            "--max-tokens",
            "1",
            "--output",
            output,
        )
        assert main(command(tiny, *argv, *options)) == 0
        texts[name] = output.read_text(encoding="utf-8")
    assert texts["with"] != texts["without"]
    lines = texts["with"].split("\n")
    assert [line == "" for line in lines] == [line == "" for line in texts["without"].split("\n")]
    done = tiny.run.succeed(
        "generate", tiny.data, "--user-dir", "gtrans", "--task", "document_translation",
        "--path", tiny.checkpoints["document"], "--batch-size", "1", *FAST,
        "--required-batch-size-multiple", "1", "--overlap", "2", *SHORT,
        "--model-overrides", "{'max_doc_tokens': 30}",
    )  # fmt: skip
    pipeline = load_pipeline(tiny.data, "de")
    assert [line for line in lines if line] == [
        pipeline.decode(text) for _, text in sorted(done.lines("D"))
    ]


def test_an_interrupted_document_goes_on(
    tiny: TinyWorld,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
):
    """Chunks that all documents have finished are not translated again."""
    options = ("--input", tiny.text / "test.en", *FAST, *SHORT, "--overlap", "1")
    whole, output = tmp_path / "whole", tmp_path / "out"
    total = translated_parts(command(tiny, *options, "--output", whole), monkeypatch)
    assert total > 5
    argv = command(tiny, *options, "--output", output)
    with pytest.raises(Interrupted):
        translated_parts(argv, monkeypatch, most=total - 1)
    (partial,) = tmp_path.glob("out.*.partial")
    with open(partial, "ab") as file:  # an interrupted write
        file.write(b"[[0, 1, 2], [[[")
    capsys.readouterr()
    assert 1 <= translated_parts(argv, monkeypatch) < total / 2
    assert "0 batches are finished" in capsys.readouterr().err
    assert output.read_bytes() == whole.read_bytes()


def test_items_are_read_in_chunks(
    tiny: TinyWorld, tmp_path: Path, capsys: pytest.CaptureFixture[str]
):
    """The scores of an item without its cue, and with the cue in what is only read."""
    item = {
        "id": "1", "phenomenon": "pronoun", "distance": 1, "cue": "dog",
        "source": ["The old dog sleeps.", "It is old."],
        "target": ["Der alte Hund schläft.", "Er ist alt."],
        "contrastive": [["Der alte Hund schläft.", "Sie ist alt."]],
    }  # fmt: skip
    last = {"source": ["It is old."], "target": ["Er ist alt."], "contrastive": [["Sie ist alt."]]}
    files = {}
    for name, entry in (("whole", item), ("alone", {**item, **last})):
        files[name] = tmp_path / f"{name}.jsonl"
        files[name].write_text(json.dumps(entry) + "\n", encoding="utf-8")

    def scores(name: str, *options: str) -> list[float]:
        output = tmp_path / "scores.jsonl"
        argv = ["--set", files[name], "--output", output, *options]
        path = ["contrast", "--path", tiny.checkpoints["document"], "--data", tiny.data, "--cpu"]
        assert main([str(word) for word in [*path, *argv]]) == 0
        capsys.readouterr()
        found: list[float] = json.loads(output.read_text(encoding="utf-8"))["scores"]
        return found

    cut, whole = scores("whole", "--max-doc-tokens", "8"), scores("whole")
    assert cut == pytest.approx(scores("alone"), abs=1e-4)
    assert whole != pytest.approx(cut, abs=1e-4)
    assert scores("whole", "--max-doc-tokens", "200", "--overlap", "1") == pytest.approx(whole)


def test_training_and_validation_have_no_overlap(tiny: TinyWorld, tmp_path: Path):
    training = (
        *("--arch", "gtransformer_tiny", "--save-dir", tmp_path),
        *("--optimizer", "adam", "--lr", "1e-3"),
    )
    for name, options, message in (
        ("train", training, "is for decoding"),
        ("validate", ("--path", tiny.checkpoints["document"]), "is for translation"),
    ):
        done = tiny.run(
            name, tiny.data, "--user-dir", "gtrans", "--task", "document_translation",
            "--overlap", "1", "--max-tokens", "200", "--cpu", *options,
        )  # fmt: skip
        assert done.status != 0
        assert message in done.stderr, done.stderr
