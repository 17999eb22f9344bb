"""``gtrans translate --candidates``: a document model chooses among translations."""

from __future__ import annotations

import itertools
import json
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from support.translating import command, error

import gtrans
from gtrans.cli import main
from gtrans.text.prepared_folder import load_pipeline
from gtrans.translating.force_decode import score_documents

if TYPE_CHECKING:
    from support.tiny_models import TinyWorld

ROWS = [
    ("a", "You are late.", ["Du bist spät.", "Sie sind spät."]),
    ("a", "It sang.", ["Er sang.", "Sie sang.", "Es sang."]),
    ("b", "The old man.", ["Der alte Mann."]),
]


def write(path: Path, rows: list[tuple[str, str, list[str]]]) -> Path:
    lines = [dict(zip(("doc_id", "source", "candidates"), row, strict=True)) for row in rows]
    path.write_text("".join(f"{json.dumps(line)}\n" for line in lines))
    return path


def test_the_best_combination_is_chosen(
    tiny: TinyWorld, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """With a beam that holds all of them: the one whose document has the best score."""
    path, output = write(tmp_path / "n.jsonl", ROWS), tmp_path / "out"
    argv = command(tiny, "--candidates", path, "--output", output, "--cpu", "--beam", "9")
    assert main(argv) == 0
    *first, boundary, last = output.read_text().splitlines()
    assert boundary == "" and last == "Der alte Mann."
    translator = gtrans.Translator.load(tiny.checkpoints["document"], cpu=True)
    encode = [load_pipeline(tiny.data, lang).encode for lang in ("en", "de")]
    source = [encode[0](row[1]) for row in ROWS[:2]]
    combinations = list(itertools.product(*(row[2] for row in ROWS[:2])))
    documents = [(source, [encode[1](text) for text in texts]) for texts in combinations]
    scores = score_documents(translator.generator.models, translator.task, documents)
    lengths = [sum(len(text.split()) + 1 for text in texts) for _, texts in documents]
    means = [sum(of) / length for of, length in zip(scores, lengths, strict=True)]
    assert tuple(first) == combinations[means.index(max(means))]
    assert main(argv) == 0
    assert "is already this translation" in capsys.readouterr().err


ONE = ("a", "It sang.", ["Er sang."])
GIVE = "n.jsonl:1: give a row its 'source' and its 'candidates'"


@pytest.mark.parametrize(
    ("rows", "message"),
    [
        ([("a", "It sang.", [])], GIVE),
        ([("a", "", ["Er sang."])], GIVE),
        ([("a", None, ["Er sang."])], GIVE),
        ([("a", "It sang.", ["Er\nsang."])], GIVE),
        ([("a", "It sang.", [" <d>"])], GIVE),
        ([ONE, ("b", *ONE[1:]), ONE], "n.jsonl:3: rows of the document 'a' stand apart"),
        ([], "n.jsonl: it has no rows"),
    ],
)
def test_mistakes_are_told_in_one_line(
    tiny: TinyWorld,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    rows: list[tuple[str, str, list[str]]],
    message: str,
) -> None:
    argv = command(tiny, "--candidates", write(tmp_path / "n.jsonl", rows))
    assert "`--output` is missing" in error(argv, capsys)
    argv += ["--output", str(tmp_path / "out")]
    assert message in error(argv, capsys)
    for words in (["--workers", "2"], ["--json", "--nbest", "2"]):
        assert "`--candidates` has the text itself" in error([*argv, *words], capsys)
    assert "`--int8` is for searches" in error([*argv, "--cpu", "--int8"], capsys)
    assert not (tmp_path / "out").exists()
