"""Streams: which sentences are read when and by whom, and the memory in between."""

from __future__ import annotations

from itertools import chain
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from support.streams import COUNTS, MODELS, World, dataset_of, stream_task
from torch import Tensor

from gtrans.data.stream import StreamRun, stream_windows
from gtrans.data.units import document_units
from gtrans.errors import GtransError
from gtrans.modules.memory import MemoryFlow

# ---- windows -------------------------------------------------------------------------------------


@given(
    st.lists(st.integers(1, 9), min_size=1, max_size=12),
    st.integers(1, 4),
    st.integers(1, 3),
    st.integers(0, 5),
    st.integers(2, 30),
)
def test_every_sentence_is_read_once_in_the_order_of_its_document(
    counts, streams, tracks, length, most
):
    queue = list(reversed(range(len(counts))))

    def fits(runs: Any) -> bool:
        return sum(run.count for run in runs) <= most

    windows = stream_windows(counts, queue, streams, tracks, lambda: length, fits)
    assert len(windows) == streams
    owner: dict[int, int] = {}
    read: dict[int, list[int]] = {}
    for stream, of_stream in enumerate(windows):
        for window in of_stream:
            assert window and all(fits(part) or len(part) <= tracks for part in window)
            assert not length or sum(run.count for part in window for run in part) <= (
                tracks * length
            )
            for run in chain.from_iterable(window):
                assert owner.setdefault(run.document, stream) == stream
                read.setdefault(run.document, []).extend(
                    range(run.position, run.position + run.count)
                )
    assert read == {document: list(range(count)) for document, count in enumerate(counts)}


def test_tracks_advance_in_step_and_the_next_document_begins_where_one_ends():
    (windows,) = stream_windows([3, 2, 5], [0, 1, 2], 1, 2, lambda: 2, lambda runs: True)
    assert windows == [
        [[StreamRun(0, 0, 2), StreamRun(1, 0, 2)]],
        [[StreamRun(0, 2, 1), StreamRun(2, 0, 1)]],  # the second track has no document left
        [[StreamRun(2, 1, 2)]],
        [[StreamRun(2, 3, 2)]],
    ]


def test_accumulated_batches_are_those_of_as_many_workers():
    def batches(workers: int, update_freq: int) -> list[list[list[int]]]:
        dataset = dataset_of()
        dataset.arrange(workers, update_freq)
        return dataset.batch_by_size(np.arange(len(COUNTS)), max_sentences=2)

    two = batches(1, 2)
    assert two == [batch for batch in batches(2, 1) if batch]
    assert len(two) > 4


# ---- the dataset ---------------------------------------------------------------------------------


def test_batches_hold_the_sentences_of_their_runs():
    dataset = dataset_of()
    for indices in dataset.batch_by_size(dataset.ordered_indices(), max_sentences=3):
        batch = dataset.collater([dataset[index] for index in indices])
        rows = zip(batch["runs"], batch["net_input"]["src_tokens"], strict=True)
        for (document, position, count), row in rows:
            first = sum(COUNTS[:document]) + document + position
            found = dataset.examples.frame.sentences(row)
            assert [part.tolist() for part in found] == [
                line.tolist() for line in dataset.source[first : first + count]
            ]
        assert isinstance(batch["stream"], int)


def test_a_batch_keeps_to_the_tokens_allowed():
    dataset = dataset_of(2, 9)
    sizes = []
    for indices in dataset.batch_by_size(np.arange(len(COUNTS)), 60, max_sentences=4):
        batch = dataset.collater([dataset[index] for index in indices])
        parts = batch.get("parts", [batch])
        sizes += [part["net_input"]["src_tokens"].numel() for part in parts]
    assert max(sizes) <= 60 < 2 * max(sizes)


def test_limits_that_leave_the_memory_untrained_are_refused():
    """Single steps of every document: nothing that is written is read with a gradient."""
    for steps in ("sentences", "instances"):
        dataset = dataset_of(steps=steps)
        with pytest.raises(GtransError, match="`--max-tokens` 1 with .* two " + steps):
            dataset.batch_by_size(np.arange(len(COUNTS)), 1, max_sentences=4)


@pytest.mark.parametrize(("least", "most"), [(2, 2), (6, 6), (1, 0)])
def test_what_an_update_accumulates_is_the_window(least, most):
    """With the number of documents given, longer windows make larger updates (figure 5)."""

    def updates(max_tokens: int | None) -> list[list[tuple[int, int]]]:
        dataset = dataset_of(least, most)
        batches = dataset.batch_by_size(np.arange(len(COUNTS)), max_tokens, max_sentences=2)
        runs = [[dataset[index]["run"] for index in batch] for batch in batches]
        return [[(d, p + n) for d, p, count in of for n in range(count)] for of in runs]

    for max_tokens in (None, 20):
        first, second, *_ = updates(max_tokens)
        if most:
            assert len(first) == len(second) == 2 * most
        else:
            assert (len(first), len(second)) == (COUNTS[0] + COUNTS[1], COUNTS[2] + COUNTS[3])


def test_every_epoch_has_windows_of_its_own_and_has_them_again():
    dataset = dataset_of(1, 6)

    def windows(epoch: int) -> list[tuple[int, int, int]]:
        dataset.set_epoch(epoch)
        dataset.batch_by_size(np.arange(len(COUNTS)), max_sentences=2)
        return [dataset[index]["run"] for index in range(len(dataset))]

    first = windows(1)
    assert windows(2) != first
    assert windows(1) == first


@pytest.mark.parametrize("memory_size", [0, 2])
def test_a_window_read_in_parts_has_the_gradient_of_the_window(memory_size):
    gradients = []
    for max_tokens in (None, 20):
        world = World(least=1, most=0, memory_size=memory_size)
        batches = world.dataset.batch_by_size(np.arange(len(COUNTS)), max_tokens, max_sentences=2)
        batch = world.dataset.collater([world.dataset[index] for index in batches[0]])
        assert ("parts" in batch) == (max_tokens is not None)
        world.batches = [batch]
        world.step(0)
        found = {name: p.grad for name, p in world.model.named_parameters() if p.grad is not None}
        gradients.append(found)
    whole, in_parts = gradients
    assert whole.keys() == in_parts.keys()
    for name, gradient in in_parts.items():
        # No gradient flows from the first sentence of a part to what wrote its memory.
        if not memory_size or name == "decoder.output_projection.weight":
            torch.testing.assert_close(gradient, whole[name], rtol=1e-4, atol=1e-5)


# ---- chunks -----------------------------------------------------------------------------------


def test_runs_of_chunks_are_those_of_the_document_unit():
    """Every chunk is a part of one row, in order."""
    dataset = dataset_of(steps="instances")
    task = stream_task("instances")
    task.cfg.unit = "document"
    of_documents = document_units(*dataset.line_sizes, task.examples.unit, "text").lines[:, 0]
    seen = []
    for epoch in (1, 2, 1):
        dataset.set_epoch(epoch)
        found: list[range] = []
        for indices in dataset.batch_by_size(np.arange(len(COUNTS)), max_sentences=3):
            batch = dataset.collater([dataset[index] for index in indices])
            chunks = batch["net_input"]["chunks"].tolist()
            for index, (_, _, count), sizes in zip(indices, batch["runs"], chunks, strict=True):
                line = int(dataset.units.lines[index, 0, 0])
                assert [size > 0 for size in sizes] == [n < count for n in range(len(sizes))]
                for size in sizes[:count]:
                    found.append(range(line, line + size))
                    line += size
        seen.append(sorted(found, key=lambda lines: lines.start))
        tokens = [dataset.examples.unit.max_doc_tokens] * len(found)
        costs = [sum(len(dataset.source[n]) + 1 for n in lines) for lines in found]
        assert all(cost <= most for cost, most in zip(costs, tokens, strict=True))
    usual = [range(*ends) for ends in of_documents.tolist()]
    assert seen == [usual, usual, usual]


# ---- memory in flight ----------------------------------------------------------------------------


def exact(world: World, number: int) -> Tensor | None:
    """The memory that enters a batch, by reading each document from its beginning."""
    entering = []
    for run in (StreamRun(*run) for run in world.batches[number]["runs"]):
        if run.position:
            before, flow = world.dataset.input_before(run), MemoryFlow()
            world.model.read(before, flow)
            entering.append(flow.stacked_leaving[0])
        else:
            entering.append(torch.zeros(2, 16, 8))
    whole = torch.stack(entering)
    return whole if any(run[1] for run in world.batches[number]["runs"]) else None


def check(world: World, number: int) -> None:
    wanted, found = exact(world, number), world.entering()
    if wanted is None:
        assert found is None
    else:
        assert found is not None
        torch.testing.assert_close(found, wanted)


@pytest.mark.parametrize("steps", MODELS)
def test_memory_goes_from_window_to_window_and_starts_fresh_with_a_document(steps):
    world = World(steps=steps)
    for number in range(len(world.batches)):
        world.step(number)
        check(world, number)
    flows = [flow for flow in world.criterion.seen if flow is not None]
    carried = [flow.entering for flow in flows if flow.entering is not None]
    assert len(carried) > 2 and not any(memory.requires_grad for memory in carried)


@pytest.mark.parametrize("steps", MODELS)
def test_after_a_resume_the_document_is_read_again(monkeypatch, steps):
    world = World(steps=steps)
    read: list[int] = []
    original = world.dataset.input_before
    monkeypatch.setattr(
        world.dataset, "input_before", lambda run: (read.append(1), original(run))[1]
    )
    world.step(0)
    assert not read
    for number in range(2, len(world.batches)):  # batch 1 was before the stop
        world.step(number)
        so_far = len(read)
        check(world, number)
        del read[so_far:]
    assert 0 < len(read) <= 2  # once for each row, then memory is in flight again


def test_tried_again_dummy_and_failed_batches_are_no_progress():
    world = World()
    world.step(0)
    for _ in range(2):  # the same batches of one update, several times
        world.step(1, update=1)
        check(world, 1)
        world.step(2, update=1)
        check(world, 2)
    world.step(0, update=2, ignore_grad=True)
    assert world.criterion.seen[-1] is None
    world.criterion.fail = True
    with pytest.raises(RuntimeError):
        world.step(3, update=2)
    world.criterion.fail = False
    for number in (4, 5):  # batch 3 is lost, and its documents go on all the same
        world.step(number)
        check(world, number)


def test_validation_leaves_the_memories_of_training_alone():
    world = World()
    world.step(0)
    entering = world.criterion.seen
    for batch in world.batches:
        world.task.valid_step(batch, world.model, world.criterion)
    # With what training has left, nothing had to be read again.
    read: list[int] = []
    original = world.dataset.input_before
    world.dataset.input_before = lambda run: (read.append(1), original(run))[1]
    world.step(1)
    assert not read and entering[-1] is not None and entering[-1].entering is not None
    check(world, 1)
