"""`chunked_cross_entropy`: fairseq's losses, gradients and logs, without the logits of a batch."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import torch
from fairseq.criterions.label_smoothed_cross_entropy import LabelSmoothedCrossEntropyCriterion
from fairseq.data import Dictionary
from fairseq.distributed import ModuleProxyWrapper
from fairseq.logging import metrics
from fairseq.models.transformer import TransformerConfig, TransformerModelBase
from support.contract import Case, batch_of, build, cases, with_the_others_long
from support.fusion_models import fusion_model
from torch import distributed
from torch.nn.parallel import DistributedDataParallel

from gtrans.criterions.chunked_cross_entropy import ChunkedCrossEntropy
from gtrans.errors import GtransError
from gtrans.modules import chunked_loss as module

# One prediction of every word.
SINGLE = {"gtrans_fusion_tiny": {"decoder_group_size": 2}}


def symbols() -> Dictionary:
    made = Dictionary()
    for number in range(30):
        made.add_symbol(f"w{number}")
    return made


def stock_model(**options: Any) -> tuple[Any, Any]:
    """A Transformer of fairseq's own, and its task."""
    cfg = TransformerConfig()
    for side in (cfg.encoder, cfg.decoder):
        side.layers, side.embed_dim, side.ffn_embed_dim, side.attention_heads = 1, 16, 32, 2
    cfg.decoder.input_dim = cfg.decoder.output_dim = 16
    cfg.dropout = 0.0
    for name, value in options.items():
        setattr(cfg, name, value)
    torch.manual_seed(1)
    task = SimpleNamespace(source_dictionary=symbols(), target_dictionary=symbols())
    return TransformerModelBase.build_model(cfg, task), task


def stock_batch() -> dict[str, Any]:
    target = torch.tensor([[5, 6, 7, 2], [8, 9, 2, 1]])
    read = torch.tensor([[2, 5, 6, 7], [2, 8, 9, 1]])
    source = torch.tensor([[10, 11, 12, 2], [1, 13, 14, 2]])
    net_input = {
        "src_tokens": source, "src_lengths": torch.tensor([4, 3]), "prev_output_tokens": read,
    }  # fmt: skip
    return {"net_input": net_input, "target": target, "ntokens": 7}


def compare(
    model: Any, task: Any, sample: dict[str, Any], smoothing: float, **options: Any
) -> dict[str, Any]:
    """Losses, gradients and logs are fairseq's; returns the shown logs."""
    found: list[Any] = []
    for kind in (ChunkedCrossEntropy, LabelSmoothedCrossEntropyCriterion):
        criterion = kind(
            task, options.get("sentence_avg", False), label_smoothing=smoothing,
            report_accuracy=True, ignore_prefix_size=options.get("ignore_prefix_size", 0),
        )  # fmt: skip
        model.zero_grad()
        torch.manual_seed(3)
        loss, size, logged = criterion(model, sample)
        (loss / size).backward()
        gradients = {n: p.grad for n, p in model.named_parameters() if p.grad is not None}
        with metrics.aggregate() as aggregator:
            kind.reduce_metrics([logged, logged])
        found.append((loss.detach() / size, size, gradients, aggregator.get_smoothed_values()))
    (loss, size, gradients, logs), (loss_, size_, gradients_, logs_) = found
    torch.testing.assert_close(loss, loss_, atol=1e-6, rtol=1e-6)
    assert size == size_ and logs == pytest.approx(logs_, abs=2e-3) and logs.keys() == logs_.keys()
    assert gradients_.keys() <= gradients.keys()
    for name, value in gradients.items():
        # The weight of a group that is alone has no part in fairseq's loss.
        other = gradients_.get(name, torch.zeros_like(value))
        torch.testing.assert_close(value, other, atol=1e-6, rtol=1e-5, msg=name)
    return dict(logs)


@pytest.mark.parametrize("case", with_the_others_long())
def test_every_model_of_the_project(
    case: Case, prepared_with_bert: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "rows_of", lambda vocabulary, most, cuda: most or 5)
    built = build(case, prepared_with_bert, dropout=0.0, **SINGLE.get(case.arch, {}))
    sample = batch_of(built)
    sample = {**sample, "net_input": built.task.complete_input(sample["net_input"])}
    compare(built.model.train(), built.task, sample, 0.1)


@pytest.mark.parametrize(
    "tied",
    [
        {"share_all_embeddings": True, "share_decoder_input_output_embed": True},
        {"share_decoder_input_output_embed": True},
        {},
    ],
)
@pytest.mark.parametrize("options", [{}, {"sentence_avg": True}, {"ignore_prefix_size": 2}])
def test_stock_transformers(tied: dict[str, Any], options: dict[str, Any]) -> None:
    logs = compare(*stock_model(**tied), stock_batch(), 0.1 if tied else 0.0, **options)
    assert {"loss", "nll_loss", "ppl", "accuracy"} <= logs.keys()


def test_autocast_computes_in_bf16_and_counts_in_fp32() -> None:
    model, task = stock_model()
    expected, _, _ = ChunkedCrossEntropy(task)(model, stock_batch())
    with torch.autocast("cpu", torch.bfloat16):
        loss, _, _ = ChunkedCrossEntropy(task)(model, stock_batch())
    loss.backward()
    assert loss.dtype == torch.float32
    torch.testing.assert_close(loss, expected, rtol=0.02, atol=0.0)
    assert all(p.grad.dtype == torch.float32 for p in model.parameters() if p.grad is not None)


def test_what_has_no_single_softmax_is_refused() -> None:
    model, task = stock_model(adaptive_softmax_cutoff=[5, 10])
    with pytest.raises(GtransError, match="`--adaptive-softmax-cutoff`; take .* adaptive_loss"):
        ChunkedCrossEntropy(task)(model, stock_batch())
    with pytest.raises(GtransError, match="3 groups; take multi_level_cross_entropy"):
        ChunkedCrossEntropy(task)(fusion_model(), stock_batch())


@pytest.fixture
def alone(tmp_path: Path) -> Iterator[None]:
    """This process, as the only one of a distributed training."""
    distributed.init_process_group(
        "gloo", init_method=f"file://{tmp_path / 'store'}", rank=0, world_size=1
    )
    yield
    distributed.destroy_process_group()


def looking_for_unused(model: Any) -> Any:
    """The model as ``--find-unused-parameters`` distributes it."""
    return ModuleProxyWrapper(DistributedDataParallel(model, find_unused_parameters=True))


@pytest.mark.parametrize("tied", [False, True])
def test_find_unused_parameters(tied: bool, alone: None, prepared_with_bert: Path) -> None:
    """DistributedDataParallel takes what forward does not use for done, once."""
    case = next(case for case in cases() if str(case) == "gtransformer_tiny-document")
    built = build(case, prepared_with_bert, dropout=0.0, share_decoder_input_output_embed=tied)
    compare(looking_for_unused(built.model.train()), built.task, batch_of(built), 0.1)


def test_find_unused_parameters_of_a_stock_transformer(alone: None) -> None:
    model, task = stock_model(share_decoder_input_output_embed=True)
    compare(looking_for_unused(model), task, stock_batch(), 0.1)
    model, task = stock_model()
    with pytest.raises(GtransError, match="give `--share-decoder-input-output-embed`"):
        ChunkedCrossEntropy(task)(looking_for_unused(model), stock_batch())


def test_losses_of_single_words_are_refused() -> None:
    model, task = stock_model()
    with pytest.raises(ValueError, match="take label_smoothed_cross_entropy"):
        ChunkedCrossEntropy(task)(model, stock_batch(), reduce=False)
