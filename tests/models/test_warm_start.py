"""A document model that starts from a sentence model."""

from __future__ import annotations

import re
from argparse import Namespace
from pathlib import Path
from typing import Any

import pytest
import torch
from fairseq import utils
from fairseq.data import Dictionary
from fairseq.models.transformer import TransformerModel, base_architecture
from omegaconf import OmegaConf
from support.batches import BOS, EOS, PAD
from support.untrained import dictionary, pair, sizes, translate_rows
from torch import Tensor

from gtrans.errors import GtransError
from gtrans.models.base.model import DocumentModel
from gtrans.models.base.presets import resolve_sizes
from gtrans.models.base.warm_start import WarmStartOptions, WarmStartReport, warm_start
from gtrans.models.concat_transformer import ConcatTransformer
from gtrans.models.flat_transformer import FlatTransformer
from gtrans.models.gtransformer import GTransformer, GTransformerConfig
from gtrans.optim.two_rate_adam import TwoRateAdam, TwoRateAdamConfig
from gtrans.search.document_search import DocumentSearch, SearchVocabulary
from gtrans.search.options import SearchOptions
from gtrans.tasks.document_translation import DocumentTranslationTask
from gtrans.tasks.options import DocumentTranslationConfig

LOSSLESS = {"positions": "sentence", "gate_bias": 10.0}
WORDS = [f"w{number}" for number in range(30)]
SIZES = sizes(3, 32, 48, 4)


def task_of(words: list[str] = WORDS, **options: Any) -> DocumentTranslationTask:
    cfg = OmegaConf.structured(DocumentTranslationConfig)
    for name, value in options.items():
        setattr(cfg, name, value)
    return DocumentTranslationTask(cfg, dictionary(words), dictionary(words))


def model_of(task: DocumentTranslationTask, seed: int = 1, **options: Any) -> GTransformer:
    torch.manual_seed(seed)
    cfg = OmegaConf.structured(GTransformerConfig(**{**SIZES, **options}))
    cfg._name = "gtransformer"
    model: GTransformer = task.build_model(cfg)
    return model.eval()


def saved(task: DocumentTranslationTask, path: Path, **options: Any) -> str:
    """The path of a checkpoint of a new model."""
    # Larger weights than at initialisation, so that outputs differ clearly between words.
    model = model_of(task, **options)
    state = {name: tensor * 1.5 for name, tensor in model.state_dict().items()}
    cfg = {"task": {}, "model": {"_name": "gtransformer", **SIZES, **options}}
    torch.save({"model": state, "cfg": cfg, "task_state": task.state_dict()}, path)
    return str(path)


@pytest.fixture
def sentence_checkpoint(tmp_path: Path) -> str:
    return saved(task_of(unit="sentence"), tmp_path / "sentence.pt")


def start(
    path: str,
    copy: bool = False,
    dictionaries: str | None = None,
    words: list[str] = WORDS,
    **options: Any,
) -> tuple[GTransformer, WarmStartReport]:
    task = task_of(words)
    model = model_of(task, seed=2, **options)
    sides, chosen = _dictionaries(task), GTransformerConfig(**{**SIZES, **options})
    chosen = resolve_sizes(chosen, GTransformerConfig, GTransformer.presets)
    begin = WarmStartOptions(copy_local_to_global=copy, init_dict=dictionaries, model=chosen)
    report = warm_start(model, path, sides, begin)
    return model, report


def _dictionaries(task: DocumentTranslationTask) -> dict[str, Dictionary]:
    return {"encoder": task.source_dictionary, "decoder": task.target_dictionary}


def test_report_counts_every_tensor_once(sentence_checkpoint: str) -> None:
    _, report = start(sentence_checkpoint)
    sentence = torch.load(sentence_checkpoint)["model"]
    assert sorted(report.loaded) == sorted(sentence)
    added = {name for name in report.new if ".global_attn." in name or ".gate." in name}
    assert set(report.new) == added
    assert not (report.renamed or report.copied or report.grown or report.ignored)
    # 2 encoder layers, 2 decoder layers twice: 8 tensors of global attention, 2 of the gate.
    assert len(report.new) == 6 * 10
    text = "\n".join(report.lines("x.pt"))
    assert f"{len(sentence):5d} loaded" in text and "60 newly initialised" in text


def test_copy_local_to_global(sentence_checkpoint: str) -> None:
    model, report = start(sentence_checkpoint, copy=True)
    assert len(report.copied) == 6 * 8 and len(report.new) == 6 * 2
    attention = model.encoder.layers[-1].self_attn
    assert torch.equal(attention.global_attn.q_proj.weight, attention.q_proj.weight)
    # They are copies, and still train at the full rate.
    assert rates_of(model)["encoder.layers.1.self_attn.global_attn.q_proj.weight"] == 1


def test_global_attention_of_the_checkpoint_is_loaded_rather_than_copied(tmp_path: Path) -> None:
    """Whether group attention beside it is in the checkpoint, or missing."""
    path = saved(task_of(), tmp_path / "document.pt")
    checkpoint = torch.load(path)
    name = "encoder.layers.1.self_attn.global_attn.q_proj.weight"
    missing = name.replace(".global_attn.", ".")
    for dropped in ((), (missing,)):
        for other in dropped:
            del checkpoint["model"][other]
        torch.save(checkpoint, path)
        model, report = start(path, copy=True)
        assert report.new == [*dropped] and not report.copied
        assert torch.equal(model.state_dict()[name], checkpoint["model"][name])


def sentences_and_document(special_tokens: str) -> tuple[list[Tensor], Tensor]:
    generator = torch.Generator().manual_seed(3)
    sentences = [
        torch.cat([torch.randint(4, 34, (n,), generator=generator), torch.tensor([EOS])])
        for n in (5, 1, 9, 3, 7)
    ]
    if special_tokens == "both":
        sentences = [torch.cat([torch.tensor([BOS]), sentence]) for sentence in sentences]
    return sentences, torch.cat(sentences)


@pytest.mark.parametrize("special_tokens", ["both", "end"])
def test_lossless_start(sentence_checkpoint: str, special_tokens: str) -> None:
    """At update 0 the document model's translation is the sentence model's, word for word."""
    sentence_model = model_of(task_of(unit="sentence"))
    sentence_model.load_state_dict(torch.load(sentence_checkpoint)["model"])
    document_model, _ = start(sentence_checkpoint, **LOSSLESS)
    sentences, document = sentences_and_document(special_tokens)
    opening = BOS if special_tokens == "both" else EOS
    vocabulary = SearchVocabulary(opening, EOS, PAD, 3, (BOS, PAD))
    search = DocumentSearch(vocabulary, SearchOptions(beam=1, max_len_a=1, max_len_b=5))
    whole = translate_rows(search, [document_model], document[None])[0][0]
    for sentence, translated in zip(sentences, whole.sentences, strict=True):
        alone = translate_rows(search, [sentence_model], sentence[None])[0][0].sentences[0]
        assert translated.tokens == alone.tokens
        assert translated.scores == pytest.approx(alone.scores, abs=2e-3)


def test_without_global_attention_no_sentence_sees_another(sentence_checkpoint: str) -> None:
    """The document model is then its sentence model, and stays one: it has nothing new to train."""
    sentence_model = model_of(task_of(unit="sentence"))
    sentence_model.load_state_dict(torch.load(sentence_checkpoint)["model"])
    layers = {f"{part}_global_layers": 0 for part in ("encoder", "decoder", "cross")}
    document_model, report = start(sentence_checkpoint, **LOSSLESS, **layers)
    assert not report.new
    sentences, document = sentences_and_document("both")
    logits, _ = document_model(document[None], None, document[None])
    in_document = logits[0].split([len(sentence) for sentence in sentences])
    for sentence, found in zip(sentences, in_document, strict=True):
        alone, _ = sentence_model(sentence[None], None, sentence[None])
        torch.testing.assert_close(found, alone[0], atol=1e-5, rtol=1e-5)


WINDOWS: dict[str, tuple[type[DocumentModel], dict[str, Any]]] = {
    "concatenation": (ConcatTransformer, {}),
    "Flat-Transformer": (FlatTransformer, {"no_segment_embedding": True}),
    "window of both sides": (GTransformer, {"doc_mode": "full", "context_sides": "both"}),
    "document Transformer": (GTransformer, {"doc_mode": "full", "unit": "document"}),
}


@pytest.mark.parametrize("name", WINDOWS)
def test_a_window_of_one_sentence_is_the_sentence_for_its_model(
    name: str, sentence_checkpoint: str
) -> None:
    """Where positions restart: in a forward pass, and step by step beside a longer window."""
    sentence_model = model_of(task_of(unit="sentence"))
    state = torch.load(sentence_checkpoint)["model"]
    sentence_model.load_state_dict(state)
    system, options = WINDOWS[name]
    cfg = {"unit": "window", "sentence_marks": "both", "positions": "sentence", **options}
    model = system.build_model(system.options(**{**SIZES, **cfg}), task_of()).eval()
    model.load_state_dict(state)
    sentence, document = (one[0] if k == 0 else one for k, one in
                          enumerate(sentences_and_document("both")))  # fmt: skip
    alone, _ = sentence_model(sentence[None], None, sentence[None])
    source: dict[str, Tensor] = {"src_tokens": sentence[None]}
    if cfg["unit"] == "window":
        source["current_sentence"] = torch.tensor([0])
    logits, _ = model(src_lengths=None, prev_output_tokens=sentence[None], **source)
    torch.testing.assert_close(logits, alone, atol=1e-5, rtol=1e-5)
    longer = torch.nn.utils.rnn.pad_sequence([sentence, document], True, PAD)
    both = {**source, "src_tokens": longer}
    if "current_sentence" in source:
        both["current_sentence"] = torch.tensor([0, 2])
    steps = model.begin_decoding(both, 1)
    for place, token in enumerate(sentence.tolist()):
        tokens = torch.tensor([token, token])
        logits = model.decode_step(tokens, tokens.eq(BOS), steps)
        torch.testing.assert_close(logits[0], alone[0, place], atol=1e-5, rtol=1e-5)


def test_a_stock_transformer_starts_a_document_model(tmp_path: Path) -> None:
    """Its own frame is `end`; then nothing is lost either."""
    entries = dictionary(30)
    stock = _stock(entries)
    path = tmp_path / "stock.pt"
    torch.save({"model": stock.state_dict(), "cfg": {"task": {}}}, path)
    with pytest.raises(GtransError, match="no fingerprint: .* name its dictionary"):
        start(str(path), **LOSSLESS)
    entries.save(str(tmp_path / "dict.txt"))
    model, report = start(str(path), dictionaries=str(tmp_path / "dict.txt"), **LOSSLESS)
    assert all(".global_attn." in name or ".gate." in name for name in report.new)
    # <mask> is new to it.
    assert {name.split(".")[1] for name in report.grown} == {"embed_tokens", "output_projection"}
    sentences, document = sentences_and_document("end")
    logits, _ = model(document[None], None, torch.cat([torch.tensor([EOS]), document[:-1]])[None])
    begin = 0
    for sentence in sentences:
        previous = torch.cat([torch.tensor([EOS]), sentence[:-1]])
        alone, _ = stock(sentence[None], torch.tensor([len(sentence)]), previous[None])
        mine = logits[0, begin : begin + len(sentence), : len(entries)]
        torch.testing.assert_close(mine, alone[0], atol=2e-3, rtol=2e-3)
        begin += len(sentence)


def _stock(entries: Dictionary) -> TransformerModel:
    torch.manual_seed(4)
    args = Namespace(**SIZES, dropout=0.0, max_source_positions=99, max_target_positions=99)
    base_architecture(args)
    model: TransformerModel = TransformerModel.build_model(args, pair(entries))
    return model.eval()


def test_embedding_rows_follow_their_entries(tmp_path: Path) -> None:
    """Vocabularies in another order, with words missing on either side."""
    old_task = task_of([*WORDS[10:], "gone", *WORDS[:5]], unit="sentence")
    old = model_of(old_task)
    path = saved(old_task, tmp_path / "old.pt")
    model, report = start(path)
    assert sorted(report.grown) == [
        "decoder.embed_tokens.weight",
        "decoder.output_projection.weight",
        "encoder.embed_tokens.weight",
    ]
    table = model.encoder.embed_tokens.weight
    new, before = task_of().source_dictionary, old_task.source_dictionary
    for word in ("w0", "w12", "w29", "</s>", "<mask>"):
        expected = 1.5 * old.encoder.embed_tokens.weight[before.index(word)]
        torch.testing.assert_close(table[new.index(word)], expected)


def test_refusals(tmp_path: Path) -> None:
    path = tmp_path / "other.pt"
    torch.save({"model": {"something.weight": torch.zeros(3)}}, path)
    with pytest.raises(GtransError, match="none of its 1 tensors fits this model"):
        start(str(path))
    small = saved(task_of(), tmp_path / "small.pt", encoder_ffn_embed_dim=64)
    with pytest.raises(GtransError, match=r"fc1.weight is \(64, 32\) of .* there but \(48, 32\)"):
        start(small)


# ---- the learning rates that the optimizer sees --------------------------------------------------


def optimizer_of(model: GTransformer, scale: float) -> TwoRateAdam:
    cfg = OmegaConf.structured(TwoRateAdamConfig(lr_scale_pretrained=scale, tpu=False, lr=[1.0]))
    return TwoRateAdam(cfg, list(model.parameters()))


def rates_of(model: GTransformer, scale: float = 0.25) -> dict[str, float]:
    """Of every parameter its rate, if that of new ones is 1."""
    groups = optimizer_of(model, scale).param_groups
    rates = {id(parameter): group["lr"] for group in groups for parameter in group["params"]}
    return {name: rates[id(parameter)] for name, parameter in model.named_parameters()}


NEW_PARTS = {
    "a further layer": ({"decoder_layers": 4}, {}, ("decoder.layers.3.",)),
    "learned positions": ({"learned_positions": True}, {}, (".embed_positions.",)),
    "LayerNorm on embeddings": ({"layernorm_embedding": True}, {}, (".layernorm_embedding.",)),
    "a final LayerNorm": (
        {"decoder_normalize_before": True},
        {"decoder_normalize_before": True, "no_decoder_final_norm": True},
        ("decoder.layer_norm.",),
    ),
}


@pytest.mark.parametrize("name", NEW_PARTS)
def test_what_was_not_loaded_learns_at_the_whole_rate(name: str, tmp_path: Path) -> None:
    """Whatever it is called; gates that were loaded learn at the rate of what was loaded."""
    options, before, new = NEW_PARTS[name]
    path = saved(task_of(), tmp_path / "before.pt", **before)
    model, _ = start(path, **options)
    rates = rates_of(model)
    assert any(".gate." in parameter for parameter in rates)
    for parameter, rate in rates.items():
        assert rate == (1 if any(part in parameter for part in new) else 0.25), parameter


@pytest.mark.parametrize("scale", [0.0, 0.25])
def test_new_rows_of_embeddings_learn_at_the_whole_rate(scale: float, tmp_path: Path) -> None:
    """The first step of Adam is as long as its rate, whatever the gradient."""
    path = saved(task_of(WORDS[:20]), tmp_path / "before.pt")
    model, _ = start(path)
    optimizer = optimizer_of(model, scale)
    optimizer.set_lr(0.01)
    table = model.encoder.embed_tokens.weight
    before = table.detach().clone()
    table.grad = torch.ones_like(table)
    optimizer.step()
    steps = (before - table.detach()).abs().mean(1)
    entries = task_of().source_dictionary.symbols
    expected = [0.01 if entry in WORDS[20:] else 0.01 * scale for entry in entries]
    torch.testing.assert_close(steps, torch.tensor(expected), atol=1e-7, rtol=1e-3)


def test_a_resumed_optimizer_knows_what_was_loaded(tmp_path: Path) -> None:
    """Without the file that the run started from; its rates are those of this run."""
    model, _ = start(saved(task_of(WORDS[:20]), tmp_path / "before.pt"), decoder_layers=4)
    first = optimizer_of(model, 0.25)
    for parameter in model.parameters():
        parameter.grad = torch.ones_like(parameter)
    first.step()
    state = utils.move_to_cpu(first.state_dict())
    bare = model_of(task_of(), decoder_layers=4)
    again = optimizer_of(bare, 0.5)
    again.load_state_dict(state)
    again.set_lr(1.0)
    groups = [[group["lr"], group["numbers"]] for group in again.param_groups]
    kept = [[{0.25: 0.5}.get(g["lr"], 1.0), g["numbers"]] for g in first.param_groups]
    assert groups == kept and {rate for rate, _ in groups} == {1.0, 0.5}
    names = [name for name, _ in bare.named_parameters()]
    for group in again.param_groups:
        shapes = [tuple(parameter.shape) for parameter in group["params"]]
        assert shapes == [tuple(bare.get_parameter(names[n]).shape) for n in group["numbers"]]
    assert again.get_lr() == 1.0 and not again.supports_flat_params


def test_nothing_loaded_or_nothing_left_to_train_is_rejected(tmp_path: Path) -> None:
    model = model_of(task_of(unit="sentence"))
    with pytest.raises(GtransError, match="finds no pretrained parameters; give --init-from"):
        optimizer_of(model, 0.2).step()
    same, _ = start(saved(task_of(), tmp_path / "same.pt"))
    with pytest.raises(GtransError, match="`--lr-scale-pretrained 0` leaves nothing to train"):
        optimizer_of(same, 0.0)


# ---- checkpoints that would be misread -----------------------------------------------------------


def test_a_sentence_model_of_one_layer_needs_no_option_of_group_attention() -> None:
    layers = {"encoder_layers": 1, "decoder_layers": 1}
    model = model_of(task_of(unit="sentence"), **layers)
    assert len(model.encoder.layers) == len(model.decoder.layers) == 1
    with pytest.raises(GtransError, match="`--encoder-global-layers` must be between 0 and 1"):
        model_of(task_of(unit="document"), **layers)


OTHERWISE = {
    "encoder heads": ({"encoder_attention_heads": 2}, "give `--encoder-attention-heads 4`"),
    "decoder heads": ({"decoder_attention_heads": 2}, "give `--decoder-attention-heads 4`"),
    "activation": ({"activation_fn": "gelu"}, "give `--activation-fn relu`"),
    "scale": ({"no_scale_embedding": True}, "leave out `--no-scale-embedding`"),
    "norm": ({"encoder_normalize_before": True}, "leave out `--encoder-normalize-before`"),
    "one table": ({"share_all_embeddings": True}, "leave out `--share-all-embeddings`"),
    "one table of the decoder": (
        {"share_decoder_input_output_embed": True}, "`--share-decoder-input-output-embed`",
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", OTHERWISE)
def test_options_with_which_parameters_mean_something_else(
    name: str, sentence_checkpoint: str, tmp_path: Path
) -> None:
    """Each is rejected with the flag that mends it, and accepted where both have it."""
    options, way = OTHERWISE[name]
    with pytest.raises(GtransError, match=re.escape(way)):
        start(sentence_checkpoint, **options)
    same = saved(task_of(), tmp_path / "same.pt", **options)
    model, _ = start(same, **options)
    reference = model_of(task_of(), **options)
    reference.load_state_dict(torch.load(same)["model"])
    _, document = sentences_and_document("both")
    logits, wanted = (one(document[None], None, document[None])[0] for one in (model, reference))
    assert torch.equal(logits, wanted)


def test_one_table_may_become_several(tmp_path: Path) -> None:
    """All of them begin as the one of the checkpoint."""
    path = saved(task_of(), tmp_path / "joint.pt", share_all_embeddings=True)
    model, report = start(path)
    table = torch.load(path)["model"]["encoder.embed_tokens.weight"]
    assert torch.equal(model.decoder.output_projection.weight, table) and not report.new


def test_options_of_a_stock_checkpoint(tmp_path: Path) -> None:
    entries = dictionary(30)
    entries.save(str(tmp_path / "dict.txt"))
    args = Namespace(**{**SIZES, "encoder_attention_heads": 2, "arch": "transformer"})
    path = tmp_path / "stock.pt"
    torch.save({"model": _stock(entries).state_dict(), "args": args}, path)
    with pytest.raises(GtransError, match="give `--encoder-attention-heads 2`"):
        start(str(path), dictionaries=str(tmp_path / "dict.txt"))


def test_other_languages_and_vocabularies(tmp_path: Path) -> None:
    """Rejected, unless a flag says that they are meant."""
    path = saved(task_of(WORDS[:10], source_lang="de", target_lang="en"), tmp_path / "before.pt")
    task = task_of(source_lang="de", target_lang="en")
    model, sides = model_of(task), _dictionaries(task)

    def begun(source: str, target: str, other: bool = False) -> WarmStartReport:
        options = WarmStartOptions(languages=(source, target), other_vocabulary=other)
        return warm_start(model, path, sides, options)

    with pytest.raises(GtransError, match="it translates de-en, not en-de; .*other-vocabulary"):
        begun("en", "de")
    with pytest.raises(GtransError, match=r"has only 11 of 31 \(35%\) of the entries of the enc"):
        begun("de", "en")
    report = begun("en", "fr", other=True)
    assert "vocabulary entries found: encoder 11 of 31 (35%)" in report.lines(path)[-1]
