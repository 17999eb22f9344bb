"""The special tokens around the sentences of a unit."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import torch
from fairseq.data import Dictionary
from torch import Tensor
from torch.nn.utils.rnn import pad_sequence

from gtrans.data.vocabulary import find_language_token, split_languages

# Their one special token opens the decoder's input once a unit, and ends the document.
ONCE_A_UNIT = ("document", "mbart-document")
_LANGUAGES_OF_MBART25 = 25
SPECIAL_TOKENS = (
    "both",
    "end",
    "marian",
    "bart",
    "mbart",
    "mbart50",
    "document",
    "mbart-document",
)


class TargetRow(NamedTuple):
    """The target side of a unit, ``(length,)`` each."""

    decoder_input: Tensor
    target: Tensor


@dataclass(frozen=True)
class Frame:
    """The special tokens around every sentence.

    Each sentence of a unit has all of them, so that group attention sees the same tokens as a
    sentence model. x stands for the words of a sentence; targets end with ``</s>``.

    ===========  ===================  ==========================  ===========================
    value        a source sentence    decoder input, 1 sentence   2 sentences
    ===========  ===================  ==========================  ===========================
    ``both``     ``<s> x </s>``       ``<s> x``                   ``<s> x </s> <s> x``
    ``end``      ``x </s>``           ``</s> x``                  ``</s> x </s> x``
    ``marian``   ``[tgt] x </s>``     ``</s> x``                  ``</s> x </s> x``
    ``bart``     ``<s> x </s>``       ``</s> <s> x``              ``</s> <s> x </s> <s> x``
    ``mbart``    ``x </s> [src]``     ``[tgt] x``                 ``[tgt] x </s> [tgt] x``
    ``mbart50``  ``[src] x </s>``     ``</s> [tgt] x``            ``</s> [tgt] x </s> [tgt] x``
    ===========  ===================  ==========================  ===========================

    ``both`` is for G-Transformer; ``end`` for fairseq's models and OPUS-MT; ``marian`` for OPUS-MT
    with several languages; the others for the models of these names.

    Two more are for plain attention over whole documents. Their token stands once in a unit. The
    decoder predicts it after the last ``</s>``, so that unconstrained decoding finds the end.

    ==================  =========================  ======================  ===================
    value               a source of 2 sentences    decoder input           predicted
    ==================  =========================  ======================  ===================
    ``document``        ``<s> x </s> x </s>``      ``<s> x </s> x </s>``   ``x </s> x </s> <s>``
    ``mbart-document``  ``x </s> x </s> [src]``    ``[tgt] x </s> x </s>`` ``x </s> x </s> [tgt]``
    ==================  =========================  ======================  ===================

    Attributes:
        bos, eos, pad: ids of ``<s>``, ``</s>`` and padding.
        special_tokens: one of :data:`SPECIAL_TOKENS`.
        source_language, target_language: ids of ``[src]`` and ``[tgt]``, if needed.
    """

    bos: int
    eos: int
    pad: int
    special_tokens: str = "both"
    source_language: int | None = None
    target_language: int | None = None

    @classmethod
    def of(cls, cfg: Any, source: Dictionary, target: Dictionary) -> Frame:
        """Return the frame that the options of a task or a model describe.

        ``cfg``: ``sentence_marks`` (None: ``both``), ``langs``, ``source_lang``, ``target_lang``.
        """
        special_tokens = str(cfg.sentence_marks or "both")
        source_language = target_language = None
        if special_tokens.startswith("mbart"):
            source_language = source.index(find_language_token(cfg.source_lang, cfg.langs))
        if special_tokens.startswith(("mbart", "marian")):
            target_language = target.index(find_language_token(cfg.target_lang, cfg.langs))
        return cls(
            bos=target.bos(),
            eos=target.eos(),
            pad=target.pad(),
            special_tokens=special_tokens,
            source_language=source_language,
            target_language=target_language,
        )

    @property
    def opening(self) -> int:
        """The token that opens each sentence of the decoder's input."""
        if self.special_tokens == "both":
            return self.bos
        return self._target_language if self.special_tokens == "mbart" else self.eos

    @property
    def document_token(self) -> int | None:
        """The token that opens the decoder's input and ends the target, or None."""
        if self.special_tokens == "document":
            return self.bos
        return self._target_language if self.special_tokens == "mbart-document" else None

    @property
    def prefix(self) -> int | None:
        """The special token that follows ``opening``, or None."""
        if self.special_tokens == "bart":
            return self.bos
        return self._target_language if self.special_tokens == "mbart50" else None

    @property
    def closing(self) -> int:
        """The last token of a source sentence."""
        return self._source_language if self.special_tokens == "mbart" else self.eos

    @property
    def special_ids(self) -> tuple[int, ...]:
        """The ids of all special tokens and padding."""
        ids = [self.bos, self.eos, self.pad]
        for language in (self.source_language, self.target_language):
            if language is not None and language not in ids:
                ids.append(language)
        return tuple(ids)

    @property
    def extra_tokens(self) -> int:
        """The number of special tokens of a sentence besides ``</s>``."""
        return int(self.special_tokens != "end" and not self.extra_tokens_of_unit)

    @property
    def extra_tokens_of_unit(self) -> int:
        """The number of special tokens that stand once in a unit."""
        return int(self.special_tokens in ONCE_A_UNIT)

    def source(self, sentences: Sequence[Tensor]) -> Tensor:
        """Return ``(length,)`` the source of a unit, from sentences with ``</s>``."""
        before = {
            "both": self.bos,
            "bart": self.bos,
            "mbart50": self.source_language,
            "marian": self.target_language,
            "document": self.bos,
        }
        after = {"mbart": self.source_language, "mbart-document": self.source_language}
        opening = _id_tensor(sentences[0], before.get(self.special_tokens))
        closing = _id_tensor(sentences[0], after.get(self.special_tokens))
        if self.special_tokens in ONCE_A_UNIT:
            return torch.cat([opening, *sentences, closing])
        parts: list[Tensor] = []
        for sentence in sentences:
            parts += [opening, sentence, closing]
        return torch.cat(parts)

    def target(self, sentences: Sequence[Tensor]) -> TargetRow:
        """Return the target side of a unit, from sentences with ``</s>``.

        The target has padding where the search sets a special token, so that documents and their
        sentences have losses over the same words (but for ``document_token``).
        """
        if self.document_token is not None:
            document_token = _id_tensor(sentences[0], self.document_token)
            words = torch.cat(list(sentences))
            return TargetRow(torch.cat([document_token, words]), torch.cat([words, document_token]))
        # Where `</s>` opens sentences, the end of one opens the next.
        ends_open = self.opening == self.eos
        given = _id_tensor(sentences[0], self.prefix if ends_open else self.opening)
        skipped = torch.full_like(given, self.pad)
        read_parts: list[Tensor] = []
        target_parts: list[Tensor] = []
        for sentence in sentences:
            read_parts += [given, sentence]
            target_parts += [skipped, sentence]
        read = torch.cat(read_parts)
        target = torch.cat(target_parts)
        if ends_open:
            first = read.new_tensor([self.eos])
            return TargetRow(torch.cat([first, read[:-1]]), target)
        return TargetRow(read[:-1], target[1:])

    def read_before(self, sentences: Sequence[Tensor]) -> Tensor:
        """Return ``(length,)`` the decoder's input before the next sentence's opening token.

        ``sentences``: the translations so far, with ``</s>``.
        """
        read = self.target(sentences).decoder_input
        if self.document_token is not None:  # the last `</s>` opens the next sentence
            return read[:-1]
        if self.opening == self.eos:
            return read
        last_end = sentences[-1][-1:]
        return torch.cat([read, last_end])

    def sentences(self, row: Tensor) -> list[Tensor]:
        """Return the sentences of a row ``(length,)``, each with ``</s>``."""
        other_tokens = [number for number in self.special_ids if number != self.eos]
        is_other = torch.isin(row, row.new_tensor(other_tokens))
        words = row[~is_other]
        last = words.eq(self.eos).nonzero().squeeze(1)
        ends = (last + 1).tolist()
        begins = [0, *ends[:-1]]
        return [words[begin:end] for begin, end in zip(begins, ends, strict=True)]

    def pad_rows(self, rows: Sequence[Tensor]) -> Tensor:
        """Return ``(rows, longest)``, padded on the right."""
        return pad_sequence(list(rows), batch_first=True, padding_value=float(self.pad))

    @property
    def _source_language(self) -> int:
        assert self.source_language is not None, "these special tokens name languages"
        return self.source_language

    @property
    def _target_language(self) -> int:
        assert self.target_language is not None, "these special tokens name languages"
        return self.target_language


def _id_tensor(like: Tensor, number: int | None) -> Tensor:
    """Return ``(1,)`` an id; None: an empty tensor."""
    return like.new_tensor([] if number is None else [number])


def pretrained_special_tokens(options: Mapping[str, Any]) -> str:
    """Return the special tokens of a trained model, from the options in its checkpoint.

    BART has no languages, mBART at most 25; more, or multilingual fine-tuning, mean mBART-50.
    """
    if options.get("sentence_marks"):  # a checkpoint of this project
        return str(options["sentence_marks"])
    langs = split_languages(options.get("langs"))
    # fairseq's multilingual task may have its languages in a file, lang_dict.
    multilingual = options.get("decoder_langtok") or options.get("lang_dict")
    if multilingual or len(langs) > _LANGUAGES_OF_MBART25:
        return "mbart50"
    return "mbart" if langs else "bart"
