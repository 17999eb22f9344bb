"""Words of Chinese text, by jieba.

The experiments of the thesis on Chinese (Guo Zhiyu 2021, §4.2) and many others segment with jieba.
It is the extra ``zh``; without it Chinese is split into characters.
"""

from __future__ import annotations

import functools
import importlib
import logging
from typing import Any

from gtrans.libraries import require

SEGMENTERS = ("jieba",)


@functools.cache
def _tokenizer() -> Any:
    require(("jieba",), "`--segmenter jieba`")
    jieba: Any = importlib.import_module("jieba")
    jieba.setLogLevel(logging.WARNING)
    return jieba.Tokenizer()


def check_segmenter(name: str) -> None:
    """Raises GtransError if the segmenter ``name``, one of :data:`SEGMENTERS`, is missing."""
    assert name in SEGMENTERS
    _tokenizer()


def word_ends(text: str) -> frozenset[int]:
    """After how many characters of ``text`` a word ends.

    Raises:
        GtransError: jieba is missing.
    """
    ends, position = set(), 0
    for word in _tokenizer().cut(text):
        position += len(word)
        ends.add(position)
    return frozenset(ends)


def words(text: str) -> list[str]:
    """The words of ``text``, one after the other.

    Raises:
        GtransError: jieba is missing.
    """
    return list(_tokenizer().cut(text))
