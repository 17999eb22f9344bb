"""The marks around sentences, by hand for every kind of frame."""

from __future__ import annotations

from types import SimpleNamespace

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from omegaconf import OmegaConf
from support.pretrained_models import LANGS
from support.untrained import WORDS, dictionary

from gtrans.data.frame import ONCE_A_UNIT, SENTENCE_MARKS, Frame
from gtrans.data.vocabulary import add_symbols, symbol_of
from gtrans.errors import GtransError
from gtrans.models.gtransformer import GTransformer
from gtrans.modules.group_attention import DocumentLayout
from gtrans.tasks.options import DocumentTranslationConfig, adopt_unit

BOS, PAD, EOS, SRC, TGT = 0, 1, 2, 90, 91
# source of two sentences [5, 6] and [7]; decoder input and target, _ is padding
EXPECTED = {
    "both": ([BOS, 5, 6, EOS, BOS, 7, EOS], [BOS, 5, 6, EOS, BOS, 7], [5, 6, EOS, PAD, 7, EOS]),
    "end": ([5, 6, EOS, 7, EOS], [EOS, 5, 6, EOS, 7], [5, 6, EOS, 7, EOS]),
    "marian": ([TGT, 5, 6, EOS, TGT, 7, EOS], [EOS, 5, 6, EOS, 7], [5, 6, EOS, 7, EOS]),
    "bart": (
        [BOS, 5, 6, EOS, BOS, 7, EOS],
        [EOS, BOS, 5, 6, EOS, BOS, 7],
        [PAD, 5, 6, EOS, PAD, 7, EOS],
    ),
    "mbart": (
        [5, 6, EOS, SRC, 7, EOS, SRC],
        [TGT, 5, 6, EOS, TGT, 7],
        [5, 6, EOS, PAD, 7, EOS],
    ),
    "mbart50": (
        [SRC, 5, 6, EOS, SRC, 7, EOS],
        [EOS, TGT, 5, 6, EOS, TGT, 7],
        [PAD, 5, 6, EOS, PAD, 7, EOS],
    ),
    "document": (
        [BOS, 5, 6, EOS, 7, EOS],
        [BOS, 5, 6, EOS, 7, EOS],
        [5, 6, EOS, 7, EOS, BOS],
    ),
    "mbart-document": (
        [5, 6, EOS, 7, EOS, SRC],
        [TGT, 5, 6, EOS, 7, EOS],
        [5, 6, EOS, 7, EOS, TGT],
    ),
}
SENTENCES = [torch.tensor([5, 6, EOS]), torch.tensor([7, EOS])]


def frame(marks: str) -> Frame:
    return Frame(BOS, EOS, PAD, marks, SRC, TGT)


@pytest.mark.parametrize("marks", SENTENCE_MARKS)
def test_two_sentences(marks: str) -> None:
    source, previous, target = EXPECTED[marks]
    assert frame(marks).source(SENTENCES).tolist() == source
    assert [part.tolist() for part in frame(marks).target(SENTENCES)] == [previous, target]
    # Two tokens and two end marks a side, and as many marks as `extra` says for a sentence.
    length = 5 + 2 * frame(marks).extra + frame(marks).extra_of_unit
    assert len(source) == length
    assert len(previous) == length - (marks in ("both", "mbart")) - 2 * (marks == "marian")


@pytest.mark.parametrize("marks", sorted({*SENTENCE_MARKS} - {*ONCE_A_UNIT}))
def test_the_layout_finds_the_sentences(marks: str) -> None:
    """Each token, marks included, is in the group of its sentence, on both sides."""
    source, previous, _ = EXPECTED[marks]
    one = frame(marks)
    layout = DocumentLayout.of_source(torch.tensor([source]), PAD, one.closing)
    first = 3 + one.extra
    assert layout.sentence_lengths.tolist() == [first, len(source) - first]
    opening = BOS if one.opening == EOS else one.opening
    layout = DocumentLayout.of_target(torch.tensor([previous]), PAD, opening, EOS)
    # Where an end mark opens the next sentence it is in that one's group.
    first = 3 + one.extra if marks not in ("end", "marian") else 3
    assert layout.sentence_lengths.tolist() == [first, len(previous) - first]


@given(
    words=st.lists(st.lists(st.integers(4, 89), max_size=4), min_size=1, max_size=4),
    marks=st.sampled_from(SENTENCE_MARKS),
)
def test_rows_give_their_sentences_back(words: list[list[int]], marks: str) -> None:
    sentences = [torch.tensor([*sentence, EOS]) for sentence in words]
    one = frame(marks)
    _, target = one.target(sentences)
    for row in (one.source(sentences), target):
        padded = torch.cat([row, torch.tensor([PAD, PAD])])
        assert [part.tolist() for part in one.sentences(padded)] == [s.tolist() for s in sentences]


def test_language_symbols_are_looked_up() -> None:
    symbols = dictionary(WORDS)
    add_symbols(symbols, len(symbols), LANGS["mbart"])
    cfg = SimpleNamespace(sentence_marks="mbart", langs=",".join(LANGS["mbart"]),
                          source_lang="en", target_lang="de_DE")  # fmt: skip
    found = Frame.of(cfg, symbols, symbols)
    assert symbols[found.closing] == "[en_XX]" and symbols[found.opening] == "[de_DE]"
    cfg.source_lang = "is"
    with pytest.raises(GtransError, match="has no token for the language 'is'"):
        Frame.of(cfg, symbols, symbols)
    with pytest.raises(GtransError, match="several tokens for the language 'zh': name one of"):
        symbol_of("zh", "zh_CN,zh_TW")
    assert symbol_of("zh_TW", "zh_CN,zh_TW") == "[zh_TW]"
    assert symbol_of("de", "eng_Latn,deu_Latn") == "[deu_Latn]"


FULL = {"doc_mode": "full"}


@pytest.mark.parametrize(
    ("arch", "options", "given", "marks"),
    [
        ("gtransformer_mbart_large", {}, None, "mbart"),
        ("gtransformer_base", {}, None, "both"),
        ("gtransformer_mbart_large", {}, "mbart50", "mbart50"),
        # A document Transformer learns where documents end,
        ("gtransformer_base", FULL, None, "document"),
        ("gtransformer_mbart_large", FULL, None, "mbart-document"),
        # not with positions that restart where a sentence begins.
        ("gtransformer_base", {**FULL, "positions": "sentence"}, None, "both"),
        ("gtransformer_mbart_large", {**FULL, "positions": "sentence"}, None, "mbart"),
    ],
)
def test_an_architecture_has_the_marks_of_its_pretrained_model(
    arch: str, options: dict[str, str], given: str | None, marks: str
) -> None:
    cfg = OmegaConf.structured(DocumentTranslationConfig)
    cfg.sentence_marks = given
    adopt_unit(cfg, GTransformer, {"_name": arch, **options})
    assert str(cfg.sentence_marks) == marks


def test_marks_of_whole_documents_are_for_plain_attention() -> None:
    cfg = OmegaConf.structured(DocumentTranslationConfig)
    cfg.sentence_marks = "document"
    with pytest.raises(GtransError, match="`--sentence-marks document` is for the document Trans"):
        adopt_unit(cfg, GTransformer, {"_name": "gtransformer_base", "doc_mode": "partial"})
