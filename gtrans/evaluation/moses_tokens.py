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

MOSES = "moses"
_DEFAULT = "en"  # Moses' own, for a language that it does not know
_ESCAPES = (
    *("&amp;", "&apos;", "&quot;", "&lt;", "&gt;", "&#124;", "&#91;", "&#93;", "&bar;", "&bra;"),
    *("&ket;", "@-@", "@,@", "@.@"),
)

Documents = Sequence[Sequence[str]]


def moses_tokens(documents: Documents, lang: str) -> list[list[str]]:
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


def check_unescaped(name: str, documents: Documents, references: Documents) -> None:
    """Refuse tokens with escapes of Moses, which would count as other words.

    Args:
        name: the system that they are of.
        documents: its tokens.
        references: plain text. What stands there, too, is no escape.

    Raises:
        GtransError: some have escapes.
    """
    plain = "\n".join(sentence for document in references for sentence in document)
    sentences = [sentence for document in documents for sentence in document]
    for escape in _ESCAPES:
        found = sum(escape in sentence for sentence in sentences)
        if found and escape not in plain:
            raise GtransError(
                f"--hyp-tokens: {found} sentences of {name} have '{escape}', an escape of Moses; "
                "give tokens without escapes, as 'gtrans translate --tokens' writes them"
            )


class MosesTokens(BaseTokenizer):
    """Stands for Moses' tokeniser in signatures; the text that it is given has tokens already.

    Args:
        lang: code of the language.
        given: the translations were given as tokens.
    """

    def __init__(self, lang: str, given: bool = False) -> None:
        self._lang = lang or _DEFAULT
        self._given = ",hyp:tokens" if given else ""

    def signature(self) -> str:
        """Its name in the signature of a score."""
        return f"{MOSES}-{self._lang},sacremoses-{version('sacremoses')}{self._given}"

    def __call__(self, line: str) -> str:
        """The same line."""
        return line
