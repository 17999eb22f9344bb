"""Operations of a search step and of an update, and how often the host waits for the device.

It never waits in training, and at most twice in a decoding step. The device is pretended
(``scripts/benchmarks/counting.py``), so that this is tested without one.
"""

from __future__ import annotations

import pickle
import sys
from argparse import Namespace
from collections.abc import Callable, Container
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch
from fairseq import utils
from fairseq.criterions import CRITERION_REGISTRY
from fairseq.sequence_generator import SequenceGenerator
from omegaconf import OmegaConf
from support.contract import WITH_BERT, Built, Case, batch_of, build, cases, sources_of
from support.folders import SCRIPTS
from support.suites import others_long
from torch.utils.data._utils.pin_memory import pin_memory

from gtrans.modules.group_attention import BACKENDS, with_tensors
from gtrans.modules.transformer import MultiheadAttention
from gtrans.search import document_search

sys.path.insert(0, str(SCRIPTS / "benchmarks"))
from counting import OperationCounter, pretend

# Random numbers of the two devices would differ.
NO_DROPOUT = {"dropout": 0.0, "attention_dropout": 0.0, "activation_dropout": 0.0}


# Of which make test tries the waits: documents, layer fusion, and a BERT.
TRIED = {"gtransformer_tiny-document", "gtrans_fusion_tiny-sentence", str(WITH_BERT)}


def tried(always: Container[str]) -> list[Any]:
    return others_long(cases(), [case for case in cases() if str(case) in always])


def with_plan(built: Built) -> dict[str, Any]:
    """A batch as a data worker makes it, on its way to the device."""
    batch = batch_of(built)
    plan = pickle.loads(pickle.dumps(built.model.planner)).batch(batch["net_input"])
    batch["net_input"] = built.task.complete_input(batch["net_input"]) | {"plan": plan}
    return utils.apply_to_sample(torch.clone, batch)  # as fairseq moves it to the device


def criterion_of(built: Built) -> Any:
    groups = built.model.decoder.probabilities is not None
    criterion = CRITERION_REGISTRY[
        "multi_level_cross_entropy" if groups else "chunked_cross_entropy"
    ]
    cfg = OmegaConf.structured(criterion.__dataclass)
    cfg.label_smoothing, cfg.sentence_avg = 0.1, False
    return criterion.build_criterion(cfg, built.task)


def loss_of(built: Built, batch: dict[str, Any]) -> torch.Tensor:
    """Loss and gradients of a batch whose plan has arrived."""
    built.model.zero_grad()
    loss: torch.Tensor = criterion_of(built)(built.model, batch)[0]
    loss.backward()
    return loss.detach()


# The counter sees what it is for: otherwise the tests below would be true of anything.
WAITING: dict[str, Callable[[torch.Tensor], object]] = {
    "item": lambda x: x.sum().item(),
    "tolist": lambda x: x.tolist(),
    "numpy": lambda x: x.numpy(),
    "bool": lambda x: bool(x.sum() > 0),
    "nonzero": lambda x: x.nonzero(),
    "mask": lambda x: x[x > 0],
    "assigned by a mask": lambda x: x.__setitem__(x > 0, 0.0),
    "list": lambda x: x[[0, 1]],
    "unique": lambda x: torch.unique(x),
    "to the host": lambda x: x.cpu(),
    "equal": lambda x: torch.equal(x, x),
    "repeat": lambda x: torch.repeat_interleave(x[:, 0], (x[:, 0] > 0).long()),
    "tensor of a list": lambda x: torch.tensor([1.0, 2.0], device=x.device),
    "to the device": lambda x: torch.ones(2).to(x.device, non_blocking=True),
}


@pytest.mark.parametrize("name", WAITING)
def test_it_waits(name: str) -> None:
    with OperationCounter() as waits:
        WAITING[name](pretend(torch.randn(3, 4)))
    assert waits.waits == 1, waits.places
    assert waits.within("tests/contract/test_operations.py") == 1  # the place is named


def test_a_data_loader_pins_all_of_a_plan(prepared_with_bert: Path) -> None:
    built = build(Case("gtransformer_tiny", "document"), prepared_with_bert)
    plan = built.model.planner.batch(batch_of(built)["net_input"])
    tensors: list[torch.Tensor] = []

    def collect(tensor: torch.Tensor) -> torch.Tensor:
        tensors.append(tensor)
        return tensor

    with OperationCounter():
        with_tensors(pin_memory(plan), collect)
    assert len(tensors) > 10
    for tensor in tensors:
        on_cuda = torch.cuda.is_available() and tensor.is_pinned()
        assert on_cuda or getattr(tensor, "_gtrans_pinned", False)


@pytest.mark.parametrize("case", tried(TRIED))
def test_training_does_not_wait(case: Case, prepared_with_bert):
    built = build(case, prepared_with_bert, **NO_DROPOUT)
    built.model.train()
    expected = loss_of(built, with_plan(built))
    norm = torch.stack([p.grad.norm() for p in built.model.parameters() if p.grad is not None])
    with OperationCounter():
        pretend(built.model)
    for backend in BACKENDS:
        built.model.use_backend(backend)
        batch = pretend(with_plan(built))
        with OperationCounter() as waits:
            loss = loss_of(built, batch)
        assert waits.waits == 0, (backend, waits.places)
        # Buckets of other shapes than on the CPU, which change nothing.
        torch.testing.assert_close(loss.held, expected, rtol=1e-5, atol=0)
        grads = [p.grad.held.norm() for p in built.model.parameters() if p.grad is not None]
        torch.testing.assert_close(torch.stack(grads), norm, rtol=1e-4, atol=1e-4)
    dropping = build(case, prepared_with_bert)
    with OperationCounter():
        pretend(dropping.model.train())
    batch = pretend(with_plan(dropping))
    unplanned = {**batch, "net_input": {**batch["net_input"], "plan": None}}
    for sample, expected_waits in ((batch, 0), (unplanned, 1)):
        with OperationCounter() as waits:
            loss_of(dropping, sample)
        assert waits.waits == expected_waits, waits.places


def test_a_batch_of_a_training_set_is_translated(prepared_with_bert):
    """As in validation with translations; its plan is also one of the reference."""
    case = next(case for case in cases() if str(case) == "gtransformer_tiny-document")
    built = build(case, prepared_with_bert)
    task, model = built.task, built.model
    options = {"beam": 2, "max_len_a": 0, "max_len_b": 4, "min_len": 1, "nbest": 1}
    generator = task.build_generator([model], Namespace(**options))
    written = []
    for batch in (batch_of(built), with_plan(built)):
        batch["first_sentence"] = torch.arange(batch["target"].size(0)) * 10
        found = task.inference_step(generator, [model], batch)
        written.append([best[0]["tokens"].tolist() for best in found])
    assert written[0] == written[1] and len(written[0]) == 6


def searched(
    built: Built, words: int, beam: int = 2, copies: int = 1, **further: Any
) -> tuple[int, OperationCounter]:
    """Steps and operations of a search that writes that many words in every sentence.

    ``copies``: how often every document is in the batch.
    """
    task, model = built.task, built.model
    options = {"beam": beam, "max_len_a": 0, "max_len_b": words, "min_len": words, "nbest": 1}
    generator = task.build_generator([model], Namespace(**options, **further))
    source, counts, _ = sources_of(replace(built, documents=built.documents * copies))
    source = pretend(task.complete_input(source))
    steps = StepCountingModel(model)
    with OperationCounter() as waits:
        generator.search.search([steps], source, counts)
    return steps.count, waits


class StepCountingModel:
    """A model that counts the steps of its searches."""

    def __init__(self, model: Any) -> None:
        self._model, self.count = model, 0

    def decode_step(self, *arguments: Any) -> Any:
        self.count += 1
        return self._model.decode_step(*arguments)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._model, name)


@pytest.mark.parametrize(
    "case",
    tried({
        "gtransformer_tiny-document", "memory_transformer_tiny-stream",
        "gtrans_fusion_tiny-sentence",
    }),
)  # fmt: skip
def test_a_step_of_a_search_waits_twice_at_most(case: Case, prepared_with_bert):
    built = build(case, prepared_with_bert)
    built.model.eval()
    with OperationCounter():
        pretend(built.model)
    # What the beginning and the end of a document cost is the same in both.
    (few, before), (many, after) = (
        searched(built, words, no_repeat_ngram_size=3) for words in (3, 7)
    )
    assert many > few
    assert after.waits - before.waits <= 2 * (many - few), after.places - before.places


# Waits for the beginning and the end of a search.
OF_A_BATCH = 16


@pytest.mark.parametrize("case", ["gtransformer_tiny-document", "gtransformer_tiny-sentence"])
def test_a_batch_waits_for_its_steps_alone(case: str, prepared_with_bert: Path) -> None:
    """However many documents, sentences and hypotheses it has, from its beginning to its end."""
    built = build(next(one for one in cases() if str(one) == case), prepared_with_bert)
    built.model.eval()
    with OperationCounter():
        pretend(built.model)
    for beam, copies in ((1, 1), (4, 1), (4, 5)):
        steps, counter = searched(built, 4, beam, copies)
        assert counter.waits <= 2 * steps + OF_A_BATCH, (beam, copies, counter.places)


def test_rows_that_linger_change_nothing(
    prepared_with_bert: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """On a GPU the rows of ended documents stay for a while: the translations are the same."""
    found = []
    for share in (0.0, 1.0):
        monkeypatch.setattr(document_search, "_SHARE_TO_DROP", share)
        for options in ({}, {"sentence_marks": "end", "positions": "sentence"}):
            case = next(one for one in cases() if str(one) == "gtransformer_tiny-document")
            built = build(case, prepared_with_bert, **options)
            built.model.eval()
            with OperationCounter():
                pretend(built.model)
            settings = Namespace(beam=3, max_len_a=0, max_len_b=9, nbest=1, no_repeat_ngram_size=2)
            generator = built.task.build_generator([built.model], settings)
            source, counts, _ = sources_of(built)
            with OperationCounter():
                rows = generator.search.search([built.model], pretend(source), counts)
            found.append([hypothesis for row in rows for hypothesis in row])
    for dropped, lingering in zip(found[:2], found[2:], strict=True):
        assert [h.tokens for h in lingering] == [h.tokens for h in dropped]
        for one, other in zip(lingering, dropped, strict=True):
            assert one.scores == pytest.approx(other.scores, abs=1e-5)


def test_new_keys_are_the_same_in_one_copy_as_in_two() -> None:
    """On a GPU a step copies new keys and values at once: to the last bit what two copies give."""
    documents, beam, dim = 3, 2, 16
    attention = MultiheadAttention(dim, heads=2)
    torch.nn.init.normal_(attention.k_proj.bias)
    torch.nn.init.normal_(attention.v_proj.bias)
    key, value = torch.randn(2, documents * beam, dim)
    held = torch.zeros(2, documents, 7, dim)
    # As modules that are no `Linear` of ours do, which a CPU has in place of this.
    k = torch.nn.functional.linear(key, attention.k_proj.weight, attention.k_proj.bias)
    v = torch.nn.functional.linear(value, attention.v_proj.weight, attention.v_proj.bias)
    with torch.no_grad(), OperationCounter() as counter:
        columns = pretend(held)[:, :, -beam:]
        pretend(attention).write_keys(pretend(key), pretend(value), columns)
    assert counter.operations["copy_"] == 1
    written = held[:, :, -beam:].reshape(2, documents * beam, dim)
    assert torch.equal(written[0], k)
    assert torch.equal(written[1], v)
    assert not held[:, :, :-beam].any()


def test_a_free_search_waits_twice_at_most(prepared_with_bert):
    case = next(case for case in cases() if str(case) == "gtransformer_tiny-document")
    built = build(case, prepared_with_bert, doc_mode="full", sentence_marks="document")
    built.model.eval()
    with OperationCounter():
        pretend(built.model)
    (few, before), (many, after) = (searched(built, words, free=True) for words in (3, 7))
    assert many > few
    assert after.waits - before.waits <= 2 * (many - few), after.places - before.places


def test_a_step_of_fairseqs_search_waits_twice_at_most_in_our_models(prepared_with_bert):
    case = next(case for case in cases() if str(case) == "gtransformer_tiny-sentence")
    built = build(case, prepared_with_bert)
    net_input = batch_of(built)["net_input"]
    del net_input["prev_output_tokens"]

    def waits_of(words: int) -> OperationCounter:
        generator = SequenceGenerator(
            [built.model], built.task.target_dictionary, beam_size=2, max_len_b=words, min_len=words
        )
        with OperationCounter() as waits:
            generator.generate([built.model], {"net_input": pretend(net_input)})
        return waits

    with OperationCounter():
        pretend(built.model)
    before, after = waits_of(4), waits_of(12)
    assert after.within("gtrans/") - before.within("gtrans/") <= 2 * 8, after.places - before.places


def operations(case: Case, data: Path) -> tuple[float, int]:
    """Operations of a step of a search, its beginning and end included, and of an update."""
    built = build(case, data, **NO_DROPOUT)
    built.model.train()
    batch = with_plan(built)
    with OperationCounter(on_host=True) as update:
        loss_of(built, batch)
    built.model.eval()
    with OperationCounter():
        pretend(built.model)
    steps, counter = searched(built, 20, beam=4)
    return counter.count / steps, update.count


# Operations of a step and of an update at most.
OPERATIONS = {
    "gtransformer_tiny-document": (95, 546),
    "gtransformer_tiny-sentence": (70, 365),
    "gtransformer_tiny-window-both": (96, 563),
    "gtransformer_tiny-window-source": (70, 365),
    "memory_transformer_tiny-stream": (91, 1228),
    "memory_transformer_tiny-sentence": (86, 973),
    "gtransformer_memory_tiny-stream": (100, 1183),
    "gtransformer_memory_tiny-document": (100, 1183),
    "gtransformer_memory_tiny-sentence": (76, 931),
    "han_transformer_tiny-window-history": (105, 741),
    "han_transformer_tiny-sentence": (79, 373),
    "gtransformer_bert_tiny-document": (95, 545),
    "gtransformer_bert_tiny-sentence": (70, 367),
    "document_aware_transformer_tiny-window-source": (94, 688),
    "document_aware_transformer_tiny-sentence": (94, 651),
    "concat_transformer_tiny-window-both": (68, 365),
    "concat_transformer_tiny-window-source": (70, 365),
    "concat_transformer_tiny-sentence": (70, 365),
    "flat_transformer_tiny-window-source": (71, 371),
    "flat_transformer_tiny-sentence": (70, 365),
    "flat_transformer_bert-window-source": (71, 380),
    "flat_transformer_bert-sentence": (70, 367),
    "gtrans_fusion_tiny-sentence": (80, 417),
    "gtrans_fusion_tiny-window-source": (80, 417),
    "gtrans_fusion_tiny-window-both": (79, 417),
    "gtrans_fusion_tiny-document": (78, 407),
    "bert_context_transformer_tiny-window-source": (93, 577),
}


@pytest.mark.parametrize("case", tried(TRIED))
def test_operations_stay_few(case: Case, prepared_with_bert: Path) -> None:
    """A new system gets a line in the table: the numbers that this test shows."""
    per_step, update = operations(case, prepared_with_bert)
    most_per_step, most_of_update = OPERATIONS[str(case)]
    # Another version of torch may have a few more.
    assert per_step <= most_per_step + 3, per_step
    assert update <= 1.02 * most_of_update, update
