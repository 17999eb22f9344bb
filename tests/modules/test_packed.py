"""Objects whose tensors travel in one block."""

from __future__ import annotations

import pickle

import torch
from fairseq import utils
from support.host_waits import HostWaits, pretend

from gtrans.modules.layout import DocumentLayout
from gtrans.modules.packed import moved, pack, unpack


def layout() -> DocumentLayout:
    made = DocumentLayout.of_source(torch.tensor([[5, 2, 6, 2], [7, 8, 2, 1]]), 1, 2)
    made.prepare(by_sentence=True)
    return made


def test_all_of_an_object_comes_back() -> None:
    thing = {"layout": layout(), "mask": torch.tensor([True, False]), "none": None, "n": [1, 2.5]}
    thing["again"] = thing["mask"]
    # As a data worker sends it, and as fairseq moves it to a device.
    packed = pickle.loads(pickle.dumps(pack(thing)))
    back = unpack(utils.apply_to_sample(torch.clone, packed))
    for name in ("index", "row", "sentence", "position_in_sentence", "sentence_counts"):
        assert torch.equal(getattr(back["layout"], name), getattr(thing["layout"], name)), name
    assert back["mask"].tolist() == [True, False] and back["again"] is back["mask"]
    assert back["n"] == [1, 2.5] and back["none"] is None
    assert back["layout"].sentences.sizes == [2, 2, 3]


def test_a_copy_to_the_device_is_not_waited_for_and_one_back_is() -> None:
    device = pretend(torch.zeros(1)).device
    with HostWaits() as there:
        on_device = moved(layout(), device)
    assert there.count == 0 and not on_device.index.is_cpu
    with HostWaits() as back:
        on_host = moved(on_device, torch.device("cpu"))
    assert back.count == 1 and torch.equal(on_host.index, layout().index)
    assert moved(on_host, torch.device("cpu")) is on_host
