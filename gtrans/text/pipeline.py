"""The interface of text pipelines: from a sentence to tokens of a vocabulary and back."""

from __future__ import annotations

from abc import ABC, abstractmethod


class TextPipeline(ABC):
    """Encoder and decoder of the text of one language.

    Encoding has two steps, ``tokenise`` and ``segment``; decoding reverses them.

    Args:
        lang: language code, e.g. ``en`` or ``zh_CN``.
    """

    def __init__(self, lang: str) -> None:
        self.lang = lang

    def encode(self, sentence: str) -> str:
        """Tokens separated by one space: at least one, none of them reserved."""
        return self.segment(self.tokenise(sentence))

    def decode(self, tokens: str) -> str:
        """Plain text of one sentence from its tokens (those of ``encode`` or a model's)."""
        return self.detokenise(self.unsegment(tokens))

    @abstractmethod
    def tokenise(self, sentence: str) -> str:
        """Words separated by one space, reserved symbols escaped; never empty.

        White space and control characters of every kind count as a space.
        """

    @abstractmethod
    def detokenise(self, tokens: str) -> str:
        """Plain text of what ``tokenise`` returned."""

    @abstractmethod
    def segment(self, tokens: str) -> str:
        """Subword pieces of what ``tokenise`` returned, separated by one space."""

    @abstractmethod
    def unsegment(self, tokens: str) -> str:
        """What ``tokenise`` returned, from the subword pieces of ``segment`` or a model's."""
