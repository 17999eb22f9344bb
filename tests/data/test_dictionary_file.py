"""Dictionary files: one reader of fairseq's format."""

from __future__ import annotations

from pathlib import Path

import pytest
from fairseq.data import Dictionary

from gtrans.cli import main
from gtrans.data.binarised import load_dictionary, write_dictionary
from gtrans.data.vocabulary import Vocabulary
from gtrans.errors import GtransError

TWICE = "a 3\nb@@ 2\na 1 #fairseq:overwrite\n<unk> 7 #fairseq:overwrite\nc d 1\n"


def test_dictionaries_are_read_as_fairseq_reads_them_and_written_back(tmp_path: Path) -> None:
    path, again = tmp_path / "dict.txt", tmp_path / "again.txt"
    path.write_text(TWICE, encoding="utf-8")
    ours, stock = load_dictionary(path), Dictionary.load(str(path))
    assert (ours.symbols, ours.count, ours.indices) == (stock.symbols, stock.count, stock.indices)
    assert ours.index("a") == 6
    write_dictionary(ours, again)
    assert again.read_text(encoding="utf-8") == TWICE
    stored = Vocabulary.of(ours, len(ours))
    assert stored.dictionary().indices == stock.indices


@pytest.mark.parametrize(
    ("contents", "message"),
    [
        ("a 1\nb\n", ":2: not a line 'ENTRY COUNT' of a dictionary."),
        ("a x\n", ":1: not a line 'ENTRY COUNT' of a dictionary."),
        (
            "a 1\nb 1\na 1\n",
            ":3: 'a' is in line 1 already; take this line out, or end it with ' "
            "#fairseq:overwrite', with which it replaces the other",
        ),
        ("<s> 1\n", ":1: '<s>' is in every dictionary already; take this line out"),
    ],
)
def test_other_lines_are_rejected(contents: str, message: str, tmp_path: Path) -> None:
    path = tmp_path / "dict.txt"
    path.write_text(contents, encoding="utf-8")
    with pytest.raises(GtransError) as error:
        load_dictionary(path)
    assert str(error.value).startswith(f"{path}{message}")


def test_prepare_takes_what_the_message_advises(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    for name, text in (("codes", "#version: 0.2\na b</w>\n"), ("train.en", "a b ab\n"),
                       ("train.de", "b a\n"), ("dict", "a 1\nb 1\nab 1\na 1\n")):  # fmt: skip
        (tmp_path / name).write_text(text, encoding="utf-8")
    words = ["prepare", "--source-lang", "en", "--target-lang", "de", "--no-truecase"]
    words += ["--train", str(tmp_path / "train"), "--bpe-codes", str(tmp_path / "codes")]
    words += ["--dictionary", str(tmp_path / "dict"), "--out", str(tmp_path / "data")]
    assert main(words) == 1
    assert "dict:4: 'a' is in line 1 already" in capsys.readouterr().err
    (tmp_path / "dict").write_text("a 1\nb 1\nab 1\na 1 #fairseq:overwrite\n", encoding="utf-8")
    assert main(words) == 0
    assert load_dictionary(tmp_path / "data" / "dict.en.txt").index("a") == 7
