"""Texts whose sentences have other neighbours than their own."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from gtrans.data.documents import read_documents
from gtrans.experiments import controls

TEXT = "a\nb\nc\n\nd\n\ne\nf\n"
# Writes every line in capitals; nothing for "c".
COMMAND = """import sys
words = dict(zip(sys.argv[1::2], sys.argv[2::2]))
text = open(words["--input"]).read().upper().replace("C", "")
open(words["--output"], "w").write(text)
"""


@pytest.fixture
def command(tmp_path: Path) -> list[str]:
    (tmp_path / "text").write_text(TEXT)
    (tmp_path / "upper.py").write_text(COMMAND)
    words = [sys.executable, str(tmp_path / "upper.py"), "--input", str(tmp_path / "text")]
    return [*words, "--output", str(tmp_path / "out")]


@pytest.mark.parametrize("kind", ["alone", "shuffled"])
def test_translations_come_back_to_their_lines(
    kind: str, command: list[str], tmp_path: Path
) -> None:
    """Also an empty one."""
    assert controls.main([kind, *command]) == 0
    assert (tmp_path / "out").read_text() == "A\nB\n\n\nD\n\nE\nF\n"
    given = read_documents(tmp_path / f"out.{kind}.in")
    lengths = [1] * 6 if kind == "alone" else [3, 1, 2]
    assert [len(document) for document in given] == lengths
    sentences = [sentence for document in given for sentence in document]
    assert sorted(sentences) == list("abcdef") and (sentences == list("abcdef")) == (
        kind == "alone"
    )


def test_a_command_that_fails_leaves_no_result(command: list[str], tmp_path: Path) -> None:
    (tmp_path / "upper.py").write_text("import sys; sys.exit(3)")
    assert controls.main(["alone", *command]) == 3
    assert not (tmp_path / "out").exists()


def test_a_translation_of_other_lines_is_refused(
    command: list[str], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "upper.py").write_text(COMMAND.replace('"C", ""', '"C\\n", ""'))
    assert controls.main(["alone", *command]) == 1
    assert "it has 10 lines, but" in capsys.readouterr().err
    assert not (tmp_path / "out").exists()


def test_a_mistake_is_one_line(command: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    assert controls.main(["other", *command]) == 1
    assert "'other' is none of alone, shuffled" in capsys.readouterr().err
    assert controls.main(["alone", *command[:-2]]) == 1
    assert "`--output` is missing" in capsys.readouterr().err
