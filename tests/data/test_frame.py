"""Special tokens around sentences, by hand for every kind of frame."""

from __future__ import annotations

from types import SimpleNamespace

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from omegaconf import OmegaConf
from support.pretrained_models import LANGS
from support.untrained import WORDS, dictionary

from gtrans.data.frame import ONCE_A_UNIT, SPECIAL_TOKENS, Frame
from gtrans.data.vocabulary import add_language_tokens, find_language_token
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


def frame(special_tokens: str) -> Frame:
    return Frame(BOS, EOS, PAD, special_tokens, SRC, TGT)


@pytest.mark.parametrize("special_tokens", SPECIAL_TOKENS)
def test_two_sentences(special_tokens: str) -> None:
    source, previous, target = EXPECTED[special_tokens]
    assert frame(special_tokens).source(SENTENCES).tolist() == source
    assert [part.tolist() for part in frame(special_tokens).target(SENTENCES)] == [previous, target]
    # Two tokens and two end tokens a side, and `extra` special tokens for a sentence.
    length = 5 + 2 * frame(special_tokens).extra_tokens + frame(special_tokens).extra_tokens_of_unit
    assert len(source) == length
    assert len(previous) == length - (special_tokens in ("both", "mbart")) - 2 * (
        special_tokens == "marian"
    )


@pytest.mark.parametrize("special_tokens", sorted({*SPECIAL_TOKENS} - {*ONCE_A_UNIT}))
def test_the_layout_finds_the_sentences(special_tokens: str) -> None:
    """Each token, special tokens included, is in the group of its sentence, on both sides."""
    source, previous, _ = EXPECTED[special_tokens]
    one = frame(special_tokens)
    layout = DocumentLayout.of_source(torch.tensor([source]), PAD, one.closing)
    first = 3 + one.extra_tokens
    assert layout.sentence_lengths.tolist() == [first, len(source) - first]
    opening = BOS if one.opening == EOS else one.opening
    layout = DocumentLayout.of_target(torch.tensor([previous]), PAD, opening, EOS)
    # Where an end token opens the next sentence it is in that one's group.
    first = 3 + one.extra_tokens if special_tokens not in ("end", "marian") else 3
    assert layout.sentence_lengths.tolist() == [first, len(previous) - first]


@given(
    words=st.lists(st.lists(st.integers(4, 89), max_size=4), min_size=1, max_size=4),
    special_tokens=st.sampled_from(SPECIAL_TOKENS),
)
def test_rows_give_their_sentences_back(words: list[list[int]], special_tokens: str) -> None:
    sentences = [torch.tensor([*sentence, EOS]) for sentence in words]
    one = frame(special_tokens)
    _, target = one.target(sentences)
    for row in (one.source(sentences), target):
        padded = torch.cat([row, torch.tensor([PAD, PAD])])
        assert [part.tolist() for part in one.sentences(padded)] == [s.tolist() for s in sentences]


def test_language_tokens_are_looked_up() -> None:
    entries = dictionary(WORDS)
    add_language_tokens(entries, len(entries), LANGS["mbart"])
    cfg = SimpleNamespace(sentence_marks="mbart", langs=",".join(LANGS["mbart"]),
                          source_lang="en", target_lang="de_DE")  # fmt: skip
    found = Frame.of(cfg, entries, entries)
    assert entries[found.closing] == "[en_XX]" and entries[found.opening] == "[de_DE]"
    cfg.source_lang = "is"
    with pytest.raises(GtransError, match="has no token for the language 'is'"):
        Frame.of(cfg, entries, entries)
    with pytest.raises(GtransError, match="several tokens for the language 'zh': name one of"):
        find_language_token("zh", "zh_CN,zh_TW")
    assert find_language_token("zh_TW", "zh_CN,zh_TW") == "[zh_TW]"
    assert find_language_token("de", "eng_Latn,deu_Latn") == "[deu_Latn]"


FULL = {"doc_mode": "full"}


@pytest.mark.parametrize(
    ("arch", "options", "given", "special_tokens"),
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
def test_an_architecture_has_the_special_tokens_of_its_pretrained_model(
    arch: str, options: dict[str, str], given: str | None, special_tokens: str
) -> None:
    cfg = OmegaConf.structured(DocumentTranslationConfig)
    cfg.sentence_marks = given
    adopt_unit(cfg, GTransformer, {"_name": arch, **options})
    assert str(cfg.sentence_marks) == special_tokens


def test_special_tokens_of_whole_documents_are_for_plain_attention() -> None:
    cfg = OmegaConf.structured(DocumentTranslationConfig)
    cfg.sentence_marks = "document"
    with pytest.raises(GtransError, match="`--sentence-marks document` is for the document Trans"):
        adopt_unit(cfg, GTransformer, {"_name": "gtransformer_base", "doc_mode": "partial"})
