"""Count how often the host waits for the GPU, in a training update and in a decoding step.

    python scripts/count_waits.py [--device cpu] [--out FILE]

Counted are the calls of CUDA that wait, as torch's profiler sees them; without a GPU the waits that
tests/support/host_waits.py finds on a pretended one. What is done for the first time is not
counted. The status is 1 if there are more waits than there should be.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import torch
from torch.profiler import ProfilerActivity, profile

sys.path.insert(0, str(Path(__file__).resolve().parent / "benchmarks"))
sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "tests"))

import measuring  # of scripts/benchmarks
from documents import dictionary_of, document_batches, documents_of
from support.host_waits import HostWaits, pretend
from systems import BEAM, Endless, gtransformer, marks_of

from gtrans.criterions.chunked_cross_entropy import ChunkedCrossEntropy
from gtrans.decoding.document_search import DocumentSearch
from gtrans.decoding.options import SearchOptions

_CALLS = ("cudaStreamSynchronize", "cudaDeviceSynchronize", "cudaEventSynchronize")
_WORDS = 64
BARS = {"waits of forward and backward": 0, "waits of a decoding step": 2}


class _Steps(Endless):
    """A model that counts the steps of its searches."""

    count = 0

    def decode_step(self, *arguments: Any, **named: Any) -> torch.Tensor:
        """As the model does."""
        self.count += 1
        return super().decode_step(*arguments, **named)


def waits(work: Callable[[], object], device: measuring.Device) -> Counter[str]:
    """How often ``work`` waits, by the name of the call or the line of the program."""
    if device.name == "cpu":
        with HostWaits() as found:
            work()
        return Counter(found.places)
    # The profiler waits itself when it ends.
    return _calls(work) - _calls(lambda: None)


def _calls(work: Callable[[], object]) -> Counter[str]:
    torch.cuda.synchronize()
    with profile(activities=[ProfilerActivity.CPU, ProfilerActivity.CUDA]) as recorded:
        work()
    return Counter(event.name for event in recorded.events() if event.name in _CALLS)


def place(thing: Any, device: measuring.Device) -> Any:
    """A batch or a model on the device, or on the pretended one."""
    if isinstance(thing, torch.nn.Module):
        thing = device.model(thing)
    if device.name != "cpu":
        return device.place(thing)
    with HostWaits():
        return pretend(thing)


def count(device: measuring.Device, backend: str) -> dict[str, Any]:
    """The waits of forward and backward pass, and of a decoding step."""
    size = measuring.SIZES["small"]
    dictionary = dictionary_of(size)
    model = gtransformer(
        size, dictionary, attention_backend=backend,
        encoder_global_layers=1, decoder_global_layers=1, cross_global_layers=1,
    )  # fmt: skip
    batch = document_batches(documents_of(_WORDS, 1, dictionary), dictionary, 1)[0]
    source = batch["net_input"]["src_tokens"]
    # As a data worker makes it, with the plan.
    batch["net_input"]["plan"] = model.planner(batch["net_input"])
    model, batch = place(model, device), place(batch, device)
    criterion = ChunkedCrossEntropy(
        SimpleNamespace(target_dictionary=dictionary), label_smoothing=0.1
    )

    def passes() -> None:
        criterion(model, batch)[0].backward()

    model.train()
    waits(passes, device)
    training = waits(passes, device)
    model.zero_grad()
    model.eval()
    few, many = (_of_search(model, dictionary, source, words, device) for words in (3, 7))
    # What the beginning and the end of a document cost is the same in both.
    decoding, steps = many[0].total() - few[0].total(), many[1] - few[1]
    return {
        "backend": backend,
        "forward and backward": dict(training),
        "waits of forward and backward": training.total(),
        "waits of a decoding step": round(decoding / steps, 2),
    }


def _of_search(
    model: Any, dictionary: Any, source: torch.Tensor, words: int, device: measuring.Device
) -> tuple[Counter[str], int]:
    """Waits and steps of a search that writes ``words`` words in every sentence."""
    ends = source[0].eq(dictionary.eos()).nonzero().flatten()
    counts = (ends.diff(prepend=ends.new_tensor([-1])) - 2).tolist()
    search = DocumentSearch(
        marks_of(dictionary)[1], SearchOptions(beam=BEAM, max_len_a=0, max_len_b=words)
    )
    net_input = {"src_tokens": place(source, device)}

    def write(written: _Steps) -> None:
        search.search([written], net_input, [counts])

    waits(lambda: write(_Steps(model, dictionary)), device)
    steps = _Steps(model, dictionary)
    return waits(lambda: write(steps), device), steps.count


def main() -> int:
    """Count, print and write; the exit status."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--device", choices=("cpu", "cuda-bf16"), default="cuda-bf16")
    parser.add_argument("--out", type=Path, metavar="FILE", help="write the numbers as JSON")
    args = parser.parse_args()
    measuring.prepare_process()
    device = measuring.DEVICES[args.device]
    backends = ("regroup", "auto") if device.name == "cuda" else ("regroup",)
    rows = [count(device, backend) for backend in backends]
    for row in rows:
        print("  ".join(f"{key}: {value}" for key, value in row.items()))
    if args.out is not None:
        args.out.write_text(json.dumps(rows, indent=2) + "\n", encoding="utf-8")
    above = [f"{name} with {row['backend']}: {row[name]}, but should be at most {bar}"
             for row in rows for name, bar in BARS.items() if row[name] > bar]  # fmt: skip
    for line in above:
        print(line)
    return int(bool(above))


if __name__ == "__main__":
    sys.exit(main())
