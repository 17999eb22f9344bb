"""Text without spaces between words: Chinese, Japanese, Thai and others.

Scores that count words count each of its characters as a word.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

_KANA = r"\u3041-\u30ff\u31f0-\u31ff\uff66-\uff9f"
# Chinese characters and phonetic symbols; Thai and Lao, Tibetan, Burmese, Khmer.
_OTHERS = (
    r"\u2e80-\u2fdf\u3005-\u3007\u3100-\u312f\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff"
    r"\U00020000-\U0003ffff\u0e01-\u0eff\u0f00-\u0fff\u1000-\u109f\u1780-\u17ff"
)
# Punctuation of these scripts, full-width forms, and the quotes, dashes, dots and symbols that they
# share with others.
_PUNCTUATION = (
    r"\u3000-\u3004\u3008-\u303f\uff01-\uff65\uffa0-\uffef"
    r"\u00b7\u00d7\u2010-\u2027\u2030-\u205e\u2190-\u2bff"
)
_SCRIPTS = re.compile(f"[{_KANA}{_OTHERS}]")
_JAPANESE = re.compile(f"[{_KANA}]")
_CHARACTERS = re.compile(f"[{_KANA}{_OTHERS}{_PUNCTUATION}]")
# Japanese has kana in nearly every sentence, Chinese in a few names.
_SHARE_OF_KANA = 0.1


def is_written_without_spaces(documents: Sequence[Sequence[str]]) -> bool:
    """Return whether most letters are of scripts without spaces between words."""
    text = _joined(documents)
    count = len(_SCRIPTS.findall(text))
    letters = sum(map(str.isalpha, text))
    return count > 0 and 2 * count >= letters


def _joined(documents: Sequence[Sequence[str]]) -> str:
    return "".join("".join(document) for document in documents)


def is_chinese(documents: Sequence[Sequence[str]]) -> bool:
    """Return whether text without spaces is Chinese."""
    text = _joined(documents)
    kana = len(_JAPANESE.findall(text))
    chinese = len(re.findall(r"[\u3400-\u4dbf\u4e00-\u9fff]", text))
    return chinese > 0 and kana < _SHARE_OF_KANA * chinese


def spaced(text: str) -> str:
    """Return the text with spaces around every character of these scripts."""
    return _CHARACTERS.sub(r" \g<0> ", text)
