"""BERT's subwords, its frozen features, and an encoder that is a BERT."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file, save_file
from support.tiny_bert import SENTENCES
from support.untrained import task_for, untrained
from torch import Tensor

from gtrans.errors import GtransError
from gtrans.models.base.planning import tokens_at
from gtrans.models.flat_transformer import FlatBert, bert_windows
from gtrans.models.gtransformer_bert import GTransformerBert
from gtrans.modules.bert import (
    CLS,
    PAD,
    SEP,
    UNK,
    BertSubwords,
    BertWeights,
    FrozenBert,
    context_row,
    load_bert,
    token_types,
)

CPU = torch.device("cpu")


@pytest.fixture(scope="module")
def subwords(bert: Path) -> BertSubwords:
    return BertSubwords(str(bert))


# ---- subwords ---------------------------------------------------------------------------------


def test_subwords_are_those_of_the_tokenizer(bert: Path, subwords: BertSubwords) -> None:
    from transformers import AutoTokenizer

    tokenizer = AutoTokenizer.from_pretrained(str(bert))
    for sentence in SENTENCES:
        (ids,) = subwords.encode([sentence])
        assert ids[-1] == SEP
        assert (
            subwords.order[ids[:-1]].tolist()
            == tokenizer(sentence, add_special_tokens=False)["input_ids"]
        )
    names = ["[CLS]", "[PAD]", "[SEP]", "[UNK]"]
    assert subwords.entries[:4] == names
    assert subwords.order[:4].tolist() == tokenizer.convert_tokens_to_ids(names)
    assert subwords.entries[subwords.first_word - 1] == "[MASK]"


def test_special_tokens_in_the_text_are_unknown_words_and_no_line_is_empty(
    subwords: BertSubwords,
) -> None:
    special_tokens, empty = subwords.encode(["[SEP] [CLS] [MASK] [PAD]", "\u200b"])
    assert special_tokens.tolist() == [UNK] * 4 + [SEP]
    assert empty.tolist() == [UNK, SEP]


def test_a_row_and_its_token_types() -> None:
    first, second = torch.tensor([7, 8, SEP]), torch.tensor([9, SEP])
    row = context_row([first], second, 512)
    assert row.tolist() == [CLS, 7, 8, SEP, 9, SEP]
    assert token_types(row).tolist() == [0, 0, 0, 0, 1, 1]
    alone = context_row([], second, 512)
    assert alone.tolist() == [CLS, 9, SEP]
    assert token_types(alone).tolist() == [0, 0, 0]


def test_a_long_row_loses_the_oldest_context_first_and_never_the_sentence() -> None:
    oldest, newer = torch.tensor([10, 11, SEP]), torch.tensor([12, 13, SEP])
    sentence = torch.tensor([20, 21, SEP])
    assert context_row([oldest, newer], sentence, 9).tolist() == [
        CLS, 10, 11, 12, 13, SEP, 20, 21, SEP,
    ]  # fmt: skip
    assert context_row([oldest, newer], sentence, 7).tolist() == [
        CLS, 12, 13, SEP, 20, 21, SEP,
    ]  # fmt: skip
    for longest in (1, 4, 5):
        assert context_row([oldest, newer], sentence, longest).tolist() == [CLS, 20, 21, SEP]


# ---- folders -------------------------------------------------------------------------------------


def lacking(file: str) -> Any:
    return lambda folder: (folder / file).unlink()


def with_weights(change: Callable[[dict[str, Tensor]], object]) -> Any:
    def apply(folder: Path) -> None:
        tensors = load_file(folder / "model.safetensors")
        change(tensors)
        save_file(tensors, folder / "model.safetensors", {"format": "pt"})

    return apply


def without_attention(tensors: dict[str, Tensor]) -> None:
    for name in [name for name in tensors if "layer.1.attention" in name]:
        del tensors[name]


def with_nan(tensors: dict[str, Tensor]) -> None:
    next(iter(tensors.values())).fill_(float("nan"))


def another_kind(folder: Path) -> None:
    config = json.loads((folder / "config.json").read_text())
    (folder / "config.json").write_text(json.dumps({**config, "model_type": "roberta"}))


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lacking("config.json"), "cannot load"),
        (lacking("tokenizer.json"), "cannot load"),
        (lacking("model.safetensors"), "cannot load"),
        (with_weights(without_attention), "its weights lack"),
        (with_weights(with_nan), "holds NaN"),
        (another_kind, "of type roberta, not a BERT"),
        (shutil.rmtree, "there is no such BERT folder"),
    ],
)
def test_a_folder_that_is_not_whole_is_one_line(
    change: Any, message: str, bert: Path, tmp_path: Path
) -> None:
    folder = shutil.copytree(bert, tmp_path / "bert")
    change(folder)
    with pytest.raises(GtransError, match=message) as error:
        load_bert(str(folder)), BertSubwords(str(folder))
    assert "\n" not in str(error.value) and str(folder) in str(error.value)


def test_a_name_that_cannot_be_had(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_OFFLINE", True)
    with pytest.raises(GtransError, match="no-such-bert: cannot load") as error:
        BertSubwords("no-such-bert")
    assert "\n" not in str(error.value)


# ---- frozen features -----------------------------------------------------------------------------


def test_features_are_the_last_hidden_layer(bert: Path, subwords: BertSubwords) -> None:
    """Against transformers itself, rows of different lengths in one batch."""
    model = load_bert(str(bert)).eval()
    sentences = subwords.encode(SENTENCES)
    rows = [context_row(sentences[:1], sentences[1], 512), context_row([], sentences[3], 512)]
    frozen = FrozenBert(subwords)
    for row, states, again in zip(rows, frozen(rows, CPU), frozen(rows, CPU), strict=True):
        assert torch.equal(states, again) and not states.requires_grad  # nothing is dropped
        with torch.no_grad():
            wanted = model(
                input_ids=subwords.order[row][None], token_type_ids=token_types(row)[None]
            ).last_hidden_state[0]
        assert states.dtype == torch.float16
        assert torch.allclose(states.float(), wanted, atol=2e-3)


def test_a_sentence_longer_than_bert_reads_is_read_in_parts(subwords: BertSubwords) -> None:
    sentence = subwords.encode([" ".join(SENTENCES * 20)])[0]
    row = context_row([], sentence, subwords.longest)
    assert len(row) > subwords.longest
    (states,) = FrozenBert(subwords)([row], CPU)
    assert len(states) == len(row)


# ---- an encoder that is a BERT -------------------------------------------------------------------


def model_of(model: Any, unit: str, subwords: BertSubwords, **options: Any) -> Any:
    task = task_for(unit, words=(subwords.entries[4:], ("a", "b")))
    given = {
        "decoder_layers": 1, "encoder_ffn_embed_dim": 64, "bert_positions": subwords.longest,
        "bert_norm_eps": subwords.norm_eps, "unit": unit,
    }  # fmt: skip
    return untrained(task, 1, model, **{**given, **options}).eval()


def encoder_model(subwords: BertSubwords, **options: Any) -> GTransformerBert:
    given = {"max_doc_tokens": 512, **options}
    return model_of(GTransformerBert, "document", subwords, **given)


def test_the_encoder_is_transformers_own_bert(bert: Path, subwords: BertSubwords) -> None:
    """Hidden states to 1e-4, a batch with padding."""
    model = encoder_model(subwords, doc_mode="full")
    model.encoder.start_from(BertWeights(subwords))
    sentences = subwords.encode(SENTENCES[:3])
    rows = [torch.cat([torch.tensor([CLS]), sentence]) for sentence in sentences]
    padded = torch.nn.utils.rnn.pad_sequence(rows, batch_first=True, padding_value=PAD)
    with torch.no_grad():
        states = model.encoder(padded).states.split([len(row) for row in rows])
        for row, found in zip(rows, states, strict=True):
            wanted = load_bert(str(bert)).eval()(input_ids=subwords.order[row][None])
            assert torch.allclose(found, wanted.last_hidden_state[0], atol=1e-4)


def test_within_groups_a_sentence_is_what_bert_knows(subwords: BertSubwords) -> None:
    """With positions by sentence, group attention reads each sentence as BERT does alone."""
    model = encoder_model(subwords, positions="sentence", encoder_global_layers=0)
    model.encoder.start_from(BertWeights(subwords))
    sentences = subwords.encode(SENTENCES[:3])
    rows = [torch.cat([torch.tensor([CLS]), sentence]) for sentence in sentences]
    with torch.no_grad():
        together = model.encoder(torch.cat(rows)[None]).states
        alone = torch.cat([model.encoder(row[None]).states for row in rows])
    assert torch.allclose(together, alone, atol=1e-5)


def test_documents_beyond_what_bert_reads(subwords: BertSubwords) -> None:
    with pytest.raises(GtransError, match="`--max-doc-tokens` must be at most 512"):
        encoder_model(subwords, max_doc_tokens=600)


def test_the_mask_of_word_dropout_is_berts(subwords: BertSubwords) -> None:
    model = encoder_model(subwords)
    model.encoder.start_from(BertWeights(subwords))
    words = model.encoder.embed_tokens.weight
    assert torch.equal(words[-1], words[subwords.entries.index("[MASK]")])


# ---- Flat-Transformer + BERT ---------------------------------------------------------------------


def test_windows_as_bert_reads_them() -> None:
    a, b, c, d = 4, 5, 6, 7
    tokens = torch.tensor(
        [[CLS, a, b, SEP, CLS, c, SEP, CLS, d, SEP], [CLS, d, c, SEP, CLS, a, SEP, PAD, PAD, PAD]]
    )

    def windows(current: list[int], longest: int) -> tuple[Tensor, Tensor]:
        special_tokens = (CLS, PAD, SEP)
        index, current_after = bert_windows(tokens, torch.tensor(current), longest, special_tokens)
        return tokens_at(tokens, index, PAD), current_after

    rows, current = windows([1, 0], 512)
    assert rows.tolist() == [
        [CLS, a, b, SEP, c, SEP, d, SEP], [CLS, d, c, SEP, a, SEP, PAD, PAD]
    ]  # fmt: skip
    assert current.tolist() == [1, 0]
    # The oldest context goes first, whole sentences with it; of the sentence nothing goes.
    rows, current = windows([1, 0], 5)
    assert rows.tolist() == [[CLS, c, SEP, d, SEP], [CLS, d, c, SEP, SEP]]
    assert current.tolist() == [0, 0]
    rows, current = windows([2, 1], 2)
    assert rows.tolist() == [[CLS, d, SEP], [CLS, a, SEP]]


def test_flat_bert_is_bert_on_the_pair(bert: Path, subwords: BertSubwords) -> None:
    """All blocks over the whole window: transformers' own BERT at the sentence's positions."""
    model = model_of(FlatBert, "window", subwords, flat_bottom_layers=2)
    model.encoder.start_from(BertWeights(subwords))
    context, sentence = subwords.encode(SENTENCES[:2])
    cls = torch.tensor([CLS])
    window = torch.cat([cls, context, cls, sentence])[None]
    pair = context_row([context], sentence, 512)
    with torch.no_grad():
        found = model.encode({"src_tokens": window, "current_sentence": torch.tensor([1])}).states
        wanted = load_bert(str(bert)).eval()(
            input_ids=subwords.order[pair][None], token_type_ids=token_types(pair)[None]
        )
    assert torch.allclose(found, wanted.last_hidden_state[0, -len(sentence) :], atol=1e-4)


def test_flat_bert_top_blocks_see_the_sentence_only(subwords: BertSubwords) -> None:
    model = model_of(FlatBert, "window", subwords, flat_bottom_layers=0)
    context, sentence = subwords.encode(SENTENCES[:2])
    cls = torch.tensor([CLS])
    window = torch.cat([cls, context, cls, sentence])[None]
    other = window.clone()
    other[0, 1] = 9
    with torch.no_grad():
        current = torch.tensor([1])
        states = [
            model.encode({"src_tokens": rows, "current_sentence": current}).states
            for rows in (window, other)
        ]
    assert torch.equal(*states)
    assert len(states[0]) == len(sentence)
