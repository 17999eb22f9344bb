"""Sentences of running text: none is cut behind an ordinal, a title or a quotation."""

from __future__ import annotations

from pathlib import Path

import pytest

from gtrans.formats.catalogue import DocumentReader
from gtrans.formats.sentences import splitter


@pytest.mark.parametrize(
    ("lang", "sentences"),
    [
        ("de", ["Im 19. Jahrhundert und im 2. Weltkrieg war es so.", "Die 3. Auflage kam."]),
        ("de", ["Am 1. und 2. Tag.", "Ludwig XIV. Straße heißt sie.", "Es war 1990.", "Ja."]),
        ("de", ["Der 1. FC Köln, z. B. in der 4. Klasse."]),
        ("hu", ["2020. május 5-én.", "Az 5. Fejezet."]),
        ("tr", ["M.Ö. 5. yüzyılda.", "II. Dünya Savaşı."]),
        ("pl", ["Ul. Długa 5. Dom."]),
        ("fr", ["M. Dupont est là.", "Le Dr. Blanc aussi."]),
        ("en", ["See vol. 3 of it.", "By Eq. 5 and Fig. Two.", "He said no.", "Then No. 5 came."]),
        ("en", ["J. R. R. Tolkien wrote.", "“Where is it?” he asked.", "“It is. Go,” she said."]),
        ("en", ["“It is late. You go.”", "He left.", "1. Open it.", "‼️ Breaking.", "One."]),
        ("ja", ["「どこ？」と彼は聞いた。", "「遅い。君は？」と彼は聞いた。"]),
        ("ja", ["「一。」", "「二。」"]),
        ("zh", ["“你好。”他说。", "他走了。"]),
    ],
)  # fmt: skip
def test_sentences_are_not_cut(lang: str, sentences: list[str]) -> None:
    between = "" if lang in ("ja", "zh") else " "
    assert splitter(lang)(between.join(sentences)) == sentences


@pytest.mark.parametrize(
    ("split", "name", "sentences"),
    [
        (None, "a.md", ["It sang.", "We go."]),
        (False, "a.md", ["It sang. We go."]),
        (None, "a.txt", ["It sang. We go."]),
        (True, "a.txt", ["It sang.", "We go."]),
    ],
)
def test_splitting_can_be_switched(
    tmp_path: Path, split: bool | None, name: str, sentences: list[str]
) -> None:
    path = tmp_path / name
    path.write_text("It sang. We go.\n")
    file = DocumentReader("en", split).read(path, "markdown" if name == "a.md" else "text")
    assert file.sentences == [sentences]
    assert file.translated(file.sentences, " ").decode() == "It sang. We go.\n"
