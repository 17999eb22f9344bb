"""Starting from XLM-R: a tiny one, made here and saved as `transformers` saves the real one."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from omegaconf import OmegaConf
from support.batches import EOS, PAD
from support.runs import log_of, refusal, stock_train, train, updates
from support.tiny_models import Finished, StockCommands, TinyWorld
from support.translating import FAST
from support.untrained import dictionary, pair, sizes

from gtrans.errors import GtransError
from gtrans.models.gtrans_fusion import GtransFusion, GtransFusionConfig

SUBWORDS = [f"▁p{number}" for number in range(12)]
# The corpus has these subwords in another order, some of them not, and one of its own.
WORDS = [SUBWORDS[7], "own", SUBWORDS[2], SUBWORDS[3], SUBWORDS[11]]
SHAPE: dict[str, Any] = {
    **sizes(2, 16, 32), "encoder_layers": 3, "max_positions": 20, "share_all_embeddings": True,
}  # fmt: skip
RUN = (
    *("--encoder-layers", "3", "--decoder-layers", "2", "--encoder-embed-dim", "16"),
    *("--encoder-ffn-embed-dim", "32", "--decoder-ffn-embed-dim", "32", "--max-positions", "200"),
)
TASK = pair(dictionary(WORDS))


@pytest.fixture(scope="module")
def xlmr(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The XLM-R of most tests."""
    return saved_xlmr(tmp_path_factory.mktemp("xlmr"), SUBWORDS)


def saved_xlmr(folder: Path, subwords: list[str]) -> Path:
    """A folder with a model of 3 layers and a tokenizer of subwords and the special tokens."""
    from transformers import XLMRobertaConfig, XLMRobertaModel, XLMRobertaTokenizer

    torch.manual_seed(1)
    special = ["<s>", "<pad>", "</s>", "<unk>"]
    vocabulary = [(entry, 0.0) for entry in special] + [(p, -1.0) for p in subwords]
    vocabulary.append(("<mask>", 0.0))
    config = XLMRobertaConfig(
        vocab_size=len(vocabulary), hidden_size=16, num_hidden_layers=3, num_attention_heads=2,
        intermediate_size=32, max_position_embeddings=22, type_vocab_size=1, pad_token_id=1,
        layer_norm_eps=1e-5,
    )  # fmt: skip
    model = XLMRobertaModel(config)
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.add_(0.1 * torch.randn_like(parameter))
    model.save_pretrained(folder)
    XLMRobertaTokenizer(vocab=vocabulary).save_pretrained(folder)
    return folder


def model_from(folder: Path | str, **options: Any) -> GtransFusion:
    cfg = OmegaConf.structured(GtransFusionConfig(**{**SHAPE, "init_xlmr": str(folder), **options}))
    cfg._name = "gtrans_fusion_xlmr_base"
    torch.manual_seed(2)
    return GtransFusion.build_model(cfg, TASK).eval()


@torch.no_grad()
def test_the_encoder_is_xlmr(xlmr: Path) -> None:
    """The states of all layers, of sentences with padding, are those of `transformers`."""
    from transformers import AutoModel, AutoTokenizer

    theirs = AutoModel.from_pretrained(xlmr).eval()
    rows = AutoTokenizer.from_pretrained(xlmr).get_vocab()
    ours = model_from(xlmr, system="ta")  # gives all layers
    entries = TASK.source_dictionary
    sentences = [[WORDS[0], WORDS[2], WORDS[3]], [WORDS[4]]]
    own, other = (
        torch.nn.utils.rnn.pad_sequence(
            [torch.tensor([0, *(index[word] for word in s), EOS]) for s in sentences],
            batch_first=True,
            padding_value=PAD,
        )
        for index in (entries.indices, rows)
    )
    encoded = ours.encoder(own)
    states = theirs(other, attention_mask=other.ne(PAD), output_hidden_states=True).hidden_states
    for layer, expected in zip(encoded.layers, states, strict=True):
        torch.testing.assert_close(layer, expected[other.ne(PAD)], atol=1e-5, rtol=1e-5)


def test_the_decoder_has_self_attention_and_feed_forward_nets(xlmr: Path) -> None:
    model = model_from(xlmr)
    encoder, decoder = model.encoder.layers, model.decoder.layers
    for number in range(2):
        below = dict(encoder[number].named_parameters())
        for name, parameter in decoder[number].named_parameters():
            assert name.startswith("encoder_attn") or parameter.equal(below[name]), name
    fresh = model_from("nowhere")
    for name, parameter in fresh.named_parameters():
        if ".encoder_attn." in name or "fusion" in name or "probabilities" in name:
            assert model.get_parameter(name).shape == parameter.shape
        elif name.endswith("q_proj.weight"):
            assert not model.get_parameter(name).equal(parameter)


def test_two_feed_forward_nets_take_two_layers_of_xlmr(xlmr: Path) -> None:
    """Layers 2i and 2i + 1 become layer i of the decoder; nothing of it is new."""
    model = model_from(xlmr, decoder_layers=1, two_feed_forwards=True)
    first, second = (dict(layer.named_parameters()) for layer in model.encoder.layers[:2])
    parts = {
        "self_attn.": (first, "self_attn."),
        "self_attn_layer_norm": (first, "self_attn_layer_norm"),
        "fc3": (first, "fc1"), "fc4": (first, "fc2"), "ffn_layer_norm": (first, "final_layer_norm"),
        "encoder_attn.": (second, "self_attn."),
        "encoder_attn_layer_norm": (second, "self_attn_layer_norm"),
        "fc1": (second, "fc1"), "fc2": (second, "fc2"),
        "final_layer_norm": (second, "final_layer_norm"),
    }  # fmt: skip
    for name, parameter in model.decoder.layers[0].named_parameters():
        ((here, (layer, there)),) = [part for part in parts.items() if name.startswith(part[0])]
        assert parameter.equal(layer[name.replace(here, there, 1)]), name


def test_words_of_the_corpus_that_xlmr_lacks_are_new(
    xlmr: Path, caplog: pytest.LogCaptureFixture
) -> None:
    from transformers import AutoModel

    with caplog.at_level("INFO", logger="gtrans.models.base.xlmr_start"):
        table = model_from(xlmr).encoder.embed_tokens.weight
    theirs = AutoModel.from_pretrained(xlmr).embeddings.word_embeddings.weight
    assert table[4].equal(theirs[4 + 7]) and table[8].equal(theirs[4 + 11])
    assert not any(table[5].equal(row) for row in theirs)
    assert "vocabulary entries found: encoder 4 of 5 (80%)" in caplog.text
    assert "newly initialised" in caplog.text


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"init_xlmr": "nowhere"}, "--init-xlmr nowhere: there is no such folder."),
        ({"init_xlmr": __file__}, "this is a file; give the folder with XLM-R's config.json"),
        # There would be three of them.
        ({"share_all_embeddings": False}, "one table of embeddings; give `--share-all-embeddings`"),
    ],
)
def test_a_start_that_cannot_be_had_is_told_when_training_begins(
    options: dict[str, Any], message: str, xlmr: Path
) -> None:
    source, decoder_input = torch.tensor([[4, EOS]]), torch.tensor([[EOS, 4]])
    model = model_from(xlmr, **options).train()
    with pytest.raises(GtransError, match=message):
        model(source, None, decoder_input)
    model.load_state_dict(model.state_dict())  # a run that goes on needs it no more
    model(source, None, decoder_input)


def test_a_run_needs_its_xlmr_only_to_begin(
    tiny: TinyWorld, stock: StockCommands, tmp_path: Path
) -> None:
    """Without the folder it goes on and translates, but no new run begins."""
    folder = saved_xlmr(tmp_path / "xlmr", tiny.subwords("en")[0].split())
    options = ("--arch", "gtrans_fusion_xlmr_base", "--init-xlmr", folder, *RUN)
    log = log_of(train(stock, tiny.data, tmp_path / "run", *options, updates=1))
    assert f"initialised from {folder}:" in log
    shutil.rmtree(folder)
    log_of(train(stock, tiny.data, tmp_path / "run", *options, updates=2))
    assert updates(tmp_path / "run") == 2
    done = stock(
        "gtrans", "translate", "--path", tmp_path / "run" / "checkpoint_last.pt",
        "--input", tiny.text / "test.en", "--output", tmp_path / "out", *FAST,
    )  # fmt: skip
    log_of(done)
    line = refusal(train(stock, tiny.data, tmp_path / "new", *options, updates=2))
    assert line == f"--init-xlmr {folder}: there is no such folder."


@pytest.mark.parametrize("start", [train, stock_train])
def test_a_stock_task_reports_a_missing_xlmr(
    start: Callable[..., Finished], tiny: TinyWorld, stock: StockCommands, tmp_path: Path
) -> None:
    task = ("--task", "translation", "--source-lang", "en", "--target-lang", "de")
    options = (*task, "--arch", "gtrans_fusion_tiny", "--init-xlmr", __file__)
    line = refusal(start(stock, tiny.data, tmp_path, *options, updates=2))
    assert line.startswith(f"--init-xlmr {__file__}: this is a file; give the folder with XLM-R's")
    assert not list(tmp_path.glob("checkpoint*.pt"))


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"encoder_layers": 4}, "`--encoder-layers` must be at most 3"),
        (
            {"two_feed_forwards": True},
            "`--decoder-layers` must be at most 1, as in this XLM-R, but is 2",
        ),
        ({"encoder_embed_dim": 32}, "`--encoder-embed-dim` must be 16, as in this XLM-R, but is"),
        ({"encoder_attention_heads": 4}, "`--encoder-attention-heads` must be 2"),
        ({"activation_fn": "relu"}, "`--activation-fn` must be gelu"),
        ({"system": "rezero"}, "this model has no"),
        ({"layernorm_embedding": False}, "choose --arch gtrans_fusion_xlmr_base"),
        ({"learned_positions": False}, "this model has no decoder.embed_positions.weight"),
        ({"decoder_ffn_embed_dim": 16}, "this model has no decoder.layers.0.fc1.weight"),
    ],
)
def test_models_of_another_shape_are_refused(
    options: dict[str, Any], message: str, xlmr: Path
) -> None:
    with pytest.raises(GtransError) as error:
        model_from(xlmr, **options)
    assert message in str(error.value)


def test_folders_that_hold_no_xlmr_are_refused(tmp_path: Path) -> None:
    with pytest.raises(GtransError, match="cannot load this XLM-R"):
        model_from(tmp_path)
    (tmp_path / "config.json").write_text('{"model_type": "bert"}')
    with pytest.raises(GtransError, match="holds a bert, no XLM-R"):
        model_from(tmp_path)
