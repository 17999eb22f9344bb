"""``gtrans prepare --segmenter jieba``: Chinese in words, and back."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from importlib.machinery import ModuleSpec
from pathlib import Path
from types import SimpleNamespace

import pytest

from gtrans.cli import main
from gtrans.text import moses
from gtrans.text.moses import MosesPipeline, Steps
from gtrans.text.prepared_folder import load_pipeline

SENTENCES = ["\u5728 Debian\u4e2d\uff0c\u4f60\u597d\u3002", "\u4f60\u597d \u4f60\u597d 3%"]


class StandIn:
    """In the place of jieba's tokenizer: \u4f60\u597d is a word, so is a run of Latin letters."""

    def cut(self, text: str) -> Iterator[str]:
        while text:
            length = 2 if text.startswith("\u4f60\u597d") else 1
            if text[0].isascii() and text[0].isalpha():
                length = len(text) - len(text.lstrip("abcdefghijklmnopqrstuvwxyzD"))
            yield text[:length]
            text = text[length:]


@pytest.fixture(autouse=True)
def _fresh():
    moses.jieba_tokenizer.cache_clear()
    yield
    moses.jieba_tokenizer.cache_clear()


@pytest.fixture
def jieba(monkeypatch: pytest.MonkeyPatch) -> None:
    stand_in = SimpleNamespace(
        Tokenizer=StandIn, setLogLevel=lambda level: None, __spec__=ModuleSpec("jieba", None)
    )
    monkeypatch.setitem(sys.modules, "jieba", stand_in)


def command(folder: Path, *more: str) -> list[str]:
    (folder / "t.zh").write_text("\n".join([*SENTENCES, ""]), encoding="utf-8")
    (folder / "t.en").write_text("In Debian, hello.\nHello hello 3%\n", encoding="utf-8")
    return [
        *("prepare", "--source-lang", "zh", "--target-lang", "en", "--train", str(folder / "t")),
        *("--bpe-merges", "20", "--out", str(folder / "out"), *more),
    ]


def test_words_of_jieba(jieba: None) -> None:
    pipeline = MosesPipeline("zh_CN", Steps(segmenter="jieba"))
    tokens = [pipeline.tokenise(sentence) for sentence in SENTENCES]
    assert tokens == [
        "\u5728 &#32; Debian \u4e2d \uff0c \u4f60\u597d \u3002",
        "\u4f60\u597d &#32; \u4f60\u597d &#32; 3 %",
    ]
    assert [pipeline.detokenise(line) for line in tokens] == SENTENCES
    english = MosesPipeline("en", Steps(segmenter="jieba"))
    assert english.tokenise("a b") == "a b", "for Chinese only"


def test_real_jieba() -> None:
    pytest.importorskip("jieba")
    pipeline = MosesPipeline("zh", Steps(segmenter="jieba"))
    text = "\u6211\u4eec\u5f00\u5c55\u4e86\u8fd9\u4e2a\u9879\u76ee\u3002"
    assert "\u9879\u76ee" in pipeline.tokenise(text).split()
    assert pipeline.detokenise(pipeline.tokenise(text)) == text


@pytest.mark.long
def test_a_data_folder_in_words(jieba: None, tmp_path: Path) -> None:
    assert main(command(tmp_path, "--segmenter", "jieba")) == 0
    out = tmp_path / "out"
    tokenised = (out / "text" / "train.tok.zh").read_text(encoding="utf-8").splitlines()
    assert "\u4f60\u597d" in tokenised[0].split()
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
    monkeypatch.setitem(sys.modules, "jieba", None)
    assert main(command(tmp_path, *more)) == 1
    assert message in capsys.readouterr().err
    assert not (tmp_path / "out").exists()
