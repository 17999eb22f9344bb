"""Tokenised BLEU: the words of Moses.

Papers that score "tokenised output and references" count the n-grams of Moses' tokens
(``multi-bleu.perl``). Here the sentences of translation and reference are tokenised alike, so that
plain text is scored as its tokens would be, over sentences and over documents.
"""

from __future__ import annotations

from collections.abc import Sequence
from importlib.metadata import version
from typing import Any

from sacrebleu.tokenizers.tokenizer_base import BaseTokenizer

from gtrans.errors import GtransError
from gtrans.languages import WITHOUT_SPACES

MOSES = "moses"
_DEFAULT = "en"  # Moses' own, for a language that it does not know


def moses_tokens(documents: Sequence[Sequence[str]], lang: str) -> list[list[str]]:
    """The tokens of every sentence, with a space between them; case and characters are kept.

    Args:
        documents: documents of plain sentences.
        lang: code of their language, whose abbreviations and contractions are kept together.
    """
    # Imported on demand, because sacremoses starts slowly.
    from sacremoses import MosesTokenizer

    tokenize: Any = MosesTokenizer(lang or _DEFAULT).tokenize
    return [
        [tokenize(sentence, escape=False, return_str=True) for sentence in document]
        for document in documents
    ]


class MosesTokens(BaseTokenizer):
    """Stands for Moses' tokeniser in signatures; the text that it is given has tokens already.

    Args:
        lang: code of the language.

    Raises:
        GtransError: the language is written without spaces; Moses does not split it.
    """

    def __init__(self, lang: str) -> None:
        if lang in WITHOUT_SPACES:
            raise GtransError(f"--tokenize {MOSES} cannot split --target-lang {lang} into words")
        self._lang = lang or _DEFAULT

    def signature(self) -> str:
        """Its name in the signature of a score."""
        return f"{MOSES}-{self._lang},sacremoses-{version('sacremoses')}"

    def __call__(self, line: str) -> str:
        """The same line."""
        return line
