"""A document model that starts from a sentence model."""

from __future__ import annotations

from argparse import Namespace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import torch
from fairseq import utils
from fairseq.data import Dictionary
from fairseq.models.transformer import TransformerModel, base_architecture
from omegaconf import OmegaConf
from support.batches import BOS, EOS, PAD
from support.stock_sizes import SIZES, WORDS, dictionary
from support.untrained import translate_rows
from torch import Tensor

from gtrans.decoding.document_search import DocumentSearch, SearchOptions, SearchVocabulary
from gtrans.errors import GtransError
from gtrans.models.base.warm_start import WarmStartReport, warm_start
from gtrans.models.gtransformer import GTransformer, GTransformerConfig
from gtrans.optim.two_rate_adam import PRETRAINED, TwoRateAdam, TwoRateAdamConfig, mark_pretrained
from gtrans.tasks.document_translation import DocumentTranslationTask
from gtrans.tasks.options import DocumentTranslationConfig

LOSSLESS = {"positions": "sentence", "gate_bias": 10.0}


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
    torch.save({"model": state, "cfg": {"task": {}}, "task_state": task.state_dict()}, path)
    return str(path)


@pytest.fixture
def sentence_checkpoint(tmp_path: Path) -> str:
    return saved(task_of(unit="sentence"), tmp_path / "sentence.pt")


def start(
    path: str, copy: bool = False, dictionaries: str | None = None, **options: Any
) -> tuple[GTransformer, WarmStartReport]:
    task = task_of()
    model = model_of(task, seed=2, **options)
    report = warm_start(model, path, _dictionaries(task), copy, init_dict=dictionaries)
    return model, report


def _dictionaries(task: DocumentTranslationTask) -> dict[str, Dictionary]:
    return {"encoder": task.source_dictionary, "decoder": task.target_dictionary}


def test_report_counts_every_tensor_once(sentence_checkpoint: str) -> None:
    model, report = start(sentence_checkpoint)
    sentence = torch.load(sentence_checkpoint)["model"]
    assert sorted(report.loaded) == sorted(sentence)
    assert set(report.new) == model.new_parameters()
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
    mark_pretrained(model, model.new_parameters())
    assert not hasattr(attention.global_attn.q_proj.weight, "param_group")
    assert attention.q_proj.weight.param_group == PRETRAINED


def sentences_and_document(marks: str) -> tuple[list[Tensor], Tensor]:
    generator = torch.Generator().manual_seed(3)
    sentences = [
        torch.cat([torch.randint(4, 34, (n,), generator=generator), torch.tensor([EOS])])
        for n in (5, 1, 9, 3, 7)
    ]
    if marks == "both":
        sentences = [torch.cat([torch.tensor([BOS]), sentence]) for sentence in sentences]
    return sentences, torch.cat(sentences)


@pytest.mark.parametrize("marks", ["both", "end"])
def test_lossless_start(sentence_checkpoint: str, marks: str) -> None:
    """At update 0 the document model's translation is the sentence model's, word for word."""
    sentence_model = model_of(task_of(unit="sentence"))
    sentence_model.load_state_dict(torch.load(sentence_checkpoint)["model"])
    document_model, _ = start(sentence_checkpoint, **LOSSLESS)
    sentences, document = sentences_and_document(marks)
    opening = BOS if marks == "both" else EOS
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
    assert not report.new and not document_model.new_parameters()
    sentences, document = sentences_and_document("both")
    logits, _ = document_model(document[None], None, document[None])
    in_document = logits[0].split([len(sentence) for sentence in sentences])
    for sentence, found in zip(sentences, in_document, strict=True):
        alone, _ = sentence_model(sentence[None], None, sentence[None])
        torch.testing.assert_close(found, alone[0], atol=1e-5, rtol=1e-5)


def test_the_papers_start_is_another_model(sentence_checkpoint: str) -> None:
    """Document positions and half-open gates change what the model says (so the option is real)."""
    sentence_model = model_of(task_of(unit="sentence"))
    sentence_model.load_state_dict(torch.load(sentence_checkpoint)["model"])
    document_model, _ = start(sentence_checkpoint)
    _, document = sentences_and_document("both")
    logits, _ = document_model(document[None], None, document[None])
    first = document[:7]
    alone, _ = sentence_model(first[None], None, first[None])
    assert (logits[0, :7] - alone[0]).abs().max() > 0.1


def test_gates_that_begin_closed_open(sentence_checkpoint: str) -> None:
    """They get a gradient that Adam turns into steps of full size."""
    model, _ = start(sentence_checkpoint, **LOSSLESS)
    _, document = sentences_and_document("both")
    logits, _ = model(document[None], None, document[None])
    logits.log_softmax(-1)[0, :-1].gather(1, document[1:, None]).sum().neg().backward()
    for layer in (model.encoder.layers[-1].self_attn, model.decoder.layers[-1].encoder_attn):
        for parameter in (layer.gate.proj.weight, layer.global_attn.out_proj.weight):
            assert parameter.grad.abs().mean() > 1e-7


def test_a_stock_transformer_starts_a_document_model(tmp_path: Path) -> None:
    """Its own frame is `end`; then nothing is lost either."""
    symbols = dictionary()
    stock = _stock(symbols)
    path = tmp_path / "stock.pt"
    torch.save({"model": stock.state_dict(), "cfg": {"task": {}}}, path)
    with pytest.raises(GtransError, match="identity unknown: .* name its dictionary"):
        start(str(path), **LOSSLESS)
    symbols.save(str(tmp_path / "dict.txt"))
    model, report = start(str(path), dictionaries=str(tmp_path / "dict.txt"), **LOSSLESS)
    assert set(report.new) == model.new_parameters()
    # <mask> is new to it.
    assert {name.split(".")[1] for name in report.grown} == {"embed_tokens", "output_projection"}
    sentences, document = sentences_and_document("end")
    logits, _ = model(document[None], None, torch.cat([torch.tensor([EOS]), document[:-1]])[None])
    begin = 0
    for sentence in sentences:
        previous = torch.cat([torch.tensor([EOS]), sentence[:-1]])
        alone, _ = stock(sentence[None], torch.tensor([len(sentence)]), previous[None])
        mine = logits[0, begin : begin + len(sentence), : len(symbols)]
        torch.testing.assert_close(mine, alone[0], atol=2e-3, rtol=2e-3)
        begin += len(sentence)


def _stock(symbols: Dictionary) -> TransformerModel:
    torch.manual_seed(4)
    args = Namespace(**SIZES, dropout=0.0, max_source_positions=99, max_target_positions=99)
    base_architecture(args)
    task: Any = SimpleNamespace(source_dictionary=symbols, target_dictionary=symbols)
    model: TransformerModel = TransformerModel.build_model(args, task)
    return model.eval()


def test_embedding_rows_follow_their_symbols(tmp_path: Path) -> None:
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
    with pytest.raises(GtransError, match=r"fc1.weight is \(64, 32\) there but \(48, 32\)"):
        start(small)


def test_two_rates() -> None:
    model = model_of(task_of())
    new = model.new_parameters()
    mark_pretrained(model, new)
    cfg = OmegaConf.structured(TwoRateAdamConfig(lr_scale_pretrained=0.2, tpu=False, lr=[0.5]))
    optimizer = TwoRateAdam(cfg, list(model.parameters()))
    optimizer.set_lr(0.01)
    rates = {id(p): g["lr"] for g in optimizer.param_groups for p in g["params"]}
    for name, parameter in model.named_parameters():
        assert rates[id(parameter)] == pytest.approx(0.01 if name in new else 0.002)
    assert optimizer.get_lr() == pytest.approx(0.01)
    assert not optimizer.supports_flat_params
    # A resumed optimizer follows this run's options, not the saved rates.
    state = utils.move_to_cpu(optimizer.state_dict())
    cfg.lr_scale_pretrained = 0.5
    again = TwoRateAdam(cfg, list(model.parameters()))
    again.load_state_dict(state)
    again.set_lr(0.01)
    assert sorted({g["lr"] for g in again.param_groups}) == pytest.approx([0.005, 0.01])


def test_nothing_left_to_train_is_refused() -> None:
    model = model_of(task_of(unit="sentence"))
    mark_pretrained(model, set())
    cfg = OmegaConf.structured(TwoRateAdamConfig(lr_scale_pretrained=0.0, tpu=False, lr=[0.5]))
    with pytest.raises(GtransError, match="`--lr-scale-pretrained 0` leaves nothing to train"):
        TwoRateAdam(cfg, list(model.parameters()))
