"""`chunked_cross_entropy`: fairseq's losses, gradients and logs, without the logits of a batch."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import torch
from fairseq.criterions.label_smoothed_cross_entropy import LabelSmoothedCrossEntropyCriterion
from fairseq.distributed import ModuleProxyWrapper
from fairseq.logging import metrics
from support.contract import Built, Case, batch_of, build, cases, with_the_others_long
from torch import distributed
from torch.nn.parallel import DistributedDataParallel

from gtrans.criterions.chunked_cross_entropy import ChunkedCrossEntropy, MultiLevelCrossEntropy
from gtrans.errors import GtransError
from gtrans.modules import chunked_loss as module

# One prediction of every word.
SINGLE = {"gtrans_fusion_tiny": {"decoder_group_size": 2}}
CASE = next(case for case in cases() if str(case) == "gtransformer_tiny-document")


def compare(
    model: Any, task: Any, sample: dict[str, Any], smoothing: float, sentence_avg: bool = False,
    ours: type[ChunkedCrossEntropy] = ChunkedCrossEntropy,
) -> dict[str, Any]:  # fmt: skip
    """Losses, gradients and logs are fairseq's; returns the shown logs."""
    found: list[Any] = []
    for kind in (ours, LabelSmoothedCrossEntropyCriterion):
        criterion = kind(task, sentence_avg, label_smoothing=smoothing, report_accuracy=True)
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
    for kind in (ChunkedCrossEntropy, MultiLevelCrossEntropy):  # there is one group
        compare(built.model.train(), built.task, sample, 0.1, ours=kind)


@pytest.fixture
def gtransformer(prepared_with_bert: Path) -> Built:
    return build(CASE, prepared_with_bert, dropout=0.0)


@pytest.mark.parametrize("sentence_avg", [False, True])
def test_the_logs_have_fairseqs_names(sentence_avg: bool, gtransformer: Built) -> None:
    model, task = gtransformer.model.train(), gtransformer.task
    logs = compare(model, task, batch_of(gtransformer), 0.0, sentence_avg)
    assert {"loss", "nll_loss", "ppl", "accuracy"} <= logs.keys()


def test_autocast_computes_in_bf16_and_counts_in_fp32(gtransformer: Built) -> None:
    model, sample = gtransformer.model, batch_of(gtransformer)
    criterion = ChunkedCrossEntropy(gtransformer.task)
    expected, _, _ = criterion(model, sample)
    model.zero_grad()
    with torch.autocast("cpu", torch.bfloat16):
        loss, _, _ = criterion(model, sample)
    loss.backward()
    assert loss.dtype == torch.float32
    torch.testing.assert_close(loss, expected, rtol=0.02, atol=0.0)
    assert all(p.grad.dtype == torch.float32 for p in model.parameters() if p.grad is not None)


def test_what_has_no_such_loss_is_refused(gtransformer: Built) -> None:
    criterion = ChunkedCrossEntropy(gtransformer.task)
    with pytest.raises(GtransError, match="but got Linear; take label_smoothed_cross_entropy"):
        criterion(torch.nn.Linear(1, 1), batch_of(gtransformer))
    with pytest.raises(ValueError, match="take label_smoothed_cross_entropy"):
        criterion(gtransformer.model, batch_of(gtransformer), reduce=False)
    with pytest.raises(GtransError, match="3 groups; take multi_level_cross_entropy"):
        criterion.check_groups(3)


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
    built = build(CASE, prepared_with_bert, dropout=0.0, share_decoder_input_output_embed=tied)
    compare(looking_for_unused(built.model.train()), built.task, batch_of(built), 0.1)
