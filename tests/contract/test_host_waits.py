"""The host never waits for the device in training, and at most twice in a decoding step.

The device is pretended (:mod:`support.host_waits`), so that this is tested without one.
"""

from __future__ import annotations

import pickle
from argparse import Namespace
from collections.abc import Callable, Container
from typing import Any

import pytest
import torch
from fairseq import utils
from fairseq.criterions import CRITERION_REGISTRY
from fairseq.sequence_generator import SequenceGenerator
from omegaconf import OmegaConf
from support.contract import WITH_BERT, Built, Case, batch_of, build, cases, sources_of
from support.host_waits import HostWaits, pretend
from support.suites import others_long

from gtrans.modules.group_attention import BACKENDS

# Random numbers of the two devices would differ.
NO_DROPOUT = {"dropout": 0.0, "attention_dropout": 0.0, "activation_dropout": 0.0}


# Of which make test tries the waits: documents, layer fusion, and a BERT.
TRIED = {"gtransformer_tiny-document", "gtrans_fusion_tiny-sentence", str(WITH_BERT)}


def tried(always: Container[str]) -> list[Any]:
    return others_long(cases(), [case for case in cases() if str(case) in always])


def with_plan(built: Built) -> dict[str, Any]:
    """A batch as a data worker makes it, on its way to the device."""
    batch = batch_of(built)
    plan = pickle.loads(pickle.dumps(built.model.planner))(batch["net_input"])
    plan = utils.apply_to_sample(torch.clone, plan)  # as fairseq moves it to the device
    batch["net_input"] = built.task.complete_input(batch["net_input"]) | {"plan": plan}
    return batch


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
    with HostWaits() as waits:
        WAITING[name](pretend(torch.randn(3, 4)))
    assert waits.count == 1, waits.places
    assert waits.within("tests/contract/test_host_waits.py") == 1  # the place is named


@pytest.mark.parametrize("case", tried(TRIED))
def test_training_does_not_wait(case: Case, prepared_with_bert):
    built = build(case, prepared_with_bert, **NO_DROPOUT)
    built.model.train()
    expected = loss_of(built, with_plan(built))
    norm = torch.stack([p.grad.norm() for p in built.model.parameters() if p.grad is not None])
    with HostWaits():
        pretend(built.model)
    for backend in BACKENDS:
        built.model.use_backend(backend)
        batch = pretend(with_plan(built))
        with HostWaits() as waits:
            loss = loss_of(built, batch)
        assert waits.count == 0, (backend, waits.places)
        # Buckets of other shapes than on the CPU, which change nothing.
        torch.testing.assert_close(loss.held, expected, rtol=1e-5, atol=0)
        grads = [p.grad.held.norm() for p in built.model.parameters() if p.grad is not None]
        torch.testing.assert_close(torch.stack(grads), norm, rtol=1e-4, atol=1e-4)
    dropping = build(case, prepared_with_bert)
    with HostWaits():
        pretend(dropping.model.train())
    batch = pretend(with_plan(dropping))
    unplanned = {**batch, "net_input": {**batch["net_input"], "plan": None}}
    for sample, expected_waits in ((batch, 0), (unplanned, 1)):
        with HostWaits() as waits:
            loss_of(dropping, sample)
        assert waits.count == expected_waits, waits.places


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


def steps_and_waits(built: Built, words: int, **further: Any) -> tuple[int, HostWaits]:
    """A search that writes that many words in every sentence."""
    task, model = built.task, built.model
    options = {"beam": 2, "max_len_a": 0, "max_len_b": words, "min_len": words, "nbest": 1}
    generator = task.build_generator([model], Namespace(**options, **further))
    source, counts, _ = sources_of(built)
    source = pretend(task.complete_input(source))
    steps = Steps(model)
    with HostWaits() as waits:
        generator.search.search([steps], source, counts)
    return steps.count, waits


class Steps:
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
    with HostWaits():
        pretend(built.model)
    # What the beginning and the end of a document cost is the same in both.
    (few, before), (many, after) = (
        steps_and_waits(built, words, no_repeat_ngram_size=3) for words in (3, 7)
    )
    assert many > few
    assert after.count - before.count <= 2 * (many - few), after.places - before.places


def test_a_free_search_waits_twice_at_most(prepared_with_bert):
    case = next(case for case in cases() if str(case) == "gtransformer_tiny-document")
    built = build(case, prepared_with_bert, doc_mode="full", sentence_marks="document")
    built.model.eval()
    with HostWaits():
        pretend(built.model)
    (few, before), (many, after) = (steps_and_waits(built, words, free=True) for words in (3, 7))
    assert many > few
    assert after.count - before.count <= 2 * (many - few), after.places - before.places


def test_a_step_of_fairseqs_search_waits_twice_at_most_in_our_models(prepared_with_bert):
    case = next(case for case in cases() if str(case) == "gtransformer_tiny-sentence")
    built = build(case, prepared_with_bert)
    net_input = batch_of(built)["net_input"]
    del net_input["prev_output_tokens"]

    def waits_of(words: int) -> HostWaits:
        generator = SequenceGenerator(
            [built.model], built.task.target_dictionary, beam_size=2, max_len_b=words, min_len=words
        )
        with HostWaits() as waits:
            generator.generate([built.model], {"net_input": pretend(net_input)})
        return waits

    with HostWaits():
        pretend(built.model)
    before, after = waits_of(4), waits_of(12)
    assert after.within("gtrans/") - before.within("gtrans/") <= 2 * 8, after.places - before.places
