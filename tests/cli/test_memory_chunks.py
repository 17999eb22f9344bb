"""G-Transformer with a memory between chunks, by the commands that a user types."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from support.runs import GROUPS, log_of, train
from support.suites import others_long
from support.translating import FAST, Interrupted, error, translated_parts

from gtrans.cli import main
from gtrans.text.prepared_folder import load_pipeline

if TYPE_CHECKING:
    from support.tiny_models import StockCommands, TinyWorld

SYSTEM = ("--arch", "gtransformer_memory_tiny", *GROUPS, "--max-doc-tokens", "30")


@pytest.fixture(scope="module")
def trained(
    tiny: TinyWorld, stock: StockCommands, tmp_path_factory: pytest.TempPathFactory
) -> tuple[Path, str]:
    """A model that was started from a G-Transformer, and the log of its training."""
    folder = tmp_path_factory.mktemp("memory")
    start = ("--init-from", tiny.checkpoints["document"], "--lr", "0.02")
    log = log_of(train(stock, tiny.data, folder, *SYSTEM, *start, updates=6))
    return folder / "checkpoint_last.pt", log


def translate(path: Path, tiny: TinyWorld, output: Path, *options: str | Path) -> list[str]:
    """The words of a command."""
    model = ("--path", path, "--data", tiny.data, "--output", output)
    return [str(word) for word in ("translate", *model, *FAST, *options)]


@pytest.mark.parametrize("overlap", others_long(["0", "1"], ["1"]))
def test_translate_and_generate_agree_whatever_the_batch(trained, tiny, tmp_path, overlap):
    """K sentences become K; all documents together, or one by one."""
    texts = {}
    for most in ("1", "16000"):
        output = tmp_path / most
        argv = ("--input", tiny.text / "test.en", "--max-tokens", most, "--overlap", overlap)
        assert main(translate(trained[0], tiny, output, *argv)) == 0
        texts[most] = output.read_text(encoding="utf-8").split("\n")
    assert texts["1"] == texts["16000"]
    source = (tiny.text / "test.en").read_text(encoding="utf-8").split("\n")
    assert [line == "" for line in texts["1"]] == [line == "" for line in source]
    done = tiny.run.succeed(
        "generate", tiny.data, "--user-dir", "gtrans", "--task", "document_translation",
        "--path", trained[0], *FAST, "--overlap", overlap,
    )  # fmt: skip
    pipeline = load_pipeline(tiny.data, "de")
    found = [pipeline.decode(text) for _, text in sorted(done.lines("D"))]
    assert [line for line in texts["1"] if line] == found


def test_an_interrupted_translation_is_that_of_an_undisturbed_command(
    trained, tiny, tmp_path, monkeypatch, capsys
):
    """The memory is that of the chunks before the stop; without it the words would differ.

    Scores and alternatives are those of all chunks, too.
    """
    options = ("--input", tiny.text / "test.en", "--json", "--nbest", "2", "--beam", "2")
    whole, output = tmp_path / "whole", tmp_path / "out"
    total = translated_parts(translate(trained[0], tiny, whole, *options), monkeypatch)
    argv = translate(trained[0], tiny, output, *options)
    with pytest.raises(Interrupted):
        translated_parts(argv, monkeypatch, most=total - 1)
    assert 1 <= translated_parts(argv, monkeypatch) < total / 2
    assert f"and {total - 1} chunks of others" in capsys.readouterr().err
    assert output.read_bytes() == whole.read_bytes()
    lines = [json.loads(line) for line in output.read_text(encoding="utf-8").splitlines()]
    assert all(line["score"] < 0 and len(line["nbest"]) == 2 for line in lines)


def test_items_are_scored_with_the_memory_and_counted_by_place(trained, tiny, tmp_path, capsys):
    sets = tmp_path / "items.jsonl"
    item = {
        "id": "1", "phenomenon": "pronoun", "distance": 2, "cue": "dog",
        "source": ["The old dog sleeps.", "The old dog sleeps.", "It is old."],
        "target": ["Der alte Hund schläft.", "Der alte Hund schläft.", "Er ist alt."],
        "contrastive": [["Der alte Hund schläft.", "Der alte Hund schläft.", "Sie ist alt."]],
    }  # fmt: skip
    sets.write_text(json.dumps(item) + "\n", encoding="utf-8")

    def found(*options: str) -> tuple[list[float], dict[str, object]]:
        output = tmp_path / "scores.jsonl"
        path = ["contrast", "--path", trained[0], "--data", tiny.data, "--cpu", "--json"]
        argv = [*path, "--set", sets, "--output", output, *options]
        assert main([str(word) for word in argv]) == 0
        groups = json.loads(capsys.readouterr().out)["by_group"]
        return json.loads(output.read_text(encoding="utf-8"))["scores"], groups

    whole, together = found("--max-doc-tokens", "200")
    cut, apart = found("--max-doc-tokens", "12")
    assert whole != pytest.approx(cut, abs=1e-4)
    assert list(together["cue"]) == ["in the chunk"]
    assert list(apart["cue"]) == ["before the chunk"]
    assert list(apart["cue at distance"]) == ["2 before the chunk"]


def test_scoring_has_no_overlap(trained, tiny, capsys):
    sides = ("--src", tiny.text / "test.en", "--ref", tiny.text / "test.de")
    cxmi = ("cxmi", "--path", trained[0], "--data", tiny.data, *sides, "--overlap", "1", "--cpu")
    assert "`--overlap 1`: with a memory" in error([str(word) for word in cxmi], capsys)
