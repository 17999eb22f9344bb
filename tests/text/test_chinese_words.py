"""``gtrans prepare --segmenter jieba``: Chinese in words, and back."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import pytest

from gtrans.cli import main
from gtrans.text.moses import MosesPipeline, Steps, jieba_tokenizer
from gtrans.text.prepared_folder import load_pipeline

SENTENCES = ["在 Debian中，我们开展了这个项目。", "项目 项目 3%"]


def command(folder: Path, *more: str) -> list[str]:
    (folder / "t.zh").write_text("\n".join([*SENTENCES, ""]), encoding="utf-8")
    (folder / "t.en").write_text("In Debian, hello.\nHello hello 3%\n", encoding="utf-8")
    return [
        *("prepare", "--source-lang", "zh", "--target-lang", "en", "--train", str(folder / "t")),
        *("--bpe-merges", "20", "--out", str(folder / "out"), *more),
    ]


def test_words_of_jieba() -> None:
    pipeline = MosesPipeline("zh_CN", Steps(segmenter="jieba"))
    tokens = [pipeline.tokenise(sentence) for sentence in SENTENCES]
    assert tokens[1] == "项目 &#32; 项目 &#32; 3 %"
    assert "项目" in tokens[0].split() and tokens[0].startswith("在 &#32; Debian 中")
    assert [pipeline.detokenise(line) for line in tokens] == SENTENCES
    english = MosesPipeline("en", Steps(segmenter="jieba"))
    assert english.tokenise("a b") == "a b", "for Chinese only"


@pytest.mark.long
def test_a_data_folder_in_words(tmp_path: Path) -> None:
    assert main(command(tmp_path, "--segmenter", "jieba")) == 0
    out = tmp_path / "out"
    tokenised = (out / "text" / "train.tok.zh").read_text(encoding="utf-8").splitlines()
    assert "项目" in tokenised[0].split()
    pipeline = load_pipeline(out, "zh")
    assert [pipeline.decode(pipeline.encode(line)) for line in SENTENCES] == SENTENCES
    assert json.loads((out / "prepare.json").read_text())["steps"]["segmenter"] == "jieba"


@pytest.mark.parametrize(
    ("more", "message"),
    [
        (["--segmenter", "jieba"], "`--segmenter jieba` needs the library jieba, which is not"),
        (["--segmenter", "jieba", "--target-lang", "de", "--source-lang", "en"],
         "`--segmenter jieba` finds words of Chinese (zh), but the languages are en and de"),
        (["--segmenter", "jieba", "--no-tokenise"], "`--segmenter` cannot be combined with"),
    ],
)  # fmt: skip
def test_a_mistake_is_one_line(
    more: list[str], message: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:  # fmt: skip
    jieba_tokenizer.cache_clear()
    monkeypatch.setitem(sys.modules, "jieba", None)
    assert main(command(tmp_path, *more)) == 1
    assert message in capsys.readouterr().err
    assert not (tmp_path / "out").exists()
